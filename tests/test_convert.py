import numpy as np
import pytest
import scipy.sparse as sp

from hencler import make_heterophilous_graph, read_graph
from hencler._errors import AttributeDataError, FileFormatError, GraphError, ParameterError
from hencler.io import convert, write_edge_list


def same(store, graph):
    assert (store.adjacency != graph.adjacency).nnz == 0
    assert store.directed == graph.directed
    assert store.ids.tolist() == graph.ids.tolist()
    assert store.attribute_names == graph.attribute_names
    if graph.x is None:
        assert store.x is None
    else:
        assert np.allclose(store.x, graph.x, rtol=1e-6)
    assert (store.y is None) == (graph.y is None)
    if graph.y is not None:
        assert store.y.tolist() == graph.y.tolist()


def check(tmp_path, edges, **options):
    """The store holds the very graph that the reader of the same files makes."""
    convert(edges, tmp_path / "store", **options)
    store = read_graph(tmp_path / "store")
    same(store, read_graph(edges, **options))
    return store


@pytest.fixture(params=["fast", "slow", "small chunks"])
def way(request, monkeypatch):
    if request.param == "slow":
        monkeypatch.setattr("hencler._convert._arrow_batches", unavailable)
    if request.param == "small chunks":
        monkeypatch.setattr("hencler._convert._ROWS", 64)
    return request.param


def unavailable(*_):
    raise OSError


TEXTS = {
    "integers": "source,target\n0,1\n1,2\n2,0\n0,1\n",
    "gaps": "source,target,weight\n10,7,0.5\n7,3000000000,2\n-4,7,1\n",
    "texts": "a,b\nb,c\nc,a\n",
    "leading zeros": "007,1\n1,2\n",
    "mixed": "1,2\n2,x\n",
    "symmetric": "0,1\n1,0\n1,2\n2,1\n",
    "symmetric, weighted": "0,1,2\n1,0,2\n",
    "not symmetric by weight": "0,1,2\n1,0,3\n",
    "quotes": '"a, b",c\nc,d\n',
    "zero weight": "0,1,0\n1,2,1\n",
    "loops": "0,0\n0,1\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_as_the_reader_reads_it(name, tmp_path, way):
    (tmp_path / "edges.csv").write_text(TEXTS[name])
    check(tmp_path, tmp_path / "edges.csv")


@pytest.mark.parametrize("directed", [True, False])
def test_directions_as_the_reader_takes_them(directed, tmp_path, way):
    (tmp_path / "edges.tsv").write_text("0\t1\t2\n1\t0\t3\n1\t0\t3\n1\t2\t1\n2\t2\t1\n")
    check(tmp_path, tmp_path / "edges.tsv", directed=directed)


def test_white_space_and_comments(tmp_path):
    (tmp_path / "edges.txt").write_text("# from to\n1 2\n2   3\n%\n3 1\n")
    check(tmp_path, tmp_path / "edges.txt")


@pytest.mark.parametrize("directed", [True, False])
def test_tables_of_nodes(directed, tmp_path, way, global_random_seed):
    graph = make_heterophilous_graph(
        150, n_attributes=5, directed=directed, random_state=global_random_seed
    )
    edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    write_edge_list(graph, edges, attributes=nodes)
    store = check(tmp_path, edges, features=nodes, label="label")
    assert store.x.dtype == np.float32


def test_names_in_the_order_of_the_table(tmp_path, way):
    (tmp_path / "edges.csv").write_text("u,v\na,b\nc,a\n")
    (tmp_path / "nodes.csv").write_text("id,f,g\nc,1,2\na,3,4\nlone,5,6\nb,7,8\n")
    check(tmp_path, tmp_path / "edges.csv", features=tmp_path / "nodes.csv")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_list_of_nodes_without_attributes(suffix, tmp_path):
    (tmp_path / "e.csv").write_text("a,b\nb,c\n")
    nodes = tmp_path / f"n.{suffix}"
    if suffix == "csv":
        nodes.write_text("id\nc\nb\na\nalone\n")
    else:
        pq = pytest.importorskip("pyarrow.parquet")
        import pyarrow as pa

        pq.write_table(pa.table({"id": ["c", "b", "a", "alone"]}), nodes)
    store = check(tmp_path, tmp_path / "e.csv", features=nodes)
    assert store.ids.tolist() == ["c", "b", "a", "alone"]


def test_integers_and_texts_are_compared_as_texts(tmp_path, way):
    (tmp_path / "edges.csv").write_text("1,2\n2,1\n")
    (tmp_path / "nodes.csv").write_text("id,f\n2,1\nx,2\n1,3\n")
    check(tmp_path, tmp_path / "edges.csv", features=tmp_path / "nodes.csv")


@pytest.mark.parametrize("suffix", ["parquet", "npy", "npz"])
def test_binary_tables(suffix, tmp_path, way):
    graph = make_heterophilous_graph(100, n_attributes=4, random_state=0)
    coo = graph.adjacency.tocoo()
    if suffix == "parquet":
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        edges, nodes = tmp_path / "edges.parquet", tmp_path / "nodes.parquet"
        table = {"source": coo.row, "target": coo.col, "weight": coo.data}
        parquet.write_table(pa.table(table), edges)
        columns = {"node": np.arange(100)} | {f"f{j}": graph.x[:, j] for j in range(4)}
        parquet.write_table(pa.table(columns), nodes)
        check(tmp_path, edges, features=nodes)
        return
    edges = tmp_path / "edges.csv"
    write_edge_list(graph, edges, attributes=tmp_path / "unused.csv")
    if suffix == "npy":
        np.save(tmp_path / "x.npy", graph.x)
        check(tmp_path, edges, features=tmp_path / "x.npy")
    else:
        x = sp.csr_array(np.maximum(graph.x, 0))
        sp.save_npz(tmp_path / "x.npz", x)
        convert(edges, tmp_path / "store", features=tmp_path / "x.npz")
        found = read_graph(tmp_path / "store").x
        assert np.allclose(found.toarray(), x.toarray())


def test_parquet_with_texts(tmp_path, way):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"a": ["x", "y"], "b": ["y", "z"]}), tmp_path / "e.parquet")
    check(tmp_path, tmp_path / "e.parquet")
    parquet.write_table(pa.table({"a": ["7", "8"], "b": ["8", "9"]}), tmp_path / "i.parquet")
    convert(tmp_path / "i.parquet", tmp_path / "integers")
    same(read_graph(tmp_path / "integers"), read_graph(tmp_path / "i.parquet"))


@pytest.mark.parametrize("shape", ["(E, 2)", "(2, E)"])
def test_pairs_in_an_array(shape, tmp_path, global_random_seed):
    pairs = np.random.default_rng(global_random_seed).integers(30, size=(200, 2))
    np.save(tmp_path / "edges.npy", pairs if shape == "(E, 2)" else pairs.T)
    (tmp_path / "edges.csv").write_text("".join(f"{u},{v}\n" for u, v in pairs))
    convert(tmp_path / "edges.npy", tmp_path / "store")
    same(read_graph(tmp_path / "store"), read_graph(tmp_path / "edges.csv"))


def test_half_precision(tmp_path):
    x = np.random.default_rng(0).random((4, 3))
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "edges.csv").write_text("0,1\n")
    convert(
        tmp_path / "edges.csv", tmp_path / "store", features=tmp_path / "x.npy", dtype="float16"
    )
    store = read_graph(tmp_path / "store")
    assert np.array_equal(store.x, x.astype(np.float16))


# --- faults: the file and the line ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("source,target\n0,1\n1\n", "edges.csv:3"),
        ("source,target\n0,1\n,2\n", "edges.csv:3"),
        ("source,target,weight\n0,1,1\n1,2,x\n", "edges.csv:3, column 'weight'"),
        ("source,target,weight\n0,1,1\n\n1,2,-1\n", "edges.csv:4, column 'weight'"),
        ("source,target,weight\n0,1,nan\n", "edges.csv:2, column 'weight'"),
        ('source,target\n"a,b\n', "edges.csv"),
        ("source,target\n", "edges.csv"),
    ],
)
def test_faults_of_edges_name_the_line(text, place, tmp_path, way):
    (tmp_path / "edges.csv").write_text(text)
    with pytest.raises((FileFormatError, GraphError)) as caught:
        convert(tmp_path / "edges.csv", tmp_path / "store")
    assert place in caught.value.place
    assert [p.name for p in tmp_path.iterdir()] == ["edges.csv"], "something is left behind"


@pytest.mark.parametrize("edge", ["1,3", "-1,0", "0,x"])
def test_an_unknown_node_names_the_line(edge, tmp_path, way):
    np.save(tmp_path / "x.npy", np.eye(3))
    (tmp_path / "edges.csv").write_text(f"0,1\n1,2\n{edge}\n")
    with pytest.raises((GraphError, AttributeDataError)) as caught:
        convert(tmp_path / "edges.csv", tmp_path / "store", features=tmp_path / "x.npy")
    if edge != "0,x":
        assert caught.value.place.endswith("edges.csv:3")
        assert "rows 0 to 2 of" in str(caught.value)


@pytest.mark.parametrize(
    ("table", "error", "match"),
    [
        ("id,f\n0,1\n1,nan\n", AttributeDataError, "node 1, column 'f'"),
        ("id,f\n0,1\n1,x\n", FileFormatError, "nodes.csv:3, column 'f'"),
        ("id,f\n0,1\n0,2\n", FileFormatError, "more than once"),
        ("id,f\n0,1\n1,1e300\n", AttributeDataError, "too large for float32"),
        ("id,f\n", FileFormatError, "no node|no line"),
    ],
)
def test_faults_of_tables(table, error, match, tmp_path):
    (tmp_path / "edges.csv").write_text("0,1\n")
    (tmp_path / "nodes.csv").write_text(table)
    with pytest.raises(error, match=match):
        convert(tmp_path / "edges.csv", tmp_path / "store", features=tmp_path / "nodes.csv")


def test_parameters(tmp_path):
    (tmp_path / "edges.csv").write_text("0,1\n")
    with pytest.raises(ParameterError, match="dtype"):
        convert(tmp_path / "edges.csv", tmp_path / "store", dtype="int8")
    with pytest.raises(ParameterError, match="label"):
        convert(tmp_path / "edges.csv", tmp_path / "store", label="y")
    np.save(tmp_path / "edges.npy", np.zeros((3, 3)))
    with pytest.raises(FileFormatError, match=r"\(E, 2\)"):
        convert(tmp_path / "edges.npy", tmp_path / "store")
