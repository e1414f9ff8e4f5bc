"""Choices that never see labels: which views of the nodes are worth clustering by.

Every statistic compares the data with a null model made from the data itself, or one random half
of the data with the other. The draws are fixed, so that the choice does not depend on the seed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_mutual_info_score

from ._graph import sampled_nodes
from ._machine import Machine
from ._prepare import Preparation
from ._progress import announce
from ._views import FeatureMaps, View, explicit_maps, neighbour_means, walk_matrix

__all__ = ["Choice", "Evidence", "choose_views", "sampled_evidence"]

HOMOPHILY = 0.45
"""From this correlation of own and neighbours' scores on, neighbours are averaged in."""

SILENCE = 1.05
"""Structure is there only where it exceeds its null by this factor. The neighbours' comes first
if it exceeds the node's own by as much."""

LINK_HEAD, LINK_TAIL = 0.05, 0.25
"""Links are k-clustered if their k - 1 leading singular values exceed the null by LINK_HEAD, and
the next ones by no more than the share LINK_TAIL of that."""

RELIABILITY = 0.2
"""Least agreement of the clusterings by two halves of a view's data for the view to count."""

IN_SILENCE = 0.1
"""Where the attributes show nothing, links need this share of LINK_HEAD or of RELIABILITY only."""

ATTRIBUTE_REGULARIZATION = 2.0
LINK_REGULARIZATION = 0.3
"""Degrees are D + regularization * mean(D)."""

EVIDENCE_NODES = 10_000
"""Nodes of a large graph whose attributes, and those of their neighbours, are evidence."""

NULLS, NULLS_UP_TO = 5, 2000
"""Draws of a null model, of which the largest counts. One will do for the attributes of more nodes
than this; whose attributes a hub gets makes a difference at any size."""

_SPLITS = 6, 2, 1
"""Splits into halves of small graphs (up to NULLS_UP_TO), others, and those seen by a sample."""

_STEP = "weighing the evidence"


class Choice(NamedTuple):
    """The views chosen, one of the attributes and/or the links, and the statistics behind it."""

    views: tuple[View, ...]
    evidence: dict[str, float]


class Evidence(NamedTuple):
    """What the evidence about the attributes is taken from: some nodes, and those they touch.

    Attributes
    ----------
    own : non-negative features of the nodes (m, d)
    around : features of all nodes that they link with (n', d)
    out, into : links to and from those nodes, CSR (m, n')
    """

    own: Any
    around: Any
    out: Any
    into: Any

    @classmethod
    def whole(cls, features: Any, links: Any) -> Evidence:
        """From the features (n, d) and damped links (n, n) of all nodes."""
        return cls(features, features, links, links.T.tocsr())

    def columns(self, chosen: NDArray[Any]) -> Evidence:
        """With some of the features only."""
        own = self.own[:, chosen]
        around = own if self.around is self.own else self.around[:, chosen]
        return self._replace(own=own, around=around)

    def maps(self, view: View) -> FeatureMaps:
        if view == "neighbours":
            return neighbour_means(self.out, self.into, self.around)
        if view == "smooth" and self.around is self.own:
            return explicit_maps(view, self.own, self.out)
        return FeatureMaps(self.own, self.own)


def sampled_evidence(preparation: Preparation, x: Any, links: Any) -> Evidence:
    """Evidence from all nodes of a graph, or a sample of very many, with all their neighbours."""
    n = x.shape[0]
    if n <= EVIDENCE_NODES:
        return Evidence.whole(preparation.features(x), links)
    some = np.linspace(0, n, EVIDENCE_NODES, endpoint=False).astype(np.int64)
    out, into = links[some], links.T.tocsr()[some]
    touched = np.unique(np.r_[some, out.indices, into.indices])
    place = np.searchsorted(touched, some)
    around = preparation.features(x[touched])
    return Evidence(around[place], around, out[:, touched], into[:, touched])


def choose_views(
    attributes: Evidence | None, groups: NDArray[Any] | None, links: Any, k: int, directed: bool
) -> Choice:
    """The views for k clusters.

    Parameters
    ----------
    attributes : evidence about the attributes, or None without any
    groups : attribute of each feature, -1 for features that belong to none, shape (d,)
    links : damped links without loops, CSR (n, n)
    """
    if attributes is None or groups is None:
        return Choice(("links",), {})
    if links.nnz == 0 or k == 1:
        return Choice(("own",), {})
    rng = np.random.default_rng(0)
    announce(_STEP, 0, 4)
    named = np.flatnonzero(groups >= 0)
    view, evidence = _attribute_view(attributes.columns(named), groups[named], k, rng)
    announce(_STEP, 1, 4)
    head, tail = link_excess(links, k, directed, rng)
    evidence |= {"link_head": head, "link_tail": tail}

    def reliable(each: View, share: float = 1.0) -> bool:
        announce(_STEP, 3 if each == "links" else 2, 4)
        score = reliability(each, attributes, groups, links, k, directed)
        evidence[f"reliability_{each}"] = score
        return score >= share * RELIABILITY

    clustered = tail <= LINK_TAIL * head
    if view == "own" and max(evidence["own"], evidence["neighbours"]) < SILENCE:
        found = clustered and head >= IN_SILENCE * LINK_HEAD
        found = found or reliable("links", IN_SILENCE)
        return Choice(("links",) if found else (view,), evidence)
    if not clustered or head < LINK_HEAD:
        return Choice((view,), evidence)
    both: tuple[View, ...] = (view, "links")
    return Choice(tuple(each for each in both if reliable(each)) or (view,), evidence)


def _attribute_view(
    content: Evidence, groups: NDArray[Any], k: int, rng: np.random.Generator
) -> tuple[View, dict[str, float]]:
    """The node's own attributes, its neighbours', or both averaged."""
    own = Machine().fit(content.own, content.own, k, ATTRIBUTE_REGULARIZATION)
    neighbours = Machine().fit(*content.maps("neighbours"), k, ATTRIBUTE_REGULARIZATION)
    draws = range(NULLS if content.own.shape[0] <= NULLS_UP_TO else 1)
    shuffled = (content._replace(own=_shuffled(content.own, groups, rng)) for _ in draws)
    n = content.around.shape[0]
    moved = (content._replace(around=content.around[rng.permutation(n)]) for _ in range(NULLS))
    evidence = {
        "own": _ratio(own.sigma, (null.maps("own") for null in shuffled), k),
        "homophily": homophily(content, own),
        "neighbours": _ratio(neighbours.sigma, (null.maps("neighbours") for null in moved), k),
    }
    ahead = evidence["neighbours"] > SILENCE * max(1.0, evidence["own"])
    # Where the neighbours show more structure than the node, half the correlation will do.
    if evidence["homophily"] >= (HOMOPHILY / 2 if ahead else HOMOPHILY):
        return "smooth", evidence
    return ("neighbours" if ahead else "own"), evidence


def _ratio(sigma: NDArray[Any], nulls: Iterable[FeatureMaps], k: int) -> float:
    """Sum of the k leading singular values over the largest of the same for maps of nulls."""
    sums = [Machine().fit(*maps, k, ATTRIBUTE_REGULARIZATION).sigma.sum() for maps in nulls]
    return float(sigma.sum() / max([*sums, np.finfo(float).tiny]))


def _shuffled(features: Any, groups: NDArray[Any], rng: np.random.Generator) -> Any:
    """Every attribute's entries placed at random nodes: the same values, nothing in common."""
    if not sp.issparse(features):
        order = rng.permuted(np.tile(np.arange(len(features)), (groups.max() + 1, 1)), axis=1)
        return np.take_along_axis(features, order[groups].T, axis=0)
    columns = features.tocsc()
    n = columns.shape[0]
    counts = np.diff(columns.indptr)
    rows = [rng.choice(n, m, replace=False) for m in counts]
    at = (np.concatenate(rows), np.repeat(np.arange(len(counts)), counts))
    return sp.csr_array((columns.data, at), shape=columns.shape)


def homophily(content: Evidence, own: Machine) -> float:
    """Correlation over nodes of a node's score and its neighbours' mean score, averaged over the
    leading directions of the node's own features, weighted by their singular values."""
    directions = own.V / np.maximum(np.linalg.norm(own.V, axis=0), np.finfo(float).tiny)
    both = (content.out + content.into).tocsr()
    linked = np.diff(both.indptr) > 0
    if not linked.any():  # links there are, but none in the sample
        return 0.0
    means = (walk_matrix(both) @ (content.around @ directions))[linked]
    scores = (content.own @ directions)[linked]
    scores, means = scores - scores.mean(axis=0), means - means.mean(axis=0)
    spread = np.sqrt((scores**2).sum(axis=0) * (means**2).sum(axis=0))
    correlations = (scores * means).sum(axis=0) / np.maximum(spread, np.finfo(float).tiny)
    return float(own.sigma @ correlations / max(own.sigma.sum(), np.finfo(float).tiny))


def link_excess(
    links: Any, k: int, directed: bool, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean excess of the links' singular values 2 ... k (head) and k+1 ... 2k (tail) over those
    of a graph with the same degrees, wired at random. The first value is that of the degrees."""
    spectra = [
        Machine().fit_links(matrix, 2 * k, LINK_REGULARIZATION).sigma
        for matrix in (links, _rewired(links, directed, rng))
    ]
    excess = np.maximum(spectra[0] / np.maximum(spectra[1], np.finfo(float).tiny) - 1, 0)
    excess[spectra[0] == 0] = 0
    return float(excess[1:k].mean()), float(excess[k:].mean())


def _rewired(links: Any, directed: bool, rng: np.random.Generator) -> Any:
    part = (links if directed else sp.triu(links)).tocoo()
    if directed:
        return sp.csr_array((part.data, (part.row, rng.permutation(part.col))), shape=part.shape)
    ends = rng.permutation(np.r_[part.row, part.col])
    half = sp.csr_array((part.data, (ends[: part.nnz], ends[part.nnz :])), shape=part.shape)
    return (half + half.T).tocsr()


def reliability(
    view: View, attributes: Evidence, groups: NDArray[Any], links: Any, k: int, directed: bool
) -> float:
    """Agreement (adjusted mutual information) of the clusterings by two halves of the data."""
    rng = np.random.default_rng(0)
    scores = []
    n = links.shape[0]
    whole = n <= EVIDENCE_NODES
    for _ in range(_SPLITS[(n > NULLS_UP_TO) + (not whole)]):
        labels = []
        for half_links, columns in _halves(groups, links, directed, rng):
            if view == "links":
                machine = Machine().fit_links(half_links, k, LINK_REGULARIZATION)
                embedding = machine.embed(half_links, half_links.T.tocsr())
                rows = embedding.take(sampled_nodes(n)).walk_rows(k)
            else:
                half = attributes.columns(columns)
                if whole:
                    half = Evidence.whole(half.own, half_links)
                maps = half.maps(view)
                machine = Machine().fit(*maps, k, ATTRIBUTE_REGULARIZATION)
                rows = machine.embed(*maps).walk_rows(k)
            with warnings.catch_warnings():
                # Half of the data may have fewer distinct rows than k; then it agrees less.
                warnings.simplefilter("ignore", ConvergenceWarning)
                labels.append(KMeans(k, n_init=3, random_state=0).fit_predict(rows))
        scores.append(adjusted_mutual_info_score(*labels))
    return float(np.mean(scores))


def _halves(
    groups: NDArray[Any], links: Any, directed: bool, rng: np.random.Generator
) -> list[tuple[Any, NDArray[np.int64]]]:
    """Two disjoint halves of the links, and of the features; those of no attribute go to both."""
    part = (links if directed else sp.triu(links)).tocoo()
    first = rng.random(part.nnz) < 0.5
    side = rng.permutation(int(groups.max()) + 1) % 2
    halves = []
    for h, chosen in enumerate((first, ~first)):
        at = (part.row[chosen], part.col[chosen])
        half = sp.csr_array((part.data[chosen], at), shape=part.shape)
        half = half if directed else (half + sp.triu(half, 1).T).tocsr()
        halves.append((half, np.flatnonzero((groups < 0) | (side[groups] == h))))
    return halves
