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

__all__ = ["BatchPairSampler", "BatchPairs", "PairSampler", "contains"]

_MISSES = 1e-6
"""Largest share of non-edges that are drawn in vain, and then get weight 0."""

_MOST_REDRAWS = 16

_BLOCK = 1 << 20


class PairSampler:
    """Draws edges uniformly from E and pairs uniformly from its complement without loops.

    A draw costs O(log E) (a look-up in the sorted keys u n + v), and nothing of size n x n
    exists. Pairs that hit an edge are drawn again, as often as the density of the graph asks for;
    on a GPU all of them are, so that the host never waits to hear which.

    Parameters
    ----------
    adjacency : CSR matrix of shape (n, n), in canonical format
    device : where the keys live and the pairs are drawn
    """

    def __init__(self, adjacency: Any, device: torch.device) -> None:
        self.n = n = int(adjacency.shape[0])
        rows = np.repeat(np.arange(n, dtype=np.int64), np.diff(adjacency.indptr))
        self.edges = torch.from_numpy(np.stack([rows, adjacency.indices])).to(device)
        self.keys = self.edges[0] * n + self.edges[1]
        self.redraws = _redraws((len(rows) + n) / n**2)

    def draw(self, m: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """m edges and m non-edges: pairs (2, 2m), is_edge (2m,), weight (2m,) with sum 1."""
        device = self.keys.device
        n_edges = m if len(self.keys) else 0
        at = torch.randint(max(1, len(self.keys)), (n_edges,), generator=generator, device=device)
        edges = self.edges.index_select(1, at)
        others, missed = self._non_edges(m, generator)
        is_edge = torch.ones(n_edges + m, device=device)
        is_edge[n_edges:] = 0
        weight = torch.ones(n_edges + m, device=device)
        weight[n_edges:] = (~missed).float()
        return torch.cat([edges, others], 1), is_edge, weight / weight.sum().clamp(min=1.0)

    def is_edge(self, source: Tensor, target: Tensor) -> Tensor:
        """Whether each pair is an edge."""
        if not len(self.keys):
            return torch.zeros_like(source, dtype=torch.bool)
        keys = source * self.n + target
        at = torch.searchsorted(self.keys, keys).clamp_(max=len(self.keys) - 1)
        return self.keys[at] == keys

    def _non_edges(self, m: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        device = self.keys.device

        def fresh(count: int) -> tuple[Tensor, Tensor]:
            pair = torch.randint(self.n, (2, count), generator=generator, device=device)
            return pair, self.is_edge(pair[0], pair[1]) | (pair[0] == pair[1])

        pairs, bad = fresh(m)
        for _ in range(self.redraws):
            if device.type == "cpu":
                at = bad.nonzero()[:, 0]
                if not len(at):
                    break
                pairs[:, at], bad[at] = fresh(len(at))
            else:
                others, still = fresh(m)
                pairs = torch.where(bad, others, pairs)
                bad = bad & still
        return pairs, bad


def _redraws(density: float) -> int:
    """How often pairs have to be redrawn until hardly any hits an edge or a loop."""
    if density >= 1:
        return _MOST_REDRAWS
    return min(_MOST_REDRAWS, math.ceil(math.log(_MISSES) / math.log(density)) - 1)


# --- minibatches -------------------------------------------------------------------------------


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
