"""How every result is measured and stored: machine, memory, JSON that survives a crash."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import FileFormatError, HenclerError, ParameterError
from ..io import atomic_write

__all__ = ["JsonLines", "PeakMemory", "environment", "peak_memory", "write_json"]

_PACKAGES = ("hencler", "numpy", "scipy", "scikit-learn", "torch", "torch_geometric")


# --- where it ran ----------------------------------------------------------------------------


def environment() -> dict[str, Any]:
    """Python, package versions, machine and commit: what a number needs to be repeated.

    ``commit`` is null outside a clone of this project, ``dirty`` tells whether the clone
    differed from that commit.
    """
    commit, dirty = _commit()
    return {
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _PACKAGES},
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "cpu": _cpu_model(),
            "cores": _cores(),
            "memory_bytes": _physical_memory(),
            "gpu": _gpu(),
            "load": _load(),
        },
        "commit": commit,
        "dirty": dirty,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_model() -> str | None:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or None


def _cores() -> int:
    # Cores this process may use: fewer than the machine's in a container or under taskset.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _physical_memory() -> int | None:
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def _load() -> float | None:
    # Timings on a busy machine are worth less: let the reader see it.
    with suppress(AttributeError, OSError):
        return os.getloadavg()[0]
    return None


def _gpu() -> str | None:
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else None


def _commit() -> tuple[str | None, bool | None]:
    package = Path(__file__).resolve().parents[1]
    # A package installed inside some other project's clone must not report that one's commit.
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        # A copy without its history can be told what it is a copy of.
        return os.environ.get("HENCLER_COMMIT"), None
    commit = _git(package, "rev-parse", "HEAD")
    return commit, bool(_git(package, "status", "--porcelain", "--untracked-files=no"))


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


# --- what it took ----------------------------------------------------------------------------


@dataclass
class PeakMemory:
    """What :func:`peak_memory` found; `growth` is set when the block ends.

    Attributes
    ----------
    growth : int
        Highest resident memory inside the block less that at its start, in bytes.
    method : {"high-water mark", "sampling"}
        Sampling can miss what lives for less than a few milliseconds.
    """

    growth: int
    method: str


@contextmanager
def peak_memory() -> Iterator[PeakMemory]:
    """Measure how far the resident memory of this process grows inside a block.

    The kernel's own high-water mark is set back at the start and read at the end, so that no
    peak is missed and earlier peaks do not hide it (``getrusage`` alone would let them). Where
    the mark cannot be set back, a thread samples the resident memory instead. Memory that
    earlier work freed but the allocator kept is reused unseen: measure in a fresh process.
    """
    if _reset_high_water_mark():
        result = PeakMemory(0, "high-water mark")
        start = _status("VmRSS")
        try:
            yield result
        finally:
            result.growth = max(0, _status("VmHWM") - start)
        return
    result = PeakMemory(0, "sampling")
    with _sampled(_resident()) as grow:
        try:
            yield result
        finally:
            result.growth = grow()


def _reset_high_water_mark() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _status("VmHWM") > 0
    except (OSError, ValueError):
        return False


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(field)


def _resident() -> Callable[[], int]:
    """A reader of the resident memory; its lifetime maximum where there is no /proc."""
    if Path("/proc/self/statm").exists():
        page = os.sysconf("SC_PAGE_SIZE")
        return lambda: int(Path("/proc/self/statm").read_text().split()[1]) * page
    import resource  # absent on Windows, where this bench does not run

    unit = 1 if sys.platform == "darwin" else 1024
    return lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@contextmanager
def _sampled(resident: Callable[[], int]) -> Iterator[Callable[[], int]]:
    start = peak = resident()
    done = threading.Event()

    def sample() -> int:
        nonlocal peak
        peak = max(peak, resident())
        return peak - start

    def loop() -> None:
        while not done.wait(0.002):
            sample()

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield sample
    finally:
        done.set()
        thread.join()


# --- where it is kept --------------------------------------------------------------------------


def write_json(path: str | Path, payload: Any) -> None:
    """Write `payload` so that `path` holds either the old file or the whole new one."""
    text = _dumps(payload, indent=2) + "\n"
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target, mode="w") as file:
        file.write(text)


class JsonLines:
    """Finished cells of a long benchmark, one JSON object per line, so that it can be resumed.

    A cell is on disk when :meth:`append` returns. A last line cut short by a crash is left out,
    reported in `truncated`, and removed by the next :meth:`append`. One process writes at a time.

    Parameters
    ----------
    path : path of the file, which need not exist
    key : names of the fields that tell one cell from another
        Of two cells with equal key fields the later one counts.

    Attributes
    ----------
    truncated : str or None
        The last line, if it was cut short.

    Examples
    --------
    >>> store = JsonLines("cells.jsonl", key=("data", "seed"))  # doctest: +SKIP
    >>> if ("texas", 0) not in store:                           # doctest: +SKIP
    ...     store.append({"data": "texas", "seed": 0, "nmi": 0.42})
    """

    def __init__(self, path: str | Path, key: Sequence[str]) -> None:
        self.path = Path(path)
        self.key = tuple(key)
        self.truncated: str | None = None
        self._cells: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._whole = 0  # bytes up to the end of the last whole line
        if self.path.exists():
            self._read()

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._cells.values())

    def __contains__(self, key: tuple[Any, ...]) -> bool:
        return key in self._cells

    def __getitem__(self, key: tuple[Any, ...]) -> dict[str, Any]:
        return self._cells[key]

    def append(self, cell: Mapping[str, Any]) -> None:
        """Store one finished cell for good."""
        line = _dumps(cell)
        # What is kept is what a reader of the file would get, tuples as lists and so on.
        stored = json.loads(line)
        key = self._key_of(stored, ParameterError, "cell")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            if self.truncated is not None:
                file.truncate(self._whole)
            file.write((line + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(self.path.parent)
        self.truncated = None
        self._cells[key] = stored

    def _read(self) -> None:
        *whole, last = self.path.read_bytes().split(b"\n")
        for number, line in enumerate(whole, start=1):
            self._whole += len(line) + 1
            if not line.strip():
                continue
            place = f"{self.path}, line {number}"
            try:
                cell = json.loads(line)
            except ValueError as error:
                raise _damaged("the line is not JSON", place) from error
            if not isinstance(cell, dict):
                raise _damaged("the line is not a JSON object", place)
            self._cells[self._key_of(cell, FileFormatError, place)] = cell
        if last:
            # A line without its newline was never finished, even if it happens to parse.
            self.truncated = last.decode(errors="replace")

    def _key_of(
        self, cell: Mapping[str, Any], error: type[HenclerError], place: str
    ) -> tuple[Any, ...]:
        absent = [name for name in self.key if name not in cell]
        if absent:
            raise error(
                f"the cell has no field {absent[0]!r}",
                place=place,
                remedy=f"Each cell needs the fields {', '.join(self.key)}",
            )
        key = tuple(cell[name] for name in self.key)
        if any(isinstance(part, list | dict) for part in key):
            raise error(
                "a key field is a list or an object", place=place, remedy="Use plain values"
            )
        return key


def _damaged(problem: str, place: str) -> FileFormatError:
    return FileFormatError(problem, place=place, remedy="Repair or remove the line, then run again")


def _dumps(payload: Any, indent: int | None = None) -> str:
    try:
        return json.dumps(payload, indent=indent, allow_nan=False, default=_plain)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"the result cannot be written as JSON: {error}",
            remedy="Use numbers, strings, lists and dicts, and None for what is not a number",
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not plain data")


def _sync_folder(folder: Path) -> None:
    # The new name is only as durable as the folder; not every system can sync one.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
