"""Who links to whom: links between clusters against chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LinkMatrix", "link_matrix"]


@dataclass(frozen=True)
class LinkMatrix:
    r"""Links from cluster a (row) to cluster b (column), self-loops and weights aside.

    ``observed`` has shape (k, k) and counts links; an undirected one counts in both directions,
    so that links within a cluster count twice. ``expected`` is what the clusters' numbers of out-
    and in-links alone would give,

    .. math:: E_{ab} = \frac{O_{a\cdot}\, O_{\cdot b}}{O_{\cdot\cdot}}
    """

    observed: NDArray[np.int64]
    expected: NDArray[np.float64]
    n_self_loops: int

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
    """Count the links between k clusters in O(E) time.

    Parameters
    ----------
    adjacency : sparse matrix of shape (n, n), symmetric for an undirected graph
    clusters : numbers 0 ... k - 1, shape (n,)
    """
    edges = adjacency.tocoo()
    off = edges.row != edges.col
    pairs = clusters[edges.row[off]] * k + clusters[edges.col[off]]
    observed = np.bincount(pairs, minlength=k * k).reshape(k, k)
    total = max(1, int(observed.sum()))
    expected = np.outer(observed.sum(axis=1), observed.sum(axis=0)) / total
    return LinkMatrix(observed, expected, int(np.count_nonzero(~off)))
