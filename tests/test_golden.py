"""Models and runs that earlier releases wrote can be read; see ``data/golden/make.py``."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from hencler import HeNCler, __version__
from hencler._errors import ModelFileError
from hencler._persistence import FORMAT
from hencler.io import read_graph, read_labels
from hencler.report import write_report

GOLDEN = Path(__file__).parent / "data" / "golden"
RUNS = sorted(path.parent for path in GOLDEN.glob("*/*/run.json"))


def test_this_release_has_golden_files():
    assert any(run.parent.name == __version__ for run in RUNS)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: "/".join(run.parts[-2:]))
def test_a_golden_run_can_be_read(run, tmp_path):
    graph = read_graph(run / "graph.npz")
    model = HeNCler.load(run / "model", device="cpu")
    ids, labels = read_labels(run / "labels.csv")
    np.testing.assert_array_equal(ids, graph.ids)
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_array_equal(model.predict(graph), labels)
    with (run / "transform.csv").open() as file:
        expected = np.array(list(csv.reader(file)), dtype=float)
    # Another version of NumPy or torch may add up in another order.
    np.testing.assert_allclose(model.transform(graph), expected, rtol=1e-4, atol=1e-5)
    for path in run.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    assert write_report(tmp_path).exists()


@pytest.mark.parametrize("run", RUNS[:1], ids=lambda run: "/".join(run.parts[-2:]))
def test_a_model_of_a_later_release_is_refused(run, tmp_path):
    header = json.loads((run / "model" / "model.json").read_text())
    header["format"] = FORMAT + 1
    (tmp_path / "model.json").write_text(json.dumps(header))
    with pytest.raises(ModelFileError, match="Install a newer version of hencler"):
        HeNCler.load(tmp_path)
