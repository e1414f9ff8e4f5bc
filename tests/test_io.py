"""Files in and out: every format, every fault with its file and line, and arbitrary bytes."""

from __future__ import annotations

import contextlib
import io as stdlib_io
import os
import warnings
import zipfile
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hencler import Graph, HenclerError, HenclerWarning
from hencler._errors import (
    AttributeDataError,
    FileFormatError,
    GraphError,
    MissingExtraError,
    ParameterError,
    WriteError,
)
from hencler.io import (
    align_labels,
    atomic_write,
    read_graph,
    read_labels,
    write_edge_list,
    write_labels,
    write_npz,
)

DATA = Path(__file__).parent / "data"
FUZZ = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def without_pyarrow(patch: pytest.MonkeyPatch) -> None:
    def missing(module, purpose):
        raise MissingExtraError(f"{purpose} needs {module}")

    for module in ("_text", "_parquet"):
        patch.setattr(f"hencler.io.{module}.optional_import", missing)


@pytest.fixture(params=["pyarrow", "csv"])
def engine(request, monkeypatch):
    """Run the test by the fast reader and by the one that needs no extra package."""
    if request.param == "csv":
        without_pyarrow(monkeypatch)
    return request.param


def same(a: Graph, b: Graph) -> None:
    assert a.ids.tolist() == b.ids.tolist()
    assert a.directed == b.directed
    assert np.array_equal(a.adjacency.toarray(), b.adjacency.toarray())
    assert (a.x is None) == (b.x is None)
    if a.x is not None:
        dense = [x.toarray() if sp.issparse(x) else np.asarray(x) for x in (a.x, b.x)]
        assert np.array_equal(*dense)
    assert (a.y is None) == (b.y is None)
    if a.y is not None:
        assert a.y.tolist() == b.y.tolist()


# --- edge lists ------------------------------------------------------------------------------


def test_edge_list(engine):
    graph = read_graph(DATA / "edges.csv")
    assert graph.ids.tolist() == ["ann", "bob", "cid", "dee"]
    assert graph.adjacency.toarray().tolist() == [
        [0, 2, 0, 0],
        [0, 0, 2, 0],
        [1, 0, 0, 0],
        [0, 0, 0, 1],
    ]
    assert graph.directed
    assert graph.name == "edges"


def test_edge_list_with_attributes(engine):
    graph = read_graph(DATA / "edges.csv", features=DATA / "nodes.csv", label="team")
    assert graph.ids.tolist() == ["cid", "ann", "bob", "dee", "eve"]
    assert graph.attribute_names == ("age", "height")
    assert graph.x[2].tolist() == [22, 1.6]
    assert graph.y.tolist() == ["red", "blue", "red", "blue", "red"]
    assert graph.adjacency[1, 2] == 2  # ann -> bob, twice
    assert graph.n_isolated == 2  # dee has only a loop, eve nothing


@pytest.mark.parametrize(
    ("name", "content", "ids"),
    [
        ("e.csv", "1,2\n2,3\n", [1, 2, 3]),
        ("e.csv", "a,b\nb,c\n", ["a", "b", "c"]),
        ("e.csv", "a,b", ["a", "b"]),
        ("e.csv", "from,to\n10,9\n", [9, 10]),
        ("e.csv", "alpha,beta\n1,2\n", [1, 2]),  # words above integers are a header
        ("e.csv", "Target,Source\n1,2\n", [1, 2]),
        ("e.csv", "\ufeffsource,target\n1,2\n", [1, 2]),
        ("e.csv", "1, 2\r\n2, 3\r\n", [1, 2, 3]),
        ("e.csv", "1,2\n\n  \n2,3\n\n", [1, 2, 3]),
        ("e.csv", "007,8\n", ["007", "8"]),
        ("e.csv", "-1,2\n", [-1, 2]),
        ("e.csv", "1,99999999999999999999999\n", ["1", "99999999999999999999999"]),
        ("e.csv", '"a,b","c ""d"""\n', ["a,b", 'c "d"']),
        ("e.csv", '"a\nb",c\n', ["a\nb", "c"]),
        ("e.csv", "é,日本\n", ["é", "日本"]),
        ("e.tsv", "source\ttarget\tweight\nx y\tz\t1\n", ["x y", "z"]),
        ("E.CSV", "1,2\n", [1, 2]),
        ("e.txt", "# from to\n% more\n1 2\n2\t3\n", [1, 2, 3]),
    ],
)
def test_edge_list_variants(engine, put, name, content, ids):
    assert read_graph(put(name, content)).ids.tolist() == ids


def test_columns_are_found_by_name(engine, put):
    graph = read_graph(put("e.csv", "weight,to,kind,from\n2.5,b,x,a\n"))
    assert graph.ids.tolist() == ["a", "b"]
    assert graph.adjacency.toarray().tolist() == [[0, 2.5], [0, 0]]


def test_third_column_without_header_is_the_weight(engine, put):
    assert read_graph(put("e.csv", "a,b,3\n")).adjacency[0, 1] == 3
    # Under a header it is the weight only if it says so.
    assert read_graph(put("e.csv", "s,t,year\na,b,1999\n")).adjacency[0, 1] == 1


def test_symmetric_edge_list_is_undirected(engine, put):
    path = put("e.csv", "1,2\n2,1\n")
    assert not read_graph(path).directed
    assert read_graph(path, directed=True).directed
    assert not read_graph(put("e.csv", "1,2\n"), directed=False).directed


def test_both_readers_agree_on_random_edges(put, monkeypatch, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    lines = [f"n{u},{v},{w!r}" for u, v, w in zip(*rng.integers(0, 50, (2, 500)), rng.random(500))]
    path = put("e.csv", "\n".join(lines))
    fast = read_graph(path)
    without_pyarrow(monkeypatch)
    same(fast, read_graph(path))


def test_without_pyarrow(put, monkeypatch):
    without_pyarrow(monkeypatch)
    assert read_graph(put("e.csv", "1,2\n")).n_edges == 1
    with pytest.raises(MissingExtraError):
        read_graph(put("e.parquet", b"PAR1"))


@pytest.mark.parametrize(
    ("content", "found"), [("a;b\n", "semicolons"), ("a\tb\n", "tabs, which is for a .tsv file")]
)
def test_another_separator_is_recognised(put, content, found):
    with pytest.raises(FileFormatError, match=f"by commas; they seem to be separated by {found}"):
        read_graph(put("e.csv", content))
    with pytest.raises(FileFormatError, match="by tabs; they seem to be separated by commas"):
        read_graph(put("e.tsv", "a,b\n"))
    with pytest.raises(FileFormatError, match=r"ids and attributes.*semicolons"):
        read_graph(put("f.csv", "a,b\n"), features=put("n.csv", "id;kg\na;1\nb;2\n"))


def test_numbers_that_are_not_taken_for_weights_are_named(put):
    with pytest.warns(HenclerWarning, match="column 'share' is not used .* name it 'weight'"):
        graph = read_graph(put("e.csv", "predator,prey,share\nfox,mouse,0.5\nowl,mouse,0.7\n"))
    assert graph.adjacency.data.tolist() == [1, 1]
    for head in ("source,target,weight", "source,target,year", "source,target,edge_id"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read_graph(put("f.csv", head + "\nfox,mouse,5\n"))
            read_graph(put("g.csv", "source,target,kind\nfox,mouse,eats\n"))


@pytest.mark.parametrize(
    ("content", "error", "place", "problem"),
    [
        ("a,b,1\nc,d\n", FileFormatError, ":2", "2 fields, but 3 in the first line"),
        ("a,b\nc,d,e\n", FileFormatError, ":2", "3 fields, but 2"),
        ("a,b,1\nc,d,-2\n", GraphError, ":2, column 'weight'", "the weight is -2"),
        ("s,t,w\na,b,1\n\nc,d,nan\n", GraphError, ":4, column 'w'", "the weight is nan"),
        ("a,b,1\nc,d,inf\n", GraphError, ":2, column 'weight'", "the weight is inf"),
        ("a,b,1\nc,d,much\n", FileFormatError, ":2, column 'weight'", "'much' is not a number"),
        ("a,b,1\nc,d,1_0\n", FileFormatError, ":2, column 'weight'", "'1_0' is not a number"),
        ("a,b,1\nc,d,\n", FileFormatError, ":2, column 'weight'", "the cell is empty"),
        ("a,b\n,d\n", FileFormatError, ":2", "the node id is empty"),
        ('a,b\n"c,d\n', FileFormatError, ":2", "cannot be split"),
        ("a\nb\n", FileFormatError, ":1", "one field only"),
        ("a;b\n", FileFormatError, ":1", "one field only"),
        (b"a,b\nc,caf\xe9\n", FileFormatError, ":2", r"byte 9 \(0xe9\) is not UTF-8"),
        (b"\x00\x01\x02", FileFormatError, "", "not text"),
        ("a,b\n" + "x" * 2000 + ",c\n", FileFormatError, ":2", "2000 characters"),
        ("source,target\n", FileFormatError, "", "no edge"),
        ("", FileFormatError, "", "empty"),
        ("\n\n", FileFormatError, "", "no line has any data"),
    ],
)
def test_faults_of_an_edge_list(engine, put, content, error, place, problem):
    path = put("e.csv", content)
    with pytest.raises(error, match=problem) as caught:
        read_graph(path)
    assert caught.value.place == f"{path}{place}"
    assert caught.value.remedy


def test_zero_byte_beyond_the_first_look(engine, put):
    path = put("e.csv", "a,b\n" * 40_000 + "c\0,d\n")
    with pytest.raises(FileFormatError, match="zero byte") as caught:
        read_graph(path)
    assert caught.value.place == f"{path}:40001"


def test_an_edge_to_an_unknown_node_names_its_line(engine, put):
    edges = put("e.csv", "source,target\n1,2\n2,9\n")
    nodes = put("n.csv", "id,a\n1,0\n2,1\n")
    with pytest.raises(GraphError, match=r"the node '9' is not among the nodes of") as caught:
        read_graph(edges, features=nodes)
    assert caught.value.place == f"{edges}:3"


# --- attribute tables ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "ids", "names"),
    [
        ("id,a,b\n1,0.5,1\n2,3,4\n", [1, 2], ("a", "b")),
        ("a,node,b\n0.5,1,1\n3,2,4\n", [1, 2], ("a", "b")),
        ("who,a,b\n1,0.5,1\n2,3,4\n", [1, 2], ("a", "b")),
        ("1,0.5,1\n2,3,4\n", [1, 2], None),
        ("id,0,1\n1,0.5,1\n2,3,4\n", [1, 2], ("0", "1")),
        ('id,"a,1",b\n1,0.5,1\n2,3,4\n', [1, 2], ("a,1", "b")),
    ],
)
def test_attribute_table_variants(engine, put, content, ids, names):
    graph = read_graph(put("e.csv", "1,2\n"), features=put("n.csv", content))
    assert graph.ids.tolist() == ids
    assert graph.x.tolist() == [[0.5, 1], [3, 4]]
    assert graph.attribute_names == names


def test_table_of_ids_alone(engine, put):
    graph = read_graph(put("e.csv", "1,2\n"), features=put("n.csv", "id\n3\n2\n1\n"))
    assert graph.ids.tolist() == [3, 2, 1]
    assert graph.x is None


def test_numbers_and_names_meet_as_names(engine, put):
    graph = read_graph(put("e.csv", "1,2\n"), features=put("n.csv", "id,a\n1,0\n2,1\nx,2\n"))
    assert graph.ids.tolist() == ["1", "2", "x"]
    assert graph.n_edges == 1


@pytest.mark.parametrize(
    ("content", "error", "place", "problem"),
    [
        ("id,a\n1,0\n2,nan\n", AttributeDataError, ":3, column 'a'", "attribute is nan"),
        ("id,a\n1,0\n\n2,-inf\n", AttributeDataError, ":4, column 'a'", "attribute is -inf"),
        ("id,a\n1,0\n2,red\n", FileFormatError, ":3, column 'a'", "'red' is not a number"),
        ("id,a\n1,0\n2,\n", FileFormatError, ":3, column 'a'", "the cell is empty"),
        ("1,0\n2,x\n", FileFormatError, ":2, column '2'", "'x' is not a number"),
        ("id,a\n1,0\n2,1\n1,5\n", FileFormatError, ":4", "'1' occurs more than once"),
        ("id,a\n1,0\n2\n", FileFormatError, ":3", "1 fields, but 2"),
        ("id,a\n,0\n", FileFormatError, ":2", "node id is empty"),
        ("id,a\n", FileFormatError, "", "no node"),
        (b"id,a\n\xff,1\n", FileFormatError, ":2", "not UTF-8"),
    ],
)
def test_faults_of_an_attribute_table(engine, put, content, error, place, problem):
    path = put("n.csv", content)
    with pytest.raises(error, match=problem) as caught:
        read_graph(put("e.csv", "1,2\n"), features=path)
    assert caught.value.place == f"{path}{place}"
    assert caught.value.remedy


def test_label_column(engine, put):
    edges = put("e.csv", "1,2\n")
    nodes = put("n.csv", "id,kind\n1,4\n2,5\n")
    graph = read_graph(edges, features=nodes, label="kind")
    assert graph.y.tolist() == [4, 5]
    assert graph.x is None
    with pytest.raises(FileFormatError, match="Did you mean 'kind'"):
        read_graph(edges, features=nodes, label="kinds")
    with pytest.raises(FileFormatError, match="the label is empty") as caught:
        read_graph(edges, features=put("m.csv", "id,kind\n1,4\n2,\n"), label="kind")
    assert caught.value.place.endswith("m.csv:3, column 'kind'")
    with pytest.raises(ParameterError, match="an edge list has no node columns"):
        read_graph(edges, label="kind")


def test_npy_attributes_stay_on_disk(put, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(8.0).reshape(4, 2))
    graph = read_graph(put("e.csv", "3,1\n"), features=tmp_path / "x.npy")
    assert isinstance(graph.x, np.memmap)
    assert graph.ids.tolist() == [0, 1, 2, 3]  # row i is node i
    assert graph.adjacency[3, 1] == 1
    with pytest.raises(GraphError, match="the node '4' is not among rows 0 to 3") as caught:
        read_graph(put("f.csv", "1,2\n1,4\n"), features=tmp_path / "x.npy")
    assert caught.value.place.endswith("f.csv:2")


def test_npy_attributes_of_named_nodes_are_sorted(put, tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1.0], [2.0]]))
    graph = read_graph(put("e.csv", "b,a\n"), features=tmp_path / "x.npy")
    assert graph.ids.tolist() == ["a", "b"]
    with pytest.raises(AttributeDataError, match="2 rows for 3 nodes"):
        read_graph(put("f.csv", "b,a\nb,c\n"), features=tmp_path / "x.npy")


def test_npy_faults(put, tmp_path):
    edges = put("e.csv", "0,1\n")
    np.save(tmp_path / "flat.npy", np.ones(3))
    np.save(tmp_path / "nan.npy", np.array([[1.0], [np.nan]]))
    np.save(tmp_path / "objects.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    for name, problem in [
        ("flat", "not a table"),
        ("nan", "the attribute is nan"),
        ("objects", "Python objects"),
    ]:
        with pytest.raises(HenclerError, match=problem) as caught:
            read_graph(edges, features=tmp_path / f"{name}.npy")
        assert f"{name}.npy" in caught.value.place
    with pytest.raises(ParameterError, match="no column names"):
        read_graph(edges, features=tmp_path / "flat.npy", label="a")


def test_npz_attributes(put, tmp_path):
    edges = put("e.csv", "0,1\n")
    x = sp.random_array((2, 5), density=0.5, format="csc", rng=np.random.default_rng(0))
    sp.save_npz(tmp_path / "sparse.npz", x)
    graph = read_graph(edges, features=tmp_path / "sparse.npz")
    assert isinstance(graph.x, sp.csr_array)
    assert np.array_equal(graph.x.toarray(), x.toarray())
    np.savez(tmp_path / "dense.npz", x=np.eye(2), ids=[1, 0], kind=["a", "b"])
    graph = read_graph(edges, features=tmp_path / "dense.npz", label="kind")
    assert graph.ids.tolist() == [1, 0]
    assert graph.y.tolist() == ["a", "b"]
    np.savez(tmp_path / "none.npz", z=np.eye(2))
    with pytest.raises(FileFormatError, match="no attributes in it"):
        read_graph(edges, features=tmp_path / "none.npz")
    np.savez(tmp_path / "twice.npz", x=np.eye(2), ids=[1, 1])
    with pytest.raises(FileFormatError, match="more than once"):
        read_graph(edges, features=tmp_path / "twice.npz")


# --- parquet -----------------------------------------------------------------------------------


def parquet(path, **columns):
    pa.parquet.write_table(pa.table(columns), path)
    return path


def test_parquet(tmp_path):
    edges = parquet(tmp_path / "e.parquet", weight=[1, 2], source=["a", "b"], target=["b", "c"])
    nodes = parquet(
        tmp_path / "n.parquet", id=["c", "b", "a", "d"], v=[1.0, 2, 3, 4], kind=list("xyxy")
    )
    assert read_graph(edges).adjacency.toarray().tolist() == [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    graph = read_graph(edges, features=nodes, label="kind")
    assert graph.ids.tolist() == ["c", "b", "a", "d"]
    assert graph.x[:, 0].tolist() == [1, 2, 3, 4]
    assert graph.y.tolist() == list("xyxy")
    plain = read_graph(parquet(tmp_path / "p.parquet", p=[5, 6], q=[6, 7]))
    assert plain.ids.tolist() == [5, 6, 7]


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (
            {"source": ["a", None], "target": ["b", "c"]},
            "row 2, column 'source': the cell is empty",
        ),
        ({"source": ["a"], "target": ["b"], "weight": [-1.0]}, "row 1, column 'weight'"),
        ({"source": ["a"]}, r"1 column\(s\)"),
        ({"source": [[1]], "target": [[2]]}, "neither numbers nor text"),
        ({"source": pa.array([], pa.int64()), "target": pa.array([], pa.int64())}, "no edge"),
        ({"source": ["a", ""], "target": ["b", "c"]}, "row 2: the node id is empty"),
        ({"source": [1.5], "target": [2.5]}, "type float64"),
        (
            {"source": ["a"], "target": ["b"], "weight": ["x"]},
            "column 'weight': text where numbers",
        ),
    ],
)
def test_faults_of_parquet_edges(tmp_path, columns, problem):
    with pytest.raises(HenclerError, match=problem) as caught:
        read_graph(parquet(tmp_path / "e.parquet", **columns))
    assert "e.parquet" in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"id": ["a", "b"], "v": ["x", "y"]}, "column 'v': text where numbers"),
        ({"id": ["a", "b"], "v": [1.0, float("nan")]}, "row 2, column 'v'"),
        ({"id": ["a", "a"], "v": [1.0, 2.0]}, "row 2: the node id 'a' occurs more"),
        ({"id": [1.5, 2.5], "v": [1.0, 2.0]}, "neither integers nor strings"),
    ],
)
def test_faults_of_a_parquet_table(put, tmp_path, columns, problem):
    with pytest.raises(HenclerError, match=problem):
        read_graph(put("e.csv", "a,b\n"), features=parquet(tmp_path / "n.parquet", **columns))


# --- GraphML, GML, Matrix Market ---------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".graphml", ".gml"])
def test_networkx_formats(tmp_path, suffix):
    source = nx.DiGraph()
    source.add_node("a", size=1.5, kind="x")
    source.add_node("b", size=2.5, kind="y")
    source.add_node("c", size=3.5, kind="x")
    source.add_edge("a", "b", weight=2.0)
    path = tmp_path / f"g{suffix}"
    (nx.write_graphml if suffix == ".graphml" else nx.write_gml)(source, path)
    graph = read_graph(path, label="kind")
    assert graph.ids.tolist() == ["a", "b", "c"]
    assert graph.x[:, 0].tolist() == [1.5, 2.5, 3.5]
    assert graph.y.tolist() == ["x", "y", "x"]
    assert graph.adjacency[0, 1] == 2
    assert graph.directed
    assert not read_graph(path, directed=False).directed
    with pytest.raises(GraphError, match="the label 'colour' is missing"):
        read_graph(path, label="colour")


@pytest.mark.parametrize("suffix", [".graphml", ".gml"])
def test_networkx_formats_take_a_table(tmp_path, put, suffix):
    path = tmp_path / f"g{suffix}"
    (nx.write_graphml if suffix == ".graphml" else nx.write_gml)(nx.path_graph(3), path)
    graph = read_graph(path, features=put("n.csv", "id,a\n2,1\n1,2\n0,3\n"))
    assert graph.ids.tolist() == [2, 1, 0]
    assert not graph.directed
    with pytest.raises(GraphError, match=r"edge 1 -> 2: the node '2'|edge 2 -> 1: the node '2'"):
        read_graph(path, features=put("n.csv", "id,a\n1,2\n0,3\n"))


def test_gml_without_labels(put):
    graph = read_graph(
        put("g.gml", "graph [ node [ id 3 ] node [ id 5 ] edge [ source 3 target 5 ] ]")
    )
    assert graph.ids.tolist() == [3, 5]


def test_graphml_with_a_document_type_is_refused(put):
    with pytest.raises(FileFormatError, match="document type") as caught:
        read_graph(DATA / "bomb.graphml")
    assert caught.value.place.endswith("bomb.graphml:2")
    # Also in an encoding in which the bytes "<!DOCTYPE" do not occur.
    text = (DATA / "bomb.graphml").read_text().replace('"1.0"', '"1.0" encoding="utf-16"')
    with pytest.raises(FileFormatError, match="document type"):
        read_graph(put("wide.graphml", text.encode("utf-16")))


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("g.graphml", "<graphml><graph>", "not GraphML"),
        ("g.graphml", "not xml", "not GraphML"),
        ("g.graphml", "<graphml></graphml>", "not GraphML"),
        ("g.gml", "graph [ node [ id", "not GML"),
        ("g.gml", "\xff\xfe", "not GML"),
        ("g.gml", "graph [ ]", "no nodes"),
        ("g.gml", "a [ " * 5000, "not GML"),
        ("g.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 5\n", "announced"),
        ("g.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 9 5\n", "outside"),
        ("g.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 -5\n", "weight is -5"),
        (
            "g.mtx",
            "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 nan\n",
            "weight is nan",
        ),
        ("g.mtx", "%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 1\n", "complex"),
        ("g.mtx", "%%MatrixMarket matrix array real general\n900000 900000\n1\n", "announced"),
        (
            "g.mtx",
            "%%MatrixMarket matrix coordinate real general\n900000000 900000000 1\n1 2 1\n",
            "1800000000 nodes for 1 edges",
        ),
        ("g.mtx", "hello", "Matrix Market"),
    ],
)
def test_faults_of_graph_formats(put, name, content, problem):
    path = put(name, content)
    with pytest.raises(HenclerError, match=problem) as caught:
        read_graph(path)
    assert str(path) in str(caught.value)


def test_matrix_market(tmp_path):
    square = np.array([[0, 1.5, 0], [0, 0, 2], [0, 0, 0]])
    scipy.io.mmwrite(tmp_path / "s.mtx", sp.coo_array(square))
    graph = read_graph(tmp_path / "s.mtx")
    assert np.array_equal(graph.adjacency.toarray(), square)
    scipy.io.mmwrite(tmp_path / "u.mtx", sp.coo_array(square + square.T), symmetry="symmetric")
    assert not read_graph(tmp_path / "u.mtx").directed
    scipy.io.mmwrite(tmp_path / "r.mtx", sp.coo_array(square[:2]))
    bipartite = read_graph(tmp_path / "r.mtx")
    assert bipartite.ids.tolist() == ["row:0", "row:1", "col:0", "col:1", "col:2"]
    assert np.array_equal(bipartite.adjacency.toarray()[:2, 2:], square[:2])
    with pytest.raises(ParameterError, match="no node columns"):
        read_graph(tmp_path / "s.mtx", label="a")


def test_matrix_with_a_table_that_lacks_an_isolated_node(tmp_path, put):
    scipy.io.mmwrite(tmp_path / "m.mtx", sp.coo_array(np.diag([1.0, 1], k=1)[:2, :2] + np.eye(2)))
    scipy.io.mmwrite(
        tmp_path / "m.mtx", sp.coo_array(([1.0], ([0], [1])), shape=(3, 3)), field="real"
    )
    with pytest.raises(GraphError, match="the node '2' is not among"):
        read_graph(tmp_path / "m.mtx", features=put("n.csv", "id,a\n0,1\n1,1\n"))


# --- npz ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("directed", [True, False])
def test_npz_there_and_back(tmp_path, sparse, directed, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    edges = (rng.random((7, 7)) < 0.3) * rng.random((7, 7))
    x = rng.random((7, 3)) * (rng.random((7, 3)) < 0.5)
    graph = Graph(
        edges,
        sp.csr_array(x) if sparse else x,
        ids=list("abcdefg"),
        y=np.array(list("xyxyxyx"), dtype=object),
        directed=directed,
        attribute_names=["p", "q", "r"],
    )
    write_npz(graph, tmp_path / "g.npz")
    back = read_graph(tmp_path / "g.npz")
    same(graph, back)
    assert sp.issparse(back.x) == sparse
    assert back.attribute_names == ("p", "q", "r")
    turned = read_graph(tmp_path / "g.npz", directed=not directed)
    assert turned.directed != directed
    assert turned.y.tolist() == graph.y.tolist()


def test_npz_with_edge_index(tmp_path):
    index = np.array([[0, 0, 2], [1, 1, 0]])
    np.savez(tmp_path / "g.npz", edge_index=index)
    assert read_graph(tmp_path / "g.npz").adjacency.toarray()[0, 1] == 2
    np.savez(
        tmp_path / "g.npz",
        edge_index=index,
        edge_weight=[1, 2, 3],
        labels=[0, 1, 0, 1],
        node_names=list("abcd"),
        other=[5, 6, 7, 8],
    )
    graph = read_graph(tmp_path / "g.npz")
    assert graph.n_isolated == 1
    assert graph.adjacency.toarray()[0, 1] == 3
    assert graph.y.tolist() == [0, 1, 0, 1]
    assert graph.ids.tolist() == list("abcd")
    assert read_graph(tmp_path / "g.npz", label="other").y.tolist() == [5, 6, 7, 8]
    with pytest.raises(FileFormatError, match="Did you mean 'other'"):
        read_graph(tmp_path / "g.npz", label="othr")


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"z": np.eye(2)}, "no edges in it; its arrays are z"),
        ({"edge_index": np.eye(2)}, "edge_index is float64"),
        ({"edge_index": np.ones((3, 2), dtype=int)}, r"shape \(3, 2\)"),
        ({"edge_index": np.array([[0], [-1]])}, "column 0 of edge_index"),
        ({"edge_index": np.array([[0], [3]]), "x": np.eye(2)}, "there are 2 nodes"),
        ({"edge_index": np.array([[0], [10**12]])}, "1000000000001 nodes for 1 edges"),
        ({"edge_index": np.array([[0], [1]]), "edge_weight": [1, 2]}, "edge_weight has shape"),
        ({"edge_index": np.array([[0], [1]]), "edge_weight": [np.nan]}, "edge number 0"),
        ({"edge_index": np.array([[0], [1]]), "edge_weight": ["a"]}, "not real numbers"),
        ({"edge_index": np.array([[0], [1]]), "y": [1, 2, 3], "x": np.eye(2)}, "y has shape"),
        ({"edge_index": np.array([[0], [1]]), "ids": ["a", "a"]}, "more than once"),
        ({"edge_index": np.array([[0], [1]]), "x": np.array([[1.0], [np.inf]])}, "node 1"),
        ({"edge_index": np.array([[], []], dtype=int)}, "no nodes"),
        (
            {"adj_data": [1.0], "adj_indices": [7], "adj_indptr": [0, 1], "adj_shape": [1, 1]},
            "that can be read",
        ),
        ({"adj_indptr": [0, 1]}, "that can be read"),
        ({"edge_index": np.array([["a"], ["b"]], dtype=object)}, "pickle"),
    ],
)
def test_faults_of_npz(tmp_path, arrays, problem):
    path = tmp_path / "g.npz"
    np.savez(path, **arrays)
    with pytest.raises(HenclerError, match=problem) as caught:
        read_graph(path)
    assert str(path) in str(caught.value)


def test_npz_that_is_none(put, tmp_path):
    np.save(tmp_path / "a.npy", np.eye(2))
    for content, problem in [
        ((tmp_path / "a.npy").read_bytes(), "single array"),
        (b"PK\x03\x04 cut off", "that can be read"),
        (b"garbage", "pickle"),
    ]:
        with pytest.raises(FileFormatError, match=problem):
            read_graph(put("g.npz", content))


# --- the file itself ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("edgse.csv", r"no such file\. Did you mean edges\.csv"),
        ("nowhere/edges.csv", "no such file. Check the name"),
        ("", "this is a folder"),
        ("edges.cvs", "Did you mean .csv"),
        ("edges.doc", "Known are .csv, .tsv, .txt, .parquet, .graphml, .gml, .mtx, .npz"),
        ("bare", "names no format"),
        ("a\0b.csv", "no such file|cannot be opened"),
    ],
)
def test_no_such_graph(put, tmp_path, name, problem):
    for existing in ("edges.csv", "edges.cvs", "edges.doc", "bare"):
        put(existing, "1,2\n")
    if name.startswith("edges."):
        (tmp_path / "edges.csv").unlink()
    with pytest.raises(FileFormatError, match=problem):
        read_graph(tmp_path / name)


def test_unreadable_file(put):
    path = put("e.csv", "1,2\n")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(FileFormatError, match="cannot be opened"):
        read_graph(path)


# --- writers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("directed", [True, False])
def test_edge_list_there_and_back(tmp_path, engine, suffix, directed):
    rng = np.random.default_rng(3)
    edges = (rng.random((5, 5)) < 0.5) * rng.random((5, 5))
    edges[4] = edges[:, 4] = 0
    odd = [" a", 'b"', "c,d", "e\r\nf", "g\t"]
    graph = Graph(edges, rng.random((5, 2)), ids=odd, y=list("pqpqp"), directed=directed)
    with pytest.raises(GraphError, match="1 nodes without an edge would be lost"):
        write_edge_list(graph, tmp_path / f"e{suffix}")
    assert not (tmp_path / f"e{suffix}").exists()
    write_edge_list(graph, tmp_path / f"e{suffix}", attributes=tmp_path / f"n{suffix}")
    back = read_graph(tmp_path / f"e{suffix}", features=tmp_path / f"n{suffix}", label="label")
    same(graph, back)


def test_edge_list_of_sparse_attributes_and_of_none(tmp_path):
    graph = Graph(np.array([[0, 1], [0, 0]]), sp.csr_array(np.eye(2)))
    write_edge_list(graph, tmp_path / "e.csv", attributes=tmp_path / "n.csv")
    assert (tmp_path / "n.csv").read_text() == "id,x0,x1\n0,1.0,0.0\n1,0.0,1.0\n"
    assert (tmp_path / "e.csv").read_text() == "source,target,weight\n0,1,1.0\n"
    bare = Graph(np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]]))
    write_edge_list(bare, tmp_path / "e.csv", attributes=tmp_path / "n.csv")
    same(bare, read_graph(tmp_path / "e.csv", features=tmp_path / "n.csv"))
    with pytest.raises(FileFormatError, match=r"Use \.csv or \.tsv"):
        write_edge_list(bare, tmp_path / "e.doc", attributes=tmp_path / "n.csv")


def test_labels_there_and_back(tmp_path):
    path = tmp_path / "labels.csv"
    write_labels(path, np.array(["b", " a", "c\nd"]), np.array([2, 0, 1]))
    ids, labels = read_labels(path)
    assert ids.tolist() == ["b", " a", "c\nd"]
    assert labels.tolist() == [2, 0, 1]
    write_labels(path, [3, 1], ["x", "y"])
    assert path.read_text() == "node,cluster\n3,x\n1,y\n"
    with pytest.raises(ParameterError, match="labels for"):
        write_labels(path, [1, 2], [0])


@pytest.mark.parametrize(
    ("content", "ids", "labels"),
    [
        ("node,cluster\n1,0\n2,1\n", [1, 2], [0, 1]),
        ("1,0\n2,1\n", [1, 2], [0, 1]),
        ("1,red\n2,blue\n", [1, 2], ["red", "blue"]),
        ("class,id,other\nred,1,7\nblue,2,8\n", [1, 2], ["red", "blue"]),
        ("name,group\na,0\nb,1\n", ["a", "b"], [0, 1]),
        ("label,who\n0,a\n1,b\n", ["a", "b"], [0, 1]),
    ],
)
def test_label_table_variants(put, content, ids, labels):
    found = read_labels(put("l.csv", content))
    assert found[0].tolist() == ids
    assert found[1].tolist() == labels


def test_labels_from_parquet(tmp_path):
    path = parquet(tmp_path / "l.parquet", cluster=[1, 0], node=["a", "b"])
    ids, labels = read_labels(path)
    assert (ids.tolist(), labels.tolist()) == (["a", "b"], [1, 0])
    with pytest.raises(FileFormatError, match="are needed"):
        read_labels(parquet(tmp_path / "m.parquet", node=["a"]))


@pytest.mark.parametrize(
    ("content", "place", "problem"),
    [
        ("node,cluster\n1,0\n1,1\n", ":3", "more than once"),
        ("node,cluster\n1,\n", ":2", "the label is empty"),
        ("node,cluster\n,1\n", ":2", "node id is empty"),
        ("node,cluster\n1\n", ":2", "1 fields"),
        ("node\n1\n", ":1", "one field only"),
        ("node,cluster\n", "", "no label"),
    ],
)
def test_faults_of_labels(put, content, place, problem):
    path = put("l.csv", content)
    with pytest.raises(FileFormatError, match=problem) as caught:
        read_labels(path)
    assert caught.value.place == f"{path}{place}"


def test_align_labels():
    table = (np.array(["c", "a", "b"]), np.array([3, 1, 2]))
    assert align_labels(["a", "b", "c", "a"], table).tolist() == [1, 2, 3, 1]
    assert align_labels(np.array([7]), (np.array(["7", "x"]), np.array([5, 6]))).tolist() == [5]
    with pytest.raises(GraphError, match="2 of 3 nodes have no label, the first is 'd'"):
        align_labels(["a", "d", "e"], table)
    with pytest.raises(GraphError, match="1 of 1 nodes"):
        align_labels(["a"], (np.array([], dtype=str), np.array([])))


def test_atomic_write_replaces_only_what_is_complete(tmp_path):
    path = tmp_path / "file"
    with atomic_write(path) as handle:
        handle.write(b"old")
        assert not path.exists()

    def fail() -> None:
        with atomic_write(path, "w") as handle:
            handle.write("new")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions and links")
def test_atomic_write_keeps_permissions_and_links(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    with atomic_write(link, "w") as handle:
        handle.write("new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_atomic_write_errors(tmp_path):
    with pytest.raises(FileFormatError, match="folder"), atomic_write(tmp_path):
        pass
    with pytest.raises(WriteError, match="cannot be written"), atomic_write(tmp_path / "a/b"):
        pass
    with pytest.raises(ParameterError, match="mode"), atomic_write(tmp_path / "a", "rb"):
        pass


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@FUZZ
@given(ids=st.lists(NAMES.filter(str.strip), min_size=1, max_size=6, unique=True))
def test_any_name_comes_back(tmp_path, ids):
    graph = Graph(np.ones((len(ids), len(ids))), ids=ids)
    write_labels(tmp_path / "l.csv", graph.ids, np.arange(len(ids)))
    found, labels = read_labels(tmp_path / "l.csv")
    assert found.astype(str).tolist() == ids
    assert labels.tolist() == list(range(len(ids)))
    write_edge_list(graph, tmp_path / "e.csv")
    assert sorted(read_graph(tmp_path / "e.csv").ids.astype(str)) == sorted(ids)


# --- arbitrary bytes ---------------------------------------------------------------------------


def reads_or_refuses(path: Path, **kwargs) -> None:
    with contextlib.suppress(HenclerError):
        assert isinstance(read_graph(path, **kwargs), Graph)


CELLS = st.sampled_from(
    ["a", "b", "1", "2", "-1", "0.5", "nan", "inf", "", " ", '"', "source", "target", "weight", "é"]
)
TABLES = st.builds(
    lambda rows, end: end.join(",".join(row) for row in rows).encode(),
    st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
)


@FUZZ
@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=100).map(str.encode), TABLES))
def test_fuzz_edge_list(tmp_path, content):
    for name in ("e.csv", "e.txt"):
        (tmp_path / name).write_bytes(content)
        reads_or_refuses(tmp_path / name)


@FUZZ
@given(content=TABLES)
def test_fuzz_readers_agree(tmp_path, content):
    """The fast reader and the slow one give the same graph or the same error."""
    path = tmp_path / "e.csv"
    path.write_bytes(content)
    outcomes = []
    for slow in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if slow:
                without_pyarrow(patch)
            try:
                graph = read_graph(path)
                outcomes.append((graph.ids.tolist(), graph.adjacency.toarray().tolist()))
            except HenclerError as error:
                outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@FUZZ
@given(content=st.one_of(st.binary(max_size=100), TABLES))
def test_fuzz_tables_and_labels(tmp_path, content):
    (tmp_path / "e.csv").write_text("1,2\n")
    (tmp_path / "n.csv").write_bytes(content)
    reads_or_refuses(tmp_path / "e.csv", features=tmp_path / "n.csv")
    with contextlib.suppress(HenclerError):
        ids, labels = read_labels(tmp_path / "n.csv")
        assert len(ids) == len(labels) > 0


ARRAYS = st.sampled_from(
    [
        np.array([[0, 1], [1, 0]]),
        np.array([[0], [5]]),
        np.array([0, 1, 2]),
        np.array([0, 2]),
        np.array([-1, 1]),
        np.array(3),
        np.array([1.0, np.nan]),
        np.array(["a", "b"]),
        np.eye(2),
        np.zeros((2, 0)),
        np.array([2, 2]),
        np.array([1j, 2]),
        np.array([2**62, 2**62]),
        np.array([], dtype=int),
    ]
)
KEYS = st.sampled_from(
    [
        "edge_index",
        "edge_weight",
        "adj_data",
        "adj_indices",
        "adj_indptr",
        "adj_shape",
        "attr_data",
        "attr_indices",
        "attr_indptr",
        "attr_shape",
        "x",
        "y",
        "ids",
        "directed",
        "attribute_names",
        "format",
    ]
)


@FUZZ
@given(arrays=st.dictionaries(KEYS, ARRAYS), data=st.data())
def test_fuzz_npz(tmp_path, arrays, data):
    """Any arrays under our names; then the same file with some bytes altered."""
    buffer = stdlib_io.BytesIO()
    np.savez(buffer, **arrays)
    content = bytearray(buffer.getvalue())
    path = tmp_path / "g.npz"
    (tmp_path / "e.csv").write_text("0,1\n")
    for at in [None, *data.draw(st.lists(st.integers(0, len(content) - 1), max_size=3))]:
        if at is not None:
            content[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(bytes(content))
        reads_or_refuses(path)
        reads_or_refuses(tmp_path / "e.csv", features=path)


@FUZZ
@given(content=st.binary(max_size=120), name=st.sampled_from(["npz", "mtx", "gml", "graphml"]))
def test_fuzz_other_formats(tmp_path, content, name):
    head = {"mtx": b"%%MatrixMarket matrix coordinate real general\n", "graphml": b"<graphml>"}
    for prefix in (b"", head.get(name, b"")):
        path = tmp_path / f"g.{name}"
        path.write_bytes(prefix + content)
        reads_or_refuses(path)


def test_npz_member_that_lies_about_its_size(tmp_path):
    """An array header that asks for more memory than there is must not be believed."""
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (2, 1000000000000000), }"
    header += b" " * (117 - len(header)) + b"\n"
    member = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(tmp_path / "g.npz", "w") as archive:
        archive.writestr("edge_index.npy", member)
    with pytest.raises(HenclerError, match=r"g\.npz"):
        read_graph(tmp_path / "g.npz")


@pytest.mark.parametrize("head", ["user,item", "User_ID,item_id", "predator,prey", "node1,node2"])
def test_well_known_heads_of_columns_are_no_edge(tmp_path, head):
    file = tmp_path / "edges.csv"
    file.write_text(f"{head}\nann,tea\nbob,tea\nann,milk\n")
    assert read_graph(file).ids.tolist() == ["ann", "bob", "milk", "tea"]


def test_a_first_line_that_looks_like_a_header_is_warned_of(tmp_path, recwarn):
    file = tmp_path / "edges.csv"
    file.write_text("giver,taker\nann,bob\nbob,ann\nbob,cem\ncem,ann\n")
    with pytest.warns(HenclerWarning, match="'giver' to 'taker'.*source,target"):
        assert read_graph(file).n_nodes == 5
    for text in ("ann,bob\nbob,cem\ncem,ann\n", "1,2\n3,4\n5,6\n", "x-1,y-1\nx-2,y-2\nx-3,y-3\n"):
        file.write_text(text)
        read_graph(file)
    assert not [w for w in recwarn if issubclass(w.category, HenclerWarning)]
