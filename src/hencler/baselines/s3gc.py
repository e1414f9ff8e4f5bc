"""S3GC: contrast of random walks over a one-layer encoder (Devvrit et al., NeurIPS 2022)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.utils._param_validation import Interval
from torch import Tensor, nn

from .._base import Callback, GraphClusterer
from .._graph import Attributes, Graph, row_blocks
from .._torch import resolve_device, seeded
from ._training import SparseMatrix, attributes_or_links, run_epochs

__all__ = ["S3GC"]

_ALPHA = 0.2
_ALL_ROWS = 50_000
"""Up to this many nodes every step encodes all of them, and Adam moves all rows of J."""
_DENSE_ENTRIES = 1 << 28
"""Entries up to which diffused sparse attributes may be held dense."""


class S3GC(GraphClusterer):
    r"""Scalable self-supervised graph clustering.

    With A the undirected 0/1 adjacency matrix with self-loops, normalised to
    A~ = D^-1/2 A D^-1/2, and J a free table of shape (n, h),

        Z = rownorm(A~ X Theta_1 + S X Theta_2 + b + J),  S = sum_{i<3} 0.2 0.8^i A~^i

    is trained so that the nodes of a walk from s are closer to s than random nodes,

        L = - mean_s p_s / (p_s + q_s),  p_s = sum_{v in walk} exp(z_s' z_v),

    q_s the same sum over as many uniform nodes. KMeans on Z gives the clusters.

    Parameters
    ----------
    n_clusters : int
    dim : int
        h, the width of Z.
    walk_length : int
        Nodes of a walk, its start included.
    walks_per_node : int
        Walks from every node in an epoch.
    batch_size : int
        Start nodes of one step.
    epochs, lr
        Passes over all nodes; learning rate of Adam.
    device : {"auto", "cpu", "cuda"} or torch.device
    callback : callable, optional
        Called after each epoch with an :class:`~hencler._base.Epoch`.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : array of shape (n,)
    embedding_ : array of shape (n, h)
        Z, rows of unit length.
    history_ : list of dict
        The mean loss per epoch.

    Notes
    -----
    The loss costs O(n walks_per_node walk_length h) per epoch. The gradient of J is dense in the
    authors' code: every step moves all n rows, O(n^2 h / batch_size) per epoch. It is done so,
    exactly, up to 50,000 nodes, where one product with the whole table is also cheaper than
    gathering rows. Beyond, a step encodes the rows it touches, and SparseAdam moves only these
    rows of J: linear in n. Edge weights are not used, as in the authors' code.

    Examples
    --------
    >>> from hencler import make_heterophilous_graph
    >>> from hencler.baselines import S3GC
    >>> graph = make_heterophilous_graph(60, 3, random_state=0)
    >>> method = S3GC(3, dim=8, epochs=1, device="cpu", random_state=0).fit(graph)
    >>> method.embedding_.shape, list(method.history_[0])
    ((60, 8), ['contrast', 'loss'])
    """

    _parameter_constraints = {  # noqa: RUF012
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "dim": [Interval(Integral, 1, None, closed="left")],
        "walk_length": [Interval(Integral, 2, None, closed="left")],
        "walks_per_node": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "epochs": [Interval(Integral, 1, None, closed="left")],
        "lr": [Interval(Real, 0, None, closed="neither")],
        "device": [str, torch.device],
        "callback": [callable, None],
        "random_state": ["random_state"],
    }

    embedding_: NDArray[np.float32]
    history_: list[dict[str, float]]

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        dim: int = 256,
        walk_length: int = 5,
        walks_per_node: int = 20,
        batch_size: int = 512,
        epochs: int = 30,
        lr: float = 0.01,
        device: str | torch.device = "auto",
        callback: Callback | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.dim = dim
        self.walk_length = walk_length
        self.walks_per_node = walks_per_node
        self.batch_size = batch_size
        self.epochs = epochs
        self.lr = lr
        self.device = device
        self.callback = callback
        self.random_state = random_state

    def _fit(self, graph: Graph) -> None:
        device, seed = resolve_device(self.device), self._seed()
        adjacency = _with_self_loops(graph)
        x = attributes_or_links(graph, seed)
        with seeded(seed, device):
            encoder: _Encoder = (
                _TableEncoder(adjacency, x, self.dim, device)
                if graph.n_nodes <= _ALL_ROWS
                else _RowEncoder(adjacency, x, self.dim, device)
            )
            walker = _Walker(adjacency, device)

            def labels() -> NDArray[np.int64]:
                return self._cluster(encoder.embedding(), seed)

            optimizers = encoder.optimizers(self.lr)
            self.history_ = run_epochs(
                lambda: {"contrast": self._epoch(encoder, walker, optimizers)},
                epochs=self.epochs,
                callback=self.callback,
                labels=labels,
                device=device,
            )
        with torch.no_grad():
            self.embedding_ = encoder.embedding()
        self.labels_ = self._cluster(self.embedding_, seed)

    def _epoch(
        self, encoder: _Encoder, walker: _Walker, optimizers: list[torch.optim.Optimizer]
    ) -> Tensor:
        total = torch.zeros((), device=encoder.bias.device)
        n, steps = encoder.n, self.walk_length - 1
        for start in torch.randperm(n, device=total.device).split(self.batch_size):
            repeated = start[:, None].expand(-1, self.walks_per_node)
            positive = walker.walk(repeated, steps)
            negative = torch.randint(n, positive.shape, device=total.device)
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=True)
            z, nodes = encoder(start, positive, negative)
            loss = walk_loss(z, *nodes)
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
            total += loss.detach() * (start.numel() / n)
        return total

    def _cluster(self, z: NDArray[np.float32], seed: int) -> NDArray[np.int64]:
        kmeans = KMeans(self.n_clusters, n_init=20, random_state=seed)
        return kmeans.fit_predict(z).astype(np.int64)


def walk_loss(z: Tensor, start: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """- mean over all walks of p / (p + q).

    Parameters
    ----------
    z : (m, h), rows of unit length
    start : (b,) rows of z
    positive, negative : (b, w, l) rows of z
    """
    b, w, l = positive.shape
    others = torch.cat([positive, negative], dim=2).view(b, -1)
    # embedding() rather than z[...]: its backward pass is fast and in a fixed order on CUDA.
    dots = torch.bmm(F.embedding(others, z), F.embedding(start, z)[:, :, None])
    e = dots.view(b, w, 2 * l).exp()
    p, q = e[..., :l].sum(2), e[..., l:].sum(2)
    return -(p / (p + q)).mean()


# --- graph ---------------------------------------------------------------------------------


def _with_self_loops(graph: Graph) -> sp.csr_array[Any]:
    """Undirected 0/1 adjacency matrix with a self-loop at every node."""
    edges = graph.to_undirected().adjacency
    matrix = sp.csr_array(edges + sp.eye_array(graph.n_nodes, format="csr"))
    matrix.data = np.ones_like(matrix.data)
    matrix.sort_indices()
    return matrix


def _normalised(adjacency: sp.csr_array[Any]) -> sp.csr_array[Any]:
    scale = sp.diags_array(1 / np.sqrt(adjacency.sum(axis=1)))
    return sp.csr_array(scale @ adjacency @ scale)


class _Walker:
    """Uniform random walks; every node has a neighbour, if only itself."""

    def __init__(self, adjacency: sp.csr_array[Any], device: torch.device) -> None:
        self.first = torch.from_numpy(adjacency.indptr[:-1].astype(np.int64)).to(device)
        self.degree = torch.from_numpy(np.diff(adjacency.indptr).astype(np.int64)).to(device)
        self.indices = torch.from_numpy(adjacency.indices.astype(np.int64)).to(device)

    def walk(self, start: Tensor, steps: int) -> Tensor:
        """The nodes after `start`, shape (*start.shape, steps)."""
        nodes, v = [], start
        for _ in range(steps):
            degree = self.degree[v]
            u = torch.rand(v.shape, dtype=torch.float64, device=v.device)
            # u < 1, but u * degree may still be rounded to degree.
            step = torch.minimum((u * degree).long(), degree - 1)
            v = self.indices[self.first[v] + step]
            nodes.append(v)
        return torch.stack(nodes, dim=-1)


# --- encoders ------------------------------------------------------------------------------


class _Encoder(nn.Module):
    """Z = rownorm([A~X | SX] Theta + b + J); subclasses say how rows of Z are computed."""

    def __init__(self, n: int, d: int, dim: int, device: torch.device) -> None:
        super().__init__()
        self.n = n
        bound = 1 / np.sqrt(d)
        self.theta = nn.Parameter(torch.empty(2 * d, dim, device=device).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(dim, device=device))
        self.J = nn.Parameter(torch.randn(n, dim, device=device))

    def optimizers(self, lr: float) -> list[torch.optim.Optimizer]:
        raise NotImplementedError

    def forward(self, *nodes: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Rows of Z that hold all of `nodes`, and `nodes` as positions in these rows."""
        raise NotImplementedError

    def embedding(self) -> NDArray[np.float32]:
        """Z, shape (n, dim)."""
        raise NotImplementedError


class _TableEncoder(_Encoder):
    """All rows at every step, with the products in the cheaper order.

    Sparse attributes: A~ and S act on X Theta, O(nnz(X) + nnz(A)) numbers read instead of the
    n d of the diffused attributes. Otherwise A~X and SX are computed once.
    """

    def __init__(
        self, adjacency: sp.csr_array[Any], x: Attributes, dim: int, device: torch.device
    ) -> None:
        n, d = x.shape
        super().__init__(n, d, dim, device)
        self.dim = dim
        # A sparse product reads numbers several times slower than a dense one.
        self.lazy = sp.issparse(x) and 4 * (x.nnz + adjacency.nnz) < n * d
        if self.lazy:
            self.x = SparseMatrix(x, device)
            self.walk = SparseMatrix(_normalised(adjacency), device)
        else:
            self.inputs = _dense_tensor(diffused(adjacency, x), device)

    def optimizers(self, lr: float) -> list[torch.optim.Optimizer]:
        return [torch.optim.Adam(self.parameters(), lr=lr)]

    def forward(self, *nodes: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        return F.normalize(self._product() + self.bias + self.J), nodes

    def _product(self) -> Tensor:
        if not self.lazy:
            return self.inputs @ self.theta
        d = self.x.shape[1]
        y_1, y_2 = (self.x @ torch.cat([self.theta[:d], self.theta[d:]], 1)).split(self.dim, 1)
        beta = 1 - _ALPHA
        # A~ y_1 + S y_2, by Horner's rule
        inner = y_1 + _ALPHA * beta * (y_2 + beta * (self.walk @ y_2.contiguous()))
        return self.walk @ inner + _ALPHA * y_2

    def embedding(self) -> NDArray[np.float32]:
        return self.forward()[0].cpu().numpy()


class _RowEncoder(_Encoder):
    """Only the rows a step touches; the gradient of J is sparse."""

    def __init__(
        self, adjacency: sp.csr_array[Any], x: Attributes, dim: int, device: torch.device
    ) -> None:
        n, d = x.shape
        super().__init__(n, d, dim, device)
        inputs = diffused(adjacency, x)
        self.sparse = sp.issparse(inputs)
        if self.sparse:
            self.first, self.columns = (
                torch.from_numpy(a.astype(np.int64)).to(device)
                for a in (inputs.indptr, inputs.indices)
            )
            self.values = torch.from_numpy(inputs.data.astype(np.float32)).to(device)
        else:
            self.inputs = _dense_tensor(inputs, device)

    def optimizers(self, lr: float) -> list[torch.optim.Optimizer]:
        return [
            torch.optim.Adam([self.theta, self.bias], lr=lr),
            torch.optim.SparseAdam([self.J], lr=lr),
        ]

    def forward(self, *nodes: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        rows, inverse = torch.cat([v.reshape(-1) for v in nodes]).unique(return_inverse=True)
        positions = inverse.split([v.numel() for v in nodes])
        return self.encode(rows), tuple(p.view(v.shape) for p, v in zip(positions, nodes))

    def encode(self, rows: Tensor) -> Tensor:
        """The given rows of Z."""
        product = self._sparse_rows(rows) if self.sparse else self.inputs[rows] @ self.theta
        return F.normalize(product + self.bias + F.embedding(rows, self.J, sparse=True))

    def _sparse_rows(self, rows: Tensor) -> Tensor:
        first = self.first[rows]
        length = self.first[rows + 1] - first
        offsets = length.cumsum(0) - length
        shift = torch.repeat_interleave(first - offsets, length)
        entries = shift + torch.arange(shift.numel(), device=rows.device)
        return F.embedding_bag(
            self.columns[entries],
            self.theta,
            offsets,
            mode="sum",
            per_sample_weights=self.values[entries],
        )

    def embedding(self) -> NDArray[np.float32]:
        rows = torch.arange(self.n, device=self.bias.device)
        blocks = row_blocks(self.n, self.theta.shape[0])
        return np.concatenate([self.encode(rows[block]).cpu().numpy() for block in blocks])


def diffused(adjacency: sp.csr_array[Any], x: Attributes) -> Any:
    """[A~X | SX], shape (n, 2d): an array, or CSR where that is much smaller."""
    walk = _normalised(adjacency)
    ax = walk @ x
    beta = 1 - _ALPHA
    sx = _ALPHA * (x + beta * (ax + beta * (walk @ ax)))
    if not sp.issparse(x):
        return np.hstack([ax, sx])
    both = sp.hstack([ax, sx], format="csr")
    n, d = both.shape
    small = n * d <= _DENSE_ENTRIES and 20 * both.nnz > n * d
    return both.toarray() if small else both


def _dense_tensor(x: Any, device: torch.device) -> Tensor:
    x = x.toarray() if sp.issparse(x) else x
    return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)).to(device)
