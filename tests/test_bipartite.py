"""Tables of two kinds of nodes that reuse each other's ids."""

import csv
import warnings

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from hencler import Graph, HenclerWarning
from hencler._errors import GraphError, ParameterError
from hencler.io import convert, read_graph, write_npz


@pytest.fixture
def purchases(global_random_seed):
    """Users 5 ... 24 and items 5 ... 14, all of which occur, with amounts."""
    rng = np.random.default_rng(global_random_seed)
    user = np.r_[np.arange(20), rng.integers(0, 20, 60)]
    item = np.r_[np.arange(20) % 10, rng.integers(0, 10, 60)]
    return user, item, rng.integers(1, 9, 80).astype(float)


def expected(purchases, sides=("user", "item")):
    """By SciPy, through the constructor for matrices."""
    user, item, amount = purchases
    return Graph.from_biadjacency(
        sp.coo_array((amount, (user, item)), shape=(20, 10)),
        row_ids=[f"{sides[0]}:{i + 5}" for i in range(20)],
        col_ids=[f"{sides[1]}:{j + 5}" for j in range(10)],
    )


def same(a, b):
    assert a.ids.tolist() == b.ids.tolist()
    assert a.directed
    assert b.directed
    assert np.array_equal(a.adjacency.toarray(), b.adjacency.toarray())


def lines(purchases, separator=","):
    user, item, amount = purchases
    rows = zip(user + 5, item + 5, amount)
    return "".join(f"{u}{separator}{i}{separator}{a}\n" for u, i, a in rows)


def test_text_tables_are_the_biadjacency_matrix(put, purchases):
    plain = expected(purchases, ("row", "col"))
    headed = put("e.csv", "user_id,item_id,amount\n" + lines(purchases))
    same(read_graph(headed, bipartite=True), expected(purchases))
    same(read_graph(put("e.txt", lines(purchases, " ")), bipartite=True), plain)
    same(read_graph(put("e.tsv", lines(purchases, "\t")), bipartite=True), plain)


def test_parquet_is_read_alike(tmp_path, purchases):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    user, item, amount = purchases
    path = tmp_path / "e.parquet"
    parquet.write_table(pa.table({"user": user + 5, "item": item + 5, "amount": amount}), path)
    same(read_graph(path, bipartite=True), expected(purchases))
    same(read_graph(convert(path, tmp_path / "store", bipartite=True)), expected(purchases))


def test_a_square_matrix_is_read_as_biadjacency(tmp_path):
    square = np.array([[1.0, 2.0], [0.0, 3.0]])
    scipy.io.mmwrite(tmp_path / "m.mtx", sp.coo_array(square))
    assert read_graph(tmp_path / "m.mtx").n_nodes == 2
    same(read_graph(tmp_path / "m.mtx", bipartite=True), Graph.from_biadjacency(square))


@pytest.mark.parametrize("engine", ["pyarrow", "csv"])
@pytest.mark.parametrize("word", ["", "n"])
def test_streamed_tables_are_the_same_graph(put, purchases, tmp_path, monkeypatch, engine, word):
    """Integers and words, and where a later chunk brings new nodes of both sides."""
    monkeypatch.setattr("hencler._convert._ROWS", 64)
    if engine == "csv":
        from hencler._convert import _Retry

        def unavailable(*_):
            raise _Retry

        monkeypatch.setattr("hencler._convert._arrow_batches", unavailable)
    text = "".join(word + line + "\n" for line in lines(purchases).splitlines())
    path = put("e.csv", "user,item,amount\n" + text)
    store = read_graph(convert(path, tmp_path / "store", bipartite=True))
    same(store, read_graph(path, bipartite=True))
    assert store.ids[0] == f"user:{word}{5 if not word else 10}"  # words sort as words


def test_pairs_of_positions_are_streamed(tmp_path):
    np.save(tmp_path / "e.npy", np.array([[0, 0], [0, 2], [1, 2]]))
    graph = read_graph(convert(tmp_path / "e.npy", tmp_path / "store", bipartite=True))
    assert graph.ids.tolist() == ["row:0", "row:1", "col:0", "col:2"]
    assert graph.directed


def test_one_side_may_be_words_and_the_other_numbers(put):
    path = put("e.csv", "reader,book,count\nAnn,10,1\nBob,9,1\nAnn,9,2\n")
    graph = read_graph(path, bipartite=True)
    assert graph.ids.tolist() == ["reader:Ann", "reader:Bob", "book:9", "book:10"]
    assert graph.adjacency.toarray()[:2, 2:].tolist() == [[2, 1], [1, 0]]


@pytest.mark.parametrize(
    ("head", "sides"),
    [
        ("userId,movieId,weight", ("user", "movie")),
        ("id,id,weight", ("row", "col")),
        ("a:b,a,weight", ("row", "col")),
        (f"{'u' * 60},item,weight", ("row", "col")),
        ("target,source,weight", ("source", "target")),
    ],
)
def test_ids_begin_with_the_heads_where_these_tell_the_sides_apart(put, head, sides):
    graph = read_graph(put("e.csv", head + "\n1,1,1\n"), bipartite=True)
    assert graph.ids.tolist() == [f"{side}:1" for side in sides]


def test_attributes_by_id_and_by_order(put, tmp_path):
    edges = put("e.csv", "user,item\n1,1\n1,2\n")
    table = put("n.csv", "id,age\nitem:2,9\nuser:1,7\nitem:1,8\n")
    graph = read_graph(edges, features=table, bipartite=True)
    assert graph.ids.tolist() == ["item:2", "user:1", "item:1"]
    assert graph.adjacency.toarray().tolist() == [[0, 0, 0], [1, 0, 1], [0, 0, 0]]
    np.save(tmp_path / "x.npy", np.array([[7.0], [8.0], [9.0]]))
    graph = read_graph(edges, features=tmp_path / "x.npy", bipartite=True)
    assert graph.ids.tolist() == ["user:1", "item:1", "item:2"]
    assert graph.x[:, 0].tolist() == [7, 8, 9]
    store = convert(edges, tmp_path / "store", features=tmp_path / "x.npy", bipartite=True)
    assert read_graph(store).x[:, 0].tolist() == [7, 8, 9]
    with pytest.raises(GraphError, match=r"e\.csv:2: the node 'user:1' is not among"):
        read_graph(edges, features=put("m.csv", "id,age\n1,7\n2,8\n"), bipartite=True)


def test_rows_of_a_matrix_have_their_attributes_in_order(tmp_path):
    scipy.io.mmwrite(tmp_path / "m.mtx", sp.coo_array(np.ones((11, 2))))
    np.save(tmp_path / "x.npy", np.arange(13.0)[:, None])
    graph = read_graph(tmp_path / "m.mtx", features=tmp_path / "x.npy")
    assert graph.ids[[2, 10, 11]].tolist() == ["row:2", "row:10", "col:0"]
    assert graph.x[[2, 10, 11], 0].tolist() == [2, 10, 11]


def test_what_cannot_be_bipartite(put, tmp_path):
    edges = put("e.csv", "user,item\n1,1\n")
    for read in (read_graph, lambda path, **how: convert(path, tmp_path / "store", **how)):
        with pytest.raises(ParameterError, match="bipartite and undirected"):
            read(edges, bipartite=True, directed=False)
    write_npz(Graph(np.ones((2, 2))), tmp_path / "g.npz")
    for other in (tmp_path / "g.npz", tmp_path):
        with pytest.raises(ParameterError, match="one set of nodes"):
            read_graph(other, bipartite=True)


def test_users_that_share_ids_with_items_are_noticed(put):
    shared = put("e.csv", "user,item\n1,1\n2,7\n")
    with pytest.warns(HenclerWarning, match="1 ids, such as '1', are both 'user' and 'item'"):
        assert read_graph(shared).n_nodes == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_graph(shared, bipartite=True).n_nodes == 4
        assert read_graph(put("f.csv", "user,item\nAnn,tea\nBob,tea\n")).n_nodes == 3
        assert read_graph(put("g.csv", "predator,prey\nfox,owl\nowl,fox\n")).n_nodes == 2


@pytest.mark.usefixtures("quick_report")
def test_on_the_command_line(put, run, tmp_path, purchases):
    def done(*arguments):
        status, _, err = run(*arguments)
        assert status == 0, err

    path = put("e.csv", "user,item,amount\n" + lines(purchases))
    out = tmp_path / "run"
    done("fit", path, "--bipartite", "-k", 4, "--out", out, "--quiet")
    nodes = [row["node"] for row in csv.DictReader((out / "labels.csv").open())]
    assert nodes == expected(purchases).ids.tolist()
    assert "bipartite: true\n" in (out / "hencler.yaml").read_text()
    done("fit", "--config", out, "--out", tmp_path / "again", "--no-report", "--quiet")
    done("predict", out / "model", path, "--bipartite", "--out", tmp_path / "l.csv")
    done("convert", path, "--bipartite", "--out", tmp_path / "store", "--quiet")
    done("fit", tmp_path / "store", "-k", 4, "--out", tmp_path / "s", "--no-report", "--quiet")
    labels = (out / "labels.csv").read_text()
    for file in ("again/labels.csv", "l.csv", "s/labels.csv"):
        assert (tmp_path / file).read_text() == labels
    status, _, err = run("fit", "dataset:texas", "--bipartite", "-k", 2)
    assert status == 2
    assert "Leave --bipartite out" in err
