"""How stable clusters are: found again with other seeds, and compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ._errors import HenclerWarning
from ._progress import listening, steps
from .metrics import adjusted_rand_index

__all__ = ["Reassign", "Stability", "compare", "repeat"]

Reassign = Callable[[NDArray[np.int64], int], NDArray[np.int64]]
"""From the positions of some nodes and a seed to their clusters, found anew."""


class Stability(NamedTuple):
    r"""Agreement of clusters with those of several runs by other seeds.

    Attributes
    ----------
    clusters : array of shape (k,)
        Mean over the runs of the largest Jaccard similarity :math:`|C \cap D| / |C \cup D|` that
        the cluster C has with a cluster D of the run. 1: it comes back as it is every time. Hennig
        (2007) takes 0.75 and more as stable, and below 0.5 as dissolved.
    nodes : array of shape (n,)
        Share of the runs in which the node is in the cluster that is matched with its own, by the
        matching of all clusters that most nodes agree with. NaN for nodes that were not drawn.
    agreement : float
        Mean adjusted Rand index of the runs with the clusters found.
    """

    clusters: NDArray[np.float64]
    nodes: NDArray[np.float64]
    agreement: float


def repeat(reassign: Reassign, nodes: NDArray[np.int64], n_runs: int) -> list[NDArray[np.int64]]:
    """Clusters of `nodes` by n_runs seeds, always the same ones."""
    seeds = np.random.SeedSequence(n_runs).generate_state(n_runs).tolist()
    runs = []
    for seed in steps("clustering again with other seeds", seeds):
        with warnings.catch_warnings(), listening(None):
            warnings.simplefilter("ignore", HenclerWarning)
            runs.append(reassign(nodes, seed))
    return runs


def compare(
    labels: NDArray[Any], k: int, nodes: NDArray[np.int64], runs: list[NDArray[np.int64]]
) -> Stability:
    """Compare `labels`, shape (n,) in 0 ... k - 1, with runs that clustered `nodes` of them."""
    found = np.asarray(labels)[nodes]
    jaccard, kept = np.full((len(runs), k), np.nan), np.zeros(len(nodes))
    for i, run in enumerate(runs):
        table = np.zeros((k, int(run.max()) + 1), dtype=np.int64)
        np.add.at(table, (found, run), 1)
        sizes = table.sum(axis=1)
        union = sizes[:, None] + table.sum(axis=0) - table
        jaccard[i] = np.where(sizes > 0, (table / np.maximum(union, 1)).max(axis=1), np.nan)
        mine, theirs = linear_sum_assignment(table, maximize=True)
        partner = np.full(k, -1)
        partner[mine] = theirs
        kept += partner[found] == run
    shares = np.full(len(labels), np.nan)
    shares[nodes] = kept / len(runs)
    agreement = float(np.mean([adjusted_rand_index(run, found) for run in runs]))
    return Stability(jaccard.mean(axis=0), shares, agreement)
