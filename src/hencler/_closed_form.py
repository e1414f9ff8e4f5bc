"""The default model: explicit and learned feature maps, wKSVD in closed form, a consensus.

The evidence (`_selection.py`) says which explicit views to cluster by (`_views.py`): one of the
attributes, the links themselves, or both. Beside a view of the attributes alone stand the learned
maps (`_learned.py`). Each pair of maps has its similarity S = Phi Psi' and its wKSVD. Clusters come
from a consensus of many runs over all of them (`_assign.py`).
"""

from __future__ import annotations

from itertools import product
from typing import Any, Self, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._assign import Consensus
from ._errors import ModelFileError
from ._graph import MANY_NODES, SAMPLED_NODES, Graph, check_ids, row_blocks, sampled_nodes
from ._learned import LearnedMaps
from ._links import known_links
from ._machine import Embedding, Machine
from ._order import restored
from ._prepare import Measurements, Preparation, Words, feature_rows, prepare
from ._progress import announce, steps
from ._selection import (
    ATTRIBUTE_REGULARIZATION,
    LINK_REGULARIZATION,
    choose_views,
    sampled_evidence,
)
from ._stability import Reassign
from ._state import checked
from ._views import FeatureMaps, View, damped, explicit_maps, restart_share

__all__ = ["ClosedFormModel"]

LEARNED_REGULARIZATION = 1.0

DIMENSIONS = (1.0, 1.5, 2.0, 3.0)
"""Dimensions that the members of the consensus see, in units of k."""

MAX_RUNS_LARGE = 4
"""KMeans runs per member of the consensus on large graphs, at most."""

LINK_POWERS = (0.5, 0.75, 1.0)
"""Rows of a link embedding are divided by these powers of their length, which is mostly the
degree. The middle one settles what the other two, where they disagree, would leave to chance."""


class ClosedFormModel:
    """Explicit view and learned maps, each with its wKSVD; no gradient, no epochs."""

    preparation: Preparation | None
    views: tuple[View, ...]
    evidence: dict[str, float]
    machines: list[Machine]  # one per view, then that of the learned maps if there are any
    learned: LearnedMaps | None
    scales: NDArray[np.float64] | None
    known_ids: NDArray[Any]

    def __init__(self, *, learn: bool = True, view: View | None = None) -> None:
        self.learn = learn
        self.forced_view = view

    # --- fitting -------------------------------------------------------------------------------

    def fit(
        self, graph: Graph, n_clusters: int, n_components: int | None, n_init: int, seed: int
    ) -> Self:
        k = n_clusters
        self.k, self.known_ids, self.n_attributes = k, graph.ids, graph.n_attributes
        self.s = min(n_components or max(2, round(DIMENSIONS[-1] * k)), graph.n_nodes)
        self.preparation = None if graph.x is None else prepare(graph.x)
        links = self._links(graph)
        self._choose(graph, links)
        self.learned = None
        small = graph.n_nodes <= SAMPLED_NODES
        if self.learn and small and self.preparation is not None and "links" not in self.views:
            self.learned = LearnedMaps().fit(
                self.preparation, graph.x, links, graph.directed, k, seed
            )
        self.machines, embeddings = [], []
        announce("preparing the maps")
        pairs = list(zip((*self.views, "learned"), self._maps(graph)))
        for view, maps in steps("weighted kernel SVD", pairs):
            if view == "links":
                machine = Machine().fit_links(links, self.s, LINK_REGULARIZATION)
            else:
                shift = LEARNED_REGULARIZATION if view == "learned" else ATTRIBUTE_REGULARIZATION
                machine = Machine().fit(*maps, self.s, shift)
            self.machines.append(machine)
            embeddings.append(machine.embed(*maps))
        del pairs, maps  # as large as the attributes, and no longer needed
        self.scales = None
        some = sampled_nodes(graph.n_nodes)
        rows = self._rows([z.take(some) for z in embeddings])
        runs = n_init if graph.n_nodes <= MANY_NODES else min(n_init, MAX_RUNS_LARGE)
        self.consensus = Consensus().fit(rows, runs, k, seed)
        self.fitted = (*_side_by_side(embeddings), self._assigned(embeddings))
        return self

    def take_fitted(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
        """e, r and clusters of the nodes fitted on; this model keeps no second hold of them."""
        fitted = self.fitted
        del self.fitted
        return fitted

    def restore_order(self, order: NDArray[np.int64], ids: NDArray[Any]) -> None:
        """Give all nodes the places they had, under `ids`, before they were put in `order`."""
        e, r, labels = (restored(z, order) for z in self.fitted)
        self.fitted, self.known_ids = (e, r, labels), ids
        if self.learned is not None:
            self.learned.links.restore_order(order)
        for view, machine in zip(self.views, self.machines):
            if view == "links":
                machine.restore_order(order)

    def _choose(self, graph: Graph, links: Any) -> None:
        self.evidence = {}
        if self.forced_view is not None:
            self.views = (self.forced_view,)
        elif self.preparation is None and links.nnz == 0:
            self.views = ("own",)  # constant attributes and no links: all nodes are the same
        else:
            attributes = groups = None
            if self.preparation is not None:
                attributes = sampled_evidence(self.preparation, graph.x, links)
                groups = self.preparation.groups
            self.views, self.evidence = choose_views(
                attributes, groups, links, self.k, graph.directed
            )

    def _links(self, graph: Graph) -> Any:
        """Damped links; self-loops count only where links are all there is."""
        return damped(graph.adjacency, loops=self.preparation is None)

    # --- use -----------------------------------------------------------------------------------

    def _maps(self, graph: Graph) -> list[FeatureMaps]:
        """phi and psi of a graph's nodes, for each view and the learned maps."""
        links = self._links(graph)
        known = None
        if "links" in self.views or self.learned is not None:
            required = "links" in self.views
            known = known_links(graph.with_links(links), self.known_ids, required=required)
        restart = restart_share(self.evidence.get("homophily"))
        features: Any = np.ones((graph.n_nodes, 1))
        if self.preparation is not None:
            features = feature_rows(self.preparation, graph.x)
        maps = [
            FeatureMaps(*known)
            if view == "links" and known is not None
            else explicit_maps(view, features, links, restart)
            for view in self.views
        ]
        if self.learned is not None and known is not None:
            maps.append(self.learned.maps(graph.x, links, known))
        return maps

    def _embeddings(self, graph: Graph) -> list[Embedding]:
        return [machine.embed(*maps) for machine, maps in zip(self.machines, self._maps(graph))]

    def _rows(self, embeddings: list[Embedding]) -> list[NDArray[Any]]:
        """What the members of the consensus see, one array of n rows per member."""
        sizes = self._sizes()
        link_rows = attribute_rows = None
        for view, embedding in zip(self.views, embeddings):
            if view == "links":
                walk = embedding.walk_rows(min(self.k, self.s))
                # Root of the mean square length of these rows over the nodes fitted on.
                length = np.sqrt(2 * (embedding.sigma[: self.k] ** 2).sum() / len(self.known_ids))
                link_rows = [_shortened(walk, power, length) for power in LINK_POWERS]
            else:
                attribute_rows = [embedding.walk_rows(s) for s in sizes]
        if attribute_rows is not None and link_rows is not None:
            return self._joined(attribute_rows, link_rows, product)
        rows = attribute_rows or link_rows or []
        if self.learned is None:
            return rows
        learned_rows = [embeddings[-1].flat_rows(s) for s in sizes]
        return [*rows, *learned_rows, *self._joined(rows, learned_rows, zip)]

    def _sizes(self) -> list[int]:
        """Dimensions that the members see, per embedding."""
        return sorted({min(self.s, max(1, int(f * self.k))) for f in DIMENSIONS})

    def _joined(
        self, first: list[NDArray[Any]], second: list[NDArray[Any]], pairs: Any
    ) -> list[NDArray[Any]]:
        """Two embeddings side by side, with the same variance in total over the nodes fitted on."""
        if self.scales is None:
            spreads = [float(z.var(axis=0).sum()) for z in (*first, *second)]
            self.scales = 1 / np.sqrt(np.maximum(spreads, np.finfo(float).tiny))
        scaled = [z * scale for z, scale in zip((*first, *second), self.scales)]
        return [np.hstack(pair) for pair in pairs(scaled[: len(first)], scaled[len(first) :])]

    def embed(self, graph: Graph) -> tuple[NDArray[Any], NDArray[Any]]:
        """e and r of all machines side by side, shape (n, s * machines) each."""
        return _side_by_side(self._embeddings(graph))

    def clusters(self, graph: Graph) -> NDArray[np.int64]:
        return self._assigned(self._embeddings(graph))

    def _assigned(self, embeddings: list[Embedding]) -> NDArray[np.int64]:
        """Clusters of nodes, some at a time."""
        n, width = len(embeddings[0].e), sum(self._widths())
        blocks = (self._rows([z.take(b) for z in embeddings]) for b in row_blocks(n, width))
        return np.concatenate([self.consensus.predict(rows) for rows in blocks])

    def reassigner(self, graph: Graph, n_init: int) -> Reassign:
        """Clusters of some of the graph's nodes by another seed, the embedding as it is."""
        embeddings = self._embeddings(graph)

        def again(nodes: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
            part = self._rows([z.take(nodes) for z in embeddings])
            return Consensus().fit(part, n_init, self.k, seed).predict(part)

        return again

    @property
    def singular_values(self) -> NDArray[Any]:
        return np.concatenate([machine.sigma for machine in self.machines])

    def similarity(self, graph: Graph, rows: Any, cols: Any) -> NDArray[Any]:
        """Block of S, the sum of the machines' similarities, each divided by its mean."""
        total: Any = 0.0
        n = graph.n_nodes
        for view, machine, maps in zip((*self.views, "learned"), self.machines, self._maps(graph)):
            if view == "links":
                links = self._links(graph)
                block, mean = links[rows][:, cols], links.sum() / n**2
            else:
                block = _rows_of(maps.phi, rows) @ _rows_of(maps.psi, cols).T
                mean = float(machine.phi_sum @ machine.psi_sum) / len(self.known_ids) ** 2
            block = block.toarray() if sp.issparse(block) else np.asarray(block)
            total = total + block / max(mean, np.finfo(float).tiny)
        return np.asarray(total)

    # --- files ---------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON header and arrays from which :meth:`from_state` makes the same model."""
        parts = {f"machine{i}": machine.state() for i, machine in enumerate(self.machines)}
        parts["consensus"] = self.consensus.state()
        if self.scales is not None:
            parts["joined"] = {"scales": self.scales}
        if self.preparation is not None:
            parts["preparation"] = self.preparation.state()
        if self.learned is not None:
            parts["learned"] = self.learned.state()
        header = {
            "kind": "closed form",
            "preparation": None if self.preparation is None else self.preparation.kind,
            "views": list(self.views),
            "evidence": self.evidence,
            "k": self.k,
            "s": self.s,
            "n_attributes": self.n_attributes,
            "known_ids": self.known_ids.tolist(),
        }
        arrays = {f"{part}.{k}": v for part, each in parts.items() for k, v in each.items()}
        return header, arrays

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        parts: dict[str, dict[str, NDArray[Any]]] = {}
        for name, value in arrays.items():
            part, _, key = name.partition(".")
            parts.setdefault(part, {})[key] = value
        self = cls()
        self._take(header)
        n, d = len(self.known_ids), self.n_attributes
        kinds: dict[str, type[Words] | type[Measurements]] = {
            kind.kind: kind for kind in (Words, Measurements)
        }
        self.preparation = self.learned = None
        if header["preparation"] is not None:
            self.preparation = kinds[header["preparation"]].from_state(parts["preparation"], d)
            if "learned" in parts and "links" not in self.views:
                self.learned = LearnedMaps.from_state(self.preparation, parts["learned"], n)
        self.scales = None
        if (joined := self._n_scales()) > 0:
            self.scales = checked(parts["joined"], {"scales": "m"}, {"m": joined})["scales"]
        own = 1 if self.preparation is None else len(self.preparation.groups)
        columns = [n if view == "links" else own for view in self.views]
        if self.learned is not None:
            columns.append(len(self.learned.shift_phi))
        self.machines = [
            Machine.from_state(parts[f"machine{i}"], c, self.s) for i, c in enumerate(columns)
        ]
        self.consensus = Consensus.from_state(parts["consensus"], self.k, self._widths())
        return self

    def _take(self, header: dict[str, Any]) -> None:
        """What the header of a file says, if it can be true."""
        self.views, self.evidence = tuple(header["views"]), dict(header["evidence"])
        self.k, self.s, self.n_attributes = header["k"], header["s"], header["n_attributes"]
        self.known_ids = check_ids(header["known_ids"], len(header["known_ids"]))
        views = len(set(self.views) & set(get_args(View)))
        count = views - ("links" in self.views)
        if not (
            header["kind"] == "closed form"
            and all(type(number) is int for number in (self.k, self.s, self.n_attributes))
            and min(self.k, self.s) >= 1
            and max(self.k, self.s) <= len(self.known_ids)
            and views == len(self.views) > 0
            and count <= 1
            and all(type(value) in (int, float) for value in self.evidence.values())
            and np.isfinite(list(self.evidence.values())).all()
            and abs(self.evidence.get("homophily", 0.0)) <= 1.001
        ):
            raise ModelFileError("the header is not that of a model")

    def _n_scales(self) -> int:
        """Number of embeddings that are put side by side."""
        if self.learned is not None:
            return 2 * len(self._sizes())
        return len(self._sizes()) + len(LINK_POWERS) if len(self.views) > 1 else 0

    def _widths(self) -> list[int]:
        """Columns of what the members of the consensus see."""
        attributes = [2 * s for s in self._sizes()]
        links = [2 * min(self.k, self.s)] * len(LINK_POWERS)
        if len(self.views) > 1:
            return [a + b for a, b in product(attributes, links)]
        if "links" in self.views:
            return links
        if self.learned is None:
            return attributes
        return [*attributes, *attributes, *(2 * a for a in attributes)]


def _side_by_side(embeddings: list[Embedding]) -> tuple[NDArray[Any], NDArray[Any]]:
    if len(embeddings) == 1:
        return embeddings[0].e, embeddings[0].r
    return np.hstack([z.e for z in embeddings]), np.hstack([z.r for z in embeddings])


def _shortened(rows: NDArray[Any], power: float, typical: float) -> NDArray[Any]:
    """Rows divided by a power of their length; those much shorter than typical stay short."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / (lengths + 1e-3 * typical + np.finfo(float).tiny) ** power


def _rows_of(features: Any, index: Any) -> Any:
    """Some rows of an array, a sparse matrix or an operator."""
    if hasattr(features, "rmatvec"):
        n = features.shape[0]
        picked = np.arange(n)[index]
        unit = sp.csr_array((np.ones(len(picked)), (picked, range(len(picked)))), (n, len(picked)))
        return (features.T @ unit.toarray()).T
    return features[index]
