"""Pairs of nodes for the edge loss: edges, and true non-edges, redrawn every epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["PairSampler"]

_REDRAWS = 16
"""A pair that hits an edge is drawn again this often; then it is given weight 0."""


class PairSampler:
    """Draws edges uniformly from E and pairs uniformly from its complement without loops.

    A draw costs O(log E) (a look-up in the sorted keys u n + v), and nothing of size n x n
    exists. There is no host synchronisation, so that a GPU never waits.

    Parameters
    ----------
    adjacency : CSR matrix of shape (n, n), in canonical format
    device : where the keys live and the pairs are drawn
    """

    def __init__(self, adjacency: Any, device: torch.device) -> None:
        self.n = int(adjacency.shape[0])
        rows = np.repeat(np.arange(self.n, dtype=np.int64), np.diff(adjacency.indptr))
        self.keys = torch.from_numpy(rows * self.n + adjacency.indices).to(device)

    def draw(self, m: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """m edges and m non-edges: pairs (2, 2m), is_edge (2m,), weight (2m,)."""
        device = self.keys.device
        if len(self.keys):
            at = torch.randint(len(self.keys), (m,), generator=generator, device=device)
            edges = self._split(self.keys[at])
            found = torch.ones(m, device=device)
        else:
            edges = torch.zeros(2, m, dtype=torch.int64, device=device)
            found = torch.zeros(m, device=device)
        others, missed = self._non_edges(m, generator)
        is_edge = torch.cat([torch.ones(m, device=device), torch.zeros(m, device=device)])
        return torch.cat([edges, others], 1), is_edge, torch.cat([found, (~missed).float()])

    def is_edge(self, keys: Tensor) -> Tensor:
        """Whether each key u n + v is an edge."""
        if not len(self.keys):
            return torch.zeros_like(keys, dtype=torch.bool)
        at = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        return self.keys[at] == keys

    def _split(self, keys: Tensor) -> Tensor:
        return torch.stack([torch.div(keys, self.n, rounding_mode="floor"), keys % self.n])

    def _non_edges(self, m: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        device = self.keys.device

        def fresh() -> Tensor:
            pair = torch.randint(self.n, (2, m), generator=generator, device=device)
            return pair[0] * self.n + pair[1]

        def taken(keys: Tensor) -> Tensor:
            source, target = self._split(keys)
            return self.is_edge(keys) | (source == target)

        keys = fresh()
        bad = taken(keys)
        for _ in range(_REDRAWS):
            keys = torch.where(bad, fresh(), keys)
            bad = taken(keys)
        return self._split(keys), bad
