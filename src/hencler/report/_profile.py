"""What distinguishes each cluster: attributes over- and under-represented in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._graph import Attributes, row_blocks
from ._groups import cluster_sums

__all__ = ["AttributeTable", "attribute_table", "unusual_attributes"]


@dataclass(frozen=True)
class AttributeTable:
    r"""Attributes by cluster: m of n nodes inside, the others outside.

    ``inside``, ``outside`` : means of the d columns within and outside each cluster, (k, d)
    ``difference`` : (inside - outside) / sd, sd over all nodes; 0 for constant columns, (k, d)
    ``mean``, ``sd`` : over all nodes, (d,)
    ``binary`` : whether a column holds zeros and ones only, (d,)
    """

    inside: NDArray[np.float64]
    outside: NDArray[np.float64]
    difference: NDArray[np.float64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    binary: NDArray[np.bool_]


def attribute_table(x: Attributes, clusters: NDArray[np.int64], k: int) -> AttributeTable:
    """Compare the clusters' attributes x, shape (n, d), in one pass over blocks of rows."""
    n, d = x.shape
    sums, squares = np.zeros((k, d)), np.zeros(d)
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    width = d if not sp.issparse(x) else max(1, x.nnz // max(1, n))
    # Squares of values far from zero would cancel in the variance: shift by the first row.
    shift = np.zeros(d) if sp.issparse(x) else np.asarray(x[0], dtype=np.float64)
    for rows in row_blocks(n, width):
        block = x[rows] if sp.issparse(x) else np.asarray(x[rows], dtype=np.float64) - shift
        sums += cluster_sums(block, clusters[rows], k)
        squares += np.asarray((block * block).sum(axis=0)).ravel()
        low = np.minimum(low, _extreme(block, "min"))
        high = np.maximum(high, _extreme(block, "max"))
    sizes = np.bincount(clusters, minlength=k)[:, None]
    total = sums.sum(axis=0)
    inside = sums / sizes
    outside = np.divide(total - sums, n - sizes, out=np.zeros_like(sums), where=sizes < n)
    mean = total / n
    variance = np.maximum(squares / n - mean**2, 0)
    sd = np.where(high > low, np.sqrt(variance), 0)
    scaled = np.divide(inside - outside, sd, out=np.zeros_like(sums), where=sd > 0)
    difference = np.where(sizes < n, scaled, 0)
    binary = _binary(total, squares, low, high, shift, n)
    return AttributeTable(inside + shift, outside + shift, difference, mean + shift, sd, binary)


def _binary(
    total: NDArray[Any],
    squares: NDArray[Any],
    low: NDArray[Any],
    high: NDArray[Any],
    shift: NDArray[Any],
    n: int,
) -> NDArray[np.bool_]:
    # For values in [0, 1], sum(x) = sum(x^2) only if all are 0 or 1; both sums are exact then.
    plain = total + n * shift
    plain_squares = squares + 2 * shift * total + n * shift**2
    return (low + shift >= 0) & (high + shift <= 1) & (plain == plain_squares)


def _extreme(block: Any, which: str) -> NDArray[np.float64]:
    out = getattr(block, which)(axis=0)
    return np.asarray(out.toarray() if sp.issparse(out) else out, dtype=np.float64).ravel()


def unusual_attributes(
    x: Attributes, nodes: NDArray[np.int64], table: AttributeTable, count: int
) -> list[list[tuple[int, float]]]:
    """For each of `nodes` its (column, value) of largest standardised value, at most `count`.

    Of sparse attributes only those a node has are looked at.
    """
    d = x.shape[1]
    scale = np.where(table.sd > 0, table.sd, np.inf)
    found: list[list[tuple[int, float]]] = []
    for rows in row_blocks(nodes.size, d):
        block = x[nodes[rows]]
        values = block.toarray() if sp.issparse(block) else np.asarray(block, dtype=np.float64)
        score = np.abs((values - table.mean) / scale)
        if sp.issparse(x):
            score = np.where(values != 0, score, 0)
        top = np.argsort(-score, axis=1, kind="stable")[:, :count]
        for i, columns in enumerate(top):
            found.append([(int(j), float(values[i, j])) for j in columns if score[i, j] > 0])
    return found
