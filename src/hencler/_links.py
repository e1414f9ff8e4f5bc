"""Links as inputs: whom a node links to, and who links to it, in a few columns."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, svds

from ._errors import GraphError
from ._graph import Graph

__all__ = ["LinkColumns", "known_links", "leading_svd"]


class LinkColumns:
    r"""Coordinates of out-links and in-links in the leading singular vectors of the links.

    .. math:: \bar A = (D_{out}+\tau_o)^{-1/2} A (D_{in}+\tau_i)^{-1/2} \approx P \Lambda Q'

    with tau the mean degree, which keeps small components from taking over. Out-links become
    the columns :math:`\bar A Q`, in-links :math:`\bar A' P`. Another graph's nodes are placed by
    their links to the nodes this was fitted on.

    Attributes
    ----------
    left, right : P and Q, arrays of shape (n, c)
    values : Lambda, shape (c,)
    """

    left: NDArray[np.float64]
    right: NDArray[np.float64]
    values: NDArray[np.float64]

    def __init__(self, n_columns: int) -> None:
        self.n_columns = n_columns

    def fit(self, adjacency: Any) -> Self:
        d_out, d_in = (np.asarray(adjacency.sum(axis=axis)).ravel() for axis in (1, 0))
        self.out_shift = max(float(d_out.mean()), np.finfo(float).tiny)
        self.in_shift = max(float(d_in.mean()), np.finfo(float).tiny)
        self.out_scale = (d_out + self.out_shift) ** -0.5
        self.in_scale = (d_in + self.in_shift) ** -0.5
        scaled = sp.diags_array(self.out_scale) @ adjacency @ sp.diags_array(self.in_scale)
        self.left, self.values, self.right = leading_svd(scaled.tocsr(), self.n_columns)
        return self

    def transform(self, out_links: Any, in_links: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Columns of nodes from their links to (n', n) and from (n', n) the known nodes."""
        d_out, d_in = (np.asarray(links.sum(axis=1)).ravel() for links in (out_links, in_links))
        out = sp.diags_array((d_out + self.out_shift) ** -0.5) @ out_links
        into = sp.diags_array((d_in + self.in_shift) ** -0.5) @ in_links
        return (
            out @ (self.in_scale[:, None] * self.right),
            into @ (self.out_scale[:, None] * self.left),
        )

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "left": self.left,
            "right": self.right,
            "values": self.values,
            "out_scale": self.out_scale,
            "in_scale": self.in_scale,
            "shifts": np.array([self.out_shift, self.in_shift]),
        }

    @classmethod
    def from_state(cls, state: dict[str, NDArray[Any]]) -> Self:
        self = cls(state["left"].shape[1])
        self.left, self.right, self.values = state["left"], state["right"], state["values"]
        self.out_scale, self.in_scale = state["out_scale"], state["in_scale"]
        self.out_shift, self.in_shift = (float(s) for s in state["shifts"])
        return self


class Links(NamedTuple):
    """Links of some nodes to (out) and from (into) the n known nodes, CSR (n', n) each."""

    out: Any
    into: Any


def known_links(graph: Graph, known_ids: NDArray[Any]) -> Links:
    """Links of a graph's nodes to and from the nodes with the known ids.

    Links with other nodes say nothing to a model that never saw them, and are left out.
    """
    ids = graph.ids
    if len(ids) == len(known_ids) and np.array_equal(ids, known_ids):
        return Links(graph.adjacency, graph.adjacency.T.tocsr())
    if ids.dtype.kind != known_ids.dtype.kind:
        ids, known_ids = ids.astype(str), known_ids.astype(str)
    order = np.argsort(known_ids)
    at = np.minimum(np.searchsorted(known_ids, ids, sorter=order), len(known_ids) - 1)
    same = known_ids[order[at]] == ids
    if not same.any():
        raise GraphError(
            "none of the graph's nodes is known to the model, which was fitted on links alone",
            remedy="Use the same node ids, or fit a model with attributes",
        )
    rows = np.flatnonzero(same)
    select = sp.csr_array(
        (np.ones(len(rows)), (rows, order[at[rows]])), shape=(len(ids), len(known_ids))
    )
    return Links((graph.adjacency @ select).tocsr(), (graph.adjacency.T @ select).tocsr())


def leading_svd(
    matrix: Any, k: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Leading k singular triples (P, values, Q), largest first, the same on every call.

    `matrix` is dense, sparse or a LinearOperator of shape (n, m). Signs are fixed by making the
    largest entry of every left vector positive. Missing ones (k > rank) are zero columns.
    """
    n, m = matrix.shape
    small = min(n, m)
    if k >= small or small <= 64:
        dense = matrix @ np.eye(m) if isinstance(matrix, LinearOperator) else matrix
        dense = dense.toarray() if sp.issparse(dense) else np.asarray(dense)
        left, values, right_t = np.linalg.svd(dense, full_matrices=False)
        left, values, right = left[:, :k], values[:k], right_t[:k].T
    else:
        start = np.random.default_rng(0).standard_normal(small)
        left, values, right_t = svds(matrix, k=k, v0=start, solver="arpack")
        order = np.argsort(-values)
        left, values, right = left[:, order], values[order], right_t[order].T
    if values.size < k:
        lack = k - values.size
        left = np.pad(left, ((0, 0), (0, lack)))
        right = np.pad(right, ((0, 0), (0, lack)))
        values = np.pad(values, (0, lack))
    # ARPACK returns arbitrary vectors for values that are zero up to rounding.
    dead = values <= values.max(initial=0.0) * max(n, m) * np.finfo(np.float64).eps
    left[:, dead], right[:, dead], values[dead] = 0.0, 0.0, 0.0
    signs = np.sign(left[np.abs(left).argmax(axis=0), np.arange(k)])
    signs[signs == 0] = 1.0
    return left * signs, values, right * signs
