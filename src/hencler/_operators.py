r"""Operators whose gradient is written by hand, for fewer passes over the nodes than autograd's.

* :func:`two_layers`: the affine layers of both feature maps, the first ones as one product.
* :func:`norm_softplus`: batch norm and softplus of the paper's feature maps.
* :func:`weighted_projections`: degrees, weights, centring and projections of both sides.
* :func:`orthonormal`: orthonormal bases of several matrices' columns.
* :func:`edge_error`: cross-entropy of sampled pairs.
* :func:`gram_error` and :func:`sampled_error`: squared error of a wide sparse target, exactly, or
  from its non-zeros and a sample of rows; nothing of the target's dense size exists.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from ._ranks import ALONE, Ranks
from ._torch import SparseMatrix

__all__ = [
    "BLOCK_ROWS",
    "Projections",
    "edge_error",
    "gram_error",
    "norm_softplus",
    "orthonormal",
    "row_blocks",
    "sampled_error",
    "softplus",
    "two_layers",
    "weighted_projections",
]

BLOCK_ROWS = 512
"""Rows that go through elementwise operations and dense layers at a time on a CPU."""

_SLOPE = 0.01
"""Of the LeakyReLU below 0, as in torch."""

_CHEAP_INPUTS = 32
"""Up to so many inputs, a first layer costs less to compute again than to keep in memory."""

_WIDE, _GRAM_BLOCKS = 256, 6
"""A matrix so wide has its Gram matrix computed in this many parts."""

_LINEAR = 20.0
"""Above this, softplus(z) is z to single precision, and exp(z) may overflow."""


class Inputs(Protocol):
    """Rows X: a sparse part, if any, then a dense one."""

    @property
    def sparse(self) -> SparseMatrix | None: ...

    @property
    def with_ones(self) -> Tensor:
        """The dense part with a column of ones, which makes a bias a weight."""

    def __len__(self) -> int: ...


def two_layers(x: Inputs, *layers: tuple[Tensor, Tensor, Tensor, Tensor]) -> tuple[Tensor, ...]:
    """W_2 leaky(W_1 x + b_1) + b_2 of the same inputs for several networks (W_1, b_1, W_2, b_2).

    Dense inputs are read once, forward and backward: the first layers are one product. The
    layer between them is kept where it cost much, and computed again where it did not. With sparse
    inputs, of which there are many, the weights are what costs; they are used where they lie.
    """
    if x.sparse is not None:
        return tuple(_SparseTwoLayers.apply(x, *layer) for layer in layers)
    return _TwoLayers.apply(x.with_ones, *(tensor for layer in layers for tensor in layer))


class _SparseTwoLayers(Function):
    """W_1 is the transpose of a contiguous matrix, and so is its gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: Inputs, first: Tensor, bias: Tensor, second: Tensor, last: Tensor
    ) -> Tensor:
        assert x.sparse is not None
        split = x.sparse.shape[1]
        hidden = x.sparse.forward @ first.T[:split]
        hidden.addmm_(x.with_ones, torch.cat([first.T[split:], bias[None]]))
        hidden = F.leaky_relu(hidden, _SLOPE, inplace=True)
        ctx.x = x
        ctx.save_for_backward(hidden, second)
        return torch.addmm(last, hidden, second.T)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        hidden, second = ctx.saved_tensors
        sparse, d_hidden = ctx.x.sparse, grad @ second
        torch.ops.aten.leaky_relu_backward.grad_input(
            d_hidden, hidden, _SLOPE, True, grad_input=d_hidden
        )
        split, dense = sparse.shape[1], ctx.x.with_ones
        d_first = grad.new_empty(split + dense.shape[1], hidden.shape[1])
        torch.mm(sparse.transposed, d_hidden, out=d_first[:split])
        torch.mm(dense.T, d_hidden, out=d_first[split:])
        return None, d_first[:-1].T, d_first[-1], grad.T @ hidden, column_sums(grad)


class _TwoLayers(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        first, second, bias = tensors[::4], tensors[2::4], tensors[3::4]
        widths = [len(w) for w in first]
        weight = first[0].new_empty(first[0].shape[1] + 1, sum(widths))
        for part, w, b in zip(weight.split(widths, 1), first, tensors[1::4]):
            part[:-1], part[-1] = w.T, b
        out = tuple(weight.new_empty(len(x), len(w)) for w in second)
        kept = [] if len(weight) <= _CHEAP_INPUTS else [weight.new_empty(len(x), sum(widths))]
        for rows in row_blocks(x):
            hidden = _hidden(x[rows], weight, kept[0][rows] if kept else None)
            for y, h, w, b in zip(out, hidden.split(widths, 1), second, bias):
                torch.addmm(b, h, w.T, out=y[rows])
        ctx.x, ctx.widths = x, widths
        ctx.save_for_backward(weight, *kept, *second)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        x, widths, count = ctx.x, ctx.widths, len(ctx.widths)
        weight, *kept = ctx.saved_tensors[:-count]
        second = ctx.saved_tensors[-count:]
        d_first = torch.zeros_like(weight)
        d_second = [torch.zeros_like(w) for w in second]
        for rows in row_blocks(x):
            hidden = kept[0][rows] if kept else _hidden(x[rows], weight)
            d_hidden = torch.empty_like(hidden)
            parts = zip(grads, second, d_second, hidden.split(widths, 1), d_hidden.split(widths, 1))
            for grad, w, d_w, h, d_h in parts:
                torch.mm(grad[rows], w, out=d_h)
                d_w.addmm_(grad[rows].T, h)
            torch.ops.aten.leaky_relu_backward.grad_input(
                d_hidden, hidden, _SLOPE, True, grad_input=d_hidden
            )
            d_first.addmm_(x[rows].T, d_hidden)
        d_weight, d_bias = d_first[:-1].T.split(widths), d_first[-1].split(widths)
        out: list[Any] = [None]
        for w, b, w_2, grad in zip(d_weight, d_bias, d_second, grads):
            out += [w, b, w_2, column_sums(grad)]
        return tuple(out)


def _hidden(x: Tensor, weight: Tensor, out: Tensor | None = None) -> Tensor:
    return F.leaky_relu(torch.mm(x, weight, out=out), _SLOPE, inplace=True)


def softplus(z: Tensor, out: Tensor | None = None) -> Tensor:
    """log(1 + exp(z)) to 1e-7, without a gradient; several times faster than torch's on a CPU."""
    y = torch.clamp(z, max=_LINEAR, out=out).exp_().add_(1).log_()
    return torch.maximum(z, y, out=y)


def norm_softplus(
    z: Tensor, n: int, eps: float, total: int, ranks: Ranks = ALONE
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Softplus of the columns of z (m, d), normalised by the moments of its first n rows.

    .. math:: y = \log(1 + \exp(\hat z)), \quad \hat z = (z - \mu) / \sqrt{\sigma^2 + \epsilon},
              \quad \mu = \tfrac1n\textstyle\sum_{i<n} z_i,
              \quad \sigma^2 = \tfrac1n\sum_{i<n} (z_i - \mu)^2

    Rows from n on are normalised alike but do not enter the moments. Over several ranks the
    moments are those of the first rows of all, `total` in number. z itself is overwritten.

    Returns
    -------
    y : (m, d), differentiable in z
    mean, variance : (d,), of the first n rows, without a gradient
    """
    _, y, mean, variance = _NormSoftplus.apply(z, n, eps, total, ranks)
    return y, mean, variance


class _NormSoftplus(Function):
    """In place of z, block by block: on a CPU memory, not arithmetic, is what costs."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, n: int, eps: float, total: int, ranks: Ranks
    ) -> tuple[Tensor, ...]:
        ctx.n, ctx.total, ctx.ranks = n, total, ranks
        ctx.set_materialize_grads(False)
        ctx.fused = z.device.type == "cuda" and ranks.size == 1
        if ctx.fused:
            return _NormSoftplus._fused_forward(ctx, z, n, eps)
        blocks = row_blocks(z)
        mean = column_sums(z[:n])
        ranks.sum_(mean)
        mean /= total
        squares = torch.zeros_like(mean)
        for rows in blocks:
            z[rows].sub_(mean)
            squares += column_sums(z[rows.start : min(n, rows.stop)].square())
        ranks.sum_(squares)
        variance = squares / total
        inverse = torch.rsqrt(variance + eps)
        y = torch.empty_like(z)
        for rows in blocks:
            softplus(z[rows].mul_(inverse), out=y[rows])
        ctx.mark_dirty(z)
        ctx.save_for_backward(z, inverse)
        ctx.mark_non_differentiable(mean, variance)
        return z, y, mean, variance

    @staticmethod
    def _fused_forward(ctx: Any, z: Tensor, n: int, eps: float) -> tuple[Tensor, ...]:
        """The same by the kernels of torch's batch norm over several GPUs."""
        mean, inverse = torch.batch_norm_stats(z[:n], eps)
        z_hat = torch.batch_norm_elemt(z, None, None, mean, inverse, eps)
        variance = inverse.pow(-2).sub_(eps)
        ctx.save_for_backward(z_hat, inverse)
        ctx.mark_non_differentiable(z_hat, mean, variance)
        return z_hat, F.softplus(z_hat), mean, variance

    @staticmethod
    def _fused_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        z_hat, inverse = ctx.saved_tensors
        n = ctx.n
        grad = torch.ops.aten.softplus_backward(grad, z_hat, 1, _LINEAR)
        zero, one = torch.zeros_like(inverse), torch.ones_like(inverse)
        shift, along, _, _ = torch.batch_norm_backward_reduce(
            grad, z_hat, zero, one, None, True, False, False
        )
        count = torch.full((1,), n, dtype=torch.int32, device=grad.device)
        d = torch.batch_norm_backward_elemt(
            grad[:n], z_hat[:n], zero, one, inverse, shift, along, count
        )
        if len(grad) > n:
            d = torch.cat([d, grad[n:] * inverse])
        return d, None, None, None, None

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: None, grad: Tensor, *__: None) -> tuple[Any, ...]:
        if ctx.fused:
            return _NormSoftplus._fused_backward(ctx, grad)
        z_hat, inverse = ctx.saved_tensors
        n, blocks, d = ctx.n, row_blocks(z_hat), torch.empty_like(grad)
        shift, along = torch.zeros_like(inverse), torch.zeros_like(inverse)
        for rows in blocks:
            g = torch.sigmoid(z_hat[rows], out=d[rows]).mul_(grad[rows])
            shift += column_sums(g)
            along += column_sums(g * z_hat[rows])
        # What the moments pass on, from all rows to the first n.
        ctx.ranks.sum_(shift, along)
        shift, along = -shift / ctx.total, -along / ctx.total
        for rows in blocks:
            inside = slice(rows.start, min(n, rows.stop))
            d[inside].addcmul_(z_hat[inside], along).add_(shift)
            d[rows].mul_(inverse)
        return d, None, None, None, None


def row_blocks(x: Tensor) -> list[slice]:
    """Rows that are worked on together: on a CPU as many as its cache holds, else all."""
    n = len(x)
    if x.device.type != "cpu":
        return [slice(0, n)]
    return [slice(i, min(n, i + BLOCK_ROWS)) for i in range(0, n, BLOCK_ROWS)]


def column_sums(x: Tensor) -> Tensor:
    """1'x, shape (d,); by a product on a GPU, whose reductions over rows are slow."""
    return x.sum(0) if x.device.type == "cpu" else x.new_ones(len(x)) @ x


class Projections(NamedTuple):
    """What :func:`weighted_projections` gives for b nodes, m - b of them targets only.

    The last four carry no gradient.
    """

    e: Tensor  # (b, s)
    r: Tensor  # (m, s)
    w1: Tensor  # (b,)
    w2: Tensor  # (b,)
    agreement: Tensor | None  # (b,), phi_v'psi_v of centred features, if asked for
    mean_phi: Tensor  # (d,)
    mean_psi: Tensor
    centre_phi: Tensor
    centre_psi: Tensor


def weighted_projections(
    phi: Tensor,
    psi: Tensor,
    u: Tensor,
    v: Tensor,
    n: int,
    total: int,
    epsilon: float,
    running: tuple[Tensor, ...] | None = None,
    share: float = 1.0,
    agree: bool = True,
    ranks: Ranks = ALONE,
) -> Projections:
    r"""Weights of the nodes, and projections of their centred features.

    .. math:: w_{1v} = 1 / (n\,\phi_v'\bar\psi + \epsilon), \quad
              c_\phi = \sum_v w_{1v}\phi_v / \sum_v w_{1v}, \quad e_v = U'(\phi_v - c_\phi)

    and likewise w_2, c_psi, r. phi (b, d); psi (m, d), of which only the first b rows enter the
    sums; U, V (d, s); n nodes in all, `total` of them in the batch, over all ranks.
    `running` are estimates of the means and the centres over
    all nodes, into which this batch enters with its `share`: the value is the new estimate, the
    gradient the batch's, an unbiased one of that of the sum over all nodes.
    """
    return Projections(
        *_WeightedProjections.apply(phi, psi, u, v, n, total, epsilon, running, share, agree, ranks)
    )


class _WeightedProjections(Function):
    @staticmethod
    def forward(
        ctx: Any,
        phi: Tensor,
        psi_all: Tensor,
        u: Tensor,
        v: Tensor,
        n: int,
        total: int,
        epsilon: float,
        running: tuple[Tensor, ...] | None,
        share: float,
        agree: bool,
        ranks: Ranks,
    ) -> tuple[Tensor | None, ...]:
        b = len(phi)
        psi = psi_all[:b]

        def estimate(i: int, value: Tensor) -> Tensor:
            return value if running is None else torch.lerp(running[i], value, share)

        sums = torch.stack([column_sums(phi), column_sums(psi)])
        ranks.sum_(sums)
        mean_phi, mean_psi = estimate(0, sums[0] / total), estimate(1, sums[1] / total)
        w1 = torch.mv(phi, n * mean_psi).add_(epsilon).reciprocal_()
        w2 = torch.mv(psi, n * mean_phi).add_(epsilon).reciprocal_()
        c_phi, c_psi, mass1, mass2 = w1 @ phi, w2 @ psi, w1.sum(), w2.sum()
        ranks.sum_(c_phi, c_psi, mass1, mass2)
        c_phi, c_psi = c_phi / mass1, c_psi / mass2
        at_phi, at_psi = estimate(2, c_phi), estimate(3, c_psi)
        # Centring after the projection: s columns to shift instead of d.
        e, r = torch.addmm(-(at_phi @ u), phi, u), torch.addmm(-(at_psi @ v), psi_all, v)
        agreement = None
        if agree:
            agreement = torch.empty_like(w1)
            for rows in row_blocks(phi):
                torch.sum(phi[rows] * psi[rows], 1, out=agreement[rows])
            agreement += at_phi @ at_psi - phi @ at_psi - psi @ at_phi
        ctx.save_for_backward(
            phi, psi_all, u, v, w1, w2, mass1, mass2, c_phi, c_psi, mean_phi, mean_psi,
            at_phi, at_psi,
        )  # fmt: skip
        ctx.n, ctx.total, ctx.ranks = n, total, ranks
        ctx.mark_non_differentiable(mean_phi, mean_psi, at_phi, at_psi)
        ctx.set_materialize_grads(False)
        return e, r, w1, w2, agreement, mean_phi, mean_psi, at_phi, at_psi

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any,
        g_e: Tensor,
        g_r: Tensor,
        g_w1: Tensor | None,
        g_w2: Tensor | None,
        g_agree: Tensor | None,
        *_: None,
    ) -> tuple[Any, ...]:
        (phi, psi_all, u, v, w1, w2, mass1, mass2, c_phi, c_psi, mean_phi, mean_psi,
         at_phi, at_psi) = ctx.saved_tensors  # fmt: skip
        n, b = ctx.n, len(phi)
        psi = psi_all[:b]
        sum_e, sum_r = column_sums(g_e), column_sums(g_r)
        d_u = torch.addr(phi.T @ g_e, at_phi, sum_e, alpha=-1)
        d_v = torch.addr(psi_all.T @ g_r, at_psi, sum_r, alpha=-1)
        # centres: all rows' e, r and agreement depend on them
        g_c_phi, g_c_psi = -(u @ sum_e), -(v @ sum_r)
        if g_agree is not None:
            g_c_phi += at_psi * g_agree.sum() - g_agree @ psi
            g_c_psi += at_phi * g_agree.sum() - g_agree @ phi
        ctx.ranks.sum_(g_c_phi, g_c_psi)
        # weights, by themselves and through the centres; then degrees, then the means
        through1 = (phi @ g_c_phi - c_phi @ g_c_phi) / mass1
        through2 = (psi @ g_c_psi - c_psi @ g_c_psi) / mass2
        g_w1 = through1 if g_w1 is None else through1 + g_w1
        g_w2 = through2 if g_w2 is None else through2 + g_w2
        g_d1, g_d2 = -w1.square() * g_w1, -w2.square() * g_w2
        g_mean_phi, g_mean_psi = n * (g_d2 @ psi), n * (g_d1 @ phi)
        ctx.ranks.sum_(g_mean_phi, g_mean_psi)
        ones = torch.ones_like(w1)
        on_phi = [(w1, g_c_phi / mass1), (g_d1, n * mean_psi), (ones, g_mean_phi / ctx.total)]
        on_psi = [(w2, g_c_psi / mass2), (g_d2, n * mean_phi), (ones, g_mean_psi / ctx.total)]
        if g_agree is not None:
            on_phi.append((g_agree, -at_psi))
            on_psi.append((g_agree, -at_phi))
        d_phi, d_psi = _and_outer(g_e, u, on_phi), _and_outer(g_r[:b], v, on_psi)
        if g_agree is not None:
            d_phi.addcmul_(g_agree[:, None], psi)
            d_psi.addcmul_(g_agree[:, None], phi)
        if len(g_r) > b:
            d_psi = torch.cat([d_psi, g_r[b:] @ v.T])
        return d_phi, d_psi, d_u, d_v, *[None] * 7


def _and_outer(scores: Tensor, u: Tensor, outer: list[tuple[Tensor, Tensor]]) -> Tensor:
    """scores U' plus outer products of columns (b,) and rows (d,), as one product."""
    columns, rows = zip(*outer)
    return torch.cat([scores, torch.stack(columns, 1)], 1) @ torch.cat([u.T, torch.stack(rows)])


def orthonormal(matrices: Tensor) -> Tensor:
    """Orthonormal bases of the columns of (k, d, s) matrices, by Cholesky-QR."""
    bases: Tensor = _Orthonormal.apply(matrices)
    return bases


class _Orthonormal(Function):
    """M = Q L' with L lower triangular. Without a gradient of L, that of M is

    (G - Q T) L^-1, T symmetric with the lower triangle of G'Q.
    """

    @staticmethod
    def forward(ctx: Any, m: Tensor) -> Tensor:
        factor = torch.linalg.cholesky_ex(m.mT @ m)[0]
        one = torch.eye(m.shape[2], dtype=m.dtype, device=m.device).expand_as(factor)
        inverse = torch.linalg.solve_triangular(factor, one, upper=False)
        q = m @ inverse.mT
        ctx.save_for_backward(q, inverse)
        return q

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        q, inverse = ctx.saved_tensors
        low = (grad.mT @ q).tril_()
        low = low + low.tril(-1).mT
        return torch.baddbmm(grad, q, low, alpha=-1) @ inverse


def edge_error(
    e: Tensor, r: Tensor, u: Tensor, v: Tensor, pairs: Tensor, is_edge: Tensor, weight: Tensor
) -> Tensor:
    r"""Weighted sum over pairs of the cross-entropy of :math:`\sigma(e_a' U'V r_b)`.

    Parameters
    ----------
    e, r : (b, s) and (m, s)
    u, v : U and V, (d, s)
    pairs : (2, p), rows a of e and b of r
    is_edge, weight : (p,)
    """
    total: Tensor = _EdgeError.apply(e, r, u, v, pairs, is_edge, weight)
    return total


def _taken(table: Tensor, rows: Tensor) -> Tensor:
    """Some rows of a narrow table, by whichever of torch's ways is fast there."""
    return F.embedding(rows, table) if table.device.type == "cpu" else table[rows]


class _EdgeError(Function):
    @staticmethod
    def forward(
        ctx: Any,
        e: Tensor,
        r: Tensor,
        u: Tensor,
        v: Tensor,
        pairs: Tensor,
        is_edge: Tensor,
        weight: Tensor,
    ) -> Tensor:
        source, target = pairs
        between = u.T @ v
        start, end = _taken(e @ between, source), _taken(r, target)
        logits = torch.linalg.vecdot(start, end)
        ctx.save_for_backward(
            e, r, u, v, pairs, between, start, end, (logits.sigmoid() - is_edge).mul_(weight)
        )
        # log(1 + exp(l)) - l where there is an edge
        return torch.dot(weight, F.softplus(logits).addcmul_(is_edge, logits, value=-1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        e, r, u, v, (source, target), between, start, end, slope = ctx.saved_tensors
        slope = (slope * grad)[:, None]
        d_start = torch.zeros_like(e).index_add_(0, source, slope * end)
        d_r = None
        if ctx.needs_input_grad[1]:
            d_r = torch.zeros_like(r).index_add_(0, target, slope * start)
        d_e = d_start @ between.T if ctx.needs_input_grad[0] else None
        d_between = e.T @ d_start
        return d_e, d_r, v @ d_between.T, u @ d_between, None, None, None


def sampled_error(
    hidden: Tensor, weight: Tensor, bias: Tensor, target: SparseMatrix, rows: Tensor
) -> Tensor:
    r"""Unbiased estimate of :math:`\|HW' + 1b' - X\|^2` for a sparse target X.

    The square is taken apart, and only what does not vanish on the zeros of X is sampled:

    .. math:: \|HW' + 1b'\|^2 - 2\langle H, XW\rangle - 2\,b'X'1 + \|X\|^2 ,

    where the first term is :math:`\frac{n}{|R|} \|H_R W' + 1b'\|^2` over the rows R. They are
    rows, not columns, since all nodes share the network but each column has weights of its own:
    every column gets its gradient in every step.

    Parameters
    ----------
    hidden : H, (n, h)
    weight, bias : W, (d, h) and b, (d,)
    target : X, (n, d)
    rows : R, positions drawn uniformly from the n, or all of them for the exact value
    """
    total: Tensor = _SampledError.apply(hidden, weight, bias, target, rows)
    return total


def gram_error(hidden: Tensor, weight: Tensor, bias: Tensor, target: SparseMatrix) -> Tensor:
    r""":math:`\|HW' + 1b' - X\|^2` for a sparse target X, exactly, without its dense size:

    .. math:: \langle H'H, W'W\rangle + 2\,(H'1)'(W'b) + n\,b'b
              - 2\langle H, XW\rangle - 2\,b'X'1 + \|X\|^2 ,

    in 2 (n + d) h^2 multiplications with the gradients, against 3 n d h of the plain way; half of
    them are those of symmetric products, of which little more than a half is computed.
    """
    total: Tensor = _GramError.apply(hidden, weight, bias, target)
    return total


class _GramError(Function):
    """Value and gradients in one go: the gradients need the same products."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, target: SparseMatrix
    ) -> Tensor:
        h_gram, w_gram = _gram(hidden), _gram(weight)
        h_sum, w_bias = column_sums(hidden), bias @ weight
        between = torch.dot(h_gram.view(-1), w_gram.view(-1))
        # half the gradients; the other factor 2 comes with that of the result
        d_hidden = torch.sub(w_bias, target.forward @ weight).addmm_(hidden, w_gram)
        d_weight = torch.addr(target.transposed @ hidden, bias, h_sum, beta=-1)
        d_weight.addmm_(weight, h_gram)
        d_bias = torch.mv(weight, h_sum).add_(bias, alpha=len(hidden)).sub_(target.column_sums)
        # <H, XW> is what the gradient has less than the products.
        products = between + torch.dot(h_sum, w_bias)
        cross = products - torch.dot(hidden.reshape(-1), d_hidden.view(-1))
        linear = torch.dot(bias, d_bias - target.column_sums)
        ctx.gradients = d_hidden, d_weight, d_bias
        return products + linear - 2 * cross + target.squared_norm

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return *(part.mul_(2 * grad) for part in ctx.gradients), None


def _gram(x: Tensor) -> Tensor:
    """x'x; on a CPU its upper part, and mirrored."""
    width = x.shape[1]
    if x.device.type != "cpu" or width < _WIDE:
        return x.T @ x
    gram = x.new_empty(width, width)
    cuts = [width * i // _GRAM_BLOCKS for i in range(_GRAM_BLOCKS + 1)]
    for start, stop in pairwise(cuts):
        torch.mm(x[:, start:stop].T, x[:, start:], out=gram[start:stop, start:])
        gram[stop:, start:stop] = gram[start:stop, stop:].T
    return gram


class _SampledError(Function):
    """Value and gradients in one go: the gradients need the same products."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, target: SparseMatrix, rows: Tensor
    ) -> Tensor:
        scale = len(hidden) / len(rows)
        some = hidden[rows]
        decoded = torch.addmm(bias, some, weight.T)
        cross = target.forward @ weight
        total = (
            scale * decoded.square().sum()
            - 2 * (hidden * cross).sum()
            - 2 * bias @ target.column_sums
            + target.squared_norm
        )
        # half the gradients; the other factor 2 comes with that of the result
        d_hidden = cross.neg_().index_add_(0, rows, decoded @ weight, alpha=scale)
        d_weight = target.transposed @ hidden
        d_weight = d_weight.neg_().addmm_(decoded.T, some, alpha=scale)
        d_bias = scale * decoded.sum(0) - target.column_sums
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        d_hidden, d_weight, d_bias = (2 * grad * part for part in ctx.saved_tensors)
        return d_hidden, d_weight, d_bias, None, None
