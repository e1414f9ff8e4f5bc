"""Growth of time and memory with nodes, edges, attributes and clusters, on generated stores.

Every fit has a process of its own. Its anonymous memory (``RssAnon``: all but mapped files) is
watched from outside. Time per epoch is taken in processor seconds on one thread, which other work
on the machine disturbs little, and in seconds on the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from .._errors import HenclerError, ParameterError
from ._generate import generate_store
from ._record import environment, write_json

__all__ = ["SIZES", "Point", "growth", "read_cells", "run"]

BATCH = 8192
"""Batch size of every point, so that all of them are trained in the same steps."""

_SAMPLES_PER_SECOND = 50


@dataclass(frozen=True)
class Point:
    """One graph to fit, and how."""

    nodes: int
    edges: int
    attributes: int
    clusters: int
    epochs: int = 3
    preset: str = "paper"
    dtype: str = "float32"

    @property
    def key(self) -> tuple[Any, ...]:
        return self.preset, self.nodes, self.edges, self.attributes, self.clusters


BASE = Point(50_000, 500_000, 64, 8)


def _with_nodes(n: int) -> Point:
    return replace(BASE, nodes=n, edges=10 * n)


def _sweeps() -> list[Point]:
    nodes = [_with_nodes(n) for n in (20_000, 100_000, 200_000)]
    edges = [replace(BASE, edges=m) for m in (250_000, 2_500_000, 5_000_000)]
    attributes = [replace(BASE, attributes=d) for d in (16, 256)]
    clusters = [replace(BASE, clusters=k) for k in (2, 32)]
    return [BASE, *nodes, *edges, *attributes, *clusters]


SIZES: dict[str, list[Point]] = {
    "small": _sweeps(),
    "million": [
        _with_nodes(1_000_000),
        Point(1_000_000, 10_000_000, 128, 10),
    ],
    "ten-million": [Point(10_000_000, 100_000_000, 64, 10, epochs=1, dtype="float16")],
    "default": [replace(_with_nodes(n), preset="default") for n in (20_000, 50_000, 100_000)]
    + [Point(1_000_000, 10_000_000, 128, 10, preset="default")],
}
"""Points of each part of the benchmark; ``default`` is the closed form, all others the network."""


def run(
    out: str | Path = "benchmarks/results/scale.json",
    sizes: Sequence[str] = ("small",),
    *,
    scratch: str | Path | None = None,
    points: Iterable[Point] | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Fit every point and write the cells to `out`; cells of other points stay as they are.

    Parameters
    ----------
    sizes : names in :data:`SIZES`
    scratch : folder for the generated stores, each of which is removed after use; needs 12 GB for
        ``ten-million``
    points : in place of `sizes`
    """
    if points is None:
        unknown = [size for size in sizes if size not in SIZES]
        if unknown:
            raise ParameterError(
                f"there is no size {unknown[0]!r}", remedy=f"Choose from {', '.join(SIZES)}"
            )
        points = [point for size in sizes for point in SIZES[size]]
    cells = {_key(cell): cell for cell in read_cells(out)}
    payload: dict[str, Any] = {}
    for point in points:
        cell = _measure(point, scratch)
        cells[point.key] = cell
        payload = {
            "benchmark": "growth with the size of the graph",
            "batch_size": BATCH,
            "growth": growth(cells.values()),
            "cells": [cells[key] for key in sorted(cells)],
        }
        write_json(out, payload)
        if progress is not None:
            progress(_line(cell))
    return payload


def read_cells(path: str | Path) -> list[dict[str, Any]]:
    """Cells of earlier runs, if there are any."""
    if not Path(path).exists():
        return []
    cells: list[dict[str, Any]] = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
    return cells


def _key(cell: dict[str, Any]) -> tuple[Any, ...]:
    return Point(**cell["point"]).key


def _line(cell: dict[str, Any]) -> str:
    p = cell["point"]
    return (
        f"{p['preset']} {p['nodes']:,} x {p['attributes']}, {p['edges']:,} edges, "
        f"{p['clusters']} clusters: {cell['seconds']['fit']:.0f} s, "
        f"{cell['epoch_cpu_seconds']:.2f} s/epoch, {cell['peak_anonymous_bytes'] / 2**30:.2f} GiB"
    )


def growth(cells: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Ratios of processor time per epoch for 10 x the nodes and 10 x the edges, where measured."""
    times = {_key(cell): cell["epoch_cpu_seconds"] for cell in cells if cell["point"]["epochs"] > 0}
    wanted = {
        "10 x nodes": [
            (_with_nodes(20_000), _with_nodes(200_000)),
            (_with_nodes(100_000), _with_nodes(1_000_000)),
        ],
        "10 x edges": [
            (replace(BASE, edges=250_000), replace(BASE, edges=2_500_000)),
            (BASE, replace(BASE, edges=5_000_000)),
        ],
    }
    found: dict[str, Any] = {}
    for name, pairs in wanted.items():
        found[name] = [
            {
                "from": asdict(small),
                "to": asdict(large),
                "epoch_time_ratio": times[large.key] / times[small.key],
            }
            for small, large in pairs
            if small.key in times and large.key in times
        ]
    return found


# --- one point, seen from outside ------------------------------------------------------------


def _measure(point: Point, scratch: str | Path | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=scratch, prefix="hencler-scale-") as folder:
        store = Path(folder) / "store"
        _check_disk(Path(folder), point)
        start = time.perf_counter()
        generate_store(
            store,
            point.nodes,
            point.clusters,
            n_attributes=point.attributes,
            n_edges=point.edges,
            dtype=point.dtype,
        )
        generated = time.perf_counter() - start
        command = [sys.executable, "-m", __spec__.name if __spec__ else __name__]
        command += ["--measure", json.dumps(asdict(point)), str(store), str(Path(folder) / "run")]
        variables = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        log = Path(folder) / "log"
        with log.open("w+") as errors:
            child = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, env=variables
            )
            peak = _peak_anonymous(child)
            output = child.communicate()[0]
        if child.returncode:
            last = (log.read_text().strip().splitlines() or ["no message"])[-1]
            raise HenclerError(f"the fit failed: {last}", place=str(point))
    cell = json.loads(output.splitlines()[-1])
    cell["seconds"]["generate"] = generated
    return {
        "point": asdict(point),
        **cell,
        "peak_anonymous_bytes": peak,
        "seed": 0,
        "environment": environment(),
    }


def _check_disk(folder: Path, point: Point) -> None:
    width = 2 if point.dtype == "float16" else 4
    need = point.nodes * (width * point.attributes + 60 * point.clusters + 40) + 40 * point.edges
    free = shutil.disk_usage(folder).free
    if need > free:
        raise HenclerError(
            f"the generated graph and the run need about {need / 1e9:.1f} GB of disk, "
            f"{free / 1e9:.1f} GB are free",
            place=str(folder),
            remedy="Name another folder with --scratch",
        )


def _peak_anonymous(child: subprocess.Popen[str]) -> int:
    """Largest anonymous memory of a process until it ends, by sampling."""
    peak = 0
    while child.poll() is None:
        peak = max(peak, anonymous_memory(child.pid))
        time.sleep(1 / _SAMPLES_PER_SECOND)
    return peak


def anonymous_memory(pid: int | str = "self") -> int:
    """Resident memory of a process that is no mapped file, in bytes; 0 once it is gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


# --- one point, from inside ------------------------------------------------------------------


def _fit_here(point: Point, store: Path, folder: Path) -> dict[str, Any]:
    from .._estimator import HeNCler
    from .._memory import mapped_bytes
    from .._run import write_run
    from ..io import read_graph
    from ..metrics import normalized_mutual_information

    clock = [time.perf_counter()]
    marks: list[tuple[float, float]] = []
    start_memory = anonymous_memory()
    graph = read_graph(store)
    clock.append(time.perf_counter())
    assert graph.y is not None
    network: dict[str, Any] = {"epochs": point.epochs, "batch_size": BATCH, "device": "cpu"}
    model = HeNCler(
        point.clusters,
        preset=point.preset,
        random_state=0,
        callback=lambda epoch: marks.append((time.perf_counter(), time.process_time())),
        **(network if point.preset != "default" else {}),
    )
    plan = model.plan_memory(graph)
    model.fit(graph)
    clock.append(time.perf_counter())
    write_run(folder, graph, model, seconds=clock[2] - clock[1], source=str(store))
    clock.append(time.perf_counter())
    seconds = {
        "open": clock[1] - clock[0],
        "fit": clock[2] - clock[1],
        "write": clock[3] - clock[2],
    }
    wall, cpu = (_median_step([mark[i] for mark in marks]) for i in (0, 1))
    if marks:
        seconds |= {"before and in the first epoch": marks[0][0] - clock[1]}
        seconds |= {"after the last epoch": clock[2] - marks[-1][0]}
    return {
        "seconds": seconds,
        "epoch_seconds": wall if wall is not None else seconds["fit"],
        "epoch_cpu_seconds": cpu if cpu is not None else seconds["fit"],
        "planned_bytes": plan.total,
        "mapped_bytes": mapped_bytes(graph),
        "anonymous_bytes_before": start_memory,
        "entries": int(graph.adjacency.nnz),
        "nmi": float(normalized_mutual_information(model.labels_, graph.y)),
    }


def _median_step(marks: list[float]) -> float | None:
    steps = [b - a for a, b in pairwise(marks)]
    return median(steps) if steps else None


def main(arguments: Sequence[str] | None = None) -> int:
    """How a point is fitted in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m hencler.bench.scale")
    parser.add_argument("--measure", nargs=3, required=True, metavar=("POINT", "STORE", "RUN"))
    chosen = parser.parse_args(arguments)
    point, store, folder = chosen.measure
    print(json.dumps(_fit_here(Point(**json.loads(point)), Path(store), Path(folder))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
