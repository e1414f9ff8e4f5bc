import json

import numpy as np
import pytest

from hencler import read_graph
from hencler._errors import HenclerError, ParameterError
from hencler.bench import scale
from hencler.bench._generate import generate_store
from hencler.bench.growth import growth_figure, growth_page
from hencler.bench.scale import BASE, SIZES, Point, replace
from hencler.metrics import edge_homophily


def cell(point, seconds, **more):
    return {
        "point": scale.asdict(point),
        "seconds": {"fit": 10.0},
        "epoch_cpu_seconds": seconds,
        "peak_anonymous_bytes": 1 << 30,
        "planned_bytes": 1 << 30,
        "mapped_bytes": 1 << 30,
        "nmi": 0.5,
        "environment": {
            "commit": "0123456789abcdef",
            "machine": {"cpu": "a chip", "load": 1.0, "cores": 2},
        },
    } | more


def test_generated_stores_are_the_graph_that_was_asked_for(tmp_path, global_random_seed):
    generate_store(tmp_path / "s", 3000, 4, n_attributes=5, n_edges=30_000, seed=global_random_seed)
    graph = read_graph(tmp_path / "s")
    assert graph.n_nodes == 3000
    assert graph.directed
    assert 29_500 < graph.n_edges <= 30_000
    assert graph.x.dtype == np.float16
    assert set(np.unique(graph.y)) == {0, 1, 2, 3}
    assert edge_homophily(graph) < 0.2, "linked nodes are mostly of different clusters"
    assert graph.n_self_loops == 0
    assert np.all(graph.adjacency.data == 1)


def test_a_point_is_measured_in_a_process_of_its_own(tmp_path):
    out = tmp_path / "scale.json"
    point = Point(9000, 20_000, 6, 3, epochs=2)
    lines = []
    payload = scale.run(out, points=[point], scratch=tmp_path, progress=lines.append)
    found = json.loads(out.read_text())["cells"][0]
    assert found["point"]["nodes"] == 9000
    assert found["epoch_cpu_seconds"] > 0
    assert 50 << 20 < found["peak_anonymous_bytes"] < 2 << 30
    assert found["mapped_bytes"] > 9000 * 6 * 4
    assert len(lines) == len(payload["cells"]) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["scale.json"], "a store is left behind"


def test_growth_compares_what_was_measured():
    cells = [
        cell(replace(BASE, nodes=20_000, edges=200_000), 1.0),
        cell(replace(BASE, nodes=200_000, edges=2_000_000), 10.5),
        cell(BASE, 5.0),
        cell(replace(BASE, edges=10 * BASE.edges), 5.5),
    ]
    found = scale.growth(cells)
    assert [pair["epoch_time_ratio"] for pair in found["10 x nodes"]] == [10.5]
    assert [pair["epoch_time_ratio"] for pair in found["10 x edges"]] == [1.1]


def test_the_page_and_the_figure_show_all_cells(tmp_path):
    pytest.importorskip("matplotlib")
    cells = [cell(point, 2.0) for point in SIZES["small"]]
    page = growth_page([*cells, cell(replace(BASE, preset="default"), 3.0)])
    assert page.count("| paper |") == len(cells)
    assert page.count("| default |") == 1
    assert "x 1.00" in page
    growth_figure(cells, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 1000


def test_faults(tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match="no size 'huge'"):
        scale.run(tmp_path / "s.json", ["huge"])
    monkeypatch.setattr(scale.shutil, "disk_usage", lambda _: type("D", (), {"free": 10})())
    with pytest.raises(HenclerError, match="of disk"):
        scale.run(tmp_path / "s.json", points=[BASE], scratch=tmp_path)
