"""Content baselines: KMeans on one fixed, untrained representation of what a node holds."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.utils._param_validation import Interval, StrOptions

from .._base import GraphClusterer
from .._errors import AttributeDataError
from .._graph import Attributes, Graph
from .coclustering import leading_triples
from .kmeans import kmeans_labels, standardised

__all__ = ["Content", "attributes_or_link_rows", "n_present", "neighbour_mean", "soft_tfidf"]


class Content(GraphClusterer):
    r"""KMeans on a representation that is computed, not learned.

    ============= ===========================================================================
    ``"soft"``    tf-idf rows of unit length times log(1 + number of attributes), SVD: keeps
                  both what a node holds and how much
    ``"tfidf"``   tf-idf rows of unit length, SVD
    ``"count"``   one number: how many attributes are not zero
    ``"mean"``    the mean of the neighbours' attributes, standardised, instead of the node's own
    ``"joint"``   standardised attributes beside their standardised neighbour mean
    ============= ===========================================================================

    Parameters
    ----------
    n_clusters : int
    representation : {"soft", "tfidf", "count", "mean", "joint"}
    n_components : int, optional
        Dimensions of the SVD; by default as many as clusters.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : array of shape (n,)
    embedding_ : array or sparse matrix of shape (n, columns)
        What KMeans saw.

    Notes
    -----
    Of a graph without attributes the links are the content: out-links, beside in-links where
    the graph is directed, as sparse columns.

    Examples
    --------
    >>> import numpy as np
    >>> from hencler.baselines import Content
    >>> words = np.array([[2, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 2], [0, 0, 1, 1]])
    >>> labels = Content(2, random_state=0).fit_predict(words)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "representation": [StrOptions({"soft", "tfidf", "count", "mean", "joint"})],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        representation: str = "soft",
        n_components: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.representation = representation
        self.n_components = n_components
        self.random_state = random_state

    def _fit(self, graph: Graph) -> None:
        seed = self._seed()
        self.embedding_ = self._represent(graph, seed)
        self.labels_ = kmeans_labels(self.embedding_, self.n_clusters, seed)

    def _represent(self, graph: Graph, seed: int) -> Attributes:
        x = attributes_or_link_rows(graph)
        if self.representation == "count":
            return n_present(x)[:, None]
        if self.representation in ("mean", "joint"):
            mean = standardised(neighbour_mean(graph.adjacency, x))
            return mean if self.representation == "mean" else _beside(standardised(x), mean)
        words = soft_tfidf(x) if self.representation == "soft" else tfidf(x)
        u, s, _ = leading_triples(words, self.n_components or self.n_clusters, seed)
        return u * s


def attributes_or_link_rows(graph: Graph) -> Attributes:
    """The attributes; without any, the links of each node as sparse columns."""
    if graph.x is not None:
        return graph.x
    adjacency = graph.adjacency
    return sp.csr_array(sp.hstack([adjacency, adjacency.T])) if graph.directed else adjacency


def n_present(x: Attributes) -> NDArray[np.float64]:
    """How many attributes of each node are not zero, shape (n,)."""
    count = (x != 0).sum(axis=1)
    return np.asarray(count, dtype=np.float64).ravel()


def tfidf(x: Attributes) -> sp.csr_array[Any]:
    """Rows of attributes times log((1 + n) / (1 + n_j)) + 1, then of unit length."""
    lowest = (x.data if sp.issparse(x) else x).min(initial=0.0)
    if lowest < 0:
        raise AttributeDataError(
            f"the lowest attribute is {lowest:g}; tf-idf is for words and other counts",
            remedy="Use representation='mean' or 'joint' for signed attributes",
        )
    return sp.csr_array(TfidfTransformer().fit_transform(sp.csr_array(x)))


def soft_tfidf(x: Attributes) -> sp.csr_array[Any]:
    """tf-idf rows of length log(1 + number of attributes): soft length normalisation."""
    return sp.csr_array(sp.diags_array(np.log1p(n_present(x))) @ tfidf(x))


def neighbour_mean(adjacency: Any, x: Attributes) -> Any:
    """Weighted mean over out-neighbours and that over in-neighbours, averaged, shape (n, d).

    A node with neighbours on one side only gets that side's mean, an isolated one zeros.
    """
    out, into = _row_stochastic(adjacency), _row_stochastic(adjacency.T.tocsr())
    sides = np.asarray(out.sum(axis=1) + into.sum(axis=1)).ravel()
    average = sp.diags_array(1.0 / np.maximum(sides, 1.0)) @ (out + into)
    return average @ x


def _row_stochastic(adjacency: Any) -> sp.csr_array[Any]:
    degrees = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    inverse = np.divide(1.0, degrees, out=np.zeros_like(degrees), where=degrees > 0)
    return sp.csr_array(sp.diags_array(inverse) @ adjacency)


def _beside(left: Any, right: Any) -> Any:
    return sp.csr_array(sp.hstack([left, right])) if sp.issparse(left) else np.hstack([left, right])
