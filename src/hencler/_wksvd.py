r"""Weighted kernel singular value decomposition (wKSVD): pure functions and an estimator.

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

import inspect
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, aslinearoperator, eigsh
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ._errors import AttributeDataError, GraphError, ParameterError, ResourceError
from ._graph import SAMPLED_NODES, check_attributes, row_blocks
from ._kernels import KERNELS

__all__ = [
    "WKSVD",
    "WKSVDSolution",
    "centre",
    "centre_similarity",
    "degrees",
    "fenchel_young_gap",
    "linear_operator",
    "primal_objective",
    "random_walk_weights",
    "similarity_degrees",
    "solve_dual",
    "solve_primal",
    "solve_projections",
    "stationarity_residuals",
    "subspace_svd",
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

_SUBSPACE_ROUNDS = 6
"""Rounds of :func:`subspace_svd`, two passes over the data each."""

_MAX_KERNEL_ENTRIES = 1 << 27
"""Entries of the largest kernel matrix that is formed: 1 GiB, n = m = 11,585."""


# Whether values are finite is checked elsewhere, where the error can name the place.
_ACCEPTED = {
    "accept_sparse": "csr",
    "dtype": (np.float64, np.float32),
    "ensure_all_finite": False,
}


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
    w1, w2 = _check_weights(w1, n, "w1"), _check_weights(w2, m, "w2")
    mean_phi = (S.T @ w1) / w1.sum() if center else np.zeros(m)
    mean_psi = (S @ w2) / w2.sum() if center else np.zeros(n)
    noise = _removed_norm(w1, w2, mean_phi, mean_psi)
    h_e, sigma, h_r = _leading_triples(_weighted(S, w1, w2, center), s, noise)
    h_e, sigma, h_r = _pad(h_e, s), _pad(sigma, s), _pad(h_r, s)
    signs = _signs(h_e)
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


def linear_operator(shape: tuple[int, int], matmat: Any, rmatmat: Any) -> Any:
    """LinearOperator from two functions that take vectors as well as matrices."""
    return LinearOperator(
        shape, matvec=matmat, rmatvec=rmatmat, matmat=matmat, rmatmat=rmatmat, dtype=np.float64
    )


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
    w1 = _check_weights(w1, phi.shape[0], "w1")
    w2 = _check_weights(w2, psi.shape[0], "w2")
    U, V, sigma, mean_phi, mean_psi = solve_projections(phi, psi, w1, w2, s, center=center)
    e, r = _project(phi, mean_phi, U), _project(psi, mean_psi, V)
    h_e, h_r = _dual_variables(e, w1, sigma), _dual_variables(r, w2, sigma)
    signs = _signs(h_e)
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
    return Projections(_pad(U, s), _pad(V, s), _pad(sigma, s), mean_phi, mean_psi)


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
    noise = _removed_norm(w1, w2, psi @ mean_phi, phi @ mean_psi)
    h_e, sigma, h_r = _leading_triples(operator, min(s, phi.shape[1]), noise)
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


def _project(features: Any, mean: NDArray[Any], coefficients: NDArray[Any]) -> NDArray[Any]:
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


# --- singular triples ---------------------------------------------------------------------------


def _leading_triples(
    A: Any, s: int, noise: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """At most `s` leading triples (H_e, sigma, H_r) of A with sigma above rounding errors.

    `noise` is the norm of what centring took away, whose rounding errors are still in A.
    """
    small = min(A.shape)
    eps = float(np.finfo(np.float64).eps)
    relative = eps * max(A.shape)
    if not isinstance(A, np.ndarray) and small <= max(2 * s + 1, 100):
        A = _materialised(A)
    if isinstance(A, np.ndarray):
        u, sigma, vt = np.linalg.svd(A, full_matrices=False)
    elif small > SAMPLED_NODES:
        u, sigma, v = subspace_svd(A, s)
        vt = v.T
        relative = max(relative, float(np.finfo(np.float32).eps))
    else:
        u, sigma, vt = _lanczos(A, s, relative * noise)
        # Iterations on A'A cannot tell smaller values from zero.
        relative = max(relative, eps**0.5)
    largest = float(sigma[0]) if sigma.size else 0.0
    tolerance = max(relative * largest, eps * max(A.shape) * (largest + noise))
    rank = min(s, int(np.count_nonzero(sigma > tolerance)))
    return u[:, :rank], sigma[:rank], vt[:rank].T


def _materialised(A: Any) -> NDArray[np.float64]:
    """An operator with one short side as an array."""
    n, m = A.shape
    dense = A.matmat(np.eye(m)) if m <= n else A.rmatmat(np.eye(n)).T
    return np.asarray(dense, dtype=np.float64)


def subspace_svd(A: Any, s: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Leading `s` triples (P, sigma, Q) of a large matrix or operator, in single precision.

    Subspace iteration with some more columns than asked for. It needs few passes over the
    data, each with many columns at once, where Lanczos needs hundreds with one: what counts when
    the data lie on a disk. Values that stand out from the rest are found to several digits.
    """
    rng = np.random.default_rng(0)
    columns = min(s + 20, *A.shape)
    Q = rng.standard_normal((A.shape[1], columns), dtype=np.float32)
    for _ in range(_SUBSPACE_ROUNDS):
        P = np.linalg.qr(np.asarray(A @ Q, dtype=np.float32))[0]
        Q = np.linalg.qr(np.asarray(A.T @ P, dtype=np.float32))[0]
    P, sigma, Wt = np.linalg.svd(np.asarray(A @ Q, dtype=np.float32), full_matrices=False)
    return P[:, :s], sigma[:s].astype(np.float64), Q @ Wt[:s].T


def _lanczos(
    A: Any, s: int, zero: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Leading `s` triples of an operator, from the eigenvectors of A'A or AA', the smaller one."""
    if A.shape[0] < A.shape[1]:
        v, sigma, ut = _lanczos(A.T, s, zero)
        return ut.T, sigma, v.T
    n, m = A.shape
    rng = np.random.default_rng(0)
    start = rng.standard_normal(m) / np.sqrt(m)
    if np.linalg.norm(A @ start) <= zero:
        # Centring left nothing; Lanczos cannot start from a zero vector.
        return np.zeros((n, 0)), np.zeros(0), np.zeros((0, m))
    gram = LinearOperator((m, m), matvec=lambda x: A.rmatvec(A.matvec(x)), dtype=np.float64)
    # Random restarts inside Lanczos must not depend on global state either.
    seeded = {"rng": rng} if "rng" in inspect.signature(eigsh).parameters else {}
    _, vectors = eigsh(gram, k=s, v0=start, **seeded)
    basis, _ = np.linalg.qr(vectors)
    # Singular vectors within the subspace from A itself: more exact than from A'A.
    u, sigma, wt = np.linalg.svd(A.matmat(basis), full_matrices=False)
    return u, sigma, wt @ basis.T


def _removed_norm(
    w1: NDArray[Any], w2: NDArray[Any], row_mean: NDArray[Any], column_mean: NDArray[Any]
) -> float:
    """Bound of the norm of W1^1/2 (S - S_c) W2^1/2, from the weighted means of S."""
    rows = np.sqrt(w1.sum()) * np.linalg.norm(np.sqrt(w2) * row_mean)
    columns = np.sqrt(w2.sum()) * np.linalg.norm(np.sqrt(w1) * column_mean)
    return float(rows + columns)


def _signs(h_e: NDArray[Any]) -> NDArray[np.float64]:
    """Signs that make the largest entry of each column positive, shape (s,)."""
    if not h_e.size:
        return np.ones(h_e.shape[1])
    largest = h_e[np.abs(h_e).argmax(axis=0), np.arange(h_e.shape[1])]
    return np.where(largest < 0, -1.0, 1.0)


def _pad(array: NDArray[Any], s: int) -> NDArray[Any]:
    """Zero columns (or entries) up to s."""
    missing = s - array.shape[-1]
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])


def _check_weights(w: Any, n: int, name: str) -> NDArray[np.float64]:
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


# --- the estimator ------------------------------------------------------------------------------


class WKSVD(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Weighted kernel singular value decomposition, in closed form.

    Embeds rows x_i and columns z_j by the leading singular triples of the weighted, centred
    similarity W1^1/2 S_c W2^1/2 = H_e Sigma H_r', S_ij = k(x_i, z_j):

    .. math:: e_i = \Sigma h_{e_i} / \sqrt{w_{1,i}}, \qquad r_j = \Sigma h_{r_j} / \sqrt{w_{2,j}} .

    With degree weights this is the spectral biclustering of the bipartite graph of rows and
    columns; with uniform weights kernel SVD; for a symmetric positive semi-definite kernel with
    degree weights kernel spectral clustering.

    Parameters
    ----------
    n_components : int, default=2
        Number s of singular triples. Beyond the rank of S_c the embeddings are zero.
    n_clusters : int, optional
        Number of biclusters; without it rows and columns are embedded only.
    kernel : {"linear", "rbf", "sne", "precomputed"} or callable, default="linear"
        ``"linear"`` takes the inputs as explicit feature maps phi and psi and is solved in the
        primal, for any n. ``"precomputed"`` takes S itself, such as an adjacency matrix; a sparse
        one stays sparse. All others form S of shape (n, m). A callable gets (X, Z) and
        `kernel_params`.
    kernel_params : dict, optional
        Keyword arguments of the kernel.
    weights : {"degree", "uniform"} or pair of arrays (n,) and (m,), default="degree"
        ``"degree"`` is 1 / (degree + regularization * mean degree); it needs S >= 0.
    regularization : float, default=0.0
        For degree weights. A value of 1 keeps small components from taking the leading triples.
    center : bool, default=True
        Whether to centre the feature maps by their weighted means.
    random_state : int, RandomState instance or None, default=None
        For the KMeans of the biclusters; the embeddings are deterministic.

    Attributes
    ----------
    e_ : array of shape (n, s)
        Embedding of the rows.
    r_ : array of shape (m, s)
        Embedding of the columns.
    singular_values_ : array of shape (s,)
    U_, V_ : arrays of shape (d, s)
        Projections e = phi_c U and r = psi_c V; ``kernel="linear"`` only.
    row_weights_, column_weights_ : arrays of shape (n,) and (m,)
    row_labels_, column_labels_ : arrays of shape (n,) and (m,)
        Biclusters, with `n_clusters` only. ``labels_`` is the same as ``row_labels_``.
    n_features_in_ : int

    Notes
    -----
    Biclusters are found as in spectral co-clustering: KMeans on the rows of W1^1/2 H_e stacked on
    those of W2^1/2 H_r. For degree weights a row lies at the average of the columns it is linked
    to, divided by sigma, and a column at that of its rows: both live in one space, and members of
    one block come together whatever their degree (e and r are larger for larger degrees). Each
    side is multiplied by (sum 1/w)^1/2, which for degree weights is the same number on both sides
    and makes the two comparable for other weights.

    Without centring, S >= 0 with exact degree weights has the trivial leading triple sigma = 1,
    h_e = D1^1/2 1, h_r = D2^1/2 1. Centring projects D1^-1/2 1 and D2^-1/2 1 out. For equal degrees
    this is just the trivial triple; in general it makes every singular value less than 1 on a
    connected graph, and changes the other triples a little.

    Examples
    --------
    >>> import numpy as np
    >>> from hencler import WKSVD
    >>> S = np.array([[5, 4, 0, 1], [4, 5, 1, 0], [0, 1, 5, 4]])
    >>> model = WKSVD(1, n_clusters=2, kernel="precomputed", random_state=0).fit(S)
    >>> rows, columns = model.row_labels_, model.column_labels_
    >>> bool(rows[0] == rows[1] != rows[2])
    True
    >>> bool(np.all(rows[[0, 0, 2, 2]] == columns))
    True
    >>> model.e_.shape, model.r_.shape
    ((3, 1), (4, 1))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "n_clusters": [Interval(Integral, 1, None, closed="left"), None],
        "kernel": [StrOptions({*KERNELS, "precomputed"}), callable],
        "kernel_params": [dict, None],
        "weights": [StrOptions({"degree", "uniform"}), tuple, list],
        "regularization": [Interval(Real, 0, None, closed="left")],
        "center": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_clusters: int | None = None,
        kernel: Any = "linear",
        kernel_params: dict[str, Any] | None = None,
        weights: Any = "degree",
        regularization: float = 0.0,
        center: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.weights = weights
        self.regularization = regularization
        self.center = center
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, Z: Any = None) -> Self:
        """Embed the rows and the columns, and bicluster them if asked to.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            Rows; or S of shape (n, m) for ``kernel="precomputed"``.
        y : ignored
        Z : array or sparse matrix of shape (m, d), optional
            Columns; the rows by default. A callable kernel may take another number of features.
        """
        try:
            self._validate_params()
        except InvalidParameterError as error:
            raise ParameterError(str(error).rstrip(".")) from error
        X = self._check_rows(X, reset=True)
        Z = self._check_columns(X, Z)
        solution = self._fit_primal(X, Z) if self.kernel == "linear" else self._fit_dual(X, Z)
        self._solution = solution
        self.e_, self.r_, self.singular_values_ = solution.e, solution.r, solution.sigma
        if self.n_clusters is not None:
            self._bicluster(solution)
        return self

    def fit_transform(self, X: Any, y: Any = None, *, Z: Any = None) -> NDArray[Any]:
        """Embed the rows and the columns, and return ``e_``, shape (n, s)."""
        return self.fit(X, Z=Z).e_

    @available_if(lambda self: self.n_clusters is not None)  # type: ignore[untyped-decorator]
    def fit_predict(self, X: Any, y: Any = None, *, Z: Any = None) -> NDArray[np.int64]:
        """Bicluster, and return the clusters of the rows, shape (n,); with `n_clusters` only."""
        return self.fit(X, Z=Z).labels_

    def transform(self, X: Any) -> NDArray[Any]:
        """Embedding e of rows, seen before or new, shape (n', s).

        Parameters
        ----------
        X : array or sparse matrix of shape (n', d)
            For ``kernel="precomputed"`` shape (n', m): similarities to the columns of `fit`.
        """
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        if self._has_kernel():
            X = self._kernel_matrix(X, self._Z)
        return _project(X, self._solution.mean_phi, self._solution.U)

    def transform_columns(self, Z: Any) -> NDArray[Any]:
        """Embedding r of columns, seen before or new, shape (m', s).

        Parameters
        ----------
        Z : array or sparse matrix of shape (m', d)
            For ``kernel="precomputed"`` shape (m', n): one row per column, with its
            similarities to the rows of `fit`, so that ``S.T`` stands for the columns of S.
        """
        check_is_fitted(self)
        Z = _check_input(Z, "Z")
        if self._has_kernel():
            _check_width(Z, self._Z.shape[1], "Z")
            Z = self._kernel_matrix(self._X, Z).T
        _check_width(Z, len(self._solution.mean_psi), "Z")
        return _project(Z, self._solution.mean_psi, self._solution.V)

    def _fit_primal(self, phi: Any, psi: Any) -> WKSVDSolution:
        w1, w2 = self._weights(lambda: degrees(phi, psi), phi.shape[0], psi.shape[0])
        solution = solve_primal(phi, psi, w1, w2, self.n_components, center=self.center)
        self.U_, self.V_ = solution.U, solution.V
        return solution

    def _fit_dual(self, X: Any, Z: Any) -> WKSVDSolution:
        S = X
        if self._has_kernel():
            self._X, self._Z = X, Z
            S = self._kernel_matrix(X, Z)
        w1, w2 = self._weights(lambda: similarity_degrees(S), *S.shape)
        return solve_dual(S, w1, w2, self.n_components, center=self.center)

    def _weights(self, find_degrees: Any, n: int, m: int) -> tuple[Any, Any]:
        if isinstance(self.weights, str):
            if self.weights == "degree":
                d1, d2 = find_degrees()
                w1, w2 = random_walk_weights(d1, d2, self.regularization)
            else:
                w1, w2 = np.ones(n), np.ones(m)
        elif len(self.weights) == 2:
            w1, w2 = self.weights
        else:
            raise ParameterError(
                f"weights has {len(self.weights)} parts",
                remedy="Give a pair of arrays: one weight per row, one weight per column",
            )
        self.row_weights_ = _check_weights(w1, n, "weights[0]")
        self.column_weights_ = _check_weights(w2, m, "weights[1]")
        return self.row_weights_, self.column_weights_

    def _bicluster(self, solution: WKSVDSolution) -> None:
        n, m = len(solution.e), len(solution.r)
        if self.n_clusters > n + m:  # type: ignore[operator]  # only called with a number
            raise ParameterError(
                f"n_clusters={self.n_clusters} is more than the {n} rows and {m} columns",
                remedy=f"Ask for at most {n + m} clusters",
            )
        sides = ((solution.h_e, self.row_weights_), (solution.h_r, self.column_weights_))
        stacked = np.concatenate([np.sqrt(w * np.sum(1 / w))[:, None] * h for h, w in sides])
        means = KMeans(self.n_clusters, n_init=10, random_state=self.random_state)
        labels = means.fit_predict(stacked).astype(np.int64)
        self.row_labels_, self.column_labels_ = labels[:n], labels[n:]
        self.labels_ = self.row_labels_

    def _has_kernel(self) -> bool:
        """Whether S comes from a kernel function, rather than being given or never formed."""
        return callable(self.kernel) or self.kernel not in ("linear", "precomputed")

    def _kernel_matrix(self, X: Any, Z: Any) -> NDArray[Any]:
        n, m = X.shape[0], Z.shape[0]
        if n * m > _MAX_KERNEL_ENTRIES:
            raise ResourceError(
                f"the kernel matrix would have {n} x {m} entries",
                remedy="Use kernel='linear' on explicit features, or a sparse precomputed S",
            )
        parameters = dict(self.kernel_params or {})
        if self.kernel == "sne":
            # A function of two points only while the reference set stays that of fit.
            parameters.setdefault("reference", self._Z)
        kernel = self.kernel if callable(self.kernel) else KERNELS[self.kernel]
        S = _check_input(kernel(X, Z, **parameters), "kernel(X, Z)")
        if S.shape != (n, m):
            raise ParameterError(
                f"the kernel returned shape {S.shape} for {n} rows and {m} columns",
                place="kernel",
                remedy=f"Return an ({n}, {m}) matrix",
            )
        return np.asarray(S.toarray() if sp.issparse(S) else S)

    def _check_rows(self, X: Any, *, reset: bool) -> Any:
        try:
            X = validate_data(self, X, reset=reset, **_ACCEPTED)
        except ValueError as error:
            raise AttributeDataError(str(error).rstrip(".")) from error
        return check_attributes(X, X.shape[0])

    def _check_columns(self, X: Any, Z: Any) -> Any:
        if self.kernel_params and not self._has_kernel():
            raise ParameterError(
                f"kernel={self.kernel!r} has no parameters", remedy="Leave kernel_params out"
            )
        if Z is None:
            return X
        if self.kernel == "precomputed":
            raise ParameterError(
                "Z was given beside a precomputed S", remedy="Leave Z out: S has its own columns"
            )
        Z = _check_input(Z, "Z")
        if not callable(self.kernel):
            _check_width(Z, X.shape[1], "Z")
        return Z

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _check_input(x: Any, name: str) -> Any:
    try:
        x = check_array(x, input_name=name, **_ACCEPTED)
    except ValueError as error:
        raise AttributeDataError(str(error).rstrip("."), place=name) from error
    return check_attributes(x, x.shape[0])


def _check_width(x: Any, width: int, name: str) -> None:
    if x.shape[1] != width:
        raise AttributeDataError(
            f"{name} has {x.shape[1]} features, but WKSVD is expecting {width} features as input"
        )
