"""How long one fit takes when nothing else is in its way: the paper's table of computation times.

One fit at a time, in a process that has warmed up on a small graph, so that neither the loading
of libraries nor the start of the device is counted. A fit that is not done after `limit` seconds
is stopped; how far it got in its epochs says how long it would have taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from .._base import Epoch
from .._errors import HenclerError
from .._graph import Graph
from ..datasets import DATASETS, load_dataset, make_heterophilous_graph
from ._record import JsonLines, environment, peak_memory
from .methods import DEFAULT_ABLATIONS, METHODS, Method, find_methods
from .paper import CELL_KEY, STAND_IN, TIMED, _one_thread, _settings, open_dataset

__all__ = ["OVER", "Stopwatch", "latest", "run", "timed_graphs"]

OVER = "over the limit"
_START = 120.0
"""Seconds a process may take to start, to load a graph and to warm up."""


def timed_graphs() -> list[str]:
    """The paper's seven graphs, generated ones of the same size for those that are not there."""
    names = []
    for name in TIMED:
        try:
            load_dataset(name)
            names.append(name)
        except LookupError:
            names.append(STAND_IN + name)
    return names


def run(
    out: Path,
    *,
    methods: list[str] | None = None,
    datasets: list[str] | None = None,
    device: str = "auto",
    limit: float = 60.0,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> JsonLines:
    """Time one fit of each method on each graph, appending each to `out`; none twice a commit.

    Parameters
    ----------
    out : JSON Lines file
    methods : names; by default all but the variants of the default
    datasets : names; by default :func:`timed_graphs`
    limit : seconds after which a fit is stopped
    progress : called with each finished cell
    """
    store, where = JsonLines(out, CELL_KEY), environment()
    left_out = {method.name for method in DEFAULT_ABLATIONS}
    chosen = find_methods(methods or [name for name in METHODS if name not in left_out])
    with Stopwatch(device) as stopwatch:
        for dataset in datasets or timed_graphs():
            for method in chosen:
                settings = _settings(method, dataset, device)
                if (method.name, dataset, 0, settings, where["commit"]) in store:
                    continue
                cell = stopwatch.measure(method.name, dataset, limit)
                store.append({**cell, "commit": where["commit"], "environment": where})
                if progress is not None:
                    progress(cell)
    return store


class Stopwatch:
    """A process of its own that fits on request and can be stopped in the middle of a fit."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._process: Any = None
        self._pipe: Connection | None = None

    def __enter__(self) -> Stopwatch:
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop()

    def measure(self, method: str, dataset: str, limit: float) -> dict[str, Any]:
        """One fit with seed 0; what came of it, and how long it took."""
        cell = {
            "method": method,
            "dataset": dataset,
            "seed": 0,
            "settings": _settings(METHODS[method], dataset, self.device),
            "limit": limit,
        }
        pipe = self._running()
        pipe.send((method, dataset))
        until, share, start = time.monotonic() + _START, 0.0, 0.0
        while True:
            if not pipe.poll(max(0.0, until - time.monotonic())):
                self._stop()
                took = time.monotonic() - start
                # The epochs are alike, so that a part of them tells how long all would take.
                estimate = took / share if share else None
                return {**cell, "status": OVER, "estimate": estimate}
            try:
                kind, value = pipe.recv()
            except EOFError:  # the process is gone: the system kills what takes too much memory
                self._stop()
                return {**cell, "status": "oom"}
            if kind == "start":
                start = time.monotonic()
                until = start + limit
            elif kind == "share":
                share = value
            else:
                return {**cell, **value}

    def _running(self) -> Connection:
        if self._pipe is None:
            # A forked child cannot use a GPU that its parent has looked at.
            context = get_context("spawn")
            self._pipe, end = context.Pipe()
            self._process = context.Process(target=_serve, args=(end, self.device), daemon=True)
            self._process.start()
            end.close()
        return self._pipe

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process = self._pipe = None


def _serve(pipe: Connection, device: str) -> None:
    """Fits what is asked for, one after the other, until the other end is closed."""
    _one_thread()
    graphs: dict[str, Graph] = {}
    while True:
        try:
            name, dataset = pipe.recv()
        except EOFError:
            return
        method = METHODS[name]
        try:
            if dataset not in graphs:
                graphs = {dataset: open_dataset(dataset)}
            _warm_up(method, device)
            pipe.send(("start", None))
            pipe.send(("done", _timed_fit(method, dataset, graphs[dataset], device, pipe)))
        except MemoryError:
            pipe.send(("done", {"status": "oom"}))
        except HenclerError as error:
            pipe.send(("done", {"status": "not applicable", "reason": str(error)}))
        except RuntimeError as error:
            # torch.OutOfMemoryError is a RuntimeError, and some allocators raise only that.
            if "out of memory" not in str(error).lower():
                raise
            pipe.send(("done", {"status": "oom"}))


def _warm_up(method: Method, device: str) -> None:
    """The same method, in few epochs, on a graph of 200 nodes."""
    graph = make_heterophilous_graph(200, 2, n_attributes=16, random_state=0)
    graph.x = np.abs(np.asarray(graph.x))  # tf-idf takes counts only
    estimator = method.make(2, 0, device, "")
    few = {name: 2 for name in ("epochs", "warmup_epochs") if name in estimator.get_params()}
    estimator.set_params(**few).fit(graph)


def _timed_fit(
    method: Method, dataset: str, graph: Graph, device: str, pipe: Connection
) -> dict[str, Any]:
    import torch

    base = dataset.removeprefix(STAND_IN)
    estimator = method.make(DATASETS[base].n_classes, 0, device, base)
    if method.trained:
        estimator.set_params(callback=_reporter(pipe))
    shown = graph.to_undirected() if method.symmetrise else graph
    on_gpu = torch.cuda.is_available() and device != "cpu" and hasattr(estimator, "device")
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    with peak_memory() as memory:
        estimator.fit(shown)
        if on_gpu:
            torch.cuda.synchronize()
    return {
        "status": "ok",
        "seconds": time.perf_counter() - start,
        "peak_bytes": memory.growth,
        "peak_gpu_bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
        "device": "cuda" if on_gpu else "cpu",
    }


def _reporter(pipe: Connection) -> Callable[[Epoch], None]:
    def report(epoch: Epoch) -> None:
        pipe.send(("share", epoch.number / epoch.total))

    return report


def latest(cells: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The last cell of each (method, data set)."""
    return {(cell["method"], cell["dataset"]): cell for cell in cells}
