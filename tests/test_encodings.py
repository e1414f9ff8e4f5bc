"""The encoding against dense matrix powers, closed forms and PyG."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from hencler import Graph
from hencler._encodings import (
    _blocks,
    _fill,
    _transition_matrix,
    node_encoding,
    random_walk_encoding,
    sampled_encoding,
)
from hencler._errors import GraphError, ParameterError


def dense_encoding(adjacency, length):
    a = np.asarray(adjacency, dtype=np.float64)
    degree = a.sum(axis=1, keepdims=True)
    p = np.divide(a, degree, out=np.zeros_like(a), where=degree > 0)
    return np.stack([np.diag(np.linalg.matrix_power(p, k)) for k in range(1, length + 1)], axis=1)


@st.composite
def adjacencies(draw):
    n = draw(st.integers(1, 9))
    weights = st.sampled_from([0.0, 0.0, 0.0, 0.5, 1.0, 3.0])
    return np.array(draw(st.lists(weights, min_size=n * n, max_size=n * n))).reshape(n, n)


DIRECTED = np.array(
    [
        [0, 2, 1, 0, 0, 0],
        [1, 3, 0, 0.5, 0, 0],  # self-loop
        [0, 1, 0, 4, 0, 0],
        [1, 0, 0, 0, 2, 0],
        [0, 0, 0, 0, 0, 0],  # sink
        [0, 0, 0, 0, 0, 0],  # isolated
    ]
)


@pytest.mark.parametrize("length", range(1, 7))
@pytest.mark.parametrize("block_entries", [1, 7, 1 << 22])
def test_directed_with_sink_loop_and_weights(length, block_entries):
    encoding = random_walk_encoding(sp.csr_array(DIRECTED), length, block_entries=block_entries)
    assert encoding.shape == (6, length)
    assert encoding.dtype == np.float64
    np.testing.assert_allclose(encoding, dense_encoding(DIRECTED, length), atol=1e-15)


@settings(max_examples=60, deadline=None)
@given(adjacencies(), st.integers(1, 6), st.sampled_from([1, 5, 20, 1 << 20]))
def test_equals_dense_powers(adjacency, length, block_entries):
    encoding = random_walk_encoding(adjacency, length, block_entries=block_entries)
    np.testing.assert_allclose(encoding, dense_encoding(adjacency, length), atol=1e-14)
    assert encoding.min() >= 0
    assert encoding.max() <= 1 + 1e-12


@pytest.mark.parametrize("block_entries", [500, 5_000, 1 << 22])
def test_many_blocks_on_a_larger_graph(block_entries):
    rng = np.random.default_rng(0)
    a = sp.random_array((300, 300), density=0.02, rng=rng, format="csr")
    encoding = random_walk_encoding(a, 5, block_entries=block_entries)
    np.testing.assert_allclose(encoding, dense_encoding(a.toarray(), 5), atol=1e-14)


def test_closed_forms():
    ring = np.roll(np.eye(5), 1, axis=1)  # back after 5 steps, no sooner
    np.testing.assert_array_equal(
        random_walk_encoding(ring, 6), np.tile([0, 0, 0, 0, 1, 0], (5, 1))
    )
    n = 7  # complete graph: 1/n + (1 - 1/n) (-1/(n-1))^k
    powers = [1 / n + (1 - 1 / n) * (-1 / (n - 1)) ** k for k in range(1, 7)]
    complete = random_walk_encoding(np.ones((n, n)) - np.eye(n), 6)
    np.testing.assert_allclose(complete, np.tile(powers, (n, 1)), atol=1e-15)


def test_no_edges():
    np.testing.assert_array_equal(random_walk_encoding(sp.csr_array((4, 4)), 3), np.zeros((4, 3)))


def test_duplicate_edges_add_up():
    rows, cols = [0, 0, 0, 1, 2], [1, 1, 2, 0, 0]
    parts = sp.coo_array((np.ones(5), (rows, cols)), shape=(3, 3))
    merged = random_walk_encoding(Graph(parts).adjacency, 4)
    np.testing.assert_allclose(merged, dense_encoding(parts.toarray(), 4))
    # the same without merging, as CSR with repeated columns
    raw = sp.csr_array((np.ones(5), cols, [0, 3, 4, 5]), shape=(3, 3))
    np.testing.assert_allclose(random_walk_encoding(raw, 4), merged)


def test_input_is_left_alone():
    a = sp.csr_array(DIRECTED)
    before = a.copy()
    random_walk_encoding(a, 4)
    np.testing.assert_array_equal(a.data, before.data)
    np.testing.assert_array_equal(a.indices, before.indices)
    single = random_walk_encoding(a.astype(np.float32), 4)
    np.testing.assert_allclose(single, random_walk_encoding(a, 4), atol=1e-6)


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize("n", [50, 2_050])  # dense and sparse products in PyG
def test_agrees_with_pyg(n):
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data")
    transforms = pytest.importorskip("torch_geometric.transforms")
    rng = np.random.default_rng(0)
    a = sp.random_array((n, n), density=5 / n, rng=rng, format="coo")
    index = torch.from_numpy(np.stack([a.row, a.col]).astype(np.int64))
    graph = data.Data(edge_index=index, num_nodes=n)
    expected = transforms.AddRandomWalkPE(walk_length=3, attr_name="pe")(graph).pe.numpy()
    np.testing.assert_allclose(random_walk_encoding(a.astype(bool), 3), expected, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(adjacencies(), st.integers(2, 6))
def test_fill_bounds_what_is_held(adjacency, length):
    p = _transition_matrix(adjacency)
    fill = _fill(p, sp.csr_array(p.T), length)
    for steps in range(2, length + 1):
        left = np.linalg.matrix_power(p.toarray(), (steps + 1) // 2)
        right = np.linalg.matrix_power(p.toarray(), steps // 2)
        held = np.count_nonzero(left, axis=1) + np.count_nonzero(right, axis=0)
        assert np.all(held <= fill)


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 20))
def test_blocks_cover_all_within_the_budget(fill, budget):
    blocks = list(_blocks(np.array(fill, dtype=float), budget))
    assert [i for block in blocks for i in range(block.start, block.stop)] == list(range(len(fill)))
    for block in blocks:
        assert block.stop - block.start == 1 or sum(fill[block]) <= budget


def test_errors():
    with pytest.raises(ParameterError, match="length=0"):
        random_walk_encoding(DIRECTED, 0)
    with pytest.raises(ParameterError, match="block_entries=0"):
        random_walk_encoding(DIRECTED, 3, block_entries=0)
    with pytest.raises(GraphError, match=r"shape \(2, 3\)"):
        random_walk_encoding(np.ones((2, 3)))


# --- sampled ---------------------------------------------------------------------------------


def _random_links(seed, weighted):
    rng = np.random.default_rng(seed)
    dense = sp.random_array((40, 40), density=0.15, rng=rng).toarray()
    dense[3] = 0  # no way out
    return sp.csr_array(dense if weighted else dense > 0, dtype=float)


@pytest.mark.parametrize("weighted", [True, False])
def test_the_sampled_encoding_is_unbiased(weighted, global_random_seed):
    links = _random_links(global_random_seed, weighted)
    if not weighted:  # as a store has it: one number for all links
        links.data = np.broadcast_to(np.ones(()), links.data.shape)
    exact = random_walk_encoding(links.copy(), 4)
    draws = np.stack([sampled_encoding(links, 4, seed=seed) for seed in range(300)])
    error = np.abs(draws.mean(axis=0) - exact)
    assert error[:, :2].max() < 1e-6, "one and two steps are exact"
    spread = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(error <= 6 * spread + 1e-6)


def test_the_sampled_encoding_is_the_same_on_every_call():
    links = _random_links(0, True)
    assert np.array_equal(sampled_encoding(links), sampled_encoding(links))
    assert sampled_encoding(links).dtype == np.float32


@pytest.mark.parametrize("block", [1, 13, 1000])
def test_blocks_leave_exact_columns_alone(block):
    links = _random_links(1, True)
    found = sampled_encoding(links, 3, block_entries=block)
    assert np.allclose(found[:, :2], random_walk_encoding(links, 2), atol=1e-6)


def test_graphs_with_many_links_are_sampled(monkeypatch):
    links = _random_links(0, True)
    assert np.allclose(node_encoding(links), random_walk_encoding(links), atol=1e-7)
    monkeypatch.setattr("hencler._encodings.EXACT_ENTRIES", 10)
    assert np.array_equal(node_encoding(links), sampled_encoding(links))


def test_a_graph_without_links_returns_nowhere():
    assert not sampled_encoding(sp.csr_array((5, 5))).any()
