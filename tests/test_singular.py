import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import hencler._singular as singular
from hencler._singular import leading_svd, leading_triples, padded, subspace_svd


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array, aslinearoperator])
@pytest.mark.parametrize("shape", [(120, 90), (40, 30)])
def test_leading_svd_equals_numpy(wrap, shape):
    matrix = np.random.default_rng(0).random(shape)
    left, values, right = leading_svd(wrap(matrix), 5)
    np.testing.assert_allclose(values, np.linalg.svd(matrix, compute_uv=False)[:5])
    np.testing.assert_allclose(matrix @ right, left * values, atol=1e-8)
    assert (left[np.abs(left).argmax(0), range(5)] > 0).all()


def test_leading_svd_pads_what_a_matrix_does_not_have():
    low_rank = np.outer(np.arange(1.0, 101), np.ones(80))
    left, values, right = leading_svd(low_rank, 3)
    assert values[0] > 0
    np.testing.assert_allclose(values[1:], 0)
    np.testing.assert_allclose(left[:, 1:], 0)
    assert leading_svd(np.eye(2), 4)[0].shape == (2, 4)
    assert right.shape == (80, 3)


@pytest.mark.parametrize("shape", [(20, 30), (200, 100)])
def test_leading_svd_of_nothing_is_nothing(shape):
    left, values, right = leading_svd(sp.csr_array(shape), 3)
    assert left.shape == (shape[0], 3)
    assert right.shape == (shape[1], 3)
    assert not values.any()


@pytest.mark.parametrize("shape", [(150, 120), (120, 150)])
def test_values_below_what_iterations_can_tell_are_zero(shape):
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(n, 3)))[0] for n in shape)
    matrix = sp.csr_array(left @ np.diag([2.0, 1.0, 1e-12]) @ right.T)
    P, sigma, Q = leading_triples(matrix, 3)
    np.testing.assert_allclose(sigma, [2, 1], rtol=1e-12)
    assert P.shape == (shape[0], 2)
    assert Q.shape == (shape[1], 2)


def test_what_centring_left_over_is_nothing():
    rest = sp.csr_array(1e-14 * np.random.default_rng(0).normal(size=(150, 120)))
    assert leading_triples(rest, 2)[1].shape == (2,)
    for matrix in (rest, rest.toarray()):
        assert leading_triples(matrix, 2, noise=100.0)[1].size == 0


def test_the_same_triples_in_every_process():
    # Three triples of a matrix of rank two: Lanczos runs out of directions and restarts at random.
    code = (
        "import numpy as np, hencler._singular as s, hashlib, scipy.sparse as sp\n"
        "x = np.random.default_rng(0).normal(size=(200, 2))\n"
        "parts = s.leading_svd(sp.csr_array(x @ x[:150].T), 3)\n"
        "print(hashlib.sha256(b''.join(p.tobytes() for p in parts)).hexdigest())"
    )
    digests = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        for _ in range(2)
    }
    assert len(digests) == 1


def test_large_matrices_are_approximate(monkeypatch):
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(n, 4)))[0] for n in (400, 300))
    matrix = left @ np.diag([8.0, 4.0, 3.0, 2.0]) @ right.T + 0.01 * rng.normal(size=(400, 300))
    expected = leading_svd(matrix, 4)
    monkeypatch.setattr(singular, "MANY_NODES", 0)
    found = leading_svd(sp.csr_array(matrix), 4)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)
    for a, b in ((found[0], expected[0]), (found[2], expected[2])):
        np.testing.assert_allclose(a, b, atol=2e-3)


def test_subspace_iteration_finds_what_stands_out():
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(n, 4)))[0] for n in (300, 200))
    matrix = left @ np.diag([8.0, 4.0, 3.0, 2.0]) @ right.T + 0.01 * rng.normal(size=(300, 200))
    expected = np.linalg.svd(matrix)
    P, sigma, Q = subspace_svd(sp.csr_array(matrix), 4)
    np.testing.assert_allclose(sigma, expected[1][:4], rtol=1e-5)
    np.testing.assert_allclose(np.abs((P * expected[0][:, :4]).sum(axis=0)), 1, atol=1e-4)
    np.testing.assert_allclose(np.abs((Q.T * expected[2][:4]).sum(axis=1)), 1, atol=1e-4)


def test_padded_with_zeros():
    np.testing.assert_array_equal(padded(np.ones((2, 1)), 3), [[1, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(padded(np.ones(2), 3), [1, 1, 0])


@pytest.mark.parametrize("sampled", [False, True])
def test_sparse_links_of_large_graphs_are_found(monkeypatch, sampled):
    """Four clusters in a ring of sparse links: their values hardly stand out from the rest."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=2000)
    a = sp.csr_array(
        (rng.random((2000, 2000)) < np.where(y == (y[:, None] + 1) % 4, 0.007, 0.001)).astype(float)
    )
    exact = np.linalg.svd(a.toarray())
    monkeypatch.setattr(singular, "MANY_NODES", 100)
    if sampled:
        monkeypatch.setattr(singular, "SAMPLED_NODES", 100)
        a = a.astype(np.float32)
    P, sigma, Q = leading_svd(a, 4)
    assert P.dtype == (np.float32 if sampled else np.float64)
    np.testing.assert_allclose(sigma, exact.S[:4], rtol=1e-3)
    np.testing.assert_allclose(abs(np.linalg.det(P.T @ exact.U[:, :4])), 1, atol=0.01)
    np.testing.assert_allclose(abs(np.linalg.det(Q.T @ exact.Vh[:4].T)), 1, atol=0.01)
