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

from ._operators import (
    Projections,
    edge_error,
    gram_error,
    norm_softplus,
    orthonormal,
    sampled_error,
    softplus,
    two_layers,
    weighted_projections,
)
from ._ranks import ALONE, Ranks
from ._torch import SparseMatrix

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
    padded: Tensor | None = None

    @classmethod
    def from_padded(cls, padded: Tensor, sparse: SparseMatrix | None = None) -> FeatureRows:
        """From a dense part that has a column of ones at its end already."""
        return cls(padded[:, :-1], sparse, padded)

    def __len__(self) -> int:
        part = self.dense if self.dense is not None else self.sparse
        assert part is not None
        return int(part.shape[0])

    @cached_property
    def _whole(self) -> Tensor:
        """All inputs as a dense matrix."""
        parts = [] if self.sparse is None else [self.sparse.forward.to_dense()]
        return torch.cat([*parts, *([] if self.dense is None else [self.dense])], 1)

    @cached_property
    def with_ones(self) -> Tensor:
        """The dense part with a column of ones, by which a bias is a row of the weight."""
        if self.padded is not None:
            return self.padded
        if self.dense is None:
            assert self.sparse is not None
            like = self.sparse.forward
            return torch.ones(len(self), 1, dtype=like.dtype, device=like.device)
        return torch.cat([self.dense, self.dense.new_ones(len(self), 1)], 1)

    def squared_error(
        self, hidden: Tensor, weight: Tensor, bias: Tensor, sample: Tensor | None = None
    ) -> Tensor:
        """Sum of squares of ``hidden @ weight.T + bias - inputs``, over all entries.

        Only the leading inputs count where `weight` (d, h) has fewer rows than there are. With a
        `sample` of rows it is an unbiased estimate for sparse inputs, :func:`sampled_error`.
        """
        if self.sparse is None or (sample is None and self._plain_is_cheaper(hidden.shape[1])):
            target = self._whole[:, : len(weight)]
            return F.mse_loss(torch.addmm(bias, hidden, weight.T), target, reduction="sum")
        split = self.sparse.shape[1]
        total: Tensor | float = 0.0
        if self.dense is not None and len(weight) > split:
            weight, rest = weight.split([split, len(weight) - split])
            bias, rest_bias = bias.split([split, len(bias) - split])
            total = FeatureRows(self.dense).squared_error(hidden, rest, rest_bias)
        if sample is None:
            return total + gram_error(hidden, weight, bias, self.sparse)
        return total + sampled_error(hidden, weight, bias, self.sparse, sample)

    def _plain_is_cheaper(self, h: int) -> bool:
        assert self.sparse is not None
        n, d = self.sparse.shape
        return 3 * n * d <= 2 * (n + d) * h


class FeatureMap(nn.Module):
    """Two layers with a LeakyReLU between them, d_in -> hidden -> d_f, and the variant's end."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.first = nn.Linear(config.n_inputs, config.hidden)
        # The same values, stored by inputs: sparse products gather the weights of an input.
        self.first.weight = nn.Parameter(self.first.weight.detach().T.contiguous().T)
        self.second = nn.Linear(config.hidden, config.n_features)
        self.norm = (
            nn.BatchNorm1d(config.n_features, affine=False) if config.variant == "paper" else None
        )

    @property
    def layers(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.first.weight, self.first.bias, self.second.weight, self.second.bias

    def end(self, z: Tensor, n: int, total: int, ranks: Ranks) -> Tensor:
        """After the layers; in training the first n rows, `total` over all ranks, give the
        moments."""
        if self.norm is None:
            return F.leaky_relu(z, inplace=True)
        if not self.training:
            return softplus(self.norm(z))
        if total == 1:  # one node has no variance to divide by
            return F.softplus(z)
        y, mean, variance = norm_softplus(z, n, self.norm.eps, total, ranks)
        _keep_moments(self.norm, mean, variance, total)
        return y


@torch.no_grad()
def _keep_moments(norm: nn.BatchNorm1d, mean: Tensor, variance: Tensor, n: int) -> None:
    """Running moments as :class:`torch.nn.BatchNorm1d` keeps them."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    norm.num_batches_tracked.add_(1)
    share: Any = norm.momentum
    if share is None:  # plain average
        share = 1 / norm.num_batches_tracked.to(mean.dtype)
    norm.running_mean.lerp_(mean, share)
    norm.running_var.lerp_(variance * (n / (n - 1)), share)


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

    Pair i goes from row ``pairs[0, i]`` of ``nodes`` to row ``pairs[1, i]`` of ``nodes`` with the
    rows of ``targets``, nodes of which only psi is wanted, below it. ``is_edge`` (m,) is 1 for an
    edge and 0 for a pair without one; the edge loss is the sum of the pairs' losses times
    ``pair_weight`` (m,). ``sample`` are the rows on which zeros of sparse inputs are looked at,
    by default all. ``n_nodes`` is the size of the whole graph; ``statistics`` are estimates of
    the sums over all of it so far, into which this batch enters with the share ``momentum``;
    without them the batch is the whole graph. Over several ranks the batch is the union of theirs,
    of ``n_batch`` nodes in all, of which this rank's begin at ``start``; targets of pairs are then
    positions in that union, sources still in ``nodes``.
    """

    nodes: FeatureRows
    pairs: Tensor
    is_edge: Tensor
    pair_weight: Tensor
    n_nodes: int
    targets: FeatureRows | None = None
    sample: Tensor | None = None
    statistics: Statistics | None = None
    momentum: float = 1.0
    n_batch: int | None = None
    start: int = 0


class Output(NamedTuple):
    e: Tensor
    r: Tensor
    losses: dict[str, Tensor]
    statistics: Statistics


class HeNClerNet(nn.Module):
    """Feature maps, projections and decoders; ``forward`` gives e, r and the named losses."""

    running: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.ranks = ALONE
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
            u, v = orthonormal(torch.stack([self.u, self.v]))
            return u, v
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
        return self._features(x, None, len(x), ALONE)

    def layers(self, x: FeatureRows) -> tuple[Tensor, ...]:
        """Values of both maps before their end; of a shared map once."""
        if self.config.shared_map:
            return two_layers(x, self.phi.layers)
        return two_layers(x, self.phi.layers, self.psi.layers)

    def _features(
        self, x: FeatureRows, targets: FeatureRows | None, total: int, ranks: Ranks
    ) -> tuple[Tensor, Tensor]:
        """phi of some nodes, and psi of them and, below, of further ones."""
        n = len(x)
        into_phi, *rest = self.layers(x)
        if self.config.shared_map and targets is None:
            phi = self.phi.end(into_phi, n, total, ranks)
            return phi, phi
        into_psi = rest[0] if rest else into_phi.clone()
        if targets is not None:
            into_psi = torch.cat([into_psi, *two_layers(targets, self.psi.layers)])
        return self.phi.end(into_phi, n, total, ranks), self.psi.end(into_psi, n, total, ranks)

    @property
    def _agrees(self) -> bool:
        """Whether the loss contains the agreement of phi and psi."""
        return self.config.variant == "paper" and self.config.losses != "reconstruction"

    @property
    def loss_names(self) -> tuple[str, ...]:
        """Names of what a step tells: the loss, then its parts as :meth:`forward` gives them."""
        return "loss", *{
            "all": ("wksvd", "node", "edge"),
            "reconstruction": ("node", "edge"),
            "wksvd": ("wksvd",),
        }[self.config.losses]

    def named_losses(self, values: Tensor) -> dict[str, Tensor]:
        return dict(zip(self.loss_names, values))

    @property
    def epsilon(self) -> float:
        """What is added to every degree."""
        return RELEASED_EPSILON if self.config.variant == "released" else 0.0

    def weights(
        self, phi: Tensor, psi: Tensor, mean_phi: Tensor, mean_psi: Tensor, n: int
    ) -> tuple[Tensor, Tensor]:
        """Random-walk weights 1/D of some nodes, from the means of all n nodes' features."""
        d1, d2 = phi @ (n * mean_psi), psi @ (n * mean_phi)
        return 1 / (d1 + self.epsilon), 1 / (d2 + self.epsilon)

    def running_statistics(self) -> Statistics | None:
        """Estimates over all nodes as the last minibatch left them."""
        running = self.running
        return None if torch.isnan(running[0, 0]) else Statistics(*running)

    def keep_running_statistics(self, statistics: Statistics) -> None:
        self.running.copy_(torch.stack(list(statistics)))

    # --- forward ---------------------------------------------------------------------------

    def forward(self, batch: Batch) -> Output:
        """Over several ranks the losses are this rank's share: their sum is the loss."""
        ranks, n, b = self.ranks, batch.n_nodes, len(batch.nodes)
        total = batch.n_batch or b
        phi, psi = self._features(batch.nodes, batch.targets, total, ranks)
        u, v = self.projections
        p = weighted_projections(
            phi, psi, u, v, n, total, self.epsilon, batch.statistics, batch.momentum, self._agrees,
            ranks,
        )  # fmt: skip
        r = p.r[:b]
        losses: dict[str, Tensor] = {}
        if self.config.losses != "reconstruction":
            losses["wksvd"] = self._wksvd_loss(p, r, u, v, n, total)
        if self.config.losses != "wksvd":
            losses["node"] = self._node_loss(batch, p.e, r, u, v) / total
            if ranks.size > 1:
                everywhere = torch.cat([ranks.gather(r, batch.start, total), p.r[b:]])
            else:
                everywhere = p.r
            losses["edge"] = self._edge_loss(batch, p.e, everywhere, u, v)
        return Output(p.e, r, losses, Statistics(*p[-4:]))

    def _wksvd_loss(
        self, p: Projections, r: Tensor, u: Tensor, v: Tensor, n: int, total: int
    ) -> Tensor:
        r"""Paper: :math:`-\sum_v w_{1v} e_v'\Sigma^{-1}e_v - \sum_v w_{2v} r_v'\Sigma^{-1}r_v
        + \mathrm{Tr}(U'V) + \sum_v\sqrt{w_{1v}w_{2v}}\,\phi_v'\psi_v`.

        Released: :math:`\ell^2`, :math:`\ell = \frac1n\sum_v(w_{1v}\|e_v\|+w_{2v}\|r_v\|)`.
        """
        ranks = self.ranks
        if self.config.variant == "released":
            norms = p.w1 @ p.e.norm(dim=1) + p.w2 @ r.norm(dim=1)
            return (ranks.total(norms) / total).square() / ranks.size
        variance = (p.w1 @ p.e.square() + p.w2 @ r.square()) / self.sigma
        assert p.agreement is not None
        agreement = (p.w1 * p.w2).sqrt() @ p.agreement
        return (n / total) * (agreement - variance.sum()) + (u * v).sum() / ranks.size

    def _node_loss(self, batch: Batch, e: Tensor, r: Tensor, u: Tensor, v: Tensor) -> Tensor:
        """Squared error of the decoder, summed over nodes; its input is [U e_v | V r_v].

        That input has rank 2 s, so that its first layer is one of 2 s columns:
        W [U e | V r] = [W_1 U | W_2 V] [e | r].
        """
        w_phi, w_psi = self.decoder_hidden.weight.split(self.config.n_features, 1)
        weight = torch.cat([w_phi @ u, w_psi @ v], 1)
        hidden = torch.addmm(self.decoder_hidden.bias, torch.cat([e, r], 1), weight.T)
        hidden = F.leaky_relu(hidden, inplace=True)
        out = self.decoder_out
        error = batch.nodes.squared_error(hidden, out.weight, out.bias, batch.sample)
        return error / self.config.n_targets if self.config.variant == "released" else error

    def _edge_loss(self, batch: Batch, e: Tensor, r: Tensor, u: Tensor, v: Tensor) -> Tensor:
        """Binary cross-entropy of sigmoid(e_u' U'V r_v) over the sampled pairs."""
        if self.config.variant == "released":
            # U'V = 0, so that no gradient reaches e and r: none is carried there.
            e, r = e.detach(), r.detach()
        return edge_error(e, r, u, v, batch.pairs, batch.is_edge, batch.pair_weight)
