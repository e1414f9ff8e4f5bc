import numpy as np
import pytest
import scipy.sparse as sp

import hencler._order as order_module
from hencler import Graph, HeNCler, make_heterophilous_graph
from hencler._order import _colours, canonical_order, order_bytes, restored

PRESETS = ["default", "paper", "released"]


def shuffled(graph, seed=1):
    """The same graph with its nodes in another order and without their names."""
    order = np.random.default_rng(seed).permutation(graph.n_nodes)
    part = graph.subgraph(order)
    return Graph(part.adjacency, part.x, directed=graph.directed), order


def words(n=60):
    rng = np.random.default_rng(0)
    return Graph(rng.random((n, n)) < 0.1, sp.csr_array(rng.random((n, 80)) < 0.1, dtype=float))


GRAPHS = {
    "measurements": lambda: make_heterophilous_graph(60, 3, n_attributes=6, random_state=0),
    "words": words,
    "links": lambda: Graph(words().adjacency.multiply(np.arange(1, 61)).tocsr()),
}


@pytest.mark.parametrize("kind", GRAPHS)
def test_colours_go_with_the_nodes(kind):
    graph = GRAPHS[kind]()
    other, order = shuffled(graph)
    np.testing.assert_array_equal(_colours(other), _colours(graph)[order])
    assert len(np.unique(_colours(graph))) == graph.n_nodes
    first, second = (g.subgraph(canonical_order(g)) for g in (graph, other))
    np.testing.assert_array_equal(first.adjacency.toarray(), second.adjacency.toarray())


def test_colours_tell_what_refinement_by_sets_tells():
    # The same with tuples and dictionaries in place of hashes, on an undirected tree and a cycle.
    n = 40
    rng = np.random.default_rng(0)
    links = np.zeros((n, n))
    links[np.arange(1, 20), [rng.integers(i) for i in range(1, 20)]] = 1
    links[np.arange(20, n), np.roll(np.arange(20, n), 1)] = 1
    links += links.T
    expected = [0] * n
    for _ in range(order_module.ROUNDS):
        seen = [(expected[i], tuple(sorted(expected[j] for j in np.flatnonzero(links[i]))))
                for i in range(n)]  # fmt: skip
        expected = [sorted(set(seen)).index(key) for key in seen]
    colours = _colours(Graph(links))
    same = colours[:, None] == colours
    np.testing.assert_array_equal(same, np.equal.outer(expected, expected))
    assert len(np.unique(colours[20:])) == 1


def test_colours_see_direction_weight_column_and_value():
    base = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=float)
    assert len(np.unique(_colours(Graph(base)))) == 3
    assert len(np.unique(_colours(Graph(base, directed=False)))) == 2
    assert len(np.unique(_colours(Graph(np.diag([1.0, 2.0]))))) == 2
    assert len(np.unique(_colours(Graph(np.zeros((3, 3)), np.eye(3))))) == 3
    assert len(np.unique(_colours(Graph(np.zeros((2, 2)), np.array([[1.0], [2.0]]))))) == 2


def test_dense_and_sparse_attributes_are_the_same():
    graph = words()
    dense = Graph(graph.adjacency, -graph.x.toarray() * -1.0)
    np.testing.assert_array_equal(canonical_order(dense), canonical_order(graph))


@pytest.mark.parametrize("unit", [3.0, 1e300, 1e-300])
def test_units_and_rounding_errors_do_not_matter(unit):
    graph = GRAPHS["measurements"]()
    noise = 1 + 1e-15 * np.random.default_rng(0).standard_normal(graph.x.shape)
    weights = graph.adjacency * unit
    weights.data *= 1 + 1e-15 * np.random.default_rng(0).standard_normal(weights.nnz)
    other = Graph(weights, graph.x * unit * noise, directed=True)
    np.testing.assert_array_equal(canonical_order(other), canonical_order(graph))


def test_nodes_that_nothing_tells_apart_keep_their_order():
    np.testing.assert_array_equal(canonical_order(Graph(np.eye(5))), np.arange(5))


@pytest.mark.parametrize("limit", ["MOST_NODES", "MOST_ENTRIES"])
def test_large_graphs_stay_as_they_are(limit, monkeypatch):
    graph = words()
    monkeypatch.setattr(order_module, limit, 59)
    assert canonical_order(graph) is None
    assert order_bytes(graph) == 0
    monkeypatch.setattr(order_module, limit, graph.adjacency.nnz + graph.x.nnz)
    assert canonical_order(graph) is not None
    assert HeNCler(3).plan_memory(graph).kept["graph in its own order"] == order_bytes(graph) > 0


def test_restored_undoes_an_order():
    order = np.random.default_rng(0).permutation(7)
    np.testing.assert_array_equal(restored(np.arange(7)[order], order), np.arange(7))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("kind", GRAPHS)
def test_the_same_bits_in_any_order(kind, preset):
    graph = GRAPHS[kind]()
    other, order = shuffled(graph)
    seen = {}

    def options(name):
        def look(epoch):
            seen[name] = epoch.labels()

        return {"preset": preset, "epochs": 3, "n_init": 2, "device": "cpu", "callback": look}

    first = HeNCler(3, **options("first"), random_state=0).fit(graph)
    second = HeNCler(3, **options("second"), random_state=0).fit(other)
    np.testing.assert_array_equal(second.labels_, first.labels_[order])
    np.testing.assert_array_equal(second.e_, first.e_[order])
    np.testing.assert_array_equal(second.r_, first.r_[order])
    if seen:
        np.testing.assert_array_equal(seen["second"], seen["first"][order])
    # Places and names are those given: new graphs are matched with them.
    np.testing.assert_array_equal(second.predict(other), second.labels_)
    np.testing.assert_allclose(second.transform(other), np.hstack([second.e_, second.r_]),
                               rtol=1e-3, atol=1e-4)  # fmt: skip
    np.testing.assert_allclose(first.transform(graph.subgraph(order)), second.transform(other),
                               rtol=1e-3, atol=1e-4)  # fmt: skip
