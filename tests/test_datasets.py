"""Benchmark graphs: readers on small files and on the real ones; the generator's promises."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import pickle
import shutil
import types
from collections import defaultdict
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import svds
from sklearn.cluster import KMeans, SpectralCoclustering
from sklearn.metrics import normalized_mutual_info_score as nmi
from torch_geometric.io import read_planetoid_data
from torch_geometric.utils import homophily

from hencler import datasets
from hencler._errors import DatasetError, FileFormatError, ParameterError
from hencler.datasets import (
    DATASETS,
    DatasetInfo,
    list_datasets,
    load_dataset,
    make_heterophilous_graph,
)


def on_real_data(*names):
    slow = {"coauthor-cs", "coauthor-physics", "pubmed", "squirrel", "tolokers", "questions"}
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(
                name,
                marks=[pytest.mark.data(name), *([pytest.mark.slow] if name in slow else [])],
            )
            for name in names
        ],
    )


@pytest.fixture
def small(monkeypatch):
    """Replace what is expected of a data set, so that small files can stand for it."""

    def expect(name, **counts):
        monkeypatch.setitem(DATASETS, name, dataclasses.replace(DATASETS[name], **counts))

    return expect


def place(root: Path, name: str) -> list[Path]:
    """Paths of the files of a data set, their folders made."""
    paths = [root / file for file in datasets._files(name)]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    return paths


# --- the real files --------------------------------------------------------------------------


@on_real_data(*DATASETS)
def test_counts(name):
    """Loading asserts the counts; here, what the graph itself says."""
    graph, info = load_dataset(name), DATASETS[name]
    assert graph.name == name
    assert graph.n_nodes == info.n_nodes
    assert graph.n_attributes == info.n_attributes
    assert graph.directed == info.directed
    assert graph.n_self_loops == info.n_self_loops
    assert graph.to_undirected().n_edges == info.n_undirected + info.n_self_loops
    assert len(np.unique(graph.y)) == info.n_classes
    assert graph.y.dtype == np.int64
    if graph.n_attributes > 1000:
        assert sp.issparse(graph.x)


@on_real_data("texas", "cornell", "wisconsin", "chameleon", "minesweeper", "cora")
def test_homophily_is_the_papers(name):
    published = {
        "texas": 0.000,
        "cornell": 0.150,
        "wisconsin": 0.084,
        "chameleon": 0.042,
        "minesweeper": 0.009,
        "cora": 0.765,
    }
    graph = load_dataset(name)
    edges = graph.adjacency.tocoo()
    index = torch.from_numpy(np.stack([edges.row, edges.col]).astype(np.int64))
    measured = homophily(index, torch.from_numpy(graph.y), method="edge_insensitive")
    assert measured == pytest.approx(published[name], abs=0.0015)


@on_real_data("cora", "citeseer")
def test_planetoid_is_as_pyg_reads_it(name):
    folder = (Path(os.environ["HENCLER_DATA"]) / datasets._files(name)[0]).parent
    data, graph = read_planetoid_data(str(folder), name), load_dataset(name)
    assert np.array_equal(graph.x.toarray(), data.x.numpy())
    assert np.array_equal(graph.y, data.y.numpy())
    edges = sp.coo_array((np.ones(data.edge_index.shape[1]), data.edge_index.numpy())).tocsr()
    edges.resize(graph.adjacency.shape)
    assert (edges != graph.adjacency).nnz == 0


@pytest.mark.data("polblogs", "celegans", "serengeti", "drosophila-left")
def test_names_and_weights():
    assert load_dataset("polblogs").adjacency.data.max() == 2  # 65 links occur twice
    celegans = load_dataset("celegans")
    assert celegans.ids[0] == "ADAL"
    assert celegans.adjacency.data[:3].tolist() == [6, 2, 2]
    assert "Acacia robusta" in load_dataset("serengeti").ids
    assert not load_dataset("drosophila-left").has_ids


@pytest.mark.data("texas", "cornell")
def test_cornell_trap(tmp_path):
    """The copy of Cornell that is Texas in disguise must not pass."""
    root = Path(os.environ["HENCLER_DATA"])
    for own, other in zip(place(tmp_path, "cornell"), datasets._files("texas")):
        shutil.copy(root / other, own)
    with pytest.raises(DatasetError, match=r"Many copies of Geom-GCN hold the nodes of texas"):
        load_dataset("cornell", root=tmp_path)
    # The nodes of Texas with the edges of Cornell: only the classes tell.
    shutil.copy(root / datasets._files("cornell")[1], place(tmp_path, "cornell")[1])
    with pytest.raises(DatasetError, match=r"class_counts is \(33, 1, 18, 101, 30\)"):
        load_dataset("cornell", root=tmp_path)


@pytest.mark.data("cora")
def test_an_altered_pickle_is_not_opened(tmp_path, monkeypatch):
    root = Path(os.environ["HENCLER_DATA"])
    for own, other in zip(place(tmp_path, "cora"), datasets._files("cora")):
        shutil.copy(root / other, own)
        own.chmod(0o644)
    assert load_dataset("cora", root=tmp_path).n_nodes == 2708
    with open(place(tmp_path, "cora")[4], "ab") as handle:
        handle.write(b"x")
    monkeypatch.setattr(datasets, "_unpickle", lambda content: pytest.fail("it was opened"))
    with pytest.raises(DatasetError, match="SHA-256 differs"):
        load_dataset("cora", root=tmp_path)


# --- the readers, on small files ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["roman-empire", "amazon-ratings", "questions", "minesweeper"])
def test_heterophilous(tmp_path, small, name):
    (path,) = place(tmp_path, name)
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    edges = [[0, 1], [1, 2], [1, 0]]
    np.savez(path, node_features=x, node_labels=[0, 1, 1], edges=edges)
    with pytest.raises(DatasetError, match=f"not the known {name!r}: n_nodes is 3"):
        load_dataset(name, root=tmp_path)
    small(name, n_nodes=3, n_links=4, n_undirected=2, n_classes=2, n_attributes=2)
    graph = load_dataset(name, root=tmp_path)
    assert graph.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert not graph.directed
    assert np.array_equal(graph.x, x)
    assert graph.y.tolist() == [0, 1, 1]


GEOM_GCN = "node_id\tfeature\tlabel\n0\t0,1,1\t2\n1\t1,0,0\t0\n2\t0,0,0\t1\n"


def test_webkb(tmp_path, small):
    nodes, links = place(tmp_path, "texas")
    nodes.write_text(GEOM_GCN)
    links.write_text("node_id\tnode_id\n2\t0\n0\t1\n2\t0\n1\t1\n")
    small(
        "texas",
        n_nodes=3,
        n_links=3,
        n_undirected=2,
        n_self_loops=1,
        n_classes=3,
        n_attributes=3,
    )
    graph = load_dataset("texas", root=tmp_path)
    assert graph.x.toarray().tolist() == [[0, 1, 1], [1, 0, 0], [0, 0, 0]]
    assert graph.adjacency.toarray().tolist() == [[0, 1, 0], [0, 1, 0], [1, 0, 0]]
    assert graph.y.tolist() == [2, 0, 1]
    for damaged, problem in [
        (GEOM_GCN.replace("1\t1,0,0\t0", "1\t1,0,0"), ":3: not a line"),
        (GEOM_GCN.replace("\n2\t", "\n7\t"), ":4: not a line"),
        (GEOM_GCN.replace("0,1,1", "0,5,1"), "attributes other than 0 and 1"),
        (GEOM_GCN.replace("0,1,1", "0,1"), "cannot be read"),
        ("", "cannot be read"),
    ]:
        nodes.write_text(damaged)
        with pytest.raises((DatasetError, FileFormatError), match=problem):
            load_dataset("texas", root=tmp_path)
    nodes.write_text(GEOM_GCN)
    links.write_text("node_id\tnode_id\n2\t9\n")
    with pytest.raises(DatasetError, match=r"outside 0 \.\.\. 2"):
        load_dataset("texas", root=tmp_path)


def test_wikipedia(tmp_path, small):
    nodes, links = place(tmp_path, "chameleon")
    nodes.write_text(GEOM_GCN)
    np.savez(links, edges=np.array([[0, 1], [1, 0]], dtype=np.int32), features=np.eye(3))
    small("chameleon", n_nodes=3, n_links=2, n_undirected=1, n_classes=3, n_attributes=3)
    graph = load_dataset("chameleon", root=tmp_path)
    assert graph.n_edges == 1
    assert graph.x.toarray()[0].tolist() == [0, 1, 1]  # Geom-GCN's attributes, not the .npz file's


def test_coauthor(tmp_path, small):
    (path,) = place(tmp_path, "coauthor-cs")
    adjacency = sp.csr_array(np.array([[1.0, 1, 0], [0, 0, 1], [0, 0, 0]]))
    x = sp.csr_array(np.array([[0, 2.0], [1, 0], [0, 0]]))
    arrays = {}
    for prefix, matrix in (("adj", adjacency), ("attr", x)):
        arrays |= {f"{prefix}_{part}": getattr(matrix, part) for part in ("data", "indices")}
        arrays |= {f"{prefix}_indptr": matrix.indptr, f"{prefix}_shape": matrix.shape}
    np.savez(path, labels=[0, 1, 0], **arrays)
    small("coauthor-cs", n_nodes=3, n_links=4, n_undirected=2, n_classes=2, n_attributes=2)
    graph = load_dataset("coauthor-cs", root=tmp_path)
    assert graph.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert graph.x.toarray().tolist() == [[0, 1], [1, 0], [0, 0]]


def test_plain_and_drosophila(tmp_path, small):
    (path,) = place(tmp_path, "celegans")
    np.savez(path, edge_index=[[0], [1]], edge_weight=[3.0], y=[0, 1], node_names=["A", "B"])
    small("celegans", n_nodes=2, n_links=1, n_undirected=1, n_self_loops=0, n_classes=2)
    graph = load_dataset("celegans", root=tmp_path)
    assert graph.ids.tolist() == ["A", "B"]
    assert graph.adjacency[0, 1] == 3
    links, labels = place(tmp_path, "drosophila-left")
    links.write_text("0 4\n0 0\n")
    labels.write_text("P\nK\n")
    small("drosophila-left", n_nodes=2, n_links=1, n_undirected=1, n_classes=2)
    graph = load_dataset("drosophila-left", root=tmp_path)
    assert graph.adjacency.toarray().tolist() == [[0, 4], [0, 0]]
    assert graph.y.tolist() == [1, 0]


def test_planetoid_puts_test_rows_in_place():
    """Nodes 0, 1 come from allx; of 2 ... 5, node 4 is missing from the test index."""
    allx, ally = sp.csr_array(np.array([[1.0, 0], [0, 1]])), np.array([[1, 0, 0], [0, 1, 0]])
    tx, ty = sp.csr_array(np.array([[5.0, 5], [3, 3], [2, 2]])), np.eye(3, dtype=int)
    links = {0: [0, 1, 1, 5], 1: [0], 5: [0], 2: [3], 3: [2], 4: []}
    raw = datasets._planetoid(tx, allx, ty, ally, links, np.array([5, 3, 2]))
    assert raw.x.toarray().tolist() == [[1, 0], [0, 1], [2, 2], [3, 3], [0, 0], [5, 5]]
    assert raw.y.tolist() == [0, 1, 2, 1, 0, 0]
    assert raw.edges.T.tolist() == [[0, 1], [0, 5], [1, 0], [2, 3], [3, 2], [5, 0]]


class Python2Pickler(pickle._Pickler):
    """Writes arrays as Python 2 did, under the names NumPy and SciPy had then."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_bytes(self, content):
        self.write(pickle.BINSTRING + len(content).to_bytes(4, "little") + content)

    dispatch[bytes] = save_bytes


def python2_pickle(value):
    buffer = io.BytesIO()
    Python2Pickler(buffer, protocol=2).dump(value)
    content = buffer.getvalue().replace(b"numpy._core.", b"numpy.core.")
    return content.replace(b"scipy.sparse._csr\n", b"scipy.sparse.csr\n")


def test_planetoid_from_small_files(tmp_path, small, monkeypatch):
    values = [
        sp.csr_matrix(np.array([[0.0, 3]])),  # tx
        sp.csr_matrix(np.array([[1.0, 0], [0, 2]])),  # allx
        np.array([[0, 1]]),  # ty
        np.array([[1, 0], [0, 1]]),  # ally
        defaultdict(list, {0: [1, 2], 1: [0], 2: [0]}),  # graph
    ]
    contents = [*map(python2_pickle, values), b"2\n"]
    for path, content in zip(place(tmp_path, "cora"), contents):
        path.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        monkeypatch.setitem(datasets._SHA256, path.name, digest)
    small("cora", n_nodes=3, n_links=4, n_undirected=2, n_classes=2, n_attributes=2)
    graph = load_dataset("cora", root=tmp_path)
    assert graph.x.toarray().tolist() == [[1, 0], [0, 2], [0, 3]]
    assert graph.y.tolist() == [0, 1, 1]
    assert graph.adjacency.toarray().tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    place(tmp_path, "cora")[0].write_bytes(contents[0] + b"x")
    with pytest.raises(DatasetError, match="SHA-256 differs"):
        load_dataset("cora", root=tmp_path)


class Attack:
    def __reduce__(self):
        return (os.system, ("echo attacked > attacked",))


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(Attack(), protocol=2),
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cnumpy\nload\n(S'x'\ntR.",
        b"cnumpy\ndtype.__class__\n.",
        b"ccollections\nOrderedDict\n.",
    ],
)
def test_pickles_cannot_name_anything_else(content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DatasetError, match="which no array needs"):
        datasets._unpickle(content)
    assert not list(tmp_path.iterdir())


def test_the_names_the_files_need_are_known():
    links = defaultdict(list, {0: [1], 1: [0]})
    assert datasets._unpickle(pickle.dumps(links, protocol=2)) == links


# --- names, folders, download ------------------------------------------------------------------


def test_names():
    assert list_datasets() == list(DATASETS)
    assert len(DATASETS) == 20
    assert all(isinstance(info, DatasetInfo) for info in DATASETS.values())
    papers = [info.paper_name for info in DATASETS.values() if info.paper_name]
    assert len(papers) == len(set(papers)) == 11
    for wrong, right in [("texsa", "texas"), ("drosophila-mb-left", "drosophila-left")]:
        with pytest.raises(DatasetError, match=f"Did you mean '{right}'"):
            load_dataset(wrong)
    with pytest.raises(DatasetError, match="Known are texas, cornell"):
        load_dataset("zzz")


def test_spelling_of_names(tmp_path):
    for name in ("Roman_Empire", " roman-empire "):
        with pytest.raises(DatasetError, match="'roman-empire' is not there"):
            load_dataset(name, root=tmp_path)


def test_where_data_are_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("HENCLER_DATA", str(tmp_path / "env"))
    with pytest.raises(DatasetError) as caught:
        load_dataset("texas", root=tmp_path / "own")
    assert caught.value.place == str(tmp_path / "own")
    with pytest.raises(DatasetError, match="unset HENCLER_DATA") as caught:
        load_dataset("texas")
    assert caught.value.place == str(tmp_path / "env")
    monkeypatch.delenv("HENCLER_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(DatasetError, match="cannot be downloaded") as caught:
        load_dataset("celegans")
    assert caught.value.place == str(tmp_path / "cache" / "hencler")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(DatasetError) as caught:
        load_dataset("polblogs")
    assert caught.value.place == str(tmp_path / "home" / ".cache" / "hencler")


def fake_pyg(download):
    class Base:
        def __init__(self, root, name, *extra):
            download(Path(root), name, *extra)
            self.process()

        def process(self):
            pytest.fail("PyG must not process what it downloaded")

    return types.SimpleNamespace(WebKB=Base, WikipediaNetwork=Base, Planetoid=Base)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("HENCLER_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "hencler"


def test_download_fills_the_cache_once(cache, monkeypatch, small):
    calls = []

    def download(root, name, geom_gcn):
        calls.append((root.name, name, geom_gcn))
        nodes, links = place(cache, "chameleon")
        nodes.write_text(GEOM_GCN)
        np.savez(links, edges=[[0, 1], [1, 0]])

    monkeypatch.setattr(datasets, "optional_import", lambda *_: fake_pyg(download))
    small("chameleon", n_nodes=3, n_links=2, n_undirected=1, n_classes=3, n_attributes=3)
    for _ in range(2):
        assert load_dataset("chameleon").n_edges == 1
    assert calls == [("wikipedia", "chameleon", True), ("wikipedia", "chameleon", False)]


def test_download_failures(cache, monkeypatch):
    def offline(*_):
        raise OSError("no network")

    monkeypatch.setattr(datasets, "optional_import", lambda *_: fake_pyg(offline))
    with pytest.raises(DatasetError, match=r"could not be downloaded \(OSError: no network\)"):
        load_dataset("texas")
    monkeypatch.setattr(datasets, "optional_import", lambda *_: fake_pyg(lambda *_: None))
    with pytest.raises(DatasetError, match="is not there"):
        load_dataset("cora")


# --- generator ---------------------------------------------------------------------------------


def kmeans(z, k, seed):
    return KMeans(k, n_init=10, random_state=seed).fit_predict(z)


def link_embedding(adjacency, k):
    """Left and right singular vectors of (D_out + t)^-1/2 A (D_in + t)^-1/2."""
    out, into = adjacency.sum(axis=1), adjacency.sum(axis=0)
    t = out.mean()
    scaled = sp.diags_array((out + t) ** -0.5) @ adjacency @ sp.diags_array((into + t) ** -0.5)
    u, _, vt = svds(scaled, k=k, v0=np.ones(len(out)))
    return np.hstack([u, vt.T]) * np.sqrt(len(out))


def attribute_embedding(x, k):
    u, s, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    return u[:, :k] * s[:k]


@pytest.mark.parametrize("seed", range(4))
def test_generator_needs_attributes_and_directions(seed):
    graph = make_heterophilous_graph(random_state=seed)
    y, symmetric = graph.y, graph.to_undirected().adjacency
    x, k = attribute_embedding(graph.x, 4), 4
    assert nmi(y, kmeans(graph.x, k, seed)) < 0.6
    coclusters = SpectralCoclustering(k, random_state=seed).fit(symmetric.toarray() + 0.01)
    assert nmi(y, coclusters.row_labels_) < 0.6
    assert nmi(y, kmeans(np.hstack([x, link_embedding(symmetric, k)]), k, seed)) < 0.6
    assert nmi(y, kmeans(np.hstack([x, link_embedding(graph.adjacency, k)]), k, seed)) > 0.9


@pytest.mark.parametrize("seed", range(3))
def test_generator_without_directions_needs_both(seed):
    graph = make_heterophilous_graph(directed=False, random_state=seed)
    links = link_embedding(graph.adjacency, 4)
    assert not graph.directed
    assert nmi(graph.y, kmeans(graph.x, 4, seed)) < 0.6
    assert nmi(graph.y, kmeans(links, 4, seed)) < 0.6
    both = np.hstack([attribute_embedding(graph.x, 4), links])
    assert nmi(graph.y, kmeans(both, 4, seed)) > 0.9


def test_generated_graph_is_heterophilous(global_random_seed):
    graph = make_heterophilous_graph(random_state=global_random_seed)
    edges = graph.adjacency.tocoo()
    same = np.mean(graph.y[edges.row] == graph.y[edges.col])
    # Only links that ignore the plan (3 in 10) can stay in a cluster, one in four of them does.
    assert same == pytest.approx(0.3 / 4, abs=0.03)
    assert graph.n_edges / graph.n_nodes == pytest.approx(8, rel=0.1)
    assert graph.n_self_loops == 0


@pytest.mark.parametrize("k", range(2, 14))
@pytest.mark.parametrize("directed", [True, False])
def test_generator_for_any_number_of_clusters(k, directed, global_random_seed):
    graph = make_heterophilous_graph(
        50, k, directed=directed, n_attributes=3, link_signal=1.0, random_state=global_random_seed
    )
    sizes = np.bincount(graph.y, minlength=k)
    assert sizes.max() - sizes.min() <= 1
    assert graph.x.shape == (50, 3)
    edges = graph.adjacency.tocoo()
    assert not np.any(graph.y[edges.row] == graph.y[edges.col])  # no cluster links to itself
    plan, pair, index = datasets._plan(k)
    assert plan.sum() == pytest.approx(1)
    assert len(set(zip(pair, index))) == k
    # Every cluster has a part in 2/k of the ends of links, up to the ends of a chain.
    assert np.all(plan.sum(axis=0) + plan.sum(axis=1) >= 1 / k)


def test_symmetrised_plan_hides_the_pairs():
    plan, pair, _ = datasets._plan(11)  # two rings and a chain
    symmetric = plan + plan.T
    for p in np.unique(pair):
        rows = symmetric[pair == p]
        assert np.allclose(rows, rows[0])
        assert len(np.unique(plan[pair == p], axis=0)) == len(rows)  # the directed ones differ


def test_generator_random_state():
    first = make_heterophilous_graph(60, random_state=1)
    again = make_heterophilous_graph(60, random_state=np.random.default_rng(1))
    assert np.array_equal(first.x, again.x)
    assert (first.adjacency != again.adjacency).nnz == 0
    other = make_heterophilous_graph(60, random_state=np.random.RandomState(1))
    assert not np.array_equal(first.x, other.x)
    assert make_heterophilous_graph(60).n_nodes == 60


def test_generator_edge_cases():
    bare = make_heterophilous_graph(40, n_attributes=0, random_state=0)
    assert bare.x is None
    assert make_heterophilous_graph(40, degree=0, random_state=0).n_edges == 0
    assert make_heterophilous_graph(2, 2, random_state=0).n_nodes == 2
    assert make_heterophilous_graph(40, 20, n_attributes=2, random_state=0).x.shape == (40, 2)
    noise = make_heterophilous_graph(40, link_signal=0, attribute_signal=0, random_state=0)
    assert noise.n_edges > 0


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_clusters": 1},
        {"n_nodes": 3},
        {"n_attributes": -1},
        {"degree": -1},
        {"degree": float("inf")},
        {"degree": float("nan")},
        {"link_signal": 1.5},
    ],
)
def test_generator_refuses(parameters):
    with pytest.raises(ParameterError, match=next(iter(parameters))):
        make_heterophilous_graph(**parameters)
