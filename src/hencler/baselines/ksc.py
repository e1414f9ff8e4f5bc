"""Kernel spectral clustering (Alzate and Suykens, TPAMI 2010) with code words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import normalize
from sklearn.utils._param_validation import Interval, StrOptions

from .._base import GraphClusterer
from .._errors import AttributeDataError
from .._graph import Attributes, Graph, row_blocks
from ._training import attributes_or_links

__all__ = ["KSC", "assign_code_words", "dual_solution", "frequent_words"]

_DENSE_NODES = 500
"""Up to here the eigenproblem is solved in full, beyond by Lanczos iterations."""

Product = Callable[[NDArray[np.float64]], NDArray[np.float64]]


class KSC(GraphClusterer):
    r"""Weighted kernel PCA whose signs are the code words of the clusters.

    Dual eigenproblem, :math:`\Omega_{ij} = k(x_i, x_j)`, :math:`D = \mathrm{diag}(\Omega 1)`,
    :math:`M_D = I - 1 1^\top D^{-1} / (1^\top D^{-1} 1)`:

    .. math:: D^{-1} M_D \Omega \alpha_l = \lambda_l \alpha_l, \qquad
              e_l = \Omega \alpha_l + b_l 1, \qquad
              b_l = -\frac{1^\top D^{-1} \Omega \alpha_l}{1^\top D^{-1} 1}

    for l = 1 ... K - 1. The signs of a node's scores form its code word; the K most frequent
    words stand for the clusters, and a node goes to the nearest by Hamming distance.

    Parameters
    ----------
    n_clusters : int
    kernel : {"cosine", "rbf"}
        ``"cosine"`` needs attributes without negative values; its products with a vector go
        through the attributes, so that all nodes are used in time linear in them. ``"rbf"`` is
        exp(-gamma ||x - x'||^2).
    gamma : float, optional
        By default 1 / the median squared distance of the training nodes.
    n_train : int
        Nodes that an ``"rbf"`` model is trained on, drawn at random where there are more: the
        kernel matrix is never larger than n_train x n_train. The rest are scored out of
        sample, by blocks, as :math:`\sum_i \alpha_{l,i} k(x_i, x) + b_l`.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : array of shape (n,)
    scores_ : array of shape (n, K - 1)
    eigenvalues_ : array of shape (K - 1,), falling
    code_words_ : bool array of shape (at most K, K - 1)

    Notes
    -----
    A graph without attributes is clustered by its links: by the rows of the adjacency matrix
    under the cosine kernel, reduced ones (:func:`attributes_or_links`) under the other.

    Examples
    --------
    >>> import numpy as np
    >>> from hencler.baselines import KSC
    >>> x = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
    >>> method = KSC(2, kernel="cosine", random_state=0).fit(x)
    >>> bool(method.labels_[0] == method.labels_[1] != method.labels_[2] == method.labels_[3])
    True
    >>> method.scores_.shape, method.code_words_.shape
    ((4, 1), (2, 1))
    """

    _parameter_constraints = {  # noqa: RUF012
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "kernel": [StrOptions({"cosine", "rbf"})],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "n_train": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        kernel: str = "rbf",
        gamma: float | None = None,
        n_train: int = 2000,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.n_train = n_train
        self.random_state = random_state

    def _fit(self, graph: Graph) -> None:
        seed = self._seed()
        if self.kernel == "cosine":
            scores, dual = self._cosine(graph, seed)
            words = train = scores > 0
        else:
            scores, dual, nodes = self._rbf(attributes_or_links(graph, seed), seed)
            words = scores > 0
            train = words[nodes]
        self.scores_ = scores
        self.eigenvalues_ = dual.eigenvalues
        self.code_words_ = frequent_words(train, self.n_clusters)
        self.labels_ = assign_code_words(words, self.code_words_)

    def _cosine(self, graph: Graph, seed: int) -> tuple[NDArray[np.float64], DualSolution]:
        x = graph.adjacency if graph.x is None else graph.x
        if (x.data if sp.issparse(x) else x).min(initial=0.0) < 0:
            raise AttributeDataError(
                "the cosine kernel of negative attributes can make degrees negative",
                remedy="Use kernel='rbf'",
            )
        z = normalize(x)

        def product(v: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(z @ (z.T @ v))

        dual = dual_solution(product, graph.n_nodes, self.n_clusters - 1, seed)
        return product(dual.alpha) + dual.b, dual

    def _rbf(
        self, x: Attributes, seed: int
    ) -> tuple[NDArray[np.float64], DualSolution, NDArray[np.int64]]:
        n = x.shape[0]
        nodes = np.arange(n)
        if n > self.n_train:
            draw = np.random.default_rng(seed).choice(n, self.n_train, replace=False)
            nodes = np.sort(draw)
        train = x[nodes]
        distances = euclidean_distances(train, squared=True)
        gamma = self.gamma or 1.0 / _typical(distances)
        omega = np.exp(-gamma * distances, out=distances)
        dual = dual_solution(lambda v: omega @ v, len(nodes), self.n_clusters - 1, seed)
        scores = np.empty((n, dual.alpha.shape[1]))
        for rows in row_blocks(n, len(nodes)):
            block = np.exp(-gamma * euclidean_distances(x[rows], train, squared=True))
            scores[rows] = block @ dual.alpha + dual.b
        return scores, dual, nodes


def _typical(distances: NDArray[np.float64]) -> float:
    # With mostly equal attributes the median is 0, with all equal ones the mean too.
    return float(np.median(distances)) or float(distances.mean()) or 1.0


@dataclass(frozen=True)
class DualSolution:
    """alpha (n, s), b (s,) and the eigenvalues (s,), falling."""

    alpha: NDArray[np.float64]
    b: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]


def dual_solution(product: Product, n: int, s: int, seed: int) -> DualSolution:
    r"""The s leading solutions of the dual, from products with Omega alone.

    With :math:`\alpha = D^{-1/2} \beta` and :math:`q = D^{-1/2} 1 / \|D^{-1/2} 1\|` the dual is
    the symmetric eigenproblem :math:`P D^{-1/2} \Omega D^{-1/2} P \beta = \lambda \beta`,
    :math:`P = I - q q^\top`. Nodes that are like no node at all, not even themselves (degree
    0), have alpha 0.
    """
    degrees = product(np.ones(n))
    weights = np.divide(1.0, degrees, out=np.zeros(n), where=degrees > 0)
    root = np.sqrt(weights)
    q = root / np.linalg.norm(root)

    def centred(v: NDArray[np.float64]) -> NDArray[np.float64]:
        return v - np.outer(q, q @ v) if v.ndim == 2 else v - q * (q @ v)

    def symmetric(v: NDArray[np.float64]) -> NDArray[np.float64]:
        scaled = root[:, None] if v.ndim == 2 else root
        return centred(scaled * product(scaled * centred(v)))

    values, beta = _leading(symmetric, n, s, seed)
    alpha = root[:, None] * beta
    b = -(weights @ product(alpha)) / weights.sum()
    return DualSolution(alpha, b, values)


def _leading(
    symmetric: Product, n: int, s: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if s == 0:
        return np.zeros(0), np.zeros((n, 0))
    if n <= _DENSE_NODES or s >= n - 1:
        values, vectors = np.linalg.eigh(symmetric(np.eye(n)))
    else:
        operator = LinearOperator((n, n), matvec=symmetric, matmat=symmetric, dtype=np.float64)
        v0 = np.random.default_rng(seed).uniform(-1, 1, n)
        values, vectors = eigsh(operator, s, which="LA", v0=v0)
    order = np.argsort(-values, kind="stable")[:s]
    return values[order], vectors[:, order]


def frequent_words(words: NDArray[np.bool_], k: int) -> NDArray[np.bool_]:
    """The k most frequent rows, most frequent first."""
    unique, counts = np.unique(words, axis=0, return_counts=True)
    most: NDArray[np.bool_] = unique[np.argsort(-counts, kind="stable")[:k]]
    return most


def assign_code_words(words: NDArray[np.bool_], code_words: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Nearest code word of each row by Hamming distance; the more frequent one of a tie."""
    unique, inverse = np.unique(words, axis=0, return_inverse=True)
    hamming = (unique[:, None, :] != code_words[None, :, :]).sum(axis=2)
    nearest: NDArray[np.int64] = np.argmin(hamming, axis=1)
    return nearest[inverse.reshape(-1)].astype(np.int64)
