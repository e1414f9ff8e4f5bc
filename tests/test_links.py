import numpy as np
import pytest

from hencler import Graph
from hencler._errors import GraphError
from hencler._links import LinkColumns, known_links


def make_graph(n=80, seed=0):
    rng = np.random.default_rng(seed)
    return Graph((rng.random((n, n)) < 0.1) * rng.random((n, n)), ids=[f"n{i}" for i in range(n)])


def test_columns_of_known_nodes_are_the_scaled_singular_vectors():
    graph = make_graph()
    columns = LinkColumns(6).fit(graph.adjacency)
    out, into = columns.transform(*known_links(graph, graph.ids))
    dense = graph.adjacency.toarray()
    d1, d2 = dense.sum(1), dense.sum(0)
    root1, root2 = np.sqrt(d1 + 0.3 * d1.mean()), np.sqrt(d2 + 0.3 * d2.mean())
    scaled = dense / np.outer(root1, root2)
    h, q = root1 / np.linalg.norm(root1), root2 / np.linalg.norm(root2)
    p, values, q_t = np.linalg.svd(scaled - (h @ scaled @ q) * np.outer(h, q))
    expected = np.sqrt(80) * values[:6]
    np.testing.assert_allclose(np.abs(out), np.abs(p[:, :6] * expected), atol=1e-7)
    np.testing.assert_allclose(np.abs(into), np.abs(q_t[:6].T * expected), atol=1e-7)
    again = LinkColumns.from_state(columns.state())
    np.testing.assert_array_equal(again.transform(*known_links(graph, graph.ids))[0], out)


def test_links_are_matched_by_id():
    graph = make_graph()
    order = np.random.default_rng(1).permutation(graph.n_nodes)
    links = known_links(graph.subgraph(order), graph.ids)
    np.testing.assert_allclose(links.out.toarray(), graph.adjacency.toarray()[order])
    np.testing.assert_allclose(links.into.toarray(), graph.adjacency.toarray().T[order])


def test_nodes_that_are_all_unknown_are_refused_or_have_no_links():
    other = Graph(np.eye(3), ids=["x", "y", "z"])
    with pytest.raises(GraphError, match="none of the graph's nodes is known"):
        known_links(other, make_graph().ids)
    links = known_links(other, make_graph().ids, required=False)
    assert links.out.shape == (3, 80)
    assert links.out.nnz == links.into.nnz == 0


def test_nodes_without_ids_are_known_by_position_in_a_graph_of_the_same_size_only():
    plain = Graph(make_graph().adjacency)
    assert known_links(plain, plain.ids).out.nnz == plain.adjacency.nnz
    part = Graph(plain.adjacency[:10][:, :10])
    with pytest.raises(GraphError, match="none of the graph's nodes is known"):
        known_links(part, plain.ids)
    assert known_links(plain.subgraph(range(10)), plain.ids).out.nnz == part.adjacency.nnz
