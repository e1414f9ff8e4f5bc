"""Edges and a table of nodes, whatever files they come from, made one graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._errors import AttributeDataError, GraphError
from .._graph import Attributes, Graph
from ._columns import SIDES
from ._files import placed
from ._ids import of_same_kind

__all__ = ["Edges", "Table", "assemble", "check_cells", "check_weights", "edges_of"]


@dataclass
class Edges:
    """E edges as positions in `ids`; `locate` names the place of the i-th one in its file.

    `sides` are the names of the columns; where the ids are `ordered`, so are the nodes.
    """

    ids: NDArray[Any]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    weight: NDArray[np.float64] | None
    locate: Callable[[int], str]
    sides: tuple[str, str] = SIDES
    ordered: bool = False


@dataclass
class Table:
    """What is known of the nodes. Without ids, row i is node i in the order of their ids."""

    file: Path
    ids: NDArray[Any] | None
    x: Attributes | None
    y: NDArray[Any] | None = None
    names: list[str] | None = None

    @property
    def n_rows(self) -> int:
        return len(self.ids) if self.ids is not None else int(self.x.shape[0])  # type: ignore[union-attr]


def check_weights(
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


def check_cells(x: NDArray[np.float64], place: Callable[[int, int], str]) -> None:
    finite = np.isfinite(x)
    if not finite.all():
        i, j = (int(k[0]) for k in np.nonzero(~finite))
        raise AttributeDataError(
            f"the attribute is {x[i, j]:g}; NaN or infinity cannot be clustered",
            place=place(i, j),
            remedy="Fill the gaps, for example with the column mean, or drop the column",
        )


def assemble(edges: Edges, table: Table | None, directed: bool | None, file: Path) -> Graph:
    if table is None:
        n = len(edges.ids)
        order = np.arange(n) if edges.ordered else np.argsort(edges.ids, kind="stable")
        ids, at = edges.ids[order], np.empty(n, dtype=np.int64)
        at[order] = np.arange(n)
        return _graph(edges, ids, at, None, directed, file)
    ids = _implied_ids(edges, table) if table.ids is None else table.ids
    wanted, ids = of_same_kind(edges.ids, ids)
    order = np.argsort(ids, kind="stable")
    at = np.searchsorted(ids, wanted, sorter=order)
    found = at < ids.size
    found[found] = ids[order[at[found]]] == wanted[found]
    if not found.all():
        _raise_unknown(edges, found, table, file)
    return _graph(edges, ids, order[at].astype(np.int64), table, directed, file)


def _implied_ids(edges: Edges, table: Table) -> NDArray[Any]:
    if edges.ids.dtype.kind != "U":
        return np.arange(table.n_rows)
    if len(edges.ids) != table.n_rows:
        raise AttributeDataError(
            f"{table.n_rows} rows for {len(edges.ids)} nodes with names",
            place=str(table.file),
            remedy="Give one row per node in the order of the sorted ids, or a table with ids",
        )
    return edges.ids if edges.ordered else np.sort(edges.ids)


def _raise_unknown(edges: Edges, found: NDArray[np.bool_], table: Table, file: Path) -> NoReturn:
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
    edges: Edges,
    ids: NDArray[Any],
    at: NDArray[np.int64],
    table: Table | None,
    directed: bool | None,
    file: Path,
) -> Graph:
    n = len(ids)
    weight = np.ones(len(edges.source)) if edges.weight is None else edges.weight
    matrix = sp.coo_array((weight, (at[edges.source], at[edges.target])), shape=(n, n))
    x = None if table is None else table.x
    with placed(file if table is None else table.file):
        return Graph(
            matrix,
            x,
            ids=ids,
            directed=directed,
            y=None if table is None else table.y,
            attribute_names=None if table is None else table.names,
            name=file.stem,
        )


def edges_of(graph: Graph, file: Path, ordered: bool = False) -> Edges:
    edges = graph.adjacency.tocoo()
    ids = graph.ids

    def locate(i: int) -> str:
        return f"{file}, edge {ids[edges.row[i]]} -> {ids[edges.col[i]]}"

    source, target = edges.row.astype(np.int64), edges.col.astype(np.int64)
    return Edges(ids, source, target, edges.data, locate, ordered=ordered)
