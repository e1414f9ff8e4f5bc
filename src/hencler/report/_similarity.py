"""A block of the learned similarity, ordered by cluster, and how asymmetric it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._estimator import HeNCler
from ._folder import Run
from ._groups import stratified

__all__ = ["SimilarityBlock", "against_chance", "asymmetry", "similarity_block"]


@dataclass(frozen=True)
class SimilarityBlock:
    """S among m sampled nodes, shape (m, m), ordered by cluster."""

    nodes: NDArray[np.int64]
    values: NDArray[np.float64]


def similarity_block(run: Run, own: NDArray[np.float64], limit: int) -> SimilarityBlock:
    """Similarity among at most `limit` nodes; within a cluster the nearest to its centre first."""
    nodes = stratified(run.clusters, run.k, limit, np.random.default_rng(0))
    nodes = nodes[np.lexsort((own[nodes], run.clusters[nodes]))]
    model = HeNCler.load(run.folder / "model", device="cpu")
    values = model.similarity(nodes, nodes, graph=run.graph)
    return SimilarityBlock(nodes, np.asarray(values, dtype=np.float64))


def asymmetry(s: NDArray[Any]) -> float:
    r""":math:`\|S - S'\|_F / \|S\|_F` of a square block: 0 if symmetric, NaN if S = 0.

    For S >= 0 it is at most :math:`\sqrt 2`, where no two nodes are similar in both directions.
    """
    norm = np.linalg.norm(s)
    return float(np.linalg.norm(s - s.T) / norm) if norm > 0 else float("nan")


def against_chance(s: NDArray[Any]) -> NDArray[np.float64] | None:
    r"""Similarity with the degrees taken out,
    :math:`S_{ij} S_{\cdot\cdot} / (S_{i\cdot} S_{\cdot j})`.

    1 where two nodes are as similar as their degrees alone would make them, as for links.
    None where S has negative entries or a degree is zero.
    """
    rows, cols = s.sum(axis=1), s.sum(axis=0)
    if s.min() < 0 or rows.min() <= 0 or cols.min() <= 0:
        return None
    return np.asarray(s * s.sum() / np.outer(rows, cols), dtype=np.float64)
