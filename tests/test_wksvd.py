"""wKSVD: primal against dual, both against dense linear algebra, and the special cases."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy.sparse.linalg import aslinearoperator
from sklearn.base import clone
from sklearn.cluster import SpectralCoclustering
from sklearn.cluster._bicluster import _scale_normalize
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import hencler._wksvd as wksvd
import hencler._wksvd_estimator as wksvd_estimator
from hencler._errors import AttributeDataError, GraphError, ParameterError, ResourceError
from hencler._wksvd import (
    centre,
    centre_similarity,
    degrees,
    fenchel_young_gap,
    primal_objective,
    random_walk_weights,
    similarity_degrees,
    solve_dual,
    solve_primal,
    stationarity_residuals,
    weighted_mean,
)
from hencler._wksvd_estimator import WKSVD

SHAPES = {  # n, m, d
    "n > d": (40, 40, 6),
    "n < d": (12, 12, 30),
    "rectangular": (25, 40, 8),
    "wide": (40, 9, 12),
}


def problem(n, m, d, seed=0):
    rng = np.random.default_rng(seed)
    phi, psi = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    return phi, psi, rng.uniform(0.5, 2, n), rng.uniform(0.5, 2, m)


def dense_reference(S, w1, w2, center):
    """SVD of W1^1/2 M1 S M2' W2^1/2 with every matrix written out."""
    if center:
        M1 = np.eye(len(w1)) - np.outer(np.ones(len(w1)), w1) / w1.sum()
        M2 = np.eye(len(w2)) - np.outer(np.ones(len(w2)), w2) / w2.sum()
        S = M1 @ S @ M2.T
    return scipy.linalg.svd(np.diag(w1**0.5) @ S @ np.diag(w2**0.5), full_matrices=False)


def assert_same_solution(a, b, rtol=1e-8, fields=("sigma", "e", "r", "h_e", "h_r")):
    for field in fields:
        x, y = getattr(a, field), getattr(b, field)
        assert_allclose(x, y, atol=rtol * np.abs(y).max(), err_msg=field)


def planted(n=60, m=45, k=3, seed=0):
    """Non-negative matrix with k diagonal blocks, and the blocks of its rows and columns."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(np.arange(n) % k), rng.permutation(np.arange(m) % k)
    S = rng.poisson(np.where(rows[:, None] == columns, 4.0, 0.4)) * rng.uniform(0.5, 2, (n, 1))
    return S.astype(float) + 0.01, rows, columns


# --- primal and dual ----------------------------------------------------------------------------


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_dual_is_the_dense_svd(shape, center):
    phi, psi, w1, w2 = problem(*shape)
    S = phi @ psi.T
    left, sigma, right = dense_reference(S, w1, w2, center)
    solution = solve_dual(S, w1, w2, 4, center=center)
    assert_allclose(solution.sigma, sigma[:4], rtol=1e-12)
    assert_allclose(np.abs(np.sum(solution.h_e * left[:, :4], 0)), 1, rtol=1e-10)
    assert_allclose(np.abs(np.sum(solution.h_r * right[:4].T, 0)), 1, rtol=1e-10)
    assert_allclose(solution.e, solution.h_e * sigma[:4] / np.sqrt(w1)[:, None], rtol=1e-10)
    assert_allclose(solution.r, solution.h_r * sigma[:4] / np.sqrt(w2)[:, None], rtol=1e-10)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_primal_is_the_dual(shape, center):
    phi, psi, w1, w2 = problem(*shape)
    primal = solve_primal(phi, psi, w1, w2, 4, center=center)
    dual = solve_dual(phi @ psi.T, w1, w2, 4, center=center)
    assert_same_solution(primal, dual)
    if center:
        phi, psi = centre(phi, w1), centre(psi, w2)
    assert_allclose(primal.U, psi.T @ (np.sqrt(w2)[:, None] * dual.h_r), atol=1e-8)
    assert_allclose(primal.V, phi.T @ (np.sqrt(w1)[:, None] * dual.h_e), atol=1e-8)
    assert_allclose(primal.e, phi @ primal.U, atol=1e-8)
    assert_allclose(primal.r, psi @ primal.V, atol=1e-8)


@pytest.mark.parametrize("center", [True, False])
def test_matrix_free_primal_is_the_qr_one(center, monkeypatch):
    phi, psi, w1, w2 = problem(160, 130, 20)
    by_qr = solve_primal(phi, psi, w1, w2, 5, center=center)
    monkeypatch.setattr(wksvd, "_MAX_CORE", 0)
    free = solve_primal(phi, psi, w1, w2, 5, center=center)
    assert_same_solution(free, by_qr, fields=by_qr._fields)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("max_core", [0, 512])
def test_sparse_features_equal_dense_ones(center, max_core, monkeypatch):
    rng = np.random.default_rng(1)
    phi = sp.random_array((150, 30), density=0.2, rng=rng, format="csr")
    psi = sp.random_array((120, 30), density=0.2, rng=rng, format="csc")
    w1, w2 = rng.uniform(0.5, 2, 150), rng.uniform(0.5, 2, 120)
    dense = solve_primal(phi.toarray(), psi.toarray(), w1, w2, 4, center=center)
    monkeypatch.setattr(wksvd, "_MAX_CORE", max_core)
    sparse = solve_primal(phi, psi, w1, w2, 4, center=center)
    assert_same_solution(sparse, dense, fields=dense._fields)
    both = solve_primal(sp.csr_matrix(phi), psi.toarray(), w1, w2, 4, center=center)
    assert_same_solution(both, dense, fields=dense._fields)


@pytest.mark.parametrize("kind", ["sparse", "operator", "large dense"])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("shape", [(140, 180), (180, 140), (150, 30), (3, 200)])
def test_iterative_dual_equals_dense(shape, center, kind, monkeypatch):
    rng = np.random.default_rng(2)
    S = sp.random_array(shape, density=0.1, rng=rng, format="coo")
    w1, w2 = rng.uniform(0.5, 2, shape[0]), rng.uniform(0.5, 2, shape[1])
    dense = solve_dual(S.toarray(), w1, w2, 3, center=center)
    if kind == "sparse":
        other = S
    elif kind == "operator":
        other = aslinearoperator(S.tocsr())
    else:
        other = S.toarray()
        monkeypatch.setattr(wksvd, "_MAX_EXACT", 0)
    assert_same_solution(solve_dual(other, w1, w2, 3, center=center), dense, fields=dense._fields)


def test_sparse_similarity_is_never_made_dense(monkeypatch):
    monkeypatch.setattr(sp.csr_array, "toarray", None)
    monkeypatch.setattr(sp.csr_array, "todense", None)
    S = sp.random_array((400, 300), density=0.02, rng=np.random.default_rng(0), format="csr")
    solution = solve_dual(S, np.ones(400), np.ones(300), 2)
    assert solution.sigma[1] > 0
    assert isinstance(centre_similarity(S, np.ones(400), np.ones(300)), wksvd.LinearOperator)


def test_blocks_of_rows_change_nothing(monkeypatch):
    phi, psi, w1, w2 = problem(50, 37, 6)
    whole = solve_primal(phi, psi, w1, w2, 3)
    monkeypatch.setattr("hencler._graph._BLOCK_ENTRIES", 24)
    monkeypatch.setattr(wksvd, "_QR_ROWS", 1)
    assert_same_solution(solve_primal(phi, psi, w1, w2, 3), whole, 1e-11, whole._fields)


def test_memory_mapped_features(tmp_path):
    X = np.random.default_rng(0).uniform(size=(50, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    mapped = WKSVD(2).fit(np.load(tmp_path / "x.npy", mmap_mode="r"))
    np.testing.assert_array_equal(mapped.e_, WKSVD(2).fit(X).e_)


def test_single_precision_is_stored_and_double_computed():
    phi, psi, w1, w2 = problem(80, 60, 5)
    phi, psi = phi.astype(np.float32), psi.astype(np.float32)
    single = solve_primal(phi, psi, w1, w2, 3)
    double = solve_primal(phi.astype(np.float64), psi.astype(np.float64), w1, w2, 3)
    assert single.e.dtype == single.r.dtype == single.h_e.dtype == np.float32
    assert single.U.dtype == single.sigma.dtype == np.float64
    assert_allclose(single.sigma, double.sigma, rtol=1e-13)
    assert_same_solution(single, double, 1e-6)


def test_result_does_not_depend_on_global_random_state():
    S = sp.random_array((300, 300), density=0.05, rng=np.random.default_rng(0), format="csr")
    w = np.ones(300)
    state = np.random.get_state()  # noqa: NPY002
    first = solve_dual(S, w, w, 4)
    np.random.seed(2)  # noqa: NPY002
    second = solve_dual(S, w, w, 4)
    np.random.set_state(state)  # noqa: NPY002
    for a, b in zip(first, second):
        np.testing.assert_array_equal(a, b)


def test_signs_are_fixed():
    phi, psi, w1, w2 = problem(30, 20, 5)
    for solution in (solve_primal(phi, psi, w1, w2, 4), solve_primal(-phi, -psi, w1, w2, 4)):
        h = solution.h_e
        assert np.all(h[np.abs(h).argmax(0), np.arange(4)] > 0)
    flipped = solve_dual(-(phi @ psi.T), w1, w2, 4)
    assert_allclose(flipped.h_e, solution.h_e, atol=1e-9)
    assert_allclose(flipped.h_r, -solution.h_r, atol=1e-9)


# --- centring, degrees, weights -----------------------------------------------------------------


def test_centring_in_the_primal_is_centring_in_the_dual():
    phi, psi, w1, w2 = problem(20, 15, 4)
    primal = centre(phi, w1) @ centre(psi, w2).T
    M1 = np.eye(20) - np.outer(np.ones(20), w1) / w1.sum()
    M2 = np.eye(15) - np.outer(np.ones(15), w2) / w2.sum()
    S = phi @ psi.T
    assert_allclose(M1 @ S @ M2.T, primal, atol=1e-12)
    assert_allclose(centre_similarity(S, w1, w2), primal, atol=1e-12)
    operator = centre_similarity(sp.csr_array(S), w1, w2)
    assert_allclose(operator @ np.eye(15), primal, atol=1e-12)
    assert_allclose(operator.T @ np.eye(20), primal.T, atol=1e-12)
    assert_allclose(operator @ w2, primal @ w2, atol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csr_matrix, torch.from_numpy])
def test_degrees_are_the_sums_of_s(make):
    rng = np.random.default_rng(0)
    phi, psi = rng.uniform(size=(8, 3)), rng.uniform(size=(6, 3))
    S = phi @ psi.T
    d1, d2 = degrees(make(phi), make(psi))
    assert_allclose(np.asarray(d1), S.sum(1), rtol=1e-13)
    assert_allclose(np.asarray(d2), S.sum(0), rtol=1e-13)
    d1, d2 = similarity_degrees(sp.csr_array(S))
    assert_allclose(d1, S.sum(1), rtol=1e-13)
    assert_allclose(d2, S.sum(0), rtol=1e-13)


def test_degrees_of_many_single_precision_rows():
    phi = np.full((3_000_000, 1), 0.1, dtype=np.float32)
    d1, _ = degrees(phi, phi)
    assert d1.dtype == np.float32
    assert_allclose(d1[0], 3_000_000 * 0.01, rtol=1e-6)


def test_elementary_functions_take_torch_tensors_and_gradients():
    phi, psi, _, _ = problem(9, 7, 4)
    phi, psi = np.abs(phi), np.abs(psi)
    a, b = torch.from_numpy(phi).requires_grad_(), torch.from_numpy(psi)
    w1, w2 = random_walk_weights(*degrees(a, b), regularization=0.5)
    v1, v2 = random_walk_weights(*degrees(phi, psi), regularization=0.5)
    assert_allclose(w1.detach(), v1, rtol=1e-12)
    assert_allclose(weighted_mean(a, w1).detach(), weighted_mean(phi, v1), rtol=1e-12)
    assert_allclose(centre(a, w1).detach(), centre(phi, v1), rtol=1e-12)
    s = solve_primal(phi, psi, v1, v2, 2, center=False)
    U, V, sigma = map(torch.from_numpy, (s.U, s.V, s.sigma))
    objective = primal_objective(U, V, a @ U, b @ V, w1, w2, sigma)
    assert abs(float(objective.detach())) < 1e-10
    objective.backward()
    assert torch.isfinite(a.grad).all()
    h_e, h_r = torch.from_numpy(s.h_e), torch.from_numpy(s.h_r)
    for residual in stationarity_residuals(a, b, U, V, h_e, h_r, w1, w2, sigma):
        assert float(residual.detach().abs().max()) < 1e-10
    assert float(fenchel_young_gap(a @ U, h_e, w1, sigma).detach().abs().max()) < 1e-10


def test_random_walk_weights():
    d1, d2 = np.array([1.0, 3.0]), np.array([2.0, 4.0, 6.0])
    w1, w2 = random_walk_weights(d1, d2)
    assert_allclose(w1, 1 / d1)
    assert_allclose(w2, 1 / d2)
    w1, w2 = random_walk_weights(d1, d2, 0.5)
    assert_allclose(w1, 1 / (d1 + 1))
    assert_allclose(w2, 1 / (d2 + 2))


@pytest.mark.parametrize("make", [np.array, torch.tensor])
@pytest.mark.parametrize("bad", [0.0, -2.0, float("nan")])
def test_degrees_that_are_not_positive_are_refused(make, bad):
    ones = make([1.0, 1.0])
    with pytest.raises(GraphError, match=r"row 1: the degree is .*regularization"):
        random_walk_weights(make([1.0, bad]), ones)
    with pytest.raises(GraphError, match="column 0"):
        random_walk_weights(ones, make([bad, 1.0]))


def test_zero_degrees_are_fine_with_regularization():
    w1, _ = random_walk_weights(np.array([0.0, 2.0]), np.ones(2), 1.0)
    assert_allclose(w1, [1, 1 / 3])


# --- the primal problem -------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_objective_and_residuals_vanish_at_the_solution(shape):
    phi, psi, w1, w2 = problem(*shape)
    s = solve_primal(phi, psi, w1, w2, 4)
    phi, psi = centre(phi, w1), centre(psi, w2)
    scale = float(np.sum(s.sigma))
    assert abs(primal_objective(s.U, s.V, s.e, s.r, w1, w2, s.sigma)) < 1e-12 * scale
    assert_allclose(np.sum(s.U * s.V), scale, rtol=1e-11)
    for residual in stationarity_residuals(phi, psi, s.U, s.V, s.h_e, s.h_r, w1, w2, s.sigma):
        assert np.abs(residual).max() < 1e-11 * scale
    assert np.abs(fenchel_young_gap(s.e, s.h_e, w1, s.sigma)).max() < 1e-11 * scale
    assert np.abs(fenchel_young_gap(s.r, s.h_r, w2, s.sigma)).max() < 1e-11 * scale


def test_objective_is_stationary_at_the_solution():
    phi, psi, w1, w2 = problem(20, 15, 4)
    s = solve_primal(phi, psi, w1, w2, 2)
    a, b = torch.from_numpy(centre(phi, w1)), torch.from_numpy(centre(psi, w2))
    U, V = (torch.tensor(x, requires_grad=True) for x in (s.U, s.V))
    weights = (torch.from_numpy(w) for w in (w1, w2))
    primal_objective(U, V, a @ U, b @ V, *weights, torch.from_numpy(s.sigma)).backward()
    assert float(U.grad.abs().max()) < 1e-10
    assert float(V.grad.abs().max()) < 1e-10


def test_objective_is_its_formula():
    rng = np.random.default_rng(0)
    phi, psi, w1, w2 = problem(6, 5, 4)
    U, V, sigma = rng.standard_normal((4, 2)), rng.standard_normal((4, 2)), np.array([2.0, 0.5])
    expected = np.trace(U.T @ V)
    for weights, features, projection in ((w1, phi, U), (w2, psi, V)):
        for w, x in zip(weights, features):
            z = projection.T @ x
            expected -= 0.5 * w * z @ np.diag(1 / sigma) @ z
    assert_allclose(primal_objective(U, V, phi @ U, psi @ V, w1, w2, sigma), expected)


moderate = st.floats(-100, 100, allow_nan=False, allow_subnormal=False)


@settings(max_examples=100, deadline=None)
@given(
    e=arrays(np.float64, (3, 2), elements=moderate),
    h=arrays(np.float64, (3, 2), elements=moderate),
    w=arrays(np.float64, 3, elements=st.floats(1e-3, 1e3)),
    sigma=arrays(np.float64, 2, elements=st.floats(1e-3, 1e3)),
)
def test_fenchel_young_inequality(e, h, w, sigma):
    gap = fenchel_young_gap(e, h, w, sigma)
    squares = 0.5 * np.sum((np.sqrt(w)[:, None] * e / sigma**0.5 - sigma**0.5 * h) ** 2, axis=1)
    scale = 1 + np.sum(w[:, None] * e**2 / sigma + h**2 * sigma, axis=1)
    assert np.all(gap >= -1e-12 * scale)
    assert np.all(np.abs(gap - squares) <= 1e-12 * scale)
    at_equality = fenchel_young_gap(sigma * h / np.sqrt(w)[:, None], h, w, sigma)
    assert np.all(np.abs(at_equality) <= 1e-12 * (1 + np.sum(h**2 * sigma, axis=1)))


# --- special cases of the theory ----------------------------------------------------------------


def test_uniform_weights_without_centring_is_the_plain_svd():
    S = np.random.default_rng(0).standard_normal((20, 13))
    model = WKSVD(5, kernel="precomputed", weights="uniform", center=False).fit(S)
    left, sigma, right = np.linalg.svd(S, full_matrices=False)
    assert_allclose(model.singular_values_, sigma[:5], rtol=1e-12)
    assert_allclose(np.abs(model.e_), np.abs(left[:, :5] * sigma[:5]), atol=1e-11)
    assert_allclose(np.abs(model.r_), np.abs(right[:5].T * sigma[:5]), atol=1e-11)
    assert_allclose(model.e_ / sigma[:5] @ model.r_.T, left[:, :5] * sigma[:5] @ right[:5])


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_inverse_degrees_give_spectral_coclustering(make):
    S, _, _ = planted()
    solution = solve_dual(make(S), *random_walk_weights(S.sum(1), S.sum(0)), 3, center=False)
    normalized, row_diag, column_diag = _scale_normalize(S)
    other = SpectralCoclustering(n_clusters=3, svd_method="arpack", random_state=0)
    # Its ARPACK vectors come in ascending order: the trivial one must not be looked for first.
    state = np.random.get_state()  # noqa: NPY002
    u, v = other._svd(normalized, 3, n_discard=0)
    np.random.set_state(state)  # noqa: NPY002  # scikit-learn 1.6 drew from it
    assert np.max(scipy.linalg.subspace_angles(solution.h_e, u)) < 1e-7
    assert np.max(scipy.linalg.subspace_angles(solution.h_r, v)) < 1e-7
    assert_allclose(np.ravel(row_diag) ** 2, 1 / S.sum(1))
    assert_allclose(np.ravel(column_diag) ** 2, 1 / S.sum(0))


def test_non_negative_s_has_a_trivial_pair_without_centring():
    S, _, _ = planted()
    d1, d2 = S.sum(1), S.sum(0)
    w1, w2 = random_walk_weights(d1, d2)
    plain = solve_dual(S, w1, w2, 3, center=False)
    assert_allclose(plain.sigma[0], 1)
    assert_allclose(plain.h_e[:, 0], np.sqrt(d1 / S.sum()), rtol=1e-9)
    assert_allclose(plain.h_r[:, 0], np.sqrt(d2 / S.sum()), rtol=1e-9)
    centred = solve_dual(S, w1, w2, 3)
    assert centred.sigma[0] < 0.99
    # What centring does in general: the weighted means of e and r are zero.
    assert_allclose(w1 @ centred.e, 0, atol=1e-11)
    assert_allclose(w2 @ centred.r, 0, atol=1e-11)


def test_centring_removes_just_the_trivial_pair_when_degrees_are_equal():
    # A sum of permutations: all row sums and all column sums are equal.
    rng = np.random.default_rng(0)
    S = sum(rng.uniform() * np.eye(20)[rng.permutation(20)] for _ in range(6))
    w1, w2 = random_walk_weights(S.sum(1), S.sum(0))
    plain = solve_dual(S, w1, w2, 5, center=False)
    centred = solve_dual(S, w1, w2, 4)
    assert_allclose(plain.sigma[0], 1)
    assert_allclose(centred.sigma, plain.sigma[1:], rtol=1e-10)
    assert_allclose(centred.e, plain.e[:, 1:], atol=1e-9)


def test_symmetric_kernel_with_degree_weights_is_kernel_spectral_clustering():
    X = np.random.default_rng(0).standard_normal((30, 2))
    model = WKSVD(3, kernel="rbf").fit(X)
    omega = wksvd_estimator.KERNELS["rbf"](X, X)
    d = omega.sum(1)
    M = np.eye(30) - np.outer(np.ones(30), 1 / d) / (1 / d).sum()
    values, alphas = np.linalg.eig(np.diag(1 / d) @ M @ omega)
    order = np.argsort(-values.real)[:3]
    alpha = alphas.real[:, order]
    bias = -(1 / d) @ omega @ alpha / (1 / d).sum()
    scores = omega @ alpha + bias
    assert_allclose(model.singular_values_, values.real[order], rtol=1e-9)
    cosines = np.sum(model.e_ * scores, 0)
    cosines /= np.linalg.norm(model.e_, axis=0) * np.linalg.norm(scores, axis=0)
    assert_allclose(np.abs(cosines), 1, rtol=1e-10)
    assert_allclose(model.e_, model.r_, atol=1e-10)


# --- hard inputs --------------------------------------------------------------------------------


@pytest.mark.parametrize("center", [True, False])
def test_beyond_the_rank_all_columns_are_zero(center, monkeypatch):
    phi, psi, w1, w2 = problem(120, 110, 3)
    phi, psi = np.hstack([phi, phi]), np.hstack([psi, psi])
    dual = solve_dual(phi @ psi.T, w1, w2, 6, center=center)
    solutions = [dual, solve_primal(phi, psi, w1, w2, 6, center=center)]
    monkeypatch.setattr(wksvd, "_MAX_CORE", 0)
    monkeypatch.setattr(wksvd, "_MAX_EXACT", 0)
    solutions.append(solve_primal(phi, psi, w1, w2, 6, center=center))
    solutions.append(solve_dual(phi @ psi.T, w1, w2, 6, center=center))
    for solution in solutions:
        assert_same_solution(solution, dual)
        assert np.all(solution.sigma[:3] > 0)
        for array in (solution.U, solution.V, *solution[2:7]):
            assert array.shape[-1] == 6
            assert not np.any(array[..., 3:])


@pytest.mark.parametrize("max_core", [0, 512])
@pytest.mark.parametrize("n", [1, 5, 150])
def test_identical_rows_have_no_embedding_once_centred(n, max_core, monkeypatch):
    monkeypatch.setattr(wksvd, "_MAX_CORE", max_core)
    phi = np.tile(np.array([0.1, 0.7, 1e3]), (n, 1))
    w = np.linspace(1, 2, n)
    for solution in (
        solve_primal(phi, phi, w, w, 2),
        solve_primal(sp.csr_array(phi), sp.csr_array(phi), w, w, 2),
        solve_dual(phi @ phi.T, w, w, 2),
        solve_dual(sp.csr_array(phi @ phi.T), w, w, 2),
    ):
        assert solution.e.shape == solution.r.shape == (n, 2)
        assert not np.any(solution.sigma)
        assert not np.any(solution.e)
        assert not np.any(solution.h_r)


def test_one_row_without_centring():
    solution = solve_primal([[3.0, 4.0]], [[3.0, 4.0]], [1.0], [1.0], 2, center=False)
    assert_allclose(solution.sigma, [25, 0])
    assert_allclose(solution.e, [[25, 0]])
    assert_allclose(solution.h_r, [[1, 0]])


def test_duplicate_rows_are_embedded_alike():
    phi, psi, w1, w2 = problem(30, 20, 5)
    phi[7], w1[7] = phi[3], w1[3]
    solution = solve_primal(phi, psi, w1, w2, 3)
    assert_allclose(solution.e[7], solution.e[3], rtol=1e-13)


def test_repeated_singular_values_of_a_disconnected_graph_are_all_found():
    rng = np.random.default_rng(0)
    S = sp.block_diag([rng.uniform(0.5, 1, (60, 50)) for _ in range(4)], format="csr")
    solution = solve_dual(S, *random_walk_weights(*similarity_degrees(S)), 5, center=False)
    assert_allclose(solution.sigma[:4], 1)
    assert solution.sigma[4] < 0.5
    assert_allclose(solution.h_e.T @ solution.h_e, np.eye(5), atol=1e-10)


def test_zero_similarity():
    for S in (np.zeros((4, 3)), sp.csr_array((200, 150))):
        solution = solve_dual(S, np.ones(S.shape[0]), np.ones(S.shape[1]), 2, center=False)
        assert not np.any(solution.sigma)
        assert solution.e.shape == (S.shape[0], 2)


@pytest.mark.parametrize(
    ("w1", "message"),
    [(np.ones(3), "shape"), ([1, 1, 0, 1], r"w1\[2\]"), ([1, np.nan, 1, 1], r"w1\[1\]")],
)
def test_weights_must_be_positive_and_one_per_row(w1, message):
    with pytest.raises(ParameterError, match=message):
        solve_dual(np.eye(4), w1, np.ones(4), 1)
    with pytest.raises(ParameterError, match=message):
        solve_primal(np.eye(4), np.eye(4), w1, np.ones(4), 1)


def test_feature_maps_must_have_one_width():
    with pytest.raises(AttributeDataError, match="phi has 3 features and psi has 2"):
        solve_primal(np.ones((4, 3)), np.ones((4, 2)), np.ones(4), np.ones(4), 1)


# --- the estimator ------------------------------------------------------------------------------


# Degree weights of a linear kernel need non-negative data, which most of the checks do not use.
@parametrize_with_checks([WKSVD(weights="uniform"), WKSVD(kernel="rbf", n_clusters=2)])
def test_scikit_learn_contract(estimator, check):
    state = np.random.get_state()  # noqa: NPY002
    try:
        check(estimator)
    finally:
        # Some checks draw from the global generator themselves.
        np.random.set_state(state)  # noqa: NPY002


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "sne", "precomputed"])
def test_training_rows_and_columns_are_embedded_again_as_in_fit(kernel, center, make):
    rng = np.random.default_rng(0)
    X, Z = rng.uniform(size=(20, 6)), rng.uniform(size=(15, 6))
    model = WKSVD(3, kernel=kernel, center=center)
    if kernel == "precomputed":
        S = X @ Z.T
        model.fit(make(S))
        X, Z = S, S.T
    else:
        model.fit(make(X), Z=make(Z))
    assert_allclose(model.transform(make(X)), model.e_, atol=1e-9)
    assert_allclose(model.transform_columns(make(Z)), model.r_, atol=1e-9)
    assert_allclose(model.transform(make(X[4:6])), model.e_[4:6], atol=1e-9)
    assert_allclose(model.transform_columns(make(Z[4:6])), model.r_[4:6], atol=1e-9)


def test_linear_kernel_in_the_primal_is_precomputed_in_the_dual():
    rng = np.random.default_rng(0)
    X, Z = rng.uniform(size=(20, 6)), rng.uniform(size=(15, 6))
    primal = WKSVD(3, regularization=0.3).fit(X, Z=Z)
    dual = WKSVD(3, regularization=0.3, kernel="precomputed").fit(X @ Z.T)
    called = WKSVD(3, regularization=0.3, kernel=lambda a, b: a @ b.T).fit(X, Z=Z)
    new = rng.uniform(size=(4, 6))
    for other in (dual, called):
        assert_allclose(primal.singular_values_, other.singular_values_, rtol=1e-9)
        assert_allclose(primal.e_, other.e_, atol=1e-9)
        assert_allclose(primal.r_, other.r_, atol=1e-9)
        assert not hasattr(other, "U_")
    assert_allclose(primal.transform(new), dual.transform(new @ Z.T), atol=1e-9)
    assert_allclose(primal.transform(new), called.transform(new), atol=1e-9)
    assert_allclose(primal.transform_columns(new), dual.transform_columns(new @ X.T), atol=1e-9)
    assert_allclose(primal.e_, (X - weighted_mean(X, primal.row_weights_)) @ primal.U_)


def test_callable_kernel_may_relate_inputs_of_different_width():
    rng = np.random.default_rng(0)
    X, Z, B = rng.uniform(size=(9, 3)), rng.uniform(size=(7, 2)), rng.uniform(size=(3, 2))
    model = WKSVD(2, kernel=lambda X, Z, scale: np.exp(X @ B @ Z.T / scale))
    model.set_params(kernel_params={"scale": 2.0}).fit(X, Z=Z)
    assert_allclose(model.transform(X), model.e_, atol=1e-10)
    assert_allclose(model.transform_columns(Z), model.r_, atol=1e-10)


def test_given_weights():
    S, _, _ = planted()
    w1, w2 = 1 / S.sum(1), 1 / S.sum(0)
    given_ones = WKSVD(2, kernel="precomputed", weights=(w1, w2)).fit(S)
    assert_allclose(given_ones.e_, WKSVD(2, kernel="precomputed").fit(S).e_)
    with pytest.raises(ParameterError, match="3 parts"):
        WKSVD(2, kernel="precomputed", weights=(w1, w2, w1)).fit(S)
    with pytest.raises(ParameterError, match=r"weights\[1\] has shape"):
        WKSVD(2, kernel="precomputed", weights=(w1, w1)).fit(S)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weights", ["degree", "uniform"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_biclusters_recover_planted_blocks(make, weights, seed):
    S, rows, columns = planted(seed=seed)
    model = WKSVD(2, n_clusters=3, kernel="precomputed", weights=weights, random_state=0)
    labels = model.fit_predict(make(S))
    assert adjusted_rand_score(rows, labels) == 1
    assert adjusted_rand_score(columns, model.column_labels_) == 1
    both = np.concatenate([labels, model.column_labels_])
    assert adjusted_rand_score(np.concatenate([rows, columns]), both) == 1
    np.testing.assert_array_equal(model.labels_, model.row_labels_)


def test_biclusters_of_explicit_features():
    rng = np.random.default_rng(0)
    rows, columns = np.arange(30) % 3, np.arange(24) % 3
    phi = np.eye(3)[rows] + 0.1 * rng.uniform(size=(30, 3))
    # Columns of block k resemble rows of block k + 1: heterophily is just another block pattern.
    psi = np.eye(3)[(columns + 1) % 3] + 0.1 * rng.uniform(size=(24, 3))
    model = WKSVD(2, n_clusters=3, random_state=0).fit(phi, Z=psi)
    assert adjusted_rand_score(rows, model.row_labels_) == 1
    assert adjusted_rand_score(columns, model.column_labels_) == 1
    partner = {model.column_labels_[j]: model.row_labels_[(columns[j] + 1) % 3] for j in range(24)}
    assert all(column == row for column, row in partner.items())


def test_isolated_rows_are_refused_or_regularised():
    S, _, _ = planted()
    S[5] = 0
    with pytest.raises(GraphError, match="row 5: the degree is 0"):
        WKSVD(kernel="precomputed").fit(sp.csr_array(S))
    model = WKSVD(kernel="precomputed", regularization=1.0).fit(sp.csr_array(S))
    assert np.all(np.isfinite(model.e_))


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_components": 0},
        {"n_components": 1.5},
        {"n_clusters": 0},
        {"kernel": "polynomial"},
        {"weights": "none"},
        {"regularization": -1.0},
        {"center": "yes"},
        {"kernel_params": {"bandwidth": 1.0}},
        {"n_clusters": 17},
    ],
)
def test_parameters_out_of_range_are_refused_in_fit(parameters):
    model = WKSVD(**parameters)
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(ParameterError):
        model.fit(np.ones((8, 2)) + np.eye(8, 2))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(4), "Expected 2D array"),
        (np.ones((0, 3)), "0 sample"),
        ([[1.0, np.nan]], "node 0, column 1: the attribute is nan"),
        ([["a", "b"]], "could not convert string"),
        (np.ones((3, 0)), "0 feature"),
    ],
)
def test_unusable_input_is_refused(X, message):
    with pytest.raises(AttributeDataError, match=message):
        WKSVD().fit(X)


def test_inputs_that_do_not_fit_together_are_refused():
    X = np.eye(4) + 1
    with pytest.raises(AttributeDataError, match="Z has 3 features"):
        WKSVD().fit(X, Z=X[:, :3])
    with pytest.raises(ParameterError, match="precomputed S"):
        WKSVD(kernel="precomputed").fit(X, Z=X)
    with pytest.raises(ParameterError, match="kernel returned shape"):
        WKSVD(kernel=lambda X, Z: X[:2]).fit(X)
    with pytest.raises(NotFittedError):
        WKSVD().transform(X)
    assert not hasattr(WKSVD(), "fit_predict")
    model = WKSVD(kernel="rbf").fit(X)
    with pytest.raises(AttributeDataError, match="X has 3 features"):
        model.transform(X[:, :3])
    with pytest.raises(AttributeDataError, match="Z has 3 features"):
        model.transform_columns(X[:, :3])


def test_kernel_matrices_have_a_largest_size(monkeypatch):
    monkeypatch.setattr(wksvd_estimator, "_MAX_KERNEL_ENTRIES", 80)
    with pytest.raises(ResourceError, match="9 x 9"):
        WKSVD(kernel="rbf").fit(np.ones((9, 2)))


def test_fit_does_not_change_its_input():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(12, 5))
    before = X.copy()
    for kernel in ("linear", "sne"):
        first = WKSVD(2, kernel=kernel).fit_transform(X)
        np.testing.assert_array_equal(X, before)
        np.testing.assert_array_equal(first, WKSVD(2, kernel=kernel).fit(X).e_)
