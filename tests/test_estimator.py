"""HeNCler as an estimator: the contract, the presets, reproducibility."""

import math

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import normalized_mutual_info_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from hencler import Graph, HeNCler, HenclerWarning, make_heterophilous_graph
from hencler._errors import GraphError, ParameterError

PRESETS = ["default", "paper", "released"]


@parametrize_with_checks([HeNCler(n_clusters=2, random_state=0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def graph():
    return make_heterophilous_graph(120, 4, n_attributes=12, random_state=0)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_contract(graph, preset):
    model = HeNCler(4, preset=preset, epochs=5, random_state=0)
    labels = model.fit_predict(graph)
    n = graph.n_nodes
    assert labels.shape == (n,)
    assert labels.dtype == np.int64
    assert set(labels) == {0, 1, 2, 3}
    assert model.e_.shape[0] == model.r_.shape[0] == n
    assert model.e_.shape == model.r_.shape
    assert model.singular_values_.shape == (model.e_.shape[1],)
    assert np.isfinite(model.e_).all()
    assert np.isfinite(model.r_).all()
    np.testing.assert_array_equal(model.predict(graph), labels)
    np.testing.assert_allclose(model.transform(graph), np.hstack([model.e_, model.r_]))
    block = model.similarity([0, 1, 2], [3, 4])
    whole = model.similarity()
    np.testing.assert_allclose(block, whole[:3, 3:5], rtol=1e-5)
    if preset != "released":
        assert whole.min() >= 0
    assert np.abs(whole - whole.T).max() > 1e-3 * np.abs(whole).max()


@pytest.mark.parametrize("preset", PRESETS)
def test_same_seed_same_labels(graph, preset):
    def fit(seed):
        return HeNCler(4, preset=preset, epochs=3, random_state=seed).fit(graph)

    first, second = fit(0), fit(0)
    np.testing.assert_array_equal(first.e_, second.e_)
    np.testing.assert_array_equal(first.labels_, second.labels_)


def test_labels_of_the_graph_never_matter(graph):
    shuffled = Graph(graph.adjacency, graph.x, y=np.random.default_rng(0).permutation(graph.y))
    a = HeNCler(4, random_state=0, epochs=3).fit(graph)
    b = HeNCler(4, random_state=0, epochs=3).fit(shuffled, y=graph.y)
    np.testing.assert_array_equal(a.labels_, b.labels_)


def test_every_kind_of_input_gives_the_same_clusters(graph):
    pytest.importorskip("torch_geometric")
    pytest.importorskip("networkx")
    model = HeNCler(4, preset="paper", epochs=2, random_state=0)
    x = graph.x.astype(np.float32)
    plain = Graph(graph.adjacency, x)
    expected = model.fit_predict(plain)
    np.testing.assert_array_equal(model.fit_predict(plain.to_pyg()), expected)
    np.testing.assert_array_equal(model.fit_predict(x, edges=graph.adjacency), expected)
    coo = graph.adjacency.tocoo()
    pairs = np.stack([coo.row, coo.col])
    np.testing.assert_array_equal(model.fit_predict(x, edges=pairs), expected)
    labels = model.fit_predict(plain.to_networkx())
    assert normalized_mutual_info_score(labels, expected) > 0.5  # float64 there


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    "case", ["no attributes", "no edges", "isolated", "self-loops", "one cluster", "sparse"]
)
def test_unusual_graphs_work(preset, case):
    graph = make_heterophilous_graph(40, 2, n_attributes=6, random_state=1)
    k = 2
    if case == "no attributes":
        graph = Graph(graph.adjacency)
    elif case == "no edges":
        graph = Graph(np.zeros((40, 40)), graph.x)
    elif case == "isolated":
        matrix = graph.adjacency.toarray()
        matrix[:5], matrix[:, :5] = 0, 0
        graph = Graph(matrix, graph.x)
    elif case == "self-loops":
        graph = Graph(graph.adjacency.toarray() + np.eye(40), graph.x)
    elif case == "one cluster":
        k = 1
    else:
        import scipy.sparse as sp

        words = (np.abs(graph.x) > 1).astype(float)
        graph = Graph(graph.adjacency, sp.csr_array(words))
    model = HeNCler(k, preset=preset, epochs=3, random_state=0).fit(graph)
    assert set(model.labels_) == set(range(k))
    assert np.isfinite(model.transform(graph)).all()
    np.testing.assert_array_equal(model.predict(graph), model.labels_)


def test_new_nodes_are_placed_by_their_attributes(graph):
    model = HeNCler(4, preset="paper", epochs=20, random_state=0).fit(graph)
    part = graph.subgraph(np.arange(60))
    assert model.predict(part).shape == (60,)


def test_nodes_of_a_graph_without_attributes_are_matched_by_id():
    graph = Graph(
        make_heterophilous_graph(80, 4, n_attributes=0, random_state=0).adjacency,
        ids=[f"n{i}" for i in range(80)],
    )
    model = HeNCler(4, preset="paper", epochs=2, random_state=0).fit(graph)
    order = np.random.default_rng(0).permutation(80)
    np.testing.assert_array_equal(model.predict(graph.subgraph(order)), model.labels_[order])


def test_wrong_input_is_named(graph):
    with pytest.raises(ParameterError, match="n_clusters=121 is more than n_samples=120"):
        HeNCler(121).fit(graph)
    with pytest.raises(ParameterError, match="preset"):
        HeNCler(2, preset="nothing").fit(graph)
    with pytest.raises(GraphError, match="neither edges nor attributes"):
        HeNCler(2).fit(Graph(np.zeros((4, 4))))
    model = HeNCler(2, epochs=1, preset="paper", random_state=0).fit(graph)
    with pytest.raises(GraphError, match="fitted with 12"):
        model.predict(Graph(graph.adjacency, graph.x[:, :5]))


def test_the_paper_edge_loss_learns_a_directed_graph():
    """With U and V apart the edge decoder falls below ln 2, the loss of a coin."""
    graph = make_heterophilous_graph(200, 4, n_attributes=16, random_state=0)
    model = HeNCler(4, preset="paper", losses="reconstruction", epochs=120, random_state=0)
    model.fit(graph)
    losses = [record["edge"] for record in model.history_]
    assert min(losses[-10:]) < math.log(2) - 0.05


def test_the_released_edge_loss_never_learns(graph):
    model = HeNCler(4, preset="released", epochs=30, random_state=0).fit(graph)
    losses = np.array([record["edge"] for record in model.history_])
    np.testing.assert_allclose(losses, math.log(2), atol=1e-5)


@pytest.mark.parametrize("preset", ["paper", "released"])
def test_minibatches_train_as_well(graph, preset):
    model = HeNCler(4, preset=preset, epochs=4, batch_size=32, random_state=0).fit(graph)
    assert np.isfinite(model.e_).all()
    assert model.history_[-1]["node"] < model.history_[0]["node"]


def test_callbacks_see_every_epoch(graph):
    seen = []
    model = HeNCler(4, preset="paper", epochs=3, callback=seen.append, random_state=0).fit(graph)
    assert [epoch.number for epoch in seen] == [1, 2, 3]
    assert seen[0].total == 3
    assert seen[-1].labels().shape == (graph.n_nodes,)
    assert seen[-1].losses == model.history_[-1]


def test_ctrl_c_stops_after_the_epoch_and_keeps_the_result(graph):
    import signal

    def interrupt(epoch):
        if epoch.number == 2:
            signal.raise_signal(signal.SIGINT)

    model = HeNCler(4, preset="paper", epochs=50, callback=interrupt, random_state=0)
    with pytest.warns(HenclerWarning, match="interrupted after epoch 2 of 50"):
        model.fit(graph)
    assert model.interrupted_
    assert len(model.history_) == 2
    assert model.labels_.shape == (graph.n_nodes,)


def test_the_number_of_clusters_can_be_found():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=150)
    links = rng.random((150, 150)) < np.where(y[:, None] == y, 0.02, 0.25)
    model = HeNCler("auto", random_state=0).fit(Graph(links.astype(float)))
    assert model.n_clusters_ == 3
    assert set(model.labels_) == {0, 1, 2}


def test_the_score_prefers_the_clusters_that_are_there(graph):
    model = HeNCler(4, random_state=0).fit(graph)
    assert model.score() == pytest.approx(model.score(graph))
    model.labels_ = np.random.default_rng(0).permutation(model.labels_)
    assert model.score() < model.score(graph)


def test_clone_and_parameters():
    model = HeNCler(3, preset="paper", epochs=7, random_state=1)
    assert clone(model).get_params() == model.get_params()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("preset", PRESETS)
def test_cuda_gives_finite_embeddings(graph, preset):
    model = HeNCler(4, preset=preset, epochs=5, device="cuda", random_state=0).fit(graph)
    np.testing.assert_array_equal(model.predict(graph), model.labels_)


def test_every_epoch_is_clustered_from_fresh_starts(graph, monkeypatch):
    """As in the released code, whose KMeans draws on; an epoch's draw can be repeated."""
    from hencler import _estimator

    seeds = []

    class Assigner(_estimator.KMeansAssigner):
        def fit(self, embedding, n_clusters, n_init, seed):
            seeds.append(seed)
            return super().fit(embedding, n_clusters, n_init, seed)

    monkeypatch.setattr(_estimator, "KMeansAssigner", Assigner)
    for _ in range(2):
        HeNCler(
            2, preset="released", epochs=3, random_state=0, callback=lambda epoch: epoch.labels()
        ).fit(graph)
    assert len(set(seeds[:3])) == 3
    assert seeds[:3] == seeds[3:]
