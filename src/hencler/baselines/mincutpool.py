"""MinCutPool (Bianchi, Grattarola, Alippi, ICML 2020), in sparse form."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval
from torch import Tensor, nn

from .._base import Callback, GraphClusterer
from .._graph import Attributes, Graph
from .._torch import resolve_device, seeded
from ._training import SparseMatrix, attributes_or_links, input_matrix, train
from .coclustering import need_edges, regularised

__all__ = ["MinCutPool", "mincut_loss", "orthogonality_loss"]


class MinCutPool(GraphClusterer):
    r"""Soft clusters S from one graph convolution, trained to cut few edges.

    On the symmetrised graph without self-loops, :math:`\tilde A = D^{-1/2} A D^{-1/2}`,
    :math:`\tilde D = \mathrm{diag}(\tilde A 1)`, rows of X of sum 1:

    .. math::
        H = \mathrm{ELU}(\tilde A X W_1 + X W_2 + b), \qquad S = \mathrm{softmax}(H W_s + b_s)

        L = -\frac{\mathrm{Tr}(S^\top \tilde A S)}{\mathrm{Tr}(S^\top \tilde D S)}
            + \left\| \frac{S^\top S}{\|S^\top S\|_F} - \frac{I}{\sqrt K} \right\|_F

    Parameters
    ----------
    n_clusters : int
    n_channels : int
        Width of H.
    epochs, lr : int, float
        Full-batch steps of Adam. The paper's script takes 10,000 steps of 5e-4, the authors'
        later script steps of 1e-2 until the score on the labels stops to rise; 300 steps of
        1e-2 are what is left of that without labels.
    device : {"auto", "cpu", "cuda", ...}
    callback : callable, optional
        Called after each epoch with an :class:`~hencler._base.Epoch`.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : array of shape (n,)
        The largest entry of each row of S.
    assignment_ : array of shape (n, K)
        S.
    history_ : list of dict
        ``cut``, ``orthogonality`` and their sum ``loss`` per epoch.

    Notes
    -----
    Time O(E K + nnz(X) F + n K^2) per epoch; the pooled graph is not made. Attributes with
    negative values are not divided by their row sums. A graph without attributes is clustered
    by its links, see :func:`attributes_or_links`.

    Examples
    --------
    Two groups of friends:

    >>> import numpy as np
    >>> from hencler import Graph
    >>> from hencler.baselines import MinCutPool
    >>> from hencler.metrics import adjusted_rand_index
    >>> friends = Graph(np.kron(np.eye(2), np.ones((4, 4))))
    >>> labels = MinCutPool(2, epochs=5, device="cpu", random_state=0).fit_predict(friends)
    >>> adjusted_rand_index(labels, [0, 0, 0, 0, 1, 1, 1, 1])
    1.0
    """

    _parameter_constraints = {  # noqa: RUF012
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "n_channels": [Interval(Integral, 1, None, closed="left")],
        "epochs": [Interval(Integral, 1, None, closed="left")],
        "lr": [Interval(Real, 0, None, closed="neither")],
        "device": [str, torch.device],
        "callback": [callable, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_channels: int = 16,
        epochs: int = 300,
        lr: float = 1e-2,
        device: str | torch.device = "auto",
        callback: Callback | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_channels = n_channels
        self.epochs = epochs
        self.lr = lr
        self.device = device
        self.callback = callback
        self.random_state = random_state

    def _fit(self, graph: Graph) -> None:
        need_edges(graph, type(self).__name__)
        device, seed = resolve_device(self.device), self._seed()
        a, _, _ = regularised(undirected_without_loops(graph), 0.0)
        x = input_matrix(of_row_sum_one(attributes_or_links(graph, seed)), device)
        a_tilde = SparseMatrix(a, device)
        d_tilde = torch.from_numpy(np.asarray(a.sum(axis=1))).to(device, torch.float32)
        with seeded(seed, device):
            net = Network(x.shape[1], self.n_channels, self.n_clusters).to(device)

            def step_loss() -> dict[str, Tensor]:
                s = net(x, a_tilde)
                return {
                    "cut": mincut_loss(s, a_tilde, d_tilde),
                    "orthogonality": orthogonality_loss(s),
                }

            def labels() -> NDArray[np.int64]:
                return net(x, a_tilde).argmax(dim=1).cpu().numpy()

            self.history_ = train(
                step_loss,
                net.parameters(),
                epochs=self.epochs,
                lr=self.lr,
                callback=self.callback,
                labels=labels,
            )
        with torch.no_grad():
            self.assignment_: NDArray[np.float32] = net(x, a_tilde).cpu().numpy()
        self.labels_ = self.assignment_.argmax(axis=1).astype(np.int64)


class Network(nn.Module):
    """Skip graph convolution, ELU, softmax layer: (n, d) to S (n, K)."""

    def __init__(self, d: int, n_channels: int, k: int) -> None:
        super().__init__()
        self.neighbours = nn.Parameter(torch.empty(d, n_channels))
        self.own = nn.Parameter(torch.empty(d, n_channels))
        self.bias = nn.Parameter(torch.zeros(n_channels))
        self.assign = nn.Linear(n_channels, k)
        # fan_out of a (d, f) kernel in torch's convention is its input width d.
        nn.init.kaiming_normal_(self.neighbours, mode="fan_out")
        nn.init.kaiming_normal_(self.own, mode="fan_out")
        nn.init.xavier_uniform_(self.assign.weight)
        nn.init.zeros_(self.assign.bias)

    def forward(self, x: Tensor | SparseMatrix, a_tilde: SparseMatrix) -> Tensor:
        h = nn.functional.elu(a_tilde @ (x @ self.neighbours) + x @ self.own + self.bias)
        return torch.softmax(self.assign(h), dim=1)


def mincut_loss(s: Tensor, a_tilde: SparseMatrix, d_tilde: Tensor) -> Tensor:
    """-Tr(S' A S) / Tr(S' D S), from one sparse product: S (n, K), A (n, n), D as (n,)."""
    cut = (s * (a_tilde @ s)).sum()
    return -cut / (d_tilde * s.square().sum(dim=1)).sum()


def orthogonality_loss(s: Tensor) -> Tensor:
    """Distance of S'S and I, each of unit Frobenius norm; S (n, K)."""
    k = s.shape[1]
    ss = s.T @ s
    eye = torch.eye(k, dtype=s.dtype, device=s.device)
    return torch.linalg.norm(ss / torch.linalg.norm(ss) - eye / k**0.5)


def undirected_without_loops(graph: Graph) -> sp.csr_array[Any]:
    """Symmetric adjacency matrix with an empty diagonal."""
    edges = graph.to_undirected().adjacency.tocoo()
    off = edges.row != edges.col
    parts = (edges.data[off], (edges.row[off], edges.col[off]))
    return sp.csr_array(sp.coo_array(parts, shape=edges.shape))


def of_row_sum_one(x: Attributes) -> Attributes:
    """Rows divided by their sums, zero rows left alone; signed attributes as they are."""
    if (x.data if sp.issparse(x) else x).min(initial=0.0) < 0:
        return x
    total = np.asarray(x.sum(axis=1), dtype=np.float64).ravel()
    inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    return sp.diags_array(inverse) @ x if sp.issparse(x) else x * inverse[:, None]
