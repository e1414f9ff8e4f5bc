"""What a run's folder holds, read and checked once."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import FileFormatError
from .._graph import Graph
from .._limits import check_zip
from .._link_matrix import LinkMatrix
from .._run import STABILITY, WHOLE, read_run
from .._stability import Stability
from ..io import align_labels, read_graph, read_labels
from ..metrics import evaluate

__all__ = ["Run", "read_folder"]

_AGAIN = "Run fit again"


@dataclass(frozen=True)
class Whole:
    """What was counted over the whole of a graph of which the run has a sample."""

    sizes: NDArray[np.int64]
    links: LinkMatrix
    n_isolated: int


@dataclass(frozen=True)
class Run:
    """One run; n nodes in k non-empty clusters, s components.

    Attributes
    ----------
    clusters : array of shape (n,), numbers 0 ... k - 1 of the clusters in `names`
    e, r : arrays of shape (n, s)
    truth : array of shape (n,) of classes, or None
    whole : counts over all nodes and links where the n nodes are a sample, or None
    """

    folder: Path
    summary: dict[str, Any]
    graph: Graph
    clusters: NDArray[np.int64]
    names: list[str]
    e: NDArray[Any]
    r: NDArray[Any]
    singular_values: NDArray[Any]
    history: list[dict[str, float]]
    metrics: dict[str, Any] | None
    truth: NDArray[Any] | None
    stability: Stability | None = None
    whole: Whole | None = None

    @property
    def sampled(self) -> bool:
        """Whether this is the sample of a run on a large graph."""
        return self.folder.name == "sample" and not (self.folder / "model").is_dir()

    @property
    def k(self) -> int:
        return len(self.names)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Nodes per cluster of the whole graph, shape (k,)."""
        if self.whole is not None:
            return self.whole.sizes
        return np.bincount(self.clusters, minlength=self.k)

    @property
    def embedding(self) -> NDArray[Any]:
        """[e | r], shape (n, 2 s)."""
        return np.concatenate([self.e, self.r], axis=1)


def read_folder(folder: Path) -> Run:
    """Read a run; a missing or damaged part is a :class:`FileFormatError` that names it."""
    summary = read_run(folder)
    graph = read_graph(folder / "graph.npz")
    labels = align_labels(graph.ids, read_labels(folder / "labels.csv"))
    values, clusters = np.unique(labels, return_inverse=True)
    truth = None
    if (folder / "truth.csv").is_file():
        truth = align_labels(graph.ids, read_labels(folder / "truth.csv"))
    metrics = _read_metrics(folder / "metrics.json")
    if metrics is None and truth is not None:
        metrics = evaluate(clusters, truth)
    return Run(
        folder,
        summary,
        graph,
        clusters.astype(np.int64),
        [str(value) for value in values],
        *_read_embeddings(folder / "embeddings.npz", graph.n_nodes),
        history=_read_history(folder / "history.jsonl"),
        metrics=metrics,
        truth=truth,
        stability=_read_stability(folder / STABILITY, len(values), graph.n_nodes),
        whole=_read_whole(folder / WHOLE, values),
    )


def _read_embeddings(path: Path, n: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    try:
        check_zip(path)
        with np.load(path, allow_pickle=False) as data:
            e, r, sigma = (np.asarray(data[key]) for key in ("e", "r", "singular_values"))
    except FileNotFoundError as error:
        raise FileFormatError("the file is missing", place=str(path), remedy=_AGAIN) from error
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise FileFormatError(
            f"the embeddings cannot be read ({error})", place=str(path), remedy=_AGAIN
        ) from error
    for name, array in (("e", e), ("r", r)):
        if array.ndim != 2 or array.shape[0] != n or array.dtype.kind != "f":
            raise FileFormatError(
                f"{name} is {array.dtype} of shape {array.shape}, the graph has {n} nodes",
                place=str(path),
                remedy=_AGAIN,
            )
        if not np.isfinite(array).all():
            raise FileFormatError(
                f"{name} has entries that are not finite", place=str(path), remedy=_AGAIN
            )
    return e, r, sigma.ravel()


def _read_whole(path: Path, clusters: NDArray[Any]) -> Whole | None:
    """Counts over the whole graph, of the clusters that the sample has."""
    if not path.is_file() or clusters.dtype.kind not in "iu":
        return None
    try:
        check_zip(path)
        with np.load(path, allow_pickle=False) as data:
            parts = [np.asarray(data[key]) for key in ("sizes", "links", "self_loops", "isolated")]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise FileFormatError(
            f"the counts cannot be read ({error})", place=str(path), remedy=_AGAIN
        ) from error
    sizes, links, loops, isolated = parts
    k = sizes.size
    if (
        any(part.dtype.kind not in "iu" or (part < 0).any() for part in parts)
        or [part.shape for part in parts] != [(k,), (k, k), (k,), ()]
        or not 0 <= clusters.min() <= clusters.max() < k
    ):
        raise FileFormatError(
            "these are not the counts of this run", place=str(path), remedy=_AGAIN
        )
    matrix = LinkMatrix(links[np.ix_(clusters, clusters)], loops[clusters])
    return Whole(sizes[clusters], matrix, int(isolated))


def _read_stability(path: Path, k: int, n: int) -> Stability | None:
    """Stability that was computed with the fit, of the clusters alone."""
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        clusters = np.array(found["clusters"], dtype=np.float64)
        agreement = float(found["agreement"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileFormatError(
            f"the stability cannot be read ({error})", place=str(path), remedy=_AGAIN
        ) from error
    if clusters.shape != (k,):
        return None
    return Stability(clusters, np.full(n, np.nan), agreement)


def _read_history(path: Path) -> list[dict[str, float]]:
    if not path.is_file():
        return []
    history = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
                history.append({str(key): float(value) for key, value in record.items()})
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                raise FileFormatError(
                    "this is not a record of losses",
                    place=f"{path}:{number}",
                    remedy="Delete the file to leave the curves out, or run fit again",
                ) from error
    return history


def _read_metrics(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FileFormatError(
            f"the scores cannot be read ({error})", place=str(path), remedy=_AGAIN
        ) from error
    if not isinstance(metrics, dict):
        raise FileFormatError("these are not scores", place=str(path), remedy=_AGAIN)
    return metrics
