"""From the embedding [e | r] to clusters, for the nodes it was fitted on and for others."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin

from ._errors import HenclerWarning

__all__ = ["KMeansAssigner"]


class KMeansAssigner:
    """KMeans with several starts; a node belongs to the nearest centre.

    Attributes
    ----------
    centres : array of shape (k, p)
    """

    centres: NDArray[np.float64]

    def fit(self, embedding: NDArray[Any], n_clusters: int, n_init: int, seed: int) -> Self:
        z = np.ascontiguousarray(embedding, dtype=np.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            kmeans = KMeans(n_clusters, n_init=n_init, random_state=seed).fit(z)
        self.centres = kmeans.cluster_centers_
        found = len(np.unique(kmeans.labels_))
        if found < n_clusters:
            warnings.warn(
                f"only {found} of the {n_clusters} clusters asked for are not empty, since the "
                f"nodes have only {found} distinct embeddings",
                HenclerWarning,
                stacklevel=2,
            )
        return self

    def predict(self, embedding: NDArray[Any]) -> NDArray[np.int64]:
        z = np.ascontiguousarray(embedding, dtype=np.float64)
        return pairwise_distances_argmin(z, self.centres).astype(np.int64)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"centres": self.centres}

    @classmethod
    def from_state(cls, state: dict[str, NDArray[Any]]) -> Self:
        self = cls()
        self.centres = state["centres"]
        return self
