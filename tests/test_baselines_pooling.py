"""MinCutPool and DMoN, and the training loop they share."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.metrics import normalized_mutual_info_score

from hencler import Graph
from hencler._errors import GraphError, HenclerError, ParameterError
from hencler._torch import seeded
from hencler.baselines import METHODS, DMoN, MinCutPool, dmon, mincutpool
from hencler.baselines._training import SparseMatrix, input_matrix, train
from hencler.baselines.dmon import collapse_loss, modularity_loss
from hencler.baselines.mincutpool import (
    mincut_loss,
    of_row_sum_one,
    orthogonality_loss,
    undirected_without_loops,
)

CPU = torch.device("cpu")
POOLING = [MinCutPool, DMoN]


def planted(seed=0, size=50, *, attributes=True):
    """Three communities; attributes show the class, weakly."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), size)
    p = np.where(y[:, None] == y, 0.3, 0.02)
    a = np.triu(rng.random(p.shape) < p, 1).astype(float)
    x = np.eye(3, 12)[y] + rng.random((y.size, 12)) if attributes else None
    return Graph(sp.csr_array(a + a.T), x, y=y)


@pytest.fixture
def random_case():
    """A weighted symmetric graph and logits, in double precision."""
    rng = np.random.default_rng(0)
    a = np.triu(rng.random((30, 30)) * (rng.random((30, 30)) < 0.2), 1)
    logits = torch.tensor(rng.normal(size=(30, 4)), requires_grad=True)
    return a + a.T, logits


def gradient(loss, logits):
    (grad,) = torch.autograd.grad(loss, logits)
    return grad.numpy()


# --- losses ----------------------------------------------------------------------------------


def test_mincut_losses_are_those_of_pyg(random_case):
    nn = pytest.importorskip("torch_geometric.nn")
    a, logits = random_case
    adj = torch.tensor(a)
    _, _, cut, orthogonality = nn.dense_mincut_pool(torch.ones(30, 1).double(), adj, logits)
    s = torch.softmax(logits, dim=1)
    ours = mincut_loss(s, SparseMatrix(sp.csr_array(a), CPU, torch.float64), adj.sum(dim=1))
    for mine, theirs in ((ours, cut), (orthogonality_loss(s), orthogonality)):
        np.testing.assert_allclose(mine.item(), theirs.item(), rtol=1e-12)
    np.testing.assert_allclose(
        gradient(ours + orthogonality_loss(s), logits),
        gradient(cut + orthogonality, logits),
        atol=1e-12,
    )


def test_dmon_losses_are_those_of_pyg(random_case):
    nn = pytest.importorskip("torch_geometric.nn")
    a, logits = random_case
    with seeded(0, CPU):
        pool = nn.DMoNPooling(4, 4).double()
    # Identity for the layer inside, so that the logits are ours.
    with torch.no_grad():
        pool.mlp.lins[0].weight.copy_(torch.eye(4))
        pool.mlp.lins[0].bias.zero_()
    _, _, _, spectral, _, collapse = pool(logits, torch.tensor(a))
    s = torch.softmax(logits, dim=1)
    adjacency = SparseMatrix(sp.csr_array(a), CPU, torch.float64)
    ours = modularity_loss(s, adjacency, torch.tensor(a.sum(axis=0)))
    for mine, theirs in ((ours, spectral), (collapse_loss(s), collapse)):
        np.testing.assert_allclose(mine.item(), theirs.item(), rtol=1e-12)
    np.testing.assert_allclose(
        gradient(ours + collapse_loss(s), logits),
        gradient(spectral + collapse, logits),
        atol=1e-12,
    )


@pytest.mark.parametrize("null_weight", [1.0, 0.5])
def test_modularity_loss_by_the_dense_formula(null_weight, random_case):
    a, logits = random_case
    s = torch.softmax(logits, dim=1).detach().numpy()
    d = a.sum(axis=0)
    # 1: the paper with m = sum(d) / 2. 1/2: the code, which divides by twice the sum of d.
    two_m = d.sum() if null_weight == 1 else 2 * d.sum()
    expected = -np.trace(s.T @ (a - np.outer(d, d) / two_m) @ s) / two_m
    adjacency = SparseMatrix(sp.csr_array(a), CPU, torch.float64)
    ours = modularity_loss(torch.tensor(s), adjacency, torch.tensor(d), null_weight)
    np.testing.assert_allclose(ours.item(), expected, rtol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_losses_of_the_uniform_assignment(k):
    s = torch.full((20, k), 1 / k, dtype=torch.float64)
    a = sp.csr_array(np.ones((20, 20)) - np.eye(20))
    matrix, d = SparseMatrix(a, CPU, torch.float64), torch.full((20,), 19.0).double()
    total = mincut_loss(s, matrix, d) + orthogonality_loss(s)
    assert total.item() == pytest.approx(-1 + np.sqrt(2 * (1 - 1 / np.sqrt(k))), abs=1e-7)
    assert modularity_loss(s, matrix, d).item() == pytest.approx(0, abs=1e-12)
    assert collapse_loss(s).item() == pytest.approx(0, abs=1e-12)


def test_collapse_loss_of_one_cluster():
    s = torch.zeros(20, 4)
    s[:, 2] = 1
    assert collapse_loss(s).item() == pytest.approx(1)  # sqrt(4) - 1


# --- inputs ----------------------------------------------------------------------------------


def test_sparse_matrix_product_and_gradient_are_the_dense_ones():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(7, 5)) * (rng.random((7, 5)) < 0.4)
    w = torch.tensor(rng.normal(size=(5, 3)), requires_grad=True)
    for x in (input_matrix(m, CPU, torch.float64) for m in (dense, sp.csr_array(dense))):
        assert tuple(x.shape) == (7, 5)
        product = x @ w
        np.testing.assert_allclose(product.detach(), dense @ w.detach().numpy(), atol=1e-12)
        (grad,) = torch.autograd.grad(product.square().sum(), w)
        np.testing.assert_allclose(grad, 2 * dense.T @ product.detach().numpy(), atol=1e-12)


def test_memory_mapped_attributes(tmp_path):
    graph = planted()
    np.save(tmp_path / "x.npy", graph.x.astype(np.float32))
    mapped = Graph(graph.adjacency, np.load(tmp_path / "x.npy", mmap_mode="r"))
    for method in POOLING:
        kwargs = {"epochs": 5, "device": "cpu", "random_state": 0}
        a, b = (method(3, **kwargs).fit(g).assignment_ for g in (graph, mapped))
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_row_sums():
    x = np.array([[1.0, 3.0], [0.0, 0.0]])
    np.testing.assert_array_equal(of_row_sum_one(x), [[0.25, 0.75], [0, 0]])
    np.testing.assert_array_equal(of_row_sum_one(sp.csr_array(x)).toarray(), of_row_sum_one(x))
    np.testing.assert_array_equal(of_row_sum_one(-x), -x)


def test_undirected_without_loops():
    a = np.array([[5, 1, 0], [0, 0, 2], [0, 3, 0]])
    expected = [[0, 1, 0], [1, 0, 3], [0, 3, 0]]
    np.testing.assert_array_equal(undirected_without_loops(Graph(a)).toarray(), expected)


# --- the loop --------------------------------------------------------------------------------


def quadratic():
    w = torch.zeros(1, requires_grad=True)
    return w, lambda: {"near": (w - 3).square().sum(), "far": w.abs().sum() * 0}


def test_train_minimises_the_sum_of_its_terms():
    w, loss = quadratic()
    history = train(loss, [w], epochs=400, lr=0.1, labels=lambda: np.zeros(1, dtype=np.int64))
    assert w.item() == pytest.approx(3, abs=1e-3)
    assert len(history) == 400
    assert history[0] == {"near": 9, "far": 0, "loss": 9}


def test_looking_at_labels_changes_nothing():
    def run(callback):
        torch.manual_seed(0)
        w, _ = quadratic()
        history = train(
            lambda: {"noisy": (w * torch.randn(1)).square().sum() + w.sum()},
            [w],
            epochs=5,
            lr=0.1,
            callback=callback,
            labels=lambda: torch.randint(0, 9, (4,)).numpy(),
        )
        return history, w.item()

    with torch.random.fork_rng():
        seen = []
        assert run(None) == run(lambda epoch: seen.append((epoch.number, epoch.labels())))
    assert [number for number, _ in seen] == [1, 2, 3, 4, 5]


def test_train_stops_at_a_loss_that_is_not_finite():
    w, _ = quadratic()
    with pytest.raises(HenclerError, match="epoch 1"):
        train(
            lambda: {"bad": w.sum() / 0},
            [w],
            epochs=3,
            lr=0.1,
            labels=lambda: np.zeros(1, dtype=np.int64),
        )


# --- the estimators --------------------------------------------------------------------------


@pytest.mark.parametrize("method", POOLING)
@pytest.mark.parametrize("attributes", [True, False])
def test_finds_planted_communities(method, attributes):
    graph = planted(attributes=attributes)
    epochs = 300 if method is MinCutPool else 500
    model = method(3, epochs=epochs, device="cpu", random_state=0).fit(graph)
    assert normalized_mutual_info_score(graph.y, model.labels_) > 0.9
    assert len(model.history_) == epochs
    assert model.history_[-1]["loss"] < model.history_[0]["loss"]
    np.testing.assert_allclose(model.assignment_.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("method", POOLING)
def test_same_seed_same_labels(method):
    graph = planted()
    runs = [
        method(3, epochs=20, device="cpu", random_state=seed, callback=callback).fit(graph)
        for seed, callback in ((4, None), (4, lambda epoch: epoch.labels()), (5, None))
    ]
    np.testing.assert_array_equal(runs[0].assignment_, runs[1].assignment_)
    assert runs[0].history_ == runs[1].history_
    assert np.any(runs[0].assignment_ != runs[2].assignment_)


@pytest.mark.parametrize("method", POOLING)
def test_callback_sees_the_last_labels_and_no_truth(method):
    graph = planted()
    epochs = []
    model = method(3, epochs=7, device="cpu", random_state=0, callback=epochs.append).fit(graph)
    assert [epoch.number for epoch in epochs] == list(range(1, 8))
    assert {epoch.total for epoch in epochs} == {7}
    assert dict(epochs[-1].losses) == model.history_[-1]
    np.testing.assert_array_equal(epochs[-1].labels(), model.labels_)


@pytest.mark.parametrize("method", POOLING)
def test_sparse_attributes_give_the_clusters_of_dense_ones(method):
    graph = planted()
    x = np.where(graph.x > 0.8, graph.x, 0)
    dense, sparse = (
        method(3, epochs=30, device="cpu", random_state=0).fit(Graph(graph.adjacency, v))
        for v in (x, sp.csr_array(x))
    )
    np.testing.assert_allclose(dense.assignment_, sparse.assignment_, atol=1e-4)


@pytest.mark.parametrize("name", ["mincutpool", "dmon"])
def test_graphs_that_are_barely_graphs(name):
    method = METHODS[name]
    edges = np.zeros((6, 6))
    edges[0, 1] = edges[2, 2] = edges[3, 4] = 1
    for x in (None, np.zeros((6, 2)), sp.csr_array(np.eye(6, 3))):
        for k in (1, 2):
            model = method(k, epochs=3, device="cpu", random_state=0).fit(Graph(edges, x))
            assert model.labels_.shape == (6,)
            assert np.isfinite(model.assignment_).all()
    with pytest.raises(GraphError, match="no two nodes"):
        method(2).fit(Graph(np.eye(4), np.eye(4)))
    with pytest.raises(ParameterError):
        method(2, epochs=0).fit(planted())


def test_dmon_null_weight_changes_the_training():
    graph = planted()
    paper, code = (
        DMoN(3, epochs=5, null_weight=w, device="cpu", random_state=0).fit(graph)
        for w in (1.0, 0.5)
    )
    assert paper.history_[0]["modularity"] != code.history_[0]["modularity"]
    assert paper.history_[0]["collapse"] == code.history_[0]["collapse"]


def test_first_dmon_forward_pass_by_the_dense_formula():
    """A~ = (A + I) normalised, SELU(A~ Z + Z * skip + b), softmax: against plain numpy."""
    graph = planted(size=20)
    with seeded(0, CPU):
        net = dmon.Network(12, 5, 3, dropout=0.5).double().eval()
    a = graph.adjacency.toarray() + np.eye(60)
    a_tilde = a / np.sqrt(np.outer(a.sum(axis=1), a.sum(axis=1)))
    p = {name: value.detach().numpy() for name, value in net.named_parameters()}
    z = graph.x @ p["kernel"]
    h = a_tilde @ z + z * p["skip"] + p["bias"]
    h = 1.0507009873554805 * np.where(h > 0, h, 1.6732632423543772 * np.expm1(h))
    logits = h @ p["assign.weight"].T + p["assign.bias"]
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    s = net(torch.tensor(graph.x), SparseMatrix(sp.csr_array(a_tilde), CPU, torch.float64))
    np.testing.assert_allclose(s.detach(), expected, rtol=1e-10)


def test_first_mincut_forward_pass_is_that_of_pyg():
    """The authors' later script: GraphConv on the normalised edges, ELU, a linear layer."""
    nn = pytest.importorskip("torch_geometric.nn")
    graph = planted(size=20)
    with seeded(0, CPU):
        net, conv = mincutpool.Network(12, 5, 3).double(), nn.GraphConv(12, 5).double()
    a = graph.adjacency.toarray()
    a_tilde = sp.coo_array(a / np.sqrt(np.outer(a.sum(axis=1), a.sum(axis=1))))
    with torch.no_grad():
        conv.lin_rel.weight.copy_(net.neighbours.T)
        conv.lin_rel.bias.copy_(net.bias)
        conv.lin_root.weight.copy_(net.own.T)
    x = torch.tensor(graph.x)
    index = torch.tensor(np.stack([a_tilde.row, a_tilde.col]), dtype=torch.long)
    h = torch.nn.functional.elu(conv(x, index, torch.tensor(a_tilde.data)))
    expected = torch.softmax(net.assign(h), dim=1)
    s = net(x, SparseMatrix(a_tilde, CPU, torch.float64))
    np.testing.assert_allclose(s.detach(), expected.detach(), rtol=1e-10)
