"""A sample of nodes that shows every cluster, where all nodes are too many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["stratified"]


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
