"""A block of the learned similarity, ordered by cluster, its asymmetry and its spectrum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._closed_form import ClosedFormModel
from .._errors import ParameterError
from .._estimator import HeNCler
from .._stratified import stratified
from ._folder import Run

__all__ = [
    "SimilarityBlock",
    "against_chance",
    "asymmetry",
    "cosines",
    "is_scattered",
    "similarity_block",
    "spectra",
]


@dataclass(frozen=True)
class SimilarityBlock:
    """S among m sampled nodes, shape (m, m), ordered by cluster."""

    nodes: NDArray[np.int64]
    values: NDArray[np.float64]


def similarity_block(
    run: Run, model: HeNCler, own: NDArray[np.float64], limit: int
) -> SimilarityBlock:
    """Similarity among at most `limit` nodes; within a cluster the nearest to its centre first."""
    nodes = stratified(run.clusters, run.k, limit, np.random.default_rng(0))
    nodes = nodes[np.lexsort((own[nodes], run.clusters[nodes]))]
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


def is_scattered(s: NDArray[Any]) -> bool:
    """Whether S is so sparse that a block among a few nodes says nothing of how they are alike.

    Links among a hundred of thousands of nodes are single dots; the leading components of S show
    what they have in common.
    """
    return bool((s == 0).mean() > 0.5) and against_chance(s) is None


def spectra(model: Any) -> dict[str, NDArray[Any]]:
    """Singular values of each similarity by its name; one without a name where there is one."""
    inner = getattr(model, "_model", None)
    if not isinstance(inner, ClosedFormModel):
        return {"": np.asarray(model.singular_values_)}
    sizes = [len(machine.sigma) for machine in inner.machines]
    parts = np.split(model.singular_values_, np.cumsum(sizes)[:-1])
    return dict(zip((*model.views_, "learned"), parts))


def cosines(
    model: HeNCler, view: str, nodes: NDArray[np.int64], embedding: Any = None
) -> NDArray[Any]:
    """Cosines of e and r of some nodes, both times Sigma^-1/2, in k components of a similarity."""
    parts = spectra(model)
    if view not in parts:
        raise ParameterError(
            f"view={view!r} is not a similarity of this model",
            remedy=f"Choose one of {', '.join(map(repr, parts))}",
        )
    before = list(parts)[: list(parts).index(view)]
    start = sum(len(parts[name]) for name in before)
    sigma = parts[view][: int(model.labels_.max()) + 1]
    scale = np.divide(1.0, np.sqrt(sigma), out=np.zeros(len(sigma)), where=sigma > 0)
    both = (model.e_, model.r_) if embedding is None else embedding
    sides = [z[nodes, start : start + len(sigma)] * scale for z in both]
    lengths = [np.linalg.norm(z, axis=1, keepdims=True) for z in sides]
    e, r = (z / np.maximum(length, np.finfo(float).tiny) for z, length in zip(sides, lengths))
    return np.asarray(e @ r.T)
