"""Edges in any order, more of them than memory holds, made the rows of a CSR matrix on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._errors import GraphError
from ._store import NpyWriter, index_type

__all__ = ["EdgeSorter", "SortedEdges", "same_in_both_directions"]

DEFAULT_MEMORY = 512 << 20

_BYTES_PER_EDGE = 48
"""Held at once for every edge of a bucket while it is sorted."""

_CHUNK = 1 << 21
"""Edges read back in one go."""


class SortedEdges(NamedTuple):
    """What was written: entries of the matrix, on its diagonal, and whether all weigh 1."""

    entries: int
    self_loops: int
    weighted: bool


class EdgeSorter:
    """External bucket sort of edges by source, then target.

    Edges are spilled to disk as they come, and the out-degrees counted. :meth:`write` deals them
    out to buckets of consecutive sources, each small enough for `memory`, and sorts one bucket
    after the other. Memory: O(n) for the counts, and `memory`; a single node's edges are never
    split. Disk, while it runs: 8 + 8 bytes per edge, twice that for an undirected graph, and 8 more
    per weight.

    Parameters
    ----------
    folder : where the temporary files go; they are gone when :meth:`write` returns
    n_nodes : int
    undirected : bool
        Every edge is written in both directions; of two weights the larger counts.
    once : bool
        An edge given twice is one edge; by default its weights add up.
    memory : bytes for sorting
    """

    def __init__(
        self,
        folder: Path,
        n_nodes: int,
        *,
        undirected: bool = False,
        once: bool = False,
        memory: int = DEFAULT_MEMORY,
    ) -> None:
        if n_nodes > 1 << 31:
            raise GraphError(f"{n_nodes} nodes are more than 2^31", remedy="Split the graph")
        self.folder, self.n, self.undirected, self.once = folder, n_nodes, undirected, once
        self.budget = max(1024, memory // _BYTES_PER_EDGE)
        self.counts = np.zeros(n_nodes, dtype=np.int64)
        self.weighted = False
        self.n_edges = 0
        self._kind = index_type(n_nodes, 0)
        self._spill = {part: folder / f"spill-{part}" for part in ("source", "target", "weight")}

    def add(
        self, source: NDArray[Any], target: NDArray[Any], weight: NDArray[Any] | None = None
    ) -> None:
        """Take edges between the positions 0 ... n-1; weight zero is no edge."""
        if weight is None and self.weighted:
            weight = np.ones(len(source))
        if weight is not None and not self.weighted:
            self._weigh_earlier()
        if weight is not None and not weight.all():
            keep = weight != 0
            source, target, weight = source[keep], target[keep], weight[keep]
        _append(self._spill["source"], source.astype(self._kind, copy=False))
        _append(self._spill["target"], target.astype(self._kind, copy=False))
        if weight is not None:
            _append(self._spill["weight"], weight.astype(np.float64, copy=False))
        self.counts += np.bincount(source, minlength=self.n)
        if self.undirected:
            self.counts += np.bincount(target, minlength=self.n)
        self.n_edges += len(source)

    def _weigh_earlier(self) -> None:
        self.weighted = True
        for start in range(0, self.n_edges, _CHUNK):
            _append(self._spill["weight"], np.ones(min(_CHUNK, self.n_edges - start)))

    def write(self, out: Path) -> SortedEdges:
        """Write ``indptr.npy``, ``indices.npy`` and, if any weight is not 1, ``weights.npy``."""
        bounds = self._bounds()
        buckets = [self.folder / f"bucket-{i}" for i in range(len(bounds) - 1)]
        self._deal(bounds, buckets)
        kind = index_type(self.n, int(self.counts.sum()))
        loops, plain = 0, True
        with (
            NpyWriter(out / "indices.npy", kind) as indices,
            NpyWriter(out / "weights.npy", np.float64) as weights,
        ):
            for i, bucket in enumerate(buckets):
                lo, hi = int(bounds[i]), int(bounds[i + 1])
                keys, values = self._sorted_bucket(bucket)
                rows, columns = np.divmod(keys, self.n)
                self.counts[lo:hi] = np.bincount(rows, minlength=hi - lo)
                loops += int(np.count_nonzero(rows + lo == columns))
                indices.append(columns)
                weights.append(np.ones(len(keys)) if values is None else values)
                plain = plain and (values is None or bool(np.all(values == 1)))
        if plain:
            (out / "weights.npy").unlink()
        entries = indices.length
        with NpyWriter(out / "indptr.npy", kind) as indptr:
            indptr.append(np.zeros(1))
            total = 0
            for start in range(0, self.n, _CHUNK):
                part = total + np.cumsum(self.counts[start : start + _CHUNK])
                indptr.append(part)
                total = int(part[-1])
        return SortedEdges(entries, loops, not plain)

    def _bounds(self) -> NDArray[np.int64]:
        """First source of every bucket, and n."""
        total = np.cumsum(self.counts)
        bounds = [0]
        while bounds[-1] < self.n:
            done = int(total[bounds[-1] - 1]) if bounds[-1] else 0
            stop = int(np.searchsorted(total, done + self.budget, side="right"))
            bounds.append(min(max(stop, bounds[-1] + 1), self.n))
        return np.array(bounds)

    def _deal(self, bounds: NDArray[np.int64], buckets: list[Path]) -> None:
        """Write every edge to its bucket as one number, ((u - first) n + v) 2 + backwards."""
        for bucket in buckets:
            bucket.touch()
        for source, target, weight in self._spilled():
            directions = [(source, target, 0), (target, source, 1)][: 1 + self.undirected]
            for u, v, backwards in directions:
                at = np.searchsorted(bounds, u, side="right") - 1
                keys = ((u - bounds[at]) * self.n + v) * 2 + backwards
                if len(buckets) == 1:
                    _append(buckets[0], keys)
                    if weight is not None:
                        _append(_beside(buckets[0]), weight)
                    continue
                order = np.argsort(at, kind="stable")
                ends = np.searchsorted(at[order], np.arange(len(buckets) + 1))
                for i, bucket in enumerate(buckets):
                    chosen = order[ends[i] : ends[i + 1]]
                    if len(chosen):
                        _append(bucket, keys[chosen])
                        if weight is not None:
                            _append(_beside(bucket), weight[chosen])
        for path in self._spill.values():
            path.unlink(missing_ok=True)

    def _spilled(self) -> Iterator[tuple[Any, Any, Any]]:
        for start in range(0, self.n_edges, _CHUNK):
            ends = [
                _read(self._spill[part], self._kind, start, _CHUNK).astype(np.int64)
                for part in ("source", "target")
            ]
            weight = None
            if self.weighted:
                weight = _read(self._spill["weight"], np.dtype(np.float64), start, _CHUNK)
            yield ends[0], ends[1], weight

    def _sorted_bucket(self, bucket: Path) -> tuple[NDArray[np.int64], NDArray[Any] | None]:
        """Keys (u - first) n + v of a bucket, rising, and their weights; the files are removed."""
        keys = np.fromfile(bucket, dtype=np.int64)
        bucket.unlink()
        if self.weighted:
            weight = np.fromfile(_beside(bucket), dtype=np.float64)
            _beside(bucket).unlink(missing_ok=True)
            order = np.argsort(keys, kind="stable")
            keys, weight = keys[order], weight[order]
        else:
            keys.sort()
            weight = None
        # Edges given twice add up, each direction for itself.
        first = np.ones(len(keys), dtype=bool)
        first[1:] = keys[1:] != keys[:-1]
        if not first.all():
            starts = np.flatnonzero(first)
            if self.once:
                weight = None if weight is None else weight[starts]
            else:
                weight = (
                    np.diff(starts, append=len(keys)).astype(np.float64)
                    if weight is None
                    else np.add.reduceat(weight, starts)
                )
            keys = keys[starts]
        keys >>= 1
        if self.undirected and len(keys):
            # Of the two directions of an edge the larger weight counts.
            starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
            weight = None if weight is None else np.maximum.reduceat(weight, starts)
            keys = keys[starts]
        return keys, weight


def same_in_both_directions(
    indptr: NDArray[Any], indices: NDArray[Any], weights: NDArray[Any] | None
) -> bool:
    r"""Whether a CSR matrix is symmetric, in one pass and without its transpose.

    Compares :math:`\sum h(u, v, w)` with :math:`\sum h(v, u, w)`, h a hash to 64 bits: equal for
    symmetric matrices, and for others with a chance of about :math:`2^{-64}`.
    """
    n = len(indptr) - 1
    forward = backward = 0
    lo = 0
    while lo < n:
        hi = int(np.searchsorted(indptr, int(indptr[lo]) + _CHUNK, side="right")) - 1
        hi = min(max(hi, lo + 1), n)
        at = slice(int(indptr[lo]), int(indptr[hi]))
        u = np.repeat(np.arange(lo, hi, dtype=np.uint64), np.diff(indptr[lo : hi + 1]))
        v = indices[at].astype(np.uint64)
        w = np.ones(1) if weights is None else weights[at].astype(np.float64)
        salt = _mixed(w.view(np.uint64))
        forward += int(_mixed(_mixed(u) + np.uint64(3) * _mixed(v + salt)).sum())
        backward += int(_mixed(_mixed(v) + np.uint64(3) * _mixed(u + salt)).sum())
        lo = hi
    return (forward - backward) % (1 << 64) == 0


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: every bit of the result depends on every bit of x."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _beside(bucket: Path) -> Path:
    return bucket.with_name(f"{bucket.name}-weight")


def _append(path: Path, values: NDArray[Any]) -> None:
    with open(path, "ab") as file:
        values.tofile(file)


def _read(path: Path, dtype: np.dtype[Any], start: int, count: int) -> NDArray[Any]:
    return np.fromfile(path, dtype=dtype, count=count, offset=start * dtype.itemsize)
