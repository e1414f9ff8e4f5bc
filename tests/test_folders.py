"""One writer at a time, files that change together, nothing left behind."""

import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hencler import HeNCler, make_heterophilous_graph
from hencler._errors import HenclerError, WriteError
from hencler._folders import locked, staged, sweep
from hencler._persistence import read_model, write_model
from hencler._run import write_run
from hencler.io import atomic_write


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def graph():
    return make_heterophilous_graph(60, 4, n_attributes=8, random_state=0)


@pytest.fixture(scope="module")
def models(graph):
    return [HeNCler(k, view="own", learned_maps=False, random_state=0).fit(graph) for k in (3, 4)]


def test_a_lock_keeps_others_out_and_ends_with_its_block(tmp_path):
    with (
        locked(tmp_path),
        pytest.raises(WriteError, match="another run"),
        locked(tmp_path, wait=False),
    ):
        pass
    with locked(tmp_path, wait=False):
        pass


def test_a_killed_process_gives_its_lock_back(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from hencler._folders import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "held\n"
    with pytest.raises(WriteError), locked(tmp_path, wait=False):
        pass
    child.send_signal(signal.SIGKILL)
    child.communicate()
    with locked(tmp_path, wait=False):
        pass


def test_staged_files_change_together(tmp_path):
    (tmp_path / "a").write_text("old")
    with staged(tmp_path, last="a") as staging:
        (staging / "sub").mkdir()
        (staging / "sub" / "b").write_text("new")
        (staging / "a").write_text("new")
        assert (tmp_path / "a").read_text() == "old"
    assert contents(tmp_path) == dict.fromkeys(contents(tmp_path), b"new")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "sub"]
    before = contents(tmp_path)
    with pytest.raises(TypeError), staged(tmp_path, last="a") as staging:
        (staging / "a").write_text(b"newer")
    assert contents(tmp_path) == before


def test_what_a_killed_process_left_is_swept(tmp_path):
    (tmp_path / ".staging-x" / "model").mkdir(parents=True)
    (tmp_path / ".staging-x" / "model" / "model.json").write_text("{")
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / ".model.json.0a.tmp").write_text("{")
    (tmp_path / ".labels.csv.0a.tmp").write_text("node")
    (tmp_path / "labels.csv").write_text("node,cluster\n")
    sweep(tmp_path)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["labels.csv"]


@pytest.fixture
def small_disk():
    """Files can grow to so many bytes only, as on a disk that is full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize("room", [0, 10, 500, 2000, 20_000])
def test_a_full_disk_leaves_the_earlier_run(tmp_path, graph, models, small_disk, room):
    write_run(tmp_path, graph, models[0], seconds=0.0, source="g")
    before = contents(tmp_path)
    assert max(map(len, before.values())) > 20_000
    small_disk(room)
    with pytest.raises(WriteError, match="Make room"):
        write_run(tmp_path, graph, models[1], seconds=0.0, source="g")
    small_disk(resource.RLIM_INFINITY)
    assert contents(tmp_path) == before


def test_a_full_disk_is_one_line_on_the_command_line(tmp_path):
    code = (
        "import resource, signal, sys; from hencler.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "sys.argv = ['hencler', *sys.argv[1:]]; main()"
    )
    (tmp_path / "g.csv").write_text("".join(f"{i},{(i * 7) % 40}\n" for i in range(40)))
    done = subprocess.run(
        [sys.executable, "-c", code, "fit", "g.csv", "-k", "2", "--out", "run"],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Make room" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_may_not_be_written_to(tmp_path, graph, models):
    write_run(tmp_path, graph, models[0], seconds=0.0, source="g")
    before = contents(tmp_path)
    for mode in (0o555, 0o755):
        tmp_path.chmod(mode)
        if mode == 0o555:
            with pytest.raises(WriteError):
                write_run(tmp_path, graph, models[1], seconds=0.0, source="g")
    assert contents(tmp_path) == before


def test_read_only_file_systems_are_said(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    with pytest.raises(WriteError, match="Read-only"), staged(tmp_path, last="a"):
        pass
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(WriteError, match="Read-only"), atomic_write(tmp_path / "a"):
        pass
    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    with pytest.raises(WriteError, match="Read-only"):
        write_model(tmp_path / "m", {}, {})


def test_an_earlier_runs_scores_do_not_stay(tmp_path, graph, models):
    write_run(tmp_path, graph, models[0], seconds=0.0, source="g", truth=graph.y)
    (tmp_path / "report.html").write_text("old")
    write_run(tmp_path, graph, models[1], seconds=0.0, source="g")
    names = {p.name for p in tmp_path.iterdir()}
    assert not names & {"metrics.json", "truth.csv", "report.html"}
    assert len(list((tmp_path / "model").glob("*.safetensors"))) == 1
    assert HeNCler.load(tmp_path / "model").n_clusters == 4


def test_writers_and_readers_of_one_model_at_once(tmp_path):
    write_model(tmp_path, {"i": -1}, {"t": np.full(100, -1.0)})

    def write(i):
        for _ in range(5):
            write_model(tmp_path, {"i": i}, {"t": np.full(100, float(i))})

    def read(_):
        for _ in range(20):
            header, tensors = read_model(tmp_path)
            np.testing.assert_array_equal(tensors["t"], float(header["i"]))

    with ThreadPoolExecutor(6) as pool:
        writing = [pool.submit(write, i) for i in range(3)]
        reading = [pool.submit(read, i) for i in range(3)]
        for future in writing + reading:
            try:
                future.result()
            except HenclerError as error:  # replaced faster than it could be read, and said so
                assert "checksum" in str(error) or "cannot be read" in str(error)  # noqa: PT017
    assert len(list(tmp_path.glob("*.safetensors"))) == 1
    read_model(tmp_path)
