"""How sure each node's cluster is, and who is typical."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from .._graph import row_blocks
from ._groups import cluster_sums

__all__ = ["Certainty", "certainty", "members_by_distance"]


@dataclass(frozen=True)
class Certainty:
    r"""Distances to the clusters' centres (means of their nodes), each of shape (n,).

    With a the distance to a node's own centre and b that to the nearest other one,

    .. math:: \mathrm{margin} = \frac{b - a}{\max(a, b)} \in [-1, 1]

    (the simplified silhouette): 1 on the own centre, 0 halfway between two, negative where
    another centre is nearer; 0 for a = b = 0. With one cluster only there is no margin: NaN.
    """

    own: NDArray[np.float64]
    next_cluster: NDArray[np.int64]
    margin: NDArray[np.float64]


def certainty(z: NDArray[Any], clusters: NDArray[np.int64], k: int) -> Certainty:
    """Distances of n embedded nodes z, shape (n, p), to the k centres; O(n k p) time, O(n) room."""
    n = z.shape[0]
    sizes = np.bincount(clusters, minlength=k)
    centres = np.zeros((k, z.shape[1]))
    for rows in row_blocks(n, z.shape[1]):
        centres += cluster_sums(z[rows], clusters[rows], k)
    centres /= sizes[:, None]
    own, margin = np.empty(n), np.full(n, np.nan)
    following = np.full(n, -1, dtype=np.int64)
    for rows in row_blocks(n, k):
        at = np.arange(rows.stop - rows.start)
        distances = cdist(z[rows], centres)
        own[rows] = distances[at, clusters[rows]]
        if k == 1:
            continue
        distances[at, clusters[rows]] = np.inf
        following[rows] = distances.argmin(axis=1)
        other = distances[at, following[rows]]
        larger = np.maximum(own[rows], other)
        margin[rows] = (other - own[rows]) / np.where(larger > 0, larger, 1)
    return Certainty(own, following, margin)


def members_by_distance(
    own: NDArray[np.float64], clusters: NDArray[np.int64], k: int
) -> list[NDArray[np.int64]]:
    """Nodes of each cluster, from the nearest to its centre to the farthest."""
    order = np.lexsort((own, clusters))
    ends = np.cumsum(np.bincount(clusters, minlength=k))
    return np.split(order, ends[:-1])
