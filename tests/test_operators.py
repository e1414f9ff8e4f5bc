"""Gradients written by hand against autograd's, in double precision."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn import functional as F

from hencler import _operators
from hencler._model import FeatureRows
from hencler._operators import (
    edge_error,
    gram_error,
    norm_softplus,
    orthonormal,
    sampled_error,
    softplus,
    two_layers,
    weighted_projections,
)
from hencler._torch import SparseMatrix

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _several_blocks(monkeypatch):
    monkeypatch.setattr(_operators, "BLOCK_ROWS", 7)


def random(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def gradients(function, *inputs):
    """Values of a function's results, and the gradient of a fixed combination of them."""
    inputs = [x.clone().requires_grad_() for x in inputs]
    results = [y for y in function(*inputs) if y is not None]
    combination = sum(
        (y * random(*y.shape, seed=i)).sum() for i, y in enumerate(results) if y.requires_grad
    )
    return [y.detach() for y in results], torch.autograd.grad(combination, inputs)


def assert_same(ours, plain, *inputs):
    for a, b in zip(gradients(ours, *inputs), gradients(plain, *inputs)):
        for x, y in zip(a, b, strict=True):
            torch.testing.assert_close(x, y, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("width", [5, 60])  # computed again, and kept
@pytest.mark.parametrize("sparse", [False, True])
def test_two_layers(width, sparse):
    dense = random(20, width)
    matrix = sp.random_array((20, 11), density=0.3, rng=np.random.default_rng(0), format="csr")
    x = FeatureRows(dense, SparseMatrix(matrix, CPU, torch.float64) if sparse else None)
    whole = torch.cat([torch.from_numpy(matrix.toarray()), dense], 1) if sparse else dense
    d = whole.shape[1]
    layers = [random(*s, seed=i) for i, s in enumerate([(8, d), (8,), (6, 8), (6,)] * 2)]

    def plain(*w):
        return [
            F.linear(F.leaky_relu(F.linear(whole, *w[i : i + 2])), *w[i + 2 : i + 4])
            for i in (0, 4)
        ]

    assert_same(lambda *w: two_layers(x, w[:4], w[4:]), plain, *layers)
    assert_same(lambda *w: two_layers(x, w), lambda *w: plain(*w, *w)[:1], *layers[:4])


@pytest.mark.parametrize("n", [20, 13])
def test_norm_softplus(n):
    def plain(z):
        mean, variance = z[:n].mean(0), z[:n].var(0, correction=0)
        y = F.softplus((z - mean) / torch.sqrt(variance + 1e-5))
        return y, mean.detach(), variance.detach()

    # softplus is good to single precision only
    for a, b in zip(
        gradients(lambda z: norm_softplus(z.clone(), n, 1e-5, n), random(20, 4)),
        gradients(plain, random(20, 4)),
    ):
        for x, y in zip(a, b, strict=True):
            torch.testing.assert_close(x, y, atol=1e-7, rtol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("n", [20, 13])
def test_norm_softplus_on_a_gpu_is_that_on_a_cpu(n):
    results = []
    for device in ("cpu", "cuda"):
        values, (gradient,) = gradients(
            lambda z, d=device: [y.cpu() for y in norm_softplus(z.to(d).clone(), n, 1e-5, n)],
            random(20, 4),
        )
        results.append([*values, gradient])
    for x, y in zip(*results):
        torch.testing.assert_close(x, y, atol=1e-7, rtol=1e-6)


def test_softplus_of_small_and_large_numbers():
    z = torch.tensor([-100.0, -30.0, -1.0, 0.0, 1.0, 19.0, 21.0, 80.0, 1e4])
    torch.testing.assert_close(softplus(z), F.softplus(z), atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("agree", [True, False])
@pytest.mark.parametrize("share", [None, 0.3])
@pytest.mark.parametrize("extra", [0, 4])
def test_weighted_projections(agree, share, extra):
    """The running estimate as a value, the batch's gradient."""
    n, b = 50, 15
    running = None if share is None else tuple(random(6, seed=9 + i).abs() for i in range(4))

    def estimate(i, value):
        if running is None:
            return value
        return value + (torch.lerp(running[i], value, share) - value).detach()

    def plain(phi, psi_all, u, v):
        psi = psi_all[:b]
        mean_phi, mean_psi = estimate(0, phi.mean(0)), estimate(1, psi.mean(0))
        w1, w2 = 1 / (phi @ (n * mean_psi) + 0.1), 1 / (psi @ (n * mean_phi) + 0.1)
        at_phi = estimate(2, (w1[:, None] * phi).sum(0) / w1.sum())
        at_psi = estimate(3, (w2[:, None] * psi).sum(0) / w2.sum())
        agreement = ((phi - at_phi) * (psi - at_psi)).sum(1) if agree else None
        statistics = [s.detach() for s in (mean_phi, mean_psi, at_phi, at_psi)]
        return (phi - at_phi) @ u, (psi_all - at_psi) @ v, w1, w2, agreement, *statistics

    inputs = random(b, 6).abs(), random(b + extra, 6, seed=1).abs(), random(6, 3), random(6, 3)
    assert_same(
        lambda *x: weighted_projections(*x, n, b, 0.1, running, share or 1.0, agree),
        plain,
        *inputs,
    )


def test_orthonormal_bases_are_those_of_qr():
    def plain(m):
        q, r = torch.linalg.qr(m)
        return (q * torch.sign(torch.diagonal(r, dim1=1, dim2=2))[:, None],)

    assert_same(lambda m: (orthonormal(m),), plain, random(2, 9, 4))


def test_edge_error():
    rng = np.random.default_rng(0)
    pairs = torch.from_numpy(np.stack([rng.integers(6, size=40), rng.integers(8, size=40)]))
    is_edge, weight = (torch.from_numpy(rng.random(40)) for _ in range(2))
    is_edge = is_edge.round()

    def plain(e, r, u, v):
        logits = ((e @ u.T)[pairs[0]] * (r @ v.T)[pairs[1]]).sum(1)
        error = F.binary_cross_entropy_with_logits(logits, is_edge, weight, reduction="sum")
        return (error,)

    inputs = random(6, 3), random(8, 3, seed=1), random(5, 3, seed=2), random(5, 3, seed=3)
    assert_same(lambda *x: (edge_error(*x, pairs, is_edge, weight),), plain, *inputs)


@pytest.mark.parametrize("wide", [3, 100])  # in parts, and as a whole
def test_gram_error(wide, monkeypatch):
    monkeypatch.setattr(_operators, "_WIDE", wide)
    matrix = sp.random_array((19, 14), density=0.2, rng=np.random.default_rng(0), format="csr")
    target, dense = SparseMatrix(matrix, CPU, torch.float64), torch.from_numpy(matrix.toarray())
    assert_same(
        lambda h, w, b: [gram_error(h, w, b, target)],
        lambda h, w, b: [(h @ w.T + b - dense).square().sum()],
        random(19, 13), random(14, 13, seed=1), random(14, seed=2),
    )  # fmt: skip


def test_sampled_error_of_all_rows_is_exact_and_of_some_unbiased():
    matrix = sp.random_array((9, 14), density=0.2, rng=np.random.default_rng(0), format="csr")
    target = SparseMatrix(matrix, CPU, torch.float64)
    dense = torch.from_numpy(matrix.toarray())
    inputs = random(9, 5), random(14, 5, seed=1), random(14, seed=2)

    def error(rows):
        return lambda h, w, b: [sampled_error(h, w, b, target, rows)]

    def plain(h, w, b):
        return [(h @ w.T + b - dense).square().sum()]

    assert_same(error(torch.arange(9)), plain, *inputs)
    each = [gradients(error(torch.tensor([i])), *inputs) for i in range(9)]
    value, gradient = gradients(plain, *inputs)
    torch.testing.assert_close(sum(v[0] for v, _ in each) / 9, value[0])
    for i, expected in enumerate(gradient):
        torch.testing.assert_close(sum(g[i] for _, g in each) / 9, expected)
