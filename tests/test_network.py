import numpy as np
import pytest

from hencler import Graph, HeNCler, make_heterophilous_graph
from hencler import _network as network


@pytest.fixture
def graph():
    return make_heterophilous_graph(400, n_attributes=8, random_state=0)


def test_large_graphs_are_trained_in_batches():
    assert network.default_batch_size(network.FULL_BATCH_NODES) is None
    assert network.default_batch_size(network.FULL_BATCH_NODES + 1) == network.LARGE_BATCH


def test_the_fit_keeps_what_predict_and_transform_give(graph):
    model = HeNCler(4, preset="paper", epochs=3, batch_size=100, random_state=0).fit(graph)
    assert np.array_equal(model.predict(graph), model.labels_)
    assert np.allclose(model.transform(graph), np.hstack([model.e_, model.r_]), atol=1e-6)


def test_centres_from_a_sample_are_nearly_as_good(graph, monkeypatch):
    def spread():
        model = HeNCler(4, preset="paper", epochs=20, random_state=0).fit(graph)
        z = np.hstack([model.e_, model.r_])
        return sum(z[model.labels_ == k].var(axis=0).sum() * np.mean(model.labels_ == k)
                   for k in range(4))  # fmt: skip

    everything = spread()
    monkeypatch.setattr(network, "KMEANS_NODES", 200)
    assert everything <= spread() * 1.001
    assert spread() < 1.1 * everything


def test_nodes_are_assigned_in_blocks(graph, monkeypatch):
    def labels():
        return HeNCler(4, preset="paper", epochs=2, random_state=0).fit_predict(graph)

    everything = labels()
    monkeypatch.setattr(network, "_blocks", lambda z: (slice(i, i + 7) for i in range(0, 400, 7)))
    assert np.array_equal(labels(), everything)


def test_huge_attributes_are_divided_row_by_row(graph):
    def labels(x):
        model = HeNCler(4, preset="paper", epochs=3, random_state=0)
        return model.fit_predict(x, edges=graph.adjacency)

    largest = float(np.abs(graph.x).max())
    with pytest.warns(UserWarning, match="single precision"):
        huge = labels(graph.x * 1e12)
    assert np.array_equal(huge, labels(graph.x / largest))


@pytest.mark.parametrize("named", [True, False])
def test_ids_that_are_positions_are_not_listed_in_the_file(named, graph, tmp_path):
    ids = [f"node {i}" for i in range(400)] if named else None
    links = Graph(graph.adjacency, ids=ids)
    model = HeNCler(4, preset="paper", epochs=1, random_state=0).fit(links)
    model.save(tmp_path)
    assert ("node 399" in (tmp_path / "model.json").read_text()) == named
    assert np.array_equal(HeNCler.load(tmp_path).predict(links), model.labels_)
