import json
import shutil

import numpy as np
import pytest
import scipy.sparse as sp

from hencler import Graph, HeNCler, make_heterophilous_graph, read_graph
from hencler._errors import FileFormatError, HenclerError, ParameterError
from hencler._store import NpyWriter, Store, new_folder
from hencler.io import write_store


@pytest.fixture
def graph():
    return make_heterophilous_graph(120, n_attributes=6, random_state=0)


@pytest.fixture
def folder(graph, tmp_path):
    write_store(graph, tmp_path / "store")
    return tmp_path / "store"


def same(a, b):
    assert (a.adjacency != b.adjacency).nnz == 0
    assert a.directed == b.directed
    assert (a.n_edges, a.n_self_loops, a.n_isolated) == (b.n_edges, b.n_self_loops, b.n_isolated)
    assert np.array_equal(a.ids, b.ids)
    if b.x is None:
        assert a.x is None
    else:
        dense = [x.toarray() if sp.issparse(x) else np.asarray(x) for x in (a.x, b.x)]
        assert np.array_equal(*dense)


# --- there and back ------------------------------------------------------------------------------


def test_a_store_is_the_graph_on_disk(graph, folder):
    back = read_graph(folder)
    same(back, graph)
    assert np.array_equal(back.y, graph.y)
    assert back.store == str(folder.resolve())
    for array in (back.x, back.adjacency.indptr, back.adjacency.indices):
        assert isinstance(array, np.memmap)
    assert back.adjacency.data.strides == (0,), "weights of 1 take no memory"


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_kinds_of_graphs(directed, weighted, tmp_path, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    links = sp.random_array((40, 40), density=0.1, rng=rng, format="csr")
    links.setdiag(1)
    if not weighted:
        links.data[:] = 1
    x = sp.random_array((40, 9), density=0.3, rng=rng, format="csr")
    ids = [f"node {i}" for i in rng.permutation(40)]
    graph = Graph(links, x, ids=ids, directed=directed, y=["a", "b"] * 20)
    write_store(graph, tmp_path / "store")
    back = read_graph(tmp_path / "store")
    same(back, graph)
    assert back.y.tolist() == graph.y.tolist()
    assert sp.issparse(back.x)


def test_a_graph_without_attributes_or_links(tmp_path):
    write_store(Graph(np.zeros((3, 3)), np.eye(3)), tmp_path / "a")
    write_store(Graph(np.ones((3, 3))), tmp_path / "b")
    assert read_graph(tmp_path / "a").n_edges == 0
    assert read_graph(tmp_path / "b").x is None


@pytest.mark.parametrize("preset", ["default", "paper", "released"])
def test_every_preset_clusters_a_store_as_it_clusters_the_graph(preset, graph, folder):
    models = [
        HeNCler(4, preset=preset, epochs=3, batch_size=50, random_state=0).fit(g)
        for g in (graph, read_graph(folder))
    ]
    assert np.array_equal(models[0].labels_, models[1].labels_)


def test_rows_of_one_process(graph, folder):
    links, x = Store.open(folder).rows(30, 70)
    assert links.shape == (40, 120)
    assert (links != graph.adjacency[30:70]).nnz == 0
    assert np.array_equal(x, graph.x[30:70])


def test_directions_can_be_dropped(graph, folder):
    same(read_graph(folder, directed=False), graph.to_undirected())


def test_other_views_of_a_stored_graph_are_no_store(graph, folder):
    back = read_graph(folder)
    assert back.subgraph(np.arange(50)).store is None
    nodes = np.array([5, 90, 17, 60])
    same(back.subgraph(nodes), graph.subgraph(nodes))
    assert back.to_undirected().store is None
    assert back.without_labels().store == back.store


# --- faults --------------------------------------------------------------------------------------


def edited(folder, **changes):
    header = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(json.dumps(header | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "other"},
        {"version": 99},
        {"nodes": 119},
        {"nodes": -1},
        {"nodes": "120"},
        {"entries": 10**15},
        {"directed": 1},
        {"attributes": 7},
        {"arrays": {}},
        {"arrays": {"../../secret": {}}},
        {"attribute_names": ["a"]},
        {"attribute_names": [1] * 6},
        {"self_loops": None},
    ],
)
def test_a_header_that_lies_is_an_error(changes, folder):
    edited(folder, **changes)
    with pytest.raises(FileFormatError, match=r"graph\.json|\.npy"):
        read_graph(folder)


def rewritten(folder, name, change):
    path = folder / f"{name}.npy"
    array = np.load(path)
    array = change(array)
    np.save(path, array)
    header = json.loads((folder / "graph.json").read_text())
    entry = {"dtype": array.dtype.str, "shape": list(array.shape), "bytes": path.stat().st_size}
    edited(folder, arrays=header["arrays"] | {name: entry})


def with_entry(at, value):
    def change(array):
        array[at] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("indices", with_entry(5, 120), "not in 0 ... 119"),
        ("indices", with_entry(5, -1), "not in 0 ... 119"),
        ("indices", lambda a: a[::-1].copy(), "not increasing"),
        ("indices", lambda a: a.astype(np.int64), "different types"),
        ("indptr", with_entry(3, 10**6), "not increasing"),
        ("indptr", with_entry(-1, 3), "does not run"),
        ("indptr", with_entry(0, 1), "does not run"),
        ("indptr", lambda a: a[:-1], "shape"),
        ("x", with_entry((7, 2), np.nan), "node 7, column 2"),
        ("x", lambda a: a.astype(complex), "type"),
        ("x", np.asfortranarray, "order in memory"),
        ("weights", lambda a: a * -1, "positive and finite"),
        ("ids", lambda a: np.zeros_like(a), "more than once"),
    ],
)
def test_an_array_that_would_be_misread_is_an_error(name, change, message, graph, tmp_path):
    links = graph.adjacency * 2.5
    ids = np.arange(120) + 7
    write_store(Graph(links, graph.x, ids=ids), tmp_path / "store")
    rewritten(tmp_path / "store", name, change)
    with pytest.raises(FileFormatError, match=message) as caught:
        read_graph(tmp_path / "store")
    assert str(tmp_path / "store") in caught.value.place


def test_a_file_cut_off_or_missing_is_an_error(folder):
    path = folder / "x.npy"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FileFormatError, match="bytes"):
        read_graph(folder)
    path.unlink()
    with pytest.raises(FileFormatError, match=r"x\.npy"):
        read_graph(folder)


def test_no_pickle_is_opened(folder):
    np.save(folder / "y.npy", np.array([{}] * 120, dtype=object), allow_pickle=True)
    size = (folder / "y.npy").stat().st_size
    header = json.loads((folder / "graph.json").read_text())
    header["arrays"]["y"] |= {"bytes": size, "dtype": "|O"}
    (folder / "graph.json").write_text(json.dumps(header))
    with pytest.raises(FileFormatError, match="cannot be opened"):
        read_graph(folder)


def test_a_folder_without_a_store_is_an_error(tmp_path):
    with pytest.raises(FileFormatError, match=r"graph\.json is missing"):
        read_graph(tmp_path)


def test_features_beside_a_store_are_an_error(folder, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((120, 2)))
    with pytest.raises(ParameterError, match="beside a store"):
        read_graph(folder, features=tmp_path / "x.npy")


def test_nothing_is_overwritten_and_nothing_half_written(graph, folder, tmp_path):
    with pytest.raises(FileFormatError, match="already"):
        write_store(graph, folder)
    with pytest.raises(FileNotFoundError), new_folder(tmp_path / "new") as temporary:
        (temporary / "no" / "part").write_text("x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["store"]
    (tmp_path / "file").write_text("")
    with pytest.raises(HenclerError, match="cannot be made"):
        write_store(graph, tmp_path / "file" / "store")


def test_blocks_of_any_size_find_the_same_faults(folder, monkeypatch):
    shutil.copytree(folder, folder.with_name("bad"))
    bad = folder.with_name("bad")
    indptr, indices = np.load(bad / "indptr.npy"), np.load(bad / "indices.npy")
    at = int(indptr[60])
    while indptr[np.searchsorted(indptr, at, side="right")] - at < 2:
        at += 1
    rewritten(bad, "indices", with_entry([at, at + 1], indices[[at + 1, at]]))
    for block in (1, 7, 100):
        monkeypatch.setattr("hencler._store._BLOCK", block)
        read_graph(folder)
        with pytest.raises(FileFormatError, match="not increasing"):
            read_graph(bad)


def test_npy_writer_writes_what_numpy_reads(tmp_path):
    x = np.random.default_rng(0).random((10, 3))
    with NpyWriter(tmp_path / "x.npy", np.float32, 3) as out:
        out.append(x[:4])
        out.append(x[4:])
    assert np.array_equal(np.load(tmp_path / "x.npy"), x.astype(np.float32))
    with NpyWriter(tmp_path / "e.npy", np.int64) as out:
        pass
    assert np.load(tmp_path / "e.npy").shape == (0,)
