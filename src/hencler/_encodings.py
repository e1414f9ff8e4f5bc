"""Random-walk positional encoding: return probabilities, without the powers of P.

Exact for most graphs. Beyond :data:`EXACT_ENTRIES` links the steps between the first and the last
are sampled: time is linear in the links whatever the degrees, and memory is that of a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._errors import GraphError, ParameterError
from ._graph import edge_blocks
from ._progress import announce

__all__ = ["EXACT_ENTRIES", "node_encoding", "random_walk_encoding", "sampled_encoding"]

EXACT_ENTRIES = 1 << 22
"""Graphs with more links than this get the sampled encoding: the exact one holds some 12 copies of
the links, and its time grows with the squares of the degrees."""

_BLOCK_ENTRIES = 1 << 22
"""Entries of products held at once: about 100 MB with the temporaries."""

_SAMPLED_BLOCK = 1 << 20
"""Links that walk at once: about 100 MB with the temporaries."""


def node_encoding(adjacency: Any, length: int = 3) -> NDArray[np.float32]:
    """The encoding that the networks read, exact or sampled by the number of links."""
    if adjacency.nnz <= EXACT_ENTRIES:
        return random_walk_encoding(adjacency, length).astype(np.float32)
    return sampled_encoding(adjacency, length)


def random_walk_encoding(
    adjacency: Any, length: int = 3, *, block_entries: int = _BLOCK_ENTRIES
) -> NDArray[np.float64]:
    r"""Probability that a random walk is back at its start after 1, ..., `length` steps.

    .. math:: \mathrm{PE}_v = (P_{vv}, (P^2)_{vv}, \dots, (P^L)_{vv}), \qquad P = D_{out}^{-1} A

    Up to three steps these are sums over links that run both ways and over directed triangles,
    each found from its node of fewest links. Beyond, the diagonals follow from half the power
    each way, :math:`(P^{a+b})_{vv} = \sum_u (P^a)_{vu} (P^b)_{uv}` with :math:`a = b` or
    :math:`a = b + 1`, for a block of nodes v at a time: no power beyond
    :math:`\lceil L/2 \rceil` occurs, and of those only some rows and columns exist at once.

    Parameters
    ----------
    adjacency : matrix of shape (n, n), sparse or dense
        Entry (u, v) >= 0 is the weight of the edge from u to v. Nodes without out-edges end the
        walk: their row of P is zero. Self-loops count as steps; none are added.
    length : int
        Number L of columns.
    block_entries : int
        Bound on the entries of products that exist at once. The rows of a single node are
        never split, so that up to 2n are possible.

    Returns
    -------
    encoding : float64 array of shape (n, length)
    """
    if length < 1:
        raise ParameterError(f"length={length}", remedy="Ask for at least one step")
    if block_entries < 1:
        raise ParameterError(f"block_entries={block_entries}", remedy="Give a positive number")
    p = _transition_matrix(adjacency)
    p_t = sp.csr_array(p.T)
    encoding = np.zeros((p.shape[0], length))
    encoding[:, 0] = p.diagonal()
    if length > 3:
        _fill_by_halves(encoding, p, p_t, block_entries)
    elif length > 1:
        encoding[:, 1] = _row_dots(p, p_t)
    if length == 3:
        encoding[:, 2] = _three_steps(p, block_entries)
    return encoding


def _transition_matrix(adjacency: Any) -> Any:
    """P = D_out^-1 A as CSR; rows without weight stay zero."""
    a = sp.csr_array(adjacency, dtype=np.float64)
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise GraphError(f"the adjacency has shape {a.shape}", remedy="Give a square matrix")
    degree = np.asarray(a.sum(axis=1)).ravel()
    degree[degree == 0] = 1.0
    data = a.data / np.repeat(degree, np.diff(a.indptr))
    return sp.csr_array((data, a.indices, a.indptr), shape=a.shape)


def _row_dots(left: Any, right: Any) -> NDArray[np.float64]:
    return _sum(left.multiply(right), axis=1)


def _sum(matrix: Any, axis: int) -> NDArray[np.float64]:
    return np.asarray(matrix.sum(axis=axis), dtype=np.float64).ravel()


# --- large graphs: sampled walks -----------------------------------------------------------------


def sampled_encoding(
    adjacency: Any, length: int = 3, *, seed: int = 0, block_entries: int = _SAMPLED_BLOCK
) -> NDArray[np.float32]:
    r"""Unbiased estimate of :func:`random_walk_encoding` in O(E log d) time and bounded memory.

    .. math:: (P^{t+1})_{vv} = \sum_u P_{vu}\, E[P_{w_t v} \mid w_1 = u]

    A walk leaves v by each of its links u once, weighted by :math:`P_{vu}`; the steps
    :math:`w_2, \dots, w_t` are drawn; the last step, back to v, is looked up. So the first two
    columns are exact, and the third is a mean over as many walks as v has links. Draws depend on
    `seed` and the block alone: the same graph has the same encoding on every call.

    Parameters
    ----------
    adjacency : CSR matrix of shape (n, n) in canonical format, maybe memory-mapped
    length : int
    block_entries : links that walk at once; other values give other draws

    Returns
    -------
    encoding : float32 array of shape (n, length)
    """
    walk = _Walk(adjacency)
    encoding = np.zeros((adjacency.shape[0], length), dtype=np.float32)
    for rows, source, target in edge_blocks(adjacency, block_entries):
        rng = np.random.default_rng([seed, rows.start])
        at = slice(int(walk.indptr[rows.start]), int(walk.indptr[rows.stop]))
        weight = walk.data[at] / walk.degree[source]
        here = target.astype(np.int64)
        local, size = source - rows.start, rows.stop - rows.start
        encoding[rows, 0] = np.bincount(local, weight * (here == source), minlength=size)
        for step in range(1, length):
            if step > 1:
                here, weight = walk.step(here, weight, rng)
            back = weight * walk.probability(here, source)
            encoding[rows, step] = np.bincount(local, back, minlength=size)
    return encoding


class _Walk:
    """Random walk on a CSR matrix that is only looked at, never copied."""

    def __init__(self, adjacency: Any) -> None:
        self.indptr, self.indices = adjacency.indptr, adjacency.indices
        self.data = adjacency.data
        self.uniform = self.data.strides == (0,)  # all weights are the same number
        self.degree = np.zeros(adjacency.shape[0])
        for rows, source, _ in edge_blocks(adjacency, _SAMPLED_BLOCK):
            at = slice(int(self.indptr[rows.start]), int(self.indptr[rows.stop]))
            size = rows.stop - rows.start
            self.degree[rows] = np.bincount(source - rows.start, self.data[at], minlength=size)
        self.degree[self.degree == 0] = 1.0

    def step(
        self, here: NDArray[np.int64], weight: NDArray[Any], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Leave each node by a link drawn uniformly; the weight makes up for the links' weights."""
        start = self.indptr[here].astype(np.int64)
        count = self.indptr[here + 1] - start
        at = start + (rng.random(len(here)) * count).astype(np.int64)
        at = np.minimum(at, len(self.indices) - 1)  # where there is no way out, the weight is 0
        if self.uniform:
            weight = weight * (count > 0)
        else:
            weight = weight * (count * self.data[at] / self.degree[here])
        return self.indices[at].astype(np.int64), weight

    def probability(self, source: NDArray[np.int64], target: NDArray[Any]) -> NDArray[Any]:
        """P of each pair of nodes, by bisection in the source's row."""
        low = self.indptr[source].astype(np.int64)
        end = self.indptr[source + 1].astype(np.int64)
        high = end.copy()
        active = np.flatnonzero(low < high)
        while len(active):
            lo, hi = low[active], high[active]
            middle = (lo + hi) >> 1
            right = self.indices[middle] < target[active]
            low[active] = lo = np.where(right, middle + 1, lo)
            high[active] = hi = np.where(right, hi, middle)
            active = active[lo < hi]
        out = np.zeros(len(source))
        inside = np.flatnonzero(low < end)
        at = low[inside]
        hit = self.indices[at] == target[inside]
        found = inside[hit]
        out[found] = self.data[at[hit]] / self.degree[source[found]]
        return out


# --- three steps: triangles ------------------------------------------------------------------


def _three_steps(p: Any, block_entries: int) -> NDArray[np.float64]:
    r"""Diagonal of P^3, shape (n,): walks round directed triangles, and walks with self-loops.

    Nodes are ordered by their number of links, the fewest first; U holds the links to later
    nodes, L those to earlier ones. Every triangle is met three times, once for each of its nodes:

    * its last two, by a walk between them through the first: rows and columns of
      :math:`(LU) \circ P^T`;
    * its first, by a walk to the last through the middle one, along the links, rows of
      :math:`(UU) \circ L^T`, or against them, rows of :math:`(L^T L^T) \circ U`.

    No product steps through a node's links to earlier nodes, which only hubs have many of: on
    heavy-tailed graphs that is most of the work of a plain product P P.
    """
    n = p.shape[0]
    links = np.diff(p.indptr) + np.bincount(p.indices, minlength=n)
    order = np.argsort(links, kind="stable")
    p = sp.csr_array(p[order][:, order])
    loop = p.diagonal()
    u, l = sp.csr_array(sp.triu(p, 1)), sp.csr_array(sp.tril(p, -1))
    u_t, l_t = sp.csr_array(u.T), sp.csr_array(l.T)
    others, others_t = u + l, u_t + l_t

    rows, columns = _masked_product_sums(l, u, others_t, block_entries)
    back = rows + columns
    back += _masked_product_sums(u, u, l_t, block_entries)[0]
    back += _masked_product_sums(l_t, l_t, u, block_entries)[0]
    # v v v v; v v u v and v u v v; v u u v
    back += loop**3 + 2 * loop * _row_dots(others, others_t)
    back += others.multiply(others_t) @ loop
    out = np.empty(n)
    out[order] = back
    return out


def _masked_product_sums(
    left: Any, right: Any, mask: Any, block_entries: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Row sums and column sums of (left right) o mask, with some rows of the product at a time."""
    n = left.shape[0]
    rows, columns = np.zeros(n), np.zeros(n)
    fill = np.minimum(n, _pattern(left) @ np.diff(right.indptr))
    for block in _blocks(fill, block_entries):
        product = (left[block] @ right).multiply(mask[block])
        rows[block] = _sum(product, axis=1)
        columns += _sum(product, axis=0)
    return rows, columns


# --- more steps: half the power each way -------------------------------------------------------


def _fill_by_halves(encoding: NDArray[np.float64], p: Any, p_t: Any, block_entries: int) -> None:
    """Write the diagonals of P^2, P^3, ... into the columns of `encoding` from the second on."""
    length = encoding.shape[1]
    for rows in _blocks(_fill(p, p_t, length), block_entries):
        left, right = p[rows], p_t[rows]  # rows of P^a; columns of P^b, as rows
        encoding[rows, 1] = _row_dots(left, right)
        for steps in range(3, length + 1):
            if steps % 2:
                left = left @ p
            else:
                right = right @ p_t
            encoding[rows, steps - 1] = _row_dots(left, right)


def _fill(p: Any, p_t: Any, length: int) -> NDArray[np.float64]:
    """Upper bound on the entries of row v of P^a plus column v of P^b at any step, shape (n,).

    A row of P^a has at most as many entries as there are walks of a steps from v, and at most n.
    """
    n = p.shape[0]
    out, into = (_pattern(m) for m in (p, p_t))
    left, right = (np.diff(m.indptr).astype(np.float64) for m in (p, p_t))
    most = left + right
    for steps in range(3, length + 1):
        if steps % 2:
            left = np.minimum(n, out @ left)
        else:
            right = np.minimum(n, into @ right)
        most = np.maximum(most, left + right)
    return most


def _pattern(matrix: Any) -> Any:
    ones = np.ones(matrix.indices.size)
    return sp.csr_array((ones, matrix.indices, matrix.indptr), shape=matrix.shape)


def _blocks(fill: NDArray[np.float64], budget: int) -> Iterator[slice]:
    """Consecutive nodes whose `fill` adds up to at most `budget`, one node at least."""
    total = np.concatenate([[0.0], np.cumsum(fill)])
    start = 0
    while start < fill.size:
        announce("positional encoding", start, fill.size)
        stop = int(np.searchsorted(total, total[start] + budget, side="right")) - 1
        stop = min(max(stop, start + 1), fill.size)
        yield slice(start, stop)
        start = stop
