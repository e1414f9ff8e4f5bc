import json
import subprocess
import sys

import numpy as np
import pytest

from hencler import Graph, HeNCler, make_heterophilous_graph, read_graph
from hencler import _memory as memory
from hencler._errors import ResourceError
from hencler._memory import MemoryPlan, available_memory
from hencler.io import write_store


@pytest.fixture
def graph():
    return make_heterophilous_graph(200, n_attributes=8, random_state=0)


# --- what there is -------------------------------------------------------------------------------


def test_available_memory_is_positive_and_below_that_of_the_machine():
    assert 0 < available_memory() <= memory.total_memory()


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are Linux's")
def test_limits_of_the_process_are_respected():
    code = (
        "import resource; from hencler._memory import available_memory;"
        "from pathlib import Path;"
        "used = int(Path('/proc/self/statm').read_text().split()[0]) * 4096;"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY));"
        "print(available_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) <= 64 << 20


@pytest.mark.parametrize("version", [1, 2])
def test_limits_of_the_control_group_are_respected(version, tmp_path):
    group = tmp_path / "memory" if version == 1 else tmp_path
    group.mkdir(exist_ok=True)
    names = (
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        if version == 1
        else ("memory.max", "memory.current", "inactive_file")
    )
    (group / names[0]).write_text("1000\n")
    (group / names[1]).write_text("700\n")
    (group / "memory.stat").write_text(f"anon 400\n{names[2]} 300\n")
    assert 600 in memory._group_available(tmp_path)


def test_a_group_without_limit_says_nothing(tmp_path):
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._group_available(tmp_path) == []


# --- plans ---------------------------------------------------------------------------------------


def test_the_peak_is_what_is_kept_and_the_largest_stage():
    plan = MemoryPlan({"a": 10, "b": 20}, {"c": 5, "d": 100})
    assert plan.total == memory._LIBRARIES + 130


@pytest.mark.parametrize("preset", ["default", "paper", "released"])
def test_a_plan_grows_with_the_graph(preset, graph):
    model = HeNCler(4, preset=preset)
    larger = make_heterophilous_graph(20_000, n_attributes=8, random_state=0)
    assert model.plan_memory(larger).total > model.plan_memory(graph).total


def test_batches_bound_the_training_step():
    graph = make_heterophilous_graph(50_000, n_attributes=8, degree=2, random_state=0)
    whole = HeNCler(4, preset="paper").plan_memory(graph)
    batches = HeNCler(4, preset="paper", batch_size=1000).plan_memory(graph)
    assert batches.stages["training step"] < whole.stages["training step"] / 10


def test_maps_are_counted_apart(graph, tmp_path):
    write_store(graph, tmp_path / "store")
    stored = read_graph(tmp_path / "store")
    plan = HeNCler(4, preset="paper").plan_memory(stored)
    assert plan.mapped == stored.x.nbytes + 4 * (201 + stored.adjacency.nnz)
    assert HeNCler(4, preset="paper").plan_memory(graph).mapped == 0
    assert "mapped files" in plan.line()
    assert json.loads(json.dumps(plan.to_dict()))["planned_bytes"] == plan.total


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_what_cannot_fit_is_refused_before_it_starts(preset, monkeypatch):
    n = 300_000
    graph = Graph(np.zeros((2, 2)), np.eye(2)).with_links(_cycle(n))
    graph.x = np.broadcast_to(np.ones(4), (n, 4))
    monkeypatch.setattr(memory, "available_memory", lambda: 1 << 20)
    with pytest.raises(
        ResourceError, match=r"needs about .* GiB .*, 1 MiB are available"
    ) as caught:
        HeNCler(40, preset=preset, n_components=200).fit(graph)
    wanted = "--batch-size" if preset == "paper" else "preset 'paper'"
    assert wanted in caught.value.remedy


def _cycle(n):
    import scipy.sparse as sp

    return sp.csr_array((np.ones(n), np.roll(np.arange(n), 1), np.arange(n + 1)), shape=(n, n))


def test_small_plans_are_never_refused(graph, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 0)
    HeNCler(4, preset="paper", epochs=1).fit(graph)
