import numpy as np
import pytest
import scipy.sparse as sp
import torch

from hencler._sampling import BatchPairSampler, DeviceBatchPairSampler, PairSampler, contains

CPU = torch.device("cpu")


def draw(matrix, m, seed=0):
    sampler = PairSampler(sp.csr_array(matrix), CPU)
    return [t.numpy() for t in sampler.draw(m, torch.Generator().manual_seed(seed))]


def test_edges_are_edges_and_the_others_are_not():
    rng = np.random.default_rng(0)
    matrix = (rng.random((30, 30)) < 0.2).astype(float)
    pairs, is_edge, weight = draw(matrix, 500)
    np.testing.assert_allclose(weight, 1 / 1000, rtol=1e-6)
    np.testing.assert_array_equal(matrix[pairs[0], pairs[1]] > 0, is_edge.astype(bool))
    others = pairs[:, is_edge == 0]
    assert (others[0] != others[1]).all()


def test_both_draws_are_uniform():
    matrix = np.zeros((6, 6))
    matrix[0, 1] = matrix[2, 3] = matrix[5, 5] = 1
    pairs, is_edge, _ = draw(matrix, 30_000)
    for kind, size in ((1, 3), (0, 28)):  # 28 pairs are neither edges nor loops
        chosen = pairs[:, is_edge == kind]
        _, counts = np.unique(chosen[0] * 6 + chosen[1], return_counts=True)
        assert counts.size == size
        expected = 30_000 / size
        assert (np.abs(counts - expected) < 6 * np.sqrt(expected)).all()


def test_a_graph_without_edges_and_a_complete_one():
    _, is_edge, weight = draw(np.zeros((4, 4)), 10)
    assert not is_edge.any()
    assert weight.sum() == pytest.approx(1)
    _, is_edge, weight = draw(np.ones((4, 4)), 10)
    np.testing.assert_allclose(weight, is_edge / 10)


def test_contains_is_a_look_up():
    rng = np.random.default_rng(0)
    dense = rng.random((40, 40)) < rng.random((40, 1)) * 0.6
    matrix = sp.csr_array(dense.astype(float))
    rows, columns = np.divmod(np.arange(1600), 40)
    found = contains(matrix.indptr, matrix.indices, rows, columns)
    np.testing.assert_array_equal(found.reshape(40, 40), dense)


def host_draws(matrix, seed):
    sampler, rng = BatchPairSampler(matrix, 0.5, 2), np.random.default_rng(seed)
    return lambda batch: sampler.draw(np.sort(batch), rng)


def device_draws(matrix, seed):
    sampler = DeviceBatchPairSampler(matrix, 0.5, 2, CPU)
    generator = torch.Generator().manual_seed(seed)

    def draw(batch):
        drawn = sampler.draw(torch.from_numpy(np.sort(batch)), generator)
        return type(drawn)(*(t.numpy() for t in drawn))

    return draw


@pytest.mark.parametrize("kind", ["directed", "no edges", "complete", "loops only"])
@pytest.mark.parametrize("sampler", [host_draws, device_draws])
def test_pairs_of_batches_are_unbiased(kind, sampler):
    """Mean over batches and draws against both means over the whole graph."""
    rng = np.random.default_rng(0)
    n, size = 7, 3
    dense = {
        "directed": rng.random((n, n)) < np.linspace(0, 0.8, n)[:, None],  # a sink, and a hub
        "no edges": np.zeros((n, n), dtype=bool),
        "complete": np.ones((n, n), dtype=bool),
        "loops only": np.eye(n, dtype=bool),
    }[kind]
    loss = rng.random((2, n, n))  # of a pair as a non-edge, as an edge
    others = ~dense & ~np.eye(n, dtype=bool)
    parts = [loss[1][dense], loss[0][others]]
    expected = np.mean([part.mean() for part in parts if part.size])
    draw = sampler(sp.csr_array(dense.astype(float)), 1)
    values = []
    for _ in range(6_000):
        batch = np.sort(rng.permutation(n)[:size])
        drawn = draw(batch)
        nodes = np.concatenate([batch, drawn.targets])
        source, target = nodes[drawn.pairs]
        kinds = drawn.is_edge.astype(int)
        counts = drawn.weight > 0
        assert (dense[source, target][counts] == kinds[counts]).all()
        values.append((drawn.weight * loss[kinds, source, target]).sum())
    error = np.std(values) / np.sqrt(len(values))
    assert abs(np.mean(values) - expected) < 5 * error + 1e-6


def test_pairs_come_from_memory_mapped_arrays(tmp_path):
    matrix = sp.random_array((50, 50), density=0.1, rng=np.random.default_rng(0), format="csr")
    matrix.sort_indices()
    mapped = {}
    for name in ("indptr", "indices"):
        np.save(tmp_path / f"{name}.npy", getattr(matrix, name))
        mapped[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    stored = type("Stored", (), {**mapped, "shape": matrix.shape})
    batch = np.arange(0, 50, 3)
    drawn = [
        BatchPairSampler(source, 0.25, 2).draw(batch, np.random.default_rng(0))
        for source in (matrix, stored)
    ]
    for a, b in zip(*drawn):
        np.testing.assert_array_equal(a, b)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_draws_on_a_gpu_never_wait_for_it():
    matrix = sp.random_array((200, 200), density=0.05, rng=np.random.default_rng(0), format="csr")
    device = torch.device("cuda")
    sampler = PairSampler(matrix, device)
    generator = torch.Generator(device).manual_seed(0)
    torch.cuda.set_sync_debug_mode("error")
    try:
        pairs, is_edge, weight = sampler.draw(1000, generator)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    source, target = pairs.cpu().numpy()
    kinds = is_edge.cpu().numpy().astype(bool)
    counts = weight.cpu().numpy() > 0
    np.testing.assert_array_equal((matrix.toarray() > 0)[source, target][counts], kinds[counts])
