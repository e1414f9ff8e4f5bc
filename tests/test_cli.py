"""The command line as a user meets it, in this process and once as a program of its own."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

from hencler import make_heterophilous_graph
from hencler.cli import main
from hencler.io import write_edge_list

pytestmark = pytest.mark.usefixtures("quick_report")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph")
    graph = make_heterophilous_graph(80, 4, n_attributes=8, random_state=0)
    write_edge_list(graph, folder / "edges.csv", attributes=folder / "nodes.csv")
    with (folder / "truth.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["node", "class"])
        writer.writerows(zip(graph.ids.tolist(), graph.y.tolist()))
    return folder


@pytest.fixture
def fitted(files, run, tmp_path):
    out = tmp_path / "run"
    status, _, err = run(
        "fit", files / "edges.csv", "--features", files / "nodes.csv", "--clusters", 4,
        "--out", out, "--epochs", 3, "--truth", files / "truth.csv", "--quiet",
    )  # fmt: skip
    assert status == 0, err
    return out


def test_fit_leaves_a_whole_run(fitted, files):
    names = {path.name for path in fitted.iterdir()}
    expected = {
        "labels.csv",
        "embeddings.npz",
        "model",
        "history.jsonl",
        "metrics.json",
        "run.json",
    }
    assert expected <= names
    with (fitted / "labels.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["node", "cluster"]
    assert len(rows) == 81
    with np.load(fitted / "embeddings.npz") as arrays:
        assert arrays["e"].shape == arrays["r"].shape
        assert arrays["singular_values"].shape == (arrays["e"].shape[1],)
    assert json.loads((fitted / "metrics.json").read_text())["n_evaluated"] == 80
    assert not (fitted / "checkpoint").exists()


def test_predict_gives_the_same_labels(fitted, files, run, tmp_path):
    again = tmp_path / "again.csv"
    status, _, err = run(
        "predict", fitted / "model", files / "edges.csv", "--features", files / "nodes.csv",
        "--out", again,
    )  # fmt: skip
    assert status == 0, err
    assert again.read_bytes() == (fitted / "labels.csv").read_bytes()


def test_evaluate_agrees_with_the_run(fitted, files, run):
    status, out, _ = run("evaluate", fitted / "labels.csv", files / "truth.csv", "--json")
    assert status == 0
    assert json.loads(out) == json.loads((fitted / "metrics.json").read_text())


def test_json_output_is_the_summary(files, run, tmp_path):
    status, out, _ = run(
        "fit", files / "edges.csv", "-k", 3, "--epochs", 1, "--out", tmp_path / "r", "--json"
    )
    assert status == 0
    summary = json.loads(out)
    assert sum(summary["cluster_sizes"]) == summary["nodes"] == 80
    assert summary["attributes"] == 0


def test_the_same_seed_gives_the_same_file(files, run, tmp_path):
    blobs = []
    for name in ("a", "b"):
        assert run("fit", files / "edges.csv", "-k", 3, "--out", tmp_path / name, "-q")[0] == 0
        blobs.append((tmp_path / name / "labels.csv").read_bytes())
    assert blobs[0] == blobs[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "nowhere.csv", "-k", "3"], ["nowhere.csv", "no such file"]),
        (["fit", "dataset:texos", "-k", "3"], ["texos", "texas"]),
        (["fit", "EDGES", "-k", "100"], ["n_clusters=100", "80"]),
        (["fit", "EDGES", "-k", "0"], ["--clusters"]),
        (["fit", "EDGES", "-k", "many"], ["--clusters", "auto"]),
        (["fit", "EDGES"], ["--clusters"]),
        (["fit", "EDGES", "-k", "3", "--preset", "best"], ["preset"]),
        (["fit", "EDGES", "-k", "3", "--preset", "papre"], ["Did you mean 'paper'?"]),
        (["fit", "EDGES", "-k", "3", "--device", "toaster"], ["device"]),
        (["fit", "EDGES", "-k", "3", "--device", "gpu"], ["Did you mean 'cuda'?"]),
        (["fit", "EDGES", "-k", "3", "--epoch", "3"], ["Did you mean --epochs?", "fit --help"]),
        (["fit"], ["no graph"]),
        (["fit", "--config", "nowhere"], ["nowhere", "no such file"]),
        (["bench", "paper", "--datasets", "texsa"], ["Did you mean 'texas'?"]),
        (["fti"], ["Did you mean 'fit'?"]),
        (["fit", "EDGES", "-k", "3", "--truth", "nowhere.csv"], ["nowhere.csv"]),
        (["predict", "nowhere", "EDGES", "--out", "x.csv"], ["nowhere"]),
        (["evaluate", "nowhere.csv", "EDGES"], ["nowhere.csv"]),
        (["report", "nowhere"], ["nowhere", "no run"]),
        (["datasets", "texos"], ["texas"]),
        (["bench", "paper", "--methods", "hencle"], ["hencler"]),
        (["frobnicate"], ["frobnicate"]),
    ],
)
def test_a_mistake_is_one_line_and_status_2(arguments, words, files, run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, _, err = run(*(files / "edges.csv" if a == "EDGES" else a for a in arguments))
    assert status == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for word in words:
        assert word in err


def test_a_folder_that_cannot_be_written_is_said(files, run, tmp_path):
    (tmp_path / "file").write_text("")
    status, _, err = run(
        "fit", files / "edges.csv", "-k", 3, "--epochs", 1, "--out", tmp_path / "file", "-q"
    )
    assert status == 2
    assert str(tmp_path / "file") in err.replace("\n", "")


def test_an_interrupted_fit_is_kept_and_resumed(files, run, tmp_path, monkeypatch):
    import signal

    from hencler import HeNCler

    arguments = ("fit", files / "edges.csv", "-k", 3, "--preset", "paper", "--epochs", 8, "-q")
    assert run(*arguments, "--out", tmp_path / "whole")[0] == 0

    def interrupt(epoch):
        if epoch.number == 3:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(HeNCler, "callback", property(lambda _: interrupt, lambda *_: None), False)
        status, _, err = run(*arguments, "--out", tmp_path / "part")
    assert status == 0
    assert "interrupted after epoch 3 of 8" in " ".join(err.split())
    assert (tmp_path / "part" / "labels.csv").exists()
    assert (tmp_path / "part" / "checkpoint").exists()
    assert run(*arguments, "--out", tmp_path / "part", "--resume")[0] == 0
    assert not (tmp_path / "part" / "checkpoint").exists()
    blobs = [(tmp_path / name / "labels.csv").read_bytes() for name in ("whole", "part")]
    assert blobs[0] == blobs[1]


def test_ctrl_c_is_said_in_one_line(files, run, tmp_path, monkeypatch):
    from hencler import HeNCler

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(HeNCler, "fit", interrupted)
    status, out, err = run("fit", files / "edges.csv", "-k", 3, "--out", tmp_path / "run", "-q")
    assert (status, out, err) == (130, "", "interrupted: no clusters were written\n")


def test_too_many_classes_are_warned_of(files, run, tmp_path):
    truth = tmp_path / "nodes.csv"
    truth.write_text("node,weight\n" + "".join(f"{i},{i}\n" for i in range(80)))
    status, _, err = run(
        "fit",
        files / "edges.csv",
        "-k",
        3,
        "--truth",
        truth,
        "--out",
        tmp_path / "r",
        "--no-report",
    )
    assert status == 0
    assert "80 classes for 80 nodes" in err


def test_datasets_are_listed(run):
    status, out, _ = run("datasets", "--json")
    assert status == 0
    assert "texas" in [info["name"] for info in json.loads(out)]


def test_help_and_version(run):
    status, out, _ = run("--version")
    assert status == 0
    assert out.startswith("hencler ")
    for command in ("fit", "predict", "evaluate", "report", "datasets", "demo", "bench"):
        assert run(command, "--help")[0] == 0


def test_the_demo_shows_that_direction_matters(run, tmp_path):
    status, out, err = run("demo", "--out", tmp_path / "demo")
    assert status == 0, err
    rows = {
        line.split("│")[1].strip(): float(line.split("│")[2])
        for line in out.splitlines()
        if line.startswith("│")
    }
    assert (tmp_path / "demo" / "report.html").exists()
    assert rows["HeNCler"] > 0.8
    assert rows["HeNCler"] > rows["KMeans on the attributes"] + 0.1
    assert rows["HeNCler"] > rows["spectral, symmetrised graph"] + 0.1


def test_it_is_a_program(files, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "hencler", "fit", "nowhere.csv", "-k", "2"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: nowhere.csv")


def test_an_edge_list_becomes_a_folder_that_fit_takes(files, run, tmp_path):
    store = tmp_path / "store"
    status, out, _ = run("convert", files / "edges.csv", "--features", files / "nodes.csv",
                         "--label", "label", "--out", store)  # fmt: skip
    assert status == 0
    assert "80 nodes" in out
    folder = tmp_path / "run"
    arguments = ("fit", store, "-k", 4, "--preset", "paper", "--epochs", 2, "--batch-size", 20)
    status, out, _ = run(*arguments, "--truth", "dataset", "--out", folder, "--json")
    assert status == 0
    summary = json.loads(out)
    assert sum(summary["cluster_sizes"]) == 80
    assert summary["memory"]["mapped_bytes"] > 0
    assert (folder / "report.html").exists()


def test_a_dry_run_only_states_the_memory(files, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, _ = run("fit", files / "edges.csv", "-k", 4, "--dry-run")
    assert status == 0
    assert out.startswith("memory: about")
    status, out, _ = run("fit", files / "edges.csv", "-k", 4, "--dry-run", "--json")
    assert json.loads(out)["planned_bytes"] > 0
    assert not list(tmp_path.iterdir())


# --- settings --------------------------------------------------------------------------------


def test_the_written_settings_give_the_same_labels(files, run, tmp_path, monkeypatch):
    first, again, other = tmp_path / "first", tmp_path / "deep" / "again", tmp_path / "other"
    monkeypatch.chdir(files)
    status, _, err = run(
        "fit", "edges.csv", "--features", "nodes.csv", "-k", 3, "--seed", 5, "--truth", "truth.csv",
        "--out", first, "--no-report", "-q",
    )  # fmt: skip
    assert status == 0, err
    monkeypatch.chdir(tmp_path)
    assert run("fit", "--config", first / "hencler.yaml", "--out", again, "-q")[0] == 0
    assert (again / "labels.csv").read_bytes() == (first / "labels.csv").read_bytes()
    assert (again / "metrics.json").exists()
    assert not (again / "report.html").exists()
    # A folder will do, and the command line goes before the file.
    status, out, err = run(
        "fit", "--config", again, "--clusters", 4, "--undirected", "--report", "--out", other,
        "--json",
    )  # fmt: skip
    assert status == 0, err
    summary = json.loads(out)
    assert (len(summary["cluster_sizes"]), summary["directed"]) == (4, False)
    assert summary["settings"]["random_state"] == 5
    assert (other / "report.html").exists()


def test_the_demo_can_be_repeated_from_its_settings(run, tmp_path):
    assert run("demo", "--out", tmp_path / "demo")[0] == 0
    assert run("fit", "--config", tmp_path / "demo", "--out", tmp_path / "b", "-q")[0] == 0
    blobs = [(tmp_path / name / "labels.csv").read_bytes() for name in ("demo", "b")]
    assert blobs[0] == blobs[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("clusters: 3\nsed: 4", ["my.yaml:2", "Did you mean 'seed'?"]),
        ("clusters: 3\npreset: papr", ["'papr'", "Did you mean 'paper'?"]),
        ("clusters: 3\ndevice: gpu", ["Did you mean 'cuda'?"]),
        ("clusters: 0", ["n_clusters"]),
        ("seed: 1", ["--clusters", "my.yaml"]),
    ],
)
def test_mistakes_in_the_settings(text, words, files, run, tmp_path):
    (tmp_path / "my.yaml").write_text(text)
    status, _, err = run(
        "fit", files / "edges.csv", "--config", tmp_path / "my.yaml", "--out", tmp_path / "run"
    )
    assert status == 2
    assert err.count("\n") == 1
    for word in words:
        assert word in err


def test_warnings_are_kept_with_the_run(run, tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("giver,taker\n" + "a,b\nb,a\na,c\nc,b\nb,d\nd,a\n")
    status, _, err = run("fit", edges, "-k", 2, "--out", tmp_path / "run", "-q")
    assert status == 0
    assert "read as an edge" in err
    assert (
        "read as an edge" in json.loads((tmp_path / "run" / "run.json").read_text())["warnings"][0]
    )
    assert "read as an edge" in (tmp_path / "run" / "report.html").read_text()


def test_without_a_command_there_is_help_and_no_error(run):
    for words in ((), ("bench",)):
        status, out, err = run(*words)
        assert status == 0
        assert "Usage: hencler" in out
        assert not err


def test_a_shell_can_complete(monkeypatch, capsys, tmp_path):
    def completions(*words):
        monkeypatch.setenv("_HENCLER_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(("hencler", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        monkeypatch.setattr(sys, "argv", ["hencler"])
        with pytest.raises(SystemExit):
            main()
        return capsys.readouterr().out.split()

    assert completions("eva") == ["evaluate"]
    assert completions("fit", "--clu") == ["--clusters"]
    assert completions("fit", "edges.csv", "--preset", "re") == ["released"]
    assert "dataset:texas" in completions("fit", "dataset:t")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "0 s"), (99, "99 s"), (100, "2 min"), (3900, "65 min"), (9000, "2 h 30 min")],
)
def test_durations(seconds, words):
    from hencler.cli import _duration

    assert _duration(seconds) == words
