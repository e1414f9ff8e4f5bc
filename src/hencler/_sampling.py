r"""Pairs of nodes for the edge loss, redrawn every step: edges, and true non-edges.

Both samplers give unbiased estimates of

.. math:: \tfrac12 \operatorname{mean}_{(u,v)\in E} \ell_1(u, v)
          + \tfrac12 \operatorname{mean}_{(u,v)\notin E,\, u\ne v} \ell_0(u, v)

as a weighted sum over a few pairs. :class:`PairSampler` draws from all nodes, for a full batch;
:class:`BatchPairSampler` draws pairs that start in a given batch of nodes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ._ranks import ALONE, Ranks

__all__ = [
    "BatchPairSampler",
    "BatchPairs",
    "DeviceBatchPairSampler",
    "DevicePairs",
    "PairSampler",
    "contains",
]

_MISSES = 1e-6
"""Largest share of non-edges that are drawn in vain, and then get weight 0."""

_MOST_REDRAWS = 16

_BLOCK = 1 << 20


class PairSampler:
    """Draws edges uniformly from E and pairs uniformly from its complement without loops.

    A pair (u, v) is the number u n + v. A draw costs O(log E), a look-up in sorted numbers, and
    nothing of size n x n exists. Pairs that hit an edge are drawn again, as often as the density
    of the graph asks for; on a GPU all of them are, so that the host never waits to hear which.

    Parameters
    ----------
    adjacency : CSR matrix of shape (n, n), in canonical format
    device : where the keys live and the pairs are drawn
    """

    def __init__(self, adjacency: Any, device: torch.device) -> None:
        self.n = n = int(adjacency.shape[0])
        rows = np.repeat(np.arange(n, dtype=np.int64), np.diff(adjacency.indptr))
        edges = rows * n + adjacency.indices
        # Edges and loops; the last number belongs to no pair and ends every look-up.
        taken = np.append(np.union1d(edges, np.arange(n, dtype=np.int64) * (n + 1)), n * n)
        self.edges, self.taken = (torch.from_numpy(keys).to(device) for keys in (edges, taken))
        self.redraws = _redraws((len(taken) - 1) / n**2)
        self.one = torch.ones(1, device=device)

    def draw(self, m: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """m edges and m non-edges: pairs (2, 2m), is_edge (2m,), weight (2m,) with sum 1."""
        n_edges = m if len(self.edges) else 0
        at = torch.randint(
            max(1, len(self.edges)), (n_edges,), generator=generator, device=self.edges.device
        )
        at = at.sort().values if at.device.type == "cpu" else at
        others, missed = self._non_edges(m, generator)
        keys = torch.cat([self.edges.index_select(0, at), others])
        edges = self.one.expand(n_edges)
        weight = torch.cat([edges, (~missed).to(edges.dtype)])
        return (
            torch.stack([torch.div(keys, self.n, rounding_mode="floor"), keys % self.n]),
            torch.cat([edges, torch.zeros_like(self.one).expand(m)]),
            weight / weight.sum().clamp(min=1.0),
        )

    def _non_edges(self, m: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Numbers of m pairs, and which of them hit an edge or a loop in every draw."""

        def fresh(*shape: int) -> tuple[Tensor, Tensor]:
            keys = torch.randint(self.n**2, shape, generator=generator, device=self.taken.device)
            if keys.device.type == "cpu":  # in ascending order, look-ups find what is in the cache
                keys = keys.sort().values
            return keys, self.taken[torch.searchsorted(self.taken, keys)] == keys

        if self.taken.device.type != "cpu":
            keys, bad = fresh(1 + self.redraws, m)
            first = bad.to(torch.uint8).argmin(0, keepdim=True)
            return keys.gather(0, first)[0], bad.gather(0, first)[0]
        keys, bad = fresh(m)
        for _ in range(self.redraws):
            at = bad.nonzero()[:, 0]
            if not len(at):
                break
            keys[at], bad[at] = fresh(len(at))
        return keys, bad


def _redraws(density: float) -> int:
    """How often pairs have to be redrawn until hardly any hits an edge or a loop."""
    if density >= 1:
        return _MOST_REDRAWS
    return min(_MOST_REDRAWS, math.ceil(math.log(_MISSES) / math.log(density)) - 1)


# --- minibatches -------------------------------------------------------------------------------


class DevicePairs(NamedTuple):
    """:class:`BatchPairs` as tensors on a device, of the same shapes in every draw."""

    pairs: Tensor
    is_edge: Tensor
    weight: Tensor
    targets: Tensor


class DeviceBatchPairSampler:
    """What :class:`BatchPairSampler` draws, by a GPU that holds all edges: 8 bytes each.

    The host never waits, and a batch of a given size always gets the same number of pairs, so that
    a step can be recorded.
    """

    def __init__(
        self, adjacency: Any, edge_share: float, other_share: float, device: torch.device
    ) -> None:
        n = self.n = int(adjacency.shape[0])
        self.n_edges = len(adjacency.indices)
        self.edge_share, self.other_share = edge_share, other_share
        self.indptr = torch.from_numpy(np.asarray(adjacency.indptr, dtype=np.int64)).to(device)
        # A last number beyond all pairs ends every look-up.
        self.keys = torch.full((self.n_edges + 1,), n * n, dtype=torch.int64, device=device)
        loops = torch.zeros((), dtype=torch.int64, device=device)
        for start in range(0, n, _BLOCK):
            ends = self.indptr[start : start + _BLOCK + 1]
            lo, hi = int(ends[0]), int(ends[-1])
            part = torch.from_numpy(np.asarray(adjacency.indices[lo:hi], dtype=np.int64)).to(device)
            rows = start + torch.arange(len(ends) - 1, device=device)
            rows = rows.repeat_interleave(ends.diff(), output_size=hi - lo)
            loops += (rows == part).sum()
            self.keys[lo:hi] = rows * n + part
        self.n_others = n * (n - 1) - (self.n_edges - int(loops))

    @staticmethod
    def bytes_needed(adjacency: Any) -> int:
        return 8 * (len(adjacency.indices) + len(adjacency.indptr) + 1)

    def draw(self, batch: Tensor, generator: torch.Generator) -> DevicePairs:
        """Pairs of the nodes in `batch`, (b,)."""
        b, device = len(batch), batch.device
        m = math.ceil(self.edge_share * b) if self.n_edges else 0
        k = math.ceil(self.other_share * b) if b > 1 and self.n_others else 0
        halves = 0.5 if m and k else 1.0
        sources, targets, mass = self._edges(batch, m, generator)
        edge_weight = mass.float() * (halves * self.n / b / max(1, self.n_edges) / max(1, m))
        source = torch.randint(b, (k,), generator=generator, device=device)
        target = torch.randint(1, max(2, b), (k,), generator=generator, device=device)
        target = target.add_(source).remainder_(b)
        keys = batch[source] * self.n + batch[target]
        absent = self.keys[torch.searchsorted(self.keys, keys)] != keys
        share = halves * self.n * (self.n - 1) / max(1, self.n_others) / max(1, k)
        one = torch.ones(1, device=device)
        return DevicePairs(
            torch.stack(
                [
                    torch.cat([sources, source]),
                    torch.cat([b + torch.arange(m, device=device), target]),
                ]
            ),
            torch.cat([one.expand(m), torch.zeros_like(one).expand(k)]),
            torch.cat([edge_weight.expand(m), absent.float().mul_(share)]),
            targets,
        )

    def _edges(
        self, batch: Tensor, m: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Positions of m sources in the batch, their targets, and the edges the batch has."""
        first = self.indptr[batch]
        degrees = self.indptr[batch + 1] - first
        ends = degrees.cumsum(0)
        mass = ends[-1]
        uniform = torch.rand(m, generator=generator, device=batch.device, dtype=torch.float64)
        place = uniform.mul_(mass).long()
        # Without any edge there is no such place: the last node stands in, with weight 0.
        source = torch.searchsorted(ends, place, right=True).clamp_(max=len(batch) - 1)
        at = first[source] + place - (ends - degrees)[source]
        return source, self.keys[at].remainder(self.n), mass


class BatchPairs(NamedTuple):
    """Pairs of a batch of b nodes: `pairs` (2, m) are positions, in the batch if below b, else b
    plus the position in `targets`, further nodes; `is_edge` (m,) and `weight` (m,)."""

    pairs: NDArray[np.int64]
    is_edge: NDArray[np.float32]
    weight: NDArray[np.float32]
    targets: NDArray[np.int64]


class BatchPairSampler:
    r"""Draws pairs whose sources, and for non-edges also targets, are nodes of a batch.

    For a uniformly drawn batch B, both parts of the edge loss are unbiased:

    * edges: sources from B with probabilities proportional to their out-degrees, a random
      out-neighbour of each; every one counts :math:`\frac{n}{|E|} \cdot` the mean out-degree in B;
    * non-edges: pairs of different nodes in B; one that is no edge counts
      :math:`n(n-1) / |\bar E|`, one that is an edge counts nothing.

    Only the edges' targets lie outside the batch, so that beyond the batch itself just they, as
    targets, have to go through the network. The arrays of the CSR matrix are read where they
    are, in ascending order, and may be memory-mapped: O(1) per edge, O(log degree) per non-edge.
    A rank draws for the part of the batch that is its own, and reads those rows alone.

    Parameters
    ----------
    adjacency : CSR matrix of shape (n, n), in canonical format
    edge_share, other_share : edges and non-edges per node of a batch
    ranks : the processes among which batches are divided
    """

    def __init__(
        self, adjacency: Any, edge_share: float, other_share: float, ranks: Ranks = ALONE
    ) -> None:
        self.indptr, self.indices = adjacency.indptr, adjacency.indices
        self.n, self.n_edges = int(adjacency.shape[0]), len(adjacency.indices)
        self.edge_share, self.other_share = edge_share, other_share
        loops = torch.zeros(1, dtype=torch.int64)
        lo, hi = ranks.shard(self.n)
        for start in range(lo, hi, _BLOCK):
            v = np.arange(start, min(hi, start + _BLOCK))
            loops += int(contains(self.indptr, self.indices, v, v).sum())
        ranks.sum_(loops)
        self.n_others = self.n * (self.n - 1) - (self.n_edges - int(loops))

    def draw(
        self,
        batch: NDArray[np.int64],
        rng: np.random.Generator,
        own: slice = slice(None),
    ) -> BatchPairs:
        """Pairs of the nodes in `batch`, whose part `own` is sorted and has the sources."""
        start, stop, _ = own.indices(len(batch))
        sources, targets, weight = self._edges(batch[own], len(batch), rng)
        others, other_weight = self._non_edges(batch, start, stop, rng)
        m, k = len(sources), others.shape[1]
        halves = 0.5 if self.n_edges and self.n_others else 1.0
        pairs = np.stack([sources, len(batch) + np.arange(m)])
        return BatchPairs(
            np.concatenate([pairs, others], axis=1),
            np.repeat(np.array([1, 0], dtype=np.float32), [m, k]),
            np.concatenate([np.full(m, halves * weight / max(1, m)), halves * other_weight]).astype(
                np.float32
            ),
            targets,
        )

    def _edges(
        self, own: NDArray[np.int64], b: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
        """Positions of the sources in `own`, their targets, and the factor of the mean."""
        first = np.asarray(self.indptr[own], dtype=np.int64)
        degrees = np.asarray(self.indptr[own + 1], dtype=np.int64) - first
        ends = np.concatenate([[0], np.cumsum(degrees)])
        m = math.ceil(self.edge_share * len(own)) if ends[-1] else 0
        # One number picks the source, by degree, and the neighbour: the edge at that place.
        place = np.sort(rng.integers(max(1, ends[-1]), size=m))
        source = np.searchsorted(ends, place, side="right") - 1
        target = np.asarray(self.indices[first[source] + place - ends[source]], dtype=np.int64)
        return source, target, float(ends[-1] / b * self.n / max(1, self.n_edges))

    def _non_edges(
        self, batch: NDArray[np.int64], start: int, stop: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Positions of sources after `start` and of targets in the batch, and weights."""
        b, count = len(batch), stop - start
        k = math.ceil(self.other_share * count) if b > 1 and self.n_others else 0
        source = np.sort(rng.integers(max(1, count), size=k))
        target = (start + source + rng.integers(1, max(2, b), size=k)) % b
        edge = contains(self.indptr, self.indices, batch[start + source], batch[target])
        share = count / b * self.n * (self.n - 1) / max(1, self.n_others)
        return np.stack([source, target]), np.where(edge, 0.0, share / max(1, k))


def contains(
    indptr: NDArray[Any], indices: NDArray[Any], rows: NDArray[Any], columns: NDArray[Any]
) -> NDArray[np.bool_]:
    """Whether each entry (row, column) of a CSR pattern with sorted indices is there.

    A bisection of all rows at once, O(log degree) each, that reads nothing else of `indices`.
    """
    low = np.asarray(indptr[rows], dtype=np.int64)
    high = end = np.asarray(indptr[rows + 1], dtype=np.int64)
    active = np.flatnonzero(low < high)
    low, high = low.copy(), high.copy()
    while len(active):
        middle = (low[active] + high[active]) // 2
        before = indices[middle] < columns[active]
        low[active] = np.where(before, middle + 1, low[active])
        high[active] = np.where(before, high[active], middle)
        active = active[low[active] < high[active]]
    found = np.zeros(len(low), dtype=bool)
    inside = np.flatnonzero(low < end)
    found[inside] = indices[low[inside]] == columns[inside]
    return found
