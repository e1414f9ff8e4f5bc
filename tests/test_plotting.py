"""The numbers that are drawn, against dense computations."""

import importlib

import numpy as np
import pytest

from hencler import WKSVD, Graph, HeNCler, make_heterophilous_graph
from hencler._errors import MissingExtraError, ParameterError
from hencler._stability import Stability
from hencler.plotting import (
    plot_attributes,
    plot_certainty,
    plot_confusion,
    plot_embedding,
    plot_graph,
    plot_history,
    plot_links,
    plot_similarity,
    plot_singular_values,
    plot_sizes,
    plot_stability,
)

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def graph():
    return make_heterophilous_graph(120, random_state=0)


@pytest.fixture(scope="module")
def model(graph):
    return HeNCler(4, n_init=2, random_state=0).fit(graph)


def _texts(ax, k):
    return np.array([int(t.get_text().replace(",", "")) for t in ax.texts]).reshape(k, k)


def test_links_directed(graph):
    ax = plot_links(graph, graph.y)
    member = np.eye(4)[graph.y]
    observed = member.T @ (graph.adjacency.toarray() > 0) @ member
    expected = observed.sum(1, keepdims=True) * observed.sum(0) / observed.sum()
    with np.errstate(divide="ignore"):
        wanted = np.clip(np.log2(observed / expected), -3, 3)
    np.testing.assert_allclose(ax.images[0].get_array(), wanted)
    np.testing.assert_array_equal(_texts(ax, 4), observed)
    within = np.trace(observed) / observed.sum()
    assert f"{within:.0%} of links" in ax.get_title()


def test_links_undirected_count_once_and_names_are_kept():
    dense = np.zeros((5, 5))
    for u, v in [(0, 1), (1, 2), (2, 3), (3, 0)]:
        dense[u, v] = dense[v, u] = 1
    ax = plot_links(Graph(dense), np.array(["a", "a", "b", "b", "c"]))
    np.testing.assert_array_equal(_texts(ax, 3), [[1, 2, 0], [2, 1, 0], [0, 0, 0]])
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "b", "c"]
    # c has no links, so that none is to be expected
    np.testing.assert_array_equal(ax.images[0].get_array().mask[2], [True, True, True])


def test_links_refuse_other_lengths(graph):
    with pytest.raises(ParameterError, match="one label per node"):
        plot_links(graph, [0, 1])


def test_similarity_is_ordered_by_cluster(model, graph):
    ax = plot_similarity(model)
    order = np.argsort(model.labels_, kind="stable")
    s = model.similarity()[np.ix_(order, order)]
    chance = s.sum(1, keepdims=True) * s.sum(0) / s.sum()
    np.testing.assert_allclose(ax.images[0].get_array(), np.clip(np.log2(s / chance), -3, 3))
    asymmetry = np.linalg.norm(s - s.T) / np.linalg.norm(s)
    assert f"{asymmetry:.2f}" in ax.get_title()


def test_similarity_of_a_sample_and_of_a_loaded_model(model, graph, tmp_path):
    model.save(tmp_path)
    ax = plot_similarity(HeNCler.load(tmp_path), graph, max_nodes=40)
    assert ax.images[0].get_array().shape[0] <= 40
    with pytest.raises(ParameterError, match="fitted on 120"):
        plot_similarity(model, graph.subgraph(range(50)))


def test_similarity_of_one_view_is_a_cosine_of_singular_vectors(model, graph):
    ax = plot_similarity(model, view="links")
    order = np.argsort(model.labels_, kind="stable")
    a = (graph.adjacency.toarray() > 0).astype(float)
    out, into = (d + 0.3 * d.mean() for d in (a.sum(1), a.sum(0)))
    left, sigma, right = np.linalg.svd(a / np.sqrt(np.outer(out, into)))
    e, r = (z[order, :4] * np.sqrt(sigma[:4]) for z in (left, right.T))
    e, r = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (e, r))
    np.testing.assert_allclose(ax.images[0].get_array(), e @ r.T, atol=1e-8)
    with pytest.raises(ParameterError, match="'neighbours', 'links'"):
        plot_similarity(model, view="own")


def test_similarity_without_chance_is_drawn_as_it_is():
    dense = np.zeros((6, 6))
    dense[:3, 3:] = 1  # nodes 3-5 have no out-links, so their degree is zero
    model = HeNCler(2, n_init=1, random_state=0).fit(Graph(dense, directed=True))
    ax = plot_similarity(model)
    order = np.argsort(model.labels_, kind="stable")
    s = model.similarity()[np.ix_(order, order)]
    np.testing.assert_allclose(ax.images[0].get_array(), s)


@pytest.mark.parametrize("side", ["e", "r"])
def test_embedding_is_the_leading_plane(model, side):
    ax = plot_embedding(model, side=side)
    z = model.e_ if side == "e" else model.r_
    left, sigma, _ = np.linalg.svd(z - z.mean(axis=0), full_matrices=False)
    assert len(ax.collections) == 4
    for c, drawn in enumerate(ax.collections):
        points = np.asarray(drawn.get_offsets())
        wanted = (left * sigma)[model.labels_ == c, :2]
        np.testing.assert_allclose(np.abs(points), np.abs(wanted), atol=1e-10)
    share = (sigma**2 / (sigma**2).sum())[0]
    assert ax.get_xlabel().startswith(f"{share:.0%}")


def test_embedding_refuses_other_sides(model):
    with pytest.raises(ParameterError, match="'e' or 'r'"):
        plot_embedding(model, side="left")


def test_embedding_of_a_wksvd_has_both_sides():
    s = np.kron(np.eye(2), np.ones((4, 3))) + 0.1
    model = WKSVD(2, n_clusters=2, kernel="precomputed", random_state=0).fit(s)
    for side, labels in (("e", model.row_labels_), ("r", model.column_labels_)):
        sizes = [len(drawn.get_offsets()) for drawn in plot_embedding(model, side=side).collections]
        assert sizes == np.bincount(labels).tolist()
    bare = WKSVD(2, kernel="precomputed").fit(s)
    assert len(plot_embedding(bare).collections[0].get_offsets()) == 8


def test_singular_values_one_line_per_similarity(model):
    ax = plot_singular_values(model)
    assert [line.get_label() for line in ax.lines] == ["neighbours", "links"]
    drawn = np.concatenate([line.get_ydata() for line in ax.lines])
    np.testing.assert_array_equal(drawn, model.singular_values_)


def test_singular_values_of_a_wksvd():
    model = WKSVD(3, weights="uniform").fit(np.diag([3.0, 2, 1, 0]))
    np.testing.assert_allclose(
        plot_singular_values(model).lines[0].get_ydata(), model.singular_values_
    )


def test_history(graph):
    model = HeNCler(4, preset="paper", epochs=3, n_init=1, device="cpu", random_state=0).fit(graph)
    ax = plot_history(model)
    assert {line.get_label() for line in ax.lines} == {"loss", "wksvd", "node", "edge"}
    for line in ax.lines:
        np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3])
        wanted = [record[line.get_label()] for record in model.history_]
        np.testing.assert_allclose(line.get_ydata(), wanted)


def test_the_default_has_no_history(model):
    with pytest.raises(ParameterError, match="has no history"):
        plot_history(model)


def test_axes_given_are_drawn_into(model, graph):
    _, axes = plt.subplots(1, 4)
    assert plot_links(graph, graph.y, ax=axes[0]) is axes[0]
    assert plot_similarity(model, ax=axes[1]) is axes[1]
    assert plot_embedding(model, ax=axes[2]) is axes[2]
    assert plot_singular_values(model, ax=axes[3]) is axes[3]


def test_without_matplotlib_the_error_names_the_extra(graph, monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(MissingExtraError, match=r"hencler\[plot\]"):
        plot_links(graph, graph.y)


def test_sizes():
    ax = plot_sizes(["b", "a", "b"])
    assert [bar.get_width() for bar in ax.patches] == [1, 2]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a", "b"]


def test_certainty_is_the_simplified_silhouette(model):
    z = np.hstack([model.e_, model.r_])
    centres = np.stack([z[model.labels_ == c].mean(0) for c in range(4)])
    distances = np.linalg.norm(z[:, None] - centres, axis=2)
    own = distances[np.arange(len(z)), model.labels_]
    distances[np.arange(len(z)), model.labels_] = np.inf
    other = distances.min(axis=1)
    margin = (other - own) / np.maximum(own, other)
    ax = plot_certainty(model)
    drawn = np.concatenate([c.get_paths()[0].vertices[:, 0] for c in ax.collections])
    assert set(np.round(margin, 9)) <= set(np.round(drawn, 9))
    assert f"{np.median(margin):.2f}" in ax.get_title()
    with pytest.raises(ParameterError, match="one cluster"):
        plot_certainty(
            HeNCler(1, n_init=1, random_state=0).fit(np.random.default_rng(0).random((9, 2)))
        )


def test_stability():
    ax = plot_stability(Stability(np.array([1.0, 0.25]), np.ones(3), 0.5))
    assert [bar.get_width() for bar in ax.patches] == [1, 0.25]
    assert "0.50" in ax.get_title()


def test_confusion_puts_matches_on_the_diagonal():
    ax = plot_confusion([2, 2, 2, 0, 0, 1], ["x", "x", "y", "y", "y", "y"])
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["2", "0", "1"]
    assert [text.get_text() for text in ax.texts] == ["2", "0", "0", "1", "2", "1"]
    np.testing.assert_allclose(ax.images[0].get_array(), [[1, 0, 0], [0.25, 0.5, 0.25]])
    with pytest.raises(ParameterError, match="one class per node"):
        plot_confusion([0, 1], [0])


def test_attributes_by_standardised_difference(graph):
    ax = plot_attributes(graph, graph.y, 2, count=3)
    x = graph.x.toarray() if hasattr(graph.x, "toarray") else np.asarray(graph.x)
    inside = graph.y == 2
    difference = (x[inside].mean(0) - x[~inside].mean(0)) / x.std(0)
    found = [bar.get_width() for bar in ax.patches]
    ordered = np.sort(difference)[::-1]
    np.testing.assert_allclose(found, [*ordered[:3], *ordered[-3:]], rtol=1e-6)
    with pytest.raises(ParameterError, match="no node is in 9"):
        plot_attributes(graph, graph.y, 9)
    with pytest.raises(ParameterError, match="no attributes"):
        plot_attributes(Graph(graph.adjacency), graph.y, 0)


def test_drawing_has_every_node_and_link(graph):
    ax = plot_graph(graph, graph.y)
    links, nodes = ax.collections
    assert len(links.get_paths()) == graph.n_edges
    assert len(nodes.get_offsets()) == graph.n_nodes
    with pytest.raises(ParameterError, match="cannot be read"):
        plot_graph(make_heterophilous_graph(301, random_state=0), np.zeros(301))


def test_a_map_of_neighbours(model):
    ax = plot_embedding(model, layout="neighbours")
    assert sum(len(c.get_offsets()) for c in ax.collections) == len(model.labels_)
    with pytest.raises(ParameterError, match="Did you mean 'neighbours'"):
        plot_embedding(model, layout="neighbors")
