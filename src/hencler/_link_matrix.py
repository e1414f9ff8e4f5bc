"""Who links to whom: links between clusters against chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._graph import edge_blocks

__all__ = ["LinkMatrix", "link_matrix"]


@dataclass(frozen=True)
class LinkMatrix:
    r"""Links from cluster a (row) to cluster b (column), self-loops and weights aside.

    ``observed`` has shape (k, k) and counts links; an undirected one counts in both directions,
    so that links within a cluster count twice. ``expected`` is what the clusters' numbers of out-
    and in-links alone would give,

    .. math:: E_{ab} = \frac{O_{a\cdot}\, O_{\cdot b}}{O_{\cdot\cdot}}

    ``self_loops`` has shape (k,).
    """

    observed: NDArray[np.int64]
    self_loops: NDArray[np.int64]

    @property
    def expected(self) -> NDArray[np.float64]:
        total = max(1, int(self.observed.sum()))
        return np.outer(self.observed.sum(axis=1), self.observed.sum(axis=0)) / total

    @property
    def n_self_loops(self) -> int:
        return int(self.self_loops.sum())

    @property
    def log_ratio(self) -> NDArray[np.float64]:
        """log2(O / E): -inf without any link, NaN where none was to be expected."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log2(self.observed / self.expected)

    @property
    def within(self) -> float:
        """Share of links that stay in their cluster; NaN without links."""
        return _share(np.trace(self.observed), self.observed.sum())

    @property
    def within_expected(self) -> float:
        """The same share by chance."""
        return _share(np.trace(self.expected), self.observed.sum())


def _share(part: Any, whole: Any) -> float:
    return float(part / whole) if whole else float("nan")


def link_matrix(adjacency: Any, clusters: NDArray[np.int64], k: int) -> LinkMatrix:
    """Count the links between k clusters in O(E) time and O(k^2) memory.

    Parameters
    ----------
    adjacency : CSR matrix of shape (n, n), symmetric for an undirected graph; it may lie on disk
    clusters : numbers 0 ... k - 1, shape (n,)
    """
    observed = np.zeros(k * k, dtype=np.int64)
    loops = np.zeros(k, dtype=np.int64)
    for _, source, target in edge_blocks(adjacency):
        off = source != target
        loops += np.bincount(clusters[source[~off]], minlength=k)
        pairs = clusters[source[off]] * k + clusters[target[off]]
        observed += np.bincount(pairs, minlength=k * k)
    return LinkMatrix(observed.reshape(k, k), loops)
