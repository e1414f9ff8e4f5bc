"""Heterophilous graphs of any size, written as stores without ever being in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .._edge_sort import EdgeSorter
from .._store import NpyWriter, finish_store, new_folder
from ..datasets import _plan, _unit_vectors

__all__ = ["generate_store"]

_CHUNK = 1 << 20


def generate_store(
    folder: str | Path,
    n_nodes: int,
    n_clusters: int,
    *,
    n_attributes: int,
    n_edges: int,
    attribute_signal: float = 4.0,
    link_signal: float = 0.7,
    dtype: str = "float16",
    seed: int = 0,
) -> None:
    """The graph of :func:`hencler.make_heterophilous_graph`, directed, as a store with classes.

    Memory is O(n) beside fixed blocks: the classes, and the order of the nodes by class. Links that
    are drawn twice are dropped, so that there are a little fewer than `n_edges`.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_clusters, size=n_nodes, dtype=np.int32)
    plan, pair, _ = _plan(n_clusters)
    means = attribute_signal * _unit_vectors(int(pair.max()) + 1, n_attributes, rng)
    with new_folder(folder) as temporary:
        np.save(temporary / "y.npy", y, allow_pickle=False)
        with NpyWriter(temporary / "x.npy", dtype, n_attributes) as x:
            step = max(1, (_CHUNK << 2) // n_attributes)
            for start in range(0, n_nodes, step):
                part = y[start : start + step]
                noise = rng.standard_normal((len(part), n_attributes), dtype=np.float32)
                x.append(means[pair[part]] + noise)
        links = EdgeSorter(temporary, n_nodes, once=True)
        for source, target in _links(y, plan, n_edges, link_signal, rng):
            links.add(source, target)
        written = links.write(temporary)
        finish_store(temporary, directed=True, self_loops=written.self_loops, name="heterophilous")


def _links(y: Any, plan: Any, n_edges: int, signal: float, rng: np.random.Generator) -> Any:
    """Chunks of sources and targets, drawn as in ``make_heterophilous_graph``, without loops."""
    n, k = len(y), len(plan)
    members = np.argsort(y, kind="stable").astype(np.int32)
    sizes = np.bincount(y, minlength=k)
    starts = np.cumsum(sizes) - sizes
    for done in range(0, n_edges, _CHUNK):
        m = min(_CHUNK, n_edges - done)
        arrows = rng.choice(k * k, size=m, p=plan.ravel())
        planned = rng.random(m) < signal
        ends = []
        for cluster in (arrows // k, arrows % k):
            at = starts[cluster] + rng.integers(0, np.maximum(sizes[cluster], 1))
            ends.append(np.where(planned, members[at], rng.integers(0, n, size=m)))
        keep = ends[0] != ends[1]
        yield ends[0][keep], ends[1][keep]
