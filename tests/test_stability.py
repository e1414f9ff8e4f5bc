"""Clusters over seeds, against scikit-learn's Jaccard and adjusted Rand index."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score, jaccard_score

from hencler import HeNCler, make_heterophilous_graph
from hencler._errors import GraphError, ParameterError
from hencler._stability import compare


def test_the_same_clusters_under_other_names_are_stable():
    labels = np.arange(30) % 3
    stable = compare(labels, 3, np.arange(30), [(labels + shift) % 3 for shift in range(3)])
    assert_array_equal(stable.clusters, np.ones(3))
    assert_array_equal(stable.nodes, np.ones(30))
    assert stable.agreement == pytest.approx(1)


def test_numbers_are_scikit_learns(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    labels, nodes = rng.integers(4, size=60), np.sort(rng.choice(60, 40, replace=False))
    runs = [rng.integers(4, size=40) for _ in range(3)]
    stable = compare(labels, 4, nodes, runs)
    found = labels[nodes]
    best = [
        np.mean([max(jaccard_score(found == c, run == d) for d in range(4)) for run in runs])
        for c in range(4)
    ]
    assert_allclose(stable.clusters, best)
    assert stable.agreement == pytest.approx(
        np.mean([adjusted_rand_score(found, run) for run in runs])
    )
    assert_array_equal(np.isnan(stable.nodes), ~np.isin(np.arange(60), nodes))


def test_a_node_that_changes_sides_is_found():
    labels = np.repeat([0, 1], 10)
    moved = labels.copy()
    moved[3] = 1
    stable = compare(labels, 2, np.arange(20), [moved, 1 - moved, labels, labels])
    assert stable.nodes[3] == 0.5
    assert_array_equal(np.delete(stable.nodes, 3), np.ones(19))


def test_fewer_clusters_in_a_run():
    labels = np.arange(9) % 3
    stable = compare(labels, 3, np.arange(9), [np.zeros(9, dtype=int)])
    assert_allclose(stable.clusters, [1 / 3] * 3)
    assert stable.nodes.sum() == 3


@pytest.mark.parametrize("settings", [{}, {"preset": "paper", "epochs": 3}])
def test_of_a_model(settings, tmp_path):
    graph = make_heterophilous_graph(80, 4, random_state=0)
    model = HeNCler(4, n_init=2, random_state=0, **settings).fit(graph)
    stable = model.stability(n_runs=2)
    assert stable.clusters.shape == (4,)
    assert ((stable.nodes >= 0) & (stable.nodes <= 1)).all()
    if not settings:
        assert stable.agreement > 0.9
    again = model.stability(n_runs=2)
    assert_array_equal(again.nodes, stable.nodes)
    model.save(tmp_path / "model")
    loaded = HeNCler.load(tmp_path / "model", device="cpu")
    assert_array_equal(loaded.stability(graph=graph, n_runs=2).nodes, stable.nodes)
    sampled = model.stability(n_runs=1, max_nodes=40)
    assert 30 <= (~np.isnan(sampled.nodes)).sum() <= 40
    with pytest.raises(GraphError, match="Pass the graph"):
        loaded.stability()
    with pytest.raises(ParameterError, match="80 nodes"):
        model.stability(n_runs=0)
