"""The network's losses against dense, naive computations."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn import functional as F

from hencler._model import Batch, FeatureRows, HeNClerNet, ModelConfig
from hencler._torch import SparseMatrix, seeded

CPU = torch.device("cpu")


def make_batch(n=12, d_sparse=0, d_dense=7, m=20, seed=0):
    rng = np.random.default_rng(seed)
    dense = torch.from_numpy(rng.normal(size=(n, d_dense)).astype(np.float32))
    sparse = None
    if d_sparse:
        matrix = sp.random_array((n, d_sparse), density=0.3, rng=rng, format="csr")
        sparse = SparseMatrix(matrix, CPU)
    pairs = torch.from_numpy(rng.integers(n, size=(2, m)))
    is_edge = torch.from_numpy(rng.integers(2, size=m).astype(np.float32))
    return Batch(FeatureRows(dense, sparse), pairs, is_edge, torch.full((m,), 1 / m), n)


def make_net(variant="paper", *, d_sparse=0, d_dense=7, seed=0, **kwargs):
    config = ModelConfig(
        d_sparse, d_dense, 3, n_components=4, hidden=10, n_features=9, variant=variant, **kwargs
    )
    with seeded(seed, CPU):
        return HeNClerNet(config)


def dense_inputs(x):
    parts = [] if x.sparse is None else [x.sparse.forward.to_dense()]
    return torch.cat([*parts, x.dense], 1)


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize(("n", "d_sparse"), [(12, 0), (12, 15), (200, 40)])
def test_losses_equal_a_naive_computation(variant, n, d_sparse):
    """Degrees from S itself, loops over nodes, a dense decoder."""
    net, batch = make_net(variant, d_sparse=d_sparse), make_batch(n, d_sparse=d_sparse)
    out = net(batch)
    x = dense_inputs(batch.nodes)
    phi, psi = net.maps(FeatureRows(x))
    similarity = phi @ psi.T
    epsilon = 1e-5 if variant == "released" else 0.0
    w1, w2 = 1 / (similarity.sum(1) + epsilon), 1 / (similarity.sum(0) + epsilon)
    phi_c = phi - (w1[:, None] * phi).sum(0) / w1.sum()
    psi_c = psi - (w2[:, None] * psi).sum(0) / w2.sum()
    u, v = net.projections
    e, r = phi_c @ u, psi_c @ v
    torch.testing.assert_close(out.e, e, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(out.r, r, atol=1e-5, rtol=1e-4)

    n = len(x)
    if variant == "paper":
        inverse = torch.diag(1 / net.sigma)
        wksvd = torch.trace(u.T @ v)
        for i in range(n):
            wksvd = wksvd - w1[i] * e[i] @ inverse @ e[i] - w2[i] * r[i] @ inverse @ r[i]
            wksvd = wksvd + torch.sqrt(w1[i] * w2[i]) * phi_c[i] @ psi_c[i]
    else:
        norms = sum(w1[i] * e[i].norm() + w2[i] * r[i].norm() for i in range(n)) / n
        wksvd = norms**2
    torch.testing.assert_close(out.losses["wksvd"], wksvd, atol=1e-5, rtol=1e-4)

    hidden = F.leaky_relu(net.decoder_hidden(torch.cat([e @ u.T, r @ v.T], 1)))
    decoded = net.decoder_out(hidden)
    target = x if variant == "released" else x[:, :-3]
    error = (decoded - target).square()
    node = error.mean() if variant == "released" else error.sum(1).mean()
    torch.testing.assert_close(out.losses["node"], node, atol=1e-5, rtol=1e-4)

    probability = torch.sigmoid((e @ u.T) @ (r @ v.T).T)[batch.pairs[0], batch.pairs[1]]
    edge = F.binary_cross_entropy(probability, batch.is_edge)
    torch.testing.assert_close(out.losses["edge"], edge, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("sampled", [False, True])
def test_sparse_and_dense_inputs_give_the_same_gradients(sampled):
    batch = make_batch(12, d_sparse=15)
    dense = batch._replace(nodes=FeatureRows(dense_inputs(batch.nodes)))
    batch = batch._replace(sample=torch.arange(12) if sampled else None)
    gradients = []
    for each in (batch, dense):
        net = make_net("released", d_sparse=15)
        sum(net(each).losses.values()).backward()
        gradients.append([p.grad for p in net.parameters()])
    for a, b in zip(*gradients):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-3)


def test_the_released_edge_loss_is_ln_2():
    net = make_net("released")
    u, v = net.projections
    torch.testing.assert_close(u.T @ v, torch.zeros(4, 4), atol=1e-6, rtol=0)
    out = net(make_batch())
    assert out.losses["edge"].item() == pytest.approx(math.log(2), abs=1e-5)
    out.losses["edge"].backward()
    assert net.stiefel.grad.abs().max() > 0
    for parameter in (*net.phi.parameters(), *net.psi.parameters()):
        assert parameter.grad is None  # it would be U'V = 0 times something


def test_gradients_reach_every_parameter_of_the_paper_variant():
    net = make_net("paper")
    sum(net(make_batch()).losses.values()).backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ("all", {"wksvd", "node", "edge"}),
        ("reconstruction", {"node", "edge"}),
        ("wksvd", {"wksvd"}),
    ],
)
def test_switches_for_the_ablations(losses, expected):
    assert set(make_net(losses=losses)(make_batch()).losses) == expected


def test_a_shared_map_makes_the_similarity_symmetric():
    net = make_net(shared_map=True)
    phi, psi = net.maps(make_batch().nodes)
    similarity = phi @ psi.T
    torch.testing.assert_close(similarity, similarity.T)


def test_paper_degrees_are_positive_and_sigma_has_trace_one():
    net = make_net()
    phi, psi = net.maps(make_batch().nodes)
    assert (phi @ psi.T).min() > 0
    assert float(net.sigma.sum()) == pytest.approx(1.0, abs=1e-6)
    assert net.sigma.min() > 0
    with torch.no_grad():
        net.sigma_logits[0] = 1e4  # as far as training could ever push it
    assert net.sigma.min() >= 0.1 / 4 - 1e-7


def test_further_targets_are_rows_below_the_nodes():
    """A copy of a node among the targets is that node, and does not change the moments."""
    for variant in ("paper", "released"):
        net, batch = make_net(variant), make_batch()
        n = len(batch.nodes)
        copies = batch._replace(
            targets=FeatureRows(batch.nodes.dense[batch.pairs[1]]),
            pairs=torch.stack([batch.pairs[0], n + torch.arange(batch.pairs.shape[1])]),
        )
        for name, loss in net(batch).losses.items():
            torch.testing.assert_close(net(copies).losses[name], loss)


def test_moments_are_kept_as_torch_keeps_them():
    net, batch = make_net("paper"), make_batch(30)
    reference = torch.nn.BatchNorm1d(9, affine=False)
    for _ in range(3):
        net.maps(batch.nodes)
        first, second = net.phi.first, net.phi.second
        reference(second(F.leaky_relu(first(batch.nodes.dense))))
    torch.testing.assert_close(net.phi.norm.running_mean, reference.running_mean)
    torch.testing.assert_close(net.phi.norm.running_var, reference.running_var)
    assert net.phi.norm.num_batches_tracked == 3


def test_a_sample_of_rows_gives_an_unbiased_node_loss():
    net, batch = make_net("released", d_sparse=40), make_batch(12, d_sparse=40)
    exact = net(batch).losses["node"]
    each = [net(batch._replace(sample=torch.tensor([i]))).losses["node"] for i in range(12)]
    torch.testing.assert_close(torch.stack(each).mean(), exact)
