"""The default model: what it must find, and what each part adds."""

import sys

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics import normalized_mutual_info_score as nmi

from hencler import Graph, HeNCler, make_heterophilous_graph
from hencler._closed_form import ClosedFormModel
from hencler._errors import ParameterError
from hencler._views import explicit_maps


@pytest.mark.parametrize("seed", range(3))
def test_direction_matters_on_the_generated_graph(seed):
    graph = make_heterophilous_graph(random_state=seed)
    found = HeNCler(4, random_state=0).fit_predict(graph)
    forgot = HeNCler(4, random_state=0).fit_predict(graph.to_undirected())
    assert nmi(graph.y, found) > 0.9
    assert nmi(graph.y, forgot) < 0.7


def test_undirected_graphs_need_links_and_attributes():
    graph = make_heterophilous_graph(directed=False, random_state=0)
    assert nmi(graph.y, HeNCler(4, random_state=0).fit_predict(graph)) > 0.9


def test_the_learned_maps_help_where_sources_must_be_combined():
    """Weak attributes, sparse directed links from cluster to cluster: neither is enough."""
    rng = np.random.default_rng(0)
    n, k = 800, 4
    y = rng.integers(k, size=n)
    rates = np.full((k, k), 0.25)
    rates[np.arange(k), (np.arange(k) + 1) % k] = 2.0
    links = rng.random((n, n)) < rates[y][:, y] * 4.0 / n / rates.mean()
    np.fill_diagonal(links, False)
    topics = 0.6 * rng.gamma(0.5, 1, (1, 300)) + 0.4 * rng.gamma(0.5, 1, (k, 300))
    topics /= topics.sum(1, keepdims=True)
    words = (rng.poisson(20 * topics[y]) > 0).astype(float)
    graph = Graph(links.astype(float), words, directed=True)
    with_maps = nmi(y, HeNCler(k, random_state=0).fit_predict(graph))
    without = nmi(y, HeNCler(k, random_state=0, learned_maps=False).fit_predict(graph))
    content = nmi(y, HeNCler(k, random_state=0, view="own", learned_maps=False).fit_predict(graph))
    assert with_maps > content + 0.2
    assert with_maps >= without - 0.02


def test_bipartite_links_cluster_both_sides():
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(3, size=90), rng.integers(3, size=60)
    table = (rng.random((90, 60)) < np.where(rows[:, None] == cols, 0.5, 0.05)).astype(float)
    graph = Graph.from_biadjacency(table)
    labels = HeNCler(6, random_state=0).fit_predict(graph)
    assert nmi(rows, labels[:90]) > 0.9
    assert nmi(cols, labels[90:]) > 0.9


def test_clusters_do_not_depend_on_the_order_of_the_nodes():
    graph = make_heterophilous_graph(200, random_state=0)
    order = np.random.default_rng(0).permutation(200)
    a = HeNCler(4, random_state=0).fit_predict(graph)
    b = HeNCler(4, random_state=0).fit_predict(graph.subgraph(order))
    assert nmi(a[order], b) > 0.95


def test_new_nodes_with_the_same_attributes_join_the_same_clusters():
    graph = make_heterophilous_graph(300, random_state=0)
    model = HeNCler(4, random_state=0, view="own").fit(graph)
    part = graph.subgraph(np.arange(100))
    assert nmi(model.predict(part), model.labels_[:100]) > 0.5


def test_a_graph_of_new_nodes_is_clustered_by_its_attributes():
    """Communities with attributes: fitted on one graph, applied to another one."""
    rng = np.random.default_rng(0)
    means = 3 * rng.normal(size=(3, 8))

    def draw(n, prefix):
        y = rng.integers(3, size=n)
        links = rng.random((n, n)) < np.where(y[:, None] == y, 0.1, 0.01)
        x = means[y] + rng.normal(size=(n, 8))
        names = [f"{prefix}{i}" for i in range(n)]
        return Graph(np.maximum(links, links.T) * 1.0, x, ids=names, y=y)

    first, second = draw(150, "a"), draw(90, "b")
    model = HeNCler(3, random_state=0, view="own").fit(first)
    assert nmi(first.y, model.labels_) > 0.95
    assert nmi(second.y, model.predict(second)) > 0.9


def test_a_view_that_needs_attributes_is_refused_without():
    graph = make_heterophilous_graph(50, n_attributes=0, random_state=0)
    with pytest.raises(ParameterError, match="needs attributes"):
        HeNCler(2, view="smooth").fit(graph)


@pytest.mark.parametrize("x", [np.ones((12, 3)), np.zeros((12, 70))])
def test_attributes_that_say_nothing_leave_the_links(x):
    links = np.kron(np.eye(2), np.ones((6, 6)))
    labels = HeNCler(2, random_state=0).fit_predict(Graph(links, x))
    assert len(set(labels[:6])) == len(set(labels[6:])) == 1
    assert labels[0] != labels[6]


def test_nodes_that_are_all_alike_are_one_cluster_and_a_warning():
    with pytest.warns(UserWarning, match="only 1 of the 2"):
        labels = HeNCler(2, random_state=0).fit_predict(np.ones((8, 2)))
    assert len(set(labels)) == 1


@pytest.mark.data("texas")
def test_texas_honestly():
    from hencler import load_dataset

    graph = load_dataset("texas")
    scores = [nmi(graph.y, HeNCler(5, random_state=s).fit_predict(graph)) for s in range(3)]
    assert np.mean(scores) > 0.38


@pytest.mark.data("drosophila-left")
def test_asymmetry_pays_on_a_connectome():
    from hencler import load_dataset

    graph = load_dataset("drosophila-left")
    directed = nmi(graph.y, HeNCler(4, random_state=0).fit_predict(graph))
    undirected = nmi(graph.y, HeNCler(4, random_state=0).fit_predict(graph.to_undirected()))
    assert directed > undirected + 0.1


# --- very large graphs ---------------------------------------------------------------------------


@pytest.fixture
def few_are_many(monkeypatch):
    """Everything above 300 nodes counts as very large."""
    for name, module in list(sys.modules.items()):
        if name.startswith("hencler.") and hasattr(module, "SAMPLED_NODES"):
            monkeypatch.setattr(module, "SAMPLED_NODES", 300)


@pytest.mark.parametrize("n_attributes", [0, 12])
def test_samples_and_operators_give_the_clusters_of_the_exact_way(n_attributes, request):
    graph = make_heterophilous_graph(900, 4, n_attributes=n_attributes, random_state=0)
    exact = ClosedFormModel(learn=False).fit(graph, 4, None, 4, 0)
    request.getfixturevalue("few_are_many")
    large = ClosedFormModel(learn=False).fit(graph, 4, None, 4, 0)
    assert large.views == exact.views
    e, r, labels = large.take_fitted()
    assert adjusted_rand_score(labels, exact.take_fitted()[2]) > 0.97
    np.testing.assert_array_equal(large.clusters(graph), labels)
    assert e.dtype == r.dtype == np.float32
    np.testing.assert_allclose(large.singular_values, exact.singular_values, rtol=0.05, atol=1e-3)


@pytest.mark.parametrize("view", ["own", "neighbours", "smooth"])
def test_maps_of_very_large_graphs_are_operators(view, few_are_many):
    graph = make_heterophilous_graph(400, 3, n_attributes=8, random_state=0)
    model = ClosedFormModel(view=view).fit(graph, 3, None, 2, 0)
    (phi, psi) = model._maps(graph)[0]
    dense = explicit_maps(view, model.preparation.features(graph.x), model._links(graph))
    for operator, array in ((phi, dense.phi), (psi, dense.psi)):
        assert not isinstance(operator, np.ndarray)
        np.testing.assert_allclose(operator @ np.eye(16), array, atol=1e-6)
        np.testing.assert_allclose(operator.T @ np.eye(400), array.T, atol=1e-6)
