import numpy as np
import scipy.sparse as sp
import torch

from hencler._sampling import PairSampler

CPU = torch.device("cpu")


def draw(matrix, m, seed=0):
    sampler = PairSampler(sp.csr_array(matrix), CPU)
    return [t.numpy() for t in sampler.draw(m, torch.Generator().manual_seed(seed))]


def test_edges_are_edges_and_the_others_are_not():
    rng = np.random.default_rng(0)
    matrix = (rng.random((30, 30)) < 0.2).astype(float)
    pairs, is_edge, weight = draw(matrix, 500)
    assert weight.all()
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
    np.testing.assert_array_equal(weight, 1 - is_edge)
    _, is_edge, weight = draw(np.ones((4, 4)), 10)
    np.testing.assert_array_equal(weight, is_edge)
