"""Attributes of the nodes, from a file of their own."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._errors import FileFormatError, ParameterError
from ._assemble import Table, check_cells
from ._columns import ID_NAMES, find_column, label_column, raise_no_label
from ._files import PathLike, existing_file, guarded
from ._ids import check_id, check_text, check_unique, natural, plain_id
from ._npz import npz_table
from ._parquet import parquet_table
from ._text import (
    data_line,
    first_rows,
    is_number,
    parse_number,
    raise_one_field,
    read_with_arrow,
    text_rows,
)

__all__ = ["TABLE_SUFFIXES", "read_table"]


TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".npy", ".npz")


def read_table(path: PathLike, label: str | None) -> Table:
    file = existing_file(path, TABLE_SUFFIXES, "node attributes")
    suffix = file.suffix.lower()
    if suffix == ".npy":
        if label is not None:
            raise ParameterError(
                f"label={label!r} was given, but an array has no column names",
                place=str(file),
                remedy="Use a .csv table or an .npz file for attributes with labels",
            )
        with guarded(file, "a .npy array"):
            x = np.load(file, mmap_mode="r", allow_pickle=False)
            if not isinstance(x, np.ndarray) or x.ndim != 2 or x.dtype.kind not in "buif":
                raise FileFormatError(
                    "this is not a table of numbers", place=str(file), remedy="Save an (n, d) array"
                )
        return Table(file, None, x)
    if suffix == ".npz":
        return npz_table(file, label)
    if suffix == ".parquet":
        return parquet_table(file, label)
    return _text_table(file, label)


def _text_table(file: Path, label: str | None) -> Table:
    (line, first), *_ = first_rows(file)
    if len(first) == 1 and ";" in first[0]:
        raise_one_field(first[0], file, line, "a table of nodes has their ids and attributes")
    key = find_column(first, ID_NAMES)
    header = line if key is not None or not all(map(is_number, first[1:])) else 0
    names = [name.strip() for name in first] if header else [""] * len(first)
    for name in names:
        check_text(name, f"{file}:{line}")
    key = key or 0
    at = label_column(names, label, file) if label is not None else None
    columns = [j for j in range(len(names)) if j not in (key, at)]
    ids, labels, x = _arrow_table(file, header, names, key, at, columns) or _scanned_table(
        file, header, names, key, at, columns
    )

    def place(row: int, column: str = "") -> str:
        where = f"{file}:{data_line(file, header, row)}"
        return f"{where}, column {column!r}" if column else where

    if not ids:
        raise FileFormatError(
            "there is a header, but no node", place=str(file), remedy="Give one line per node"
        )
    check_cells(x, lambda i, j: place(i, names[columns[j]] or str(columns[j] + 1)))
    array_ids = natural(ids)
    check_unique(array_ids, place)
    y = None
    if labels is not None:
        for row, text in enumerate(labels):
            if not text:
                raise_no_label(place(row, label or ""))
            check_text(text, f"{file}, node {array_ids[row]}")
        y = natural(labels)
    chosen = [names[j] for j in columns]
    return Table(file, array_ids, x if columns else None, y, chosen if header and columns else None)


_Columns: TypeAlias = tuple[list[str], list[str] | None, NDArray[np.float64]]


def _scanned_table(
    file: Path, header: int, names: list[str], key: int, at: int | None, columns: list[int]
) -> _Columns:
    ids: list[str] = []
    labels: list[str] = []
    values = array("d")
    rows = text_rows(file)
    if header:
        next(rows)
    for line, fields in rows:
        check_id(fields[key], f"{file}:{line}")
        ids.append(fields[key])
        if at is not None:
            labels.append(fields[at].strip())
        values.extend(parse_number(fields[j], file, line, names[j] or str(j + 1)) for j in columns)
    x = np.array(values, dtype=np.float64).reshape(len(ids), len(columns))
    return ids, None if at is None else labels, x


def _arrow_table(
    file: Path, header: int, names: list[str], key: int, at: int | None, columns: list[int]
) -> _Columns | None:
    types = dict.fromkeys(columns, "number") | {key: "text"}
    if at is not None:
        types[at] = "text"
    table = read_with_arrow(file, header, len(names), types)
    if table is None:
        return None
    ids = table.column(f"c{key}").to_pylist()
    labels = None if at is None else table.column(f"c{at}").to_pylist()
    if not all(map(plain_id, ids)) or any('"' in v for v in labels or ()):
        return None
    x = np.empty((len(ids), len(columns)))
    for j, column in enumerate(columns):
        x[:, j] = table.column(f"c{column}").to_numpy()
    return ids, None if labels is None else [v.strip() for v in labels], x
