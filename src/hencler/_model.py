r"""The network: two feature maps, projections, singular values, decoders and their losses.

With inputs :math:`x_v`, the maps give :math:`\phi_v, \psi_v \in R^{d_f}`, the similarity
:math:`S = \Phi\Psi'` (never formed), its degrees :math:`D_1 = S1`, :math:`D_2 = S'1` and the
projections :math:`e_v = U'\phi_v`, :math:`r_v = V'\psi_v \in R^s` of the centred features.

Two variants share this file. ``"paper"`` is the text of the paper with the least change that
makes it well defined; ``"released"`` behaves as the code its authors published:

==================  ====================================  ==================================
part                paper                                 released
==================  ====================================  ==================================
end of the maps     batch norm, then softplus (1)         LeakyReLU, no batch norm
U, V                orthonormal each (2)                  columns of one orthonormal matrix
Sigma               softmax with a floor, trace 1 (3)     none
wKSVD term          as printed                            squared mean of weighted norms
node loss           mean over nodes of squared norms,     mean over entries, of the attributes
                    of the attributes                     and the positional encoding
edge loss           learns                                ln 2 for ever, since U'V = 0
==================  ====================================  ==================================

(1) Batch norm makes the column sums of the features zero, hence all degrees zero and the
weights 1/D undefined; features that are positive make every degree positive. The norm has no scale
and shift of its own: with them, phi could grow against psi and the loss fall without bound.
(2) The printed loss is unbounded below in free U and V.
(3) The condition in the text, Tr(Sigma^-1/2) = 1 with entries below 1, cannot hold, and the
loss is unbounded below as an entry of Sigma goes to 0.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ._torch import SparseMatrix
from ._wksvd import weighted_mean

__all__ = [
    "Batch",
    "FeatureRows",
    "HeNClerNet",
    "Losses",
    "ModelConfig",
    "Output",
    "Statistics",
    "Variant",
]

SIGMA_FLOOR = 0.1
"""Share of Tr(Sigma) = 1 that is spread evenly, which bounds Sigma^-1 by s / SIGMA_FLOOR."""

RELEASED_EPSILON = 1e-5
"""What the released code adds to every degree."""

Variant = Literal["paper", "released"]
Losses = Literal["all", "reconstruction", "wksvd"]


@dataclass(frozen=True)
class ModelConfig:
    """Shapes and switches of the network.

    Attributes
    ----------
    n_sparse, n_dense : columns of the sparse and the dense part of the input
    n_encoding : how many of the dense columns are a positional encoding, at their end
    n_components : s
    hidden, n_features : widths of the maps, 256 and 128 in the paper
    shared_map : one map for both sides (the paper's "undirected" ablation)
    losses : which terms are trained (the paper's other ablations)
    """

    n_sparse: int
    n_dense: int
    n_encoding: int
    n_components: int
    hidden: int = 256
    n_features: int = 128
    variant: Variant = "paper"
    shared_map: bool = False
    losses: Losses = "all"

    @property
    def n_inputs(self) -> int:
        return self.n_sparse + self.n_dense

    @property
    def n_targets(self) -> int:
        """Columns the node decoder gives back: the released code decodes the encoding too."""
        return self.n_inputs if self.variant == "released" else self.n_inputs - self.n_encoding

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class FeatureRows:
    """Inputs of some nodes, shape (b, n_sparse + n_dense): a CSR part, then a dense part."""

    dense: Tensor | None = None
    sparse: SparseMatrix | None = None

    def __len__(self) -> int:
        part = self.dense if self.dense is not None else self.sparse
        assert part is not None
        return int(part.shape[0])

    @cached_property
    def _whole(self) -> Tensor:
        """All inputs as a dense matrix."""
        parts = [] if self.sparse is None else [self.sparse.forward.to_dense()]
        return torch.cat([*parts, *([] if self.dense is None else [self.dense])], 1)

    def times(self, weight: Tensor) -> Tensor:
        """Inputs times a weight of shape (n_sparse + n_dense, m)."""
        if self.sparse is None:
            assert self.dense is not None
            return self.dense @ weight
        split = self.sparse.shape[1]
        product = self.sparse @ weight[:split]
        if self.dense is not None and self.dense.shape[1]:
            product = product + self.dense @ weight[split:]
        return product

    def squared_error(self, hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        r"""Sum of squares of ``hidden @ weight + bias - inputs``, over all entries.

        For sparse inputs of many nodes it is taken apart, so that nothing of the inputs' dense
        size exists: with :math:`H = [h | 1]` and :math:`W` the weight above the bias,
        :math:`\|HW - X\|^2 = \langle H'H, WW'\rangle - 2\langle H, XW'\rangle + \|X\|^2`.
        """
        if self.sparse is None:
            assert self.dense is not None
            return (hidden @ weight + bias - self.dense[:, : weight.shape[1]]).square().sum()
        n, split = self.sparse.shape
        if n * split <= (n + split) * hidden.shape[1]:  # few nodes: the plain way costs less
            target = self._whole[:, : weight.shape[1]]
            return (hidden @ weight + bias - target).square().sum()
        h = torch.cat([hidden, hidden.new_ones(len(hidden), 1)], 1)
        w = torch.cat([weight, bias[None]], 0)
        w_sparse = w[:, :split]
        cross = self.sparse @ w_sparse.T
        total = (
            ((h.T @ h) * (w_sparse @ w_sparse.T)).sum()
            - 2 * (h * cross).sum()
            + self.sparse.forward.values().square().sum()
        )
        if self.dense is not None and w.shape[1] > split:
            rest = w.shape[1] - split
            total = total + (h @ w[:, split:] - self.dense[:, :rest]).square().sum()
        return total


class FeatureMap(nn.Module):
    """Two layers with a LeakyReLU between them, d_in -> hidden -> d_f, and the variant's end."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.first = nn.Linear(config.n_inputs, config.hidden)
        self.second = nn.Linear(config.hidden, config.n_features)
        self.norm = (
            nn.BatchNorm1d(config.n_features, affine=False) if config.variant == "paper" else None
        )

    def forward(self, x: FeatureRows) -> Tensor:
        z = F.leaky_relu(x.times(self.first.weight.T) + self.first.bias)
        z = self.second(z)
        if self.norm is None:
            return F.leaky_relu(z)
        # A batch of one node has no variance to divide by.
        return F.softplus(self.norm(z) if len(z) > 1 or not self.training else z)


class Statistics(NamedTuple):
    """Sums over all nodes that one node's weights and centring need; d_f numbers each.

    ``mean_phi``, ``mean_psi`` are plain means (times n they are the sums in the degrees);
    ``centre_phi``, ``centre_psi`` the means with weights 1/D.
    """

    mean_phi: Tensor
    mean_psi: Tensor
    centre_phi: Tensor
    centre_psi: Tensor


class Batch(NamedTuple):
    """One step's input: the inputs of some nodes, and sampled pairs of nodes.

    Without ``sources`` and ``targets`` the pairs are positions within ``nodes``; with them,
    pair i is row ``pairs[0, i]`` of ``sources`` and row ``pairs[1, i]`` of ``targets``.
    ``is_edge`` (m,) is 1 for an edge and 0 for a pair without one, ``pair_weight`` (m,) is 0
    for pairs that do not count. ``n_nodes`` is the size of the whole graph; ``statistics``
    are estimates of the sums over all of it so far, into which this batch enters with the share
    ``momentum``; without them the batch is the whole graph.
    """

    nodes: FeatureRows
    pairs: Tensor
    is_edge: Tensor
    pair_weight: Tensor
    n_nodes: int
    sources: FeatureRows | None = None
    targets: FeatureRows | None = None
    statistics: Statistics | None = None
    momentum: float = 1.0


class Output(NamedTuple):
    e: Tensor
    r: Tensor
    losses: dict[str, Tensor]
    statistics: Statistics


def _running(batch: Tensor, old: Tensor | None, share: float) -> Tensor:
    """Value: running estimate; gradient: the batch's, an unbiased one of the whole sum's."""
    if old is None:
        return batch
    return batch + (torch.lerp(old, batch, share) - batch).detach()


def orthonormal(matrix: Tensor) -> Tensor:
    """Orthonormal basis of the columns of a (d, s) matrix, by Cholesky-QR."""
    gram = matrix.T @ matrix
    factor = torch.linalg.cholesky_ex(gram)[0]
    return torch.linalg.solve_triangular(factor, matrix.T, upper=False).T


class HeNClerNet(nn.Module):
    """Feature maps, projections and decoders; ``forward`` gives e, r and the named losses."""

    running: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        d, s = config.n_features, config.n_components
        self.phi = FeatureMap(config)
        self.psi = self.phi if config.shared_map else FeatureMap(config)
        if config.variant == "paper":
            self.u = nn.Parameter(nn.init.orthogonal_(torch.empty(d, s)))
            self.v = nn.Parameter(nn.init.orthogonal_(torch.empty(d, s)))
            self.sigma_logits = nn.Parameter(torch.zeros(s))
            latent = 2 * s
        else:
            # Rows of one matrix with orthonormal rows, kept so by the optimiser.
            self.stiefel = nn.Parameter(nn.init.orthogonal_(torch.empty(2 * s, d)))
            latent = 2 * d
        width = max(1, (latent + config.n_inputs) // 2)
        self.decoder_hidden = nn.Linear(2 * d, width)
        self.decoder_out = nn.Linear(width, config.n_targets)
        # Estimates that minibatches hand on from epoch to epoch; NaN until there are any.
        self.register_buffer("running", torch.full((4, d), torch.nan))

    # --- parts ---------------------------------------------------------------------------

    @property
    def projections(self) -> tuple[Tensor, Tensor]:
        """U and V, shape (d_f, s) each, with orthonormal columns."""
        if self.config.variant == "paper":
            return orthonormal(self.u), orthonormal(self.v)
        s = self.config.n_components
        return self.stiefel[:s].T, self.stiefel[s:].T

    @property
    def sigma(self) -> Tensor:
        """Singular values, shape (s,), in (0, 1) with sum 1; ones for the released variant."""
        s = self.config.n_components
        if self.config.variant == "released":
            return torch.ones(s, device=self.stiefel.device)
        return (1 - SIGMA_FLOOR) * torch.softmax(self.sigma_logits, 0) + SIGMA_FLOOR / s

    def maps(self, x: FeatureRows) -> tuple[Tensor, Tensor]:
        """phi and psi of some nodes, shape (b, d_f) each."""
        phi = self.phi(x)
        return phi, phi if self.config.shared_map else self.psi(x)

    def weights(
        self, phi: Tensor, psi: Tensor, mean_phi: Tensor, mean_psi: Tensor, n: int
    ) -> tuple[Tensor, Tensor]:
        """Random-walk weights 1/D of some nodes, from the means of all n nodes' features."""
        epsilon = RELEASED_EPSILON if self.config.variant == "released" else 0.0
        d1, d2 = phi @ (n * mean_psi), psi @ (n * mean_phi)
        return 1 / (d1 + epsilon), 1 / (d2 + epsilon)

    def running_statistics(self) -> Statistics | None:
        """Estimates over all nodes as the last minibatch left them."""
        running = self.running
        return None if torch.isnan(running[0, 0]) else Statistics(*running)

    def keep_running_statistics(self, statistics: Statistics) -> None:
        self.running.copy_(torch.stack(list(statistics)))

    # --- forward ---------------------------------------------------------------------------

    def forward(self, batch: Batch) -> Output:
        phi, psi = self.maps(batch.nodes)
        n = batch.n_nodes
        old, share = batch.statistics, batch.momentum
        mean_phi = _running(phi.mean(0), None if old is None else old.mean_phi, share)
        mean_psi = _running(psi.mean(0), None if old is None else old.mean_psi, share)
        w1, w2 = self.weights(phi, psi, mean_phi, mean_psi, n)
        at_phi = _running(weighted_mean(phi, w1), None if old is None else old.centre_phi, share)
        at_psi = _running(weighted_mean(psi, w2), None if old is None else old.centre_psi, share)
        phi_c, psi_c = phi - at_phi, psi - at_psi
        u, v = self.projections
        e, r = phi_c @ u, psi_c @ v

        losses: dict[str, Tensor] = {}
        if self.config.losses != "reconstruction":
            losses["wksvd"] = self._wksvd_loss(phi_c, psi_c, e, r, w1, w2, n / len(phi))
        if self.config.losses != "wksvd":
            losses["node"] = self._node_loss(batch.nodes, e @ u.T, r @ v.T)
            if batch.sources is not None and batch.targets is not None:
                edge_e = (self.phi(batch.sources) - at_phi) @ u
                edge_r = (self.psi(batch.targets) - at_psi) @ v
            else:
                edge_e, edge_r = e, r
            losses["edge"] = self._edge_loss(batch, edge_e, edge_r, u, v)
        return Output(e, r, losses, Statistics(mean_phi, mean_psi, at_phi, at_psi))

    def _wksvd_loss(
        self,
        phi: Tensor,
        psi: Tensor,
        e: Tensor,
        r: Tensor,
        w1: Tensor,
        w2: Tensor,
        scale: float,
    ) -> Tensor:
        r"""Paper: :math:`-\sum_v w_{1v} e_v'\Sigma^{-1}e_v - \sum_v w_{2v} r_v'\Sigma^{-1}r_v
        + \mathrm{Tr}(U'V) + \sum_v\sqrt{w_{1v}w_{2v}}\,\phi_v'\psi_v`.

        Released: :math:`\ell^2`, :math:`\ell = \frac1n\sum_v(w_{1v}\|e_v\|+w_{2v}\|r_v\|)`.
        """
        if self.config.variant == "released":
            return (w1 * e.norm(dim=1) + w2 * r.norm(dim=1)).mean().square()
        sigma = self.sigma
        u, v = self.projections
        variance = (w1 @ e.square() + w2 @ r.square()) / sigma
        agreement = (w1 * w2).sqrt() @ (phi * psi).sum(1)
        return scale * (agreement - variance.sum()) + (u * v).sum()

    def _node_loss(self, nodes: FeatureRows, phi_hat: Tensor, psi_hat: Tensor) -> Tensor:
        hidden = F.leaky_relu(self.decoder_hidden(torch.cat([phi_hat, psi_hat], 1)))
        out = self.decoder_out
        error = nodes.squared_error(hidden, out.weight.T, out.bias) / len(nodes)
        return error / self.config.n_targets if self.config.variant == "released" else error

    def _edge_loss(self, batch: Batch, e: Tensor, r: Tensor, u: Tensor, v: Tensor) -> Tensor:
        """Binary cross-entropy of sigmoid(e_u' U'V r_v) over the sampled pairs."""
        source, target = batch.pairs
        logits = ((e @ (u.T @ v))[source] * r[target]).sum(1)
        each = F.binary_cross_entropy_with_logits(logits, batch.is_edge, reduction="none")
        return (each * batch.pair_weight).sum() / batch.pair_weight.sum().clamp(min=1.0)
