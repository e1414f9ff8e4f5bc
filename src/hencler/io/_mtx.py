"""Matrix Market files.

SciPy's reader ends the process (segmentation fault, division by zero) on some damaged files in
dense format, so that files of unknown origin are read here, by NumPy's parser of tables.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._errors import FileFormatError, ParameterError
from .._graph import Graph
from ._files import check_size, guarded, placed

__all__ = ["mtx_graph", "read_matrix_market"]

_FORMATS = ("coordinate", "array")
_FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
_SYMMETRIES = ("general", "symmetric", "skew-symmetric")


class _Header(NamedTuple):
    format: str
    field: str
    symmetry: str
    rows: int
    cols: int
    entries: int


def mtx_graph(file: Path, label: str | None, bipartite: bool) -> Graph:
    if label is not None:
        raise ParameterError(
            f"label={label!r} was given, but a matrix has no node columns",
            place=str(file),
            remedy="Give the table of nodes as features, too",
        )
    with guarded(file, "a Matrix Market file"), placed(file):
        matrix = read_matrix_market(file)
        rows, cols = matrix.shape
        check_size(rows + cols, matrix.nnz, file)
        if bipartite or rows != cols:
            return Graph.from_biadjacency(matrix, name=file.stem)
        return Graph(matrix, name=file.stem)


def read_matrix_market(file: Path) -> Any:
    """The matrix of a Matrix Market file as a COO array of float64.

    Only the stored half of a symmetric matrix is in the file; both are returned.
    """
    with open(file, encoding="utf-8") as handle:
        header = _header(handle, file)
        read = _coordinates if header.format == "coordinate" else _array
        row, col, value = read(handle, header, file)
    if header.symmetry != "general":
        off = row != col
        sign = -1.0 if header.symmetry == "skew-symmetric" else 1.0
        row, col = np.concatenate([row, col[off]]), np.concatenate([col, row[off]])
        value = np.concatenate([value, sign * value[off]])
    return sp.coo_array((value, (row, col)), shape=(header.rows, header.cols))


def _header(handle: IO[str], file: Path) -> _Header:
    words = handle.readline(1024).lower().split()
    if len(words) != 5 or words[0] != "%%matrixmarket" or words[1] != "matrix":
        raise FileFormatError(
            "this is not the first line of a Matrix Market file",
            place=f"{file}:1",
            remedy="It must be '%%MatrixMarket matrix', the format, the field and the symmetry",
        )
    for word, known in zip(words[2:], (_FORMATS, _FIELDS, _SYMMETRIES)):
        if word not in known:
            raise FileFormatError(
                f"{word!r} matrices are not read here",
                place=f"{file}:1",
                remedy=f"Save the matrix as {', '.join(known)}",
            )
    form, field, symmetry = words[2:]
    size = next(_lines(handle), "").split()
    if len(size) != (3 if form == "coordinate" else 2) or not all(_is_size(s) for s in size):
        raise FileFormatError(
            "the line with the size of the matrix is missing or wrong",
            place=str(file),
            remedy="It must be the numbers of rows, columns and, for coordinates, entries",
        )
    rows, cols, *rest = map(int, size)
    if symmetry != "general" and rows != cols:
        raise FileFormatError("a symmetric matrix must be square", place=str(file))
    if form == "array" and field == "pattern":
        raise FileFormatError("a dense matrix needs values", place=f"{file}:1")
    return _Header(form, field, symmetry, rows, cols, rest[0] if rest else rows * cols)


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 16


def _lines(handle: IO[str]) -> Iterator[str]:
    return (line for line in handle if line.strip() and not line.startswith("%"))


def _table(handle: IO[str], kind: Any, entries: int, file: Path) -> NDArray[Any]:
    """The body, one row a line; it must have as many as announced."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a body without lines
        table = np.loadtxt(_lines(handle), dtype=kind, comments=None, ndmin=1)
    if table.shape != (entries,):
        raise FileFormatError(
            f"{table.size} entries, but {entries} are announced",
            place=str(file),
            remedy="The file may have been cut off",
        )
    return table


def _coordinates(
    handle: IO[str], header: _Header, file: Path
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    kind: list[tuple[str, Any]] = [("row", np.int64), ("col", np.int64)]
    if header.field != "pattern":
        kind.append(("value", np.float64))
    table = _table(handle, kind, header.entries, file)
    row, col = table["row"] - 1, table["col"] - 1
    outside = (row < 0) | (row >= header.rows) | (col < 0) | (col >= header.cols)
    if outside.any():
        i = int(outside.argmax())
        raise FileFormatError(
            f"entry {i + 1} is at ({row[i] + 1}, {col[i] + 1}), outside of the matrix",
            place=str(file),
            remedy=f"It has {header.rows} rows and {header.cols} columns, counted from 1",
        )
    value = np.ones(len(table)) if header.field == "pattern" else table["value"]
    return row, col, value


def _array(
    handle: IO[str], header: _Header, file: Path
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Dense, column by column; of a symmetric matrix the lower triangle."""
    n = header.rows
    stored = {
        "general": header.entries,
        "symmetric": n * (n + 1) // 2,
        "skew-symmetric": n * (n - 1) // 2,
    }[header.symmetry]
    value = _table(handle, np.float64, stored, file)
    if header.symmetry == "general":
        col, row = np.divmod(np.arange(stored), max(n, 1))
    else:
        col, row = np.triu_indices(n, 1 if header.symmetry == "skew-symmetric" else 0)
    return row, col, value
