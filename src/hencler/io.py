"""Graphs, attribute tables and labels from files and to files.

One reader per format, chosen by the suffix; one typed error per fault, with the file and the line.
Nothing here runs code from a file: no pickle, no XML entities.

Edge lists (``.csv``, ``.tsv``, ``.txt``, ``.parquet``)
    One edge a line: source, target and, if there is one, weight. A header may name the columns
    (``source``, ``target``, ``weight``; other columns are ignored; well-known pairs such as
    ``user,item`` are a header too); without one they are taken in this order. ``.txt`` is separated
    by white space, and its lines that start with ``#`` or ``%`` are comments. Text is UTF-8.
Ids
    Integers where every id of the file is written as a plain integer, else strings: ``007`` stays
    ``"007"``. When two files disagree, both are compared as strings.
``.npz``
    ``edge_index`` of shape (2, E) with ``edge_weight`` if there is one, or the CSR parts
    ``adj_data``, ``adj_indices``, ``adj_indptr``, ``adj_shape``. Optional: ``x`` of shape (n, d)
    or ``attr_data``, ``attr_indices``, ``attr_indptr``, ``attr_shape``; ``y`` or ``labels``;
    ``ids`` or ``node_names``; ``attribute_names``; ``directed``.
``.mtx``
    Matrix Market; a matrix that is not square holds the links of a bipartite graph.
a folder
    A store, whose arrays stay on disk, memory-mapped; :func:`convert` and :func:`write_store` make
    one.
``.graphml``, ``.gml``
    Read by networkx; numeric node attributes become attributes, except ``y``, the class.
"""

from __future__ import annotations

import csv
import difflib
import errno
import os
import re
import secrets
import shutil
import warnings
import zipfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._errors import (
    AttributeDataError,
    FileFormatError,
    GraphError,
    HenclerError,
    HenclerWarning,
    MissingExtraError,
    ParameterError,
    ResourceError,
    WriteError,
)
from ._graph import Attributes, Graph
from ._limits import check_parquet, check_zip
from ._mtx import read_matrix_market
from ._optional import optional_import

__all__ = [
    "align_labels",
    "atomic_write",
    "convert",
    "read_graph",
    "read_labels",
    "write_edge_list",
    "write_labels",
    "write_npz",
    "write_store",
]

PathLike: TypeAlias = str | os.PathLike[str]

_TEXT = {".csv": ",", ".tsv": "\t", ".txt": None}
_GRAPH_SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".graphml", ".gml", ".mtx", ".npz")
_TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".npy", ".npz")
_LABEL_SUFFIXES = (".csv", ".tsv", ".parquet")

_SOURCE = ("source", "src", "from", "u")
_TARGET = ("target", "dst", "to", "v")
_WEIGHT = ("weight", "w", "amount", "count", "strength")
_PAIRS = (
    ("user", "item"), ("user", "product"), ("customer", "product"), ("buyer", "seller"),
    ("sender", "receiver"), ("sender", "recipient"), ("predator", "prey"), ("parent", "child"),
    ("citing", "cited"), ("follower", "followed"), ("follower", "followee"), ("author", "paper"),
    ("pre", "post"), ("node1", "node2"), ("start", "end"), ("tail", "head"), ("row", "col"),
)  # fmt: skip
"""Heads of two columns, in this order, that are no edge."""

_ID = ("id", "node", "node_id")
_CLUSTER = ("cluster", "label", "class", "y")

_LABEL_ROWS = 1 << 17
"""Lines written in one go."""

_LONGEST_ID = 1000
"""NumPy gives every string of an array the room of the longest."""


def read_graph(
    path: PathLike,
    *,
    features: PathLike | None = None,
    label: str | None = None,
    directed: bool | None = None,
) -> Graph:
    """Graph from a file, with attributes from a second one if wanted.

    Parameters
    ----------
    path : path
        Edge list (.csv, .tsv, .txt, .parquet), .graphml, .gml, .mtx or .npz; or the folder of a
        store (:func:`hencler.io.convert`), which stays on disk, memory-mapped.
    features : path, optional
        Attributes of the nodes; they replace those of the graph file. As .csv, .tsv or .parquet:
        one row per node, the id in the column ``id`` or ``node``, else in the first one, and
        numbers in all others. The table says which nodes there are and in which order: those
        without an edge are isolated, an edge to any other node is an error. As .npy (left on disk,
        memory-mapped) or .npz (a SciPy sparse matrix, ``x``, or ``attr_*``; ``ids`` if wanted)
        without ids: row i belongs to node i where the ids are integers, and to the i-th id in
        sorted order where they are strings.
    label : str, optional
        Column of `features`, node attribute or array of the graph file that holds the classes,
        for evaluation only. It is never an attribute.
    directed : bool, optional
        As for :class:`Graph`: by default, symmetric edges are an undirected graph.

    Returns
    -------
    Graph
        Without `features` its nodes are those of the edges, sorted.
    """
    if Path(path).is_dir():
        return _stored_graph(Path(path), features, label, directed)
    file = _existing(path, _GRAPH_SUFFIXES, "a graph")
    suffix = file.suffix.lower()
    if suffix in _TEXT or suffix == ".parquet":
        edges = _parquet_edges(file) if suffix == ".parquet" else _text_edges(file)
        if features is None:
            if label is not None:
                raise ParameterError(
                    f"label={label!r} was given, but an edge list has no node columns",
                    place=str(file),
                    remedy="Give the table of nodes as features, too",
                )
            return _assemble(edges, None, directed, file)
        return _assemble(edges, _read_table(features, label), directed, file)
    in_graph = label if features is None else None
    if suffix in (".graphml", ".gml"):
        graph = _networkx_graph(file, in_graph)
    elif suffix == ".mtx":
        graph = _mtx_graph(file, in_graph)
    else:
        graph = _npz_graph(file, in_graph)
    if features is not None:
        table = _read_table(features, label)
        return _assemble(_edges_of(graph, file), table, _still(graph, directed), file)
    return graph if directed is None else _turned(graph, directed)


def convert(
    edges: PathLike,
    out: PathLike,
    *,
    features: PathLike | None = None,
    label: str | None = None,
    directed: bool | None = None,
    dtype: str = "float32",
) -> Path:
    """Stream an edge list, and attributes, larger than memory into a store.

    Parameters
    ----------
    edges : path
        .csv, .tsv, .txt or .parquet as for :func:`read_graph`, or .npy: integers of shape (E, 2) or
        (2, E).
    out : path
        Folder to make. It appears when it is complete.
    features, label, directed : as for :func:`read_graph`
    dtype : {"float32", "float16"}
        Of the attributes in the store.

    Returns
    -------
    path of the store, which :func:`read_graph` opens
    """
    from ._convert import convert

    return convert(edges, out, features=features, label=label, directed=directed, dtype=dtype)


def write_store(graph: Graph, folder: PathLike) -> None:
    """Write a graph that is in memory as a store, a folder that :func:`read_graph` opens."""
    from ._store import write_store

    write_store(graph, folder)


def _stored_graph(
    folder: Path, features: PathLike | None, label: str | None, directed: bool | None
) -> Graph:
    from ._store import Store

    if features is not None or label is not None:
        raise ParameterError(
            "features or a label were given beside a store, which has its own",
            place=str(folder),
            remedy="Leave them out, or convert the edges again with other features",
        )
    graph = Store.open(folder).graph()
    return graph if directed is None else _turned(graph, directed)


# --- files --------------------------------------------------------------------------------


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""What a system says when bytes find no place."""


@contextmanager
def atomic_write(path: PathLike, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a file that takes the place of `path` only when the block ends without an error.

    The bytes go to a temporary name in the same folder, are flushed to the disk and renamed;
    whoever reads `path` sees the old file or the new one, never a part.
    """
    if mode not in ("wb", "w"):
        raise ParameterError(f"mode={mode!r} is unknown", remedy="Use 'wb' or 'w'")
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise FileFormatError("this is a folder", place=str(path), remedy="Name a file in it")
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    text: dict[str, Any] = {"encoding": "utf-8", "newline": ""} if mode == "w" else {}
    try:
        handle = open(temporary, mode.replace("w", "x"), **text)  # noqa: SIM115
    except OSError as error:
        raise WriteError(
            f"cannot be written ({error.strerror})",
            place=str(path),
            remedy="Choose a folder that exists and may be written to",
        ) from error
    try:
        with handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno in _FULL:
            raise WriteError(
                f"cannot be written ({error.strerror})",
                place=str(path),
                remedy="Make room on the disk; what was there before is untouched",
            ) from error
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    # Only POSIX can open a folder; elsewhere the rename itself is all there is.
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _existing(path: PathLike, suffixes: Sequence[str], what: str) -> Path:
    """The path, if it is a readable, non-empty file with one of the suffixes."""
    file = Path(path)
    try:
        if not file.exists():
            raise FileFormatError("no such file", place=str(file), remedy=_similar_file(file))
        if file.is_dir():
            raise FileFormatError("this is a folder", place=str(file), remedy="Name a file in it")
        if not file.is_file():
            raise FileFormatError(
                "this is a device or a pipe, not a file", place=str(file), remedy="Name a file"
            )
        if file.suffix.lower() not in suffixes:
            close = difflib.get_close_matches(file.suffix.lower(), suffixes, 1)
            meant = f"Did you mean {close[0]}? " if close else ""
            raise FileFormatError(
                f"the suffix {file.suffix!r} names no format for {what}",
                place=str(file),
                remedy=f"{meant}Known are {', '.join(suffixes)}",
            )
        with open(file, "rb") as handle:
            if not handle.read(1):
                raise FileFormatError(
                    "the file is empty", place=str(file), remedy="Check how it was made"
                )
    except (OSError, ValueError) as error:
        if isinstance(error, HenclerError):
            raise
        raise FileFormatError(f"cannot be opened ({error})", place=str(file)) from error
    return file


def _similar_file(file: Path) -> str:
    names = [p.name for p in file.parent.iterdir()] if file.parent.is_dir() else []
    close = difflib.get_close_matches(file.name, names, 1)
    return f"Did you mean {close[0]}?" if close else "Check the name and the folder"


@contextmanager
def _guard(file: Path, what: str) -> Iterator[None]:
    """Whatever another library makes of a damaged file becomes one typed error."""
    try:
        yield
    except HenclerError:
        raise
    except MemoryError as error:
        raise ResourceError(
            "the file does not fit into memory", place=str(file), remedy="Split or shrink it"
        ) from error
    except Exception as error:  # a parser meets arbitrary bytes here
        line = re.search(r"[Ll]ine\s+(\d+)|\((\d+), \d+\)", str(error))
        place = f"{file}:{line[1] or line[2]}" if line else str(file)
        detail = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise FileFormatError(
            f"this is not {what} that can be read ({detail})",
            place=place,
            remedy="Check that the file is complete and of the format its suffix names",
        ) from error


# --- text: rows with their line numbers ------------------------------------------------------

Row: TypeAlias = tuple[int, list[str]]


def _rows(file: Path) -> Iterator[Row]:
    """(line number, fields) of every row that is not blank; all rows are equally long."""
    delimiter = _TEXT[file.suffix.lower()]
    width = 0
    line = 1
    try:
        with open(file, encoding="utf-8-sig", newline="") as handle:
            for line, fields in _split(handle, delimiter):
                if len(fields) < 2 and not "".join(fields).strip():
                    continue
                width = width or len(fields)
                if len(fields) != width:
                    raise FileFormatError(
                        f"{len(fields)} fields, but {width} in the first line",
                        place=f"{file}:{line}",
                        remedy="Give every line as many fields; the file may have been cut off",
                    )
                yield line, fields
    except UnicodeDecodeError:
        _raise_encoding(file)
    except csv.Error as error:
        raise FileFormatError(
            f"the line cannot be split into fields ({error})",
            place=f"{file}:{line + 1}",
            remedy="Check the quotation marks; the file may have been cut off",
        ) from error


def _split(handle: IO[str], delimiter: str | None) -> Iterator[Row]:
    if delimiter is None:
        for line, text in enumerate(handle, 1):
            if not text.lstrip().startswith(("#", "%")):
                yield line, text.split()
        return
    reader = csv.reader(handle, delimiter=delimiter, skipinitialspace=True, strict=True)
    for fields in reader:
        yield reader.line_num, fields


def _raise_encoding(file: Path) -> NoReturn:
    offset = 0
    with open(file, "rb") as handle:
        for line, raw in enumerate(handle, 1):
            try:
                raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise FileFormatError(
                    f"byte {offset + error.start} (0x{raw[error.start]:02x}) is not UTF-8",
                    place=f"{file}:{line}",
                    remedy="Save the file as UTF-8",
                ) from None
            offset += len(raw)
    raise FileFormatError("the text is not UTF-8", place=str(file), remedy="Save it as UTF-8")


def _first_rows(file: Path) -> list[Row]:
    """The first two rows: enough to tell a header from data."""
    with open(file, "rb") as handle:
        if b"\0" in handle.read(1 << 16):
            raise FileFormatError(
                "this is not text: it holds zero bytes",
                place=str(file),
                remedy="Save it as UTF-8 text, or give the file its right suffix",
            )
    out = []
    for row in _rows(file):
        out.append(row)
        if len(out) == 2:
            break
    if not out:
        raise FileFormatError("no line has any data", place=str(file), remedy="Check the file")
    return out


def _data_line(file: Path, header: int, number: int) -> int:
    """Line of the data row `number` (from 0); read again, since only errors ask for it."""
    for i, (line, _) in enumerate(_rows(file)):
        if i == number + (header > 0):
            return line
    return 0


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _column(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    lowered = [name.strip().lower() for name in names]
    return next((lowered.index(name) for name in wanted if name in lowered), None)


_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\Z")


def _natural(values: Sequence[str]) -> NDArray[Any]:
    """Integers where every value is one, written plainly; else strings."""
    if values and all(map(_INTEGER.match, values)) and "-0" not in values:
        return np.array(values, dtype=object).astype(np.int64)
    return np.array(values, dtype=str)


def _raise_id(text: str, place: str) -> None:
    """Raise if `text` cannot name a node."""
    if not text.strip():
        problem = "the node id is empty"
    elif len(text) > _LONGEST_ID:
        problem = f"the node id has {len(text)} characters, more than {_LONGEST_ID}"
    elif "\0" in text:
        problem = "the node id holds a zero byte"
    else:
        return
    raise FileFormatError(problem, place=place, remedy="Give every node a short id")


def _raise_long(text: str, place: str) -> None:
    """Raise if one text would make an array of many too large."""
    if len(text) > _LONGEST_ID:
        raise FileFormatError(
            f"the text has {len(text)} characters, more than {_LONGEST_ID}",
            place=place,
            remedy="Use short names for classes and columns",
        )


# --- edge lists ------------------------------------------------------------------------------


@dataclass
class _Edges:
    """E edges as positions in `ids`; `locate` names the place of the i-th one in its file."""

    ids: NDArray[Any]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    weight: NDArray[np.float64] | None
    locate: Callable[[int], str]


@dataclass
class _Layout:
    """Which columns of an edge list are meant; `header` is the header's line, 0 without one."""

    header: int
    width: int
    source: int
    target: int
    weight: int | None
    weight_name: str


def _text_edges(file: Path) -> _Edges:
    layout = _edge_layout(file)

    def locate(i: int) -> str:
        return f"{file}:{_data_line(file, layout.header, i)}"

    parts = _arrow_edges(file, layout) or _scanned_edges(file, layout)
    names, source, target, weight = parts
    if not source.size:
        raise FileFormatError(
            "there is a header, but no edge", place=str(file), remedy="Give at least one edge"
        )
    _check_weights(weight, layout.weight_name, locate)
    edges = _Edges(_natural(names), source, target, weight, locate)
    if not layout.header:
        _warn_if_header(edges, file)
    return edges


def _edge_layout(file: Path) -> _Layout:
    (line, first), *rest = _first_rows(file)
    width = len(first)
    if width < 2:
        raise FileFormatError(
            "one field only, an edge needs a source and a target",
            place=f"{file}:{line}",
            remedy=f"Separate the fields by {_separator(file)}",
        )
    source, target = _column(first, _SOURCE), _column(first, _TARGET)
    weight = _column(first, _WEIGHT)
    named = source is not None and target is not None
    header = named or _is_pair(first) or (width > 2 and not _is_number(first[2]))
    if not header and rest:
        # Words above integers are a header; words above words may well be an edge.
        header = not any(map(_INTEGER.match, first[:2])) and all(
            map(_INTEGER.match, rest[0][1][:2])
        )
    if not named:
        source, target = 0, 1
        if not header:
            weight = 2 if width > 2 else None
        elif weight in (0, 1):
            weight = None
    assert source is not None
    assert target is not None
    name = first[weight].strip() if header and weight is not None else "weight"
    return _Layout(line if header else 0, width, source, target, weight, name)


def _is_pair(first: Sequence[str]) -> bool:
    """Whether the first two fields are a well-known pair of heads, such as user_id,item_id."""
    plain = [re.sub(r"[ _-]|ids?$|name$", "", name.strip().lower()) for name in first[:2]]
    return tuple(plain) in _PAIRS


def _warn_if_header(edges: _Edges, file: Path) -> None:
    """Words in the first line that no other line has may be the heads of the columns."""
    a, b = int(edges.source[0]), int(edges.target[0])
    ends = np.bincount(np.concatenate([edges.source, edges.target]), minlength=len(edges.ids))
    words = [str(edges.ids[at]) for at in (a, b)]
    rare = ends[a] == ends[b] == 1 and np.median(ends) > 1
    if rare and all(map(str.isidentifier, words)):
        warnings.warn(
            f"{file}: the first line was read as an edge from {words[0]!r} to {words[1]!r}, two "
            "nodes that no other line names; if it is a header, name its columns source,target",
            HenclerWarning,
            stacklevel=4,
        )


def _separator(file: Path) -> str:
    return {",": "commas", "\t": "tabs", None: "white space"}[_TEXT[file.suffix.lower()]]


_Parsed: TypeAlias = tuple[
    list[str], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64] | None
]


def _scanned_edges(file: Path, layout: _Layout) -> _Parsed:
    """The edges by the csv module: slower, but knows every line; holds each id only once."""
    index: dict[str, int] = {}
    source, target, weight = array("q"), array("q"), array("d")
    rows = _rows(file)
    if layout.header:
        next(rows)
    for line, fields in rows:
        for column, out in ((layout.source, source), (layout.target, target)):
            text = fields[column]
            code = index.get(text)
            if code is None:
                _raise_id(text, f"{file}:{line}")
                code = index[text] = len(index)
            out.append(code)
        if layout.weight is not None:
            weight.append(_number(fields[layout.weight], file, line, layout.weight_name))
    return (
        list(index),
        np.array(source, dtype=np.int64),
        np.array(target, dtype=np.int64),
        None if layout.weight is None else np.array(weight, dtype=np.float64),
    )


def _number(text: str, file: Path, line: int, column: str) -> float:
    if _is_number(text):
        return float(text)
    problem = "the cell is empty" if not text.strip() else f"{text[:40]!r} is not a number"
    raise FileFormatError(
        problem,
        place=f"{file}:{line}, column {column!r}",
        remedy="Give a number (for words one column of 0 and 1 each), or leave the column out",
    )


def _arrow_edges(file: Path, layout: _Layout) -> _Parsed | None:
    """The edges by pyarrow, several times faster; None where only the slow way is sure."""
    types = {layout.source: "id", layout.target: "id"}
    if layout.weight is not None:
        types[layout.weight] = "number"
    table = _arrow_read(file, layout.header, layout.width, types)
    if table is None:
        return None
    index: dict[str, int] = {}
    codes = []
    for column in (layout.source, layout.target):
        part = table.column(f"c{column}").combine_chunks()
        names = part.dictionary.to_pylist()
        if not all(map(_plain_id, names)):
            return None
        local = np.array([index.setdefault(name, len(index)) for name in names], dtype=np.int64)
        codes.append(local[part.indices.to_numpy()] if names else np.zeros(0, dtype=np.int64))
    weight = None
    if layout.weight is not None:
        weight = table.column(f"c{layout.weight}").to_numpy()
    return list(index), codes[0], codes[1], weight


def _plain_id(text: str) -> bool:
    """Whether the csv module would read the same id; quotation marks are for that module."""
    return (
        0 < len(text) <= _LONGEST_ID
        and '"' not in text
        and "\0" not in text
        and not text.isspace()
        and not text.startswith(" ")
    )


def _arrow_read(file: Path, header: int, width: int, types: dict[int, str]) -> Any:
    """The columns of `types` ("id", "text", "number") as an Arrow table, or None."""
    delimiter = _TEXT[file.suffix.lower()]
    if delimiter is None:
        return None
    try:
        pa = optional_import("pyarrow", "reading large tables")
        reader = optional_import("pyarrow.csv", "reading large tables")
    except MissingExtraError:
        return None
    kinds = {
        "id": pa.dictionary(pa.int32(), pa.string()),
        "text": pa.string(),
        "number": pa.float64(),
    }
    try:
        table = reader.read_csv(
            file,
            read_options=reader.ReadOptions(
                column_names=[f"c{j}" for j in range(width)], skip_rows=header
            ),
            parse_options=reader.ParseOptions(delimiter=delimiter, quote_char=False),
            convert_options=reader.ConvertOptions(
                column_types={f"c{j}": kinds[kind] for j, kind in types.items()},
                include_columns=[f"c{j}" for j in types],
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowException, OSError, ValueError):
        # The slow way reads it after all, or names the line.
        return None
    return table.unify_dictionaries()


def _check_weights(
    weight: NDArray[np.float64] | None, name: str, locate: Callable[[int], str]
) -> None:
    if weight is None:
        return
    bad = np.flatnonzero(~np.isfinite(weight) | (weight < 0))
    if bad.size:
        raise GraphError(
            f"the weight is {weight[bad[0]]:g}",
            place=f"{locate(int(bad[0]))}, column {name!r}",
            remedy="Weights must be finite and not negative",
        )


def _open_parquet(file: Path) -> Any:
    parquet = optional_import("pyarrow.parquet", "reading .parquet").ParquetFile(file)
    check_parquet(parquet, file)
    return parquet


def _parquet_edges(file: Path) -> _Edges:
    def locate(i: int) -> str:
        return f"{file}, row {i + 1}"

    with _guard(file, "a parquet file"):
        parquet = _open_parquet(file)
        names = parquet.schema_arrow.names
        if len(names) < 2:
            raise FileFormatError(
                f"{len(names)} column(s), an edge needs a source and a target", place=str(file)
            )
        source, target = _column(names, _SOURCE), _column(names, _TARGET)
        if source is None or target is None:
            source, target = 0, 1
        weight = _column(names, _WEIGHT)
        weight = None if weight in (source, target) else weight
        wanted = [source, target] + ([] if weight is None else [weight])
        table = parquet.read(columns=[names[j] for j in wanted])
        columns = [_parquet_column(table, names[j], file) for j in wanted[:2]]
        values = None if weight is None else _parquet_numbers(table, names[weight], file)
    if not len(columns[0]):
        raise FileFormatError("there is no edge", place=str(file), remedy="Give at least one")
    both = np.concatenate(_same_kind(columns[0], columns[1]))
    ids, codes = np.unique(both, return_inverse=True)
    for i, text in enumerate(ids if ids.dtype.kind == "U" else ()):
        _raise_id(str(text), locate(int(np.flatnonzero(codes == i)[0]) % len(columns[0])))
    if ids.dtype.kind == "U":
        ids = _natural(ids.tolist())
    _check_weights(values, "weight" if weight is None else names[weight], locate)
    half = len(columns[0])
    return _Edges(ids, codes[:half], codes[half:], values, locate)


def _parquet_column(table: Any, name: str, file: Path) -> NDArray[Any]:
    """Column without gaps: integers, floats or strings."""
    column = table.column(name)
    place = f"{file}, column {name!r}"
    if column.null_count:
        row = column.is_null().to_numpy().argmax() + 1
        raise FileFormatError(
            "the cell is empty", place=f"{file}, row {row}, column {name!r}", remedy="Fill the gaps"
        )
    values = np.asarray(column.to_numpy())
    if values.dtype.kind == "O" and all(isinstance(v, str) for v in values):
        for row, text in enumerate(values, 1):
            _raise_long(text, f"{file}, row {row}, column {name!r}")
        return values.astype(str)
    if values.dtype.kind not in "buif":
        raise FileFormatError(
            f"values of type {column.type} are neither numbers nor text",
            place=place,
            remedy="Store numbers or strings",
        )
    return values


def _parquet_numbers(table: Any, name: str, file: Path) -> NDArray[np.float64]:
    values = _parquet_column(table, name, file)
    if values.dtype.kind == "U":
        raise FileFormatError(
            "text where numbers are needed",
            place=f"{file}, column {name!r}",
            remedy="Encode it as numbers, or leave the column out",
        )
    return values.astype(np.float64)


def _same_kind(a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both as they are, or both as strings when only one of them is."""
    return (
        (a, b) if (a.dtype.kind == "U") == (b.dtype.kind == "U") else (a.astype(str), b.astype(str))
    )


# --- attribute tables ------------------------------------------------------------------------


@dataclass
class _Table:
    """What is known of the nodes. Without ids, row i is node i in the order of their ids."""

    file: Path
    ids: NDArray[Any] | None
    x: Attributes | None
    y: NDArray[Any] | None = None
    names: list[str] | None = None

    @property
    def n_rows(self) -> int:
        return len(self.ids) if self.ids is not None else int(self.x.shape[0])  # type: ignore[union-attr]


def _read_table(path: PathLike, label: str | None) -> _Table:
    file = _existing(path, _TABLE_SUFFIXES, "node attributes")
    suffix = file.suffix.lower()
    if suffix == ".npy":
        if label is not None:
            raise ParameterError(
                f"label={label!r} was given, but an array has no column names",
                place=str(file),
                remedy="Use a .csv table or an .npz file for attributes with labels",
            )
        with _guard(file, "a .npy array"):
            x = np.load(file, mmap_mode="r", allow_pickle=False)
            if not isinstance(x, np.ndarray) or x.ndim != 2 or x.dtype.kind not in "buif":
                raise FileFormatError(
                    "this is not a table of numbers", place=str(file), remedy="Save an (n, d) array"
                )
        return _Table(file, None, x)
    if suffix == ".npz":
        return _npz_table(file, label)
    if suffix == ".parquet":
        return _parquet_table(file, label)
    return _text_table(file, label)


def _text_table(file: Path, label: str | None) -> _Table:
    (line, first), *_ = _first_rows(file)
    key = _column(first, _ID)
    header = line if key is not None or not all(map(_is_number, first[1:])) else 0
    names = [name.strip() for name in first] if header else [""] * len(first)
    for name in names:
        _raise_long(name, f"{file}:{line}")
    key = key or 0
    at = _label_column(names, label, file) if label is not None else None
    columns = [j for j in range(len(names)) if j not in (key, at)]
    ids, labels, x = _arrow_table(file, header, names, key, at, columns) or _scanned_table(
        file, header, names, key, at, columns
    )

    def place(row: int, column: str = "") -> str:
        where = f"{file}:{_data_line(file, header, row)}"
        return f"{where}, column {column!r}" if column else where

    if not ids:
        raise FileFormatError(
            "there is a header, but no node", place=str(file), remedy="Give one line per node"
        )
    _check_cells(x, lambda i, j: place(i, names[columns[j]] or str(columns[j] + 1)))
    array_ids = _natural(ids)
    _check_unique(array_ids, place)
    y = None
    if labels is not None:
        for row, text in enumerate(labels):
            if not text:
                _raise_no_label(place(row, label or ""))
            _raise_long(text, f"{file}, node {array_ids[row]}")
        y = _natural(labels)
    chosen = [names[j] for j in columns]
    return _Table(
        file, array_ids, x if columns else None, y, chosen if header and columns else None
    )


def _label_column(names: Sequence[str], label: str, file: Path) -> int:
    if label in names:
        return list(names).index(label)
    close = difflib.get_close_matches(label, names, 1)
    raise FileFormatError(
        f"there is no column {label!r}",
        place=str(file),
        remedy=f"Did you mean {close[0]!r}?"
        if close
        else "Name a column of the header: " + ", ".join(map(repr, names[:10])),
    )


def _raise_no_label(place: str) -> NoReturn:
    raise FileFormatError(
        "the label is empty", place=place, remedy="Give every node a class, for example 'unknown'"
    )


_Columns: TypeAlias = tuple[list[str], list[str] | None, NDArray[np.float64]]


def _scanned_table(
    file: Path, header: int, names: list[str], key: int, at: int | None, columns: list[int]
) -> _Columns:
    ids: list[str] = []
    labels: list[str] = []
    values = array("d")
    rows = _rows(file)
    if header:
        next(rows)
    for line, fields in rows:
        _raise_id(fields[key], f"{file}:{line}")
        ids.append(fields[key])
        if at is not None:
            labels.append(fields[at].strip())
        values.extend(_number(fields[j], file, line, names[j] or str(j + 1)) for j in columns)
    x = np.array(values, dtype=np.float64).reshape(len(ids), len(columns))
    return ids, None if at is None else labels, x


def _arrow_table(
    file: Path, header: int, names: list[str], key: int, at: int | None, columns: list[int]
) -> _Columns | None:
    types = dict.fromkeys(columns, "number") | {key: "text"}
    if at is not None:
        types[at] = "text"
    table = _arrow_read(file, header, len(names), types)
    if table is None:
        return None
    ids = table.column(f"c{key}").to_pylist()
    labels = None if at is None else table.column(f"c{at}").to_pylist()
    if not all(map(_plain_id, ids)) or any('"' in v for v in labels or ()):
        return None
    x = np.empty((len(ids), len(columns)))
    for j, column in enumerate(columns):
        x[:, j] = table.column(f"c{column}").to_numpy()
    return ids, None if labels is None else [v.strip() for v in labels], x


def _check_cells(x: NDArray[np.float64], place: Callable[[int, int], str]) -> None:
    finite = np.isfinite(x)
    if not finite.all():
        i, j = (int(k[0]) for k in np.nonzero(~finite))
        raise AttributeDataError(
            f"the attribute is {x[i, j]:g}; NaN or infinity cannot be clustered",
            place=place(i, j),
            remedy="Fill the gaps, for example with the column mean, or drop the column",
        )


def _check_unique(ids: NDArray[Any], place: Callable[[int], str]) -> None:
    order = np.argsort(ids, kind="stable")
    same = np.flatnonzero(ids[order][1:] == ids[order][:-1])
    if same.size:
        again = int(order[same + 1].min())
        raise FileFormatError(
            f"the node id {str(ids[again])!r} occurs more than once",
            place=place(again),
            remedy="Give every node one line",
        )


def _parquet_table(file: Path, label: str | None) -> _Table:
    def place(row: int) -> str:
        return f"{file}, row {row + 1}"

    with _guard(file, "a parquet file"):
        table = _open_parquet(file).read()
        names = list(table.column_names)
        if len(set(names)) < len(names) or not names:
            raise FileFormatError("columns without names of their own", place=str(file))
        key = _column(names, _ID) or 0
        at = None if label is None else _label_column(names, label, file)
        ids = _parquet_column(table, names[key], file)
        y = None if at is None else _parquet_column(table, names[at], file)
        columns = [name for j, name in enumerate(names) if j not in (key, at)]
        x = np.empty((len(ids), len(columns)))
        for j, name in enumerate(columns):
            x[:, j] = _parquet_numbers(table, name, file)
    if not len(ids) or ids.dtype.kind not in "iuU":
        raise FileFormatError(
            "the ids are missing or neither integers nor strings",
            place=f"{file}, column {names[key]!r}",
            remedy="Give every node an id",
        )
    _check_cells(x, lambda i, j: f"{place(i)}, column {columns[j]!r}")
    ids = _natural(ids.tolist()) if ids.dtype.kind == "U" else ids
    _check_unique(ids, place)
    return _Table(file, ids, x if columns else None, y, columns or None)


def _npz_table(file: Path, label: str | None) -> _Table:
    with _guard(file, "an .npz file"), _npz(file) as data:
        sparse = "format" in data.files
        x = sp.csr_array(sp.load_npz(file)) if sparse else _npz_attributes(data, file)
        if x is None:
            raise FileFormatError(
                "there are no attributes in it",
                place=str(file),
                remedy="Save a SciPy sparse matrix, an array x, or attr_data, attr_indices, "
                "attr_indptr and attr_shape",
            )
        if x.ndim != 2:
            raise FileFormatError("x is not a table", place=str(file), remedy="Save (n, d) numbers")
        ids = _npz_vector(data, ("ids", "node_names"), x.shape[0], file)
        y = _npz_label(data, label, x.shape[0], file)
    if ids is not None:
        _check_unique(ids, lambda row: f"{file}, row {row + 1}")
    return _Table(file, ids, x, y)


# --- edges and table together ----------------------------------------------------------------


def _assemble(edges: _Edges, table: _Table | None, directed: bool | None, file: Path) -> Graph:
    if table is None:
        order = np.argsort(edges.ids, kind="stable")
        ids, at = edges.ids[order], np.empty(len(order), dtype=np.int64)
        at[order] = np.arange(len(order))
        return _graph(edges, ids, at, None, directed, file)
    ids = _implied_ids(edges, table) if table.ids is None else table.ids
    wanted, ids = _same_kind(edges.ids, ids)
    order = np.argsort(ids, kind="stable")
    at = np.searchsorted(ids, wanted, sorter=order)
    found = at < ids.size
    found[found] = ids[order[at[found]]] == wanted[found]
    if not found.all():
        _raise_unknown(edges, found, table, file)
    return _graph(edges, ids, order[at].astype(np.int64), table, directed, file)


def _implied_ids(edges: _Edges, table: _Table) -> NDArray[Any]:
    if edges.ids.dtype.kind != "U":
        return np.arange(table.n_rows)
    if len(edges.ids) != table.n_rows:
        raise AttributeDataError(
            f"{table.n_rows} rows for {len(edges.ids)} nodes with names",
            place=str(table.file),
            remedy="Give one row per node in the order of the sorted ids, or a table with ids",
        )
    return np.sort(edges.ids)


def _raise_unknown(edges: _Edges, found: NDArray[np.bool_], table: _Table, file: Path) -> NoReturn:
    touching = ~found[edges.source] | ~found[edges.target]
    if touching.any():
        i = int(touching.argmax())
        end = edges.source if not found[edges.source[i]] else edges.target
        node, place = edges.ids[end[i]], edges.locate(i)
    else:
        node, place = edges.ids[int((~found).argmax())], str(file)
    rows = f"rows 0 to {table.n_rows - 1} of" if table.ids is None else "the nodes of"
    raise GraphError(
        f"the node {str(node)!r} is not among {rows} {table.file}",
        place=place,
        remedy="Add the node to the table, or remove the edge",
    )


def _graph(
    edges: _Edges,
    ids: NDArray[Any],
    at: NDArray[np.int64],
    table: _Table | None,
    directed: bool | None,
    file: Path,
) -> Graph:
    n = len(ids)
    weight = np.ones(len(edges.source)) if edges.weight is None else edges.weight
    matrix = sp.coo_array((weight, (at[edges.source], at[edges.target])), shape=(n, n))
    x = None if table is None else table.x
    with _placed(file if table is None else table.file):
        return Graph(
            matrix,
            x,
            ids=ids,
            directed=directed,
            y=None if table is None else table.y,
            attribute_names=None if table is None else table.names,
            name=file.stem,
        )


@contextmanager
def _placed(file: Path) -> Iterator[None]:
    """Errors of :class:`Graph` get the file they come from."""
    try:
        yield
    except HenclerError as error:
        if error.place and error.place.startswith(str(file)):
            raise
        place = f"{file}, {error.place}" if error.place else str(file)
        raise type(error)(error.problem, place=place, remedy=error.remedy) from error


def _edges_of(graph: Graph, file: Path) -> _Edges:
    edges = graph.adjacency.tocoo()
    ids = graph.ids

    def locate(i: int) -> str:
        return f"{file}, edge {ids[edges.row[i]]} -> {ids[edges.col[i]]}"

    source, target = edges.row.astype(np.int64), edges.col.astype(np.int64)
    return _Edges(ids, source, target, edges.data, locate)


def _still(graph: Graph, directed: bool | None) -> bool:
    return graph.directed if directed is None else directed


def _turned(graph: Graph, directed: bool) -> Graph:
    """The same graph, taken as a directed or an undirected one."""
    if directed == graph.directed:
        return graph
    if not directed:
        return graph.to_undirected()
    return Graph(
        graph.adjacency,
        graph.x,
        ids=graph.ids if graph.has_ids else None,
        directed=True,
        y=graph.y,
        attribute_names=graph.attribute_names,
        name=graph.name,
    )


# --- graph formats ---------------------------------------------------------------------------


def _networkx_graph(file: Path, label: str | None) -> Graph:
    nx = optional_import("networkx", f"reading {file.suffix}")
    what = "GraphML" if file.suffix.lower() == ".graphml" else "GML"
    with _guard(file, what), _placed(file):
        if what == "GraphML":
            _check_xml(file)
            graph = nx.read_graphml(file, node_type=str)
        else:
            graph = _read_gml(nx, file)
        if not len(graph):
            raise FileFormatError("the graph has no nodes", place=str(file))
        nodes = list(graph)
        names = [str(node) for node in nodes]
        for name in names:
            _raise_id(name, str(file))
        graph = nx.relabel_nodes(graph, dict(zip(nodes, _natural(names).tolist())))
        return Graph.from_networkx(graph, label=label or "y", name=file.stem)


def _read_gml(nx: Any, file: Path) -> Any:
    try:
        return nx.read_gml(file)
    except nx.NetworkXError as error:
        if "label" not in str(error):
            raise
        return nx.read_gml(file, label="id")


_DEEPEST_XML = 100


def _check_xml(file: Path) -> None:
    """Refuse what only an attack has: a document type, which can define entities that grow without
    bound, and elements nested beyond measure."""
    from xml.parsers import expat

    parser = expat.ParserCreate()

    def refuse(*_: Any) -> None:
        raise FileFormatError(
            "the file has a document type definition, which is not read",
            place=f"{file}:{parser.CurrentLineNumber}",
            remedy="Remove the <!DOCTYPE ...> part",
        )

    depth = 0

    def enter(*_: Any) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST_XML:
            raise FileFormatError(
                f"more than {_DEEPEST_XML} elements inside each other",
                place=f"{file}:{parser.CurrentLineNumber}",
                remedy="GraphML needs less than ten",
            )

    def leave(*_: Any) -> None:
        nonlocal depth
        depth -= 1

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler = enter, leave
    with open(file, "rb") as handle:
        while chunk := handle.read(1 << 16):
            parser.Parse(chunk, False)


def _mtx_graph(file: Path, label: str | None) -> Graph:
    if label is not None:
        raise ParameterError(
            f"label={label!r} was given, but a matrix has no node columns",
            place=str(file),
            remedy="Give the table of nodes as features, too",
        )
    with _guard(file, "a Matrix Market file"), _placed(file):
        matrix = read_matrix_market(file)
        rows, cols = matrix.shape
        _check_size(rows + cols, matrix.nnz, file)
        if rows != cols:
            return Graph.from_biadjacency(matrix, name=file.stem)
        return Graph(matrix, name=file.stem)


def _check_size(n: int, entries: int, file: Path) -> None:
    """A small file must not be able to ask for the memory of a huge graph."""
    if n > 10_000_000 and n > 100 * entries:
        raise FileFormatError(
            f"{n} nodes for {entries} edges",
            place=str(file),
            remedy="Number the nodes from 0 without large gaps",
        )


# --- .npz ------------------------------------------------------------------------------------


@contextmanager
def _npz(file: Path) -> Iterator[Any]:
    if zipfile.is_zipfile(file):
        check_zip(file)
    data = np.load(file, allow_pickle=False)
    if not isinstance(data, np.lib.npyio.NpzFile):
        raise FileFormatError(
            "this is a single array, not an .npz file",
            place=str(file),
            remedy="Save it with numpy.savez or hencler.io.write_npz",
        )
    with data:
        yield data


def _npz_graph(file: Path, label: str | None) -> Graph:
    with _guard(file, "an .npz file"), _npz(file) as data, _placed(file):
        x = _npz_attributes(data, file)
        matrix = _npz_edges(data, None if x is None else int(x.shape[0]), file)
        n = matrix.shape[0]
        names = data["attribute_names"].tolist() if "attribute_names" in data.files else None
        directed = bool(data["directed"]) if "directed" in data.files else None
        return Graph(
            matrix,
            x,
            ids=_npz_vector(data, ("ids", "node_names"), n, file),
            directed=directed,
            y=_npz_label(data, label, n, file),
            attribute_names=names,
            name=file.stem,
        )


def _npz_edges(data: Any, n: int | None, file: Path) -> Any:
    keys = set(data.files)
    if "adj_indptr" in keys:
        return _npz_csr(data, "adj", file)
    if "edge_index" not in keys:
        raise FileFormatError(
            "there are no edges in it; its arrays are " + ", ".join(sorted(keys)[:10]),
            place=str(file),
            remedy="Save edge_index, or adj_data, adj_indices, adj_indptr and adj_shape",
        )
    index = data["edge_index"]
    if index.ndim != 2 or index.shape[0] != 2 or index.dtype.kind not in "iu":
        raise FileFormatError(
            f"edge_index is {index.dtype} of shape {index.shape}",
            place=str(file),
            remedy="Save integers of shape (2, E)",
        )
    if n is None:
        lengths = [len(data[k]) for k in ("ids", "node_names", "y", "labels") if k in keys]
        n = lengths[0] if lengths else int(index.max(initial=-1)) + 1
    if index.size and (int(index.min()) < 0 or int(index.max()) >= n):
        i = int(((index < 0) | (index >= n)).any(axis=0).argmax())
        raise GraphError(
            f"edge {index[0, i]} -> {index[1, i]}, but there are {n} nodes",
            place=f"{file}, column {i} of edge_index",
            remedy="Number the nodes from 0 to n - 1",
        )
    _check_size(n, index.shape[1], file)
    weight = np.ones(index.shape[1])
    if "edge_weight" in keys:
        weight = _real(data["edge_weight"], "edge_weight", file).astype(np.float64)
        if weight.shape != (index.shape[1],):
            raise FileFormatError(
                f"edge_weight has shape {weight.shape} for {index.shape[1]} edges", place=str(file)
            )
        _check_weights(weight, "edge_weight", lambda i: f"{file}, edge number {i}")
    return sp.coo_array((weight, (index[0].astype(np.int64), index[1].astype(np.int64))), (n, n))


def _npz_csr(data: Any, prefix: str, file: Path) -> Any:
    parts = [data[f"{prefix}_{part}"] for part in ("data", "indices", "indptr")]
    shape = tuple(int(size) for size in data[f"{prefix}_shape"])
    values, indices, indptr = parts
    _real(values, f"{prefix}_data", file)
    if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu" or len(shape) != 2:
        raise FileFormatError(f"{prefix}_* is not a CSR matrix", place=str(file))
    matrix = sp.csr_array((values, indices, indptr), shape=shape)
    matrix.check_format(full_check=True)
    return matrix


def _npz_attributes(data: Any, file: Path) -> Any:
    if "attr_indptr" in data.files:
        return _npz_csr(data, "attr", file)
    return _real(data["x"], "x", file) if "x" in data.files else None


def _real(values: Any, name: str, file: Path) -> Any:
    if values.dtype.kind not in "buif":
        raise FileFormatError(
            f"{name} is of type {values.dtype}, not real numbers", place=str(file)
        )
    return values


def _npz_label(data: Any, label: str | None, n: int, file: Path) -> NDArray[Any] | None:
    if label is not None:
        _label_column(data.files, label, file)
    return _npz_vector(data, ("y", "labels") if label is None else (label,), n, file)


def _npz_vector(data: Any, keys: Sequence[str], n: int, file: Path) -> NDArray[Any] | None:
    for key in keys:
        if key in data.files:
            values = np.asarray(data[key])
            if values.shape != (n,):
                raise FileFormatError(
                    f"{key} has shape {values.shape} for {n} nodes",
                    place=str(file),
                    remedy="Save one value per node",
                )
            return values
    return None


# --- writers ---------------------------------------------------------------------------------


def write_npz(graph: Graph, path: PathLike) -> None:
    """Graph as an .npz file in the layout of this module, exactly and without pickle."""
    edges = graph.adjacency
    arrays: dict[str, Any] = {"directed": np.array(graph.directed)} | _csr_parts("adj", edges)
    if graph.x is not None:
        arrays |= _csr_parts("attr", graph.x) if sp.issparse(graph.x) else {"x": graph.x}
    if graph.has_ids:
        arrays["ids"] = graph.ids
    if graph.y is not None:
        arrays["y"] = graph.y.astype(str) if graph.y.dtype.kind == "O" else graph.y
    if graph.attribute_names is not None:
        arrays["attribute_names"] = np.array(graph.attribute_names, dtype=str)
    with atomic_write(_with_suffix(path, (".npz",))) as handle:
        np.savez(handle, allow_pickle=False, **arrays)


def _csr_parts(prefix: str, matrix: Any) -> dict[str, Any]:
    return {
        f"{prefix}_data": matrix.data,
        f"{prefix}_indices": matrix.indices,
        f"{prefix}_indptr": matrix.indptr,
        f"{prefix}_shape": np.array(matrix.shape),
    }


def write_edge_list(graph: Graph, path: PathLike, *, attributes: PathLike | None = None) -> None:
    """Edges as ``source,target,weight`` and, on request, the nodes as a table beside them.

    Parameters
    ----------
    path : .csv or .tsv
        An undirected edge is written in both directions, so that :func:`read_graph` finds an
        undirected graph again.
    attributes : .csv or .tsv, optional
        Table ``id``, attributes, and ``label`` where the graph has classes. Needed when some
        nodes have no edge, since an edge list does not know them.
    """
    edges = graph.adjacency.tocoo()
    ids = graph.ids.tolist()
    lost = graph.n_nodes - len(np.union1d(edges.row, edges.col))
    if lost and attributes is None:
        raise GraphError(
            f"{lost} nodes without an edge would be lost",
            place=str(path),
            remedy="Name a file for the attributes, too, or use write_npz",
        )
    rows = zip(edges.row.tolist(), edges.col.tolist(), edges.data.tolist())
    with _csv_writer(path, ids) as writer:
        writer.writerow(["source", "target", "weight"])
        writer.writerows((ids[u], ids[v], repr(w)) for u, v, w in rows)
    if attributes is not None:
        _write_table(graph, attributes, ids)


def _write_table(graph: Graph, path: PathLike, ids: list[Any]) -> None:
    names = list(graph.attribute_names or (f"x{j}" for j in range(graph.n_attributes)))
    labels = None if graph.y is None else graph.y.tolist()
    with _csv_writer(path, ids + names + (labels or [])) as writer:
        writer.writerow(["id", *names] + ([] if labels is None else ["label"]))
        for i, node in enumerate(ids):
            row: Any = [] if graph.x is None else graph.x[[i]]
            row = row.toarray() if sp.issparse(row) else np.asarray(row)
            cells = [repr(float(v)) for v in row.ravel()]
            writer.writerow([node, *cells] + ([] if labels is None else [labels[i]]))


@contextmanager
def _csv_writer(path: PathLike, texts: Sequence[Any]) -> Iterator[Any]:
    file = _with_suffix(path, (".csv", ".tsv"))
    # Without quotation marks a leading space or a carriage return would not come back.
    odd = any(isinstance(t, str) and (t != t.strip() or "\r" in t) for t in texts)
    with atomic_write(file, "w") as handle:
        yield csv.writer(
            handle,
            delimiter=_TEXT[file.suffix.lower()] or ",",
            lineterminator="\n",
            quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL,
        )


def _with_suffix(path: PathLike, suffixes: Sequence[str]) -> Path:
    file = Path(path)
    if file.suffix.lower() not in suffixes:
        raise FileFormatError(
            f"the suffix {file.suffix!r} is not one to write here",
            place=str(file),
            remedy=f"Use {' or '.join(suffixes)}",
        )
    return file


# --- labels ----------------------------------------------------------------------------------


def write_labels(path: PathLike, graph_ids: Any, labels: Any) -> None:
    """Clusters as a table ``node,cluster``, one line per node."""
    ids, values = np.asarray(graph_ids), np.asarray(labels)
    if ids.ndim != 1 or ids.shape != values.shape:
        raise ParameterError(
            f"{values.shape} labels for {ids.shape} ids", remedy="Give one label per node"
        )
    # Quotation marks are for odd texts; numbers need no look, and no list of all of them exists.
    texts = [v for part in (ids, values) if part.dtype.kind not in "biuf" for v in part.tolist()]
    with _csv_writer(path, texts) as writer:
        writer.writerow(["node", "cluster"])
        for start in range(0, len(ids), _LABEL_ROWS):
            rows = slice(start, start + _LABEL_ROWS)
            writer.writerows(zip(ids[rows].tolist(), values[rows].tolist()))


def read_labels(path: PathLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ids and clusters (or classes) from a table of two or more columns.

    The columns are found by name (``node`` or ``id``; ``cluster``, ``label``, ``class`` or ``y``),
    else they are the first two. Integers are read as integers, anything else as strings.

    Returns
    -------
    ids, labels : arrays of shape (n,)
    """
    file = _existing(path, _LABEL_SUFFIXES, "labels")
    if file.suffix.lower() == ".parquet":
        return _parquet_labels(file)
    (line, first), *rest = _first_rows(file)
    if len(first) < 2:
        raise FileFormatError(
            "one field only, a node and its cluster are needed",
            place=f"{file}:{line}",
            remedy=f"Separate the fields by {_separator(file)}",
        )
    key, at = _column(first, _ID), _column(first, _CLUSTER)
    header = key is not None or at is not None
    key, at = _two_columns(key, at)
    if not header and rest:
        header = not _INTEGER.match(first[at]) and bool(_INTEGER.match(rest[0][1][at]))
    ids, labels = [], []
    rows = _rows(file)
    if header:
        next(rows)
    for line, fields in rows:
        _raise_id(fields[key], f"{file}:{line}")
        if not fields[at].strip():
            _raise_no_label(f"{file}:{line}")
        _raise_long(fields[at], f"{file}:{line}")
        ids.append(fields[key])
        labels.append(fields[at])
    if not ids:
        raise FileFormatError("there is no label", place=str(file), remedy="Give one per node")
    out = _natural(ids)
    _check_unique(out, lambda row: f"{file}:{_data_line(file, header, row)}")
    return out, _natural(labels)


def _parquet_labels(file: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    with _guard(file, "a parquet file"):
        table = _open_parquet(file).read()
        names = list(table.column_names)
        if len(names) < 2 or not table.num_rows:
            raise FileFormatError("a node and its cluster are needed", place=str(file))
        key, at = _two_columns(_column(names, _ID), _column(names, _CLUSTER))
        ids, labels = (_parquet_column(table, names[j], file) for j in (key, at))
    ids = _natural(ids.tolist()) if ids.dtype.kind == "U" else ids
    _check_unique(ids, lambda row: f"{file}, row {row + 1}")
    return ids, _natural(labels.tolist()) if labels.dtype.kind == "U" else labels


def _two_columns(key: int | None, at: int | None) -> tuple[int, int]:
    if key is None:
        key = 1 if at == 0 else 0
    if at is None:
        at = 1 if key == 0 else 0
    return key, at


def align_labels(ids: Any, table: tuple[Any, Any]) -> NDArray[Any]:
    """Labels of `table` = (ids, labels) in the order of `ids`; other nodes are left out."""
    wanted, known = _same_kind(np.asarray(ids), np.asarray(table[0]))
    labels = np.asarray(table[1])
    order = np.argsort(known, kind="stable")
    at = np.searchsorted(known, wanted, sorter=order)
    found = at < known.size
    found[found] = known[order[at[found]]] == wanted[found]
    if not found.all():
        first = str(wanted[int((~found).argmax())])
        raise GraphError(
            f"{int((~found).sum())} of {len(wanted)} nodes have no label, the first is {first!r}",
            remedy="Give a label for every node of the graph",
        )
    return np.asarray(labels[order[at]])
