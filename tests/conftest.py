"""What all tests share: benchmark data that may be absent, seeds, and a watch on global state."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# The tests' matrices are small: threads would only wait for each other. Read at import.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import torch
from hypothesis import Phase, settings

from hencler.datasets import DATASETS, _files

DATA = os.environ.get("HENCLER_DATA")

# A fault that `make mutation` puts in is only to be noticed, not to be made small.
settings.register_profile(
    "mutation", derandomize=True, database=None, phases=[Phase.explicit, Phase.generate]
)


def _absent(name: str) -> str | None:
    """Why the data set cannot be used here, or None."""
    if name not in DATASETS:
        raise pytest.UsageError(f"data({name!r}): there is no such data set")
    if not DATA:
        return "HENCLER_DATA is not set"
    missing = [file for file in _files(name) if not (Path(DATA) / file).is_file()]
    return f"HENCLER_DATA has no {missing[0]}" if missing else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("data"):
        for name in marker.args:
            reason = _absent(name)
            if reason:
                pytest.skip(f"needs the data set {name!r}: {reason}")


def _seeds() -> list[int]:
    """HENCLER_TEST_SEED: one number, or "all" for 0 to 9, which every random test must pass."""
    chosen = os.environ.get("HENCLER_TEST_SEED", "0")
    return list(range(10)) if chosen == "all" else [int(chosen)]


@pytest.fixture(params=_seeds())
def global_random_seed(request: pytest.FixtureRequest) -> int:
    """Seed of a random test; the test must pass for any."""
    return int(request.param)


@pytest.fixture
def quick_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports with few nodes on the slow map and one run for the stability."""
    from hencler.report import _page

    monkeypatch.setattr(_page, "NEAR_NODES", 12)
    monkeypatch.setattr(_page, "STABLE_RUNS", 1)


@pytest.fixture(autouse=True)
def _global_random_state_is_left_alone(request: pytest.FixtureRequest):
    """Neither the library nor a test draws from NumPy's or torch's global generator."""
    if "scikit_learn_checks" in request.node.name:  # some of them draw from it themselves
        yield
        return
    before = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    torch_before = torch.get_rng_state()
    yield
    after = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    assert before["pos"] == after["pos"], "NumPy's global generator was used"
    assert np.array_equal(before["key"], after["key"]), "NumPy's global generator was seeded"
    assert torch.equal(torch_before, torch.get_rng_state()), "torch's global generator was used"


@pytest.fixture
def put(tmp_path):
    """Write a file, return its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def run(monkeypatch, capsys):
    """Call the command line in this process: its exit status, output and errors."""
    from hencler.cli import main

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["hencler", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return call
