"""Graph: what it holds, what it refuses, and the ways in and out."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from hencler import Graph, HeNCler
from hencler._errors import AttributeDataError, GraphError, HenclerError
from hencler._graph import as_graph, row_blocks
from hencler.baselines import KMeans

PATH = np.array([[0, 1, 0], [0, 0, 2], [0, 0, 0]])  # 0 -> 1 -> 2


# --- what it holds ---------------------------------------------------------------------------


def test_counts_of_a_small_graph():
    graph = Graph(PATH, np.eye(3), y=["a", "b", "a"], ids=["u", "v", "w"], name="path")
    assert (graph.n_nodes, graph.n_edges, graph.n_attributes) == (3, 2, 3)
    assert (graph.n_self_loops, graph.n_isolated) == (0, 0)
    assert graph.directed
    assert graph.ids.tolist() == ["u", "v", "w"]
    assert repr(graph) == "Graph(path: 3 nodes, 2 directed edges, 3 dense attributes)"


def test_undirected_edges_count_once_and_loops_too():
    edges = np.array([[1.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]])
    graph = Graph(edges)
    assert not graph.directed
    assert graph.n_edges == 3  # {0, 1} and two loops
    assert graph.n_self_loops == 2
    assert graph.n_isolated == 2  # node 2 has only its loop, node 3 has nothing
    assert repr(graph) == "Graph(4 nodes, 3 undirected edges, no attributes)"


def test_duplicate_edges_add_up():
    edges = sp.coo_array(([1.0, 2.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    graph = Graph(edges)
    assert graph.adjacency.toarray().tolist() == [[0, 3], [0, 0]]
    assert graph.n_edges == 1  # the explicit zero is no edge


@pytest.mark.parametrize(
    "kind", ["csr_array", "csr_matrix", "csc_matrix", "coo_array", "lil_array"]
)
def test_any_sparse_format_gives_the_same_graph(kind):
    graph = Graph(getattr(sp, kind)(PATH))
    assert np.array_equal(graph.adjacency.toarray(), PATH)
    assert graph.adjacency.dtype == np.float64
    assert isinstance(graph.adjacency, sp.csr_array)


def test_boolean_edges_weigh_one():
    assert Graph(PATH > 0).adjacency.toarray().tolist() == (PATH > 0).astype(float).tolist()


def test_users_matrix_is_not_changed():
    matrix = sp.csr_array(([1.0, 2.0, 0.0], ([0, 0, 1], [1, 1, 2])), shape=(3, 3))
    unsorted = sp.csr_array(
        (np.array([1.0, 2.0, 3.0]), np.array([2, 1, 2]), np.array([0, 3, 3, 3])), shape=(3, 3)
    )
    for given in (matrix, unsorted):
        before = (given.data.copy(), given.indices.copy(), given.indptr.copy())
        Graph(given, directed=False)
        for old, new in zip(before, (given.data, given.indices, given.indptr)):
            assert np.array_equal(old, new)
    assert Graph(unsorted).adjacency.toarray()[0].tolist() == [0, 2, 4]


def test_directed_false_takes_the_larger_weight():
    graph = Graph(np.array([[0, 1], [5, 0]]), directed=False)
    assert graph.adjacency.toarray().tolist() == [[0, 5], [5, 0]]
    assert not graph.directed


def test_symmetric_edges_may_still_be_directed():
    graph = Graph(np.array([[0, 1], [1, 0]]), directed=True)
    assert graph.directed
    assert graph.n_edges == 2


def test_no_edges_with_attributes():
    graph = Graph(sp.csr_array((3, 3)), np.eye(3))
    assert (graph.n_edges, graph.n_isolated, graph.directed) == (0, 3, False)


def test_default_ids_are_positions():
    graph = Graph(PATH)
    assert not graph.has_ids
    assert graph.ids.tolist() == [0, 1, 2]


def test_attributes_become_floats_but_keep_their_kind(tmp_path):
    assert Graph(PATH, np.eye(3, dtype=int)).x.dtype == np.float64
    assert Graph(PATH, np.eye(3, dtype=np.float32)).x.dtype == np.float32
    sparse = Graph(PATH, sp.coo_matrix(np.eye(3, dtype=np.int8))).x
    assert isinstance(sparse, sp.csr_array)
    assert sparse.dtype == np.float64
    assert repr(Graph(PATH, sparse)).endswith("3 sparse attributes)")


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_memory_map_stays_one(tmp_path, dtype):
    np.save(tmp_path / "x.npy", np.eye(3, dtype=dtype))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    graph = Graph(PATH, mapped)
    assert graph.x is mapped
    assert graph.without_labels().x is mapped
    assert graph.to_undirected().x is mapped


def test_memory_map_is_checked_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("hencler._graph._BLOCK_ENTRIES", 4)
    x = np.ones((7, 2))
    x[5, 1] = np.inf
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(AttributeDataError, match="node 5, column 1"):
        Graph(np.zeros((7, 7)), np.load(tmp_path / "x.npy", mmap_mode="r"))


def test_row_blocks_cover_every_row_once(monkeypatch):
    monkeypatch.setattr("hencler._graph._BLOCK_ENTRIES", 10)
    rows = [i for part in row_blocks(11, 4) for i in range(part.start, part.stop)]
    assert rows == list(range(11))
    assert len(list(row_blocks(3, 1000))) == 3


# --- other graphs made from it ---------------------------------------------------------------


def test_without_labels_shares_everything_else():
    graph = Graph(PATH, np.eye(3), y=[0, 1, 0], ids=[5, 6, 7])
    blind = graph.without_labels()
    assert blind.y is None
    assert graph.y is not None
    assert blind.x is graph.x
    assert blind.adjacency is graph.adjacency
    assert blind.ids.tolist() == [5, 6, 7]


def test_to_undirected():
    graph = Graph(PATH)
    other = graph.to_undirected()
    assert np.array_equal(other.adjacency.toarray(), np.maximum(PATH, PATH.T))
    assert not other.directed
    assert graph.directed
    assert other.to_undirected() is other


@pytest.mark.parametrize("nodes", [[2, 1], [False, True, True]])
def test_subgraph(nodes):
    graph = Graph(PATH, sp.csr_array(np.eye(3)), y=["a", "b", "c"], ids=["u", "v", "w"])
    part = graph.subgraph(nodes)
    index = np.flatnonzero(nodes) if isinstance(nodes[0], bool) else np.array(nodes)
    assert np.array_equal(part.adjacency.toarray(), PATH[np.ix_(index, index)])
    assert part.ids.tolist() == [["u", "v", "w"][i] for i in index]
    assert part.y.tolist() == [["a", "b", "c"][i] for i in index]
    assert np.array_equal(part.x.toarray(), np.eye(3)[index])


def test_links_of_a_subgraph_are_sorted_in_every_order():
    rng = np.random.default_rng(0)
    part = Graph(rng.random((30, 30)) < 0.3).subgraph(rng.permutation(30)).adjacency
    for start, stop in pairwise(part.indptr):
        assert np.all(np.diff(part.indices[start:stop]) > 0)


# --- edge lists and biadjacency --------------------------------------------------------------


def test_edge_list_sorts_the_nodes():
    graph = Graph.from_edge_list(["b", "c"], ["a", "b"], [2, 3])
    assert graph.ids.tolist() == ["a", "b", "c"]
    assert graph.adjacency.toarray().tolist() == [[0, 0, 0], [2, 0, 0], [0, 3, 0]]


def test_edge_list_keeps_the_order_and_the_isolated_nodes_given():
    graph = Graph.from_edge_list([7, 7], [3, 3], nodes=[9, 7, 3], y=[0, 1, 2])
    assert graph.ids.tolist() == [9, 7, 3]
    assert graph.adjacency.toarray()[1, 2] == 2  # the edge is there twice
    assert graph.n_isolated == 1


def test_edge_list_of_numbers_and_names_compares_names():
    graph = Graph.from_edge_list([1, 2], ["x", "1"])
    assert graph.ids.tolist() == ["1", "2", "x"]
    graph = Graph.from_edge_list([1], [2], nodes=["2", "1"])
    assert graph.ids.tolist() == ["2", "1"]


def test_edge_list_of_any_integer_type_keeps_integers():
    graph = Graph.from_edge_list([0, 1], [1, 2], nodes=np.arange(3, dtype=np.uint32))
    assert graph.ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize("nodes", [["a", "b"], [0, 1]])
def test_edge_list_without_edges(nodes):
    graph = Graph.from_edge_list([], [], nodes=nodes, x=np.eye(2))
    assert graph.n_edges == 0
    assert graph.ids.tolist() == nodes


def test_biadjacency_points_from_rows_to_columns():
    links = np.array([[1, 0, 2], [0, 3, 0]])
    graph = Graph.from_biadjacency(links)
    assert graph.directed
    assert graph.ids.tolist() == ["row:0", "row:1", "col:0", "col:1", "col:2"]
    assert np.array_equal(graph.adjacency.toarray()[:2, 2:], links)
    assert graph.adjacency.sum() == 6
    named = Graph.from_biadjacency(links, row_ids=["r", "s"], col_ids=[1, 2, 3])
    assert named.ids.tolist() == ["r", "s", "1", "2", "3"]


# --- networkx --------------------------------------------------------------------------------


def test_networkx_there_and_back(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    edges = np.triu(rng.random((6, 6)) < 0.4) * rng.random((6, 6))
    for directed in (True, False):
        graph = Graph(
            edges, rng.random((6, 2)), ids=list("abcdef"), y=[0, 1] * 3, directed=directed
        )
        back = Graph.from_networkx(graph.to_networkx())
        assert back.directed == directed
        assert np.array_equal(back.adjacency.toarray(), graph.adjacency.toarray())
        assert np.array_equal(back.x, graph.x)
        assert back.ids.tolist() == graph.ids.tolist()
        assert back.y.tolist() == graph.y.tolist()
        assert back.attribute_names == ("x[0]", "x[1]")


def test_networkx_labels_never_become_attributes():
    graph = Graph(PATH, y=[0, 1, 2])
    back = as_graph(graph.to_networkx())
    assert back.x is None
    with_own_label = nx.path_graph(2)
    nx.set_node_attributes(with_own_label, {0: 3, 1: 4}, "kind")
    nx.set_node_attributes(with_own_label, {0: 1.5, 1: 2.5}, "size")
    graph = Graph.from_networkx(with_own_label, label="kind")
    assert graph.attribute_names == ("size",)
    assert graph.y.tolist() == [3, 4]


def test_networkx_sparse_attributes_come_out_dense():
    graph = Graph(PATH, sp.csr_array(np.eye(3)))
    assert np.array_equal(graph.to_networkx().nodes[1]["x"], [0, 1, 0])


def test_networkx_multigraph_adds_up():
    multi = nx.MultiDiGraph()
    multi.add_edge("a", "b", weight=2)
    multi.add_edge("a", "b", weight=3)
    multi.add_edge("b", "b")
    assert Graph.from_networkx(multi).adjacency.toarray().tolist() == [[0, 5], [0, 1]]
    assert Graph.from_networkx(multi, weight=None).adjacency.toarray().tolist() == [[0, 2], [0, 1]]
    undirected = nx.MultiGraph([(0, 1), (0, 1), (1, 2)])
    graph = Graph.from_networkx(undirected)
    assert not graph.directed
    assert graph.adjacency.toarray().tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]


def test_networkx_parallel_undirected_edges_in_either_order_add_up():
    multi = nx.MultiGraph()
    multi.add_edge(1, 0)
    multi.add_edge(0, 1)
    multi.add_nodes_from([2])
    assert Graph.from_networkx(multi).adjacency.toarray()[0, 1] == 2


def test_networkx_odd_nodes_and_numpy_nodes():
    assert Graph.from_networkx(nx.Graph([((0, 1), "a")])).ids.tolist() == ["(0, 1)", "a"]
    assert Graph.from_networkx(nx.Graph([(np.int64(4), np.int64(5))])).ids.tolist() == [4, 5]


def test_networkx_errors():
    graph = nx.path_graph(2)
    graph.nodes[0]["a"] = 1.0
    with pytest.raises(AttributeDataError, match="'a' is missing or not a number"):
        Graph.from_networkx(graph)
    graph.nodes[1]["a"] = [1.0, 2.0]
    with pytest.raises(AttributeDataError, match="different lengths"):
        Graph.from_networkx(graph)
    graph.nodes[1]["a"] = "text"
    with pytest.raises(AttributeDataError, match="node 1"):
        Graph.from_networkx(graph, attributes=["a"])
    with pytest.raises(GraphError, match="the label 'b' is missing"):
        Graph.from_networkx(nx.path_graph(2), label="b")
    with pytest.raises(GraphError, match="weight is -1"):
        Graph.from_networkx(nx.Graph([(0, 1, {"weight": -1})]))
    for weight in ("heavy", None, [1]):
        with pytest.raises(GraphError, match="is not a number"):
            Graph.from_networkx(nx.Graph([(0, 1, {"weight": weight})]))
    with pytest.raises(GraphError, match="no nodes"):
        Graph.from_networkx(nx.Graph())


# --- PyG ---------------------------------------------------------------------------------------


def test_pyg_there_and_back():
    graph = Graph(PATH, sp.csr_array(np.eye(3)), y=["b", "a", "b"])
    data = graph.to_pyg()
    assert data.num_nodes == 3
    assert data.edge_index.tolist() == [[0, 1], [1, 2]]
    back = Graph.from_pyg(data, name="back")
    assert np.array_equal(back.adjacency.toarray(), PATH)
    assert np.array_equal(back.x, np.eye(3))
    assert back.y.tolist() == [1, 0, 1]
    assert back.name == "back"


def test_pyg_weights_from_edge_attr_and_sparse_x():
    index = torch.tensor([[0, 0, 1], [1, 1, 0]])
    data = Data(edge_index=index, edge_attr=torch.tensor([[1.0], [2.0], [4.0]]), num_nodes=3)
    assert Graph.from_pyg(data).adjacency.toarray()[:2, :2].tolist() == [[0, 3], [4, 0]]
    data = Data(edge_index=index, edge_attr=torch.ones(3, 2), x=torch.eye(3).to_sparse())
    graph = Graph.from_pyg(data)
    assert graph.adjacency.toarray()[0, 1] == 2  # edge vectors are no weights
    assert np.array_equal(graph.x, np.eye(3))


def test_pyg_errors():
    with pytest.raises(GraphError, match="no edge_index"):
        Graph.from_pyg(Data(x=torch.ones(2, 2)))
    with pytest.raises(GraphError, match="node 5 does not exist, there are 2 nodes"):
        Graph.from_pyg(Data(edge_index=torch.tensor([[0], [5]]), num_nodes=2))
    with pytest.raises(GraphError, match="node positions of type float"):
        Graph.from_pyg(Data(edge_index=torch.ones(2, 1), num_nodes=2))
    bad = Data(edge_index=torch.tensor([[0], [1]]), edge_weight=torch.tensor([-1.0]), num_nodes=2)
    with pytest.raises(GraphError, match=r"edge number 0 \(0 -> 1\)"):
        Graph.from_pyg(bad)


# --- as_graph ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["edges.csv", Path("edges.csv")])
def test_the_name_of_a_file_is_no_graph(name):
    for fit in (HeNCler(2).fit, KMeans(2).fit, as_graph):
        with pytest.raises(GraphError, match=r"'edges.csv' is the name of a file.* read_graph"):
            fit(name)


def test_as_graph_accepts_every_kind():
    graph = Graph(PATH, np.eye(3))
    assert as_graph(graph) is graph
    assert as_graph(graph.to_networkx()).n_edges == 2
    assert as_graph(graph.to_pyg()).n_edges == 2
    assert as_graph(np.eye(3), PATH).n_edges == 2
    assert as_graph(sp.csr_array(np.eye(3)), sp.csr_array(PATH)).n_edges == 2
    assert as_graph(np.eye(3), [[0, 1], [1, 2]]).n_edges == 2
    assert as_graph([[1.0, 2.0], [3.0, 4.0]]).n_edges == 0
    # Two nodes: a 2 x 2 array is a matrix, not two edges.
    assert as_graph(np.eye(2), np.array([[0, 1], [0, 0]])).adjacency.toarray()[0, 1] == 1


@pytest.mark.parametrize(
    ("x", "edges", "match"),
    [
        (Graph(PATH), PATH, "beside a Graph"),
        (np.eye(3), np.eye(4), r"shape \(4, 4\) for 3 nodes"),
        (np.eye(3), [[0, 1], [1, 7]], "node 7 does not exist"),
        (np.eye(3), [[0.0, 1.0, 1.0, 0.0], [1.0, 2.0, 0.0, 0.0]], "node positions of type float64"),
    ],
)
def test_as_graph_refuses(x, edges, match):
    with pytest.raises(GraphError, match=match):
        as_graph(x, edges)


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"edges": np.array([["a", "b"], ["c", "d"]])}, "are not numbers"),
        ({"edges": np.ones((2, 3))}, r"shape \(2, 3\)"),
        ({"edges": np.ones(3)}, r"shape \(3,\)"),
        ({"edges": np.ones((0, 0))}, "no nodes"),
        ({"edges": np.eye(2, dtype=complex)}, "not numbers"),
        ({"edges": sp.csr_array(np.eye(2, dtype=complex))}, "not real numbers"),
        ({"edges": np.array([[0, -1.0], [0, 0]])}, r"weight is -1.0"),
        ({"edges": np.array([[0, np.nan], [0, 0]])}, "weight is nan"),
        ({"edges": sp.csr_array(np.array([[0, np.inf], [0, 0]]))}, "weight is inf"),
        ({"edges": np.eye(2), "ids": ["a", "a"]}, "'a' occurs more than once"),
        ({"edges": np.eye(2), "ids": ["a"]}, r"ids has shape \(1,\)"),
        ({"edges": np.eye(2), "ids": [0.5, 1.5]}, "node ids of type float64"),
        ({"edges": np.eye(2), "y": [0]}, r"y has shape \(1,\)"),
        ({"edges": np.eye(2), "y": [[0], [1]]}, r"y has shape \(2, 1\)"),
    ],
)
def test_graph_errors(arguments, match):
    with pytest.raises(GraphError, match=match):
        Graph(**arguments)


@pytest.mark.parametrize("kind", ["coo_array", "csr_array"])
def test_a_negative_weight_cannot_hide_in_a_sum(kind):
    data = np.array([-1.0, 2.0])
    if kind == "coo_array":
        edges = sp.coo_array((data, ([0, 0], [1, 1])), shape=(2, 2))
    else:
        edges = sp.csr_array((data, np.array([1, 1]), np.array([0, 2, 2])), shape=(2, 2))
    with pytest.raises(GraphError, match="weight is -1"):
        Graph(edges)


@pytest.mark.parametrize(
    ("x", "match"),
    [
        (np.ones(3), "1 dimension"),
        (np.ones((2, 2)), "2 rows of attributes for 3 nodes"),
        (np.ones((3, 0)), "no column"),
        (np.array([["a"], ["b"], ["c"]]), "not real numbers"),
        (np.array([[1.0], [np.nan], [2.0]]), "node 1, column 0: the attribute is nan"),
        (sp.csr_array(np.array([[0.0, 0], [0, 0], [0, -np.inf]])), "node 2, column 1"),
        (np.eye(3, dtype=complex), "not real numbers"),
    ],
)
def test_attribute_errors(x, match):
    with pytest.raises(AttributeDataError, match=match):
        Graph(PATH, x)


def test_attribute_names_must_fit():
    assert Graph(PATH, np.eye(3), attribute_names="abc").attribute_names == ("a", "b", "c")
    with pytest.raises(AttributeDataError, match="2 attribute names for 3 columns"):
        Graph(PATH, np.eye(3), attribute_names=["a", "b"])


def test_edge_list_errors():
    with pytest.raises(GraphError, match="2 sources for 1 targets"):
        Graph.from_edge_list([0, 1], [1])
    with pytest.raises(GraphError, match="target 'c' is not among the 2 nodes"):
        Graph.from_edge_list(["a", "a"], ["b", "c"], nodes=["a", "b"])
    with pytest.raises(GraphError, match="source '5' is not among"):
        Graph.from_edge_list([5], [1], nodes=[1, 2])
    with pytest.raises(GraphError, match="weights has shape"):
        Graph.from_edge_list([0], [1], [1, 2])
    with pytest.raises(GraphError, match="edge number 1"):
        Graph.from_edge_list([0, 0], [1, 1], [1, -0.5])
    with pytest.raises(GraphError, match="node ids of type"):
        Graph.from_edge_list([0.5], [1.5])
    with pytest.raises(GraphError, match="no nodes"):
        Graph.from_edge_list([], [])


def test_biadjacency_errors():
    with pytest.raises(GraphError, match="weight is -1"):
        Graph.from_biadjacency(np.array([[-1.0]]))
    with pytest.raises(GraphError, match="more than once"):
        Graph.from_biadjacency(np.array([[1.0]]), row_ids=["a"], col_ids=["a"])


def test_errors_are_values_errors_and_survive_pickling():
    with pytest.raises(GraphError) as caught:
        Graph(np.ones((2, 3)))
    assert isinstance(caught.value, HenclerError)
    assert isinstance(caught.value, ValueError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.remedy == caught.value.remedy
