"""The paper's figures: time against nodes, and the learned similarity ordered by class."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._estimator import HeNCler
from .._optional import optional_import
from ..datasets import DATASETS, load_dataset
from .methods import METHODS
from .paper import STAND_IN
from .tables import summarise
from .times import latest

__all__ = ["asymmetry", "similarity_figure", "time_figure"]

_DRAWN = ("mincutpool", "dmon", "s3gc", "muse", "hole", "hencler-paper", "hencler")


def asymmetry(similarity: NDArray[Any]) -> float:
    """||S - S'|| / (2 ||S||) in Frobenius norm: 0 for symmetric, 1 for antisymmetric S."""
    return float(np.linalg.norm(similarity - similarity.T) / (2 * np.linalg.norm(similarity)))


def time_figure(
    cells: Iterable[dict[str, Any]], path: Path, times: Iterable[dict[str, Any]] = ()
) -> None:
    """Seconds to a finished clustering against the number of nodes.

    Of fits that had the machine for themselves where there are such (`times`), else of the
    fastest of the scored runs.
    """
    plt = optional_import("matplotlib.pyplot", "the figures")
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    seconds = {key: s.seconds for key, s in summarise(cells).items() if s.status == "ok"}
    seconds |= {key: c["seconds"] for key, c in latest(times).items() if c["status"] == "ok"}
    for name in _DRAWN:
        points = sorted(
            (DATASETS[dataset.removeprefix(STAND_IN)].n_nodes, value)
            for (method, dataset), value in seconds.items()
            if method == name
        )
        if points:
            ax.loglog(*zip(*points), "o-", label=METHODS[name].title, markersize=4)
    ax.set(xlabel="nodes", ylabel="seconds")
    ax.legend(fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def similarity_figure(datasets: Iterable[str], path: Path, seed: int = 0) -> dict[str, float]:
    """Heat maps of S, degrees taken out, rows and columns grouped by class; its asymmetry."""
    plt = optional_import("matplotlib.pyplot", "the figures")
    names = list(datasets)
    figure, axes = plt.subplots(1, len(names), figsize=(4.5 * len(names), 4.5), squeeze=False)
    numbers = {}
    for ax, name in zip(axes[0], names):
        graph = load_dataset(name)
        assert graph.y is not None
        model = HeNCler(len(np.unique(graph.y)), random_state=seed).fit(graph)
        order = np.argsort(graph.y, kind="stable")
        similarity = model.similarity(order, order)
        numbers[name] = asymmetry(similarity)
        d1, d2 = similarity.sum(axis=1), similarity.sum(axis=0)
        expected = np.outer(d1, d2) / max(float(d1.sum()), np.finfo(float).tiny)
        ratio = np.log2((similarity + expected.mean()) / (expected + expected.mean()))
        limit = float(np.quantile(np.abs(ratio), 0.99))
        ax.imshow(ratio, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
        edges = np.flatnonzero(np.diff(graph.y[order])) + 0.5
        for at in edges:
            ax.axhline(at, color="k", linewidth=0.5)
            ax.axvline(at, color="k", linewidth=0.5)
        ax.set(title=f"{name}: asymmetry {numbers[name]:.2f}", xticks=[], yticks=[])
        ax.set(xlabel="as target, by class", ylabel="as source, by class")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return numbers
