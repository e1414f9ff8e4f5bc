"""From embeddings to clusters, for the nodes they were fitted on and for others."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin

from ._errors import HenclerWarning, ModelFileError
from ._graph import MANY_NODES
from ._progress import announce, steps
from ._state import checked

__all__ = ["Consensus", "KMeansAssigner", "mutual_agreement"]

STARTS = 3
"""Starts of each run of a consensus on small graphs; one on large ones."""


class KMeansAssigner:
    """KMeans with several starts; a node belongs to the nearest centre.

    Attributes
    ----------
    centres : array of shape (k, p)
    """

    centres: NDArray[np.float64]

    def fit(self, embedding: NDArray[Any], n_clusters: int, n_init: int, seed: int) -> Self:
        announce("KMeans")
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


class Consensus:
    r"""Many KMeans runs, in different scalings and dimensions; the one most like all the others.

    The answer is the run with the largest mean normalised mutual information with all runs, the
    medoid of the clusterings. The mean score over seeds changes little by it, the spread a lot.
    Since it is one of the runs, a new node belongs to that run's nearest centre. Of a large graph
    the runs see a sample of the nodes, and only the answer sees all.

    Attributes
    ----------
    centres : for each member an array of shape (runs, k, p)
    chosen : member and run of the answer
    agreement : mean agreement of the chosen run with the others, between 0 and 1
    """

    centres: list[NDArray[np.float64]]
    chosen: tuple[int, int]
    agreement: float

    def fit(self, rows: Sequence[NDArray[Any]], n_runs: int, n_clusters: int, seed: int) -> Self:
        """`rows`: what each member sees, arrays of n rows; `n_runs`: KMeans runs of each."""
        n = len(rows[0])
        starts = STARTS if n <= MANY_NODES else 1
        some = np.linspace(0, n, min(n, MANY_NODES), endpoint=False).astype(np.int64)
        seen = [z[some] for z in rows]
        seeds = np.random.SeedSequence(seed).generate_state(len(rows) * n_runs)
        jobs = list(enumerate(seeds.tolist()))
        found = [
            _centres(seen[i // n_runs], n_clusters, starts, draw)
            for i, draw in steps("KMeans runs", jobs)
        ]
        self.centres = [np.stack(found[i : i + n_runs]) for i in range(0, len(found), n_runs)]
        agreements = mutual_agreement(self.runs(seen), n_clusters)
        best = int(agreements.mean(axis=1).argmax())
        others = max(len(agreements) - 1, 1)
        self.agreement = float((agreements[best].sum() - 1) / others)
        member, run = self.chosen = (best // n_runs, best % n_runs)
        if len(some) < n:
            self.centres[member][run] = _settled(rows[member], self.centres[member][run])
        _warn_if_empty(self.predict(rows), n_clusters)
        return self

    def runs(self, rows: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        """Clusters in every run, from the members' rows, shape (runs in all, n)."""
        return np.stack(
            [_nearest(z, centres) for z, runs in zip(rows, self.centres) for centres in runs]
        )

    def predict(self, rows: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        """Clusters of nodes, from the members' rows, shape (n,)."""
        member, run = self.chosen
        return _nearest(rows[member], self.centres[member][run])

    def state(self) -> dict[str, NDArray[Any]]:
        arrays = {f"members.{i}": runs for i, runs in enumerate(self.centres)}
        return arrays | {"chosen": np.array(self.chosen), "agreement": np.array([self.agreement])}

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
        n_runs = None
        for i, p in enumerate(widths):
            name = f"members.{i}"
            runs = checked(state, {name: "rkp"}, {"r": n_runs, "k": k, "p": p})[name]
            self.centres.append(runs)
            n_runs, k = runs.shape[:2]
        shapes = {"chosen": "2", "agreement": "1"}
        rest = checked(state, shapes, {"1": 1, "2": 2}, integers=("chosen",))
        member, run = (int(i) for i in rest["chosen"])
        if not (0 <= member < len(self.centres) and 0 <= run < len(self.centres[member])):
            raise ModelFileError("the chosen run of the consensus does not exist")
        self.chosen, self.agreement = (member, run), float(rest["agreement"][0])
        return self


def mutual_agreement(runs: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    r"""Normalised mutual information of clusterings with each other, shape (m, m).

    Contingency tables of all pairs at once: with the 0/1 indicators Z, n by m k, they are the
    blocks of Z'Z. :math:`2 I(a, b) / (H(a) + H(b))`; clusterings with one cluster agree fully
    with each other and not at all with others.

    Parameters
    ----------
    runs : array of shape (m, n) with entries 0 ... k - 1
    """
    m, n = runs.shape
    columns = (runs + k * np.arange(m)[:, None]).T.ravel()
    z = sp.csr_array((np.ones(m * n), columns, np.arange(0, m * n + 1, m)), shape=(n, m * k))
    joint = (z.T @ z).toarray() / n
    share = np.diag(joint)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(joint > 0, joint * np.log(joint / np.outer(share, share)), 0.0)
        entropy = -np.where(share > 0, share * np.log(share), 0.0).reshape(m, k).sum(axis=1)
    information = terms.reshape(m, k, m, k).sum(axis=(1, 3))
    total = entropy[:, None] + entropy
    return np.divide(2 * information, total, out=np.ones_like(total), where=total > 0)


def _centres(rows: NDArray[Any], k: int, n_init: int, seed: int) -> NDArray[np.float64]:
    z = np.ascontiguousarray(rows, dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KMeans(k, n_init=n_init, random_state=seed).fit(z).cluster_centers_


def _settled(rows: NDArray[Any], centres: NDArray[Any]) -> NDArray[np.float64]:
    """Centres found on a part of the rows, moved to where all rows have them."""
    z = np.ascontiguousarray(rows, dtype=np.float64)
    return KMeans(len(centres), init=centres, n_init=1).fit(z).cluster_centers_


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
