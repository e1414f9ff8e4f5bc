"""Leading singular triples of a matrix or an operator, the same on every call."""

from __future__ import annotations

import inspect
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, aslinearoperator, eigsh

from ._graph import MANY_NODES, SAMPLED_NODES

__all__ = [
    "column_signs",
    "leading_svd",
    "leading_triples",
    "linear_operator",
    "padded",
    "subspace_svd",
]

Triples: TypeAlias = tuple[NDArray[Any], NDArray[np.float64], NDArray[Any]]
"""P (n, s), sigma (s,) in descending order, Q (m, s)."""

_MAX_DENSE = 100
"""Operators with a side up to this, or up to twice the triples asked for, are made dense."""

LOOSE = 0.03
"""Tolerance of the vectors of large matrices; the values are then right to about 1e-6."""

_SUBSPACE_ROUNDS = 6
"""Rounds of :func:`subspace_svd`, two passes over the data each."""


def leading_svd(matrix: Any, k: int) -> Triples:
    """Leading k triples, padded with zeros where the rank is less than k.

    `matrix` is dense, sparse or a LinearOperator of shape (n, m). With more than
    :data:`MANY_NODES` rows and columns they are approximate. The largest entry of every left
    vector is positive.
    """
    P, sigma, Q = leading_triples(matrix, k, exact_up_to=MANY_NODES)
    signs = column_signs(P).astype(P.dtype)
    # In place: these are the arrays that are large where n is.
    P *= signs
    Q *= signs
    return (P, sigma, Q) if len(sigma) == k else (padded(P, k), padded(sigma, k), padded(Q, k))


def leading_triples(
    A: Any, s: int, *, noise: float = 0.0, exact_up_to: int = SAMPLED_NODES
) -> Triples:
    """At most `s` leading triples of A, those with sigma above rounding errors.

    Parameters
    ----------
    A : array, sparse matrix or LinearOperator of shape (n, m)
        An array is factorised completely, anything else only by products with it.
    s : int
    noise : float
        Norm of what was subtracted to make A, whose rounding errors are still in it.
    exact_up_to : int
        With more rows and columns than this the vectors are approximate (:data:`LOOSE`), above
        :data:`SAMPLED_NODES` also in single precision. Operators that ask for it by an attribute
        ``few_passes`` are then left to :func:`subspace_svd`.
    """
    small = min(A.shape)
    eps = float(np.finfo(np.float64).eps)
    relative = eps * max(A.shape)
    if not isinstance(A, np.ndarray) and small <= max(2 * s + 1, _MAX_DENSE):
        A = _materialised(A)
    if isinstance(A, np.ndarray):
        P, sigma, Qt = np.linalg.svd(A, full_matrices=False)
        Q = Qt.T
    elif small > exact_up_to and getattr(A, "few_passes", False):
        P, sigma, Q = subspace_svd(A, s)
        relative = max(relative, float(np.finfo(np.float32).eps))
    else:
        P, sigma, Q = _lanczos(aslinearoperator(A), s, relative * noise, small > exact_up_to)
        # Iterations on A'A cannot tell smaller values from zero.
        precision = np.finfo(np.float32).eps if small > SAMPLED_NODES else eps
        relative = max(relative, float(precision) ** 0.5)
    largest = float(sigma[0]) if sigma.size else 0.0
    zero = max(relative * largest, eps * max(A.shape) * (largest + noise))
    rank = min(s, int(np.count_nonzero(sigma > zero)))
    return P[:, :rank], sigma[:rank], Q[:, :rank]


def subspace_svd(A: Any, s: int) -> Triples:
    """Leading `s` triples of a large matrix or operator, in single precision.

    Subspace iteration with some more columns than asked for. It needs few passes over the
    data, each with many columns at once, where Lanczos needs hundreds with one: what counts when
    the data lie on a disk. Values that stand out from the rest are found to several digits; for
    sparse links, where none does, it is not enough.
    """
    rng = np.random.default_rng(0)
    columns = min(s + 20, *A.shape)
    Q = rng.standard_normal((A.shape[1], columns), dtype=np.float32)
    for _ in range(_SUBSPACE_ROUNDS):
        P = np.linalg.qr(np.asarray(A @ Q, dtype=np.float32))[0]
        Q = np.linalg.qr(np.asarray(A.T @ P, dtype=np.float32))[0]
    P, sigma, Wt = np.linalg.svd(np.asarray(A @ Q, dtype=np.float32), full_matrices=False)
    return P[:, :s], sigma[:s].astype(np.float64), Q @ Wt[:s].T


def _lanczos(A: Any, s: int, zero: float, loose: bool) -> Triples:
    """Leading `s` triples of an operator, from the eigenvectors of A'A or AA', the smaller one."""
    if A.shape[0] < A.shape[1]:
        Q, sigma, P = _lanczos(A.T, s, zero, loose)
        return P, sigma, Q
    n, m = A.shape
    rng = np.random.default_rng(0)
    dtype = np.float32 if m > SAMPLED_NODES else np.float64
    start = rng.standard_normal(m).astype(dtype)
    if np.linalg.norm(A @ start) <= zero * np.sqrt(m):
        # Centring left nothing; Lanczos cannot start from a zero vector.
        return np.zeros((n, 0)), np.zeros(0), np.zeros((m, 0))
    gram = LinearOperator((m, m), matvec=lambda x: A.rmatvec(A.matvec(x)), dtype=dtype)
    # Random restarts inside Lanczos must not depend on the system's noise: svds leaves them to it.
    options: dict[str, Any] = {"tol": LOOSE, "ncv": s + max(s + 1, 40)} if loose else {}
    if "rng" in inspect.signature(eigsh).parameters:
        options["rng"] = rng
    _, vectors = eigsh(gram, k=s, v0=start, **options)
    basis, _ = np.linalg.qr(vectors)
    # Singular vectors within the subspace from A itself: more exact than from A'A.
    P, sigma, Wt = np.linalg.svd(A.matmat(basis), full_matrices=False)
    return P, sigma, (Wt @ basis.T).T


def linear_operator(shape: tuple[int, int], matmat: Any, rmatmat: Any) -> Any:
    """LinearOperator from two functions that take vectors as well as matrices."""
    return LinearOperator(
        shape, matvec=matmat, rmatvec=rmatmat, matmat=matmat, rmatmat=rmatmat, dtype=np.float64
    )


def _materialised(A: Any) -> NDArray[np.float64]:
    """A matrix or operator with one short side as an array."""
    if sp.issparse(A):
        return np.asarray(A.toarray(), dtype=np.float64)
    n, m = A.shape
    dense = A.matmat(np.eye(m)) if m <= n else A.rmatmat(np.eye(n)).T
    return np.asarray(dense, dtype=np.float64)


def column_signs(P: NDArray[Any]) -> NDArray[np.float64]:
    """Signs that make the largest entry of each column positive, shape (s,)."""
    if not P.size:
        return np.ones(P.shape[1])
    # Two passes rather than the absolute values, which would be another array of this size.
    return np.where(-P.min(axis=0) > P.max(axis=0), -1.0, 1.0)


def padded(array: NDArray[Any], s: int) -> NDArray[Any]:
    """Zero columns (or entries) up to s."""
    missing = s - array.shape[-1]
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])
