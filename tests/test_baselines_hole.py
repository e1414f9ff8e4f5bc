"""HoLe: its losses against dense formulas, its rewiring against brute force, and whole runs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from sklearn.metrics import normalized_mutual_info_score

from hencler._errors import GraphError
from hencler._graph import Graph
from hencler.baselines import hole
from hencler.baselines.hole import HoLe

CPU = torch.device("cpu")
DEFAULTS = {
    "n_clusters": 3,
    "dim": 32,
    "warmup_epochs": 30,
    "epochs": 15,
    "rounds": 2,
    "update_every": 5,
    "device": "cpu",
    "random_state": 0,
}


def short(**kw) -> HoLe:
    return HoLe(**{**DEFAULTS, **kw})


def planted(seed: int, sparse: bool = True) -> Graph:
    """Three groups of 40 nodes, linked inside with 0.2, across with 0.01; words of their own."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), 40)
    same = y[:, None] == y[None, :]
    upper = np.triu(rng.random((120, 120)) < np.where(same, 0.2, 0.01), 1)
    own = y[:, None] == np.arange(30)[None, :] % 3
    x = (rng.random((120, 30)) < np.where(own, 0.6, 0.05)).astype(float)
    edges = sp.csr_array((upper | upper.T).astype(float))
    return Graph(edges, sp.csr_array(x) if sparse else x, y=y)


def random_adjacency(seed: int, n: int, p: float) -> sp.csr_array:
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < p, 1)
    return sp.csr_array((upper | upper.T).astype(np.float32))


def unit_rows(seed: int, n: int, d: int) -> torch.Tensor:
    """Non-negative rows of unit length, as the encoder gives them."""
    return F.normalize(torch.from_numpy(np.random.default_rng(seed).random((n, d))))


def structure(adjacency, x=None, hops=2) -> hole._Structure:
    x = np.eye(adjacency.shape[0]) if x is None else x
    out = hole._Structure(adjacency, x, hops, CPU)
    out.values, out.diagonal = out.values.double(), out.diagonal.double()
    return out


# --- losses --------------------------------------------------------------------------------


def test_filter_is_the_identity_less_two_thirds_of_the_laplacian():
    adjacency = random_adjacency(0, 9, 0.3)
    loops = adjacency.toarray() + np.eye(9)
    d = np.diag(loops.sum(1) ** -0.5)
    laplacian = np.eye(9) - d @ loops @ d
    found = hole.smoothing_filter(adjacency).toarray()
    np.testing.assert_allclose(found, np.eye(9) - 2 / 3 * laplacian, atol=1e-6)


@pytest.mark.parametrize("lazy", [True, False])
def test_attributes_are_smoothed_in_either_order(lazy):
    adjacency = random_adjacency(0, 30, 0.1)
    density, d = (0.01, 500) if lazy else (0.3, 20)
    x = sp.random_array((30, d), density=density, rng=np.random.default_rng(0), format="csr")
    weight = torch.from_numpy(np.random.default_rng(1).normal(size=(4, d))).float()
    weight.requires_grad_()
    h = hole.smoothing_filter(adjacency).toarray()
    x_s = torch.from_numpy(np.linalg.matrix_power(h, 3) @ x.toarray()).float()
    given = hole._Structure(adjacency, x, 3, CPU)
    assert given.lazy == lazy
    products = given.project(weight), x_s @ weight.T
    torch.testing.assert_close(*products)
    grads = [torch.autograd.grad((p**2).sum(), weight)[0] for p in products]
    torch.testing.assert_close(*grads, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("activation", ["identity", "sigmoid"])
@pytest.mark.parametrize("kappa", [0.0, 0.7])
@pytest.mark.parametrize("block", [1, 4, 10, 64])
def test_pair_losses_are_the_dense_cross_entropies(block, kappa, activation, monkeypatch):
    monkeypatch.setattr(hole, "_BLOCK", block)
    monkeypatch.setattr(hole, "_EDGE_BLOCK", 5)
    n, rho = 10, hole._ACTIVATIONS[activation]
    adjacency = random_adjacency(0, n, 0.3)
    z = unit_rows(0, n, 6).requires_grad_()
    q = torch.softmax(unit_rows(1, n, 3) * 4, 1).requires_grad_()
    loss, values = hole.pair_losses(structure(adjacency), z, q, kappa, rho, n)

    target = torch.from_numpy(hole.smoothing_filter(adjacency).toarray())
    rest = n * n - target.sum()
    preds = rho(z @ z.T)
    rec = F.binary_cross_entropy_with_logits(preds, target, pos_weight=rest / target.sum())
    rec = rec * n * n / (2 * rest)
    con = kappa * F.binary_cross_entropy_with_logits(rho(q @ q.T), preds)
    tolerance = {"atol": 1e-6, "rtol": 1e-6}  # the filter is held in single precision
    torch.testing.assert_close(loss, rec + con, **tolerance)
    torch.testing.assert_close(values["reconstruction"], rec.detach(), **tolerance)
    assert ("consistency" in values) == (kappa > 0)
    if kappa > 0:
        torch.testing.assert_close(values["consistency"], con.detach(), **tolerance)
    for w in (z, q) if kappa > 0 else (z,):
        grads = [torch.autograd.grad(v, w, retain_graph=True)[0] for v in (loss, rec + con)]
        torch.testing.assert_close(*grads, **tolerance)


def test_sampled_pairs_are_unbiased(monkeypatch):
    """The mean over all samples of 3 of 5 nodes is the sum over all pairs, gradient included."""
    z, q = unit_rows(0, 5, 4).requires_grad_(), unit_rows(1, 5, 2).requires_grad_()
    terms = [lambda x, y: torch.exp(x), lambda x, y: x * torch.sin(y)]
    total, parts = hole._sum_over_pairs(terms, [z, q], 5)
    exact = torch.autograd.grad(total, (z, q))
    dense = torch.exp(z @ z.T).sum(), ((z @ z.T) * torch.sin(q @ q.T)).sum()
    torch.testing.assert_close(parts, torch.stack(dense).detach())

    samples = list(itertools.combinations(range(5), 3))
    found, grads, means = 0, [0, 0], 0
    for sample in samples:
        monkeypatch.setattr(torch, "randperm", lambda n, device, s=sample: torch.tensor([*s, 0, 0]))
        value, terms_found = hole._sum_over_pairs(terms, [z, q], 3)
        found = found + value.detach() / len(samples)
        means = means + terms_found / len(samples)
        grads = [g + h / len(samples) for g, h in zip(grads, torch.autograd.grad(value, (z, q)))]
    torch.testing.assert_close(found, total.detach())
    torch.testing.assert_close(means, parts)
    torch.testing.assert_close(tuple(grads), exact)


def test_assignment_target_and_decorrelation_follow_their_formulas():
    z, mu = unit_rows(0, 7, 4), unit_rows(1, 3, 4)
    q = np.array([[1 / (1 + float(((a - b) ** 2).sum())) for b in mu] for a in z])
    q /= q.sum(1, keepdims=True)
    np.testing.assert_allclose(hole.soft_assignment(z, mu), q)
    p = q**2 / q.sum(0)
    p /= p.sum(1, keepdims=True)
    np.testing.assert_allclose(hole.target_distribution(torch.from_numpy(q)), p)
    columns = z.numpy() / np.linalg.norm(z.numpy(), axis=0)
    logits = columns.T @ columns / 2
    expected = np.mean(np.log(np.exp(logits).sum(1)) - logits.diagonal())
    assert float(hole.decorrelation(z)) == pytest.approx(expected)


def test_rows_are_scaled_to_unit_length():
    y = torch.tensor([[1.0, 3.0, 2.0], [5.0, 5.0, 5.0]])
    expected = torch.tensor([[0.0, 1.0, 0.5], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(hole.scaled(y), F.normalize(expected))


# --- rewiring ------------------------------------------------------------------------------


def brute_force(adjacency, original, z, q, keep, add, delete):
    """The four steps over all ordered pairs, one by one."""
    a, first = adjacency.toarray().astype(int), original.toarray().astype(int)
    n, x = a.shape[0], (z @ z.T).numpy()
    before, clusters, sure = a.sum(), q.argmax(1).numpy(), q.max(1).values.numpy()
    for c in range(q.shape[1]):
        nodes = sorted(np.flatnonzero(clusters == c), key=lambda i: -sure[i])
        nodes = nodes[: int(len(nodes) * keep)]
        count = math.ceil(add * first.sum() * len(nodes) / n)
        pairs = [(i, j) for i in nodes for j in nodes if i != j and not first[i, j]]
        for i, j in sorted(pairs, key=lambda pair: -x[pair])[: 2 * count]:
            a[i, j] = a[j, i] = 1
    budget = min(math.ceil(delete * a.sum()), a.sum() - before)
    entries = sorted(np.argwhere(a).tolist(), key=lambda pair: x[tuple(pair)])
    for i, j in entries[: max(0, budget - 1)]:
        a[i, j] = a[j, i] = 0
    for i in np.flatnonzero(a.sum(1) == 0):
        others = [j for j in range(n) if j != i]
        ties = [max(others, key=lambda j, i=i: x[i, j])]
        known = np.flatnonzero(first[i])
        ties += [max(known, key=lambda j, i=i: x[i, j])] if known.size else []
        a[i, ties] = a[ties, i] = 1
    return a


@pytest.mark.parametrize("block", [3, 512])
@pytest.mark.parametrize(
    ("keep", "add", "delete"),
    [(1.0, 0.3, 0.1), (0.5, 1.0, 0.3), (0.6, 20.0, 0.5), (1.0, 0.0, 0.5), (0.0, 1.0, 0.0)],
)
def test_rewiring_is_brute_force(keep, add, delete, block, monkeypatch, global_random_seed):
    monkeypatch.setattr(hole, "_BLOCK", block)
    n = 24
    original = random_adjacency(global_random_seed, n, 0.08)
    adjacency = random_adjacency(global_random_seed + 100, n, 0.05)
    z, q = unit_rows(global_random_seed, n, 5), torch.softmax(unit_rows(1, n, 3) * 3, 1)
    # exactly symmetric similarities, so that the brute force knows no ties of its own
    z = (z * 64).round()
    z += unit_rows(global_random_seed + 7, n, 5) * 1e-3
    found = hole.rewired(adjacency, original, z, q, keep, add, delete)
    expected = brute_force(adjacency, original, z, q, keep, add, delete)
    np.testing.assert_array_equal(found.toarray(), expected)


def test_rewiring_ties_lonely_nodes():
    n = 5
    empty = sp.csr_array((n, n), dtype=np.float32)
    z = torch.tensor([[1.0, 0], [0.9, 0.1], [0, 1], [0.2, 0.8], [0.6, 0.4]])
    q = torch.full((n, 2), 0.5)
    original = hole._from_pairs(np.array([[0], [2]]), n)
    found = hole.rewired(empty, original, z, q, 0.0, 1.0, 0.1).toarray()
    np.testing.assert_array_equal(found, brute_force(empty, original, z, q, 0.0, 1.0, 0.1))
    assert found[0, 1] == found[0, 2] == 1
    assert (found.sum(1) > 0).all()


# --- runs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [{}, {"kappa": 1.0, "binarize": True, "node_ratio": 1.0}, {"activation": "sigmoid"}],
)
def test_planted_groups_are_found(settings, global_random_seed):
    graph = planted(global_random_seed, sparse=not settings)
    model = short(random_state=global_random_seed, **settings).fit(graph)
    assert normalized_mutual_info_score(graph.y, model.labels_) > 0.8
    assert model.embedding_.shape == (120, 32)
    assert len(model.history_) == 30 + 15 * 3
    assert all(np.isfinite(list(epoch.values())).all() for epoch in model.history_)
    rewired = model.adjacency_
    assert (rewired != rewired.T).nnz == 0
    assert rewired.nnz > graph.adjacency.nnz


def test_planted_groups_are_found_from_sampled_pairs(global_random_seed):
    graph = planted(global_random_seed)
    model = short(random_state=global_random_seed, pair_nodes=40, kappa=1.0).fit(graph)
    assert normalized_mutual_info_score(graph.y, model.labels_) > 0.8


def test_same_seed_same_run_and_looking_changes_nothing():
    graph, epochs = planted(0), []

    def look(epoch):
        epochs.append((epoch.number, epoch.total, epoch.labels()))

    small = {"warmup_epochs": 3, "epochs": 2, "reset": True}
    models = [short(callback=c, **small).fit(graph) for c in (None, look)]
    np.testing.assert_array_equal(models[0].labels_, models[1].labels_)
    np.testing.assert_array_equal(models[0].embedding_, models[1].embedding_)
    assert models[0].history_ == models[1].history_
    assert [epoch[:2] for epoch in epochs] == [(i, 9) for i in range(1, 10)]
    np.testing.assert_array_equal(epochs[-1][2], models[1].labels_)


@pytest.mark.parametrize("case", ["no edges", "isolated", "no attributes", "directed", "one word"])
def test_odd_graphs(case):
    graph = planted(0)
    a, x = graph.adjacency, graph.x
    if case == "no edges":
        a = sp.csr_array(a.shape)
    elif case == "isolated":
        a = a * (np.arange(120) > 20)[:, None] * (np.arange(120) > 20)[None, :]
    elif case == "no attributes":
        x = None
    elif case == "directed":
        a = sp.csr_array(sp.triu(a) + sp.eye_array(120) * 2)
    else:
        x = np.zeros((120, 1))
    model = short(warmup_epochs=2, epochs=2).fit(Graph(a, x))
    assert model.labels_.shape == (120,)
    assert np.isfinite(model.embedding_).all()


def test_one_node_is_refused():
    with pytest.raises(GraphError, match="one node"):
        HoLe(1).fit(Graph(np.zeros((1, 1)), np.ones((1, 2))))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_planted_groups_are_found_on_cuda():
    graph = planted(0)
    labels = short(device="cuda", kappa=1.0).fit_predict(graph)
    assert normalized_mutual_info_score(graph.y, labels) > 0.8
