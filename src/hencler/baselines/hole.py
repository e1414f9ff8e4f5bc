"""HoLe: an auto-encoder that rewires its graph towards homophily (Gu et al., CIKM 2023)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.preprocessing import normalize
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor, nn

from .._base import Callback, Epoch, GraphClusterer
from .._graph import Attributes, Graph
from .._torch import resolve_device, seeded
from ._training import (
    SparseMatrix,
    as_floats,
    attributes_or_links,
    input_matrix,
    need_two_nodes,
    without_trace,
)

__all__ = ["HoLe"]

_BLOCK = 512
"""Rows of an n x n matrix that exist at one time."""
_EDGE_BLOCK = 1 << 18
"""Edges whose inner products are computed at one time."""

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "sigmoid": torch.sigmoid,
}


class HoLe(GraphClusterer):
    r"""Homophily-enhanced structure learning for graph clustering.

    X_s = H^t X with H = I/3 + 2/3 D^-1/2 (A + I) D^-1/2; one linear layer, each row scaled to
    [0, 1] and then to unit length, gives Z. Warm-up trains L_rec + kappa L_fd, the clustering
    phases L_rec + KL(P|Q)/n + kappa L_con with the centres mu in Q; between phases the graph is
    rewired by :func:`rewired`, and H, X_s and the target of L_rec with it. The clusters are
    argmax_k Q_ik. The losses: :func:`reconstruction_weights`, :func:`pair_losses`,
    :func:`decorrelation`, :func:`soft_assignment`.

    Parameters
    ----------
    n_clusters : int
    dim : int
        Width of Z.
    hops : int
        t, how often the attributes are smoothed.
    warmup_epochs, epochs : int
        Epochs of the warm-up, and of each clustering phase.
    rounds : int
        Rewirings, each followed by a clustering phase; one such phase precedes the first.
    update_every : int
        Epochs between refreshments of the target P.
    node_ratio : float
        Part of each cluster, the surest nodes, between which edges are added.
    add_ratio, delete_ratio : float
        Edges added and deleted, relative to those there are.
    kappa : float
        Weight of L_fd and L_con.
    activation : {"identity", "sigmoid"}
        rho, applied to inner products before the losses.
    binarize : bool
        Attributes as 0/1 (the authors' choice for cora and pubmed) instead of rows of unit length.
    reset : bool
        A fresh layer after every round (the authors' choice for citeseer).
    lr : float
        Of Adam.
    pair_nodes : int
        The sums over all pairs are exact in a graph of up to this many nodes. In a larger one they
        are estimated, without bias, from the pairs of so many nodes drawn at each epoch.
    device : {"auto", "cpu", "cuda"} or torch.device
    callback : callable, optional
        Called after each epoch with an :class:`~hencler._base.Epoch`.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : array of shape (n,)
    embedding_ : array of shape (n, dim)
        Z.
    adjacency_ : CSR matrix of shape (n, n)
        The graph after the last rewiring.
    history_ : list of dict
        The weighted terms of the loss per epoch, the warm-up's first.

    Notes
    -----
    Time per epoch is O(n^2 dim), memory O(n dim): n x n matrices exist 512 rows at a time. As in
    the authors' code, embeddings use the weights kept at the lowest L_rec of the present phase, and
    the centres are the present ones. Directions and weights of edges and self-loops are not used.
    The defaults are the authors' for ACM, with five rounds.

    Examples
    --------
    >>> from hencler import make_heterophilous_graph
    >>> from hencler.baselines import HoLe
    >>> graph = make_heterophilous_graph(60, 3, random_state=0)
    >>> method = HoLe(
    ...     3, dim=8, warmup_epochs=1, epochs=1, rounds=1, device="cpu", random_state=0
    ... ).fit(graph)
    >>> before, after = graph.to_undirected().adjacency.nnz, method.adjacency_.nnz
    >>> after > before
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "dim": [Interval(Integral, 2, None, closed="left")],
        "hops": [Interval(Integral, 0, None, closed="left")],
        "warmup_epochs": [Interval(Integral, 1, None, closed="left")],
        "epochs": [Interval(Integral, 1, None, closed="left")],
        "rounds": [Interval(Integral, 0, None, closed="left")],
        "update_every": [Interval(Integral, 1, None, closed="left")],
        "node_ratio": [Interval(Real, 0, 1, closed="both")],
        "add_ratio": [Interval(Real, 0, None, closed="left")],
        "delete_ratio": [Interval(Real, 0, 1, closed="both")],
        "kappa": [Interval(Real, 0, None, closed="left")],
        "activation": [StrOptions(set(_ACTIVATIONS))],
        "binarize": ["boolean"],
        "reset": ["boolean"],
        "lr": [Interval(Real, 0, None, closed="neither")],
        "pair_nodes": [Interval(Integral, 2, None, closed="left")],
        "device": [str, torch.device],
        "callback": [callable, None],
        "random_state": ["random_state"],
    }

    embedding_: NDArray[np.float32]
    adjacency_: sp.csr_array[Any]
    history_: list[dict[str, float]]

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        dim: int = 500,
        hops: int = 3,
        warmup_epochs: int = 200,
        epochs: int = 150,
        rounds: int = 5,
        update_every: int = 40,
        node_ratio: float = 0.3,
        add_ratio: float = 0.5,
        delete_ratio: float = 0.005,
        kappa: float = 0.0,
        activation: str = "identity",
        binarize: bool = False,
        reset: bool = False,
        lr: float = 1e-3,
        pair_nodes: int = 50_000,
        device: str | torch.device = "auto",
        callback: Callback | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.dim = dim
        self.hops = hops
        self.warmup_epochs = warmup_epochs
        self.epochs = epochs
        self.rounds = rounds
        self.update_every = update_every
        self.node_ratio = node_ratio
        self.add_ratio = add_ratio
        self.delete_ratio = delete_ratio
        self.kappa = kappa
        self.activation = activation
        self.binarize = binarize
        self.reset = reset
        self.lr = lr
        self.pair_nodes = pair_nodes
        self.device = device
        self.callback = callback
        self.random_state = random_state

    def _fit(self, graph: Graph) -> None:
        need_two_nodes(graph, "HoLe")
        device, seed = resolve_device(self.device), self._seed()
        x = attributes_or_links(graph, seed)
        x = (x > 0).astype(np.float32) if self.binarize else normalize(x)
        original = adjacency = _simple(graph)
        self.history_ = []
        with seeded(seed, device):
            state = _State(self, x, seed, device)
            state.structure = _Structure(adjacency, x, self.hops, device)
            self._warm_up(state)
            self._clustering_phase(state)
            for number in range(1, self.rounds + 1):
                z, q = state.assignment()
                ratios = self._ratios(number)
                adjacency = rewired(adjacency, original, z, q, *ratios)
                state.structure = _Structure(adjacency, x, self.hops, device)
                self._clustering_phase(state)
                if self.reset and number < self.rounds:
                    state.reset()
            z, q = state.assignment()
        self.adjacency_ = adjacency
        self.embedding_ = z.cpu().numpy()
        self.labels_ = q.argmax(1).cpu().numpy()

    def _ratios(self, number: int) -> tuple[float, float, float]:
        """Parts of nodes kept, edges added, edges deleted in the round of this number."""
        fade = 1 - 0.05 * number
        return (
            min(1.0, self.node_ratio + 0.01 * number),
            self.add_ratio * (1 + number),
            self.delete_ratio * (fade if fade > 0 else 0.05),
        )

    def _warm_up(self, state: _State) -> None:
        for _ in range(self.warmup_epochs):
            z = state.encode()
            loss, terms = self._pair_losses(state, z)
            if self.kappa > 0:
                terms["decorrelation"] = self.kappa * decorrelation(z)
                loss = loss + terms["decorrelation"]
            self._finish_epoch(state, loss, terms)

    def _clustering_phase(self, state: _State) -> None:
        state.place_centres()
        for epoch in range(self.epochs):
            if epoch % self.update_every == 0 or epoch == self.epochs - 1:
                p = target_distribution(state.assignment()[1])
            z = state.encode()
            q = soft_assignment(z, state.centres)
            loss, terms = self._pair_losses(state, z, q)
            terms["clustering"] = F.kl_div(q.log(), p, reduction="batchmean")
            self._finish_epoch(state, loss + terms["clustering"], terms)

    def _pair_losses(
        self, state: _State, z: Tensor, q: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return pair_losses(state.structure, z, q, self.kappa, state.rho, self.pair_nodes)

    def _finish_epoch(self, state: _State, loss: Tensor, terms: dict[str, Tensor]) -> None:
        state.step(loss)
        number = len(self.history_) + 1
        self.history_.append(as_floats(terms, number))
        state.keep_best(self.history_[-1]["reconstruction"])
        if self.callback is not None:
            total = self.warmup_epochs + self.epochs * (1 + self.rounds)
            self.callback(Epoch(number, total, self.history_[-1], state.look))


class _State:
    """Weights, centres, their optimiser, and the weights kept as the best of a phase."""

    structure: _Structure
    centres: Tensor

    def __init__(self, params: HoLe, x: Attributes, seed: int, device: torch.device) -> None:
        self.seed, self.n_clusters, self.lr = seed, params.n_clusters, params.lr
        self.rho = _ACTIVATIONS[params.activation]
        self.layer = nn.Linear(x.shape[1], params.dim).to(device)
        self.centres = nn.Parameter(torch.zeros(params.n_clusters, params.dim, device=device))
        self.has_centres = False
        self.optimizer = self._new_optimizer()
        self.best_loss = math.inf
        self.best = self._copy()
        self.look = without_trace(self._labels, device)

    def _new_optimizer(self) -> torch.optim.Adam:
        return torch.optim.Adam([*self.layer.parameters(), self.centres], lr=self.lr)

    def _copy(self) -> tuple[Tensor, Tensor]:
        weight, bias = self.layer.weight, self.layer.bias
        return weight.detach().clone(), bias.detach().clone()

    def reset(self) -> None:
        """A fresh layer and optimiser; the best weights stay until the next phase beats them."""
        self.layer.reset_parameters()
        self.optimizer = self._new_optimizer()

    def encode(self) -> Tensor:
        """Z at the present weights."""
        return scaled(self.structure.project(self.layer.weight) + self.layer.bias)

    def step(self, loss: Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def keep_best(self, reconstruction: float) -> None:
        if reconstruction < self.best_loss:
            self.best_loss, self.best = reconstruction, self._copy()

    @torch.no_grad()
    def embedding(self) -> Tensor:
        """Z at the best weights."""
        weight, bias = self.best
        return scaled(self.structure.project(weight) + bias)

    @torch.no_grad()
    def assignment(self) -> tuple[Tensor, Tensor]:
        """Z at the best weights, and its Q."""
        z = self.embedding()
        return z, soft_assignment(z, self.centres)

    def _kmeans(self, z: Tensor) -> KMeans:
        kmeans = KMeans(self.n_clusters, n_init=20, random_state=self.seed)
        return kmeans.fit(z.cpu().numpy())

    @torch.no_grad()
    def place_centres(self) -> None:
        """Begin a phase: centres from KMeans, and the search for its best weights."""
        centres = self._kmeans(self.embedding()).cluster_centers_
        self.centres.copy_(torch.from_numpy(centres))
        self.has_centres, self.best_loss = True, math.inf

    def _labels(self) -> NDArray[np.int64]:
        if self.has_centres:
            labels: NDArray[np.int64] = self.assignment()[1].argmax(1).cpu().numpy()
            return labels
        return self._kmeans(self.embedding()).labels_.astype(np.int64)


# --- graph ---------------------------------------------------------------------------------


def _simple(graph: Graph) -> sp.csr_array[Any]:
    """Undirected 0/1 adjacency matrix without self-loops."""
    edges = graph.to_undirected().adjacency
    return _from_pairs(np.stack(edges.nonzero()), graph.n_nodes)


def _from_pairs(pairs: NDArray[Any], n: int) -> sp.csr_array[Any]:
    """Symmetric 0/1 matrix with entries (u, v) and (v, u) per pair (2, m), no diagonal."""
    u, v = pairs[:, pairs[0] != pairs[1]]
    index = (np.concatenate([u, v]), np.concatenate([v, u]))
    ones = np.ones(index[0].size, dtype=np.float32)
    matrix = sp.csr_array(sp.coo_array((ones, index), shape=(n, n)))
    matrix.data = np.ones_like(matrix.data)
    return matrix


def smoothing_filter(adjacency: sp.csr_array[Any]) -> sp.csr_array[Any]:
    """H = I/3 + 2/3 D^-1/2 (A + I) D^-1/2."""
    eye = sp.eye_array(adjacency.shape[0], format="csr")
    loops = adjacency + eye
    scale = sp.diags_array(1 / np.sqrt(loops.sum(axis=1)))
    return sp.csr_array(eye / 3 + 2 / 3 * (scale @ loops @ scale))


class _Structure:
    """What the model takes from one graph: smoothed attributes and the target T = H.

    Attributes
    ----------
    edges, values : m entries
        T above its diagonal: where, and what.
    diagonal : (n,)
        The diagonal of T.
    total : float
        The sum of T.
    """

    def __init__(
        self, adjacency: sp.csr_array[Any], x: Attributes, hops: int, device: torch.device
    ) -> None:
        filter_ = smoothing_filter(adjacency)
        self.n = adjacency.shape[0]
        self.total = float(filter_.sum())
        upper = sp.triu(filter_, k=1, format="coo")
        self.values = torch.from_numpy(upper.data.astype(np.float32)).to(device)
        diagonal = filter_.diagonal().astype(np.float32)
        self.diagonal = torch.from_numpy(diagonal).to(device)
        self.edges = _Edges(upper, device)

        self.hops, self.filter = hops, SparseMatrix(filter_, device)
        x_s = input_matrix(x, device)
        # A sparse product reads numbers several times slower than a dense one.
        self.lazy = sp.issparse(x) and 4 * (x.nnz + hops * filter_.nnz) < x.shape[0] * x.shape[1]
        if not self.lazy:
            x_s = x_s.forward.to_dense() if isinstance(x_s, SparseMatrix) else x_s
            x_s = self._smoothed(x_s)
        self.x_s = x_s

    def _smoothed(self, y: Tensor) -> Tensor:
        for _ in range(self.hops):
            y = self.filter @ y
        return y

    def project(self, weight: Tensor) -> Tensor:
        """H^t X W' for W of shape (dim, d), in the cheaper order."""
        product = self.x_s @ weight.T.contiguous()
        return self._smoothed(product) if self.lazy else product


class _Edges:
    """Inner products of the rows of z across edges (u, v), u < v, without n x n or m x dim."""

    def __init__(self, upper: Any, device: torch.device) -> None:
        entries = np.arange(1, upper.nnz + 1, dtype=np.int64)
        numbered = sp.coo_array((entries, (upper.row, upper.col)), shape=upper.shape)
        both = (numbered + numbered.T).tocsr()
        self.shape = upper.shape
        self.u, self.v, self.indptr, self.indices, self.number = (
            torch.from_numpy(a.astype(np.int64)).to(device)
            for a in (upper.row, upper.col, both.indptr, both.indices, both.data - 1)
        )

    def dots(self, z: Tensor) -> Tensor:
        """z_u . z_v per edge, shape (m,), differentiable."""
        dots: Tensor = _EdgeDots.apply(z, self)
        return dots

    def weighted(self, weights: Tensor) -> Tensor:
        """The symmetric matrix (n, n) with these weights on the edges."""
        values = weights[self.number]
        return torch.sparse_csr_tensor(
            self.indptr, self.indices, values, size=self.shape, check_invariants=False
        )


class _EdgeDots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, edges: _Edges) -> Tensor:
        ctx.save_for_backward(z)
        ctx.edges = edges
        return _edge_dots(z, edges.u, edges.v)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (z,) = ctx.saved_tensors
        return ctx.edges.weighted(grads[0]) @ z, None


def _edge_dots(z: Tensor, u: Tensor, v: Tensor) -> Tensor:
    blocks = zip(u.split(_EDGE_BLOCK), v.split(_EDGE_BLOCK))
    return torch.cat([(z[i] * z[j]).sum(1) for i, j in blocks])


# --- losses --------------------------------------------------------------------------------


def scaled(y: Tensor) -> Tensor:
    """Rows scaled to [0, 1], then to unit length."""
    low, high = y.amin(1, keepdim=True), y.amax(1, keepdim=True)
    return F.normalize((y - low) / (high - low).clamp(min=1e-12))


def soft_assignment(z: Tensor, centres: Tensor) -> Tensor:
    """Q_ik ~ 1 / (1 + |z_i - mu_k|^2), rows summing to 1, shape (n, K)."""
    square = (z * z).sum(1, keepdim=True) + (centres * centres).sum(1)
    q = 1 / (1 + (square - 2 * z @ centres.T).clamp(min=0))
    return q / q.sum(1, keepdim=True)


def target_distribution(q: Tensor) -> Tensor:
    """P_ik ~ Q_ik^2 / sum_i Q_ik, rows summing to 1."""
    weight = q * q / q.sum(0)
    return weight / weight.sum(1, keepdim=True)


def decorrelation(z: Tensor) -> Tensor:
    """L_fd: cross-entropy of half the cosines between columns against the identity."""
    columns = F.normalize(z, dim=0)
    return F.cross_entropy(columns.T @ columns / 2, torch.arange(z.shape[1], device=z.device))


def reconstruction_weights(n: int, total: float) -> tuple[float, float]:
    """Weight of the loss n^2 / 2(n^2 - T), and of its positive part (n^2 - T) / T."""
    rest = n * n - total
    return n * n / (2 * rest), rest / total


def pair_losses(
    structure: _Structure,
    z: Tensor,
    q: Tensor | None,
    kappa: float,
    rho: Callable[[Tensor], Tensor],
    pair_nodes: int,
) -> tuple[Tensor, dict[str, Tensor]]:
    """L_rec + kappa L_con, both means over all n^2 pairs, and the values of the two terms.

    With a = rho(z_i.z_j), b = rho(q_i.q_j), target t = T_ij and positive weight w,

        BCE(a, t; w) = softplus(a) + t ((w - 1) softplus(a) - w a),
        BCE(b, a) = softplus(b) - a b:

    only softplus(a) and BCE(b, a) need all pairs; T has n + 2m entries. L_con is left out
    without q or with kappa = 0. Only the first of the results has a gradient.
    """
    n = structure.n
    norm, w = reconstruction_weights(n, structure.total)

    def positive(dots: Tensor) -> Tensor:
        a = rho(dots)
        return (w - 1) * F.softplus(a) - w * a

    def reconstruction(x: Tensor, *_: Tensor) -> Tensor:
        return norm * F.softplus(rho(x))

    def consistency(x: Tensor, y: Tensor) -> Tensor:
        b = rho(y)
        return kappa * (F.softplus(b) - rho(x) * b)

    on_diagonal = (structure.diagonal * positive((z * z).sum(1))).sum()
    on_edges = (structure.values * positive(structure.edges.dots(z))).sum()
    on_target = norm * (on_diagonal + 2 * on_edges)
    terms: list[_Term] = [reconstruction]
    tables = [z]
    if q is not None and kappa > 0:
        terms.append(consistency)
        tables.append(q)
    loss, parts = _sum_over_pairs(terms, tables, pair_nodes)
    values = {"reconstruction": (parts[0] + on_target.detach()) / (n * n)}
    if len(terms) == 2:
        values["consistency"] = parts[1] / (n * n)
    return (loss + on_target) / (n * n), values


_Term = Callable[..., Tensor]
"""Symmetric function of inner products: x_ij = z_i.z_j, y_ij = q_i.q_j, ... -> numbers."""


def _sum_over_pairs(
    terms: Sequence[_Term], tables: Sequence[Tensor], pair_nodes: int
) -> tuple[Tensor, Tensor]:
    """Sum over all n^2 pairs of all terms, and of each term (without a gradient).

    Above `pair_nodes` nodes the n (n - 1) pairs of different nodes are estimated from those of
    `pair_nodes` random ones; the n pairs of a node with itself are always exact.
    """
    n = tables[0].shape[0]
    if n <= pair_nodes:
        result: tuple[Tensor, Tensor] = _PairSum.apply(terms, *tables)
        return result
    drawn = torch.randperm(n, device=tables[0].device)[:pair_nodes]
    sample = [table[drawn] for table in tables]
    total, parts = _PairSum.apply(terms, *sample)
    scale = n * (n - 1) / (pair_nodes * (pair_nodes - 1))
    own = _sum_over_selves(terms, tables) - scale * _sum_over_selves(terms, sample)
    return scale * total + own.sum(), scale * parts + own.detach()


def _sum_over_selves(terms: Sequence[_Term], tables: Sequence[Tensor]) -> Tensor:
    """Sum over the n pairs (i, i), per term."""
    squares = [(table * table).sum(1) for table in tables]
    return torch.stack([term(*squares).sum() for term in terms])


class _PairSum(torch.autograd.Function):
    """Value and gradient in one pass over blocks of rows; only columns j >= the block's first.

    With g_ij the derivative by z_i.z_j, symmetric, the gradient by z_i is 2 sum_j g_ij z_j.
    """

    @staticmethod
    def forward(ctx: Any, terms: Sequence[_Term], *tables: Tensor) -> tuple[Tensor, Tensor]:
        parts = torch.zeros(len(terms), dtype=torch.float64, device=tables[0].device)
        grads = [torch.zeros_like(table) for table in tables]
        for start, stop in _blocks(tables[0].shape[0]):
            b = stop - start
            dots = [table[start:stop] @ table[start:].T for table in tables]
            values, slopes = _values_and_slopes(terms, dots)
            # Columns behind the block's own stand for their mirror images as well.
            parts += torch.stack([v[:, :b].sum() + 2 * v[:, b:].sum() for v in values])
            for table, slope, grad in zip(tables, slopes, grads):
                grad[start:stop] += slope @ table[start:]
                grad[stop:] += slope[:, b:].T @ table[start:stop]
        ctx.save_for_backward(*grads)
        parts = parts.to(tables[0].dtype)
        ctx.mark_non_differentiable(parts)
        return parts.sum(), parts

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return (None, *(2 * upstream[0] * grad for grad in ctx.saved_tensors))


def _values_and_slopes(
    terms: Sequence[_Term], dots: list[Tensor]
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """Each term at every entry, and the derivative of their sum by every entry."""
    with torch.enable_grad():
        leaves = [x.requires_grad_() for x in dots]
        values = [term(*leaves) for term in terms]
        slopes = torch.autograd.grad(torch.stack([v.sum() for v in values]).sum(), leaves)
    return [v.detach() for v in values], slopes


def _blocks(n: int) -> Iterator[tuple[int, int]]:
    for start in range(0, n, _BLOCK):
        yield start, min(start + _BLOCK, n)


# --- rewiring ------------------------------------------------------------------------------


def rewired(
    adjacency: sp.csr_array[Any],
    original: sp.csr_array[Any],
    z: Tensor,
    q: Tensor,
    keep: float,
    add: float,
    delete: float,
) -> sp.csr_array[Any]:
    """The graph with edges added inside clusters and unlikely ones deleted.

    1. Of each cluster argmax_k q_ik the part `keep` with the highest q stays, n_c nodes.
    2. Of their pairs not adjacent in `original`, the ceil(add * sum(original) * n_c / n) with the
       highest z_i.z_j become edges.
    3. Of all E entries (both directions), the ceil(delete * E) - 1 with the lowest z_i.z_j go, with
       their reverses; ceil(delete * E) is at most the number of entries added.
    4. A node without an edge is tied to the node most similar to it, and to the most similar of
       its original neighbours.

    Parameters
    ----------
    adjacency, original : (n, n), symmetric 0/1, no self-loops
    z : (n, dim);  q : (n, K)
    """
    n = adjacency.shape[0]
    sure, clusters = q.max(1)
    pairs = [np.stack(sp.triu(adjacency, k=1).nonzero())]
    for c in range(q.shape[1]):
        nodes = torch.nonzero(clusters == c)[:, 0]
        order = torch.argsort(sure[nodes], descending=True, stable=True)
        nodes = nodes[order[: int(len(nodes) * keep)]]
        count = math.ceil(add * original.nnz * len(nodes) / n)
        pairs.append(_closest_strangers(nodes, original, z, count))
    grown = _from_pairs(np.concatenate(pairs, axis=1), n)
    budget = min(math.ceil(delete * grown.nnz), grown.nnz - adjacency.nnz)
    return _with_ties(_without_weakest(grown, z, budget - 1), original, z)


def _closest_strangers(
    nodes: Tensor, original: sp.csr_array[Any], z: Tensor, count: int
) -> NDArray[np.int64]:
    """The `count` pairs of `nodes` with the highest z_i.z_j that are no edges, shape (2, count)."""
    m = len(nodes)
    index = nodes.cpu().numpy()
    edges = sp.triu(original[index][:, index], k=1, format="csr")
    z = z[nodes]
    top = torch.empty(0, dtype=z.dtype, device=z.device)
    place = torch.empty(0, dtype=torch.int64, device=z.device)
    for start, stop in _blocks(m if count > 0 else 0):
        x = z[start:stop] @ z[start:].T
        first, last = edges.indptr[start], edges.indptr[stop]
        row = np.repeat(np.arange(stop - start), np.diff(edges.indptr[start : stop + 1]))
        column = edges.indices[first:last] - start
        x[_index(row, z), _index(column, z)] = -math.inf
        x[torch.ones_like(x, dtype=torch.bool).tril_()] = -math.inf
        floor = top[-1] if len(top) == count else -math.inf
        i, j = torch.nonzero(x > floor, as_tuple=True)
        top = torch.cat([top, x[i, j]])
        place = torch.cat([place, (i + start) * m + j + start])
        top, best = top.topk(min(count, len(top)))
        place = place[best]
    found: NDArray[np.int64] = torch.stack([nodes[place // m], nodes[place % m]]).cpu().numpy()
    return found


def _index(array: NDArray[Any], like: Tensor) -> Tensor:
    return torch.from_numpy(array.astype(np.int64)).to(like.device)


def _without_weakest(adjacency: sp.csr_array[Any], z: Tensor, entries: int) -> sp.csr_array[Any]:
    """The graph without its `entries` weakest entries and their reverses."""
    if entries <= 0:
        return adjacency
    upper = sp.triu(adjacency, k=1, format="coo")
    # Both entries of an edge are equally weak: an odd one takes its reverse along.
    count = math.ceil(entries / 2)
    dots = _edge_dots(z, _index(upper.row, z), _index(upper.col, z))
    stay = np.ones(upper.nnz, dtype=bool)
    stay[torch.topk(dots, count, largest=False).indices.cpu().numpy()] = False
    return _from_pairs(np.stack([upper.row, upper.col])[:, stay], adjacency.shape[0])


def _with_ties(
    adjacency: sp.csr_array[Any], original: sp.csr_array[Any], z: Tensor
) -> sp.csr_array[Any]:
    """Nodes without an edge tied to the most similar node and original neighbour."""
    n = adjacency.shape[0]
    lonely = np.flatnonzero(np.diff(adjacency.indptr) == 0)
    if lonely.size == 0:
        return adjacency
    pairs = [np.stack(adjacency.nonzero())]
    for start, stop in _blocks(lonely.size):
        nodes = lonely[start:stop]
        row = torch.arange(len(nodes), device=z.device)
        x = z[_index(nodes, z)] @ z.T
        x[row, _index(nodes, z)] = -math.inf
        pairs.append(np.stack([nodes, x.argmax(1).cpu().numpy()]))
        edges = original[nodes].tocoo()
        strangers = torch.ones_like(x, dtype=torch.bool)
        strangers[_index(edges.row, z), _index(edges.col, z)] = False
        x[strangers] = -math.inf
        known = np.flatnonzero(np.diff(original[nodes].indptr))
        pairs.append(np.stack([nodes, x.argmax(1).cpu().numpy()])[:, known])
    return _from_pairs(np.concatenate(pairs, axis=1), n)
