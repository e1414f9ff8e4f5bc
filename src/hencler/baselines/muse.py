"""MUSE: contrast of a node's own view and its context's view (Yuan et al., CIKM 2023)."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.preprocessing import normalize
from sklearn.utils._param_validation import Interval
from torch import Tensor, nn

from .._base import Callback, GraphClusterer
from .._graph import Attributes, Graph
from .._torch import resolve_device, seeded, sparse_tensor
from ._training import (
    SparseMatrix,
    attributes_or_links,
    input_matrix,
    need_two_nodes,
    run_epochs,
)

__all__ = ["MUSE"]

_BLOCK = 512
"""Rows of the similarity matrix that exist at one time."""


class MUSE(GraphClusterer):
    r"""Multi-view contrastive learning for heterophilous graphs.

    One network f(X, A) = l_2(relu(l_1(X))), l(Y) = PReLU(A Y W + b), sees four views: the
    attributes alone (h_1 = f(X, I)), with dropped columns (h_2), with the graph (h_3 = f(X, A)),
    with dropped edges (h_4). With the contrast L of :func:`contrast`,

        L_gnn = L(h_1, h_2) + alpha_1 L(h_3, h_4) + alpha_2 L(h_1 + beta h_3, h_2 + beta h_4)

    trains the network, and

        L_ctl = sum_v beta_v cos(h_1v, h_3v) + alpha_3 |mean beta - rho| + alpha_4 |beta|_2

    the controller beta_v in (0, 1), in turn. KMeans on h_1 + beta h_3 gives the clusters.

    Parameters
    ----------
    n_clusters : int
    dim : int
        Width of the views; the first layer is twice as wide.
    tau : float
        Temperature of the contrast.
    alpha_1, alpha_2, alpha_3, alpha_4 : float
        Weights of the terms above.
    rho : float
        Mean of beta to aim at; the authors call it homophily.
    gate : int
        Width of the controller.
    dropout, gate_dropout, column_dropout, edge_dropout : float
        Parts dropped of the input, of the controller's layers, of the attribute columns (second
        view) and of the edges (fourth view).
    epochs, lr, weight_decay
        Of Adam, for the network and the controller alike.
    normalize_rows : bool
        Scale attribute rows to sum 1, as the authors do for squirrel only.
    contrast_nodes : int
        Every node is contrasted with every other in a graph of up to this many nodes. In a larger
        one each epoch contrasts so many random nodes with each other; the sum over the others is
        scaled up to n - 1 nodes.
    device : {"auto", "cpu", "cuda"} or torch.device
    callback : callable, optional
        Called after each epoch with an :class:`~hencler._base.Epoch`.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : array of shape (n,)
    embedding_ : array of shape (n, dim)
    beta_ : array of shape (n,)
        How much of its context each node takes.
    history_ : list of dict
        The weighted terms of L_gnn, and L_ctl, per epoch.

    Notes
    -----
    Time per epoch is O(n^2 dim), memory O(n dim): similarities exist for 512 nodes at a time and
    are computed again for the gradient. Directions of edges count, weights and self-loops do not.

    Examples
    --------
    >>> from hencler import make_heterophilous_graph
    >>> from hencler.baselines import MUSE
    >>> graph = make_heterophilous_graph(60, 3, random_state=0)
    >>> method = MUSE(3, dim=8, epochs=1, device="cpu", random_state=0).fit(graph)
    >>> method.embedding_.shape, bool((method.beta_ >= 0).all() and (method.beta_ <= 1).all())
    ((60, 8), True)
    """

    _parameter_constraints = {  # noqa: RUF012
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "dim": [Interval(Integral, 1, None, closed="left")],
        # exp(1 / tau) and its sums over all nodes must stay within float32.
        "tau": [Interval(Real, 0.025, None, closed="left")],
        "alpha_1": [Interval(Real, 0, None, closed="left")],
        "alpha_2": [Interval(Real, 0, None, closed="left")],
        "alpha_3": [Interval(Real, 0, None, closed="left")],
        "alpha_4": [Interval(Real, 0, None, closed="left")],
        "rho": [Interval(Real, 0, 1, closed="both")],
        "gate": [Interval(Integral, 1, None, closed="left")],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "gate_dropout": [Interval(Real, 0, 1, closed="left")],
        "column_dropout": [Interval(Real, 0, 1, closed="left")],
        "edge_dropout": [Interval(Real, 0, 1, closed="left")],
        "epochs": [Interval(Integral, 1, None, closed="left")],
        "lr": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "normalize_rows": ["boolean"],
        "contrast_nodes": [Interval(Integral, 2, None, closed="left")],
        "device": [str, torch.device],
        "callback": [callable, None],
        "random_state": ["random_state"],
    }

    embedding_: NDArray[np.float32]
    beta_: NDArray[np.float32]
    history_: list[dict[str, float]]

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        dim: int = 512,
        tau: float = 0.5,
        alpha_1: float = 0.01,
        alpha_2: float = 0.01,
        alpha_3: float = 100.0,
        alpha_4: float = 1.0,
        rho: float = 0.3,
        gate: int = 30,
        dropout: float = 0.2,
        gate_dropout: float = 0.4,
        column_dropout: float = 0.2,
        edge_dropout: float = 0.2,
        epochs: int = 300,
        lr: float = 0.005,
        weight_decay: float = 5e-4,
        normalize_rows: bool = False,
        contrast_nodes: int = 50_000,
        device: str | torch.device = "auto",
        callback: Callback | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.dim = dim
        self.tau = tau
        self.alpha_1 = alpha_1
        self.alpha_2 = alpha_2
        self.alpha_3 = alpha_3
        self.alpha_4 = alpha_4
        self.rho = rho
        self.gate = gate
        self.dropout = dropout
        self.gate_dropout = gate_dropout
        self.column_dropout = column_dropout
        self.edge_dropout = edge_dropout
        self.epochs = epochs
        self.lr = lr
        self.weight_decay = weight_decay
        self.normalize_rows = normalize_rows
        self.contrast_nodes = contrast_nodes
        self.device = device
        self.callback = callback
        self.random_state = random_state

    def _fit(self, graph: Graph) -> None:
        need_two_nodes(graph, "MUSE")
        device, seed = resolve_device(self.device), self._seed()
        x = attributes_or_links(graph, seed)
        if self.normalize_rows:
            x = normalize(x, norm="l1")
        with seeded(seed, device):
            views = _Views(x, graph, device)
            network = _Network(x.shape[1], self.dim).to(device)
            controller = _Controller(self.dim, self.gate, self.gate_dropout).to(device)

            def labels() -> NDArray[np.int64]:
                return self._cluster(_fused(network, controller, views)[0], seed)

            optimizers = [
                torch.optim.Adam(part.parameters(), lr=self.lr, weight_decay=self.weight_decay)
                for part in (network, controller)
            ]
            self.history_ = run_epochs(
                lambda: self._epoch(network, controller, views, optimizers),
                epochs=self.epochs,
                callback=self.callback,
                labels=labels,
                device=device,
            )
        with torch.no_grad():
            z, beta = _fused(network, controller, views)
        self.embedding_, self.beta_ = z.cpu().numpy(), beta.cpu().numpy()[:, 0]
        self.labels_ = self._cluster(z, seed)

    def _epoch(
        self,
        network: _Network,
        controller: _Controller,
        views: _Views,
        optimizers: list[torch.optim.Adam],
    ) -> dict[str, Tensor]:
        network.train()
        controller.train()
        columns = views.column_mask(self.column_dropout)
        dropped = views.edges_left(self.edge_dropout)

        x = views.attributes(self.dropout)
        h_1, h_3, h_4 = network(x, None, views.adjacency, dropped)
        (h_2,) = network(views.attributes(self.dropout, columns), None)
        with torch.no_grad():
            beta = controller(h_1, h_3, views.degree)
        terms = self._network_loss(network, h_1, h_2, h_3, h_4, beta)
        _step(optimizers[0], torch.stack(list(terms.values())).sum())

        with torch.no_grad():
            h_1, h_3 = network(views.attributes(self.dropout), None, views.adjacency)
        beta = controller(h_1, h_3, views.degree)
        weights = (self.alpha_3, self.alpha_4)
        terms["controller"] = controller_loss(beta, h_1, h_3, self.rho, *weights)
        _step(optimizers[1], terms["controller"])
        return terms

    def _network_loss(
        self,
        network: _Network,
        h_1: Tensor,
        h_2: Tensor,
        h_3: Tensor,
        h_4: Tensor,
        beta: Tensor,
    ) -> dict[str, Tensor]:
        n = h_1.shape[0]
        if n > self.contrast_nodes:
            drawn = torch.randperm(n, device=h_1.device)[: self.contrast_nodes]
            h_1, h_2, h_3, h_4, beta = (h[drawn] for h in (h_1, h_2, h_3, h_4, beta))

        def loss(u: Tensor, v: Tensor) -> Tensor:
            return contrast(network.project(u), network.project(v), self.tau, n)

        return {
            "semantic": loss(h_1, h_2),
            "contextual": self.alpha_1 * loss(h_3, h_4),
            "fused": self.alpha_2 * loss(h_1 + beta * h_3, h_2 + beta * h_4),
        }

    def _cluster(self, z: Tensor, seed: int) -> NDArray[np.int64]:
        # Sums over neighbours can overflow; the authors put 1 there as well.
        finite = torch.nan_to_num(z, nan=1.0, posinf=1.0, neginf=1.0).cpu().numpy()
        kmeans = KMeans(self.n_clusters, n_init=10, random_state=seed)
        return kmeans.fit_predict(finite).astype(np.int64)


def _step(optimizer: torch.optim.Adam, loss: Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


# --- losses --------------------------------------------------------------------------------


def contrast(u: Tensor, v: Tensor, tau: float, n: int) -> Tensor:
    """NT-Xent of m pairs (u_i, v_i), with the sum over other nodes scaled from m to n nodes.

        l(u_i, v_i) = - log e^{u_i.v_i} / (e^{u_i.v_i} + c sum_{k != i} e^{u_i.v_k} + e^{u_i.u_k})

    where . is the cosine over tau and c = (n - 1) / (m - 1); the mean over l(u_i, v_i) and
    l(v_i, u_i) is returned. c = 1 when all nodes are there.

    Parameters
    ----------
    u, v : (m, p)
    """
    m = u.shape[0]
    w = F.normalize(torch.cat([u, v]))
    others: Tensor = _LogSumOthers.apply(w, tau)
    own = (w[:m] * w[m:]).sum(1).repeat(2) / tau
    scale = math.log((n - 1) / (m - 1))
    return (torch.logaddexp(own, others + scale) - own).mean()


class _LogSumOthers(torch.autograd.Function):
    """log sum_b e^{w_a.w_b / tau} over all rows b that belong to another node than row a.

    Rows a and a + m of w (2m, p), all of unit length, are the two views of node a. Similarities
    are symmetric, so only the columns from the block's own first row onwards are computed. No
    running maximum is needed: the exponents are at most 1 / tau, hence at most 40.
    """

    @staticmethod
    def forward(ctx: Any, w: Tensor, tau: float) -> Tensor:
        sums = torch.zeros_like(w[:, 0])
        for start, stop in _blocks(w.shape[0]):
            e = _similarities(w, start, stop, tau)
            sums[start:stop] += e.sum(1)
            sums[stop:] += e[:, stop - start :].sum(0)
        ctx.save_for_backward(w, sums)
        ctx.tau = tau
        return sums.log()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        w, sums = ctx.saved_tensors
        weight = grads[0] / (sums * ctx.tau)
        grad = torch.zeros_like(w)
        for start, stop in _blocks(w.shape[0]):
            e = _similarities(w, start, stop, ctx.tau)
            e *= weight[start:stop, None] + weight[None, start:]
            grad[start:stop] += e @ w[start:]
            grad[stop:] += e[:, stop - start :].T @ w[start:stop]
        return grad, None


def _blocks(n: int) -> list[tuple[int, int]]:
    return [(start, min(start + _BLOCK, n)) for start in range(0, n, _BLOCK)]


def _similarities(w: Tensor, start: int, stop: int, tau: float) -> Tensor:
    """e^{w_a.w_b / tau} for a in [start, stop) and b >= start; 0 for the same node."""
    n = w.shape[0]
    # Every pass over the block costs more than the product itself: tau goes into its small factor.
    e = ((w[start:stop] / tau) @ w[start:].T).exp_()
    row = torch.arange(stop - start, device=w.device)
    e[row, row] = 0
    partner = (row + start + n // 2) % n - start
    # A partner before `start` is in no column here: its row writes back what it has.
    column = partner.clamp(min=0)
    e[row, column] = torch.where(partner < 0, e[row, column], 0)
    return e


def controller_loss(
    beta: Tensor, h_1: Tensor, h_3: Tensor, rho: float, alpha_3: float, alpha_4: float
) -> Tensor:
    """sum_v beta_v cos(h_1v, h_3v) + alpha_3 |mean beta - rho| + alpha_4 |beta|_2."""
    agreement = (beta[:, 0] * F.cosine_similarity(h_1, h_3)).sum()
    return agreement + alpha_3 * (beta.mean() - rho).abs() + alpha_4 * beta.norm()


# --- modules -------------------------------------------------------------------------------


class _Layer(nn.Module):
    """PReLU(A Y W + b) for several A, None being the identity."""

    def __init__(self, d: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(d, width)))
        self.bias = nn.Parameter(torch.zeros(width))
        self.act = nn.PReLU()

    def forward(self, y: Any, *adjacencies: SparseMatrix | None) -> list[Tensor]:
        d, width = self.weight.shape
        if d < width and isinstance(y, Tensor):
            # Narrow inputs are summed over neighbours before they are made wide.
            products = [(y if a is None else a @ y) @ self.weight for a in adjacencies]
        else:
            wide = y @ self.weight
            products = [wide if a is None else a @ wide for a in adjacencies]
        return [self.act(product + self.bias) for product in products]


class _Network(nn.Module):
    """The two shared layers and the projection head of the contrast."""

    def __init__(self, d: int, dim: int) -> None:
        super().__init__()
        self.layer_1 = _Layer(d, 2 * dim)
        self.layer_2 = _Layer(2 * dim, dim)
        self.project = nn.Sequential(
            nn.Linear(dim, dim), nn.BatchNorm1d(dim), nn.ELU(), nn.Linear(dim, dim)
        )

    def forward(self, x: Any, *adjacencies: SparseMatrix | None) -> list[Tensor]:
        """f(x, A) for each A, each of shape (n, dim)."""
        hidden = self.layer_1(x, *adjacencies)
        return [self.layer_2(F.relu(h), a)[0] for h, a in zip(hidden, adjacencies)]


class _Controller(nn.Module):
    """beta = sigmoid(w_3' [W_1 h_1 | W_2 h_3 | degree] + b_3), dropout after each product."""

    def __init__(self, dim: int, gate: int, dropout: float) -> None:
        super().__init__()
        self.own = nn.Linear(dim, gate)
        self.context = nn.Linear(dim, gate)
        self.out = nn.Linear(2 * gate + 1, 1)
        self.dropout = nn.Dropout(dropout)
        for linear in (self.own, self.context, self.out):
            nn.init.xavier_normal_(linear.weight, gain=1.414)

    def forward(self, h_1: Tensor, h_3: Tensor, degree: Tensor) -> Tensor:
        own, context = self.dropout(self.own(h_1)), self.dropout(self.context(h_3))
        return torch.sigmoid(self.dropout(self.out(torch.cat([own, context, degree], 1))))


def _fused(network: _Network, controller: _Controller, views: _Views) -> tuple[Tensor, Tensor]:
    """z = h_1 + beta h_3 and beta, without any dropout."""
    network.eval()
    controller.eval()
    h_1, h_3 = network(views.attributes(0.0), None, views.adjacency)
    beta = controller(h_1, h_3, views.degree)
    return h_1 + beta * h_3, beta


# --- inputs --------------------------------------------------------------------------------


class _Views:
    """The attributes and the graph, whole or with random parts dropped."""

    def __init__(self, x: Attributes, graph: Graph, device: torch.device) -> None:
        edges = sp.csr_array(graph.adjacency - sp.diags_array(graph.adjacency.diagonal()))
        edges.eliminate_zeros()
        edges.data = np.ones_like(edges.data)
        self.edges = _Pattern(edges, device)
        self.adjacency = self.edges.filled(self.edges.values)
        degree = np.diff(edges.indptr).astype(np.float32)
        self.degree = torch.from_numpy(degree).to(device)[:, None]
        self.n_columns = x.shape[1]
        self.attributes: Callable[..., Any]
        if sp.issparse(x):
            self.pattern = _Pattern(x, device)
            self.attributes = self._sparse_attributes
        else:
            self.x = input_matrix(x, device)
            self.attributes = self._dense_attributes

    def _dense_attributes(self, dropout: float, columns: Tensor | None = None) -> Any:
        x = self.x if columns is None else self.x * columns  # type: ignore[operator]
        return F.dropout(x, dropout)  # type: ignore[arg-type]

    def _sparse_attributes(self, dropout: float, columns: Tensor | None = None) -> Any:
        # Dropping zeros changes nothing, so only the stored values are drawn.
        values = self.pattern.values
        if columns is not None:
            values = values * columns[self.pattern.indices]
        return self.pattern.filled(F.dropout(values, dropout))

    def column_mask(self, dropout: float) -> Tensor:
        """1 for the columns that stay; each goes with probability `dropout`."""
        return (torch.rand(self.n_columns, device=self.degree.device) >= dropout).float()

    def edges_left(self, dropout: float) -> SparseMatrix:
        """The graph without the fraction `dropout`, rounded down, of its directed edges."""
        keep = torch.ones_like(self.edges.values)
        n_edges = keep.numel()
        keep[torch.randperm(n_edges, device=keep.device)[: int(dropout * n_edges)]] = 0
        return self.edges.filled(keep)


class _Pattern:
    """Sparse matrix whose values are filled in anew at every step."""

    def __init__(self, matrix: Any, device: torch.device) -> None:
        matrix = matrix.tocsr()
        self.shape: tuple[int, int] = matrix.shape
        entries = np.arange(matrix.nnz, dtype=np.int64)
        places = sp.csr_array((entries, matrix.indices, matrix.indptr), shape=matrix.shape)
        transposed = places.T.tocsr()
        self.order = torch.from_numpy(transposed.data).to(device)
        self.csr = sparse_tensor(matrix, device)
        self.transposed = sparse_tensor(transposed, device)
        self.values, self.indices = self.csr.values(), self.csr.col_indices()

    def filled(self, values: Tensor) -> SparseMatrix:
        """The matrix with these values, in row order."""
        matrix = object.__new__(SparseMatrix)
        matrix.shape = self.shape
        matrix.forward = _refilled(self.csr, values)
        matrix.transposed = _refilled(self.transposed, values[self.order])
        return matrix


def _refilled(csr: Tensor, values: Tensor) -> Tensor:
    return torch.sparse_csr_tensor(
        csr.crow_indices(), csr.col_indices(), values, size=csr.shape, check_invariants=False
    )
