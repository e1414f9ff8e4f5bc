r"""Weighted kernel singular value decomposition (wKSVD): pure functions.

Rows x_i (i = 1 ... n) and columns z_j (j = 1 ... m) have feature maps phi and psi in R^d, stacked
as Phi (n, d) and Psi (m, d); S = Phi Psi' is their similarity, in general neither symmetric nor
square. With positive weights W1 (n) and W2 (m) and projections U, V (d, s) the primal problem is

.. math::
    \min_{U, V}\; J = \mathrm{Tr}(U^\top V) - \tfrac12 \sum_i w_{1,i}\, e_i^\top \Sigma^{-1} e_i
    - \tfrac12 \sum_j w_{2,j}\, r_j^\top \Sigma^{-1} r_j, \qquad
    e_i = U^\top \phi_i, \quad r_j = V^\top \psi_j .

Its stationary points are the singular triples of W1^1/2 S W2^1/2 = H_e Sigma H_r', and

.. math::
    U = \Psi^\top W_2^{1/2} H_r, \quad V = \Phi^\top W_1^{1/2} H_e, \quad
    e = W_1^{-1/2} H_e \Sigma, \quad r = W_2^{-1/2} H_r \Sigma .

W_i = D_i^-1, the inverse degrees of S >= 0, gives spectral biclustering. `solve_primal` needs the
two feature maps and never forms S; `solve_dual` needs S alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from ._errors import AttributeDataError, GraphError, ParameterError
from ._graph import row_blocks
from ._singular import column_signs, leading_triples, linear_operator, padded

__all__ = [
    "WKSVDSolution",
    "centre",
    "centre_similarity",
    "check_weights",
    "degrees",
    "fenchel_young_gap",
    "primal_objective",
    "project",
    "random_walk_weights",
    "similarity_degrees",
    "solve_dual",
    "solve_primal",
    "solve_projections",
    "stationarity_residuals",
    "weighted_mean",
]

Array: TypeAlias = Any
"""NumPy array or torch tensor."""

_MAX_EXACT = 1000
"""Up to this many rows or columns a dense S is factorised completely, by LAPACK."""

_MAX_CORE = 1024
"""Up to this many features `solve_primal` factorises two QR cores; above it is matrix-free."""

_QR_ROWS = 2048
"""Rows in one step of the QR decomposition: what stays in cache is ten times as fast."""


class WKSVDSolution(NamedTuple):
    """Leading s singular triples of W1^1/2 S_c W2^1/2, and what embeds new rows and columns.

    New rows are embedded as ``e = (phi - mean_phi) @ U``, new columns as
    ``r = (psi - mean_psi) @ V``. From `solve_primal` phi and psi are the d features given. From
    `solve_dual` they are similarities: phi(x) = k(x, Z) in R^m with U = W2^1/2 H_r, and
    psi(z) = k(X, z) in R^n with V = W1^1/2 H_e.

    If S_c has rank below s, the columns beyond its rank are zero everywhere: in sigma, U, V, e, r,
    h_e and h_r. The largest entry (in magnitude) of each column of h_e is positive.
    """

    U: NDArray[np.float64]
    """(d, s)"""
    V: NDArray[np.float64]
    """(d, s)"""
    sigma: NDArray[np.float64]
    """(s,), in descending order"""
    e: NDArray[Any]
    """(n, s), Phi_c U"""
    r: NDArray[Any]
    """(m, s), Psi_c V"""
    h_e: NDArray[Any]
    """(n, s), left singular vectors"""
    h_r: NDArray[Any]
    """(m, s), right singular vectors"""
    mean_phi: NDArray[np.float64]
    """(d,), zero without centring"""
    mean_psi: NDArray[np.float64]
    """(d,), zero without centring"""


# --- elementary functions, for NumPy arrays and torch tensors alike ---------------------------


def degrees(phi: Array, psi: Array) -> tuple[Array, Array]:
    """Degrees of S = Phi Psi' without forming it: D1 = Phi (Psi'1), D2 = Psi (Phi'1).

    Parameters
    ----------
    phi : array, sparse matrix or tensor of shape (n, d)
    psi : array, sparse matrix or tensor of shape (m, d)

    Returns
    -------
    d1 : shape (n,), row sums of S
    d2 : shape (m,), column sums of S
    """
    return phi @ _column_sums(psi), psi @ _column_sums(phi)


def random_walk_weights(d1: Array, d2: Array, regularization: float = 0.0) -> tuple[Array, Array]:
    """Weights w = 1 / (D + regularization * mean(D)), for rows and for columns.

    Parameters
    ----------
    d1 : array or tensor of shape (n,)
    d2 : array or tensor of shape (m,)
    regularization : float
        0 is the random walk of the corollary. Above 0 every row walks with some probability to
        anywhere: small components and nodes of tiny degree no longer take the leading triples.

    Raises
    ------
    GraphError
        If a (regularised) degree is not positive.
    """
    return (
        _inverse_degrees(d1, regularization, "row"),
        _inverse_degrees(d2, regularization, "column"),
    )


def weighted_mean(features: Array, w: Array) -> Array:
    """Weighted mean of the rows, sum_i w_i phi_i / sum_i w_i, shape (d,)."""
    return (features.T @ w) / w.sum(0)


def centre(features: Array, w: Array) -> Array:
    """Features minus their weighted mean, shape (n, d). Dense features only."""
    return features - weighted_mean(features, w)


def primal_objective(
    U: Array, V: Array, e: Array, r: Array, w1: Array, w2: Array, sigma: Array
) -> Array:
    """J = Tr(U'V) - 1/2 sum_i w1_i e_i' Sigma^-1 e_i - 1/2 sum_j w2_j r_j' Sigma^-1 r_j.

    It is 0 at every stationary point, whatever the feature maps.

    Parameters
    ----------
    U, V : shape (d, s)
    e : shape (n, s)
    r : shape (m, s)
    w1 : shape (n,)
    w2 : shape (m,)
    sigma : shape (s,), positive
    """
    rows = (w1 @ (e * e / sigma)).sum(0)
    columns = (w2 @ (r * r / sigma)).sum(0)
    return (U * V).sum(0).sum(0) - 0.5 * rows - 0.5 * columns


def stationarity_residuals(
    phi: Array,
    psi: Array,
    U: Array,
    V: Array,
    h_e: Array,
    h_r: Array,
    w1: Array,
    w2: Array,
    sigma: Array,
) -> tuple[Array, Array, Array, Array]:
    """What is left of the four stationarity conditions of the primal-dual objective.

    For centred phi (n, d) and psi (m, d): U - Psi'W2^1/2 H_r, V - Phi'W1^1/2 H_e,
    H_e Sigma - W1^1/2 Phi U and H_r Sigma - W2^1/2 Psi V; all zero at a solution.
    """
    root1, root2 = (w1**0.5)[:, None], (w2**0.5)[:, None]
    return (
        U - psi.T @ (root2 * h_r),
        V - phi.T @ (root1 * h_e),
        h_e * sigma - root1 * (phi @ U),
        h_r * sigma - root2 * (psi @ V),
    )


def fenchel_young_gap(e: Array, h: Array, w: Array, sigma: Array) -> Array:
    """1/2 w e'Sigma^-1 e + 1/2 h'Sigma h - sqrt(w) e'h >= 0 for every row, shape (n,).

    It is 0 where sqrt(w) e = Sigma h, which is how the dual variables h arise.

    Parameters
    ----------
    e, h : shape (n, s)
    w : shape (n,), positive
    sigma : shape (s,), positive
    """
    primal = 0.5 * w * (e * e / sigma).sum(-1)
    dual = 0.5 * (h * h * sigma).sum(-1)
    return primal + dual - w**0.5 * (e * h).sum(-1)


def _column_sums(x: Array) -> Array:
    if _is_matrix_free(x):
        return x.T @ np.ones(x.shape[0])
    if isinstance(x, np.ndarray):
        # Single precision would lose digits over millions of rows; the sum itself has d numbers.
        return x.sum(0, dtype=np.float64).astype(np.promote_types(x.dtype, np.float32))
    return x.sum(0)


def _inverse_degrees(d: Array, regularization: float, side: str) -> Array:
    regularised = d + regularization * d.mean() if regularization else d
    bad = ~(regularised > 0)
    if bool(bad.any()):
        i = int(bad.nonzero()[0][0])
        raise GraphError(
            f"the degree is {float(d[i]):g}, so the weight 1/degree is undefined",
            place=f"{side} {i}",
            remedy="Similarities must not be negative; for rows or columns without any, set "
            "regularization above 0 or weights='uniform'",
        )
    return 1.0 / regularised


# --- the dual -----------------------------------------------------------------------------------


def similarity_degrees(S: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Row sums (n,) and column sums (m,) of S: dense, sparse or LinearOperator, shape (n, m)."""
    n, m = S.shape
    return S @ np.ones(m), S.T @ np.ones(n)


def centre_similarity(S: Any, w1: NDArray[Any], w2: NDArray[Any]) -> Any:
    """Centring in the dual, S_c = M1 S M2' with M_i = I - 1 1'W_i / (1'W_i 1).

    The same as centring phi with w1 and psi with w2: S_c = Phi_c Psi_c'.

    Parameters
    ----------
    S : array, sparse matrix or LinearOperator of shape (n, m)
    w1 : array of shape (n,)
    w2 : array of shape (m,)

    Returns
    -------
    array for an array; otherwise a LinearOperator, since S_c is dense where S is sparse
    """
    p1, p2 = w1 / w1.sum(), w2 / w2.sum()
    if isinstance(S, np.ndarray):
        rows = S - p1 @ S
        return rows - (rows @ p2)[:, None]

    def matmat(x: NDArray[Any]) -> NDArray[Any]:
        y = S @ (x - np.multiply.outer(p2, x.sum(0)))
        return np.asarray(y - p1 @ y)

    def rmatmat(y: NDArray[Any]) -> NDArray[Any]:
        x = S.T @ (y - np.multiply.outer(p1, y.sum(0)))
        return np.asarray(x - p2 @ x)

    return linear_operator(S.shape, matmat, rmatmat)


def solve_dual(
    S: Any, w1: NDArray[Any], w2: NDArray[Any], s: int, *, center: bool = True
) -> WKSVDSolution:
    """Leading `s` singular triples of W1^1/2 S_c W2^1/2 from the similarities alone.

    Parameters
    ----------
    S : array, sparse matrix or LinearOperator of shape (n, m)
        A sparse matrix stays sparse.
    w1 : array of shape (n,), positive
    w2 : array of shape (m,), positive
    s : int
    center : bool
        Whether S_c = M1 S M2' or S itself.

    Notes
    -----
    Small problems are factorised exactly; large ones by Lanczos iterations with a fixed start, to
    full precision, where singular values below 1e-8 of the leading one count as zero.
    """
    S = _as_similarity(S)
    n, m = S.shape
    w1, w2 = check_weights(w1, n, "w1"), check_weights(w2, m, "w2")
    mean_phi = (S.T @ w1) / w1.sum() if center else np.zeros(m)
    mean_psi = (S @ w2) / w2.sum() if center else np.zeros(n)
    noise = _removed_norm(w1, w2, mean_phi, mean_psi)
    h_e, sigma, h_r = leading_triples(_weighted(S, w1, w2, center), s, noise=noise)
    h_e, sigma, h_r = padded(h_e, s), padded(sigma, s), padded(h_r, s)
    signs = column_signs(h_e)
    h_e, h_r = h_e * signs, h_r * signs
    root1, root2 = np.sqrt(w1)[:, None], np.sqrt(w2)[:, None]
    return WKSVDSolution(
        U=root2 * h_r,
        V=root1 * h_e,
        sigma=sigma,
        e=h_e * sigma / root1,
        r=h_r * sigma / root2,
        h_e=h_e,
        h_r=h_r,
        mean_phi=mean_phi,
        mean_psi=mean_psi,
    )


def _as_similarity(S: Any) -> Any:
    """Double precision, and as an operator where a complete factorisation would be too slow."""
    if isinstance(S, LinearOperator):
        return S
    if sp.issparse(S):
        return sp.csr_array(S, dtype=np.float64)
    S = np.asarray(S, dtype=np.float64)
    return S if min(S.shape) <= _MAX_EXACT else aslinearoperator(S)


def _weighted(S: Any, w1: NDArray[Any], w2: NDArray[Any], center: bool) -> Any:
    """W1^1/2 S_c W2^1/2, an array for an array, otherwise an operator."""
    S_c = centre_similarity(S, w1, w2) if center else S
    root1, root2 = np.sqrt(w1), np.sqrt(w2)
    if isinstance(S_c, np.ndarray):
        return root1[:, None] * S_c * root2
    return linear_operator(
        S.shape,
        lambda x: _scaled(root1, S_c @ _scaled(root2, x)),
        lambda y: _scaled(root2, S_c.T @ _scaled(root1, y)),
    )


def _scaled(root: NDArray[Any], x: NDArray[Any]) -> NDArray[Any]:
    """Rows of a vector or matrix times `root`, in the precision of x."""
    root = root.astype(x.dtype, copy=False)
    return (root if x.ndim == 1 else root[:, None]) * x


# --- the primal ---------------------------------------------------------------------------------


def solve_primal(
    phi: Any, psi: Any, w1: NDArray[Any], w2: NDArray[Any], s: int, *, center: bool = True
) -> WKSVDSolution:
    """Leading `s` singular triples of W1^1/2 Phi_c Psi_c' W2^1/2, without ever forming S.

    Parameters
    ----------
    phi : array, memory map, sparse matrix or LinearOperator of shape (n, d)
    psi : array, memory map, sparse matrix or LinearOperator of shape (m, d)
    w1 : array of shape (n,), positive
    w2 : array of shape (m,), positive
    s : int
    center : bool
        Whether to subtract the weighted means of phi and psi.

    Notes
    -----
    For few features, W1^1/2 Phi_c = Q1 R1 and W2^1/2 Psi_c = Q2 R2 with the small triangles
    R1, R2 computed block by block, in O((n + m) d^2) time; the SVD R1 R2' = P Sigma Q' gives
    U = R2'Q and V = R1'P. For many features, and for sparse ones (which are never made dense as a
    whole), S acts as an operator, at O(nnz) a step. All algebra is in double precision; e, r, h_e
    and h_r of single precision features are single precision.
    """
    phi, psi = _as_features(phi), _as_features(psi)
    if phi.shape[1] != psi.shape[1]:
        raise AttributeDataError(
            f"phi has {phi.shape[1]} features and psi has {psi.shape[1]}",
            remedy="Give both the same number, or use a kernel",
        )
    w1 = check_weights(w1, phi.shape[0], "w1")
    w2 = check_weights(w2, psi.shape[0], "w2")
    U, V, sigma, mean_phi, mean_psi = solve_projections(phi, psi, w1, w2, s, center=center)
    e, r = project(phi, mean_phi, U), project(psi, mean_psi, V)
    h_e, h_r = _dual_variables(e, w1, sigma), _dual_variables(r, w2, sigma)
    signs = column_signs(h_e)
    # In place: these are the arrays that are large where n is.
    for array in (U, V, e, r, h_e, h_r):
        array *= signs.astype(array.dtype)
    return WKSVDSolution(U, V, sigma, e, r, h_e, h_r, mean_phi, mean_psi)


class Projections(NamedTuple):
    """U, V (d, s), sigma (s,), and the means (d,) that were subtracted; signs are arbitrary."""

    U: NDArray[Any]
    V: NDArray[Any]
    sigma: NDArray[np.float64]
    mean_phi: NDArray[np.float64]
    mean_psi: NDArray[np.float64]


def solve_projections(
    phi: Any, psi: Any, w1: NDArray[Any], w2: NDArray[Any], s: int, *, center: bool = True
) -> Projections:
    """The part of :func:`solve_primal` whose size does not grow with n."""
    mean_phi, mean_psi = _mean(phi, w1, center), _mean(psi, w2, center)
    factorise = _by_qr if _core_is_small(phi, psi) else _matrix_free
    U, sigma, V = factorise(phi, psi, w1, w2, mean_phi, mean_psi, s)
    return Projections(padded(U, s), padded(V, s), padded(sigma, s), mean_phi, mean_psi)


def _as_features(x: Any) -> Any:
    if isinstance(x, LinearOperator):
        return x
    return sp.csr_array(x) if sp.issparse(x) else np.asarray(x)


def _is_matrix_free(x: Any) -> bool:
    """Whether products are all that can be asked of x without making it dense."""
    return sp.issparse(x) or isinstance(x, LinearOperator)


def _core_is_small(phi: Any, psi: Any) -> bool:
    if isinstance(phi, LinearOperator) or isinstance(psi, LinearOperator):
        return False
    core = max(min(phi.shape), min(psi.shape))
    # A sparse matrix passes through QR as dense blocks: only worth it when d is really small.
    sparse = sp.issparse(phi) or sp.issparse(psi)
    return core <= (_MAX_CORE // 8 if sparse else _MAX_CORE)


def _by_qr(
    phi: Any,
    psi: Any,
    w1: NDArray[Any],
    w2: NDArray[Any],
    mean_phi: NDArray[Any],
    mean_psi: NDArray[Any],
    s: int,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """U, sigma, V from the triangles of the two weighted factors."""
    R1 = _triangle(phi, w1, mean_phi)
    same = phi is psi and np.array_equal(w1, w2)
    R2 = R1 if same else _triangle(psi, w2, mean_psi)
    P, sigma, Qt = np.linalg.svd(R1 @ R2.T, full_matrices=False)
    # Size of the factors before centring, which is what their rounding errors are relative to.
    size = [
        np.hypot(np.linalg.norm(R), np.sqrt(w.sum()) * np.linalg.norm(mean))
        for R, w, mean in ((R1, w1, mean_phi), (R2, w2, mean_psi))
    ]
    tolerance = np.finfo(np.float64).eps * max(*phi.shape, *psi.shape) * size[0] * size[1]
    rank = min(s, int(np.count_nonzero(sigma > tolerance)))
    return R2.T @ Qt[:rank].T, sigma[:rank], R1.T @ P[:, :rank]


def _matrix_free(
    phi: Any,
    psi: Any,
    w1: NDArray[Any],
    w2: NDArray[Any],
    mean_phi: NDArray[Any],
    mean_psi: NDArray[Any],
    s: int,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """U, sigma, V from S as an operator."""
    # Converted once; otherwise every product of mixed precision would convert again.
    phi, psi = (
        x if isinstance(x, LinearOperator) else x.astype(np.float64, copy=False) for x in (phi, psi)
    )
    root1, root2 = np.sqrt(w1), np.sqrt(w2)

    def matmat(x: NDArray[Any]) -> NDArray[Any]:
        y = _scaled(root2, x)
        t = (psi.T @ y - np.multiply.outer(mean_psi, y.sum(0))).astype(x.dtype, copy=False)
        return _scaled(root1, phi @ t - (mean_phi @ t).astype(x.dtype))

    def rmatmat(y: NDArray[Any]) -> NDArray[Any]:
        x = _scaled(root1, y)
        t = (phi.T @ x - np.multiply.outer(mean_phi, x.sum(0))).astype(y.dtype, copy=False)
        return _scaled(root2, psi @ t - (mean_psi @ t).astype(y.dtype))

    operator = linear_operator((phi.shape[0], psi.shape[0]), matmat, rmatmat)
    operator.few_passes = any(getattr(x, "few_passes", False) for x in (phi, psi))
    noise = _removed_norm(w1, w2, psi @ mean_phi, phi @ mean_psi)
    h_e, sigma, h_r = leading_triples(operator, min(s, phi.shape[1]), noise=noise)
    right, left = _scaled(root2, h_r), _scaled(root1, h_e)
    U = psi.T @ right - np.outer(mean_psi, right.sum(0))
    V = phi.T @ left - np.outer(mean_phi, left.sum(0))
    return U, sigma, V


def _triangle(features: Any, w: NDArray[Any], mean: NDArray[Any]) -> NDArray[np.float64]:
    """R of the QR decomposition of W^1/2 (features - mean), shape (min(n, d), d)."""
    n, d = features.shape
    R = np.empty((0, d))
    step = max(_QR_ROWS, 4 * d)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        block = np.sqrt(w[rows])[:, None] * (_dense(features, rows) - mean)
        R = np.asarray(np.linalg.qr(np.concatenate([R, block]), mode="r"))
    return R


def _mean(features: Any, w: NDArray[Any], center: bool) -> NDArray[np.float64]:
    if not center:
        return np.zeros(features.shape[1])
    if _is_matrix_free(features):
        return np.asarray(features.T @ w) / w.sum()
    total = np.zeros(features.shape[1])
    for rows in row_blocks(*features.shape):
        total += w[rows] @ _dense(features, rows)
    return total / w.sum()


def project(features: Any, mean: NDArray[Any], coefficients: NDArray[Any]) -> NDArray[Any]:
    """(features - mean) @ coefficients, shape (n, s), in the precision of the features."""
    dtype = (
        np.float32 if features.dtype.itemsize <= 4 and features.dtype.kind == "f" else np.float64
    )
    if _is_matrix_free(features):
        out = features @ coefficients - mean @ coefficients
        return np.asarray(out, dtype=dtype)
    out = np.empty((features.shape[0], coefficients.shape[1]), dtype=dtype)
    for rows in row_blocks(*features.shape):
        out[rows] = (_dense(features, rows) - mean) @ coefficients
    return out


def _dense(features: Any, rows: slice) -> NDArray[np.float64]:
    block = features[rows]
    return np.asarray(block.toarray() if sp.issparse(block) else block, dtype=np.float64)


def _dual_variables(e: NDArray[Any], w: NDArray[Any], sigma: NDArray[np.float64]) -> NDArray[Any]:
    """H = W^1/2 e Sigma^-1, with zero columns where sigma is zero."""
    inverse = np.divide(1.0, sigma, out=np.zeros_like(sigma), where=sigma > 0)
    h = e * np.sqrt(w)[:, None].astype(e.dtype)
    h *= inverse.astype(e.dtype)
    return h


# --- weights and what centring removes ---------------------------------------------------------


def _removed_norm(
    w1: NDArray[Any], w2: NDArray[Any], row_mean: NDArray[Any], column_mean: NDArray[Any]
) -> float:
    """Bound of the norm of W1^1/2 (S - S_c) W2^1/2, from the weighted means of S."""
    rows = np.sqrt(w1.sum()) * np.linalg.norm(np.sqrt(w2) * row_mean)
    columns = np.sqrt(w2.sum()) * np.linalg.norm(np.sqrt(w1) * column_mean)
    return float(rows + columns)


def check_weights(w: Any, n: int, name: str) -> NDArray[np.float64]:
    w = np.asarray(w, dtype=np.float64)
    if w.shape != (n,):
        raise ParameterError(f"{name} has shape {w.shape}", remedy=f"Give {n} positive numbers")
    bad = ~((w > 0) & np.isfinite(w))
    if bad.any():
        i = int(bad.argmax())
        raise ParameterError(
            f"the weight is {w[i]}", place=f"{name}[{i}]", remedy="Weights must be positive"
        )
    return w
