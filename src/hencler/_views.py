"""Explicit feature maps: four ways to look at the same nodes, and nothing learned.

========== ======================================= =======================================
view       phi                                     psi
========== ======================================= =======================================
own        the node's features F                   the same
neighbours means of F over out-neighbours          means of F over in-neighbours
smooth     F averaged by personalised PageRank     the same
links      rows of A (out-links), S = A            columns of A (in-links)
========== ======================================= =======================================
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from ._graph import SAMPLED_NODES
from ._singular import linear_operator

__all__ = [
    "FeatureMaps",
    "View",
    "damped",
    "explicit_maps",
    "neighbour_means",
    "restart_share",
    "walk_matrix",
]

View = Literal["own", "neighbours", "smooth", "links"]

PAGERANK_RESTART = 0.15
"""Share of a node's own features in their average, where nothing is known of the neighbours."""

PAGERANK_ROUNDS = 15


class FeatureMaps(NamedTuple):
    """phi and psi of n nodes: arrays, CSR matrices or operators of shape (n, d)."""

    phi: Any
    psi: Any


def damped(adjacency: Any, *, loops: bool) -> Any:
    """Weights by their logarithm, log2(1 + w): a weight of 1 stays 1, a large one says little more.

    ``loops=False`` leaves self-loops out: a node is not its own neighbour.
    """
    dtype = np.float64 if adjacency.shape[0] <= SAMPLED_NODES else np.float32
    out = adjacency.astype(dtype, copy=True)
    out.data = np.log2(1 + out.data)
    if not loops:
        out.setdiag(0)
        out.eliminate_zeros()
    return out


def walk_matrix(adjacency: Any) -> Any:
    """Random walk P = D^-1 A, with zero rows where there is no way out."""
    d = np.asarray(adjacency.sum(axis=1)).ravel()
    inverse = (1 / np.where(d > 0, d, 1)).astype(adjacency.dtype)
    return sp.csr_array(sp.diags_array(inverse) @ adjacency)


def restart_share(homophily: float | None) -> float:
    """The less the neighbours are like the node, the more of the node's own: at least 8 %."""
    return PAGERANK_RESTART if homophily is None else max(0.08, 0.75 * (1 - homophily) ** 2)


def explicit_maps(
    view: View, features: Any, adjacency: Any, restart: float = PAGERANK_RESTART
) -> FeatureMaps:
    """phi and psi of a view, from features (n, d) and damped links (n, n)."""
    if view == "own":
        return FeatureMaps(features, features)
    if view == "neighbours":
        return neighbour_means(adjacency, adjacency.T.tocsr(), features)
    if view == "smooth":
        both = adjacency + adjacency.T + sp.eye_array(adjacency.shape[0], format="csr")
        phi = _smoothed(walk_matrix(both), features, restart)
        return FeatureMaps(phi, phi)
    return FeatureMaps(adjacency, adjacency.T.tocsr())


def neighbour_means(out: Any, into: Any, features: Any) -> FeatureMaps:
    """Means of the features (n, d) over out- and in-neighbours, from links (m, n) of each kind."""
    return FeatureMaps(_product(walk_matrix(out), features), _product(walk_matrix(into), features))


def _product(matrix: Any, features: Any) -> Any:
    """matrix @ features; an operator where the features are not dense, since the product is."""
    if isinstance(features, np.ndarray):
        return matrix @ features
    back = matrix.T.tocsr()
    return _operator(features, lambda z: matrix @ z, lambda z: back @ z, len(matrix.indptr) - 1)


def _smoothed(walk: Any, features: Any, a: float) -> Any:
    """Rounds of Z <- (1 - a) P Z + a F, the personalised PageRank average of the features."""

    def spread(matrix: Any, start: Any) -> Any:
        z = start
        for _ in range(PAGERANK_ROUNDS):
            z = (1 - a) * (matrix @ z) + a * start
        return z

    if isinstance(features, np.ndarray):
        return spread(walk, features)
    back = walk.T.tocsr()
    n = features.shape[0]
    return _operator(features, lambda z: spread(walk, z), lambda z: spread(back, z), n)


def _operator(features: Any, left: Any, left_t: Any, rows: int) -> Any:
    """Operator L F for a map L that makes so many rows of vectors and matrices of n rows."""

    def matmat(z: Any) -> Any:
        return left(features @ z)

    def rmatmat(z: Any) -> Any:
        return features.T @ left_t(z)

    operator = linear_operator((rows, features.shape[1]), matmat, rmatmat)
    operator.few_passes = getattr(features, "few_passes", False)
    return operator
