"""Restarts of KMeans for the labels to pick from."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from hencler import make_heterophilous_graph
from hencler.bench.picked import RestartedKMeans


@pytest.fixture
def graph():
    return make_heterophilous_graph(80, 4, n_attributes=8, random_state=0)


def test_the_last_start_counts_and_each_is_a_plain_kmeans(graph):
    seen = []
    model = RestartedKMeans(
        4, epochs=5, random_state=0, callback=lambda e: seen.append((e.losses, e.labels()))
    ).fit(graph)
    assert len(seen) == 5
    np.testing.assert_array_equal(model.labels_, seen[-1][1])
    for losses, labels in seen:
        # A fixed point of Lloyd's steps: one more step from its centres changes nothing.
        centres = np.stack([graph.x[labels == c].mean(axis=0) for c in range(4)])
        again = KMeans(4, init=centres, n_init=1, max_iter=1).fit(graph.x)
        assert losses["inertia"] == pytest.approx(again.inertia_, rel=1e-3)


def test_starts_differ_and_can_be_repeated(graph):
    def starts(seed):
        seen = []
        RestartedKMeans(
            4, epochs=4, random_state=seed, callback=lambda e: seen.append(e.losses["inertia"])
        ).fit(graph)
        return seen

    assert starts(0) == starts(0)
    assert len(set(starts(0))) > 1
