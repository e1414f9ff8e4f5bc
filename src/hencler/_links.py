"""Links as inputs: whom a node links to, and who links to it, in a few columns."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._errors import GraphError
from ._graph import SAMPLED_NODES, Graph
from ._order import restored
from ._singular import leading_svd, linear_operator
from ._state import checked

__all__ = ["LinkColumns", "known_links"]


class LinkColumns:
    r"""Coordinates of out-links and in-links in the leading singular vectors of the links.

    .. math:: N = (D_{out}+\tau_o)^{-1/2} A (D_{in}+\tau_i)^{-1/2}, \qquad
              N - \sigma_0 h q' \approx P \Lambda Q'

    with tau a share of the mean degree, which keeps small components from taking over, and with
    the pair :math:`h \propto (D_{out}+\tau_o)^{1/2}1`, :math:`q \propto (D_{in}+\tau_i)^{1/2}1`
    taken out, which tells nothing but the degrees. Out-links become the columns
    :math:`\sqrt n\,(N - \sigma_0hq')Q`, in-links :math:`\sqrt n\,(N - \sigma_0hq')'P`. Another
    graph's nodes are placed by their links with the nodes this was fitted on.

    Attributes
    ----------
    left, right : P and Q, arrays of shape (n, c)
    """

    SHIFT = 0.3
    """tau, in units of the mean degree."""

    left: NDArray[np.float64]
    right: NDArray[np.float64]

    def __init__(self, n_columns: int) -> None:
        self.n_columns = n_columns

    def fit(self, adjacency: Any) -> Self:
        d_out, d_in = (np.asarray(adjacency.sum(axis=axis)).ravel() for axis in (1, 0))
        tiny = np.finfo(float).tiny
        self.shifts = np.array([max(self.SHIFT * float(d.mean()), tiny) for d in (d_out, d_in)])
        self.out_root, self.in_root = (
            np.sqrt(d_out + self.shifts[0]),
            np.sqrt(d_in + self.shifts[1]),
        )
        self.norms = np.array([np.linalg.norm(root) for root in (self.out_root, self.in_root)])
        # Of very large graphs the singular vectors are what takes memory: single precision.
        dtype = np.float64 if len(d_out) <= SAMPLED_NODES else np.float32
        left, right = ((1 / root).astype(dtype) for root in (self.out_root, self.in_root))
        adjacency = adjacency.astype(dtype, copy=False)
        scaled = sp.csr_array(sp.diags_array(left) @ adjacency @ sp.diags_array(right))
        h = (self.out_root / self.norms[0]).astype(dtype)
        q = (self.in_root / self.norms[1]).astype(dtype)
        self.sigma0 = float(h @ (scaled @ q))

        def matmat(x: NDArray[Any]) -> NDArray[Any]:
            return scaled @ x - np.multiply.outer(h, self.sigma0 * (q @ x))

        def rmatmat(y: NDArray[Any]) -> NDArray[Any]:
            return scaled.T @ y - np.multiply.outer(q, self.sigma0 * (h @ y))

        operator = linear_operator(scaled.shape, matmat, rmatmat)
        self.left, _, self.right = leading_svd(operator, self.n_columns)
        return self

    def transform(self, out_links: Any, in_links: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Columns of nodes from their links to (n', n) and from (n', n) the known nodes."""
        d_out, d_in = (np.asarray(links.sum(axis=1)).ravel() for links in (out_links, in_links))
        return self.columns(out_links, in_links, d_out, d_in)

    def columns(
        self, out_links: Any, in_links: Any, d_out: NDArray[Any], d_in: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """As :meth:`transform`, with degrees that may be others than the links given."""
        parts = (
            (out_links, d_out, self.in_root, self.right, 0),
            (in_links, d_in, self.out_root, self.left, 1),
        )
        made = []
        for links, d, other_root, vectors, side in parts:
            root = np.sqrt(d + self.shifts[side]).astype(vectors.dtype)
            other = other_root.astype(vectors.dtype)
            weights = links.astype(vectors.dtype, copy=False)
            columns = weights @ (vectors / other[:, None])
            columns /= root[:, None]
            trivial = (other / self.norms[1 - side].astype(vectors.dtype)) @ vectors
            columns -= np.outer(root, self.sigma0 / self.norms[side] * trivial)
            columns *= np.sqrt(len(self.left)).astype(vectors.dtype)
            made.append(columns)
        return made[0], made[1]

    def restore_order(self, order: NDArray[np.int64]) -> None:
        """Give the nodes fitted on the places they had before they were put in `order`."""
        for name in ("left", "right", "out_root", "in_root"):
            setattr(self, name, restored(getattr(self, name), order))

    def state(self) -> dict[str, NDArray[Any]]:
        names = ("left", "right", "out_root", "in_root", "shifts", "norms")
        return {**{n: getattr(self, n) for n in names}, "sigma0": np.array([self.sigma0])}

    @classmethod
    def from_state(cls, state: dict[str, NDArray[Any]], n: int | None = None) -> Self:
        """`n`: nodes fitted on, where that is known."""
        shapes = {"left": "nc", "right": "nc", "out_root": "n", "in_root": "n"}
        shapes |= {"shifts": "2", "norms": "2", "sigma0": "1"}
        state = checked(state, shapes, {"n": n, "1": 1, "2": 2})
        self = cls(state["left"].shape[1])
        for name, value in state.items():
            setattr(self, name, value)
        self.sigma0 = float(state["sigma0"][0])
        return self


class Links(NamedTuple):
    """Links of some nodes to (out) and from (into) the n known nodes, CSR (n', n) each."""

    out: Any
    into: Any


def known_links(graph: Graph, known_ids: NDArray[Any], *, required: bool = True) -> Links:
    """Links of a graph's nodes to and from the nodes with the known ids.

    Links with other nodes say nothing to a model that never saw them, and are left out. A graph
    without ids of its own is known by position, if it has as many nodes as the one fitted on.
    Where no node is known, `required` makes it an error; else there are just no links.
    """
    ids, n, m = graph.ids, graph.n_nodes, len(known_ids)
    if n == m and (not graph.has_ids or np.array_equal(ids, known_ids)):
        return Links(graph.adjacency, graph.adjacency.T.tocsr())
    same, at = np.zeros(n, dtype=bool), np.zeros(n, dtype=np.int64)
    if graph.has_ids:
        if ids.dtype.kind != known_ids.dtype.kind:
            ids, known_ids = ids.astype(str), known_ids.astype(str)
        order = np.argsort(known_ids)
        at = order[np.minimum(np.searchsorted(known_ids, ids, sorter=order), m - 1)]
        same = known_ids[at] == ids
    if required and not same.any():
        raise GraphError(
            "none of the graph's nodes is known to the model, which was fitted on links",
            remedy="Use the same node ids, or fit a model with attributes and view='own'",
        )
    rows = np.flatnonzero(same)
    select = sp.csr_array((np.ones(len(rows)), (rows, at[rows])), shape=(n, m))
    return Links((graph.adjacency @ select).tocsr(), (graph.adjacency.T @ select).tocsr())
