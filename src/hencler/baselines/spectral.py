"""Spectral clustering of the symmetrised graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

from .._graph import Graph
from .coclustering import (
    _DENSE_NODES,
    _TOLERANCE,
    SpectralMethod,
    need_edges,
    regularised,
    scaled_rows,
)
from .kmeans import kmeans_labels

__all__ = ["SpectralClustering"]


class SpectralClustering(SpectralMethod):
    r"""KMeans on the leading eigenvectors of the normalised symmetric adjacency matrix.

    .. math:: (D + t)^{-1/2} A (D + t)^{-1/2} \approx Q \Lambda Q^\top, \qquad z_i = q_i

    with the largest (not the largest absolute) eigenvalues: linked nodes are taken to be alike.
    Attributes are not looked at.

    Parameters
    ----------
    n_clusters : int
    n_components : int, optional
        Eigenvectors; by default as many as clusters.
    regularisation : float
        t in units of the mean degree; 0 is the textbook's matrix, on which small components
        take the leading vectors.
    rows : {"none", "unit", "degree"}
        Rows of Q as they are, of unit length (Ng, Jordan, Weiss), or divided by the root of
        the degree (Shi, Malik; scikit-learn's with ``regularisation=0``).
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : array of shape (n,)
    embedding_ : array of shape (n, n_components)
    eigenvalues_ : array of shape (n_components,), falling

    Examples
    --------
    Two groups of friends are found; four hunters and their four prey, who only link to each
    other, are not:

    >>> import numpy as np
    >>> from hencler import Graph
    >>> from hencler.baselines import SpectralClustering
    >>> from hencler.metrics import adjusted_rand_index
    >>> friends = Graph(np.kron(np.eye(2), np.ones((4, 4))))
    >>> hunters = Graph(np.kron([[0, 1], [0, 0]], np.ones((4, 4))))
    >>> truth = [0, 0, 0, 0, 1, 1, 1, 1]
    >>> method = SpectralClustering(2, random_state=0)
    >>> adjusted_rand_index(method.fit_predict(friends), truth)
    1.0
    >>> adjusted_rand_index(method.fit_predict(hunters), truth)
    0.0
    """

    def _fit(self, graph: Graph) -> None:
        need_edges(graph, type(self).__name__)
        seed = self._seed()
        matrix, degrees, _ = regularised(graph.to_undirected().adjacency, self.regularisation)
        values, vectors = leading_eigenpairs(matrix, self.n_components or self.n_clusters, seed)
        self.eigenvalues_ = values
        self.embedding_ = scaled_rows(vectors, degrees, self.rows)
        self.labels_ = kmeans_labels(self.embedding_, self.n_clusters, seed)


def leading_eigenpairs(
    matrix: Any, k: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The k largest eigenvalues (k,), falling, and their vectors (n, k), of a symmetric matrix."""
    n = matrix.shape[0]
    k = min(k, n)
    if n <= _DENSE_NODES or k >= n - 1:
        values, vectors = np.linalg.eigh(matrix.toarray())
    else:
        v0 = np.random.default_rng(seed).uniform(-1, 1, n)
        ncv = min(n, max(4 * k, 40))
        values, vectors = eigsh(matrix, k, which="LA", v0=v0, ncv=ncv, tol=_TOLERANCE)
    order = np.argsort(-values, kind="stable")[:k]
    vectors = vectors[:, order]
    # An eigenvector's sign is free: make its largest entry positive.
    largest = vectors[np.argmax(np.abs(vectors), axis=0), np.arange(k)]
    return values[order], vectors * np.where(largest < 0, -1.0, 1.0)
