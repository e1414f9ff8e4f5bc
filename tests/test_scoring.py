"""The label-free score against dense computations, and the number of clusters on known graphs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm, poisson
from sklearn.metrics import mutual_info_score

from hencler import Graph, make_heterophilous_graph
from hencler._errors import ParameterError
from hencler._scoring import (
    SHRINKAGES,
    Scorer,
    attribute_gain,
    estimate_n_clusters,
    link_gain,
    score_clustering,
    score_parts,
)
from hencler.bench.scoring import make_known


def indicators(labels):
    return sp.csr_array(np.eye(max(labels) + 1)[labels])


@pytest.fixture
def labelled():
    rng = np.random.default_rng(0)
    links = np.triu(rng.random((30, 30)) < 0.2, 1).astype(float)
    return links, np.r_[np.arange(3), rng.integers(3, size=27)]


# --- links ---------------------------------------------------------------------------------------


def test_link_gain_is_the_mutual_information_of_the_ends_clusters(labelled):
    links, c = labelled
    rows, cols = np.nonzero(links)
    information = mutual_info_score(c[rows], c[cols])
    expected = len(rows) * information - 2**2 / 2 * np.log(len(rows))
    assert link_gain(sp.csr_array(links), indicators(c), True) == pytest.approx(expected)


def test_undirected_links_count_once(labelled):
    links, c = labelled
    both = links + links.T
    rows, cols = np.nonzero(both)
    expected = links.sum() * mutual_info_score(c[rows], c[cols]) - 3 / 2 * np.log(links.sum())
    assert link_gain(sp.csr_array(both), indicators(c), False) == pytest.approx(expected)


def test_link_gain_does_not_depend_on_the_unit_of_weights(labelled):
    links, c = labelled
    z = indicators(c)
    gain = link_gain(sp.csr_array(links), z, True)
    assert link_gain(sp.csr_array(7 * links), z, True) == pytest.approx(gain)


def test_link_gain_without_links_is_zero():
    assert link_gain(sp.csr_array((4, 4)), indicators([0, 0, 1, 1]), True) == 0


def test_heterophily_gains_as_much_as_homophily():
    c = np.arange(40) % 2
    same = sp.csr_array((c[:, None] == c).astype(float))
    different = sp.csr_array((c[:, None] != c).astype(float))
    gains = [link_gain(a, indicators(c), True) for a in (same, different)]
    assert gains[0] == pytest.approx(gains[1])
    assert gains[0] > 0


# --- attributes ----------------------------------------------------------------------------------


def test_normal_gain_is_that_of_leaving_each_node_out(labelled):
    _, c = labelled
    x = np.random.default_rng(1).standard_normal((30, 4)) + c[:, None]

    def residuals(peers):
        return np.array([x[v] - x[peers(v)].mean(axis=0) for v in range(30)])

    by_all = residuals(lambda v: np.arange(30) != v)
    by_cluster = residuals(lambda v: (c == c[v]) & (np.arange(30) != v))
    # Maximised over its variance, a normal log-likelihood is -n/2 log(mean square) + constant.
    expected = sum(
        norm.logpdf(b, scale=np.sqrt((b**2).mean())).sum()
        - norm.logpdf(a, scale=np.sqrt((a**2).mean())).sum()
        for a, b in zip(by_all.T, by_cluster.T)
    )
    assert attribute_gain(x, indicators(c)) == pytest.approx(expected)


def test_poisson_gain_is_that_of_leaving_each_node_out(labelled):
    _, c = labelled
    rng = np.random.default_rng(2)
    x = rng.poisson(0.5 + 2 * (np.arange(6)[None, :] % 3 == c[:, None])).astype(float)
    gains = []
    for a in SHRINKAGES:
        gain = 0.0
        for v in range(30):
            others = np.arange(30) != v
            rate = (x[others].sum(axis=0) + 0.5) / 29.5
            peers = others & (c == c[v])
            own = (x[peers].sum(axis=0) + a * rate) / (peers.sum() + a)
            gain += (poisson.logpmf(x[v], own) - poisson.logpmf(x[v], rate)).sum()
        gains.append(gain)
    assert attribute_gain(sp.csr_array(x), indicators(c)) == pytest.approx(max(gains))
    assert max(gains) > 0


def test_a_copied_bit_gains_no_more_than_its_entropy():
    bit = np.arange(200) % 2
    gain = attribute_gain(bit[:, None] * 2.0 - 1, indicators(bit))
    assert 0.9 * 200 * np.log(2) < gain < 200 * np.log(2)


def test_clusters_at_random_do_not_gain(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    x, c = rng.standard_normal((300, 10)), np.arange(300) % 6
    assert attribute_gain(x, indicators(c)) < 0
    words = sp.csr_array(rng.poisson(0.1, (300, 100)).astype(float))
    assert attribute_gain(words, indicators(c)) / 300 < 0.05


def test_a_cluster_of_one_node_is_no_error():
    x = np.random.default_rng(0).standard_normal((5, 2))
    assert np.isfinite(attribute_gain(x, indicators([0, 0, 0, 0, 1])))
    assert np.isfinite(attribute_gain(sp.csr_array(np.abs(x)), indicators([0, 0, 0, 0, 1])))


# --- the score -----------------------------------------------------------------------------------


def test_parts_add_up_and_the_partition_costs_its_entropy():
    graph = make_heterophilous_graph(200, random_state=0)
    parts = score_parts(graph, graph.y, views=("smooth", "links"))
    assert set(parts) == {"links", "own", "neighbours", "partition", "score"}
    assert parts["partition"] == pytest.approx(-np.log(4))
    assert parts["score"] == pytest.approx(sum(v for k, v in parts.items() if k != "score"))


def test_score_falls_as_nodes_are_exchanged(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    graph = make_heterophilous_graph(random_state=global_random_seed)
    scorer = Scorer(graph)
    scores = []
    for share in (0, 0.2, 0.5, 1):
        some = np.flatnonzero(rng.random(600) < share)
        labels = graph.y.copy()
        labels[some] = graph.y[rng.permutation(some)]
        scores.append(scorer.parts(labels)["score"])
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > 0 > scores[-1]


def test_score_ignores_names_of_clusters_and_labels_of_the_graph():
    graph = make_heterophilous_graph(100, random_state=0)
    names = np.array(["a", "b", "c", "d"])[graph.y]
    assert score_clustering(graph.without_labels(), names) == score_clustering(graph, graph.y)


def test_one_cluster_scores_zero():
    graph = make_heterophilous_graph(100, random_state=0)
    zeros = np.zeros(100, dtype=int)
    assert score_clustering(graph, zeros, views=("own", "neighbours", "links")) == 0


def test_score_knows_the_karate_clubs():
    graph = Graph.from_networkx(nx.karate_club_graph(), weight=None)
    clubs = np.array([nx.karate_club_graph().nodes[v]["club"] for v in range(34)])
    parts = score_parts(graph, clubs)
    assert parts["links"] > 0
    others = np.random.default_rng(0).permutation(clubs)
    assert parts["score"] > score_clustering(graph, others)


@pytest.mark.parametrize("labels", [np.zeros(3), np.zeros((100, 1))])
def test_labels_must_fit_the_graph(labels):
    graph = make_heterophilous_graph(100, random_state=0)
    with pytest.raises(ParameterError, match="100 nodes"):
        score_clustering(graph, labels)


def test_attribute_views_need_attributes():
    graph = make_heterophilous_graph(100, n_attributes=0, random_state=0)
    with pytest.raises(ParameterError, match="attributes"):
        score_clustering(graph, graph.y, views=("own",))


def test_score_does_not_depend_on_the_unit_of_weighted_words():
    graph = make_known("words", 3, n=90)
    weights = graph.x * 0.37
    scores = [
        score_clustering(Graph(graph.adjacency, x), graph.y, views=("own",))
        for x in (weights, weights * 100)
    ]
    assert scores[0] == pytest.approx(scores[1])


def test_constant_attributes_explain_nothing():
    graph = Graph(sp.csr_array((4, 4)), np.ones((4, 2)))
    parts = score_parts(graph, [0, 0, 1, 1], views=("own",))
    assert parts["score"] == pytest.approx(-np.log(2))


# --- the number of clusters ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["assortative", "cyclic", "blobs", "words"])
def test_known_number_of_clusters_is_found(kind):
    graph = make_known(kind, 4, n=240, seed=0)
    k, table = estimate_n_clusters(graph, 7)
    assert k == 4
    assert [row["n_clusters"] for row in table] == list(range(2, 8))
    assert table[2]["agreement"] == max(row["agreement"] for row in table)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["assortative", "cyclic", "blobs", "words"])
@pytest.mark.parametrize("k", [2, 3, 5, 6, 8])
def test_known_numbers_of_clusters_are_found(kind, k):
    assert estimate_n_clusters(make_known(kind, k, seed=k))[0] == k


def test_two_disassortative_clusters_are_found():
    assert estimate_n_clusters(make_known("disassortative", 2, n=240, seed=0), 6)[0] == 2


def test_attributes_and_links_together_say_four():
    assert estimate_n_clusters(make_heterophilous_graph(300, random_state=0), 7)[0] == 4


def test_noise_has_one_cluster():
    rng = np.random.default_rng(0)
    links = (rng.random((200, 200)) < 0.05).astype(float)
    assert estimate_n_clusters(Graph(links), 5)[0] == 1
    nothing = Graph(sp.csr_array((200, 200)), rng.standard_normal((200, 8)))
    assert estimate_n_clusters(nothing, 5)[0] == 1


def test_same_seed_same_estimate():
    graph = make_heterophilous_graph(120, random_state=0)
    results = [estimate_n_clusters(graph, 5, random_state=3) for _ in range(2)]
    assert results[0] == results[1]


@pytest.mark.parametrize("n", [1, 2])
def test_hardly_any_nodes_are_one_cluster(n):
    assert estimate_n_clusters(Graph(np.ones((n, n)), np.arange(n)[:, None])) == (1, [])


def test_identical_nodes_are_one_cluster():
    graph = Graph(sp.csr_array((20, 20)), np.ones((20, 3)))
    assert estimate_n_clusters(graph) == (1, [])


def test_k_max_must_be_positive():
    with pytest.raises(ParameterError, match="k_max"):
        estimate_n_clusters(make_heterophilous_graph(50, random_state=0), 0)
