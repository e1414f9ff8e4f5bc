r"""An order of the nodes that depends on what they are, not on where they stand.

Random draws of a fit are by position. On nodes in this order they are draws by identity, so that
the same graph with its nodes in another order, or by other names, gets the same clusters.

Every node has a colour, a number of 64 bits made of its attributes, in units of the largest of
their column and rounded, so that neither units nor rounding errors matter. Then, for some rounds,

.. math:: c_i \leftarrow \mathrm{mix}\Big(c_i + \sum_j h(A_{ij})\,\mathrm{mix}(c_j + k_1)
          + \sum_j h(A_{ji})\,\mathrm{mix}(c_j + k_2)\Big)

which is colour refinement (Weisfeiler and Leman) with hashes for colours. Sums of integers modulo
:math:`2^{64}` do not depend on the order of the terms, to the last bit. Nodes that stay of one
colour have the same attributes and the same surroundings; they keep the order they came in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._graph import Graph, row_blocks

__all__ = ["canonical_order", "order_bytes", "restored"]

MOST_NODES = 100_000
MOST_ENTRIES = 1 << 24
"""Links and attribute values of the largest graph that is put in order: it takes a copy."""

ROUNDS = 16
"""Of the refinement, at most: links further away than this do not tell two nodes apart."""

STEP = 2.0**-20
"""Smallest difference of attributes, in units of the largest of their column, and of the
logarithms of two weights that is seen."""

_OUT, _IN, _WEIGHT, _COLUMN = (
    np.uint64(k)
    for k in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)
)


def canonical_order(graph: Graph) -> NDArray[np.int64] | None:
    """Positions of the nodes, in the order of their colours; None where the graph is too large."""
    if not _is_put_in_order(graph):
        return None
    return np.argsort(_colours(graph), kind="stable")


def order_bytes(graph: Graph) -> int:
    """Memory that the graph in its order takes, and finding it."""
    return 32 * _entries(graph) + 64 * graph.n_nodes if _is_put_in_order(graph) else 0


def _is_put_in_order(graph: Graph) -> bool:
    return graph.n_nodes <= MOST_NODES and _entries(graph) <= MOST_ENTRIES


def _entries(graph: Graph) -> int:
    entries = int(graph.adjacency.nnz)
    if graph.x is not None:
        entries += int(graph.x.nnz if sp.issparse(graph.x) else graph.x.size)
    return entries


def restored(rows: NDArray[Any], order: NDArray[np.int64]) -> NDArray[Any]:
    """Rows of nodes in some order, as they stand in the graph."""
    out = np.empty_like(rows)
    out[order] = rows
    return out


def _colours(graph: Graph) -> NDArray[np.uint64]:
    links = graph.adjacency
    weights = np.log2(links.data)
    weights = _mix(_steps(weights - weights.max(initial=-np.inf)) + _WEIGHT)
    links = sp.csr_array((weights, links.indices, links.indptr), shape=links.shape)
    back = links.T
    colours = _attribute_colours(graph)
    count = 0
    for _ in range(ROUNDS):
        before, count = count, len(np.unique(colours))
        if count in (before, len(colours)):
            break
        colours = _mix(colours + links @ _mix(colours + _OUT) + back @ _mix(colours + _IN))
    return colours


def _attribute_colours(graph: Graph) -> NDArray[np.uint64]:
    """Sums over the attributes that are not zero of a hash of column and value, shape (n,)."""
    total = np.zeros(graph.n_nodes, dtype=np.uint64)
    x: Any = graph.x
    if x is None:
        return total
    columns = _mix(_COLUMN * np.arange(1, x.shape[1] + 1, dtype=np.uint64))
    largest = _largest(x)
    for rows in _blocks(x):
        part = x[rows]
        at = part.indices if sp.issparse(part) else slice(None)
        values = part.data if sp.issparse(part) else np.asarray(part, dtype=np.float64)
        steps = _steps(values / largest[at])
        hashes = _mix(columns[at] + steps)
        hashes[steps == 0] = 0
        if sp.issparse(part):
            hashes = sp.csr_array((hashes, part.indices, part.indptr), shape=part.shape)
        total[rows] = hashes @ np.ones(x.shape[1], dtype=np.uint64)
    return total


def _largest(x: Any) -> NDArray[np.float64]:
    """Largest magnitude of every column, 1 where it is zero, shape (d,)."""
    largest = np.zeros(x.shape[1])
    for rows in _blocks(x):
        part = abs(x[rows]).max(axis=0)
        np.maximum(largest, part.toarray().ravel() if sp.issparse(part) else part, out=largest)
    return np.where(largest > 0, largest, 1.0)


def _blocks(x: Any) -> Iterator[slice]:
    # Several arrays of a block's size are made in turn.
    return row_blocks(x.shape[0], 64 * x.shape[1])


def _steps(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Values as whole numbers of steps; a rounding error hardly ever changes one."""
    return np.rint(values / STEP).astype(np.int64).view(np.uint64)


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: every bit of the input changes half of the output's."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
