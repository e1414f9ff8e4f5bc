"""The whole way of a large graph, in a process with little memory."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from hencler import read_graph
from hencler.bench import scale
from hencler.bench._generate import generate_store
from hencler.bench.scale import Point

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="limits and /proc are Linux's"),
]

LIMITED = """
import resource, sys
from pathlib import Path
import sklearn.cluster, torch, hencler._estimator, hencler.cli
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
limit = used + int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
sys.argv[1:] = sys.argv[2:]
hencler.cli.main()
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large") / "store"
    generate_store(folder, 200_000, 5, n_attributes=32, n_edges=2_000_000, dtype="float32")
    return folder


def limited(megabytes, *arguments):
    command = [sys.executable, "-c", LIMITED, str(megabytes << 20), *map(str, arguments)]
    variables = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return subprocess.run(command, capture_output=True, text=True, env=variables)


def test_the_whole_way_under_a_limit_of_the_address_space(store, tmp_path):
    arguments = (
        "--preset",
        "paper",
        "--epochs",
        1,
        "--truth",
        "dataset",
        "--out",
        tmp_path / "run",
    )
    done = limited(900, "fit", store, "-k", 5, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert sum(summary["cluster_sizes"]) == 200_000
    with (tmp_path / "run" / "labels.csv").open() as lines:
        assert sum(1 for _ in lines) == 200_001


def test_what_cannot_fit_is_one_line_and_status_2(store, tmp_path):
    done = limited(150, "fit", store, "-k", 5, "--preset", "paper", "--out", tmp_path / "run")
    assert done.returncode == 2
    assert "GiB of memory" in done.stderr
    assert "--batch-size" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run" / "labels.csv").exists()


@pytest.mark.parametrize(
    "point",
    [
        Point(150_000, 1_000_000, 32, 5, epochs=1),
        Point(200_000, 1_000_000, 16, 40, epochs=1),
        Point(100_000, 6_000_000, 128, 5, epochs=1),
    ],
    ids=["plain", "many clusters", "many edges"],
)
def test_the_peak_is_within_the_plan(point, tmp_path):
    cell = scale._measure(point, tmp_path)
    grown = cell["peak_anonymous_bytes"] - cell["anonymous_bytes_before"]
    assert cell["planned_bytes"] / 2.5 <= grown <= cell["planned_bytes"]


CONVERT = """
import sys
from hencler._convert import convert
from hencler.bench.scale import anonymous_memory
print(anonymous_memory(), flush=True)
convert(sys.argv[1], sys.argv[2], memory=64 << 20)
"""


def test_edges_are_sorted_in_bounded_memory(tmp_path):
    rng = np.random.default_rng(0)
    pairs = rng.integers(100_000, size=(12_000_000, 2), dtype=np.int32)
    np.save(tmp_path / "edges.npy", pairs)
    command = [sys.executable, "-c", CONVERT, str(tmp_path / "edges.npy"), str(tmp_path / "store")]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = scale._peak_anonymous(child)
    before = int(child.communicate()[0])
    assert child.returncode == 0
    # All keys at once would take 16 bytes an edge, 192 MB, before anything is sorted.
    assert peak - before < 180 << 20
    links = read_graph(tmp_path / "store").adjacency
    assert links.nnz > 11_900_000
    assert np.array_equal(links[[7]].indices, np.unique(pairs[pairs[:, 0] == 7, 1]))
