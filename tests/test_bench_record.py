"""Results on disk survive a crash; memory is measured where it peaks; the machine is described."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest

from hencler._errors import FileFormatError, ParameterError
from hencler.bench import _record, encodings
from hencler.bench._record import JsonLines, environment, peak_memory, write_json

# --- environment ---------------------------------------------------------------------------


def test_environment_is_plain_and_complete():
    found = environment()
    assert json.loads(json.dumps(found)) == found
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["versions"]["numpy"] == np.__version__
    assert set(found["versions"]) >= {"hencler", "numpy", "scipy", "scikit-learn", "torch"}
    assert found["machine"]["cores"] >= 1
    assert {"cpu", "memory_bytes", "gpu"} <= set(found["machine"])


def test_commit_is_that_of_this_project_only(monkeypatch, tmp_path):
    assert _record._git(tmp_path, "rev-parse", "HEAD") is None
    asked = []

    def not_tracked(folder, *arguments):
        asked.append(arguments[0])

    monkeypatch.setattr(_record, "_git", not_tracked)
    assert _record._commit() == (None, None)
    assert asked == ["ls-files"]


# --- memory --------------------------------------------------------------------------------

SIZE = 64 << 20


def touch_memory():
    np.ones(SIZE, dtype=np.uint8)


def test_peak_memory_sees_a_peak_that_is_gone_at_the_end():
    touch_memory()
    touch_memory()  # an earlier peak as high must not hide this one
    with peak_memory() as memory:
        touch_memory()
    assert 0.9 * SIZE < memory.growth < 2 * SIZE
    with peak_memory() as memory:
        pass
    assert memory.growth < 0.2 * SIZE


def test_peak_memory_by_sampling(monkeypatch):
    monkeypatch.setattr(_record, "_reset_high_water_mark", lambda: False)
    with peak_memory() as memory:
        held = np.ones(SIZE, dtype=np.uint8)  # still there at the last sample
    assert memory.method == "sampling"
    assert memory.growth > 0.9 * SIZE
    del held


def test_peak_memory_is_known_after_an_error():
    with pytest.raises(ZeroDivisionError), peak_memory() as memory:  # noqa: PT012
        touch_memory()
        _ = 1 / 0
    assert memory.growth > 0.9 * SIZE


# --- write_json ----------------------------------------------------------------------------


def test_write_json_round_trip(tmp_path):
    path = tmp_path / "new" / "result.json"
    write_json(path, {"a": np.float32(0.5), "b": np.arange(3), "p": tmp_path})
    assert json.loads(path.read_text()) == {"a": 0.5, "b": [0, 1, 2], "p": str(tmp_path)}
    assert path.read_text().endswith("}\n")
    assert os.listdir(path.parent) == ["result.json"]


@pytest.mark.parametrize("bad", [{"a": float("nan")}, {"a": object()}, {"a": np.float64("inf")}])
def test_write_json_keeps_the_old_file(tmp_path, bad):
    path = tmp_path / "result.json"
    write_json(path, 1)
    with pytest.raises(ParameterError, match="cannot be written as JSON"):
        write_json(path, bad)
    assert path.read_text() == "1\n"


def test_write_json_leaves_nothing_behind_when_the_disk_fails(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    write_json(path, 1)

    def full(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write_json(path, 2)
    assert path.read_text() == "1\n"
    assert os.listdir(tmp_path) == ["result.json"]


# --- JsonLines -----------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cells" / "cells.jsonl"


def test_store_resumes(path):
    store = JsonLines(path, key=("data", "seed"))
    assert len(store) == 0
    store.append({"data": "texas", "seed": 0, "nmi": np.float64(0.5)})
    store.append({"data": "texas", "seed": np.int64(1), "nmi": 0.25})
    again = JsonLines(path, key=("data", "seed"))
    assert ("texas", 0) in again
    assert ("texas", 2) not in again
    assert list(again) == list(store)
    assert again["texas", 1] == {"data": "texas", "seed": 1, "nmi": 0.25}
    assert again.truncated is None


def test_the_later_of_equal_keys_counts(path):
    store = JsonLines(path, key=("seed",))
    store.append({"seed": 0, "nmi": 1})
    store.append({"seed": 0, "nmi": 2})
    assert [cell["nmi"] for cell in store] == [2]
    assert [cell["nmi"] for cell in JsonLines(path, key=("seed",))] == [2]


def test_every_cut_of_the_last_line_is_survived(path):
    store = JsonLines(path, key=("seed",))
    for seed in range(3):
        store.append({"seed": seed, "name": "é"})
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(start, len(whole)):
        path.write_bytes(whole[:cut])
        store = JsonLines(path, key=("seed",))
        assert [cell["seed"] for cell in store] == [0, 1]
        assert (store.truncated is not None) == (cut > start)
        store.append({"seed": 9})
        assert store.truncated is None
        again = JsonLines(path, key=("seed",))
        assert [cell["seed"] for cell in again] == [0, 1, 9]


def test_two_stores_do_not_cut_each_other(path):
    one, two = JsonLines(path, key=("seed",)), JsonLines(path, key=("seed",))
    one.append({"seed": 1})
    two.append({"seed": 2})
    one.append({"seed": 3})
    assert [cell["seed"] for cell in JsonLines(path, key=("seed",))] == [1, 2, 3]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{oops", "line 2: the line is not JSON"),
        ("[1]", "line 2: the line is not a JSON object"),
        ('{"data": 1}', "line 2: the cell has no field 'seed'"),
        ('{"seed": [1]}', "line 2: a key field"),
        ("\udcff", "line 2: the line is not JSON"),
    ],
)
def test_damage_in_the_middle_is_an_error(path, line, message):
    path.parent.mkdir()
    text = f'{{"seed": 0}}\n{line}\n{{"seed": 1}}\n'
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(FileFormatError, match=message):
        JsonLines(path, key=("seed",))


@pytest.mark.parametrize("cell", [{"nmi": 1}, {"seed": [1]}, {"seed": 1, "nmi": float("nan")}])
def test_a_bad_cell_is_not_stored(path, cell):
    store = JsonLines(path, key=("seed",))
    with pytest.raises(ParameterError):
        store.append(cell)
    assert len(store) == 0
    assert not path.exists()


# --- the encoding benchmark ------------------------------------------------------------------


def test_encodings_benchmark_on_a_small_graph(tmp_path, monkeypatch):
    monkeypatch.setattr(encodings, "find_spec", lambda name: None)  # as without PyG
    out = tmp_path / "encodings.json"
    payload = encodings.run(out, ["generated:300:900"])
    assert json.loads(out.read_text()) == payload
    (row,) = payload["results"]
    assert row["pyg"] == {"skipped": "torch_geometric is not installed"}
    assert row["hencler"]["nodes"] == 300
    assert row["hencler"]["seconds"] > 0
    assert row["hencler"]["peak_bytes"] >= 0
    assert "times_faster" not in row


def test_encodings_benchmark_compares(tmp_path, monkeypatch):
    x = np.zeros((2, 3))
    costs = {
        "hencler": ({"seconds": 1.0, "cpu_seconds": 1.0, "peak_bytes": 2}, x),
        "pyg": ({"seconds": 3.0, "cpu_seconds": 6.0, "peak_bytes": 10}, x + 1e-7),
    }
    monkeypatch.setattr(encodings, "_measure", lambda method, name, cap: costs[method])
    measured = encodings.run(tmp_path / "a.json", ["squirrel", "tolokers"])["results"]
    assert measured[0]["times_faster"] == 3
    assert measured[0]["times_less_cpu"] == 6
    assert measured[0]["times_less_memory"] == 5
    assert measured[0]["largest_difference"] == pytest.approx(1e-7)
    assert "skipped" in measured[1]["pyg"]
    full = encodings.run(tmp_path / "b.json", ["tolokers"], full=True)["results"]
    assert full[0]["times_faster"] == 3


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the cap needs /proc")
def test_encodings_benchmark_ends_at_the_memory_cap(tmp_path, monkeypatch):
    monkeypatch.setattr(encodings, "find_spec", lambda name: None)
    payload = encodings.run(tmp_path / "a.json", ["generated:300:900"], memory_cap=1 << 20)
    (row,) = payload["results"]
    assert row["hencler"] == {"skipped": f"more than {1 << 20} bytes of memory"}


def test_encodings_benchmark_names_what_is_wrong(tmp_path, capsys):
    out = str(tmp_path / "a.json")
    assert encodings.main(["generated:3", "--out", out]) == 2
    assert capsys.readouterr().err.startswith("error: generated:3: no such graph")


def test_both_encodings_agree_where_measured():
    pytest.importorskip("torch_geometric")
    adjacency = encodings._adjacency("generated:100:400")
    ours, theirs = encodings._ours(adjacency)(), encodings._pyg(adjacency)()
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
