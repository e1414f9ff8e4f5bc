"""``hencler.yaml``: written, read back, and refused with the line where it is wrong."""

import inspect
import os

import pytest
import yaml

from hencler import HeNCler
from hencler._config import SETTINGS, read_settings, write_settings
from hencler._errors import FileFormatError


def test_what_is_written_is_read(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path)
    given = {
        "graph": "edges.csv",
        "features": str(tmp_path / "elsewhere" / "no: es #1.csv"),
        "label": "no",
        "directed": False,
        "truth": "dataset",
        "clusters": "auto",
        "seed": 7,
        "learning_rate": 1e-5,
        "batch_size": 32,
        "report": False,
    }
    path = write_settings(tmp_path / "run", given)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert list(yaml.safe_load(text)) == list(SETTINGS)
    assert yaml.safe_load(text)["graph"] == "../edges.csv"
    for where in (tmp_path, tmp_path / "run", tmp_path.parent):  # seen from anywhere
        monkeypatch.chdir(where)
        found = read_settings(path)
        assert os.path.abspath(found.pop("graph")) == str(tmp_path / "edges.csv")
        assert os.path.abspath(found.pop("features")) == given["features"]
        rest = {k: v for k, v in given.items() if k not in ("graph", "features")}
        defaults = {k: s.default for k, s in SETTINGS.items() if k not in ("graph", "features")}
        assert found == defaults | rest
    assert read_settings(tmp_path / "run") == read_settings(path)


def test_data_sets_are_no_paths(tmp_path):
    path = write_settings(tmp_path, {"graph": "dataset:texas", "clusters": 5})
    assert read_settings(path)["graph"] == "dataset:texas"


def test_defaults_are_the_estimators():
    of_estimator = inspect.signature(HeNCler).parameters
    other_names = {"clusters": "n_clusters", "seed": "random_state"}
    known = {other_names.get(name, name) for name in SETTINGS}
    not_settings = {"callback", "checkpoint", "resume"}
    assert set(of_estimator) - known == not_settings
    for name, setting in SETTINGS.items():
        if name in of_estimator:
            assert setting.default == of_estimator[name].default


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("# nothing\n", {}),
        ("clusters: 4\n", {"clusters": 4}),
        ("learning_rate: 1e-3\nbatch_size:\n", {"learning_rate": 1e-3, "batch_size": None}),
        ("learning_rate: 1\ndirected: yes\n", {"learning_rate": 1, "directed": True}),
        ("{preset: paper, epochs: 3}", {"preset": "paper", "epochs": 3}),
    ],
)
def test_what_people_write(tmp_path, text, expected):
    file = tmp_path / "my.yaml"
    file.write_text(text)
    assert read_settings(file) == expected


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("seed: 1\nclsters: 4\n", 2, ["'clsters'", "Did you mean 'clusters'?"]),
        ("Clusters: 4\n", 1, ["Did you mean 'clusters'?"]),
        ("out: run\n", 1, ["no setting 'out'"]),
        ("seed: 1\n\nseed: 2\n", 3, ["twice"]),
        ("clusters: true\n", 1, ["clusters is True", "whole number"]),
        ("clusters: 2.5\n", 1, ["2.5"]),
        ("epochs: many\n", 1, ["'many'", "whole number"]),
        ("label: no\n", 1, ["quotation marks"]),
        ("graph: 12\n", 1, ["quotation marks"]),
        ("directed: 1\n", 1, ["true, false"]),
        ("learning_rate: fast\n", 1, ["'fast'"]),
        ("graph: [a, b]\n", 1, ["not a setting"]),
        ("seed: 1\nview:\n  own: 1\n", 3, ["not a setting"]),
        ("- a\n- b\n", 1, ["not a setting"]),
        ("just text\n", 1, ["not a setting"]),
        ("seed: 1\ngraph: 'a\n", 3, ["not YAML"]),
        ("graph: !!python/object/apply:os.system ['true']\n", 1, ["not a setting"]),
        ("graph: !!python/name:os.system x\n", 1, ["not YAML"]),
        ("a: &a 1\n<<: *a\n", 1, []),
        ("[" * 5000, None, ["not YAML"]),
        ("\tgraph: a", 1, ["not YAML"]),
    ],
)
def test_a_mistake_has_its_line(tmp_path, text, line, words):
    file = tmp_path / "my.yaml"
    file.write_text(text)
    with pytest.raises(FileFormatError) as caught:
        read_settings(file)
    message = str(caught.value)
    assert message.startswith(str(file) + ("" if line is None else f":{line}"))
    for word in words:
        assert word in message


def test_files_that_cannot_be_settings(tmp_path):
    with pytest.raises(FileFormatError, match="no such file"):
        read_settings(tmp_path / "nowhere.yaml")
    with pytest.raises(FileFormatError, match="no such file"):
        read_settings(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_settings(tmp_path / "binary.yaml")
    (tmp_path / "large.yaml").write_text("# " + "x" * 1_000_001)
    with pytest.raises(FileFormatError, match="more than 1,000,000 bytes"):
        read_settings(tmp_path / "large.yaml")
