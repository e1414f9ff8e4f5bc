"""Edges, attributes and labels from .parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._errors import FileFormatError
from .._limits import check_parquet
from .._optional import optional_import
from ._assemble import Edges, Table, check_cells, check_weights
from ._columns import (
    CLUSTER_NAMES,
    ID_NAMES,
    SOURCE_NAMES,
    TARGET_NAMES,
    WEIGHT_NAMES,
    find_column,
    label_column,
    side_names,
    two_columns,
)
from ._files import guarded
from ._ids import check_id, check_text, check_unique, natural, of_same_kind

__all__ = [
    "EdgeColumns",
    "edge_columns",
    "open_parquet",
    "parquet_column",
    "parquet_edges",
    "parquet_labels",
    "parquet_numbers",
    "parquet_table",
]


def open_parquet(file: Path) -> Any:
    parquet = optional_import("pyarrow.parquet", "reading .parquet").ParquetFile(file)
    check_parquet(parquet, file)
    return parquet


def parquet_column(table: Any, name: str, file: Path) -> NDArray[Any]:
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
            check_text(text, f"{file}, row {row}, column {name!r}")
        return values.astype(str)
    if values.dtype.kind not in "buif":
        raise FileFormatError(
            f"values of type {column.type} are neither numbers nor text",
            place=place,
            remedy="Store numbers or strings",
        )
    return values


def parquet_numbers(table: Any, name: str, file: Path) -> NDArray[np.float64]:
    values = parquet_column(table, name, file)
    if values.dtype.kind == "U":
        raise FileFormatError(
            "text where numbers are needed",
            place=f"{file}, column {name!r}",
            remedy="Encode it as numbers, or leave the column out",
        )
    return values.astype(np.float64)


class EdgeColumns(NamedTuple):
    """Which columns of a table of edges are meant, by name."""

    source: str
    target: str
    weight: str | None

    @property
    def wanted(self) -> list[str]:
        return [self.source, self.target] + ([] if self.weight is None else [self.weight])

    @property
    def sides(self) -> tuple[str, str]:
        return side_names([self.source, self.target])


def edge_columns(parquet: Any, file: Path) -> EdgeColumns:
    names = parquet.schema_arrow.names
    if len(names) < 2:
        raise FileFormatError(
            f"{len(names)} column(s), an edge needs a source and a target", place=str(file)
        )
    source, target = find_column(names, SOURCE_NAMES), find_column(names, TARGET_NAMES)
    if source is None or target is None:
        source, target = 0, 1
    weight = find_column(names, WEIGHT_NAMES)
    return EdgeColumns(
        names[source],
        names[target],
        None if weight in (None, source, target) else names[weight],
    )


def parquet_edges(file: Path) -> Edges:
    def locate(i: int) -> str:
        return f"{file}, row {i + 1}"

    with guarded(file, "a parquet file"):
        parquet = open_parquet(file)
        columns = edge_columns(parquet, file)
        table = parquet.read(columns=columns.wanted)
        source, target = (parquet_column(table, name, file) for name in columns.wanted[:2])
        values = None
        if columns.weight is not None:
            values = parquet_numbers(table, columns.weight, file)
    half = len(source)
    if not half:
        raise FileFormatError("there is no edge", place=str(file), remedy="Give at least one")
    both = np.concatenate(of_same_kind(source, target))
    ids, first, codes = np.unique(both, return_index=True, return_inverse=True)
    if ids.dtype.kind == "U":
        for text, at in zip(ids.tolist(), first.tolist()):
            check_id(text, locate(at % half))
        ids = natural(ids.tolist())
    check_weights(values, columns.weight or "weight", locate)
    return Edges(ids, codes[:half], codes[half:], values, locate, columns.sides)


def parquet_table(file: Path, label: str | None) -> Table:
    def place(row: int) -> str:
        return f"{file}, row {row + 1}"

    with guarded(file, "a parquet file"):
        table = open_parquet(file).read()
        names = list(table.column_names)
        if len(set(names)) < len(names) or not names:
            raise FileFormatError("columns without names of their own", place=str(file))
        key = find_column(names, ID_NAMES) or 0
        at = None if label is None else label_column(names, label, file)
        ids = parquet_column(table, names[key], file)
        y = None if at is None else parquet_column(table, names[at], file)
        columns = [name for j, name in enumerate(names) if j not in (key, at)]
        x = np.empty((len(ids), len(columns)))
        for j, name in enumerate(columns):
            x[:, j] = parquet_numbers(table, name, file)
    if not len(ids) or ids.dtype.kind not in "iuU":
        raise FileFormatError(
            "the ids are missing or neither integers nor strings",
            place=f"{file}, column {names[key]!r}",
            remedy="Give every node an id",
        )
    check_cells(x, lambda i, j: f"{place(i)}, column {columns[j]!r}")
    ids = natural(ids.tolist()) if ids.dtype.kind == "U" else ids
    check_unique(ids, place)
    return Table(file, ids, x if columns else None, y, columns or None)


def parquet_labels(file: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    with guarded(file, "a parquet file"):
        table = open_parquet(file).read()
        names = list(table.column_names)
        if len(names) < 2 or not table.num_rows:
            raise FileFormatError("a node and its cluster are needed", place=str(file))
        key, at = two_columns(find_column(names, ID_NAMES), find_column(names, CLUSTER_NAMES))
        ids, labels = (parquet_column(table, names[j], file) for j in (key, at))
    ids = natural(ids.tolist()) if ids.dtype.kind == "U" else ids
    check_unique(ids, lambda row: f"{file}, row {row + 1}")
    return ids, natural(labels.tolist()) if labels.dtype.kind == "U" else labels
