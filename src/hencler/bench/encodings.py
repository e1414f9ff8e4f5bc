"""Cost of the random-walk positional encoding: ours against PyG's ``AddRandomWalkPE``.

Every measurement has a process of its own, so that neither inherits the memory of the other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._encodings import random_walk_encoding
from .._errors import HenclerError, ParameterError
from ._record import environment, peak_memory, write_json

__all__ = ["DATASETS", "GENERATED", "run"]

LENGTH = 3
GENERATED = "generated:20000:400000"
"""Uniformly random directed graph, as ``generated:NODES:EDGES``."""
DATASETS = ("squirrel", GENERATED, "tolokers")

_REPEAT_SECONDS = 5.0
_MAX_REPEATS = 5
_USER_ERROR = 2


def run(
    out: str | Path = "benchmarks/results/encodings.json",
    datasets: Sequence[str] = DATASETS,
    *,
    full: bool = False,
    memory_cap: int | None = None,
) -> dict[str, Any]:
    """Measure seconds and peak memory of both encodings with 3 steps, and write them to `out`.

    Parameters
    ----------
    out : path of the JSON file
    datasets : names of benchmark graphs, or ``generated:NODES:EDGES``
    full : bool
        Also PyG on tolokers, which takes minutes and gigabytes.
    memory_cap : int, optional
        Bytes of resident memory at which a measurement is ended and noted as skipped; three
        fifths of the memory now available by default.

    Returns
    -------
    payload : dict
        What was written: ``environment``, ``length`` and one entry of ``results`` per graph.
    """
    cap = _available_memory() * 3 // 5 if memory_cap is None else memory_cap
    results = []
    for name in datasets:
        ours, x = _measure("hencler", name, cap)
        if name == "tolokers" and not full:
            theirs, z = {"skipped": "measured with full=True only"}, None
        else:
            theirs, z = _measure("pyg", name, cap)
        results.append(_compared(name, ours, x, theirs, z))
    payload = {
        "benchmark": "random-walk positional encoding",
        "length": LENGTH,
        "memory_cap_bytes": cap,
        "environment": environment(),
        "results": results,
    }
    write_json(out, payload)
    return payload


def _compared(
    name: str,
    ours: dict[str, Any],
    x: NDArray[Any] | None,
    theirs: dict[str, Any],
    z: NDArray[Any] | None,
) -> dict[str, Any]:
    row: dict[str, Any] = {"data": name, "hencler": ours, "pyg": theirs}
    if x is not None and z is not None:
        row["times_faster"] = theirs["seconds"] / ours["seconds"]
        row["times_less_cpu"] = theirs["cpu_seconds"] / ours["cpu_seconds"]
        row["times_less_memory"] = theirs["peak_bytes"] / max(1, ours["peak_bytes"])
        row["largest_difference"] = float(np.abs(x - z).max())
    return row


# --- one measurement, seen from outside ---------------------------------------------------------


def _measure(method: str, name: str, cap: int) -> tuple[dict[str, Any], NDArray[Any] | None]:
    """Cost and encoding from a fresh process, or why there are none."""
    if method == "pyg" and find_spec("torch_geometric") is None:
        return {"skipped": "torch_geometric is not installed"}, None
    with tempfile.TemporaryDirectory() as folder:
        encoding, log = Path(folder, "encoding.npy"), Path(folder, "log")
        command = [sys.executable, "-m", __spec__.name if __spec__ else __name__]
        command += ["--measure", method, name, str(encoding)]
        with log.open("w+") as errors:
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
            within = _watch(child, cap)
            output = child.communicate()[0]
        if not within:
            return {"skipped": f"more than {cap} bytes of memory"}, None
        if child.returncode:
            raise _failure(child.returncode, log.read_text(), method, name)
        return json.loads(output), np.load(encoding, allow_pickle=False)


def _failure(status: int, log: str, method: str, name: str) -> HenclerError:
    last = (log.strip().splitlines() or [f"exit status {status}"])[-1].rstrip(".")
    if status == _USER_ERROR:
        return HenclerError(last.removeprefix("error: "), place=name)
    remedy = "See that the memory suffices and that the package works on a small graph"
    return HenclerError(f"measuring {method} failed: {last}", place=name, remedy=remedy)


def _watch(child: subprocess.Popen[str], cap: int) -> bool:
    """Wait for the end of `child`, or end it at `cap` bytes; False if it had to be."""
    page = os.sysconf("SC_PAGE_SIZE")
    while child.poll() is None:
        try:
            resident = int(Path(f"/proc/{child.pid}/statm").read_text().split()[1]) * page
        except (OSError, IndexError):
            resident = 0  # already gone, or a system without /proc: no cap there
        if resident > cap:
            child.kill()
            child.wait()
            return False
        time.sleep(0.02)
    return True


def _available_memory() -> int:
    """Bytes that can be had now without swapping; 8 GiB where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 8 << 30


# --- one measurement, from inside ----------------------------------------------------------------


def _measure_here(method: str, name: str, encoding: str) -> dict[str, Any]:
    adjacency = _adjacency(name)
    prepare = {"hencler": _ours, "pyg": _pyg}[method]
    # Libraries load parts of themselves on first use: that is not the encoding's cost. More
    # than 2,000 nodes, since PyG multiplies smaller graphs in another way.
    prepare(_random_adjacency(2_100, 4_200, seed=1))()
    compute = prepare(adjacency)
    with peak_memory() as memory:
        seconds: list[float] = []
        cpu = time.process_time()
        while not seconds or (len(seconds) < _MAX_REPEATS and sum(seconds) < _REPEAT_SECONDS):
            start = time.perf_counter()
            result = compute()
            seconds.append(time.perf_counter() - start)
        cpu = time.process_time() - cpu
    np.save(encoding, result, allow_pickle=False)
    return {
        "nodes": int(adjacency.shape[0]),
        "entries": int(adjacency.nnz),
        "seconds": median(seconds),
        "all_seconds": seconds,
        # Of all threads, and little disturbed by other work on the machine.
        "cpu_seconds": cpu / len(seconds),
        "peak_bytes": memory.growth,
        "peak_method": memory.method,
        "threads": _torch_threads() if method == "pyg" else 1,
    }


def _ours(adjacency: Any) -> Callable[[], NDArray[Any]]:
    return lambda: random_walk_encoding(adjacency, LENGTH)


def _pyg(adjacency: Any) -> Callable[[], NDArray[Any]]:
    import torch
    from torch_geometric.data import Data
    from torch_geometric.transforms import AddRandomWalkPE

    edges = adjacency.tocoo()
    index = torch.from_numpy(np.stack([edges.row, edges.col]).astype(np.int64))
    transform = AddRandomWalkPE(walk_length=LENGTH, attr_name="pe")
    data = Data(edge_index=index, num_nodes=adjacency.shape[0])
    return lambda: transform(data).pe.numpy()


def _torch_threads() -> int:
    import torch

    return torch.get_num_threads()


def _adjacency(name: str) -> Any:
    """Links of a graph, all of weight 1: PyG's encoding is wrong for other weights."""
    kind, *sizes = name.split(":")
    if kind != "generated":
        from ..datasets import load_dataset

        links = load_dataset(name).adjacency.copy()
        links.data[:] = 1.0
        return links
    if len(sizes) != 2 or not all(size.isdecimal() and int(size) for size in sizes):
        raise ParameterError(f"no such graph: {name!r}", remedy="Write generated:NODES:EDGES")
    return _random_adjacency(int(sizes[0]), int(sizes[1]), seed=0)


def _random_adjacency(n: int, n_edges: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    ends = rng.integers(n, size=(2, n_edges))
    links = sp.csr_array(sp.coo_array((np.ones(n_edges), (ends[0], ends[1])), shape=(n, n)))
    links.data[:] = 1.0
    return links


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m hencler.bench.encodings [GRAPH ...] [--out FILE] [--full]``."""
    parser = argparse.ArgumentParser(prog="python -m hencler.bench.encodings", description=__doc__)
    parser.add_argument("graphs", nargs="*", default=DATASETS)
    parser.add_argument("--out", default="benchmarks/results/encodings.json")
    parser.add_argument("--full", action="store_true", help="also PyG on tolokers")
    # How the parent asks its children for one measurement: METHOD GRAPH FILE.
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    try:
        if chosen.measure:
            print(json.dumps(_measure_here(*chosen.measure)))
            return 0
        print(json.dumps(run(chosen.out, chosen.graphs, full=chosen.full), indent=2))
    except HenclerError as error:
        print(f"error: {error}", file=sys.stderr)
        return _USER_ERROR
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
