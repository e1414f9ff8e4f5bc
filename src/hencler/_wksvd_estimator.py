"""The estimator of the weighted kernel singular value decomposition."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ._errors import AttributeDataError, ParameterError, ResourceError
from ._graph import check_attributes
from ._kernels import KERNELS
from ._wksvd import (
    WKSVDSolution,
    check_weights,
    degrees,
    project,
    random_walk_weights,
    similarity_degrees,
    solve_dual,
    solve_primal,
)

__all__ = ["WKSVD"]

_MAX_KERNEL_ENTRIES = 1 << 27
"""Entries of the largest kernel matrix that is formed: 1 GiB, n = m = 11,585."""

# Whether values are finite is checked elsewhere, where the error can name the place.
_ACCEPTED = {
    "accept_sparse": "csr",
    "dtype": (np.float64, np.float32),
    "ensure_all_finite": False,
}


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
        return project(X, self._solution.mean_phi, self._solution.U)

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
        return project(Z, self._solution.mean_psi, self._solution.V)

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
        self.row_weights_ = check_weights(w1, n, "weights[0]")
        self.column_weights_ = check_weights(w2, m, "weights[1]")
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
