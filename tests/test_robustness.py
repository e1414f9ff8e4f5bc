"""Attempts to break it: odd numbers, odd graphs, altered model files, threads, little memory."""

import itertools
import json
import os
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone

from hencler import Graph, HeNCler, make_heterophilous_graph
from hencler._errors import GraphError, HenclerError, HenclerWarning, ParameterError
from hencler._persistence import read_model, write_model

N = 40
NETWORKS = ["paper", "released"]
PRESETS = ["default", *NETWORKS]


def links(n=N, m=120, weights=None, seed=0):
    rng = np.random.default_rng(seed)
    weights = np.ones(m) if weights is None else weights
    return sp.coo_array((weights, rng.integers(n, size=(2, m))), shape=(n, n)).tocsr()


def normal(n=N, d=5):
    return np.random.default_rng(1).standard_normal((n, d))


def words(empty_rows=0):
    x = (np.random.default_rng(2).random((N, 200)) < 0.05).astype(float)
    x[:, 0] = 1.0
    x[:empty_rows] = 0.0
    return x


def signed(n, d, density):
    x = sp.random_array((n, d), density=density, rng=np.random.default_rng(3), format="csr")
    x.data -= 0.5
    return x


def only(row, column, shape=(N, 200)):
    return sp.csr_array(([1.0], ([row], [column])), shape=shape)


def star(n=N):
    return sp.csr_array((np.ones(n - 1), (np.zeros(n - 1, int), np.arange(1, n))), shape=(n, n))


def path(n=300):
    return sp.diags_array(np.ones(n - 1), offsets=1, shape=(n, n)).tocsr()


NOTHING = sp.csr_array((N, N))
ODD_UNITS = np.array([1e300, 1e-300, 1.0, 1e30, 1e-30])

ATTRIBUTES = {
    "constant": lambda: np.full((N, 5), 7.0),
    "two distinct rows": lambda: np.repeat(normal()[:2], N // 2, axis=0),
    "1e300": lambda: normal() * 1e300,
    "largest float": lambda: np.sign(normal()) * np.finfo(float).max,
    "1e30": lambda: normal() * 1e30,
    "1e-300": lambda: normal() * 1e-300,
    "denormal": lambda: np.round(normal() * 5) * 5e-324,
    "odd units": lambda: normal() * ODD_UNITS,
    "large offset": lambda: normal() * 1e-3 + 1e9,
    "zeros": lambda: np.zeros((N, 5)),
    "many zeros": lambda: np.zeros((N, 500)),
    "zeros, sparse": lambda: sp.csr_array((N, 500)),
    "zero columns": lambda: np.hstack([normal(), np.zeros((N, 5))]),
    "one node differs": lambda: np.eye(1, N).T,
    "float16": lambda: (normal() * 2e4).astype(np.float16),
    "float32": lambda: (np.sign(normal()) * 3e38).astype(np.float32),
    "longdouble": lambda: normal().astype(np.longdouble),
    "int64": lambda: np.where(normal() > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min),
    "bool": lambda: normal() > 0,
    "sparse int": lambda: sp.csr_array(np.round(normal() * 2).astype(int)),
    "wide signed": lambda: signed(N, 3000, 0.01),
    "words": lambda: sp.csr_array(words()),
    "words, nodes without any": lambda: sp.csr_array(words(empty_rows=10)),
    "one word of one node": lambda: only(3, 5),
    "words, 1e300": lambda: sp.csr_array(words() * 1e300),
    "words, denormal": lambda: sp.csr_array(words() * 5e-324),
}

GRAPHS = {
    "one node": lambda: (Graph(np.zeros((1, 1)), np.ones((1, 3))), 1),
    "one node with a loop": lambda: (Graph(np.ones((1, 1))), 1),
    "two nodes": lambda: (Graph(np.zeros((2, 2)), np.eye(2)), 2),
    "two nodes, an edge": lambda: (Graph(np.array([[0, 1], [0, 0]])), 2),
    "no edges": lambda: (Graph(sp.csr_array((80, 80)), normal(80)), 3),
    "one edge": lambda: (Graph(only(0, 1, (80, 80)), normal(80)), 3),
    "one edge, no attributes": lambda: (Graph(only(0, 1, (80, 80))), 3),
    "nothing differs": lambda: (Graph(NOTHING, np.ones((N, 2))), 3),
    "k = 1": lambda: (Graph(links(), normal()), 1),
    "k = n": lambda: (Graph(links(), normal()), N),
    "k = n, no attributes": lambda: (Graph(links()), N),
    "fewer points than k": lambda: (Graph(NOTHING, np.repeat(normal()[:4], 10, axis=0)), 8),
    "star": lambda: (Graph(star()), 3),
    "undirected star": lambda: (Graph(star(), normal(), directed=False), 3),
    "cliques": lambda: (Graph(sp.block_diag([np.ones((10, 10))] * 4)), 4),
    "complete": lambda: (Graph(np.ones((N, N)), normal()), 3),
    "path": lambda: (Graph(path()), 3),
    "undirected path": lambda: (Graph(path(), normal(300, 2), directed=False), 3),
    "loops only": lambda: (Graph(sp.eye_array(N)), 3),
    "loops and attributes": lambda: (Graph(sp.eye_array(N), normal()), 3),
    "weights 1e-12 to 1e12": lambda: (Graph(links(weights=np.logspace(-12, 12, 120))), 3),
    "weights 1e300": lambda: (Graph(links() * 1e300, normal()), 3),
    "weights 1e-300": lambda: (Graph(links() * 1e-300), 3),
    "sinks": lambda: (Graph(sp.csr_array(np.kron([[0, 1], [0, 0]], np.eye(20)))), 2),
    "bipartite": lambda: (Graph.from_biadjacency(links(20, 60)), 3),
    "parts": lambda: (Graph(sp.block_diag([links(20, 50)] * 3), normal(60)), 3),
    "ids": lambda: (Graph(links(), ids=[f"{i:03d}\u202eü" for i in range(N)]), 3),
}


def fit_and_check(graph, k, preset):
    """Fit with every warning but the library's own an error."""
    model = HeNCler(k, preset=preset, epochs=2, n_init=2, device="cpu", random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", HenclerWarning)
        model.fit(graph)
        again = model.predict(graph)
        similarity = model.similarity([0], [0])
    for array in (model.e_, model.r_, model.singular_values_, similarity):
        assert np.isfinite(array).all()
    for record in model.history_:
        assert np.isfinite(list(record.values())).all()
    assert model.labels_.min() >= 0
    assert model.labels_.max() < k
    if len(np.unique(model.labels_)) < k:
        assert any("not empty" in str(warning.message) for warning in caught)
    np.testing.assert_array_equal(again, model.labels_)
    return model


@pytest.mark.parametrize("kind", ATTRIBUTES)
def test_odd_attributes(kind):
    fit_and_check(Graph(links(), ATTRIBUTES[kind]()), 3, "default")


@pytest.mark.parametrize("kind", GRAPHS)
def test_odd_graphs(kind):
    fit_and_check(*GRAPHS[kind](), "default")


@pytest.mark.parametrize("preset", NETWORKS)
@pytest.mark.parametrize("kind", [*ATTRIBUTES, *GRAPHS])
def test_odd_inputs_of_the_networks(kind, preset):
    graph, k = GRAPHS[kind]() if kind in GRAPHS else (Graph(links(), ATTRIBUTES[kind]()), 3)
    fit_and_check(graph, k, preset)


@pytest.mark.parametrize("preset", NETWORKS)
@pytest.mark.parametrize("factor", [1e300, 1e-300])
def test_networks_say_that_they_rescale(preset, factor):
    graph = Graph(links(), normal() * factor)
    with pytest.warns(HenclerWarning, match="single precision"):
        model = HeNCler(3, preset=preset, epochs=2, device="cpu", random_state=0).fit(graph)
    unscaled = Graph(links(), normal() / np.abs(normal()).max())
    expected = HeNCler(3, preset=preset, epochs=2, device="cpu", random_state=0).fit(unscaled)
    np.testing.assert_allclose(model.e_, expected.e_, rtol=1e-3, atol=1e-5)


def test_a_training_that_diverges_says_so():
    model = HeNCler(3, preset="released", epochs=5, learning_rate=1e30, device="cpu")
    with pytest.raises(ParameterError, match="diverged"):
        model.fit(Graph(links(), normal()))


@pytest.mark.parametrize("exponent", [-900, 30])
@pytest.mark.parametrize("kind", ["measurements", "weighted words"])
def test_units_do_not_matter(kind, exponent):
    # Words of whole numbers are counts, and get an idf; 0.3 keeps them apart from those.
    x = normal() if kind == "measurements" else sp.csr_array(0.3 * words())
    plain = HeNCler(3, n_init=2, random_state=0).fit(Graph(links(), x))
    scaled = HeNCler(3, n_init=2, random_state=0).fit(Graph(links(), x * 2.0**exponent))
    np.testing.assert_array_equal(scaled.labels_, plain.labels_)


def test_stored_zeros_and_repeated_entries_are_nothing_of_their_own():
    x = sp.csr_array(words())
    stored = x.copy()
    stored.data[:50] = 0.0
    pruned = stored.copy()
    pruned.eliminate_zeros()
    twice = sp.csr_array(
        (np.repeat(x.data / 2, 2), np.repeat(x.indices, 2), 2 * x.indptr), shape=x.shape
    )
    for given, same in ((stored, pruned), (twice, x)):
        nnz = given.nnz
        graph = Graph(links(), given)
        assert (graph.x != same).nnz == 0
        assert graph.x.nnz == same.nnz
        assert given.nnz == nnz  # the caller's matrix is left alone


def test_weights_that_overflow_in_sum_are_refused():
    with pytest.raises(GraphError, match="add up"):
        Graph((links() > 0) * 1e308)


def test_many_isolated_nodes():
    n = 20_000
    graph = Graph(only(0, 1, (n, n)), normal(n, 4))
    model = HeNCler(3, n_init=1, learned_maps=False, random_state=0).fit(graph)
    assert set(model.labels_) == {0, 1, 2}


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_a_hundred_thousand_isolated_nodes(preset):
    n = 100_000
    fit_and_check(Graph(only(0, 1, (n, n)), normal(n, 4)), 3, preset)


# --- same answer -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graph():
    return make_heterophilous_graph(120, 4, n_attributes=12, random_state=0)


def model_of(preset):
    return HeNCler(4, preset=preset, epochs=5, device="cpu", random_state=0)


@pytest.fixture(scope="module")
def models(graph):
    return {preset: model_of(preset).fit(graph) for preset in PRESETS}


@pytest.fixture(scope="module")
def fitted(models):
    return models["default"]


@pytest.mark.parametrize("preset", PRESETS)
def test_pickle_clone_and_threads_of_torch(graph, models, preset):
    fitted = models[preset]
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(graph), fitted.labels_)
    before = pickle.loads(pickle.dumps(clone(fitted)))
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2 if threads == 1 else 1)
        np.testing.assert_array_equal(before.fit_predict(graph), fitted.labels_)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_another_process_with_other_threads(models, threads):
    code = (
        "from hencler import HeNCler, make_heterophilous_graph as make\n"
        "graph = make(120, 4, n_attributes=12, random_state=0)\n"
        "options = {'epochs': 5, 'device': 'cpu', 'random_state': 0}\n"
        f"print([HeNCler(4, preset=p, **options).fit_predict(graph).tolist() for p in {PRESETS}])"
    )
    environment = os.environ | {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(run.stdout) == [models[preset].labels_.tolist() for preset in PRESETS]


def test_the_order_of_the_nodes_does_not_matter(graph, fitted):
    order = np.random.default_rng(0).permutation(graph.n_nodes)
    labels = HeNCler(4, random_state=0).fit_predict(graph.subgraph(order))
    np.testing.assert_array_equal(labels, fitted.labels_[order])


@pytest.mark.parametrize("preset", PRESETS)
def test_predict_in_eight_threads(graph, preset):
    model = HeNCler(4, preset=preset, epochs=2, n_init=2, device="cpu", random_state=0).fit(graph)
    with ThreadPoolExecutor(8) as pool:
        for labels in pool.map(model.predict, [graph] * 16):
            np.testing.assert_array_equal(labels, model.labels_)


# --- altered model files ---------------------------------------------------------------------


def altered(tensors):
    """Every tensor of another shape or type, not finite, gone, or in another one's place."""
    for name, value in tensors.items():
        yield {k: v for k, v in tensors.items() if k != name}
        changes = [
            value[:0],
            value[None],
            np.ones(value.size + 1, dtype=value.dtype),
            value.astype(np.uint8),
        ]
        if value.size > 1:
            changes.append(value[:-1])
        if value.ndim == 2 and value.shape[0] != value.shape[1]:
            changes.append(value.T)
        if value.dtype.kind == "f" and value.size:
            changes += [np.full_like(value, np.nan), value.astype(np.float16)]
        else:
            changes.append(value - 10**6)
        for change in changes:
            if change.shape != value.shape or change.dtype != value.dtype or change.size:
                yield tensors | {name: change}
    for a, b in itertools.combinations(tensors, 2):
        if tensors[a].shape != tensors[b].shape:
            yield tensors | {a: tensors[b], b: tensors[a]}


def parts_of(header, at=()):
    for key, value in header.items():
        yield (*at, key)
        if isinstance(value, dict):
            yield from parts_of(value, (*at, key))


def with_value(header, at, value):
    changed = json.loads(json.dumps(header))
    inner = changed
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return changed


MODELS = {
    "both views": lambda: (make_heterophilous_graph(80, 4, n_attributes=6, random_state=0), {}),
    "words": lambda: (Graph(links(), sp.csr_array(words())), {}),
    "links": lambda: (Graph(links()), {}),
    "paper": lambda: (Graph(links()), {"preset": "paper"}),
    "released": lambda: (Graph(links(), normal()), {"preset": "released"}),
}
HARMLESS = ("fitted.", "net.running", "num_batches_tracked")
"""Tensors that no prediction depends on."""


@pytest.mark.parametrize(
    "kind", ["links", *(pytest.param(k, marks=pytest.mark.slow) for k in MODELS if k != "links")]
)
def test_altered_models_are_refused(tmp_path, kind):
    graph, options = MODELS[kind]()
    model = HeNCler(4, **options, epochs=1, n_init=1, device="cpu", random_state=0).fit(graph)
    model.save(tmp_path)
    header, tensors = read_model(tmp_path)
    tensors = {k: v for k, v in tensors.items() if not any(part in k for part in HARMLESS)}
    rest = {k: v for k, v in read_model(tmp_path)[1].items() if k not in tensors}
    header = {k: v for k, v in header.items() if k not in ("format", "tensors")}
    for changed in altered(tensors):
        write_model(tmp_path, header, changed | rest)
        with pytest.raises(HenclerError):
            HeNCler.load(tmp_path, device="cpu")
    for at, value in itertools.product(
        parts_of(header["model"]), (None, "x", -1, 10**9, 10**30, [], {}, [[1]], ["a"])
    ):
        write_model(
            tmp_path, header | {"model": with_value(header["model"], at, value)}, tensors | rest
        )
        try:
            HeNCler.load(tmp_path, device="cpu").predict(graph)
        except HenclerError:
            continue
        # What can be anything, or was that before.
        if with_value(header["model"], at, value) == header["model"]:
            continue
        assert at[0] in ("evidence", "known_ids", "n_attributes", "unit"), (at, value)


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 100, -1])
def test_truncated_and_flipped_files_are_refused(tmp_path, fitted, cut):
    fitted.save(tmp_path)
    for file in tmp_path.iterdir():
        whole = file.read_bytes()
        file.write_bytes(whole[:cut])
        with pytest.raises(HenclerError):
            HeNCler.load(tmp_path)
        position = cut % len(whole)
        flipped = bytes([whole[position] ^ 0xFF])
        file.write_bytes(whole[:position] + flipped + whole[position + 1 :])
        with pytest.raises(HenclerError):
            HeNCler.load(tmp_path)
        file.write_bytes(whole)


def test_a_deep_header_is_refused(tmp_path):
    (tmp_path / "model.json").write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(HenclerError):
        HeNCler.load(tmp_path)


# --- memory ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_large_graphs_need_little_memory():
    code = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
import numpy as np, scipy.sparse as sp
from hencler import Graph, HeNCler
n, rng = 200_000, np.random.default_rng(0)
edges = sp.coo_array((np.ones(5 * n), rng.integers(n, size=(2, 5 * n))), shape=(n, n))
model = HeNCler(5, random_state=0).fit(Graph(edges, rng.standard_normal((n, 16))))
assert set(model.labels_) == set(range(5))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
