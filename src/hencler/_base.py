"""The estimator face that HeNCler and every baseline share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import InvalidParameterError, StrOptions
from threadpoolctl import threadpool_limits

from ._errors import ParameterError, did_you_mean
from ._graph import MANY_NODES, Graph, as_graph

__all__ = ["Callback", "Epoch", "GraphClusterer", "few_threads"]


@contextmanager
def few_threads(n: int) -> Iterator[None]:
    """One thread for the linear algebra of small graphs.

    Thousands of parallel sections of a few microseconds each wait for one another, many times
    longer than they work as soon as another program wants one of the cores.
    """
    with threadpool_limits(1) if n <= MANY_NODES else nullcontext():
        yield


@dataclass(frozen=True)
class Epoch:
    """What a callback is told after each epoch of training.

    Attributes
    ----------
    number, total : int
        Epochs done (from 1) and epochs asked for.
    losses : mapping of str to float
    labels : callable without arguments
        The clusters as they would be if training ended here; computed only when called.
    """

    number: int
    total: int
    losses: Mapping[str, float]
    labels: Callable[[], NDArray[np.int64]] = field(repr=False)


Callback = Callable[[Epoch], None]


class GraphClusterer(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Base of all clusterers of graph nodes.

    Subclasses set ``_parameter_constraints`` and implement ``_fit(graph)``, which must set
    ``labels_``. Labels of the graph are cut off before ``_fit`` sees it.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    labels_: NDArray[np.int64]
    n_clusters: Any
    random_state: Any

    def fit(self, X: Any, y: Any = None, *, edges: Any = None) -> Self:
        """Cluster the nodes of a graph.

        Parameters
        ----------
        X : Graph, PyG ``Data``, networkx graph, or attributes of shape (n, d)
        y : ignored
        edges : matrix (n, n) or integer array (2, E), beside attributes only
        """
        self._check_parameters()
        graph = as_graph(X, edges).without_labels()
        self._check_n_clusters(graph.n_nodes)
        # Methods with a device are torch's, whose steps are large enough for its threads.
        with nullcontext() if hasattr(self, "device") else few_threads(graph.n_nodes):
            self._fit(graph)
        return self

    def fit_predict(self, X: Any, y: Any = None, *, edges: Any = None) -> NDArray[np.int64]:
        """Cluster the nodes and return their clusters, shape (n,)."""
        return self.fit(X, edges=edges).labels_

    def _fit(self, graph: Graph) -> None:
        raise NotImplementedError

    def _check_parameters(self) -> None:
        try:
            self._validate_params()
        except InvalidParameterError as error:
            raise ParameterError(str(error).rstrip("."), remedy=self._meant()) from error

    def _meant(self) -> str | None:
        """The closest allowed value of the first parameter whose name is none of them."""
        for name, constraints in self._parameter_constraints.items():
            value = getattr(self, name)
            known = {o for c in constraints if isinstance(c, StrOptions) for o in c.options}
            if known and isinstance(value, str) and value not in known:
                return did_you_mean(value, sorted(known))
        return None

    def _check_n_clusters(self, n: int) -> None:
        if isinstance(self.n_clusters, int | np.integer) and self.n_clusters > n:
            raise ParameterError(
                f"n_clusters={self.n_clusters} is more than n_samples={n}, the number of nodes",
                remedy=f"Ask for at most {n} clusters",
            )

    def _seed(self) -> int:
        """One integer that stands for ``random_state``; with None a fresh one.

        Unlike scikit-learn's, None does not draw from NumPy's global generator: no fit reads or
        changes global state.
        """
        if self.random_state is None:
            return int(np.random.SeedSequence().generate_state(1)[0] >> 1)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
