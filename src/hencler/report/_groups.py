"""Nodes by cluster: sums over them, and samples when all are too many to show."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["cluster_sums", "stratified"]


def cluster_sums(x: Any, clusters: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Sum of the rows of x, shape (m, d), dense or sparse, over each of k clusters: (k, d)."""
    m = clusters.size
    member = sp.csr_array((np.ones(m), (clusters, np.arange(m))), shape=(k, m))
    sums = member @ x
    return np.asarray(sums.toarray() if sp.issparse(sums) else sums, dtype=np.float64)


def stratified(
    clusters: NDArray[np.int64], k: int, limit: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """At most `limit` nodes, sorted: all, or from each cluster its share.

    Small clusters have a few nodes more than their share, so that they can be seen.
    """
    n = clusters.size
    if n <= limit:
        return np.arange(n)
    sizes = np.bincount(clusters, minlength=k)
    floor = np.minimum(sizes, max(1, limit // (4 * k)))
    rest = sizes - floor
    share = max(0, limit - int(floor.sum())) / max(1, int(rest.sum()))
    quota = floor + np.floor(rest * share).astype(np.int64)
    # Rank within the cluster after a shuffle; with more clusters than room some stay out.
    shuffled = generator.permutation(n)
    order = shuffled[np.argsort(clusters[shuffled], kind="stable")]
    rank = np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(order[rank < np.repeat(quota, sizes)][:limit])
