"""From embeddings to clusters, for the nodes they were fitted on and for others."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin

from ._errors import HenclerWarning
from ._graph import MANY_NODES
from ._machine import Machine
from ._state import checked

__all__ = ["Consensus", "KMeansAssigner", "Member"]


class KMeansAssigner:
    """KMeans with several starts; a node belongs to the nearest centre.

    Attributes
    ----------
    centres : array of shape (k, p)
    """

    centres: NDArray[np.float64]

    def fit(self, embedding: NDArray[Any], n_clusters: int, n_init: int, seed: int) -> Self:
        self.centres = _centres(embedding, n_clusters, n_init, seed)
        _warn_if_empty(self.predict(embedding), n_clusters)
        return self

    def predict(self, embedding: NDArray[Any]) -> NDArray[np.int64]:
        return _nearest(embedding, self.centres)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"centres": self.centres}

    @classmethod
    def from_state(
        cls, state: dict[str, NDArray[Any]], k: int | None = None, p: int | None = None
    ) -> Self:
        """`k`: number of centres, `p`: columns of the embedding, where they are known."""
        self = cls()
        self.centres = checked(state, {"centres": "kp"}, {"k": k, "p": p})["centres"]
        return self


class Member(NamedTuple):
    """Rows that some KMeans runs of a consensus see, shape (n, p), and how many runs."""

    rows: NDArray[Any]
    runs: int


class Consensus:
    r"""Many KMeans runs, in different scalings and dimensions, brought to one answer.

    Each run says for each node which of its k clusters the node is in. These indicators are the
    features of one more wKSVD, :math:`\phi = \psi`, whose k leading dimensions are what the runs
    agree on; KMeans in them gives the clusters. The mean over runs changes little, the spread
    over seeds a lot. All steps apply to new nodes as well.
    """

    def fit(self, members: Sequence[Member], n_clusters: int, n_init: int, seed: int) -> Self:
        seeds = np.random.SeedSequence(seed).generate_state(1 + sum(m.runs for m in members))
        draws = iter(seeds.tolist())
        quick = 3 if len(members[0].rows) <= MANY_NODES else 1
        self.centres = [
            [_centres(member.rows, n_clusters, quick, next(draws)) for _ in range(member.runs)]
            for member in members
        ]
        indicators = self._indicators([member.rows for member in members])
        self.machine = Machine().fit(indicators, indicators, n_clusters, 0.0)
        embedding = self.machine.embed(indicators, indicators).e
        self.final = KMeansAssigner().fit(embedding, n_clusters, n_init, next(draws))
        return self

    def _indicators(self, rows: Sequence[NDArray[Any]]) -> Any:
        """Nodes by clusters of all runs, CSR (n, k * runs)."""
        n = len(rows[0])
        blocks = [
            sp.csr_array(
                (np.ones(n), (np.arange(n), _nearest(z, centres))), shape=(n, len(centres))
            )
            for z, runs in zip(rows, self.centres)
            for centres in runs
        ]
        return sp.hstack(blocks).tocsr()

    def predict(self, rows: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        """Clusters of nodes, from the same members' rows, shape (n,)."""
        indicators = self._indicators(rows)
        return self.final.predict(self.machine.embed(indicators, indicators).e)

    def state(self) -> dict[str, NDArray[Any]]:
        arrays = {f"members.{i}": np.stack(runs) for i, runs in enumerate(self.centres)}
        arrays |= {f"machine.{k}": v for k, v in self.machine.state().items()}
        return arrays | {f"final.{k}": v for k, v in self.final.state().items()}

    @classmethod
    def from_state(
        cls,
        state: dict[str, NDArray[Any]],
        k: int | None = None,
        widths: Sequence[int | None] | None = None,
    ) -> Self:
        """`k`: clusters, `widths`: columns of each member's rows, where they are known."""
        self = cls()
        if widths is None:
            widths = [None] * sum(name.startswith("members.") for name in state)
        self.centres = []
        for i, p in enumerate(widths):
            name = f"members.{i}"
            runs = checked(state, {name: "rkp"}, {"k": k, "p": p})[name]
            self.centres.append(list(runs))
            k = runs.shape[1]
        parts: dict[str, dict[str, NDArray[Any]]] = {"machine": {}, "final": {}}
        for name, value in state.items():
            part, _, key = name.partition(".")
            if part in parts:
                parts[part][key] = value
        columns = sum(len(centres) for runs in self.centres for centres in runs)
        self.machine = Machine.from_state(parts["machine"], columns, k)
        self.final = KMeansAssigner.from_state(parts["final"], k, k)
        return self


def _centres(rows: NDArray[Any], k: int, n_init: int, seed: int) -> NDArray[np.float64]:
    z = np.ascontiguousarray(rows, dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KMeans(k, n_init=n_init, random_state=seed).fit(z).cluster_centers_


def _nearest(rows: NDArray[Any], centres: NDArray[Any]) -> NDArray[np.int64]:
    z = np.ascontiguousarray(rows, dtype=np.float64)
    return pairwise_distances_argmin(z, centres).astype(np.int64)


def _warn_if_empty(labels: NDArray[Any], n_clusters: int) -> None:
    found = len(np.unique(labels))
    if found < n_clusters:
        warnings.warn(
            f"only {found} of the {n_clusters} clusters asked for are not empty: too few nodes "
            "differ from each other",
            HenclerWarning,
            stacklevel=3,
        )
