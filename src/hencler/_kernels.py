"""Similarity functions for the dual: k(X, Z) is the matrix of S_ij = k(x_i, z_j).

Degree weights need S >= 0: ``rbf`` and ``sne`` always are, ``linear`` is for non-negative X and Z.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.extmath import safe_sparse_dot

from ._errors import ParameterError

__all__ = ["KERNELS", "Kernel", "linear", "rbf", "sne"]

Kernel: TypeAlias = Callable[..., NDArray[Any]]


def linear(X: Any, Z: Any) -> NDArray[Any]:
    """Inner products, S_ij = x_i' z_j, shape (n, m); symmetric when X is Z."""
    return np.asarray(safe_sparse_dot(X, Z.T, dense_output=True))


def rbf(X: Any, Z: Any, *, bandwidth: float | None = None) -> NDArray[Any]:
    """Gaussian kernel, S_ij = exp(-|x_i - z_j|^2 / (2 bandwidth^2)) > 0, shape (n, m).

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
    Z : array or sparse matrix of shape (m, d)
    bandwidth : float, optional
        sqrt(d / 2) by default, which is right for columns of variance one.

    Examples
    --------
    >>> import numpy as np
    >>> from hencler._kernels import rbf
    >>> rbf(np.array([[0.0], [2.0]]), np.array([[0.0]]), bandwidth=2.0).round(4)
    array([[1.    ],
           [0.6065]])
    """
    if bandwidth is None:
        bandwidth = float(np.sqrt(X.shape[1] / 2))
    squares = _squared_distances(X, Z)
    return np.asarray(np.exp(squares / (-2.0 * _positive(bandwidth) ** 2)))


def sne(
    X: Any,
    Z: Any,
    *,
    bandwidth: float | None = None,
    n_neighbors: int = 10,
    reference: Any = None,
) -> NDArray[Any]:
    r"""Asymmetric kernel: the probability that x_i picks z_j as its neighbour, shape (n, m).

    .. math:: S_{ij} = \frac{\exp(-|x_i - z_j|^2 / 2 b_i^2)}
                            {\sum_{t \in T} \exp(-|x_i - t|^2 / 2 b_i^2)}

    The conditional probability of stochastic neighbour embedding, used as an asymmetric kernel
    by He et al. (2023). It is a function of two points, given the reference set T; rows sum to
    one when Z is T. S_ij and S_ji differ since the bandwidth and the sum are those of x_i.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
    Z : array or sparse matrix of shape (m, d)
    bandwidth : float, optional
        The same b for all rows. By default b_i is the distance from x_i to the
        `n_neighbors`-th nearest point of T, so that no scale has to be guessed.
    n_neighbors : int
        At most |T|; larger numbers count as |T|.
    reference : array or sparse matrix of shape (t, d), optional
        The set T, Z by default.
    """
    squares = _squared_distances(X, Z)
    to_reference = squares if reference is None else _squared_distances(X, reference)
    if bandwidth is None:
        widths = _local_widths(to_reference, n_neighbors)
    else:
        widths = np.full(len(squares), 2.0 * _positive(bandwidth) ** 2, dtype=squares.dtype)
    # The nearest reference point gets exponent 0, so the sum can neither vanish nor overflow.
    nearest = to_reference.min(axis=1, keepdims=True)
    total = np.exp((nearest - to_reference) / widths[:, None]).sum(axis=1, keepdims=True)
    # A point nearer than the whole reference set would overflow for a tiny bandwidth.
    exponent = np.minimum((nearest - squares) / widths[:, None], _largest_exponent(squares.dtype))
    return np.asarray(np.exp(exponent) / total)


KERNELS: dict[str, Kernel] = {"linear": linear, "rbf": rbf, "sne": sne}
"""Kernels by name; ``sne`` is the asymmetric one."""


def _squared_distances(X: Any, Z: Any) -> NDArray[Any]:
    return np.asarray(euclidean_distances(X, Z, squared=True))


def _local_widths(squares: NDArray[Any], n_neighbors: int) -> NDArray[Any]:
    """2 b_i^2 with b_i the distance to the `n_neighbors`-th nearest column, shape (n,)."""
    if n_neighbors < 1:
        raise ParameterError(f"n_neighbors={n_neighbors}", remedy="Give a positive number")
    k = min(n_neighbors, squares.shape[1]) - 1
    widths = 2.0 * np.partition(squares, k, axis=1)[:, k]
    # Duplicates of a row can fill its whole neighbourhood; its width must not become zero.
    floor = np.finfo(widths.dtype).eps * float(squares.max())
    return np.asarray(np.maximum(widths, floor if floor > 0 else 1.0))


def _positive(bandwidth: float) -> float:
    if not (np.isfinite(bandwidth) and bandwidth > 0):
        raise ParameterError(f"bandwidth={bandwidth}", remedy="Give a positive number")
    return float(bandwidth)


def _largest_exponent(dtype: Any) -> float:
    return float(np.log(np.finfo(dtype).max)) / 2
