"""Files of any size to a store: edges and attributes are streamed, and sorted on disk.

Edges are parsed in chunks, their ids replaced by positions and handed to the
:class:`~hencler._edge_sort.EdgeSorter`. What stays in memory is the ids, 8 bytes a node where they
are integers and some 150 where they are text, the degrees, and a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._edge_sort import DEFAULT_MEMORY, EdgeSorter, same_in_both_directions
from ._errors import (
    AttributeDataError,
    FileFormatError,
    GraphError,
    HenclerError,
    MissingExtraError,
    ParameterError,
)
from ._optional import optional_import
from ._store import NpyWriter, _write_csr, finish_store, new_folder
from .io._assemble import check_weights
from .io._bipartite import check_directed, ordered_ids, split_sides
from .io._columns import ID_NAMES, SIDES, find_column, label_column, raise_no_label
from .io._edge_list import edge_layout
from .io._files import PathLike, existing_file, guarded
from .io._ids import INTEGER, check_id, check_unique, natural, plain_id
from .io._node_table import TABLE_SUFFIXES, read_table
from .io._parquet import (
    EdgeColumns,
    edge_columns,
    open_parquet,
    parquet_column,
    parquet_numbers,
)
from .io._text import (
    DELIMITERS,
    arrow_options,
    data_line,
    first_rows,
    is_number,
    parse_number,
    text_rows,
)

__all__ = ["convert"]

_ROWS = 1 << 20
"""Edges, or entries of attributes, taken in one go."""

_EDGE_SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".npy")


def convert(
    edges: PathLike,
    out: PathLike,
    *,
    features: PathLike | None = None,
    label: str | None = None,
    directed: bool | None = None,
    bipartite: bool = False,
    dtype: str = "float32",
    memory: int = DEFAULT_MEMORY,
) -> Path:
    """See :func:`hencler.io.convert`; `memory` is for sorting, beside the ids and degrees."""
    if dtype not in ("float32", "float16"):
        raise ParameterError(f"dtype={dtype!r} is unknown", remedy="Use 'float32' or 'float16'")
    if features is None and label is not None:
        raise ParameterError(
            f"label={label!r} was given, but an edge list has no node columns",
            place=str(edges),
            remedy="Give the table of nodes as features, too",
        )
    source = existing_file(edges, _EDGE_SUFFIXES, "edges")
    if bipartite:
        check_directed(directed)
        directed = True
    with new_folder(out) as folder:
        nodes = None if features is None else _write_features(features, label, folder, dtype)
        sorter = _sorted(source, nodes, folder, directed, bipartite, memory)
        written = sorter.write(folder)
        undirected = sorter.undirected
        if directed is None:
            undirected = _symmetric(folder)
        finish_store(
            folder,
            directed=not undirected,
            self_loops=written.self_loops,
            name=source.stem,
            attribute_names=None if nodes is None else nodes.names,
        )
    return Path(out)


def _symmetric(folder: Path) -> bool:
    def mapped(name: str) -> NDArray[Any]:
        return np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)

    weights = mapped("weights") if (folder / "weights.npy").exists() else None
    return same_in_both_directions(mapped("indptr"), mapped("indices"), weights)


# --- edges -----------------------------------------------------------------------------------


class _Retry(HenclerError):
    """The way of reading does not suit the file: the next one is tried from the start."""

    def __init__(self) -> None:
        super().__init__("the file has to be read in another way")


class _Integers(NamedTuple):
    """Some edges, by ids that are integers; `first` is the number of the first one."""

    first: int
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    weight: NDArray[np.float64] | None


class _Texts(NamedTuple):
    """Some edges, by positions in `names`."""

    first: int
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    weight: NDArray[np.float64] | None
    names: list[str]


@dataclass
class _EdgeFile:
    """How the chunks of an edge file are had, and where its i-th edge stands."""

    chunks: Callable[[], Iterator[_Integers | _Texts]]
    locate: Callable[[int], str]
    weight: str = "weight"
    sides: tuple[str, str] = SIDES
    bipartite: bool = False


def _sorted(
    file: Path,
    nodes: _Nodes | None,
    folder: Path,
    directed: bool | None,
    bipartite: bool,
    memory: int,
) -> EdgeSorter:
    """All edges in a sorter, and ``ids.npy`` where the nodes have names."""
    for plain in _ways(file):
        way = _two_sided(plain) if bipartite else plain
        try:
            positions = _Positions.of(way, nodes, folder)
            sorter = EdgeSorter(folder, positions.n, undirected=directed is False, memory=memory)
            for chunk in way.chunks():
                check_weights(chunk.weight, way.weight, _after(chunk.first, way.locate))
                ends = positions.look_up(chunk, way)
                sorter.add(*ends, chunk.weight)
            if not sorter.n_edges:
                raise FileFormatError(
                    "there is no edge", place=str(file), remedy="Give at least one edge"
                )
            return sorter
        except _Retry:
            for left in folder.glob("spill-*"):
                left.unlink()
    raise AssertionError("the last way reads every file, or says what is wrong with it")


def _after(first: int, locate: Callable[[int], str]) -> Callable[[int], str]:
    return lambda i: locate(first + i)


def _ways(file: Path) -> Iterator[_EdgeFile]:
    """Ways to read a file, the fast ones first; a later one reads whatever an earlier cannot."""
    suffix = file.suffix.lower()
    if suffix == ".npy":
        yield _EdgeFile(lambda: _npy_chunks(file), lambda i: f"{file}, edge number {i}")
        return
    if suffix == ".parquet":
        columns = edge_columns(_opened(file), file)
        for text in (False, True):
            yield _EdgeFile(
                lambda text=text: _parquet_chunks(file, columns, text),  # type: ignore[misc]
                lambda i: f"{file}, row {i + 1}",
                sides=columns.sides,
            )
        return
    layout = edge_layout(file)

    def locate(i: int) -> str:
        return f"{file}:{data_line(file, layout.header, i)}"

    for read in (_arrow_chunks, _scanned_chunks):
        for text in (False, True):
            yield _EdgeFile(
                lambda read=read, text=text: read(file, layout, text),  # type: ignore[misc]
                locate,
                layout.weight_name,
                layout.sides,
            )


def _two_sided(way: _EdgeFile) -> _EdgeFile:
    """The same edges, between nodes whose ids say which side they are on."""

    def chunks() -> Iterator[_Texts]:
        for chunk in way.chunks():
            rows, cols, source, target = split_sides(chunk.source, chunk.target)
            names = [
                f"{side}:{chunk.names[v] if isinstance(chunk, _Texts) else v}"
                for side, values in zip(way.sides, (rows, cols))
                for v in values.tolist()
            ]
            yield _Texts(chunk.first, source, target, chunk.weight, names)

    return replace(way, chunks=chunks, bipartite=True)


def _npy_chunks(file: Path) -> Iterator[_Integers]:
    with guarded(file, "a .npy array"):
        pairs = np.load(file, mmap_mode="r", allow_pickle=False)
    if pairs.ndim != 2 or 2 not in pairs.shape or pairs.dtype.kind not in "iu":
        raise FileFormatError(
            f"edges are {pairs.dtype} of shape {pairs.shape}",
            place=str(file),
            remedy="Save integers of shape (E, 2) or (2, E)",
        )
    pairs = pairs if pairs.shape[1] == 2 else pairs.T
    for first in range(0, len(pairs), _ROWS):
        part = np.asarray(pairs[first : first + _ROWS], dtype=np.int64)
        yield _Integers(first, part[:, 0], part[:, 1], None)


def _parquet_chunks(file: Path, columns: EdgeColumns, text: bool) -> Iterator[_Integers | _Texts]:
    with guarded(file, "a parquet file"):
        first = 0
        for batch in _opened(file).iter_batches(_ROWS, columns=columns.wanted):
            # Through a table, so that the rows of gaps and the types are checked as elsewhere.
            table = optional_import("pyarrow", "reading .parquet").Table.from_batches([batch])
            ends = [parquet_column(table, name, file) for name in columns.wanted[:2]]
            values = None
            if columns.weight is not None:
                values = parquet_numbers(table, columns.weight, file)
            if not text:
                ends = [natural(e.tolist()) if e.dtype.kind == "U" else e for e in ends]
            if all(end.dtype.kind in "iu" for end in ends) and not text:
                source_ids, target_ids = (end.astype(np.int64) for end in ends)
                yield _Integers(first, source_ids, target_ids, values)
            elif not text:
                raise _Retry
            else:
                yield _coded(first, [end.astype(str).tolist() for end in ends], values, file)
            first += len(ends[0])


def _opened(file: Path) -> Any:
    with guarded(file, "a parquet file"):
        return open_parquet(file)


def _coded(first: int, ends: list[list[str]], weight: Any, file: Path) -> _Texts:
    index: dict[str, int] = {}
    codes = [np.array([index.setdefault(t, len(index)) for t in end], np.int64) for end in ends]
    for name in index:
        check_id(name, str(file))
    return _Texts(first, codes[0], codes[1], weight, list(index))


def _arrow_chunks(file: Path, layout: Any, text: bool) -> Iterator[_Integers | _Texts]:
    """Chunks by pyarrow; :class:`_Retry` where only a slower way is sure of the file."""
    delimiter = DELIMITERS[file.suffix.lower()]
    if delimiter is None:
        raise _Retry
    try:
        pa = optional_import("pyarrow", "reading large tables")
        compute = optional_import("pyarrow.compute", "reading large tables")
    except MissingExtraError:
        raise _Retry from None
    columns = {layout.source: pa.string(), layout.target: pa.string()}
    if layout.weight is not None:
        columns[layout.weight] = pa.float64()
    first = 0
    try:
        for batch in _arrow_batches(file, layout.header, layout.width, columns, delimiter):
            ends = [batch.column(f"c{j}") for j in (layout.source, layout.target)]
            weight = None
            if layout.weight is not None:
                weight = batch.column(f"c{layout.weight}").to_numpy(zero_copy_only=False)
            if text:
                yield _arrow_texts(first, ends, weight)
            else:
                source, target = (_integers(end, compute, pa) for end in ends)
                yield _Integers(first, source, target, weight)
            first += batch.num_rows
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, HenclerError):
            raise
        raise _Retry from error


def _arrow_batches(
    file: Path, header: int, width: int, columns: dict[int, Any], delimiter: str
) -> Iterator[Any]:
    csv = optional_import("pyarrow.csv", "reading large tables")
    options = arrow_options(csv, header, width, columns, delimiter, block_size=1 << 24)
    yield from csv.open_csv(file, **options)


def _integers(column: Any, compute: Any, pa: Any) -> NDArray[np.int64]:
    """Ids as integers if all are written plainly: 007 and -0 are text."""
    numbers = compute.cast(column, pa.int64())
    if not compute.all(compute.equal(compute.cast(numbers, pa.string()), column)).as_py():
        raise _Retry
    return np.asarray(numbers.to_numpy(zero_copy_only=False))


def _arrow_texts(first: int, ends: list[Any], weight: Any) -> _Texts:
    index: dict[str, int] = {}
    codes = []
    for end in ends:
        part = end.dictionary_encode()
        names = part.dictionary.to_pylist()
        if not all(map(plain_id, names)):
            raise _Retry
        local = np.array([index.setdefault(name, len(index)) for name in names], dtype=np.int64)
        codes.append(local[part.indices.to_numpy()])
    return _Texts(first, codes[0], codes[1], weight, list(index))


def _scanned_chunks(file: Path, layout: Any, text: bool) -> Iterator[_Integers | _Texts]:
    """Chunks by the csv module: slower, but knows every line."""
    rows = text_rows(file)
    if layout.header:
        next(rows)
    first, ends, weights = 0, ([], []), []  # type: tuple[int, tuple[list[str], list[str]], list[float]]
    for line, fields in rows:
        for column, out in zip((layout.source, layout.target), ends):
            if text:
                check_id(fields[column], f"{file}:{line}")
            elif not INTEGER.match(fields[column]) or fields[column] == "-0":
                raise _Retry
            out.append(fields[column])
        if layout.weight is not None:
            number = parse_number(fields[layout.weight], file, line, layout.weight_name)
            weights.append(number)
        if len(ends[0]) == _ROWS // 4:
            yield _scanned(first, ends, weights if layout.weight is not None else None, text, file)
            first, ends, weights = first + len(ends[0]), ([], []), []
    if ends[0]:
        yield _scanned(first, ends, weights if layout.weight is not None else None, text, file)


def _scanned(
    first: int, ends: Any, weights: list[float] | None, text: bool, file: Path
) -> _Integers | _Texts:
    weight = None if weights is None else np.array(weights)
    if text:
        return _coded(first, list(ends), weight, file)
    source, target = (np.array(end, dtype=object).astype(np.int64) for end in ends)
    return _Integers(first, source, target, weight)


# --- ids to positions ------------------------------------------------------------------------


@dataclass
class _Nodes:
    """What the attributes say about the nodes; without `ids` row i is node i."""

    file: Path
    n: int
    ids: NDArray[Any] | None
    names: list[str] | None


class _Positions:
    """Positions 0 ... n-1 of ids."""

    def __init__(self, n: int, ids: NDArray[Any] | None, nodes: _Nodes | None) -> None:
        self.n, self.nodes = n, nodes
        self.by_name: dict[str, int] | None = None
        self.sorted_ids = self.order = None
        if ids is None:
            return
        if ids.dtype.kind == "U":
            self.by_name = {name: i for i, name in enumerate(ids.tolist())}
        else:
            self.order = np.argsort(ids, kind="stable")
            self.sorted_ids = ids[self.order]

    @classmethod
    def of(cls, way: _EdgeFile, nodes: _Nodes | None, folder: Path) -> _Positions:
        """Of the table's ids, or of those that occur in the edges, in ascending order."""
        if nodes is not None and nodes.ids is not None:
            ids: NDArray[Any] | None = nodes.ids
        elif nodes is not None and isinstance(next(way.chunks(), None), _Integers):
            return cls(nodes.n, None, nodes)
        else:
            ids = _occurring(way)
            if nodes is not None and len(ids) != nodes.n:
                raise AttributeDataError(
                    f"{nodes.n} rows for {len(ids)} nodes with names",
                    place=str(nodes.file),
                    remedy="Give one row per node in the order of the sorted ids, or a table "
                    "with ids",
                )
        assert ids is not None
        n = len(ids)
        if ids.dtype.kind != "U" and np.array_equal(ids, np.arange(n)):
            return cls(n, None, nodes)
        np.save(folder / "ids.npy", ids, allow_pickle=False)
        return cls(n, ids, nodes)

    def look_up(
        self, chunk: _Integers | _Texts, way: _EdgeFile
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if isinstance(chunk, _Texts) or self.by_name is not None:
            return self._by_name(chunk, way)
        found = []
        for end in (chunk.source, chunk.target):
            if self.sorted_ids is None or self.order is None:
                bad, at = (end < 0) | (end >= self.n), end
            else:
                place = np.minimum(np.searchsorted(self.sorted_ids, end), self.n - 1)
                bad, at = self.sorted_ids[place] != end, self.order[place]
            if bad.any():
                i = int(bad.argmax())
                self._raise_unknown(str(end[i]), way.locate(chunk.first + i))
            found.append(at)
        return found[0], found[1]

    def _by_name(
        self, chunk: _Integers | _Texts, way: _EdgeFile
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if isinstance(chunk, _Integers):
            names, codes = np.unique(np.r_[chunk.source, chunk.target], return_inverse=True)
            half = len(chunk.source)
            chunk = _Texts(
                chunk.first, codes[:half], codes[half:], None, names.astype(str).tolist()
            )
        if self.by_name is None:
            ids = np.arange(self.n) if self.sorted_ids is None else self.sorted_ids
            order = ids if self.order is None else self.order
            self.by_name = dict(zip(ids.astype(str).tolist(), order.tolist()))
        at = np.array([self.by_name.get(name, -1) for name in chunk.names], dtype=np.int64)
        ends = at[chunk.source], at[chunk.target]
        bad = (ends[0] < 0) | (ends[1] < 0)
        if bad.any():
            i = int(bad.argmax())
            code = chunk.source[i] if ends[0][i] < 0 else chunk.target[i]
            self._raise_unknown(chunk.names[code], way.locate(chunk.first + i))
        return ends

    def _raise_unknown(self, name: str, place: str) -> None:
        file = "the table" if self.nodes is None else self.nodes.file
        no_ids = self.nodes is None or self.nodes.ids is None
        rows = f"rows 0 to {self.n - 1} of" if no_ids else "the nodes of"
        raise GraphError(
            f"the node {name!r} is not among {rows} {file}",
            place=place,
            remedy="Add the node to the table, or remove the edge",
        )


def _occurring(way: _EdgeFile) -> NDArray[Any]:
    """Ids that occur in the edges, ascending."""
    known = np.zeros(0, dtype=np.int64)
    names: dict[str, None] = {}
    waiting: list[NDArray[np.int64]] = []
    for chunk in way.chunks():
        if isinstance(chunk, _Texts):
            names.update(dict.fromkeys(chunk.names))
            continue
        waiting.append(np.unique(np.r_[chunk.source, chunk.target]))
        if sum(map(len, waiting)) > max(len(known), 8 * _ROWS):
            known, waiting = np.unique(np.concatenate([known, *waiting])), []
    if names and way.bipartite:
        start = f"{way.sides[0]}:"
        rows = [name for name in names if name.startswith(start)]
        cols = [name for name in names if not name.startswith(start)]
        return ordered_ids(rows, cols, sides=way.sides)
    if names:
        return np.array(sorted(names), dtype=str)
    return np.unique(np.concatenate([known, *waiting]))


# --- attributes ------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """Some nodes: ids (None where the file has none), classes, attributes (b, d)."""

    ids: NDArray[Any] | None
    labels: NDArray[Any] | None
    x: NDArray[Any]


def _write_features(features: PathLike, label: str | None, folder: Path, dtype: str) -> _Nodes:
    """Write ``x.npy`` (or its sparse parts) and ``y.npy``."""
    file = existing_file(features, TABLE_SUFFIXES, "node attributes")
    suffix = file.suffix.lower()
    if suffix == ".npz":
        return _write_table(read_table(file, label), folder, dtype)
    if suffix == ".npy":
        return _write_npy(read_table(file, label), folder, dtype)
    if suffix == ".parquet":
        names, blocks = _parquet_rows(file, label)
    else:
        names, blocks = _text_rows(file, label)
    ids: list[NDArray[Any]] = []
    labels: list[NDArray[Any]] = []
    writer = NpyWriter(folder / "x.npy", dtype, len(names)) if names else None
    for block in blocks:
        assert block.ids is not None
        row = sum(map(len, ids))
        ids.append(block.ids)
        if block.labels is not None:
            labels.append(block.labels)
        if writer is not None:
            writer.append(_fitting(block.x, dtype, row, names, file))
    if not ids:
        raise FileFormatError("there is no node", place=str(file), remedy="Give one line per node")
    if writer is not None:
        writer.close()
    all_ids = _joined(ids)
    check_unique(all_ids, lambda row: f"{file}, row {row + 1}")
    if labels:
        np.save(folder / "y.npy", _joined(labels), allow_pickle=False)
    return _Nodes(file, len(all_ids), all_ids, names if all(names) and names else None)


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Integers where every part has them, else text."""
    if all(part.dtype.kind in "iu" for part in parts):
        return np.concatenate(parts)
    return np.concatenate([part.astype(str) for part in parts])


def _fitting(
    x: NDArray[Any], dtype: str, row: int, names: list[str] | None, file: Path
) -> NDArray[Any]:
    """The block in the store's type, if all of it is finite there."""
    with np.errstate(over="ignore"):
        out = x.astype(dtype)
    finite = np.isfinite(out)
    if not finite.all():
        i, j = (int(k[0]) for k in np.nonzero(~finite))
        column = names[j] if names and names[j] else str(j)
        what = "NaN or infinity cannot be clustered"
        if np.isfinite(x[i, j]):
            what = f"that is too large for {dtype}"
        raise AttributeDataError(
            f"the attribute is {x[i, j]:g}; {what}",
            place=f"{file}, node {row + i}, column {column!r}",
            remedy="Fill the gaps, or divide the column by its largest value",
        )
    return out


def _write_npy(table: Any, folder: Path, dtype: str) -> _Nodes:
    n, d = table.x.shape
    with NpyWriter(folder / "x.npy", dtype, d) as writer:
        step = max(1, 4 * _ROWS // max(1, d))
        for start in range(0, n, step):
            block = np.asarray(table.x[start : start + step])
            writer.append(_fitting(block, dtype, start, None, table.file))
    return _Nodes(table.file, n, None, None)


def _write_table(table: Any, folder: Path, dtype: str) -> _Nodes:
    if sp.issparse(table.x):
        x = sp.csr_array(table.x).astype(np.float32)
        x.sum_duplicates()
        x.eliminate_zeros()
        _write_csr(folder, "x_", x, x.data)
        (folder / "x_columns").write_text(str(x.shape[1]))
    else:
        _write_npy(table, folder, dtype)
    if table.y is not None:
        np.save(folder / "y.npy", table.y, allow_pickle=False)
    return _Nodes(table.file, table.n_rows, table.ids, table.names)


def _parquet_rows(file: Path, label: str | None) -> tuple[list[str], Iterator[_Rows]]:
    parquet = _opened(file)
    names = list(parquet.schema_arrow.names)
    if len(set(names)) < len(names) or not names:
        raise FileFormatError("columns without names of their own", place=str(file))
    key = find_column(names, ID_NAMES) or 0
    at = None if label is None else label_column(names, label, file)
    columns = [name for j, name in enumerate(names) if j not in (key, at)]

    def blocks() -> Iterator[_Rows]:
        pa = optional_import("pyarrow", "reading .parquet")
        with guarded(file, "a parquet file"):
            for batch in parquet.iter_batches(max(1, 4 * _ROWS // len(names))):
                table = pa.Table.from_batches([batch])
                ids = parquet_column(table, names[key], file)
                if ids.dtype.kind not in "iuU":
                    raise FileFormatError(
                        "the ids are neither integers nor strings",
                        place=f"{file}, column {names[key]!r}",
                        remedy="Give every node an id",
                    )
                x = np.empty((len(ids), len(columns)))
                for j, name in enumerate(columns):
                    x[:, j] = parquet_numbers(table, name, file)
                y = None if at is None else parquet_column(table, names[at], file)
                ids = natural(ids.tolist()) if ids.dtype.kind == "U" else ids
                yield _Rows(ids, y, x)

    return columns, blocks()


def _text_rows(file: Path, label: str | None) -> tuple[list[str], Iterator[_Rows]]:
    (line, first), *_ = first_rows(file)
    key = find_column(first, ID_NAMES)
    header = line if key is not None or not all(map(is_number, first[1:])) else 0
    names = [name.strip() for name in first] if header else [""] * len(first)
    key = key or 0
    at = label_column(names, label, file) if label is not None else None
    columns = [j for j in range(len(names)) if j not in (key, at)]

    def blocks() -> Iterator[_Rows]:
        rows = text_rows(file)
        if header:
            next(rows)
        ids: list[str] = []
        labels: list[str] = []
        values: list[list[float]] = []
        for line, fields in rows:
            check_id(fields[key], f"{file}:{line}")
            ids.append(fields[key])
            if at is not None:
                if not fields[at].strip():
                    raise_no_label(f"{file}:{line}")
                labels.append(fields[at].strip())
            numbers = [parse_number(fields[j], file, line, names[j] or str(j + 1)) for j in columns]
            values.append(numbers)
            if len(ids) * (1 + len(columns)) >= _ROWS:
                yield _text_block(ids, labels, values, len(columns))
                ids, labels, values = [], [], []
        if ids:
            yield _text_block(ids, labels, values, len(columns))

    return [names[j] for j in columns], blocks()


def _text_block(ids: list[str], labels: list[str], values: Any, width: int) -> _Rows:
    y = natural(labels) if labels else None
    return _Rows(natural(ids), y, np.array(values, dtype=np.float64).reshape(len(ids), width))
