import numpy as np
import pytest
from threadpoolctl import threadpool_info

from hencler import Graph
from hencler._base import Epoch, GraphClusterer, few_threads
from hencler._errors import ParameterError


def most_threads():
    return max(pool["num_threads"] for pool in threadpool_info())


def test_small_graphs_get_one_thread_and_give_it_back():
    before = most_threads()
    with few_threads(100):
        assert most_threads() == 1
    assert most_threads() == before
    with few_threads(1_000_000):
        assert most_threads() == before


class Parity(GraphClusterer):
    _parameter_constraints = {"n_clusters": [int], "random_state": ["random_state"]}  # noqa: RUF012

    def __init__(self, n_clusters=2, random_state=None):
        self.n_clusters = n_clusters
        self.random_state = random_state

    def _fit(self, graph):
        assert graph.y is None  # labels are cut off before any method sees the graph
        self.labels_ = np.arange(graph.n_nodes) % self.n_clusters


def test_labels_never_reach_a_method():
    graph = Graph(np.eye(4), y=[0, 1, 2, 3])
    np.testing.assert_array_equal(Parity().fit_predict(graph, y=graph.y), [0, 1, 0, 1])
    np.testing.assert_array_equal(graph.y, [0, 1, 2, 3])


def test_more_clusters_than_nodes_are_refused():
    with pytest.raises(ParameterError, match="at most 4"):
        Parity(5).fit(Graph(np.eye(4)))


def test_no_seed_is_a_fresh_seed_and_leaves_numpy_alone():
    assert Parity()._seed() != Parity()._seed()
    assert Parity(random_state=3)._seed() == Parity(random_state=3)._seed()


def test_an_epoch_computes_labels_only_when_asked():
    epoch = Epoch(1, 2, {"loss": 0.5}, lambda: 1 / 0)
    assert "labels" not in repr(epoch)
    with pytest.raises(ZeroDivisionError):
        epoch.labels()
