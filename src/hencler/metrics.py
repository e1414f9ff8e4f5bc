r"""How well clusters agree with known classes, and how alike linked nodes are.

:func:`score_clustering` alone needs no classes. Every other function takes the found clusters
first and the true classes second and returns fractions, not percent. Nodes of unknown class do
not count: -1 among integers, NaN among floats, ``""`` among strings, and any of these or ``None``
among objects. The cluster of a node is never unknown; -1 is a cluster like any other.

Notation: :math:`n_{ck}` nodes of class c are in cluster k, :math:`n_{c\cdot}` and
:math:`n_{\cdot k}` are the sums over clusters and classes, N is the sum of all. Time and memory
are O(N), but for the time of the matching in :func:`clustering_accuracy` and :func:`macro_f1`:
it looks at the non-zero :math:`n_{ck}` alone, and is quadratic in the number of classes at best.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from ._errors import ParameterError
from ._graph import Graph
from ._scoring import score_clustering

__all__ = [
    "adjusted_rand_index",
    "class_insensitive_homophily",
    "clustering_accuracy",
    "contingency",
    "dmon_f1",
    "edge_homophily",
    "evaluate",
    "macro_f1",
    "normalized_mutual_information",
    "pairwise_f1",
    "score_clustering",
]


def evaluate(labels: ArrayLike, truth: ArrayLike) -> dict[str, float | int]:
    """All scores of one clustering.

    Parameters
    ----------
    labels : sequence of n clusters
    truth : sequence of n classes, some of which may be unknown

    Returns
    -------
    scores : dict
        ``nmi``, ``ari``, ``acc``, ``pairwise_f1``, ``macro_f1``, ``paper_f1`` (see
        :func:`dmon_f1` for why one cluster scores high there), ``n_clusters`` (non-empty ones,
        over all n nodes) and ``n_evaluated`` (nodes of known class).

    Examples
    --------
    >>> from hencler.metrics import evaluate
    >>> scores = evaluate([0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1])
    >>> round(scores["acc"], 3), round(scores["pairwise_f1"], 3), scores["n_clusters"]
    (0.833, 0.615, 2)
    """
    pair = _paired(labels, truth)
    table = _table(pair)
    acc, macro = _matched_scores(table)
    return {
        "nmi": _nmi(pair),
        "ari": _ari(pair),
        "acc": acc,
        "pairwise_f1": _pairwise_f1(table),
        "macro_f1": macro,
        "paper_f1": _dmon_f1(table),
        "n_clusters": pair.n_clusters,
        "n_evaluated": int(pair.truth.size),
    }


def contingency(labels: ArrayLike, truth: ArrayLike) -> sp.csr_array[Any]:
    """Counts n_ck of nodes of class c in cluster k: sparse, int64, shape (classes, clusters).

    Rows and columns are in sorted order of the values (order of appearance for objects).
    Clusters without a node of known class have no column.

    Examples
    --------
    >>> from hencler.metrics import contingency
    >>> contingency([0, 0, 1, 1], ["fox", "fox", "fox", "owl"]).toarray().tolist()
    [[2, 1], [0, 1]]
    """
    return _table(_paired(labels, truth))


def normalized_mutual_information(labels: ArrayLike, truth: ArrayLike) -> float:
    r"""Mutual information over the arithmetic mean of both entropies.

    .. math:: \mathrm{NMI} = \frac{2}{H(y) + H(\hat y)}
        \sum_{c,k} \frac{n_{ck}}{N} \log \frac{N n_{ck}}{n_{c\cdot} n_{\cdot k}}

    0 for one single cluster, unless there is one single class too: then 1.

    Examples
    --------
    How clusters are numbered does not matter, and one cluster for all says nothing:

    >>> from hencler.metrics import normalized_mutual_information
    >>> classes = ["fox", "fox", "owl", "owl"]
    >>> round(normalized_mutual_information([1, 1, 0, 0], classes), 3)
    1.0
    >>> round(normalized_mutual_information([0, 0, 0, 0], classes), 3)
    0.0
    """
    return _nmi(_paired(labels, truth))


def adjusted_rand_index(labels: ArrayLike, truth: ArrayLike) -> float:
    """Agreement over pairs of nodes, 0 in expectation for random clusters of the same sizes.

    Examples
    --------
    >>> from hencler.metrics import adjusted_rand_index
    >>> round(adjusted_rand_index([0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1]), 3)
    0.324
    """
    return _ari(_paired(labels, truth))


def clustering_accuracy(labels: ArrayLike, truth: ArrayLike) -> float:
    r"""Share of nodes in the cluster matched to their class, under the best matching.

    .. math:: \mathrm{ACC} = \frac1N \max_\pi \sum_c n_{c,\pi(c)}

    over all one-to-one maps :math:`\pi` from classes to clusters (Hungarian matching). With more
    classes than clusters, or fewer, those left over match nothing.

    Examples
    --------
    >>> from hencler.metrics import clustering_accuracy
    >>> clustering_accuracy([1, 1, 0, 0], ["fox", "fox", "fox", "owl"])
    0.75
    """
    return _matched_scores(contingency(labels, truth))[0]


def pairwise_f1(labels: ArrayLike, truth: ArrayLike) -> float:
    r"""F1 of the question, asked of every pair of nodes, whether they belong together.

    .. math:: F_1 = \frac{2PR}{P+R}, \quad
        P = \frac{\sum_{ck} n_{ck}(n_{ck}-1)}{\sum_k n_{\cdot k}(n_{\cdot k}-1)}, \quad
        R = \frac{\sum_{ck} n_{ck}(n_{ck}-1)}{\sum_c n_{c\cdot}(n_{c\cdot}-1)}

    0 where no pair shares both class and cluster. Not the F1 of the HeNCler and DMoN papers,
    which go by the same name: that is :func:`dmon_f1`.

    Examples
    --------
    Of 7 pairs in one cluster and 6 of one class, 4 are both:

    >>> from hencler.metrics import pairwise_f1
    >>> round(pairwise_f1([0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1]), 3) == round(2 * 4 / (7 + 6), 3)
    True
    """
    return _pairwise_f1(contingency(labels, truth))


def macro_f1(labels: ArrayLike, truth: ArrayLike) -> float:
    r"""Mean over the classes of the F1 between a class and the cluster matched to it.

    .. math:: \frac1C \sum_c \frac{2 n_{c,\pi(c)}}{n_{c\cdot} + n_{\cdot\pi(c)}}

    with the matching :math:`\pi` of :func:`clustering_accuracy`; a class without a cluster scores
    0. Of several matchings of equal accuracy the one of largest macro-F1 counts, so that the
    score does not depend on how clusters are numbered.

    Examples
    --------
    The rare class counts as much as the others:

    >>> from hencler.metrics import clustering_accuracy, macro_f1
    >>> clusters, classes = [0] * 10, ["fox"] * 9 + ["owl"]
    >>> clustering_accuracy(clusters, classes), round(macro_f1(clusters, classes), 3)
    (0.9, 0.474)
    """
    return _matched_scores(contingency(labels, truth))[1]


def dmon_f1(labels: ArrayLike, truth: ArrayLike) -> float:
    r"""The "pairwise F1" of the DMoN and HeNCler papers: for comparison, never to optimise.

    Despite that name it is no function of pairs, but of the largest cell of each row and column:

    .. math::
        a_c = \max_k n_{ck}, \quad b_k = \max_c n_{ck}, \quad
        TP = \sum_c a_c (a_c - 1), \quad FP = 2 \sum_c a_c (n_{c\cdot} - a_c), \quad
        FN = 2 \sum_k b_k (n_{\cdot k} - b_k)

    .. math:: P = \frac{TP}{TP + FP}, \quad R = \frac{TP}{TP + FN}, \quad F_1 = \frac{2PR}{P + R}

    and 0 where TP = 0.

    .. warning:: It rewards collapse. One single cluster has P = 1 and

        .. math:: R = \frac{\sum_c n_c (n_c - 1)}{\sum_c n_c (n_c - 1) + 2b(N - b)},
            \quad b = \max_c n_c

        which on several benchmark graphs is more than any published method has. Read it beside the
        other scores and the number of non-empty clusters.

    Examples
    --------
    >>> from hencler.metrics import dmon_f1, normalized_mutual_information
    >>> one_cluster, classes = [0] * 6, [0, 0, 0, 0, 0, 1]
    >>> round(dmon_f1(one_cluster, classes), 3)
    0.8
    >>> round(normalized_mutual_information(one_cluster, classes), 3)
    0.0
    """
    return _dmon_f1(contingency(labels, truth))


# --- homophily -------------------------------------------------------------------------------


def edge_homophily(graph: Graph, y: ArrayLike | None = None) -> float:
    """Share of edges that join nodes of one class; NaN where no edge joins known classes.

    Each direction of an undirected edge is an edge, self-loops are edges, weights do not count.

    Parameters
    ----------
    graph : Graph
    y : sequence of n classes, optional
        ``graph.y`` by default. Edges at nodes of unknown class are left out.

    Examples
    --------
    >>> from hencler import Graph
    >>> from hencler.metrics import edge_homophily
    >>> web = Graph.from_edge_list(["fox", "owl", "owl"], ["mouse", "mouse", "fox"])
    >>> web.ids.tolist()
    ['fox', 'mouse', 'owl']
    >>> round(edge_homophily(web, ["predator", "prey", "predator"]), 3)
    0.333
    """
    _, heads, same = _labelled_edges(graph, y)
    return float(same.mean()) if heads.size else float("nan")


def class_insensitive_homophily(graph: Graph, y: ArrayLike | None = None) -> float:
    r"""Edge homophily above what the class sizes alone would give (Lim et al. 2021).

    .. math:: \mathcal H = \frac{1}{C - 1} \sum_c \max\left(0, h_c - \frac{n_c}{N}\right)

    with :math:`h_c` the share of the edges pointing *at* class c that come from class c (0 where
    there is none). Direction matters. Parameters and edges are those of :func:`edge_homophily`.

    Examples
    --------
    Half of all links at random stay in one of two equal classes, which is no homophily:

    >>> import numpy as np
    >>> from hencler import Graph
    >>> from hencler.metrics import class_insensitive_homophily, edge_homophily
    >>> everyone = Graph(np.ones((4, 4)))
    >>> edge_homophily(everyone, [0, 0, 1, 1]), class_insensitive_homophily(everyone, [0, 0, 1, 1])
    (0.5, 0.0)
    """
    codes, heads, same = _labelled_edges(graph, y)
    counts = np.bincount(codes)
    if counts.size < 2:
        raise ParameterError(
            "all nodes are of one class", place="y", remedy="Homophily needs two classes or more"
        )
    at = np.bincount(heads, minlength=counts.size)
    h = np.bincount(heads, weights=same, minlength=counts.size) / np.maximum(at, 1)
    return float(np.maximum(0, h - counts / codes.size).sum() / (counts.size - 1))


def _labelled_edges(
    graph: Graph, y: ArrayLike | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Classes of the known nodes; of each edge between such, its head's class and whether the
    tail's is the same."""
    if y is None and graph.y is None:
        raise ParameterError("the graph has no classes", remedy="Give y, one class per node")
    classes = _as_vector(graph.y if y is None else y, "y")
    if classes.size != graph.n_nodes:
        raise ParameterError(
            f"{classes.size} classes for {graph.n_nodes} nodes",
            place="y",
            remedy="Give one class per node",
        )
    known = ~_unknown(classes)
    if not known.any():
        raise ParameterError("every class is unknown", place="y", remedy="Give known classes")
    codes = np.full(classes.size, -1, dtype=np.int64)
    codes[known] = _codes(classes[known], "y")
    edges = graph.adjacency.tocoo()
    both = known[edges.row] & known[edges.col]
    tail, head = codes[edges.row[both]], codes[edges.col[both]]
    return codes[known], head, tail == head


# --- the scores, from the table ----------------------------------------------------------------


def _nmi(pair: _Pair) -> float:
    return float(normalized_mutual_info_score(pair.truth, pair.labels))


def _ari(pair: _Pair) -> float:
    return float(adjusted_rand_score(pair.truth, pair.labels))


def _pairwise_f1(table: Any) -> float:
    n_c, n_k = _sums(table)
    return _f1(_pairs(table.data), _pairs(n_k), _pairs(n_c))


def _dmon_f1(table: Any) -> float:
    n_c, n_k = _sums(table)
    a, b = (np.asarray(table.max(axis=axis).toarray()).ravel() for axis in (1, 0))
    tp = _pairs(a)
    fp = 2 * int((a * (n_c - a)).sum())
    fn = 2 * int((b * (n_k - b)).sum())
    return _f1(tp, tp + fp, tp + fn)


def _f1(tp: int, predicted: int, actual: int) -> float:
    """2PR / (P + R) = 2 tp / (predicted + actual), 0 for 0/0."""
    return 2 * tp / (predicted + actual) if tp else 0.0


def _pairs(counts: NDArray[np.int64]) -> int:
    """Ordered pairs within groups of the given sizes."""
    return int((counts * (counts - 1)).sum())


def _matched_scores(table: Any) -> tuple[float, float]:
    """Accuracy and macro-F1, from one matching."""
    n_c, _ = _sums(table)
    hits, size = _matching(table)
    return float(hits.sum() / n_c.sum()), float((2 * hits / (n_c + size)).mean())


def _matching(table: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Per class, n_ck with its cluster and the size of that cluster; 0 and 0 where it has none.

    The matching has the most nodes, and among equals the largest sum of F1.

    A sparse assignment needs every row matched and every weight non-zero: each row gets a column
    of its own that stands for no match, and every weight is raised by one, which adds the same
    number to all full matchings. The F1 terms add up to less than one node.
    """
    n_classes, n_clusters = table.shape
    n_c, n_k = _sums(table)
    cells = table.tocoo()
    f1 = 2 * cells.data / (n_c[cells.row] + n_k[cells.col])
    weight = cells.data + f1 / (n_classes + 1) + 1
    real = sp.csr_array((weight, (cells.row, cells.col)), shape=table.shape)
    padded = sp.hstack([real, sp.eye_array(n_classes)], format="csr")
    rows, cols = min_weight_full_bipartite_matching(padded, maximize=True)
    rows, cols = rows[cols < n_clusters], cols[cols < n_clusters]
    chosen = sp.csr_array((np.ones(rows.size, dtype=np.int64), (rows, cols)), shape=table.shape)
    size = np.zeros(n_classes, dtype=np.int64)
    size[rows] = n_k[cols]
    return np.asarray(table.multiply(chosen).sum(axis=1)).ravel(), size


def _sums(table: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sizes of the classes and of the clusters."""
    return np.asarray(table.sum(axis=1)).ravel(), np.asarray(table.sum(axis=0)).ravel()


# --- checks ------------------------------------------------------------------------------------


class _Pair(NamedTuple):
    """Codes from 0 of the nodes of known class, and how many clusters there are in all."""

    labels: NDArray[np.int64]
    truth: NDArray[np.int64]
    n_clusters: int


def _paired(labels: ArrayLike, truth: ArrayLike) -> _Pair:
    clusters, classes = _as_vector(labels, "labels"), _as_vector(truth, "truth")
    if clusters.size != classes.size:
        raise ParameterError(
            f"{clusters.size} clusters for {classes.size} classes",
            place="labels, truth",
            remedy="Give both for the same nodes, in the same order",
        )
    missing = _missing(clusters)
    if missing.any():
        raise ParameterError(
            "the node has no cluster",
            place=f"labels, entry {int(np.flatnonzero(missing)[0])}",
            remedy="Give every node a cluster",
        )
    known = ~_unknown(classes)
    if not known.any():
        raise ParameterError(
            "no node has a known class", place="truth", remedy="Give at least one known class"
        )
    codes = _codes(clusters, "labels")
    _, evaluated = np.unique(codes[known], return_inverse=True)
    return _Pair(evaluated, _codes(classes[known], "truth"), int(codes.max()) + 1)


def _table(pair: _Pair) -> sp.csr_array[Any]:
    ones = np.ones(pair.truth.size, dtype=np.int64)
    shape = (int(pair.truth.max()) + 1, int(pair.labels.max()) + 1)
    return sp.csr_array(sp.coo_array((ones, (pair.truth, pair.labels)), shape=shape))


def _as_vector(values: Any, what: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ParameterError(
            f"shape {array.shape}", place=what, remedy="Give a sequence, one entry per node"
        )
    if array.dtype.kind not in "biufUSO":
        raise ParameterError(
            f"entries of type {array.dtype}", place=what, remedy="Give integers or strings"
        )
    return array


def _unknown(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a class is unknown: a missing value, or -1 among integers."""
    if values.dtype.kind == "i":
        return np.asarray(values == -1)
    unknown = _missing(values)
    if values.dtype.kind == "O":
        minus_one = (isinstance(v, int | np.integer) and v == -1 for v in values)
        unknown |= np.fromiter(minus_one, dtype=bool, count=values.size)
    return unknown


def _missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where there is no value: NaN, the empty string, None."""
    kind = values.dtype.kind
    if kind == "f":
        return np.isnan(values)
    if kind in "US":
        return np.asarray(values == values.dtype.type())
    if kind == "O":
        # Only NaN (and pandas' NaT) differs from itself.
        absent = (v is None or v == "" or bool(v != v) for v in values)
        return np.fromiter(absent, dtype=bool, count=values.size)
    return np.zeros(values.size, dtype=bool)


def _codes(values: NDArray[Any], what: str) -> NDArray[np.int64]:
    """Values as 0, 1, ...: in sorted order, or as they appear where objects need no order."""
    if values.dtype.kind != "O":
        return np.unique(values, return_inverse=True)[1].astype(np.int64)
    numbers: dict[Any, int] = {}
    try:
        codes = [numbers.setdefault(value, len(numbers)) for value in values]
    except TypeError as error:
        raise ParameterError(
            "an entry cannot be compared", place=what, remedy="Give integers or strings"
        ) from error
    return np.array(codes, dtype=np.int64)
