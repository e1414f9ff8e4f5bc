r"""Attribute preparation, chosen from the data itself.

Two kinds are told apart. *Words*: non-negative, mostly zero, many columns (bags of words, items,
counts). *Measurements*: everything else. Both come out with rows of about unit length, so that
nothing later depends on the unit of the input.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._errors import ModelFileError
from ._graph import SAMPLED_NODES, row_blocks, sampled_nodes
from ._singular import leading_svd, linear_operator
from ._state import checked

__all__ = ["Measurements", "Preparation", "Words", "feature_rows", "prepare"]

WORDS_MIN_COLUMNS = 64
"""Fewer columns than this are never treated as words."""

WORDS_MAX_DENSITY = 0.5

MAX_COLUMNS = 512
"""Measurements with more columns are reduced to :data:`REDUCED_COLUMNS` first."""

REDUCED_COLUMNS = 256

_TINY = 1e-12


class Words:
    r"""Soft length normalisation: what a node holds, and a little of how much.

    With :math:`\ell_v = \log(1 + \#\text{attributes of } v)`, the content of v is its tf-idf row
    scaled to the length :math:`\ell_v / \bar\ell`. Values that are not whole numbers are taken
    as weighted already and get no idf. The *magnitude* is the standardised :math:`\ell_v` with
    the weight :math:`(\mathrm{std}\,\ell / \bar\ell)^2`: it matters where the lengths differ
    a lot, and is silent elsewhere.
    """

    kind = "words"

    def fit(self, x: Any) -> Self:
        x = sp.csr_array(x)
        n, d = x.shape
        self.idf = np.ones(d)
        if np.all(x.data == np.round(x.data)):
            holders = np.bincount(x.indices, minlength=d)
            self.idf = np.log((1 + n) / (1 + holders)) + 1
        lengths = np.log1p(np.diff(x.indptr))
        self.mean, self.std = max(float(lengths.mean()), _TINY), max(float(lengths.std()), _TINY)
        return self

    def content(self, x: Any) -> Any:
        """CSR matrix of shape (n, d), non-negative."""
        x = sp.csr_array(x)
        unit = _unit(abs(x).max(axis=1).toarray())
        weighted = sp.diags_array(1 / unit) @ x @ sp.diags_array(self.idf)
        norms = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
        lengths = np.log1p(np.diff(x.indptr)) / self.mean
        return sp.csr_array(sp.diags_array(lengths / np.maximum(norms, _TINY)) @ weighted)

    def magnitude(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """Of nodes with so many attributes (the count may be an estimate), shape (n,)."""
        z = (np.log1p(counts) - self.mean) / self.std
        return z * (self.std / self.mean) ** 2

    def features(self, x: Any) -> Any:
        """Non-negative features, shape (n, d + 2): content, and the magnitude split by sign."""
        content = self.content(x)
        z = self.magnitude(np.diff(content.indptr))
        return sp.hstack([content, *(np.maximum(s * z, 0)[:, None] for s in (1, -1))]).tocsr()

    @property
    def groups(self) -> NDArray[np.int64]:
        """Attribute that each feature belongs to, -1 for the magnitude; shape (d + 2,)."""
        return np.r_[np.arange(len(self.idf)), -1, -1]

    def state(self) -> dict[str, NDArray[Any]]:
        return {"idf": self.idf, "lengths": np.array([self.mean, self.std])}

    @classmethod
    def from_state(cls, state: dict[str, NDArray[Any]], d: int | None = None) -> Self:
        """`d`: number of attributes, where that is known."""
        self = cls()
        state = checked(state, {"idf": "d", "lengths": "2"}, {"d": d, "2": 2})
        self.idf = state["idf"]
        self.mean, self.std = (float(v) for v in state["lengths"])
        return self


class Measurements:
    r"""Columns of mean 0 and variance 1, divided by the root of their number.

    Constant columns are left out. More than :data:`MAX_COLUMNS` are reduced to their leading
    principal directions. 0/1 columns that exclude each other and always sum to one are the
    values of one categorical attribute, and stay together in `groups`.
    """

    kind = "measurements"

    def fit(self, x: Any) -> Self:
        x = _dense(x)
        unit = _unit(np.abs(x).max(axis=0))
        scaled = x / unit
        mean, std = scaled.mean(axis=0), scaled.std(axis=0)
        keep = std > _TINY
        self.groups_of_columns = _categorical_groups(x[:, keep])
        width = int(keep.sum())
        self.unit = unit[keep]
        self.mean = mean[keep]
        self.scale = 1 / (std[keep] * np.sqrt(max(width, 1)))
        self.keep = np.flatnonzero(keep)
        self.basis = np.zeros((0, 0))
        if width > MAX_COLUMNS:
            self.basis = leading_svd(self._standardised(x), REDUCED_COLUMNS)[2]
            self.groups_of_columns = np.arange(REDUCED_COLUMNS)
        return self

    def _standardised(self, x: Any) -> NDArray[np.float64]:
        return (_dense(x)[:, self.keep] / self.unit - self.mean) * self.scale

    def content(self, x: Any) -> NDArray[np.float64]:
        """Array of shape (n, c) with mean 0."""
        z = self._standardised(x)
        return z @ self.basis if self.basis.size else z

    def features(self, x: Any) -> NDArray[np.float64]:
        """Non-negative features, shape (n, 2 c): the content split by sign."""
        z = self.content(x)
        return np.hstack([np.maximum(z, 0), np.maximum(-z, 0)])

    @property
    def groups(self) -> NDArray[np.int64]:
        """Attribute that each feature belongs to, shape (2 c,)."""
        return np.r_[self.groups_of_columns, self.groups_of_columns]

    def state(self) -> dict[str, NDArray[Any]]:
        names = ("unit", "mean", "scale", "keep", "basis", "groups_of_columns")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_state(cls, state: dict[str, NDArray[Any]], d: int | None = None) -> Self:
        """`d`: number of attributes, where that is known."""
        self = cls()
        reduced = state["basis"].size > 0
        shapes = dict.fromkeys(("keep", "unit", "mean", "scale"), "c")
        shapes |= {"basis": "cb" if reduced else "00"}
        shapes |= {"groups_of_columns": "b" if reduced else "c"}
        integers = ("keep", "groups_of_columns")
        for name, value in checked(state, shapes, {"0": 0}, integers=integers).items():
            setattr(self, name, value)
        groups = self.groups_of_columns
        if not (_all_within(self.keep, d or np.inf) and _all_within(groups, len(groups))):
            raise ModelFileError("the columns of the attributes are not those of a model")
        return self


Preparation = Words | Measurements


def feature_rows(preparation: Preparation, x: Any) -> Any:
    """Features of all nodes, shape (n, c): CSR, an array, or for many nodes an operator.

    The operator prepares the attributes block by block whenever it is applied, so that nothing of
    their size is held beside them.
    """
    n = x.shape[0]
    if isinstance(preparation, Words) or n <= SAMPLED_NODES:
        return preparation.features(x)
    width = len(preparation.groups)

    def matmat(z: NDArray[Any]) -> NDArray[Any]:
        out = np.empty((n, *z.shape[1:]), dtype=z.dtype)
        for rows in row_blocks(n, 2 * width):
            out[rows] = preparation.features(x[rows]) @ z
        return out

    def rmatmat(z: NDArray[Any]) -> NDArray[Any]:
        total = np.zeros((width, *z.shape[1:]))
        for rows in row_blocks(n, 2 * width):
            total += preparation.features(x[rows]).T @ z[rows]
        return total

    operator = linear_operator((n, width), matmat, rmatmat)
    operator.few_passes = True
    return operator


def prepare(x: Any) -> Preparation | None:
    """The preparation that suits the attributes; None where they tell no two nodes apart.

    Of many nodes with a dense table, a sample decides and gives the means and scales.
    """
    if not sp.issparse(x):
        x = x[sampled_nodes(x.shape[0])]
    n, d = x.shape
    values = x.data if sp.issparse(x) else np.asarray(x)
    filled = np.count_nonzero(values) / (n * d)
    words = d >= WORDS_MIN_COLUMNS and filled < WORDS_MAX_DENSITY and values.min(initial=0) >= 0
    if words:
        return Words().fit(x) if filled else None
    fitted = Measurements().fit(x)
    return fitted if len(fitted.keep) else None


def _all_within(positions: NDArray[np.int64], n: float) -> bool:
    """Whether there are any, and all are in 0 ... n - 1."""
    return positions.size > 0 and bool(positions.min() >= 0 and positions.max() < n)


def _unit(largest: NDArray[Any]) -> NDArray[np.float64]:
    """Powers of two just above `largest`: dividing by them is exact, and squares stay in range."""
    # 2^1024 is infinite, and the inverse of less than 2^-1022 is.
    exponent = np.clip(np.frexp(largest)[1], -1022, 1023)
    return np.asarray(np.ldexp(1.0, np.where(largest > 0, exponent, 0)))


def _dense(x: Any) -> NDArray[np.float64]:
    return np.asarray(x.toarray() if sp.issparse(x) else x, dtype=np.float64)


def _categorical_groups(x: NDArray[np.float64]) -> NDArray[np.int64]:
    """Number of the attribute that each column belongs to, shape (c,)."""
    c = x.shape[1]
    groups = np.full(c, -1)
    binary = [j for j in range(c) if c <= MAX_COLUMNS and np.isin(x[:, j], (0.0, 1.0)).all()]
    together = x[:, binary].T @ x[:, binary] > 0
    n_groups = 0
    for i, j in enumerate(binary):
        if groups[j] >= 0:
            continue
        members = [i]
        for other in range(i + 1, len(binary)):
            if groups[binary[other]] < 0 and not together[other, members].any():
                members.append(other)
        columns = [binary[m] for m in members]
        if len(members) > 1 and np.all(x[:, columns].sum(axis=1) == 1):
            groups[columns] = n_groups
            n_groups += 1
    alone = np.flatnonzero(groups < 0)
    groups[alone] = n_groups + np.arange(len(alone))
    return groups
