import numpy as np
import scipy.sparse as sp

from hencler._machine import Machine


def dense_reference(similarity, regularization, centred):
    d1, d2 = similarity.sum(1), similarity.sum(0)
    w1 = 1 / (d1 + regularization * d1.mean())
    w2 = 1 / (d2 + regularization * d2.mean())
    if centred:
        n = len(similarity)
        m1 = np.eye(n) - np.outer(np.ones(n), w1) / w1.sum()
        m2 = np.eye(n) - np.outer(np.ones(n), w2) / w2.sum()
        similarity = m1 @ similarity @ m2.T
    return w1, w2, np.linalg.svd(np.sqrt(w1)[:, None] * similarity * np.sqrt(w2))


def test_features_give_the_dense_svd():
    rng = np.random.default_rng(0)
    phi, psi = rng.random((40, 7)), rng.random((40, 7))
    machine = Machine().fit(phi, psi, 4, 0.5)
    out = machine.embed(phi, psi)
    w1, w2, (p, values, q_t) = dense_reference(phi @ psi.T, 0.5, True)
    np.testing.assert_allclose(out.w1, w1)
    np.testing.assert_allclose(out.w2, w2)
    np.testing.assert_allclose(out.sigma, values[:4])
    walk = out.walk_rows(4)
    np.testing.assert_allclose(np.abs(walk[:, :4]), np.abs(p[:, :4] * values[:4]), atol=1e-9)
    np.testing.assert_allclose(np.abs(walk[:, 4:]), np.abs(q_t[:4].T * values[:4]), atol=1e-9)
    flat = out.flat_rows(4)[:, :4]
    expected = p[:, :4] * np.sqrt(values[:4]) / np.sqrt(w1)[:, None]
    np.testing.assert_allclose(np.abs(flat), np.abs(expected), atol=1e-8)


def test_links_give_the_dense_svd_without_centring():
    rng = np.random.default_rng(0)
    dense = (rng.random((50, 50)) < 0.2) * rng.random((50, 50))
    links = sp.csr_array(dense)
    machine = Machine().fit_links(links, 5, 0.3)
    out = machine.embed(links, links.T.tocsr())
    w1, _, (p, values, q_t) = dense_reference(dense, 0.3, False)
    np.testing.assert_allclose(out.w1, w1)
    np.testing.assert_allclose(out.sigma, values[:5])
    walk = out.walk_rows(5)
    np.testing.assert_allclose(np.abs(walk[:, :5]), np.abs(p[:, :5] * values[:5]), atol=1e-8)
    np.testing.assert_allclose(np.abs(walk[:, 5:]), np.abs(q_t[:5].T * values[:5]), atol=1e-8)


def test_new_nodes_are_embedded_as_the_old_ones():
    rng = np.random.default_rng(0)
    phi, psi = rng.random((40, 7)), rng.random((40, 7))
    machine = Machine().fit(phi, psi, 3, 1.0)
    whole, part = machine.embed(phi, psi), machine.embed(phi[5:9], psi[5:9])
    np.testing.assert_allclose(part.e, whole.e[5:9])
    np.testing.assert_allclose(part.w2, whole.w2[5:9])
    again = Machine.from_state(machine.state()).embed(phi, psi)
    np.testing.assert_array_equal(again.r, whole.r)
