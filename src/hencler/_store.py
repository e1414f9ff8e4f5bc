"""A graph on disk that is used where it lies: links and attributes as memory maps.

A store is a folder with ``graph.json`` and one ``.npy`` file (version 1.0, C order, no pickle) per
array:

============ ====================== ================================================================
file         type and shape         holds
============ ====================== ================================================================
indptr       int32/int64 (n + 1,)   node v links to ``indices[indptr[v]:indptr[v + 1]]``
indices      as indptr (m,)         targets, strictly increasing for each node
weights      float32/float64 (m,)   positive weights; without the file all are 1
x            float16/32/64 (n, d)   attributes
x_indptr,    int32/int64, float     sparse attributes in place of x, in the same layout, without
x_indices,                          stored zeros
x_data
ids          int64 or text (n,)     names of the nodes; without the file 0 ... n-1
y            integer or text (n,)   classes, for evaluation only
============ ====================== ================================================================

An undirected graph holds every edge in both directions. What the reader needs to be safe is checked
block by block on opening; nothing of the size of a file is ever held in memory.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._errors import FileFormatError, GraphError
from ._graph import Graph, check_attributes, check_ids

__all__ = ["NpyWriter", "Store", "finish_store", "index_type", "new_folder", "write_store"]

FORMAT, VERSION = "hencler-store", 1
HEADER = "graph.json"

_BLOCK = 1 << 22
"""Entries of an array looked at in one go."""

_INTEGERS, _FLOATS = ("int32", "int64"), ("float16", "float32", "float64")
_TYPES = {
    "indptr": _INTEGERS,
    "indices": _INTEGERS,
    "weights": _FLOATS[1:],
    "x": _FLOATS,
    "x_indptr": _INTEGERS,
    "x_indices": _INTEGERS,
    "x_data": _FLOATS[1:],
}
_SPARSE = ("x_indptr", "x_indices", "x_data")
_REMEDY = "Write the store again with 'hencler convert'"


def index_type(n: int, entries: int) -> np.dtype[Any]:
    """Type of positions: SciPy wants the same one for indptr and indices."""
    return np.dtype(np.int32 if max(n, entries) < 2**31 else np.int64)


# --- reading ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Store:
    """An opened store.

    Attributes
    ----------
    header : what ``graph.json`` says
    arrays : dict of memory maps by name
    """

    folder: Path
    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]] = field(repr=False)

    @classmethod
    def open(cls, folder: str | os.PathLike[str], *, check: bool = True) -> Store:
        """Open a store; sizes, types and shapes are always checked.

        ``check=False`` leaves out the one pass over the entries, for a store that this process or
        another has just checked.
        """
        path = Path(folder)
        header = _read_header(path)
        store = cls(path, header, {name: _map(path, name, header) for name in header["arrays"]})
        store._check_shapes()
        if check:
            store.check_rows(0, store.n_nodes)
        return store

    @property
    def n_nodes(self) -> int:
        return int(self.header["nodes"])

    @property
    def mapped_bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    def rows(self, lo: int, hi: int) -> tuple[Any, Any | None]:
        """Links (hi - lo, n) and attributes (hi - lo, d) of the nodes lo ... hi - 1.

        This is what one of several processes reads: no other rows are touched.
        """
        links = _csr(self.arrays, "", (self.n_nodes, self.n_nodes), lo, hi)
        if "x" in self.arrays:
            return links, self.arrays["x"][lo:hi]
        if "x_indptr" in self.arrays:
            return links, _csr(self.arrays, "x_", (self.n_nodes, self._columns), lo, hi)
        return links, None

    def graph(self) -> Graph:
        """The whole graph around the memory maps."""
        adjacency, x = self.rows(0, self.n_nodes)
        names = self.header.get("attribute_names")
        return Graph._from_parts(
            adjacency=adjacency,
            x=x,
            _ids=self.arrays.get("ids"),
            directed=self.header["directed"],
            y=self.arrays.get("y"),
            attribute_names=None if names is None else tuple(names),
            name=self.header.get("name"),
            n_self_loops=self.header["self_loops"],
            source=str(self.folder.resolve()),
        )

    @property
    def _columns(self) -> int:
        return int(self.header["attributes"])

    def _check_shapes(self) -> None:
        n, m = self.n_nodes, int(self.header["entries"])
        wanted: dict[str, tuple[int, ...]] = {"indptr": (n + 1,), "indices": (m,), "weights": (m,)}
        wanted |= {"ids": (n,), "y": (n,), "x": (n, self._columns), "x_indptr": (n + 1,)}
        if "x_data" in self.arrays:
            wanted |= dict.fromkeys(("x_indices", "x_data"), self.arrays["x_data"].shape)
        for name, array in self.arrays.items():
            if array.shape != wanted.get(name):
                self._fail(f"{name} has shape {array.shape}, not {wanted.get(name)}", name)
        has_sparse = [name in self.arrays for name in _SPARSE]
        if not {"indptr", "indices"} <= set(self.arrays) or any(has_sparse) != all(has_sparse):
            self._fail("some of the arrays are missing", HEADER)
        if any(has_sparse) and "x" in self.arrays:
            self._fail("the attributes are there twice, as x and as x_*", HEADER)
        for prefix in ("", "x_"):
            types = {self.arrays[prefix + p].dtype for p in ("indptr", "indices")
                     if prefix + p in self.arrays}  # fmt: skip
            if len(types) > 1:
                self._fail(f"{prefix}indptr and {prefix}indices are of different types", HEADER)

    def check_rows(self, lo: int, hi: int) -> None:
        """Check the entries of the nodes lo ... hi - 1: positions, order, weights, attributes."""
        self._check_csr("", self.n_nodes, lo, hi)
        if "x_indptr" in self.arrays:
            self._check_csr("x_", self._columns, lo, hi)
        elif "x" in self.arrays:
            try:
                check_attributes(self.arrays["x"][lo:hi], hi - lo)
            except Exception as error:
                self._fail(str(error).rstrip("."), "x")
        if "ids" in self.arrays:
            try:
                check_ids(self.arrays["ids"], self.n_nodes)
            except GraphError as error:
                self._fail(error.problem, "ids")

    def _check_csr(self, prefix: str, width: int, lo: int, hi: int) -> None:
        indptr, indices = self.arrays[f"{prefix}indptr"], self.arrays[f"{prefix}indices"]
        if int(indptr[0]) != 0 or int(indptr[-1]) != len(indices):
            self._fail(f"it does not run from 0 to {len(indices)}", f"{prefix}indptr")
        for start in range(lo, hi, _BLOCK):
            part = indptr[start : min(start + _BLOCK, hi) + 1]
            if np.any(part[1:] < part[:-1]) or part[0] < 0 or part[-1] > len(indices):
                self._fail("it is not increasing", f"{prefix}indptr")
        data = self.arrays.get("x_data" if prefix else "weights")
        for rows in _entry_blocks(indptr, lo, hi):
            at = slice(int(indptr[rows.start]), int(indptr[rows.stop]))
            part = indices[at]
            if part.size and (int(part.min()) < 0 or int(part.max()) >= width):
                self._fail(f"a position is not in 0 ... {width - 1}", f"{prefix}indices")
            rising = part[1:] > part[:-1]
            begins = indptr[rows.start + 1 : rows.stop] - indptr[rows.start]
            rising[begins[(begins > 0) & (begins < part.size)] - 1] = True
            if not rising.all():
                self._fail("the positions of a node are not increasing", f"{prefix}indices")
            values = None if data is None else data[at]
            if values is None:
                continue
            if not np.isfinite(values).all() or (not prefix and values.min(initial=1) <= 0):
                wanted = "finite" if prefix else "positive and finite"
                self._fail(f"an entry is not {wanted}", "x_data" if prefix else "weights")

    def _fail(self, problem: str, name: str) -> None:
        file = name if name == HEADER else f"{name}.npy"
        raise FileFormatError(problem, place=str(self.folder / file), remedy=_REMEDY)


def _read_header(folder: Path) -> dict[str, Any]:
    path = folder / HEADER
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileFormatError(
            "this is a folder without a graph: graph.json is missing",
            place=str(folder),
            remedy="Name a graph file, or make a store with 'hencler convert'",
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise FileFormatError(
            f"the header cannot be read ({error})", place=str(path), remedy=_REMEDY
        ) from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise FileFormatError("this is not the header of a store", place=str(path), remedy=_REMEDY)
    if header.get("version") != VERSION:
        raise FileFormatError(
            f"the store has version {header.get('version')!r}, this program reads {VERSION}",
            place=str(path),
            remedy="Install a newer version of hencler, or convert the graph again",
        )
    counts = [header.get(key) for key in ("nodes", "entries", "attributes", "self_loops")]
    names = header.get("attribute_names")
    if not (
        all(type(count) is int and count >= 0 for count in counts)
        and header["nodes"] > 0
        and type(header.get("directed")) is bool
        and isinstance(header.get("arrays"), dict)
        and (header.get("name") is None or isinstance(header["name"], str))
        and (
            names is None
            or (
                isinstance(names, list)
                and len(names) == header["attributes"]
                and all(isinstance(name, str) for name in names)
            )
        )
    ):
        raise FileFormatError(
            "the header lacks a field, or one is of another kind", place=str(path), remedy=_REMEDY
        )
    return header


def _map(folder: Path, name: str, header: dict[str, Any]) -> NDArray[Any]:
    """The array as a memory map, if it is what the header says."""
    path = folder / f"{name}.npy"

    def fail(problem: str) -> FileFormatError:
        return FileFormatError(problem, place=str(path), remedy=_REMEDY)

    if name not in _TYPES and name not in ("ids", "y"):
        raise fail("the header names an array that a store does not have")
    entry = header["arrays"][name]
    if not isinstance(entry, dict):
        raise fail("the header does not describe it")
    try:
        size = path.stat().st_size
        if size != entry.get("bytes"):
            raise fail(f"the file has {size} bytes, the header says {entry.get('bytes')}")
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileFormatError:
        raise
    except (OSError, ValueError, EOFError, TypeError, OverflowError, SyntaxError) as error:
        raise fail(f"the array cannot be opened ({error})") from error
    kinds = _TYPES.get(name)
    good = array.dtype.kind in "iuU" if kinds is None else array.dtype.name in kinds
    if not good or not array.dtype.isnative or not array.flags.c_contiguous:
        raise fail(f"the type {array.dtype} or its order in memory is not one of a store")
    if array.dtype.str != entry.get("dtype") or list(array.shape) != entry.get("shape"):
        raise fail("the array is not the one that the header describes")
    return array


def _csr(
    arrays: dict[str, NDArray[Any]], prefix: str, shape: tuple[int, int], lo: int, hi: int
) -> Any:
    """Rows lo ... hi - 1 as a CSR matrix around the maps; nothing is copied but part of indptr."""
    indptr = arrays[f"{prefix}indptr"][lo : hi + 1]
    at = slice(int(indptr[0]), int(indptr[-1]))
    data = arrays.get("x_data" if prefix else "weights")
    # One number for all entries: SciPy copies it out where it needs more.
    one = np.broadcast_to(np.ones((), dtype=np.float32), (at.stop - at.start,))
    matrix = sp.csr_array((hi - lo, shape[1]), dtype=np.float32 if data is None else data.dtype)
    matrix.indptr = indptr if at.start == 0 else indptr - indptr[0]
    matrix.indices = arrays[f"{prefix}indices"][at]
    matrix.data = one if data is None else data[at]
    matrix.has_canonical_format = True  # else SciPy would scan, or copy and sort
    return matrix


def _entry_blocks(indptr: NDArray[Any], lo: int, hi: int) -> Iterator[slice]:
    """Slices of rows with about `_BLOCK` entries each; a row is never split."""
    while lo < hi:
        stop = int(np.searchsorted(indptr, int(indptr[lo]) + _BLOCK, side="right")) - 1
        stop = min(max(stop, lo + 1), hi, lo + _BLOCK)
        yield slice(lo, stop)
        lo = stop


# --- writing ---------------------------------------------------------------------------------


class NpyWriter:
    """One ``.npy`` file that grows by rows; its header gets the final shape at the end.

    Parameters
    ----------
    path : file to write
    dtype : type of the entries
    columns : length of a row; None for a vector
    """

    _START = 128

    def __init__(self, path: Path, dtype: Any, columns: int | None = None) -> None:
        self.path, self.dtype, self.columns = path, np.dtype(dtype), columns
        self.length = 0
        self._file = open(path, "wb")  # noqa: SIM115
        self._file.write(b"\0" * self._START)

    def append(self, block: Any) -> None:
        """Add rows, converted to the file's type."""
        block = np.ascontiguousarray(block, dtype=self.dtype)
        self._file.write(memoryview(block).cast("B") if block.size else b"")
        self.length += len(block)

    def close(self) -> None:
        rest = () if self.columns is None else (self.columns,)
        text = str({"descr": self.dtype.str, "fortran_order": False,
                    "shape": (self.length, *rest)})  # fmt: skip
        room = self._START - 10
        head = b"\x93NUMPY\x01\x00" + room.to_bytes(2, "little")
        self._file.seek(0)
        self._file.write(head + text.ljust(room - 1).encode("latin1") + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def __enter__(self) -> NpyWriter:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
        else:
            self._file.close()


@contextmanager
def new_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder that is renamed to `folder` when the block ends without an error."""
    target = Path(folder)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise FileFormatError(
            "there is something of this name already",
            place=str(target),
            remedy="Name a folder that does not exist yet",
        )
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        temporary.mkdir(parents=True)
    except OSError as error:
        raise FileFormatError(
            f"the folder cannot be made ({error.strerror})",
            place=str(target),
            remedy="Choose a folder that exists and may be written to",
        ) from error
    try:
        yield temporary
        if target.exists():
            target.rmdir()
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def finish_store(
    folder: Path,
    *,
    directed: bool,
    self_loops: int,
    name: str | None = None,
    attribute_names: list[str] | None = None,
) -> None:
    """Write ``graph.json`` beside the arrays that are there; with it the folder is a store."""
    arrays: dict[str, Any] = {}
    for path in sorted(folder.glob("*.npy")):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        arrays[path.stem] = {
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "bytes": path.stat().st_size,
        }
    attributes = arrays["x"]["shape"][1] if "x" in arrays else 0
    if "x_indices" in arrays:
        columns = folder / "x_columns"  # left by the writer of the sparse parts
        attributes = int(columns.read_text())
        columns.unlink()
    header = {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "nodes": arrays["indptr"]["shape"][0] - 1,
        "entries": arrays["indices"]["shape"][0],
        "directed": directed,
        "self_loops": self_loops,
        "attributes": attributes,
        "attribute_names": attribute_names,
        "arrays": arrays,
    }
    with open(folder / HEADER, "w", encoding="utf-8") as file:
        json.dump(header, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def write_store(graph: Graph, folder: str | os.PathLike[str]) -> None:
    """Write a graph that is in memory as a store."""
    with new_folder(folder) as temporary:
        links = graph.adjacency
        weighted = bool(links.nnz) and not bool(np.all(links.data == 1))
        _write_csr(temporary, "", links, links.data if weighted else None)
        if graph.x is not None and sp.issparse(graph.x):
            _write_csr(temporary, "x_", graph.x, graph.x.data)
            (temporary / "x_columns").write_text(str(graph.n_attributes))
        elif graph.x is not None:
            kind = graph.x.dtype if graph.x.dtype.name in _FLOATS else np.dtype(np.float32)
            with NpyWriter(temporary / "x.npy", kind.newbyteorder("="), graph.n_attributes) as out:
                step = max(1, _BLOCK // graph.n_attributes)
                for start in range(0, graph.n_nodes, step):
                    out.append(graph.x[start : start + step])
        if graph.has_ids:
            np.save(temporary / "ids.npy", graph.ids, allow_pickle=False)
        if graph.y is not None:
            y = graph.y if graph.y.dtype.kind in "iuU" else graph.y.astype(str)
            np.save(temporary / "y.npy", y, allow_pickle=False)
        names = graph.attribute_names
        finish_store(
            temporary,
            directed=graph.directed,
            self_loops=graph.n_self_loops,
            name=graph.name,
            attribute_names=None if names is None else list(names),
        )


def _write_csr(folder: Path, prefix: str, matrix: Any, data: NDArray[Any] | None) -> None:
    kind = index_type(max(matrix.shape), matrix.nnz)
    parts = [("indptr", matrix.indptr, kind), ("indices", matrix.indices, kind)]
    if data is not None:
        wanted = data.dtype if data.dtype.name in _FLOATS[1:] else np.dtype(np.float64)
        parts.append(("data" if prefix else "weights", data, wanted))
    for name, values, dtype in parts:
        with NpyWriter(folder / f"{prefix}{name}.npy", dtype) as out:
            for start in range(0, len(values), _BLOCK):
                out.append(values[start : start + _BLOCK])
