"""Spectral co-clustering of the adjacency matrix: who links alike, who is linked alike."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import svds
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import svd_flip

from .._base import GraphClusterer
from .._errors import GraphError
from .._graph import Graph
from .kmeans import kmeans_labels

__all__ = [
    "SpectralCoclustering",
    "SpectralMethod",
    "leading_triples",
    "link_columns",
    "need_edges",
    "regularised",
    "scaled_rows",
]

_DENSE_NODES = 500
"""Up to here a full SVD or eigendecomposition is both cheap and the safest."""

_TOLERANCE = 1e-7
"""Residual at which Lanczos iterations end: KMeans cannot see more digits, and in the bulk of a
spectrum without gaps every further one takes long."""


class SpectralMethod(GraphClusterer):
    """What methods by singular or eigenvectors of the normalised links can be told."""

    _parameter_constraints = {  # noqa: RUF012
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "regularisation": [Interval(Real, 0, None, closed="left")],
        "rows": [StrOptions({"none", "unit", "degree"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_components: int | None = None,
        regularisation: float = 1.0,
        rows: str = "unit",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_components = n_components
        self.regularisation = regularisation
        self.rows = rows
        self.random_state = random_state


class SpectralCoclustering(SpectralMethod):
    r"""KMeans on the leading left and right singular vectors of the normalised links.

    .. math:: (D_{out} + t)^{-1/2} A (D_{in} + t)^{-1/2} \approx U \Sigma V^\top, \qquad
              z_i = [\Sigma u_i \| \Sigma v_i]

    Dhillon (KDD 2001), with rows and columns of one node side by side, as its ``e`` and ``r``
    are in wKSVD. Works on disassortative and directed graphs; attributes are not looked at.

    Parameters
    ----------
    n_clusters : int
    n_components : int, optional
        Singular triples; by default as many as clusters.
    regularisation : float
        t in units of the mean degree. 0 is Dhillon's matrix, on which small components take
        the leading vectors.
    rows : {"none", "unit", "degree"}
        The two embeddings of a node as they are, each of unit length (which takes out how
        many links a node has), or divided by the square root of its degree (Dhillon's scaling).
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : array of shape (n,)
    e_, r_ : arrays of shape (n, n_components)
        What KMeans saw: embeddings of the nodes as sources and as targets.
    singular_values_ : array of shape (n_components,)

    Examples
    --------
    Four hunters and their four prey, who only link to each other:

    >>> import numpy as np
    >>> from hencler import Graph
    >>> from hencler.baselines import SpectralCoclustering
    >>> from hencler.metrics import adjusted_rand_index
    >>> hunters = Graph(np.kron([[0, 1], [0, 0]], np.ones((4, 4))))
    >>> labels = SpectralCoclustering(2, random_state=0).fit_predict(hunters)
    >>> adjusted_rand_index(labels, [0, 0, 0, 0, 1, 1, 1, 1])
    1.0
    """

    def _fit(self, graph: Graph) -> None:
        need_edges(graph, type(self).__name__)
        seed = self._seed()
        matrix, d_out, d_in = regularised(graph.adjacency, self.regularisation)
        u, s, v = leading_triples(matrix, self.n_components or self.n_clusters, seed)
        self.e_ = scaled_rows(u * s, d_out, self.rows)
        self.r_ = scaled_rows(v * s, d_in, self.rows)
        self.singular_values_ = s
        self.labels_ = kmeans_labels(np.hstack([self.e_, self.r_]), self.n_clusters, seed)


def need_edges(graph: Graph, method: str) -> None:
    """Error for a method that sees nothing but links between different nodes."""
    edges = graph.adjacency.tocoo()
    if not np.any(edges.row != edges.col):
        raise GraphError(
            f"{method} clusters by links, and no two nodes of this graph are linked",
            remedy="Give edges, or use a method that clusters by attributes, such as KMeans",
        )


def regularised(
    adjacency: Any, regularisation: float
) -> tuple[sp.csr_array[Any], NDArray[np.float64], NDArray[np.float64]]:
    """(D_out + t)^-1/2 A (D_in + t)^-1/2 with its regularised degrees D + t, each (n,).

    t is `regularisation` times the mean degree. Nodes of degree 0 + 0 keep zero rows.
    """
    d_out = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    d_in = np.asarray(adjacency.sum(axis=0), dtype=np.float64).ravel()
    t = regularisation * d_out.mean()
    d_out, d_in = d_out + t, d_in + t
    d_out[d_out == 0], d_in[d_in == 0] = 1.0, 1.0
    left, right = sp.diags_array(d_out**-0.5), sp.diags_array(d_in**-0.5)
    return sp.csr_array(left @ adjacency @ right), d_out, d_in


def leading_triples(
    matrix: Any, k: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """U (n, k), sigma (k,) falling, V (m, k) of the k largest singular values, k <= min(n, m)."""
    smallest = min(matrix.shape)
    k = min(k, smallest)
    if max(matrix.shape) <= _DENSE_NODES or k >= smallest - 2:
        dense = matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)
        u, s, vt = np.linalg.svd(dense, full_matrices=False)
    else:
        v0 = np.random.default_rng(seed).uniform(-1, 1, smallest)
        ncv = min(smallest - 1, max(4 * k, 40))
        u, s, vt = svds(matrix, k, v0=v0, ncv=ncv, tol=_TOLERANCE)
    order = np.argsort(-s, kind="stable")[:k]
    u, vt = svd_flip(u[:, order], vt[order])
    return u, s[order], vt.T


def scaled_rows(
    z: NDArray[np.float64], degrees: NDArray[np.float64], rows: str
) -> NDArray[np.float64]:
    """Rows as they are, of unit length (zero rows stay zero), or over the root of the degree."""
    if rows == "degree":
        return z / np.sqrt(degrees)[:, None]
    if rows == "unit":
        length = np.linalg.norm(z, axis=1, keepdims=True)
        return z / np.where(length > 1e-12, length, 1.0)
    return z


def link_columns(graph: Graph, width: int, seed: int) -> NDArray[np.float64]:
    """The links as at most `width` dense columns: sqrt(n) times [U Sigma | V Sigma], or U Sigma
    alone for an undirected graph, where V only repeats it."""
    matrix, _, _ = regularised(graph.adjacency, 1.0)
    u, s, v = leading_triples(matrix, width // 2 if graph.directed else width, seed)
    columns = np.hstack([u * s, v * s]) if graph.directed else u * s
    return np.sqrt(graph.n_nodes) * columns
