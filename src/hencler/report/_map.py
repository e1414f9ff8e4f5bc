"""Where nodes stand in pictures: the embedding in two dimensions, and the graph itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from sklearn.manifold import TSNE

from .._base import few_threads
from .._graph import row_blocks

__all__ = ["Plane", "circle_of_clusters", "leading_plane", "neighbourhoods"]


LENGTH_WEIGHT = 0.15


@dataclass(frozen=True)
class Plane:
    """Points of shape (m, 2) and the share of the variance along each axis."""

    points: NDArray[np.float64]
    explained: tuple[float, float]


def leading_plane(z: NDArray[Any], nodes: NDArray[np.int64]) -> Plane:
    """The two leading principal components of z, shape (n, p), of all nodes, at some of them.

    The sign of a component is that of its largest loading, so that pictures do not flip.
    """
    n, p = z.shape
    mean = z.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((p, p))
    for rows in row_blocks(n, p):
        block = z[rows] - mean
        covariance += block.T @ block
    values, vectors = np.linalg.eigh(covariance)
    axes = vectors[:, ::-1][:, :2]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    total = values.sum()
    shares = np.maximum(values[::-1][:2], 0) / total if total > 0 else np.zeros(axes.shape[1])
    points = (z[nodes] - mean) @ axes
    if p == 1:
        points, shares = np.pad(points, ((0, 0), (0, 1))), np.pad(shares, (0, 1))
    return Plane(points, (float(shares[0]), float(shares[1])))


def neighbourhoods(z: NDArray[Any]) -> NDArray[np.float64] | None:
    """Points of shape (m, 2) that keep the neighbours of each of m nodes: t-SNE by cosines.

    Lengths count a little, so that nodes of the same direction do not all lie on one point.
    Which nodes are close to each other is what such a map tells; distances between groups and
    the size of groups are not. None where there are too few nodes or they are all the same.
    """
    lengths = np.linalg.norm(z, axis=1, keepdims=True)
    unit = np.divide(z, lengths, out=np.zeros(z.shape), where=lengths > 0)
    m = len(z)
    if m < 10 or np.ptp(unit, axis=0).max() < 1e-6:
        return None
    size = np.log(lengths + 1e-3 * lengths.mean())
    size = LENGTH_WEIGHT * (size - size.mean()) / max(float(size.std()), 1e-12)
    rows = np.hstack([unit, size]).astype(np.float32)
    perplexity = min(30.0, (m - 1) / 3)
    # One thread: the sums of several come in any order, and the same run would not look the same.
    with few_threads(m):
        layout = TSNE(2, perplexity=perplexity, init="pca", random_state=0, max_iter=500, n_jobs=1)
        return np.asarray(layout.fit_transform(rows), dtype=np.float64)


def circle_of_clusters(
    clusters: NDArray[np.int64], degrees: NDArray[Any], k: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Each cluster a disc of its nodes, the discs around a circle without touching.

    Within a disc the nodes lie on a sunflower spiral one unit apart, those with most links
    inmost. Who links to whom is what such a drawing shows, and nothing else moves the nodes.

    Returns
    -------
    points (n, 2), centres (k, 2) and radii (k,) of the discs
    """
    sizes = np.bincount(clusters, minlength=k)
    radii = 0.62 * np.sqrt(sizes) + 0.6
    gap = 0.35 * float(radii.mean()) + 1.0
    centres = _around(radii, gap)
    points = np.empty((clusters.size, 2))
    golden = np.pi * (3 - np.sqrt(5))
    for c in range(k):
        members = np.flatnonzero(clusters == c)
        members = members[np.argsort(-degrees[members], kind="stable")]
        i = np.arange(members.size)
        radius, angle = 0.62 * np.sqrt(i + 0.5), golden * i
        spiral = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        points[members] = centres[c] + spiral
    return points, centres, radii


def _around(radii: NDArray[np.float64], gap: float) -> NDArray[np.float64]:
    """Centres of discs on the smallest circle on which neighbours keep `gap` apart."""
    k = radii.size
    if k == 1:
        return np.zeros((1, 2))
    chords = radii + np.roll(radii, -1) + gap

    def turn(radius: float) -> float:
        return float(2 * np.arcsin(np.minimum(1, chords / (2 * radius))).sum() - 2 * np.pi)

    smallest = float(chords.max()) / 2
    radius = smallest
    if turn(smallest) > 1e-9:
        radius = float(brentq(turn, smallest, float(chords.sum())))
    steps = 2 * np.arcsin(np.minimum(1, chords / (2 * radius)))
    steps += (2 * np.pi - steps.sum()) / k
    angles = -np.pi / 2 + np.concatenate([[0.0], np.cumsum(steps)[:-1]])
    return radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
