"""The default model: explicit and learned feature maps, wKSVD in closed form, a consensus.

With attributes there are two pairs of maps, each with its similarity S = Phi Psi' and its wKSVD:
the explicit view that the evidence speaks for (`_selection.py`), and the learned maps
(`_learned.py`). Where there are no attributes, or where the evidence says that the links cluster
the nodes better than the attributes do, S = A alone. Clusters come from a consensus of many runs
over all of them (`_assign.py`).
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._assign import Consensus, Member
from ._graph import Graph
from ._learned import LearnedMaps
from ._links import known_links
from ._machine import Embedding, Machine
from ._prepare import Measurements, Preparation, Words, prepare
from ._selection import ATTRIBUTE_REGULARIZATION, LINK_REGULARIZATION, choose_view
from ._views import FeatureMaps, View, damped, explicit_maps

__all__ = ["ClosedFormModel"]

LEARNED_REGULARIZATION = 1.0

DIMENSIONS = (1.0, 1.5, 2.0, 3.0)
"""Dimensions that the members of the consensus see, in units of k."""

RUNS = 4
"""KMeans runs per dimension."""

LINK_POWERS, LINK_RUNS = (0.5, 1.0), 8
"""Rows of a link embedding are divided by these powers of their length, which is mostly the
degree; runs per power."""


class ClosedFormModel:
    """Explicit view and learned maps, each with its wKSVD; no gradient, no epochs."""

    preparation: Preparation | None
    explicit: Machine
    learned: LearnedMaps | None
    learned_machine: Machine | None
    view: View
    evidence: dict[str, float]
    known_ids: NDArray[Any]

    def __init__(self, *, learn: bool = True, view: View | None = None) -> None:
        self.learn = learn
        self.forced_view = view

    # --- fitting -------------------------------------------------------------------------------

    def fit(
        self, graph: Graph, n_clusters: int, n_components: int | None, n_init: int, seed: int
    ) -> Self:
        k = n_clusters
        self.k, self.directed, self.known_ids = k, graph.directed, graph.ids
        self.preparation = None if graph.x is None else prepare(graph.x)
        features = groups = None
        if self.preparation is not None:
            features, groups = self.preparation.features(graph.x), self.preparation.groups
        links = self._links(graph)
        if features is None and links.nnz == 0:
            # Constant attributes and no links: all nodes are one and the same.
            features, groups = np.ones((graph.n_nodes, 1)), np.zeros(1, dtype=np.int64)
        if self.forced_view is None:
            self.view, self.evidence = choose_view(features, groups, links, k, graph.directed)
        else:
            self.view, self.evidence = self.forced_view, {}
        s = n_components or max(2, round(DIMENSIONS[-1] * k))
        self.s = min(s, graph.n_nodes)
        if self.view == "links":
            self.explicit = Machine().fit_links(links, self.s, LINK_REGULARIZATION)
        else:
            maps = explicit_maps(self.view, features, links)
            self.explicit = Machine().fit(*maps, self.s, ATTRIBUTE_REGULARIZATION)
        self.learned = self.learned_machine = None
        if self.learn and self.preparation is not None and self.view != "links":
            self.learned = LearnedMaps().fit(
                self.preparation, graph.x, links, graph.directed, k, seed
            )
            maps = self.learned.maps(
                graph.x, links, known_links(graph.with_links(links), graph.ids)
            )
            self.learned_machine = Machine().fit(*maps, self.s, LEARNED_REGULARIZATION)
        embeddings = self._embeddings(graph)
        rows = self._rows(embeddings)
        runs = [LINK_RUNS if self.view == "links" else RUNS] * self._n_explicit
        runs += [RUNS] * (len(rows) - len(runs))
        members = [Member(z, r) for z, r in zip(rows, runs)]
        self.consensus = Consensus().fit(members, k, n_init, seed)
        return self

    def _links(self, graph: Graph) -> Any:
        """Damped links; self-loops count only where links are all there is."""
        return damped(graph.adjacency, loops=self.preparation is None)

    # --- use -----------------------------------------------------------------------------------

    def _maps(self, graph: Graph) -> list[tuple[Machine, FeatureMaps]]:
        """The machines with the feature maps they were fitted on, for a graph's nodes."""
        links = self._links(graph)
        known = known_links(graph.with_links(links), self.known_ids) if self._needs_links else None
        if self.view == "links":
            assert known is not None
            explicit = FeatureMaps(*known)
        elif self.preparation is None:
            ones = np.ones((graph.n_nodes, 1))
            explicit = FeatureMaps(ones, ones)
        else:
            explicit = explicit_maps(self.view, self.preparation.features(graph.x), links)
        both = [(self.explicit, explicit)]
        if self.learned is not None and self.learned_machine is not None:
            assert known is not None
            both.append((self.learned_machine, self.learned.maps(graph.x, links, known)))
        return both

    @property
    def _needs_links(self) -> bool:
        return self.view == "links" or self.learned is not None

    def _embeddings(self, graph: Graph) -> list[Embedding]:
        return [machine.embed(*maps) for machine, maps in self._maps(graph)]

    @property
    def _n_explicit(self) -> int:
        return len(LINK_POWERS) if self.view == "links" else len(self._sizes)

    @property
    def _sizes(self) -> list[int]:
        sizes = {min(self.s, max(1, int(f * self.k))) for f in DIMENSIONS}
        return sorted(sizes)

    def _rows(self, embeddings: list[Embedding]) -> list[NDArray[Any]]:
        """What the members of the consensus see, one array of n rows per member."""
        explicit = embeddings[0]
        if self.view == "links":
            walk = explicit.walk_rows(min(self.k, self.s))
            rows = [_shortened(walk, power) for power in LINK_POWERS]
        else:
            rows = [explicit.walk_rows(s) for s in self._sizes]
        return rows + [learned.flat_rows(s) for learned in embeddings[1:] for s in self._sizes]

    def embed(self, graph: Graph) -> tuple[NDArray[Any], NDArray[Any]]:
        """e and r of all machines side by side, shape (n, s) or (n, 2 s) each."""
        embeddings = self._embeddings(graph)
        return np.hstack([z.e for z in embeddings]), np.hstack([z.r for z in embeddings])

    def clusters(self, graph: Graph) -> NDArray[np.int64]:
        return self.consensus.predict(self._rows(self._embeddings(graph)))

    @property
    def singular_values(self) -> NDArray[Any]:
        machines = [self.explicit, self.learned_machine]
        return np.concatenate([m.sigma for m in machines if m is not None])

    def similarity(self, graph: Graph, rows: Any, cols: Any) -> NDArray[Any]:
        """Block of S, the sum of the machines' similarities, each divided by its mean."""
        total: Any = 0.0
        n = graph.n_nodes
        for machine, maps in self._maps(graph):
            if machine is self.explicit and self.view == "links":
                links = self._links(graph)
                block, mean = links[rows][:, cols], links.sum() / n**2
            else:
                block = _rows_of(maps.phi, rows) @ _rows_of(maps.psi, cols).T
                mean = float(machine.phi_sum @ machine.psi_sum) / n**2
            block = block.toarray() if sp.issparse(block) else np.asarray(block)
            total = total + block / max(mean, np.finfo(float).tiny)
        return np.asarray(total)

    # --- files ---------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON header and arrays from which :meth:`from_state` makes the same model."""
        parts: dict[str, dict[str, NDArray[Any]]] = {
            "explicit": self.explicit.state(),
            "consensus": self.consensus.state(),
        }
        if self.preparation is not None:
            parts["preparation"] = self.preparation.state()
        if self.learned is not None and self.learned_machine is not None:
            parts["learned"] = self.learned.state()
            parts["learned_machine"] = self.learned_machine.state()
        header = {
            "kind": "closed form",
            "preparation": None if self.preparation is None else self.preparation.kind,
            "view": self.view,
            "evidence": self.evidence,
            "k": self.k,
            "s": self.s,
            "directed": self.directed,
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
        self.view, self.evidence = header["view"], header["evidence"]
        self.k, self.s, self.directed = header["k"], header["s"], header["directed"]
        self.known_ids = np.array(header["known_ids"])
        kinds: dict[str, type[Words] | type[Measurements]] = {
            kind.kind: kind for kind in (Words, Measurements)
        }
        self.preparation = None
        if header["preparation"] is not None:
            self.preparation = kinds[header["preparation"]].from_state(parts["preparation"])
        self.explicit = Machine.from_state(parts["explicit"])
        self.consensus = Consensus.from_state(parts["consensus"])
        self.learned = self.learned_machine = None
        if self.preparation is not None and "learned" in parts:
            self.learned = LearnedMaps.from_state(self.preparation, parts["learned"])
            self.learned_machine = Machine.from_state(parts["learned_machine"])
        return self


def _shortened(rows: NDArray[Any], power: float) -> NDArray[Any]:
    """Rows divided by a power of their length."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    floor = 1e-3 * lengths.mean() + np.finfo(float).tiny
    return rows / (lengths + floor) ** power


def _rows_of(features: Any, index: Any) -> Any:
    """Some rows of an array, a sparse matrix or an operator."""
    if hasattr(features, "rmatvec"):
        n = features.shape[0]
        picked = np.arange(n)[index]
        unit = sp.csr_array((np.ones(len(picked)), (picked, range(len(picked)))), (n, len(picked)))
        return (features.T @ unit.toarray()).T
    return features[index]
