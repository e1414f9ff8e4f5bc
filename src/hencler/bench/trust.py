"""Counted attempts to break it: kills, full disks, many fits, many processes, hostile inputs.

Each part writes its own entry into one JSON file as soon as it is done, so that they can be run
apart, and what a long run has counted is not lost with it.
"""

from __future__ import annotations

import gc
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import Graph, HeNCler, _estimator, make_heterophilous_graph
from .. import _run as run_module
from .._errors import HenclerError, ParameterError
from .._persistence import CheckpointFile
from ..io import write_npz
from ._record import environment, write_json
from .fuzz import TARGETS

__all__ = ["PARTS", "render", "run"]


# --- kill -9 ---------------------------------------------------------------------------------

PHASES = ("training", "checkpoint", "result")
EPOCHS = 40


@dataclass
class _Watched:
    """A run in a process of its own that tells through a pipe where it is."""

    pid: int
    pipe: int
    marks: list[tuple[str, float]] = field(default_factory=list)

    def listen(self, until: float) -> bool:
        """Collect marks up to a moment; False when the process has ended."""
        import select

        while (left := until - time.monotonic()) > 0:
            if not select.select([self.pipe], [], [], left)[0]:
                return True
            data = os.read(self.pipe, 1)
            if not data:
                return False
            self.marks.append((data.decode(), time.monotonic()))
        return True

    def wait_for(self, mark: str, count: int = 1) -> bool:
        """Listen until a mark came `count` times; False when the process ended before."""
        seen = 0
        while data := os.read(self.pipe, 1):
            self.marks.append((data.decode(), time.monotonic()))
            seen += data.decode() == mark
            if seen == count:
                return True
        return False

    def end(self) -> int:
        """Wait for the end; the signal that ended it, or 0."""
        while data := os.read(self.pipe, 1):
            self.marks.append((data.decode(), time.monotonic()))
        os.close(self.pipe)
        status = os.waitpid(self.pid, 0)[1]
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            raise HenclerError(f"a run ended with status {os.WEXITSTATUS(status)}")
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0

    def where(self) -> str:
        """What the run was doing when it ended, by its marks."""
        depth = Counter(mark for mark, _ in self.marks)
        if depth["C"] > depth["c"]:
            return "checkpoint"
        if depth["R"] > depth["r"]:
            return "result"
        return "training" if depth["T"] and not depth["R"] else "elsewhere"


def _start(arguments: list[str], log: Path) -> _Watched:
    """Fork a run of the command line: what is loaded here need not be loaded again."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid:
        os.close(theirs)
        return _Watched(pid, ours)
    try:  # the child, which never returns
        os.close(ours)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        _announce(theirs)
        sys.argv = ["hencler", *arguments]
        from ..cli import main

        main()
    except SystemExit as stop:
        sys.stdout.flush()
        os._exit(stop.code if isinstance(stop.code, int) else 0)
    finally:
        os._exit(70)


def _announce(pipe: int) -> None:
    """Let this process write a mark when it enters (upper case) and leaves (lower) a phase."""

    def wrap(owner: Any, name: str, mark: str) -> None:
        inner = getattr(owner, name)

        def outer(*args: Any, **kwargs: Any) -> Any:
            os.write(pipe, mark.encode())
            result = inner(*args, **kwargs)
            os.write(pipe, mark.lower().encode())
            return result

        setattr(owner, name, outer)

    from .. import _network, _persistence

    wrap(_network, "train", "T")
    wrap(_persistence, "write_model", "C")
    wrap(run_module, "write_run", "R")


def _result(folder: Path) -> dict[str, Any]:
    """Everything that must be the same to the bit: labels, weights, embeddings, losses."""
    header = json.loads((folder / "model" / "model.json").read_text())
    HeNCler.load(folder / "model", device="cpu")
    with np.load(folder / "embeddings.npz", allow_pickle=False) as data:
        arrays = {name: data[name].tobytes() for name in data.files}
    return {
        "labels": (folder / "labels.csv").read_bytes(),
        "weights": header["tensors"]["sha256"],
        "embeddings": arrays,
        "history": (folder / "history.jsonl").read_bytes(),
    }


def crash(
    *, kills: int = 220, programs: int = 6, seed: int = 0, progress: Callable[[str], None] = print
) -> dict[str, Any]:
    """kill -9 at random moments; every run is then resumed and compared bit by bit.

    Half of the moments lie in the training, the rest in the writing of checkpoints and of
    results. `programs` further kills hit programs started anew, not forked ones.
    """
    import torch

    torch.set_num_threads(1)  # no threads may be running when a process is forked
    chance = random.Random(seed)
    counts: Counter[str] = Counter()
    landed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        graph = base / "g.npz"
        made = make_heterophilous_graph(60, 4, n_attributes=8, random_state=0)
        write_npz(made, graph)
        # What torch loads at its first step, the forks need not load again.
        HeNCler(4, preset="paper", epochs=1, device="cpu", random_state=0).fit(made)
        command = ["fit", str(graph), "-k", "4", "--preset", "paper", "--epochs", str(EPOCHS),
                   "--checkpoint-epochs", "3", "--device", "cpu", "--no-report", "-q"]  # fmt: skip
        whole = _start([*command, "--out", str(base / "whole")], base / "log")
        if whole.end():
            raise HenclerError("the uninterrupted run was killed")
        expected = _result(base / "whole")
        spans = _spans(whole.marks)
        while landed.total() - landed["elsewhere"] < kills:
            phase = "training" if counts["runs"] % 2 == 0 else chance.choice(PHASES[1:])
            counts["runs"] += 1
            folder = base / f"run{counts['runs']}"
            killed = _start([*command, "--out", str(folder)], base / "log")
            if not _kill_in(killed, phase, spans, chance):
                counts["ended before"] += 1
                continue
            landed[killed.where()] += 1
            whole_before = (folder / "run.json").exists() and _result(folder) == expected
            counts["already whole"] += whole_before
            counts["with a checkpoint"] += (folder / "checkpoint" / "model.json").exists()
            again = _start([*command, "--resume", "--out", str(folder)], base / "log")
            if again.end():
                raise HenclerError("a resumed run was killed")
            counts["bit-equal"] += _result(folder) == expected
            left = [p.name for p in folder.rglob(".*")] + list(folder.glob("checkpoint"))
            counts["nothing left over"] += not left
            if landed.total() % 20 == 0:
                progress(f"{landed.total()} kills, {counts['bit-equal']} resumed bit-equal")
        fresh = _kill_programs(programs, command, base, expected, chance)
        if "Traceback" in (base / "log").read_text():
            raise HenclerError("a run printed a traceback")
    return {
        "kills": landed.total(),
        "kills_in": {phase: landed[phase] for phase in (*PHASES, "elsewhere")},
        "with_a_checkpoint": counts["with a checkpoint"],
        "resumed_bit_equal": counts["bit-equal"],
        "nothing_left_over": counts["nothing left over"],
        "programs_killed": programs,
        "programs_resumed_bit_equal": fresh,
        "seed": seed,
        "epochs": EPOCHS,
    }


def _spans(marks: list[tuple[str, float]]) -> dict[str, list[float]]:
    """How long each visit of a phase took, by its mark."""
    spans: dict[str, list[float]] = {"T": [], "C": [], "R": []}
    entered: dict[str, float] = {}
    for mark, moment in marks:
        if mark.isupper():
            entered[mark] = moment
        else:
            spans[mark.upper()].append(moment - entered[mark.upper()])
    return spans


def _kill_in(
    process: _Watched, phase: str, spans: dict[str, list[float]], chance: random.Random
) -> bool:
    """Kill at a random moment of a phase; False if the run was faster."""
    mark = {"training": "T", "checkpoint": "C", "result": "R"}[phase]
    alive = process.wait_for(mark, chance.randint(1, len(spans[mark])))
    length = statistics.mean(spans[mark])
    if alive and process.listen(time.monotonic() + chance.uniform(0, length)):
        os.kill(process.pid, signal.SIGKILL)
    return process.end() == signal.SIGKILL


def _kill_programs(
    count: int, command: list[str], base: Path, expected: dict[str, Any], chance: random.Random
) -> int:
    equal = 0
    for i in range(count):
        folder = base / f"program{i}"
        full = [sys.executable, "-m", "hencler", *command, "--out", str(folder)]
        child = subprocess.Popen(full, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while child.poll() is None and not (folder / "checkpoint" / "model.json").exists():
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.3))
        child.kill()
        child.wait()
        subprocess.run([*full, "--resume"], check=True)
        equal += _result(folder) == expected
    return equal


# --- full disk -------------------------------------------------------------------------------


def disk(*, writes: int = 200, seed: int = 0) -> dict[str, Any]:
    """Write runs over an earlier one with room for a random number of bytes in each file."""
    chance = random.Random(seed)
    intact = refused = 0
    with tempfile.TemporaryDirectory() as name:
        folder, elsewhere = Path(name) / "run", Path(name) / "elsewhere"
        graph = make_heterophilous_graph(120, 4, n_attributes=8, random_state=0)
        first, second = (HeNCler(k, n_init=1, random_state=0).fit(graph) for k in (3, 4))
        run_module.write_run(folder, graph, first, seconds=0.0, source="g")
        before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        # Room for less than the largest file of what is to be written, so that it never fits.
        run_module.write_run(elsewhere, graph, second, seconds=0.0, source="g")
        largest = max(p.stat().st_size for p in elsewhere.rglob("*") if p.is_file()) - 1
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            for _ in range(writes):
                room = int(largest ** chance.random())
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
                try:
                    run_module.write_run(folder, graph, second, seconds=0.0, source="g")
                except HenclerError:
                    refused += 1
                finally:
                    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
                after = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
                intact += after == before
        finally:
            signal.signal(signal.SIGXFSZ, handler)
    return {"writes": writes, "refused_with_a_typed_error": refused, "earlier_run_intact": intact}


# --- many fits -------------------------------------------------------------------------------


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def load(*, fits: int = 1000, graphs: int = 20) -> dict[str, Any]:
    """Small graphs one after the other in one process: the same answer each time."""
    made = [
        make_heterophilous_graph(40 + i, 3, n_attributes=6, random_state=i) for i in range(graphs)
    ]
    first: dict[int, Any] = {}
    same = 0
    start = time.perf_counter()
    before = after = 0
    for i in range(fits):
        labels = HeNCler(3, n_init=2, random_state=0).fit_predict(made[i % graphs])
        same += bool(np.array_equal(first.setdefault(i % graphs, labels), labels))
        if i == fits // 10:
            gc.collect()
            before = _resident()
    gc.collect()
    after = _resident()
    return {
        "fits": fits,
        "graphs": graphs,
        "same_labels_as_the_first_time": same,
        "resident_after_a_tenth_bytes": before,
        "resident_at_the_end_bytes": after,
        "seconds": round(time.perf_counter() - start, 1),
    }


def leak(*, fits: int = 100, nodes: int = 300) -> dict[str, Any]:
    """Resident memory and live objects over many fits of the default and of a network."""
    result: dict[str, Any] = {}
    graph = make_heterophilous_graph(nodes, 4, n_attributes=16, random_state=0)
    for preset in ("default", "paper"):
        memory, objects = [], []
        for _ in range(fits):
            HeNCler(4, preset=preset, epochs=3, n_init=2, device="cpu", random_state=0).fit(graph)
            gc.collect()
            memory.append(_resident())
            objects.append(len(gc.get_objects()))
        tenth = fits // 10
        result[preset] = {
            "fits": fits,
            "resident_after_a_tenth_bytes": memory[tenth],
            "resident_at_the_end_bytes": memory[-1],
            "objects_after_a_tenth": objects[tenth],
            "objects_at_the_end": objects[-1],
        }
    return result


# --- many processes --------------------------------------------------------------------------


def processes(*, count: int = 8) -> dict[str, Any]:
    """Runs at once in one folder: each into its own, then all into the same one."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        write_npz(make_heterophilous_graph(80, 4, n_attributes=8, random_state=0), base / "g.npz")

        def run_all(outs: list[str]) -> list[int]:
            children = [
                subprocess.Popen(
                    [sys.executable, "-m", "hencler", "fit", "g.npz", "-k", "4", "--preset",
                     "paper", "--epochs", "30", "--checkpoint-epochs", "1", "--no-report",
                     "--quiet", "--device", "cpu", "--out", out],
                    cwd=base, stderr=subprocess.PIPE, text=True,
                )
                for out in outs
            ]  # fmt: skip
            for child in children:
                errors = child.communicate()[1]
                if child.returncode and "another run is writing" not in errors:
                    raise HenclerError(f"a run failed: {errors.strip()[-200:]}")
            return [child.returncode for child in children]

        if run_all(["alone"]) != [0]:
            raise HenclerError("the run alone failed")
        expected = _result(base / "alone")
        own = [f"own{i}" for i in range(count)]
        finished = run_all(own).count(0)
        equal = sum(_result(base / out) == expected for out in own)
        codes = run_all(["shared"] * count)
        return {
            "processes": count,
            "own_folders_finished": finished,
            "own_folders_equal_to_a_run_alone": equal,
            "shared_folder_finished": codes.count(0),
            "shared_folder_refused": codes.count(2),
            "shared_folder_equal_to_a_run_alone": _result(base / "shared") == expected,
        }


# --- order of the nodes ------------------------------------------------------------------------


def order(*, graphs: int = 20) -> dict[str, Any]:
    """The same graph with its nodes in another order and under other names, every preset."""
    result: dict[str, Any] = {"graphs": graphs, "equal": {}}
    for preset in ("default", "paper", "released"):
        equal = 0
        for i in range(graphs):
            graph = make_heterophilous_graph(80 + i, 4, n_attributes=8, random_state=i)
            places = np.random.default_rng(i).permutation(graph.n_nodes)
            part = graph.subgraph(places)
            other = Graph(part.adjacency, part.x, directed=graph.directed)
            first, second = (
                HeNCler(4, preset=preset, epochs=10, device="cpu", random_state=0).fit(g)
                for g in (graph, other)
            )
            equal += all(
                np.array_equal(getattr(second, name), getattr(first, name)[places])
                for name in ("labels_", "e_", "r_")
            )
        result["equal"][preset] = equal
    return result


# --- checkpoints -----------------------------------------------------------------------------


def checkpoints(*, nodes: int = 2000, epochs: int = 300, every: float = 1.0) -> dict[str, Any]:
    """Share of a training that its checkpoints take, with one asked for every second."""
    made: list[CheckpointFile] = []

    class Recorded(CheckpointFile):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    graph = make_heterophilous_graph(nodes, 4, n_attributes=64, random_state=0)
    original = vars(_estimator)["CheckpointFile"]
    setattr(_estimator, "CheckpointFile", Recorded)  # noqa: B010
    try:
        with tempfile.TemporaryDirectory() as name:
            model = HeNCler(
                4, preset="paper", epochs=epochs, device="cpu", random_state=0,
                checkpoint=Path(name) / "c", checkpoint_seconds=every,
            )  # fmt: skip
            start = time.perf_counter()
            model.fit(graph)
            seconds = time.perf_counter() - start
    finally:
        setattr(_estimator, "CheckpointFile", original)  # noqa: B010
    return {
        "nodes": nodes,
        "epochs": epochs,
        "seconds": round(seconds, 2),
        "checkpoints": made[0].written,
        "checkpoint_seconds": round(made[0].cost, 3),
        "share_percent": round(100 * made[0].cost / seconds, 2),
    }


# --- hostile inputs --------------------------------------------------------------------------


def fuzz(
    *,
    inputs: int = 40_000,
    seconds: float = 600.0,
    seed: int = 0,
    folder: Path | None = None,
    targets: Sequence[str] = TARGETS,
    progress: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Inputs for every reader; see :mod:`hencler.bench.fuzz`.

    Each target leaves its counts in `folder`, by default one of this commit's own, with the
    inputs that were findings; those that are there already are not run again, so that a long run
    can be continued.
    """
    folder = folder or Path("fuzz") / str(environment()["commit"])[:12]
    folder.mkdir(parents=True, exist_ok=True)

    def count(target: str) -> dict[str, Any]:
        store = folder / f"{target}.json"
        ended = 0
        if not store.exists():
            ended = subprocess.run(
                [sys.executable, "-m", "hencler.bench.fuzz", target, "--out", str(store),
                 "--inputs", str(inputs), "--seconds", str(seconds), "--seed", str(seed)],
                capture_output=True, check=False,
            ).returncode  # fmt: skip
        counts: dict[str, Any] = json.loads(store.read_text()) if store.exists() else {"inputs": 0}
        if ended:
            counts["ended_by"] = ended
        progress(f"{target}: {counts['inputs']} inputs")
        return counts

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        counted = dict(zip(targets, pool.map(count, targets)))
    return {
        "inputs": sum(t["inputs"] for t in counted.values()),
        "findings": sum(len(t.get("findings", ())) for t in counted.values()),
        "processes_that_died": sum("ended_by" in t for t in counted.values()),
        "targets": counted,
    }


# --- all of it -------------------------------------------------------------------------------

PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "crash": crash,
    "disk": disk,
    "order": order,
    "load": load,
    "leak": leak,
    "processes": processes,
    "checkpoints": checkpoints,
    "fuzz": fuzz,
}


def run(
    store: Path,
    parts: Sequence[str] | None = None,
    *,
    progress: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
    **options: Any,
) -> dict[str, Any]:
    """Run some parts and put their results beside those that `store` holds already.

    Parameters
    ----------
    store : JSON file
    parts : names from :data:`PARTS`, by default all
    progress : told what is run, and when it is done
    options : keyword arguments of the one part that was chosen
    """
    for part in parts or ():
        if part not in PARTS:
            raise ParameterError(
                f"no such part: {part!r}", place="--parts", remedy=f"Known are {', '.join(PARTS)}"
            )
    result: dict[str, Any] = json.loads(store.read_text()) if store.exists() else {}
    for part in parts or PARTS:
        progress(f"{part} ...")
        start = time.perf_counter()
        counts = PARTS[part](**options)
        took = round(time.perf_counter() - start, 1)
        result[part] = {**counts, "took_seconds": took, "environment": environment()}
        write_json(store, result)
        progress(f"{part}: {took:.0f} s, in {store}")
    return result


def render(result: dict[str, Any]) -> str:
    """The counts as a Markdown table."""
    rows = [row for part, make in _ROWS.items() if part in result for row in make(result[part])]
    lines = ["| attempt | count | outcome |", "| --- | ---: | --- |"]
    return "\n".join([*lines, *(f"| {a} | {b:,} | {c} |" for a, b, c in rows)]) + "\n"


_Row = tuple[str, int, str]


def _megabytes(part: dict[str, Any]) -> str:
    growth = part["resident_at_the_end_bytes"] - part["resident_after_a_tenth_bytes"]
    return f"{growth / 2**20:+.1f} MiB resident between the first tenth and the end"


def _crash_rows(part: dict[str, Any]) -> list[_Row]:
    where = ", ".join(f"{count} in {phase}" for phase, count in part["kills_in"].items() if count)
    return [
        (
            f"`kill -9` of a run, then `--resume` ({where})",
            part["kills"],
            f"{part['resumed_bit_equal']} with weights, labels, embeddings and losses bit-equal to "
            f"an uninterrupted run; {part['nothing_left_over']} without any file left over",
        ),
        (
            "the same, programs started anew",
            part["programs_killed"],
            f"{part['programs_resumed_bit_equal']} bit-equal",
        ),
    ]


_ROWS: dict[str, Callable[[dict[str, Any]], list[_Row]]] = {
    "crash": _crash_rows,
    "disk": lambda p: [
        (
            "result written to a full disk, over an earlier one",
            p["writes"],
            f"{p['refused_with_a_typed_error']} clear errors; earlier run intact "
            f"{p['earlier_run_intact']} times",
        )
    ],
    "order": lambda p: [
        (
            f"graphs with their nodes in another order and under other names, `{preset}`",
            p["graphs"],
            f"{count} with the same clusters and embeddings, to the bit",
        )
        for preset, count in p["equal"].items()
    ],
    "load": lambda p: [
        (
            f"fits of {p['graphs']} small graphs in one process",
            p["fits"],
            f"{p['same_labels_as_the_first_time']} as at the first time; {_megabytes(p)}",
        )
    ],
    "leak": lambda p: [
        (f"fits of one graph, `{preset}`", part["fits"], _megabytes(part))
        for preset, part in p.items()
        if preset in ("default", "paper")
    ],
    "processes": lambda p: [
        (
            "processes at once, a folder each",
            p["processes"],
            f"{p['own_folders_equal_to_a_run_alone']} bit-equal to a run alone",
        ),
        (
            "processes at once, one folder for all",
            p["processes"],
            f"{p['shared_folder_finished']} finished, {p['shared_folder_refused']} refused; the "
            + (
                "result is whole" if p["shared_folder_equal_to_a_run_alone"] else "result is broken"
            ),
        ),
    ],
    "checkpoints": lambda p: [
        (
            f"checkpoints in {p['seconds']} s of training",
            p["checkpoints"],
            f"{p['share_percent']} % of the time",
        )
    ],
    "fuzz": lambda p: [
        (
            f"hostile inputs for {len(p['targets'])} readers",
            p["inputs"],
            f"{p['findings']} findings, {p['processes_that_died']} processes died",
        )
    ],
}
