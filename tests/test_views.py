import numpy as np
import pytest
import scipy.sparse as sp

from hencler._views import damped, explicit_maps, restart_share, walk_matrix


@pytest.fixture
def links():
    rng = np.random.default_rng(0)
    matrix = (rng.random((30, 30)) < 0.15) * rng.integers(1, 9, size=(30, 30))
    matrix[3] = 0  # a sink
    return sp.csr_array(matrix.astype(float))


def test_weights_are_damped_and_loops_dropped():
    matrix = sp.csr_array(np.array([[5.0, 1.0], [3.0, 0.0]]))
    np.testing.assert_allclose(damped(matrix, loops=False).toarray(), [[0, 1], [2, 0]])
    np.testing.assert_allclose(damped(matrix, loops=True).toarray()[0, 0], np.log2(6))
    assert matrix[0, 0] == 5.0


def test_the_walk_has_rows_of_sum_one_or_zero(links):
    sums = walk_matrix(links).toarray().sum(1)
    np.testing.assert_allclose(sums, links.toarray().sum(1) > 0)


@pytest.mark.parametrize("view", ["own", "neighbours", "smooth", "links"])
def test_operators_equal_dense_maps(view, links):
    features = sp.random_array((30, 12), density=0.4, rng=np.random.default_rng(1), format="csr")
    lazy = explicit_maps(view, features, links)
    dense = explicit_maps(view, features.toarray(), links)
    rng = np.random.default_rng(2)
    for a, b in zip(lazy, dense):
        b = b.toarray() if sp.issparse(b) else b
        for x in (rng.random(b.shape[1]), rng.random((b.shape[1], 3))):
            np.testing.assert_allclose(a @ x, b @ x, atol=1e-12)
        for y in (rng.random(30), rng.random((30, 3))):
            np.testing.assert_allclose(a.T @ y, b.T @ y, atol=1e-12)


def test_neighbours_are_out_for_phi_and_in_for_psi(links):
    features = np.random.default_rng(1).random((30, 4))
    phi, psi = explicit_maps("neighbours", features, links)
    dense = links.toarray()
    for v in range(30):
        for made, weights in ((phi, dense[v]), (psi, dense[:, v])):
            expected = weights @ features / weights.sum() if weights.sum() else 0
            np.testing.assert_allclose(made[v], expected)


def test_smoothing_converges_to_personalised_pagerank(links):
    features = np.random.default_rng(1).random((30, 4))
    phi, psi = explicit_maps("smooth", features, links)
    assert phi is psi
    walk = walk_matrix(links + links.T + sp.eye_array(30)).toarray()
    limit = 0.15 * np.linalg.solve(np.eye(30) - 0.85 * walk, features)
    # 15 rounds leave 0.85^15 = 9 % of the distance from where they start.
    assert np.abs(phi - limit).max() <= 0.85**15 * np.abs(features - limit).max() + 1e-12


def test_the_less_neighbours_are_like_a_node_the_more_of_its_own():
    shares = [restart_share(h) for h in (-1.0, 0.0, 0.4, 0.6, 0.8, 1.0)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == 0.08
    assert restart_share(None) == 0.15


def test_smooth_maps_solve_the_linear_system_of_personalised_pagerank():
    rng = np.random.default_rng(0)
    a = sp.csr_array((rng.random((30, 30)) < 0.2).astype(float))
    x = rng.random((30, 4))
    walk = (a + a.T).toarray() + np.eye(30)
    walk /= walk.sum(axis=1, keepdims=True)
    exact = np.linalg.solve(np.eye(30) - 0.6 * walk, 0.4 * x)
    np.testing.assert_allclose(explicit_maps("smooth", x, a, 0.4).phi, exact, atol=1e-3)
