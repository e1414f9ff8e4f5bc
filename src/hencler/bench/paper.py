"""The paper's experiments, cell by cell: method x graph x seed, under both protocols at once.

*honest*: the labels are seen once, after the clustering is final. *paper*: the best epoch is
picked with the labels, for every measure apart. Both come from the same fit: a callback looks
at the clusters of each epoch from outside, and the time it takes is not counted.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from .._base import Epoch
from .._errors import HenclerError
from .._graph import Graph
from ..datasets import DATASETS, load_dataset, make_heterophilous_graph
from ..metrics import evaluate
from ._record import JsonLines, environment, peak_memory
from .methods import METHODS, Method, find_methods

__all__ = ["CELL_KEY", "HETEROPHILOUS", "HOMOPHILOUS", "LINKS_ONLY", "open_store", "run"]

HETEROPHILOUS = (
    "texas",
    "cornell",
    "wisconsin",
    "chameleon",
    "squirrel",
    "roman-empire",
    "minesweeper",
    "tolokers",
)
HOMOPHILOUS = ("cora", "citeseer", "pubmed")
LINKS_ONLY = ("celegans", "drosophila-left", "drosophila-right", "serengeti", "polblogs")
TIMED = (
    "chameleon",
    "squirrel",
    "roman-empire",
    "amazon-ratings",
    "minesweeper",
    "tolokers",
    "questions",
)

STAND_IN = "like-"
"""Prefix of a generated graph of the size of one that is not there: for times, never scores."""

CELL_KEY = ("method", "dataset", "seed", "settings", "commit")
_NOT_SETTINGS = (
    "random_state",
    "callback",
    "checkpoint",
    "checkpoint_epochs",
    "checkpoint_seconds",
    "resume",
    "device",
)
"""Parameters that change no result, or have a place of their own in a cell."""

_SMALL = 6_000
_RUNS_SMALL, _RUNS_LARGE = 10, 3

Progress = Callable[[int, int, float | None, str], None]


def open_store(path: Path) -> JsonLines:
    return JsonLines(path, CELL_KEY)


def open_dataset(name: str) -> Graph:
    """A benchmark graph, or for ``like-NAME`` a generated one of NAME's size."""
    if not name.startswith(STAND_IN):
        return load_dataset(name)
    info = DATASETS[name.removeprefix(STAND_IN)]
    return make_heterophilous_graph(
        info.n_nodes,
        info.n_classes,
        directed=info.directed,
        n_attributes=info.n_attributes,
        degree=info.n_undirected / info.n_nodes,
        random_state=0,
    )


def run(
    out: Path,
    *,
    methods: list[str] | None = None,
    datasets: list[str] | None = None,
    runs: int | None = None,
    device: str = "auto",
    protocol: str = "both",
    jobs: int = 1,
    reuse: bool = True,
    progress: Progress | None = None,
) -> JsonLines:
    """Run all cells that are not in the store yet, appending each as it is finished.

    Parameters
    ----------
    out : the store, a JSON Lines file
    runs : seeds 0 ... runs-1; by default 10 for graphs of up to 6,000 nodes, else 3
    protocol : "honest", "paper" or "both"; "honest" spares the scoring of every epoch
    jobs : processes, each with one thread if there are several
    reuse : whether a cell of another commit with the same settings counts as done
    progress : called with (cells done, cells in all, seconds left, what was done)
    """
    store = open_store(out)
    chosen = find_methods(methods)
    names = list(datasets or (*HETEROPHILOUS, *HOMOPHILOUS, *LINKS_ONLY))
    where = environment()
    todo = list(_missing(store, chosen, names, runs, device, where["commit"], reuse))
    start = time.monotonic()
    for done, cell in enumerate(_results(todo, device, protocol, jobs), start=1):
        if cell["status"] != "missing":
            store.append({**cell, "commit": where["commit"], "environment": where})
        if progress is not None:
            left = (time.monotonic() - start) / done * (len(todo) - done)
            progress(done, len(todo), left, _line(cell))
    return store


def _missing(
    store: JsonLines,
    methods: list[Method],
    datasets: list[str],
    runs: int | None,
    device: str,
    commit: str | None,
    reuse: bool,
) -> Iterable[tuple[str, str, int]]:
    finished = {tuple(cell[k] for k in CELL_KEY[:4]) for cell in store} if reuse else set()
    for name in datasets:
        info = DATASETS.get(name.removeprefix(STAND_IN))
        n = _SMALL if info is None else info.n_nodes
        count = runs if runs is not None else (_RUNS_SMALL if n <= _SMALL else _RUNS_LARGE)
        for method in methods:
            settings = _settings(method, name, device)
            for seed in range(count):
                key = (method.name, name, seed, settings)
                if key not in finished and (*key, commit) not in store:
                    yield method.name, name, seed


def _settings(method: Method, dataset: str, device: str) -> str:
    """Parameters of the estimator as canonical JSON; part of a cell's key."""
    base = dataset.removeprefix(STAND_IN)
    k = DATASETS[base].n_classes if base in DATASETS else 2
    parameters = method.make(k, 0, device, base).get_params()
    kept = {name: value for name, value in parameters.items() if name not in _NOT_SETTINGS}
    return json.dumps(kept, sort_keys=True, default=str)


def _results(
    todo: list[tuple[str, str, int]], device: str, protocol: str, jobs: int
) -> Iterable[dict[str, Any]]:
    if jobs == 1:
        for method, dataset, seed in todo:
            yield run_cell(method, dataset, seed, device, protocol)
        return
    # A forked child cannot use a GPU that its parent has looked at.
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_one_thread) as pool:
        futures = [pool.submit(run_cell, *cell, device, protocol) for cell in todo]
        for future in as_completed(futures):
            yield future.result()


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"


def run_cell(
    method: str, dataset: str, seed: int, device: str, protocol: str = "both"
) -> dict[str, Any]:
    """One fit, scored. What cannot be had or does not fit is a cell too, with its status."""
    cell: dict[str, Any] = {
        "method": method,
        "dataset": dataset,
        "seed": seed,
        "settings": _settings(METHODS[method], dataset, device),
    }
    try:
        graph = open_dataset(dataset)
    except HenclerError as error:
        return {**cell, "status": "missing", "reason": str(error)}
    try:
        return {**cell, **_fit_and_score(METHODS[method], graph, seed, device, protocol)}
    except MemoryError:
        return {**cell, "status": "oom"}
    except HenclerError as error:
        return {**cell, "status": "not applicable", "reason": str(error)}
    except RuntimeError as error:
        # torch.OutOfMemoryError is a RuntimeError, and some allocators raise only that.
        if "out of memory" not in str(error).lower():
            raise
        return {**cell, "status": "oom"}


class _Watch:
    """Scores epochs with the labels, from outside, and counts the time that takes.

    Every epoch of graphs of up to 6,000 nodes, every fifth of larger ones.
    """

    def __init__(self, truth: Any) -> None:
        self.truth = truth
        self.every = 1 if len(truth) <= _SMALL else 5
        self.best: dict[str, float] = {}
        self.epoch_of: dict[str, int] = {}
        self.seconds = 0.0

    def __call__(self, epoch: Epoch) -> None:
        if epoch.number % self.every and epoch.number != epoch.total:
            return
        start = time.perf_counter()
        scores = evaluate(epoch.labels(), self.truth)
        for name in ("nmi", "ari", "acc", "pairwise_f1", "paper_f1"):
            if scores[name] > self.best.get(name, -np.inf):
                self.best[name] = float(scores[name])
                self.epoch_of[name] = epoch.number
        self.seconds += time.perf_counter() - start


def _fit_and_score(
    method: Method, graph: Graph, seed: int, device: str, protocol: str
) -> dict[str, Any]:
    import torch

    assert graph.y is not None
    k = len(np.unique(graph.y[graph.y >= 0]))
    estimator = method.make(k, seed, device, graph.name or "")
    shown = graph.to_undirected() if method.symmetrise else graph
    watch = _Watch(graph.y) if method.trained and protocol != "honest" else None
    if watch is not None:
        estimator.set_params(callback=watch)
    on_gpu = torch.cuda.is_available() and device != "cpu"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    with peak_memory() as memory:
        labels = estimator.fit_predict(shown)
    seconds = time.perf_counter() - start
    result: dict[str, Any] = {
        "status": "ok",
        "honest": evaluate(labels, graph.y),
        "seconds": seconds - (watch.seconds if watch is not None else 0.0),
        "peak_bytes": memory.growth,
        "peak_gpu_bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
        "device": "cuda" if on_gpu else "cpu",
    }
    if watch is not None and watch.best:
        result["best_by_labels"] = watch.best
        result["best_epoch"] = watch.epoch_of
    return result


def _line(cell: dict[str, Any]) -> str:
    what = f"{cell['method']} on {cell['dataset']}, seed {cell['seed']}"
    if cell["status"] != "ok":
        return f"{what}: {cell['status']}"
    return f"{what}: NMI {100 * cell['honest']['nmi']:.2f} in {cell['seconds']:.1f} s"
