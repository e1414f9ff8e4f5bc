r"""A label-free score of a finished clustering, and the number of clusters of a graph.

The score is a description length. Clusters are worth stating if, once they are known, the rest of
the data can be told in fewer words: per node, in nats,

.. math::

    \text{score} = \frac1n \Bigl( \sum_{\text{view}} G_{\text{view}} - n H(c) \Bigr), \qquad
    H(c) = -\sum_c \frac{n_c}{n} \log \frac{n_c}{n},

with the gain :math:`G` of each view that counts, and the price :math:`n H(c)` of the clusters.

*links*: the degree-corrected block model against the configuration model. With :math:`m_{cd}` the
links from cluster c to d, m their number, and the cost of the :math:`(k-1)^2` free rates,

.. math::

    G_{\text{links}} = \sum_{cd} m_{cd} \log \frac{m_{cd}\, m}{m_{c\cdot} m_{\cdot d}}
        - \frac{(k-1)^2}{2} \log m .

It asks how well clusters tell *which* clusters a node links to, its own or others: heterophily is
as good as homophily. Without directions each link counts once, and :math:`k(k-1)/2` rates are free.

*own*: the attributes of each node, predicted from the *other* nodes of its cluster against the
same from all other nodes. Nothing is predicted from itself, so more clusters do not win by
themselves. Words are Poisson with the rates of the cluster, shrunk towards those of all nodes with
the weight of a nodes, :math:`\lambda_{cj} = (x_{cj} + a \lambda_j) / (n_c + a)`; of the powers of
two the a that predicts best. Measurements are normal, columns of two values Bernoulli, each column
on its own.

*neighbours*: the same for the mean attributes of out-neighbours and of in-neighbours.
*smooth*: own and neighbours together.

The number of clusters is not the k with the best score: real attributes and links hold more than
any k clusters say, and every refinement of theirs pays. It is the k at which two halves of the
data, clustered apart, agree best (:func:`estimate_n_clusters`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_mutual_info_score

from ._errors import ParameterError
from ._graph import MANY_NODES, Graph
from ._machine import Embedding, Machine
from ._prepare import Preparation, Words, prepare
from ._progress import steps
from ._selection import (
    ATTRIBUTE_REGULARIZATION,
    LINK_REGULARIZATION,
    RELIABILITY,
    Evidence,
    _halves,
    _rewired,
    _shuffled,
    choose_views,
)
from ._views import View, damped, explicit_maps, walk_matrix

__all__ = ["Scorer", "estimate_n_clusters", "score_clustering", "score_parts"]

SHRINKAGES = tuple(2.0**i for i in range(9))
"""Candidates for a: how many nodes the prior of a cluster's rates weighs."""

SPLITS = 5
"""Random halvings of the data over which the agreement for each k is averaged."""

NULLS = 5
"""Draws of a null model; a singular value is above it by 3 standard deviations of the draws."""

_TINY = np.finfo(float).tiny


def score_clustering(
    graph: Graph, labels: ArrayLike, *, views: Sequence[View] | None = None
) -> float:
    """Nats per node that a clustering saves; higher is better, and below 0 it does not pay.

    Comparable between clusterings of the same graph by the same views, whatever made them.

    Parameters
    ----------
    graph : Graph
        Its labels ``y`` are not looked at.
    labels : cluster of every node, shape (n,)
    views : what the clusters have to explain; by default chosen by the evidence of the graph, as
        :class:`~hencler.HeNCler` does, for as many clusters as the labels have

    Examples
    --------
    >>> from hencler import make_heterophilous_graph
    >>> from hencler.metrics import score_clustering
    >>> graph = make_heterophilous_graph(60, 3, random_state=0)
    >>> score_clustering(graph, graph.y) > 0 > score_clustering(graph, sorted(graph.y))
    True
    """
    return score_parts(graph, labels, views=views)["score"]


def score_parts(
    graph: Graph, labels: ArrayLike, *, views: Sequence[View] | None = None
) -> dict[str, float]:
    """The parts of :func:`score_clustering` in nats per node: a gain for each view, the price
    ``partition`` of the clusters (negative), and their sum ``score``."""
    return Scorer(graph, views).parts(labels)


class Scorer:
    """What all clusterings of a graph are scored against, computed once.

    Attributes
    ----------
    views : tuple of str, or None to choose them for each clustering's number of clusters
    """

    def __init__(self, graph: Graph, views: Sequence[View] | None = None) -> None:
        self.n, self.directed = graph.n_nodes, graph.directed
        self.preparation = None if graph.x is None else prepare(graph.x)
        self.links = damped(graph.adjacency, loops=self.preparation is None)
        self.views = None if views is None else tuple(views)
        self.content: Any = None
        if self.preparation is not None:
            self.features = self.preparation.features(graph.x)
            self.content = _observed(self.preparation, graph.x)
        elif graph.x is None and self.views is not None and set(self.views) != {"links"}:
            raise ParameterError(
                f"views={self.views!r} need attributes, and the graph has none",
                remedy="Use views=('links',)",
            )
        self._neighbours: list[Any] | None = None
        self._chosen: dict[int, tuple[View, ...]] = {}

    def parts(self, labels: ArrayLike) -> dict[str, float]:
        z = self._indicators(labels)
        views = self.views if self.views is not None else self.views_for(z.shape[1])
        parts: dict[str, float] = {}
        if "links" in views:
            parts["links"] = link_gain(self.links, z, self.directed)
        if self.content is None:  # attributes that tell no two nodes apart explain nothing
            views = ()
        if {"own", "smooth"} & set(views):
            parts["own"] = attribute_gain(self.content, z)
        if {"neighbours", "smooth"} & set(views):
            parts["neighbours"] = sum(attribute_gain(x, z) for x in self._neighbour_means())
        sizes = np.asarray(z.sum(axis=0)).ravel()
        parts["partition"] = float(sizes @ np.log(sizes / self.n))
        parts = {name: value / self.n for name, value in parts.items()}
        return parts | {"score": sum(parts.values())}

    def views_for(self, k: int) -> tuple[View, ...]:
        """The views that the evidence supports for k clusters."""
        if self.preparation is None:
            return ("links",)
        if k not in self._chosen:
            groups = self.preparation.groups
            attributes = Evidence.whole(self.features, self.links)
            choice = choose_views(attributes, groups, self.links, k, self.directed)
            self._chosen[k] = choice.views
        return self._chosen[k]

    def _indicators(self, labels: ArrayLike) -> Any:
        """Nodes by clusters, CSR (n, k) without empty clusters."""
        c = np.asarray(labels)
        if c.shape != (self.n,):
            raise ParameterError(
                f"there are {self.n} nodes, and labels of shape {c.shape}",
                place="labels",
                remedy="Give one cluster per node",
            )
        c = np.unique(c, return_inverse=True)[1]
        return sp.csr_array((np.ones(self.n), (np.arange(self.n), c)))

    def _neighbour_means(self) -> list[Any]:
        """Mean attributes of the out- and, where it differs, of the in-neighbours."""
        if self._neighbours is None:
            sides = [self.links, self.links.T.tocsr()] if self.directed else [self.links]
            self._neighbours = [walk_matrix(side) @ self.content for side in sides]
        return self._neighbours


def _observed(preparation: Preparation, x: Any) -> Any:
    """What the attribute models describe: counts as they are, or standardised columns.

    Weights that are no counts are scaled to the mean 1, so that their unit does not matter.
    """
    if isinstance(preparation, Words):
        words = sp.csr_array(x).astype(np.float64)
        counts = np.all(words.data == np.round(words.data))
        return words if counts else words / words.data.mean()
    return preparation.content(x)


def link_gain(links: Any, z: Any, directed: bool) -> float:
    """Nats by which the block model tells the links better than degrees alone do.

    Weights are scaled to the mean 1, so that they say where links are, not how many.
    """
    if links.nnz == 0:
        return 0.0
    blocks = (z.T @ links @ z).toarray() * (links.nnz / links.sum())
    m, k = blocks.sum(), len(blocks)
    expected = np.outer(blocks.sum(axis=1), blocks.sum(axis=0)) / m
    some = blocks > 0
    gain = float((blocks[some] * np.log(blocks[some] / expected[some])).sum())
    if directed:
        return gain - (k - 1) ** 2 / 2 * float(np.log(m))
    return gain / 2 - k * (k - 1) / 4 * float(np.log(max(m / 2, 1)))


def attribute_gain(x: Any, z: Any) -> float:
    """Nats by which a node's attributes are told better by its cluster's than by all nodes'."""
    if z.shape[1] == 1:
        return 0.0
    if sp.issparse(x):
        return _poisson_gain(x, z)
    two = np.array([len(np.unique(column[:1000])) <= 2 for column in x.T])
    two[two] = [len(np.unique(column)) == 2 for column in x.T[two]]
    return _normal_gain(x[:, ~two], z) + _bernoulli_gain(x[:, two], z)


def _poisson_gain(x: Any, z: Any) -> float:
    n = x.shape[0]
    cluster, sizes = z.indices, np.asarray(z.sum(axis=0)).ravel()
    sums = (z.T @ x).toarray()
    totals, lengths = sums.sum(axis=0), np.asarray(x.sum(axis=1)).ravel()
    entries = x.tocoo()
    v, j, counts = entries.row, entries.col, entries.data
    others = sums[cluster[v], j] - counts
    # Half an occurrence in half a node: a word that no other node holds is rare, not impossible.
    rate = (totals[j] - counts + 0.5) / (n - 0.5)
    words = int((totals > 0).sum())
    total_rate = (totals.sum() - lengths + 0.5 * words) / (n - 0.5)
    in_cluster = sums.sum(axis=1)[cluster] - lengths
    best = -np.inf
    for a in SHRINKAGES:
        ratio = (others / rate + a) / (sizes[cluster[v]] - 1 + a)
        expected = (in_cluster + a * total_rate) / (sizes[cluster] - 1 + a)
        best = max(best, float(counts @ np.log(ratio) - (expected - total_rate).sum()))
    return best


def _others_means(x: NDArray[Any], z: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Of each node: mean of all other nodes, and of the others in its cluster (if any)."""
    n = len(x)
    cluster, sizes = z.indices, np.asarray(z.sum(axis=0)).ravel()
    everyone = (x.sum(axis=0) - x) / max(n - 1, 1)
    own = (z.T @ x)[cluster] - x
    m = sizes[cluster][:, None] - 1
    return everyone, np.where(m > 0, own / np.maximum(m, 1), everyone)


def _normal_gain(x: NDArray[Any], z: Any) -> float:
    everyone, own = _others_means(x, z)
    before, after = (np.maximum(((x - m) ** 2).sum(axis=0), _TINY) for m in (everyone, own))
    return len(x) / 2 * float(np.log(before / after).sum())


def _bernoulli_gain(x: NDArray[Any], z: Any) -> float:
    if x.shape[1] == 0:
        return 0.0
    x = (x > x.mean(axis=0)).astype(np.float64)
    sizes = np.asarray(z.sum(axis=0)).ravel()[z.indices][:, None] - 1
    everyone, own = _others_means(x, z)
    everyone = np.clip(everyone, 0.5 / len(x), 1 - 0.5 / len(x))
    # One node's worth of the overall rate, so that nothing is impossible.
    own = (sizes * own + everyone) / (sizes + 1)
    before, after = (np.where(x > 0, p, 1 - p) for p in (everyone, own))
    return float(np.log(after / before).sum())


# --- the number of clusters --------------------------------------------------------------------


def estimate_n_clusters(
    graph: Graph, k_max: int = 15, random_state: int | np.random.RandomState | None = 0
) -> tuple[int, list[dict[str, Any]]]:
    r"""The number of clusters on which two halves of the data agree best.

    1. *Spectrum.* The singular values of the links that exceed the leading one (beside the
       trivial one) of a graph with the same degrees, wired at random, say roughly how many
       clusters there are; without links those of the attributes, against shuffled columns. For so
       many clusters the views are chosen, as :class:`~hencler.HeNCler` does.
    2. *Stability.* Attributes and links are split into halves at random, :data:`SPLITS` times.
       Each half has its wKSVD and, for each k = 2 ... k_max, KMeans in k dimensions. The answer is
       the k with the highest mean adjusted mutual information of the two clusterings.
    3. Where the views for that k are others, once more with these.

    Where no k reaches an agreement of 0.2 there is nothing to be stable, and the spectrum of the
    view decides alone; it may say 1.

    Parameters
    ----------
    graph : Graph
    k_max : int
        Largest number of clusters considered; less on graphs with as few nodes.
    random_state : int, RandomState or None
        Draws the null graphs and the halves.

    Returns
    -------
    k : int
    table : list of dict, for k = 2 ... k_max
        ``n_clusters``, ``agreement`` and its standard deviation ``spread`` over the halvings, and
        ``above_null``: whether the spectrum of any view has k - 1 values above its null.
    """
    if k_max < 1:
        raise ParameterError(f"k_max is {k_max}", remedy="Consider at least one cluster")
    scorer = Scorer(graph)
    k_max = min(k_max, graph.n_nodes - 1)
    if k_max < 2 or (scorer.preparation is None and scorer.links.nnz == 0):
        return 1, []
    search = _Search(scorer, k_max, _generator(random_state))
    views: tuple[View, ...] = ("own",)
    if scorer.links.nnz:
        views = scorer.views_for(min(max(search.count_above_null("links"), 2), k_max))
    k, table = search.best(views)
    if scorer.links.nnz and scorer.views_for(max(k, 2)) != views:
        k, table = search.best(scorer.views_for(max(k, 2)))
    return k, table


def _generator(random_state: int | np.random.RandomState | None) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(2**31)))
    return np.random.default_rng(random_state)


class _Search:
    """Agreement of halves over k = 2 ... k_max, for the views asked for."""

    def __init__(self, scorer: Scorer, k_max: int, rng: np.random.Generator) -> None:
        self.scorer, self.k_max, self.rng = scorer, k_max, rng
        self.groups = np.zeros(1, dtype=np.int64)
        self.features: Any = np.ones((scorer.n, 1))
        if scorer.preparation is not None:
            self.features, self.groups = scorer.features, scorer.preparation.groups
        # KMeans sees so many nodes and no more: the agreement of a sample is that of all.
        self.sample = np.arange(scorer.n)
        if scorer.n > MANY_NODES:
            self.sample = np.sort(rng.choice(scorer.n, MANY_NODES, replace=False))

    def best(self, views: tuple[View, ...]) -> tuple[int, list[dict[str, Any]]]:
        found = max(self.count_above_null(view) for view in views)
        halvings = steps("trying numbers of clusters", range(SPLITS))
        scores = np.array([self._agreements(views) for _ in halvings])
        mean, spread = scores.mean(axis=0), scores.std(axis=0, ddof=1)
        table = [
            {
                "n_clusters": k,
                "agreement": float(mean[k - 2]),
                "spread": float(spread[k - 2]),
                "above_null": k <= found,
            }
            for k in range(2, self.k_max + 1)
        ]
        if mean.max() < RELIABILITY:
            return min(found, self.k_max), table
        return 2 + int(np.argmax(mean)), table

    def count_above_null(self, view: View) -> int:
        """1 + the number of singular values above the largest that null models have."""
        # The leading pair of the links is that of the degrees, in the graph as in its null.
        first = 1 if view == "links" else 0
        s = self.k_max - 1 + first
        machine = _machine(view, self.features, self.scorer.links, s)
        null = [self._null(view, s).sigma[first] for _ in range(NULLS)]
        level = np.mean(null) + 3 * np.std(null, ddof=1)
        return 1 + int((machine.sigma[first:] > level).sum())

    def _null(self, view: View, s: int) -> Machine:
        """Machine of data with nothing in common: links rewired, attributes moved."""
        features, links = self.features, self.scorer.links
        if view == "links":
            links = _rewired(links, self.scorer.directed, self.rng)
        elif view == "own":
            features = _shuffled_attributes(features, self.groups, self.rng)
        else:
            features = features[self.rng.permutation(self.scorer.n)]
        return _machine(view, features, links, s)

    def _agreements(self, views: tuple[View, ...]) -> list[float]:
        """Adjusted mutual information of two halves' clusterings for each k."""
        directed = self.scorer.directed
        seed = int(self.rng.integers(2**31))
        halves = [
            [_embedding(view, self.features[:, columns], links, self.k_max) for view in views]
            for links, columns in _halves(self.groups, self.scorer.links, directed, self.rng)
        ]
        scores = []
        for k in range(2, self.k_max + 1):
            a, b = (_kmeans(_rows(views, half, k)[self.sample], k, seed) for half in halves)
            scores.append(float(adjusted_mutual_info_score(a, b)))
        return scores


def _shuffled_attributes(features: Any, groups: NDArray[Any], rng: np.random.Generator) -> Any:
    """Every attribute placed at random nodes, with all features that belong to it."""
    if sp.issparse(features):  # words: an attribute is a column
        own = np.flatnonzero(groups >= 0)
        rest = np.flatnonzero(groups < 0)
        shuffled = _shuffled(features[:, own], groups[own], rng)
        return sp.hstack([shuffled, features[rng.permutation(features.shape[0])][:, rest]]).tocsr()
    return _shuffled(features, groups, rng)


def _machine(view: View, features: Any, links: Any, s: int) -> Machine:
    if view == "links":
        return Machine().fit_links(links, s, LINK_REGULARIZATION)
    return Machine().fit(*explicit_maps(view, features, links), s, ATTRIBUTE_REGULARIZATION)


def _embedding(view: View, features: Any, links: Any, s: int) -> Embedding:
    return _machine(view, features, links, s).embed(*explicit_maps(view, features, links))


def _rows(views: Sequence[View], embeddings: Sequence[Embedding], k: int) -> NDArray[Any]:
    """Rows of all views side by side, each view with the same variance in total."""
    blocks = []
    for view, embedding in zip(views, embeddings):
        if view == "links":
            rows = embedding.walk_rows(k)
            # The length of a row is mostly the node's degree; its root is as much as counts.
            rows = rows / np.sqrt(np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
        else:
            rows = embedding.walk_rows(k - 1)  # centred: k clusters span k - 1 dimensions
        blocks.append(rows / np.sqrt(max(float(rows.var(axis=0).sum()), _TINY)))
    return np.hstack(blocks)


def _kmeans(rows: NDArray[Any], k: int, seed: int) -> NDArray[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KMeans(k, n_init=2, random_state=seed).fit_predict(rows)
