"""Graphs and attributes as .npz files, without pickle."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._errors import FileFormatError, GraphError
from .._graph import Graph
from .._limits import check_zip
from ._assemble import Table, check_weights
from ._columns import label_column
from ._files import PathLike, atomic_write, check_size, guarded, placed, with_suffix
from ._ids import check_unique

__all__ = ["npz_graph", "npz_table", "write_npz"]


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


def npz_graph(file: Path, label: str | None) -> Graph:
    with guarded(file, "an .npz file"), _npz(file) as data, placed(file):
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
    check_size(n, index.shape[1], file)
    weight = np.ones(index.shape[1])
    if "edge_weight" in keys:
        weight = _real(data["edge_weight"], "edge_weight", file).astype(np.float64)
        if weight.shape != (index.shape[1],):
            raise FileFormatError(
                f"edge_weight has shape {weight.shape} for {index.shape[1]} edges", place=str(file)
            )
        check_weights(weight, "edge_weight", lambda i: f"{file}, edge number {i}")
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
        label_column(data.files, label, file)
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


def npz_table(file: Path, label: str | None) -> Table:
    with guarded(file, "an .npz file"), _npz(file) as data:
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
        check_unique(ids, lambda row: f"{file}, row {row + 1}")
    return Table(file, ids, x, y)


def write_npz(graph: Graph, path: PathLike) -> None:
    """Graph as an .npz file in the layout of this module, exactly and without pickle.

    Examples
    --------
    >>> from hencler import make_heterophilous_graph, read_graph
    >>> from hencler.io import write_npz
    >>> graph = make_heterophilous_graph(60, 3, random_state=0)
    >>> write_npz(graph, "graph.npz")
    >>> bool((read_graph("graph.npz").x == graph.x).all())
    True
    """
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
    with atomic_write(with_suffix(path, (".npz",))) as handle:
        np.savez(handle, allow_pickle=False, **arrays)


def _csr_parts(prefix: str, matrix: Any) -> dict[str, Any]:
    return {
        f"{prefix}_data": matrix.data,
        f"{prefix}_indices": matrix.indices,
        f"{prefix}_indptr": matrix.indptr,
        f"{prefix}_shape": np.array(matrix.shape),
    }
