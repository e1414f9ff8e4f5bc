"""Kernels against scikit-learn and against their definitions, entry by entry."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from hencler._errors import ParameterError
from hencler._kernels import KERNELS, linear, rbf, sne


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.standard_normal((7, 3)), rng.standard_normal((5, 3))


def test_linear_is_scikit_learns(data):
    X, Z = data
    np.testing.assert_allclose(linear(X, Z), linear_kernel(X, Z), rtol=1e-13)


def test_rbf_is_scikit_learns(data):
    X, Z = data
    np.testing.assert_allclose(rbf(X, Z), rbf_kernel(X, Z), rtol=1e-12)
    np.testing.assert_allclose(rbf(X, Z, bandwidth=0.5), rbf_kernel(X, Z, gamma=2.0), rtol=1e-11)


def test_sne_is_its_definition(data):
    X, Z = data
    S = sne(X, Z, bandwidth=0.7)
    for i, x in enumerate(X):
        p = np.exp(-((x - Z) ** 2).sum(1) / (2 * 0.7**2))
        np.testing.assert_allclose(S[i], p / p.sum(), rtol=1e-11)


def test_sne_local_bandwidth_is_the_distance_to_the_kth_neighbour(data):
    X, Z = data
    distances = cdist(X, Z)
    widths = np.sort(distances, axis=1)[:, 2]
    p = np.exp(-(distances**2) / (2 * widths[:, None] ** 2))
    expected = p / p.sum(1, keepdims=True)
    np.testing.assert_allclose(sne(X, Z, n_neighbors=3), expected, rtol=1e-10)
    np.testing.assert_allclose(sne(X, Z, n_neighbors=99), sne(X, Z, n_neighbors=5))


def test_sne_is_asymmetric_and_its_rows_are_probabilities(data):
    X, _ = data
    S = sne(X, X)
    np.testing.assert_allclose(S.sum(1), 1)
    assert np.abs(S - S.T).max() > 0.01
    np.testing.assert_allclose(rbf(X, X), rbf(X, X).T)


def test_sne_is_a_function_of_two_points_given_the_reference(data):
    X, Z = data
    whole = sne(X, Z, reference=Z)
    np.testing.assert_allclose(whole, sne(X, Z), rtol=1e-13)
    np.testing.assert_allclose(sne(X[2:4], Z[1:3], reference=Z), whole[2:4, 1:3], rtol=1e-10)


@pytest.mark.parametrize("name", ["rbf", "sne"])
def test_non_negative_and_finite_even_far_apart(name):
    X = np.array([[0.0], [0.0], [1e8], [-1e8], [1e-200]])
    S = KERNELS[name](X, X)
    assert np.all(np.isfinite(S))
    assert S.min() >= 0
    assert S.sum(1).min() > 0


def test_sne_of_identical_rows_is_uniform():
    X = np.ones((4, 2))
    np.testing.assert_allclose(sne(X, X), np.full((4, 4), 0.25))


def test_sne_column_nearer_than_the_reference_stays_finite():
    S = sne(np.zeros((1, 1)), np.zeros((1, 1)), reference=np.array([[1e6]]), bandwidth=1e-3)
    assert np.isfinite(S).all()


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_sparse_equals_dense(name, data):
    X, Z = np.maximum(data[0], 0), np.maximum(data[1], 0)
    S = KERNELS[name](sp.csr_array(X), sp.csr_array(Z))
    assert isinstance(S, np.ndarray)
    np.testing.assert_allclose(S, KERNELS[name](X, Z), rtol=1e-10)


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("kernel", [rbf, sne])
def test_bandwidth_must_be_positive(kernel, bandwidth, data):
    with pytest.raises(ParameterError, match="bandwidth"):
        kernel(*data, bandwidth=bandwidth)


def test_n_neighbors_must_be_positive(data):
    with pytest.raises(ParameterError, match="n_neighbors"):
        sne(*data, n_neighbors=0)
