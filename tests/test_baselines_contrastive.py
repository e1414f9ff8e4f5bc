"""S3GC and MUSE: their losses against naive formulas, walks, views, and whole runs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from sklearn.metrics import normalized_mutual_info_score

from hencler._errors import GraphError, ParameterError
from hencler._graph import Graph
from hencler._torch import seeded
from hencler.baselines import muse, s3gc
from hencler.baselines.muse import MUSE
from hencler.baselines.s3gc import S3GC

CPU = torch.device("cpu")


def planted(seed: int, sparse: bool = True) -> Graph:
    """Three groups of 40 nodes, linked inside with 0.2, across with 0.01; words of their own."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), 40)
    same = y[:, None] == y[None, :]
    upper = np.triu(rng.random((120, 120)) < np.where(same, 0.2, 0.01), 1)
    own = y[:, None] == np.arange(30)[None, :] % 3
    x = (rng.random((120, 30)) < np.where(own, 0.6, 0.05)).astype(float)
    return Graph(
        sp.csr_array((upper | upper.T).astype(float)), sp.csr_array(x) if sparse else x, y=y
    )


def random_digraph(seed: int, n: int = 12) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.csr_array((rng.random((n, n)) < 0.25).astype(float))


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


DEFAULTS = {"n_clusters": 3, "device": "cpu", "random_state": 0}
SHORT = {
    "s3gc": lambda **kw: S3GC(**{**DEFAULTS, "dim": 16, "batch_size": 32, "epochs": 8, **kw}),
    "muse": lambda **kw: MUSE(**{**DEFAULTS, "dim": 32, "epochs": 20, **kw}),
}


# --- S3GC ----------------------------------------------------------------------------------


def test_walks_stay_on_edges(global_random_seed):
    graph = Graph(random_digraph(global_random_seed))
    adjacency = s3gc._with_self_loops(graph)
    start = torch.arange(graph.n_nodes)[:, None].expand(-1, 50)
    with seeded(global_random_seed, CPU):
        walk = s3gc._Walker(adjacency, CPU).walk(start, 4)
    assert walk.shape == (graph.n_nodes, 50, 4)
    nodes = torch.cat([start[..., None], walk], dim=2).numpy()
    dense = adjacency.toarray()
    assert (dense == dense.T).all()
    assert (dense.diagonal() == 1).all()
    assert (dense[nodes[..., :-1], nodes[..., 1:]] == 1).all()


def test_every_neighbour_is_equally_likely(global_random_seed):
    graph = Graph(random_digraph(global_random_seed, 8))
    adjacency = s3gc._with_self_loops(graph)
    draws = 20_000
    start = torch.arange(8)[:, None].expand(-1, draws)
    with seeded(global_random_seed, CPU):
        walk = s3gc._Walker(adjacency, CPU).walk(start, 2)
    p = adjacency.toarray() / adjacency.sum(axis=1)[:, None]
    for steps, expected in ((1, p), (2, p @ p)):
        seen = np.stack([np.bincount(row, minlength=8) for row in walk[..., steps - 1].numpy()])
        spread = np.sqrt(expected * (1 - expected) / draws)
        assert (np.abs(seen / draws - expected) <= 5 * spread + 1e-12).all()


def test_walk_loss_is_the_ratio_of_sums(global_random_seed):
    z = F.normalize(draw(global_random_seed, 7, 5)).requires_grad_()
    rng = np.random.default_rng(global_random_seed)
    start = torch.from_numpy(rng.integers(7, size=3))
    positive, negative = (torch.from_numpy(rng.integers(7, size=(3, 2, 4))) for _ in range(2))
    total = torch.zeros((), dtype=z.dtype)
    for i in range(3):
        for walk in range(2):
            p = sum(torch.exp(z[start[i]] @ z[v]) for v in positive[i, walk])
            q = sum(torch.exp(z[start[i]] @ z[v]) for v in negative[i, walk])
            total = total - p / (p + q) / 6
    loss = s3gc.walk_loss(z, start, positive, negative)
    torch.testing.assert_close(loss, total)
    grads = [torch.autograd.grad(value, z)[0] for value in (loss, total)]
    torch.testing.assert_close(*grads)


def test_diffused_attributes_follow_the_formula():
    graph = planted(0)
    a = s3gc._with_self_loops(graph).toarray()
    d = np.diag(a.sum(1) ** -0.5)
    walk = d @ a @ d
    x = graph.x.toarray()
    sx = sum(0.2 * 0.8**i * np.linalg.matrix_power(walk, i) for i in range(3)) @ x
    expected = np.hstack([walk @ x, sx])
    for given in (graph.x, x):
        found = s3gc.diffused(s3gc._with_self_loops(graph), given)
        found = found.toarray() if sp.issparse(found) else found
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["lazy", "sparse rows", "dense rows"])
def test_all_encoders_are_one_function(kind, monkeypatch):
    # wide and very sparse, so that the lazy order is chosen
    x = sp.random_array((120, 400), density=0.01, rng=np.random.default_rng(0), format="csr")
    graph = Graph(planted(0).adjacency, x)
    a = s3gc._with_self_loops(graph)
    nodes = (torch.tensor([3, 5, 5]), torch.tensor([[0, 119], [7, 3], [8, 8]]))
    with seeded(0, CPU):
        table = s3gc._TableEncoder(a, x.toarray(), 6, CPU)
        if kind == "lazy":
            other = s3gc._TableEncoder(a, x, 6, CPU)
            assert other.lazy
        else:
            monkeypatch.setattr(s3gc, "_DENSE_ENTRIES", 0)
            other = s3gc._RowEncoder(a, x if kind == "sparse rows" else x.toarray(), 6, CPU)
            assert other.sparse == (kind == "sparse rows")
    other.load_state_dict(table.state_dict())
    rows = []
    for encoder in (table, other):
        z, (i, j) = encoder(*nodes)
        rows.append(torch.cat([z[i], z[j].reshape(-1, 6)]))
        (rows[-1] ** 3).sum().backward()
    torch.testing.assert_close(*rows)
    for p, q in zip(table.parameters(), other.parameters()):
        torch.testing.assert_close(p.grad, q.grad.to_dense())
    with torch.no_grad():
        np.testing.assert_allclose(table.embedding(), other.embedding(), atol=1e-6)


@pytest.mark.parametrize("sparse", [True, False])
def test_rows_of_j_are_moved_as_stated(sparse, monkeypatch, global_random_seed):
    """Above the stated size, only touched rows of J have a gradient; the clusters are found."""
    monkeypatch.setattr(s3gc, "_ALL_ROWS", 0)
    graph = planted(global_random_seed, sparse)
    labels = SHORT["s3gc"](random_state=global_random_seed).fit_predict(graph)
    assert normalized_mutual_info_score(graph.y, labels) > 0.8


# --- MUSE ----------------------------------------------------------------------------------


def naive_contrast(u, v, tau):
    """The formula of the paper, n x n matrices and all."""

    def one_way(a, b):
        between = torch.exp(F.normalize(a) @ F.normalize(b).T / tau)
        within = torch.exp(F.normalize(a) @ F.normalize(a).T / tau)
        denominator = between.sum(1) + within.sum(1) - within.diagonal()
        return -torch.log(between.diagonal() / denominator)

    return (0.5 * (one_way(u, v) + one_way(v, u))).mean()


@pytest.mark.parametrize("block", [1, 3, 7, 11, 14, 22, 100])
@pytest.mark.parametrize("tau", [0.05, 0.5])
def test_contrast_in_blocks_is_the_dense_formula(block, tau, monkeypatch):
    monkeypatch.setattr(muse, "_BLOCK", block)
    u, v = draw(0, 11, 4).requires_grad_(), draw(1, 11, 4).requires_grad_()
    losses = muse.contrast(u, v, tau, 11), naive_contrast(u, v, tau)
    torch.testing.assert_close(*losses)
    for w in (u, v):
        grads = [torch.autograd.grad(loss, w, retain_graph=True)[0] for loss in losses]
        torch.testing.assert_close(*grads)


def test_contrast_of_a_sample_scales_the_others():
    u, v = draw(0, 5, 3), draw(1, 5, 3)
    w, n, tau = F.normalize(torch.cat([u, v])), 41, 0.5
    e = torch.exp(w @ w.T / tau)
    node = torch.arange(10) % 5
    others = torch.where(node[:, None] == node[None, :], 0, e).sum(1)
    own = e[torch.arange(10), (torch.arange(10) + 5) % 10]
    expected = -torch.log(own / (own + others * (n - 1) / 4)).mean()
    torch.testing.assert_close(muse.contrast(u, v, tau, n), expected)


def test_contrast_of_equal_rows_has_a_gradient():
    u = torch.ones(4, 3, dtype=torch.float64, requires_grad=True)
    loss = muse.contrast(u, u.clone(), 0.025, 4)
    torch.testing.assert_close(loss, torch.log(torch.tensor(7.0, dtype=torch.float64)))
    assert torch.isfinite(torch.autograd.grad(loss, u)[0]).all()


def test_controller_loss_follows_the_formula():
    h_1, h_3, beta = draw(0, 6, 4), draw(1, 6, 4), torch.sigmoid(draw(2, 6, 1))
    expected = 100 * abs(float(beta.mean()) - 0.3) + float((beta**2).sum()) ** 0.5
    for i in range(6):
        cosine = float(h_1[i] @ h_3[i]) / float(h_1[i].norm() * h_3[i].norm())
        expected += float(beta[i, 0]) * cosine
    found = muse.controller_loss(beta, h_1, h_3, 0.3, 100.0, 1.0)
    assert float(found) == pytest.approx(expected)


@pytest.mark.parametrize("width", [3, 40])
def test_network_is_two_layers_of_sums_over_out_neighbours(width):
    """Both orders of the products, dense and sparse attributes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, width)) * (rng.random((12, width)) < 0.5)
    graph = Graph(random_digraph(0), x)
    with seeded(0, CPU):
        network = muse._Network(width, 8)
    a = graph.adjacency.toarray() * (1 - np.eye(12))
    a = torch.from_numpy(a).float()
    y = torch.from_numpy(x).float()
    for adjacency in (torch.eye(12), a):
        layer_1, layer_2 = network.layer_1, network.layer_2
        hidden = F.relu(F.prelu(adjacency @ y @ layer_1.weight, layer_1.act.weight))
        expected = F.prelu(adjacency @ hidden @ layer_2.weight, layer_2.act.weight)
        for given in (x, sp.csr_array(x)):
            views = muse._Views(given, graph, CPU)
            context = views.adjacency if adjacency is a else None
            found = network(views.attributes(0.0), context)[0]
            torch.testing.assert_close(found, expected)
            grads = [
                torch.autograd.grad((h**2).sum(), layer_1.weight, retain_graph=True)[0]
                for h in (found, expected)
            ]
            torch.testing.assert_close(*grads, atol=1e-4, rtol=1e-4)


def test_views_drop_what_they_say():
    graph = planted(0)
    views = muse._Views(graph.x, graph, CPU)
    with seeded(0, CPU):
        left = views.edges_left(0.2)
        columns = views.column_mask(0.5)
        masked = views.attributes(0.0, columns)
        dropped = views.attributes(0.5)
    n_edges = graph.adjacency.nnz
    assert int(left.forward.values().sum()) == n_edges - int(0.2 * n_edges)
    assert torch.equal(left.forward.to_dense().T, left.transposed.to_dense())
    assert 0 < columns.sum() < 30
    whole = torch.from_numpy(graph.x.toarray()).float()
    torch.testing.assert_close(masked.forward.to_dense(), whole * columns)
    assert set(dropped.forward.values().tolist()) == {0.0, 2.0}
    np.testing.assert_array_equal(views.degree[:, 0], graph.adjacency.sum(axis=1))


def test_muse_contrasts_a_sample_of_a_large_graph(global_random_seed):
    graph = planted(global_random_seed)
    model = SHORT["muse"](contrast_nodes=60, random_state=global_random_seed).fit(graph)
    assert normalized_mutual_info_score(graph.y, model.labels_) > 0.8


def test_muse_settings():
    model = SHORT["muse"](epochs=2, normalize_rows=True).fit(planted(0))
    assert model.beta_.shape == (120,)
    assert ((model.beta_ > 0) & (model.beta_ < 1)).all()
    with pytest.raises(ParameterError, match="tau"):
        MUSE(3, tau=0.001).fit(planted(0))
    with pytest.raises(GraphError, match="one node"):
        MUSE(1).fit(Graph(np.zeros((1, 1)), np.ones((1, 2))))


# --- both ----------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("name", SHORT)
def test_planted_groups_are_found(name, sparse, global_random_seed):
    graph = planted(global_random_seed, sparse)
    model = SHORT[name](random_state=global_random_seed).fit(graph)
    assert normalized_mutual_info_score(graph.y, model.labels_) > 0.8
    assert model.embedding_.shape[0] == 120
    assert len(model.history_) == model.epochs
    assert all(np.isfinite(list(epoch.values())).all() for epoch in model.history_)


@pytest.mark.parametrize("name", SHORT)
def test_same_seed_same_run_and_looking_changes_nothing(name):
    graph, epochs = planted(0), []

    def look(epoch):
        epochs.append((epoch.number, epoch.total, epoch.labels()))

    models = [SHORT[name](epochs=3, callback=c).fit(graph) for c in (None, look)]
    np.testing.assert_array_equal(models[0].labels_, models[1].labels_)
    np.testing.assert_array_equal(models[0].embedding_, models[1].embedding_)
    assert models[0].history_ == models[1].history_
    assert [epoch[:2] for epoch in epochs] == [(1, 3), (2, 3), (3, 3)]
    np.testing.assert_array_equal(epochs[-1][2], models[1].labels_)
    other = SHORT[name](epochs=3, random_state=1).fit(graph)
    assert not np.array_equal(models[0].embedding_, other.embedding_)


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("case", ["no edges", "isolated", "no attributes", "directed", "one word"])
def test_odd_graphs(name, case):
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
    model = SHORT[name](epochs=2).fit(Graph(a, x))
    assert model.labels_.shape == (120,)
    assert np.isfinite(model.embedding_).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", SHORT)
def test_planted_groups_are_found_on_cuda(name):
    graph = planted(0)
    labels = SHORT[name](device="cuda").fit_predict(graph)
    assert normalized_mutual_info_score(graph.y, labels) > 0.8
