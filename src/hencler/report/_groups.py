"""Nodes by cluster: sums over them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["cluster_sums"]


def cluster_sums(x: Any, clusters: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Sum of the rows of x, shape (m, d), dense or sparse, over each of k clusters: (k, d)."""
    m = clusters.size
    member = sp.csr_array((np.ones(m), (clusters, np.arange(m))), shape=(k, m))
    sums = member @ x
    return np.asarray(sums.toarray() if sp.issparse(sums) else sums, dtype=np.float64)
