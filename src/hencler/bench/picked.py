"""What the paper's protocol alone is worth: restarts of KMeans for the labels to pick from."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.utils._param_validation import Interval

from .._base import Callback, Epoch, GraphClusterer
from .._graph import Graph
from ..baselines._training import attributes_or_links
from ..baselines.kmeans import _with_short_indices

__all__ = ["RestartedKMeans"]


class RestartedKMeans(GraphClusterer):
    """KMeans on the attributes as they are, from one start after another; the last one counts.

    Nothing is learned from one start to the next. So the best of them by labels, against the
    mean of them, is the gain of a protocol that lets the labels pick one of so many results.

    Parameters
    ----------
    n_clusters : int
    epochs : int
        Starts, as many as the trained methods have epochs.
    callback : callable, optional
        Called after each start with an :class:`~hencler._base.Epoch`.
    random_state : int, RandomState or None
    """

    _parameter_constraints = {  # noqa: RUF012
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "epochs": [Interval(Integral, 1, None, closed="left")],
        "callback": [callable, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epochs: int = 300,
        callback: Callback | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epochs = epochs
        self.callback = callback
        self.random_state = random_state

    def _fit(self, graph: Graph) -> None:
        seed = self._seed()
        x = _with_short_indices(attributes_or_links(graph, seed))
        draws = np.random.SeedSequence(seed).generate_state(self.epochs).tolist()
        for number, draw in enumerate(draws, start=1):
            machine = KMeans(self.n_clusters, n_init=1, random_state=draw).fit(x)
            self.labels_ = machine.labels_.astype(np.int64)
            if self.callback is not None:
                losses = {"inertia": float(machine.inertia_)}
                self.callback(Epoch(number, self.epochs, losses, lambda: self.labels_))
