"""Scores against scikit-learn, SciPy, PyG, brute force over pairs, and known tables."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, f1_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from hencler import Graph
from hencler._errors import ParameterError
from hencler.metrics import (
    adjusted_rand_index,
    class_insensitive_homophily,
    clustering_accuracy,
    contingency,
    dmon_f1,
    edge_homophily,
    evaluate,
    macro_f1,
    normalized_mutual_information,
    pairwise_f1,
)

SCORES = (
    normalized_mutual_information,
    adjusted_rand_index,
    clustering_accuracy,
    pairwise_f1,
    macro_f1,
    dmon_f1,
)
KEYS = ("nmi", "ari", "acc", "pairwise_f1", "macro_f1", "paper_f1")

# One cluster for all nodes, in percent: the F1 of the papers, the true pairwise F1.
ONE_CLUSTER = {
    "texas": (59.82, 54.04),
    "cornell": (53.24, 44.13),
    "wisconsin": (56.20, 48.59),
    "chameleon": (53.29, 33.53),
    "squirrel": (55.50, 33.31),
    "minesweeper": (80.95, 80.95),
    "tolokers": (79.43, 79.43),
}
HOMOPHILY = {"texas": 0.000, "cornell": 0.150, "wisconsin": 0.084, "minesweeper": 0.009}
HOMOPHILY |= {"tolokers": 0.180}


@st.composite
def labellings(draw):
    n = draw(st.integers(1, 30))
    values = st.lists(st.integers(0, draw(st.integers(0, 6))), min_size=n, max_size=n)
    return np.array(draw(values)), np.array(draw(values))


# --- known values ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("truth", "labels", "a", "b"),
    [
        ([0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 0, 0], 0.428571, 0.333333),
        ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1], 0.615385, 0.615385),
        ([0, 0, 1, 2, 2], [7, 7, 3, 5, 5], 1.0, 1.0),
        ([0, 1, 2], [0, 1, 2], 0.0, 0.0),  # no two nodes belong together: 0/0
    ],
)
def test_f1_vectors(truth, labels, a, b):
    assert dmon_f1(labels, truth) == pytest.approx(a, abs=1e-6)
    assert pairwise_f1(labels, truth) == pytest.approx(b, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "counts"), [("texas", [33, 1, 18, 101, 30]), ("cornell", [38, 16, 30, 82, 17])]
)
def test_one_cluster_from_class_counts(name, counts):
    truth = np.repeat(np.arange(len(counts)), counts)
    check_one_cluster(truth, *ONE_CLUSTER[name])


@pytest.mark.parametrize("name", ONE_CLUSTER)
def test_one_cluster_on_data(name):
    truth, _ = read_labels_and_edges(name)
    check_one_cluster(truth, *ONE_CLUSTER[name])


def check_one_cluster(truth, paper, pairwise):
    scores = evaluate(np.zeros(truth.size, dtype=int), truth)
    assert 100 * scores["paper_f1"] == pytest.approx(paper, abs=0.005)
    assert 100 * scores["pairwise_f1"] == pytest.approx(pairwise, abs=0.005)
    assert scores["nmi"] == pytest.approx(0, abs=1e-12)
    assert scores["ari"] == pytest.approx(0, abs=1e-12)
    assert scores["n_clusters"] == 1
    n_c = np.bincount(truth)
    assert scores["acc"] == pytest.approx(n_c.max() / truth.size)
    tp = (n_c * (n_c - 1)).sum()
    recall = tp / (tp + 2 * n_c.max() * (truth.size - n_c.max()))
    assert scores["paper_f1"] == pytest.approx(2 * recall / (1 + recall))


# --- independent computations ------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(labellings())
def test_agrees_with_scikit_learn(pair):
    labels, truth = pair
    np.testing.assert_array_equal(
        contingency(labels, truth).toarray(), contingency_matrix(truth, labels)
    )
    expected = normalized_mutual_info_score(truth, labels)
    assert normalized_mutual_information(labels, truth) == pytest.approx(expected)
    assert adjusted_rand_index(labels, truth) == pytest.approx(adjusted_rand_score(truth, labels))


@settings(max_examples=50, deadline=None)
@given(labellings())
def test_pairwise_f1_is_that_of_all_pairs(pair):
    labels, truth = pair
    pairs = list(itertools.combinations(range(truth.size), 2))
    together = [truth[i] == truth[j] for i, j in pairs]
    found = [labels[i] == labels[j] for i, j in pairs]
    expected = f1_score(together, found, zero_division=0) if pairs else 0.0
    assert pairwise_f1(labels, truth) == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(labellings())
def test_dmon_f1_is_that_of_the_dense_table(pair):
    labels, truth = pair
    table = contingency_matrix(truth, labels)
    a, b = table.max(axis=1), table.max(axis=0)
    tp = (a * (a - 1)).sum()
    fp = 2 * (a * (table.sum(axis=1) - a)).sum()
    fn = 2 * (b * (table.sum(axis=0) - b)).sum()
    if tp == 0:
        assert dmon_f1(labels, truth) == 0
        return
    p, r = tp / (tp + fp), tp / (tp + fn)
    assert dmon_f1(labels, truth) == pytest.approx(2 * p * r / (p + r))


@settings(max_examples=50, deadline=None)
@given(labellings())
def test_accuracy_is_that_of_the_dense_assignment(pair):
    labels, truth = pair
    table = contingency_matrix(truth, labels)
    matched = linear_sum_assignment(table, maximize=True)
    assert clustering_accuracy(labels, truth) == pytest.approx(table[matched].sum() / truth.size)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=25))
def test_macro_f1_is_the_best_of_the_most_accurate_matchings(nodes):
    truth, labels = np.array(nodes).T
    classes = np.unique(truth)
    best = max(
        (np.mean(renamed == truth), score)
        for names in itertools.permutations(range(4))
        for renamed in [np.array(names)[labels]]
        for score in [f1_score(truth, renamed, labels=classes, average="macro", zero_division=0)]
    )
    assert clustering_accuracy(labels, truth) == pytest.approx(best[0])
    # Accuracies that tie differ in no bit: both are k / n.
    assert macro_f1(labels, truth) == pytest.approx(best[1])


# --- properties --------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(labellings(), st.randoms(use_true_random=False))
def test_names_and_order_do_not_matter(pair, random):
    labels, truth = pair
    names = random.sample(range(100), 7)
    order = random.sample(range(truth.size), truth.size)
    renamed = np.array(names)[labels][order]
    words = np.array(["abcdefg"[c] for c in truth])[order]
    for score in SCORES:
        assert score(renamed, words) == pytest.approx(score(labels, truth))


@settings(max_examples=50, deadline=None)
@given(labellings())
def test_range_and_perfection(pair):
    labels, truth = pair
    scores = evaluate(labels, truth)
    for key, score in zip(KEYS, SCORES):
        assert scores[key] == pytest.approx(score(labels, truth))
        assert (-0.5 if key == "ari" else 0) - 1e-12 <= scores[key] <= 1 + 1e-12
    assert scores["n_clusters"] == np.unique(labels).size
    assert scores["n_evaluated"] == truth.size
    perfect = evaluate(7 - truth, truth)
    no_pairs = np.unique(truth).size == truth.size
    for key in KEYS:
        empty = no_pairs and key in ("pairwise_f1", "paper_f1")
        assert perfect[key] == pytest.approx(0.0 if empty else 1.0)


@settings(max_examples=50, deadline=None)
@given(labellings())
def test_symmetry(pair):
    labels, truth = pair
    for score in (normalized_mutual_information, adjusted_rand_index, pairwise_f1):
        assert score(labels, truth) == pytest.approx(score(truth, labels))
    assert clustering_accuracy(labels, truth) == pytest.approx(clustering_accuracy(truth, labels))


def test_as_many_clusters_as_nodes_stay_sparse():
    n = 8_000  # a dense table would take half a gigabyte
    scores = evaluate(np.arange(n), np.arange(n)[::-1])
    assert scores["acc"] == scores["macro_f1"] == scores["nmi"] == 1
    assert scores["n_clusters"] == n


# --- unknown classes and errors ----------------------------------------------------------------


@pytest.mark.parametrize(
    "truth",
    [
        [0, 0, -1, 1, 1, -1],
        [0.0, 0.0, float("nan"), 1.0, 1.0, float("nan")],
        ["a", "a", "", "b", "b", ""],
        np.array(["a", "a", None, "b", "b", float("nan")], dtype=object),
        np.array([0, 0, None, 1, 1, -1], dtype=object),
        np.array([b"a", b"a", b"", b"b", b"b", b""]),
    ],
)
def test_unknown_classes_are_left_out(truth):
    labels = [0, 0, 1, 2, 0, 3]
    scores = evaluate(labels, truth)
    known = evaluate([0, 0, 2, 0], [0, 0, 1, 1])
    assert scores["n_evaluated"] == 4
    assert scores["n_clusters"] == 4
    assert {k: scores[k] for k in KEYS} == pytest.approx({k: known[k] for k in KEYS})
    assert contingency(labels, truth).shape == (2, 2)


def test_minus_one_is_a_cluster():
    assert evaluate([-1, -1, 0, 0], [0, 0, 1, 1])["acc"] == 1
    assert evaluate(np.array([-1, -1, 0], dtype=object), [0, 0, 1])["n_clusters"] == 2


@pytest.mark.parametrize("score", [*SCORES, contingency, evaluate])
@pytest.mark.parametrize(
    ("labels", "truth", "message"),
    [
        ([0, 1], [0, 1, 1], "2 clusters for 3 classes"),
        ([], [], "no node has a known class"),
        ([0, 1], [-1, -1], "no node has a known class"),
        ([[0], [1]], [0, 1], "labels: shape"),
        ([0, 1], [[0, 1]], "truth: shape"),
        ([0.0, float("nan")], [0, 1], "labels, entry 1"),
        (np.array([None, 1], dtype=object), [0, 1], "labels, entry 0"),
        ([0, 1], [1j, 2j], "truth: entries of type"),
        ([0, 1], np.array([{}, {1: 2}], dtype=object), "truth: an entry"),
    ],
)
def test_errors(score, labels, truth, message):
    with pytest.raises(ParameterError, match=message):
        score(labels, truth)


# --- homophily ---------------------------------------------------------------------------------


@pytest.fixture
def graph():
    rng = np.random.default_rng(0)
    edges = sp.random_array((40, 40), density=0.1, rng=rng, format="csr")
    return Graph(edges, y=rng.integers(4, size=40))


def test_homophily_by_hand():
    # 0 -> 1 -> 2 -> 0 and 3 -> 4, classes 0 0 0 0 1
    edges = sp.coo_array((np.ones(4), ([0, 1, 2, 3], [1, 2, 0, 4])), shape=(5, 5))
    graph = Graph(edges, y=[0, 0, 0, 0, 1])
    assert edge_homophily(graph) == pytest.approx(0.75)
    assert class_insensitive_homophily(graph) == pytest.approx(0.2)


def test_homophily_agrees_with_pyg(graph):
    torch = pytest.importorskip("torch")
    utils = pytest.importorskip("torch_geometric.utils")
    edges = graph.adjacency.tocoo()
    index = torch.from_numpy(np.stack([edges.row, edges.col]).astype(np.int64))
    y = torch.from_numpy(graph.y)
    assert edge_homophily(graph) == pytest.approx(utils.homophily(index, y, method="edge"))
    expected = utils.homophily(index, y, method="edge_insensitive")
    assert class_insensitive_homophily(graph) == pytest.approx(expected, abs=1e-6)


def test_homophily_leaves_unknown_nodes_out(graph):
    y = graph.y.copy()
    y[::3] = -1
    known = graph.subgraph(y >= 0)
    assert edge_homophily(graph, y) == pytest.approx(edge_homophily(known))
    expected = class_insensitive_homophily(known)
    assert class_insensitive_homophily(graph, y) == pytest.approx(expected)


def test_homophily_without_edges_or_classes(graph):
    empty = Graph(sp.csr_array((3, 3)), x=np.eye(3), y=[0, 1, 1])
    assert np.isnan(edge_homophily(empty))
    assert class_insensitive_homophily(empty) == 0
    for y, message in [
        (None, "no classes"),
        ([0, 1], "2 classes for 3 nodes"),
        ([-1, -1, -1], "every class is unknown"),
    ]:
        with pytest.raises(ParameterError, match=message):
            edge_homophily(empty.without_labels(), y)
    with pytest.raises(ParameterError, match="one class"):
        class_insensitive_homophily(graph, np.zeros(40, dtype=int))


@pytest.mark.parametrize("name", HOMOPHILY)
def test_homophily_on_data(name):
    y, edges = read_labels_and_edges(name)
    links = sp.coo_array((np.ones(len(edges)), edges.T), shape=(y.size, y.size))
    undirected = name in ("minesweeper", "tolokers")
    graph = Graph(links, y=y, directed=not undirected)
    assert class_insensitive_homophily(graph) == pytest.approx(HOMOPHILY[name], abs=0.0005)


def read_labels_and_edges(name):
    """Classes (n,) and edges (E, 2) straight from the raw files."""
    if "HENCLER_DATA" not in os.environ:
        pytest.skip("HENCLER_DATA is not set")
    root = Path(os.environ["HENCLER_DATA"])
    if name in ("minesweeper", "tolokers"):
        file = root / "heterophilous" / name / "raw" / f"{name}.npz"
        if not file.exists():
            pytest.skip(f"{name} is not below HENCLER_DATA")
        with np.load(file, allow_pickle=False) as raw:
            return raw["node_labels"].astype(np.int64), raw["edges"].astype(np.int64)
    folder = root / "webkb" / name / "raw"
    if name in ("chameleon", "squirrel"):
        folder = root / "wikipedia" / name / "geom_gcn" / "raw"
    if not folder.exists():
        pytest.skip(f"{name} is not below HENCLER_DATA")
    rows = (folder / "out1_node_feature_label.txt").read_text().splitlines()[1:]
    table = [line.split("\t") for line in rows]
    y = np.empty(len(table), dtype=np.int64)
    y[[int(row[0]) for row in table]] = [int(row[-1]) for row in table]
    edges = np.loadtxt(folder / "out1_graph_edges.txt", dtype=np.int64, skiprows=1)
    return y, edges
