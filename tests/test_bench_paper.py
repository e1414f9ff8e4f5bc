"""The benchmark's machinery, on a small stand-in graph."""

import json

import numpy as np
import pytest

from hencler import make_heterophilous_graph
from hencler._errors import ParameterError
from hencler.bench import paper, tables
from hencler.bench.methods import METHODS, Method, find_methods


@pytest.fixture
def small(monkeypatch):
    """Every data set is a small graph, except one that is not there."""

    def load(name):
        if name == "roman-empire":
            from hencler._errors import DatasetError

            raise DatasetError("absent")
        graph = make_heterophilous_graph(60, 4, n_attributes=8, random_state=0)
        graph.name = name
        return graph

    monkeypatch.setattr(paper, "load_dataset", load)


def test_cells_are_appended_and_reused(small, tmp_path):
    out = tmp_path / "cells.jsonl"
    lines = []

    def progress(*args):
        lines.append(args)

    store = paper.run(
        out, methods=["kmeans", "coclustering"], datasets=["texas"], runs=2, progress=progress
    )
    assert len(store) == 4
    assert [line[:2] for line in lines] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    cell = next(iter(store))
    assert cell["status"] == "ok"
    assert {"nmi", "ari", "acc", "pairwise_f1", "paper_f1", "n_clusters"} <= set(cell["honest"])
    assert cell["environment"]["versions"]["numpy"] == np.__version__
    lines.clear()
    paper.run(out, methods=["kmeans"], datasets=["texas"], runs=3, progress=progress)
    assert [line[:2] for line in lines] == [(1, 1)]  # only the third seed was missing
    assert len(out.read_text().splitlines()) == 5


def test_the_best_epoch_is_picked_outside_of_fit(small, tmp_path, monkeypatch):
    from hencler import HeNCler

    def make(k, seed, device, _):
        return HeNCler(k, preset="paper", epochs=4, random_state=seed, device=device)

    monkeypatch.setitem(METHODS, "short", Method("short", "short", make, "HeNCler", True))
    (cell,) = paper.run(tmp_path / "c.jsonl", methods=["short"], datasets=["texas"], runs=1)
    assert cell["best_by_labels"]["nmi"] >= 0
    assert 1 <= cell["best_epoch"]["nmi"] <= 4
    (honest,) = paper.run(
        tmp_path / "h.jsonl", methods=["short"], datasets=["texas"], runs=1, protocol="honest"
    )
    assert "best_by_labels" not in honest
    assert honest["honest"] == cell["honest"]  # looking does not change the outcome


def test_what_is_not_there_is_not_stored(small, tmp_path):
    assert len(paper.run(tmp_path / "c.jsonl", methods=["kmeans"], datasets=["roman-empire"])) == 0


def test_out_of_memory_is_a_cell(small, tmp_path, monkeypatch):
    def make(k, seed, device, _):
        class Hungry(type(METHODS["kmeans"].make(k, seed, device, ""))):
            def _fit(self, graph):
                raise MemoryError

        return Hungry(k)

    monkeypatch.setitem(METHODS, "hungry", Method("hungry", "hungry", make, "KMeans"))
    (cell,) = paper.run(tmp_path / "c.jsonl", methods=["hungry"], datasets=["texas"], runs=1)
    assert cell["status"] == "oom"
    assert tables.summarise([cell])["hungry", "texas"].status == "oom"


def test_stand_ins_have_the_size_of_what_they_stand_for():
    graph = paper.open_dataset("like-minesweeper")
    assert graph.n_nodes == 10_000
    assert graph.n_attributes == 7
    assert abs(graph.n_edges / 39_402 - 1) < 0.1


def test_names_are_suggested():
    with pytest.raises(ParameterError, match="Did you mean 'kmeans'"):
        find_methods(["kmean"])


def make_cell(method, seed, nmi, best=None, dataset="texas"):
    scores = dict.fromkeys(("nmi", "ari", "acc", "pairwise_f1", "paper_f1"), nmi)
    cell = {
        "method": method,
        "dataset": dataset,
        "seed": seed,
        "settings": "{}",
        "commit": None,
        "status": "ok",
        "honest": {**scores, "n_clusters": 5},
        "seconds": 1.0,
        "peak_bytes": 10,
        "peak_gpu_bytes": None,
        "device": "cpu",
    }
    if best is not None:
        cell["best_by_labels"] = dict.fromkeys(scores, best)
    return cell


def test_summaries_are_means_and_population_deviations():
    cells = [make_cell("dmon", s, v, v + 0.1) for s, v in enumerate([0.1, 0.2, 0.3])]
    summary = tables.summarise(cells)["dmon", "texas"]
    assert summary.honest["nmi"] == pytest.approx((20.0, 100 * np.std([0.1, 0.2, 0.3])))
    assert summary.best["nmi"][0] == pytest.approx(30.0)
    again = tables.summarise([*cells, make_cell("dmon", 2, 0.6, 0.7)])
    assert again["dmon", "texas"].honest["nmi"][0] == pytest.approx(30.0)


def test_the_page_has_the_papers_numbers_and_ours(monkeypatch):
    def absent(name):
        raise LookupError(name)

    monkeypatch.setattr("hencler.datasets.load_dataset", absent)
    cells = [make_cell("dmon", s, 0.2, 0.5) for s in range(3)]
    page = tables.render(cells)
    assert "| DMoN | paper, by labels | 9.06 ± 2.11 |" in page
    assert "| DMoN | ours, by labels | 50.00 ± 0.00 (3 runs) |" in page
    assert "| DMoN | **ours, honest** | 20.00 ± 0.00 (3 runs) |" in page
    assert "| DMoN | 30.0 | 30.0 |" in page  # what the pick was worth
    assert "| DMoN | texas | NMI | 9.06 ± 2.11 | 50.00 ± 0.00 | +40.9 |" in page
    json.dumps(tables.paper_tables())


def test_the_short_table_takes_the_best_of_the_others():
    cells = [
        make_cell("hencler", 0, 0.45),
        make_cell("kmeans", 0, 0.2),
        make_cell("content", 0, 0.4),
        make_cell("dmon", 0, 0.1, 0.9),
        make_cell("hencler", 0, 0.7, dataset="serengeti"),
        make_cell("spectral", 0, 0.3, dataset="serengeti"),
    ]
    page = tables.short_tables(cells)
    assert "| **HeNCler, default** | **honest** | **45.0** |" in page
    assert "| best untrained method *for that graph* | honest | 40.0 |" in page
    assert "| best other trained method *for that graph* | honest | 10.0 |" in page
    assert "| HeNCler in the paper | epoch picked by labels | 43.6 |" in page
    assert "| spectral, symmetrised graph | 30.0 |" in page


def test_the_readme_table_is_renewed_in_place(tmp_path, monkeypatch, capsys):
    import sys

    from hencler.bench.paper import open_store
    from hencler.cli import main

    store = open_store(tmp_path / "cells.jsonl")
    store.append(make_cell("hencler", 0, 0.45))
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- table: start -->\nold\n<!-- table: end -->\nafter\n")
    arguments = ["bench", "paper", "--only-tables", "--out", store.path, "--readme", readme]
    monkeypatch.setattr(sys, "argv", ["hencler", *map(str, arguments)])
    with pytest.raises(SystemExit):
        main()
    text = readme.read_text()
    assert text.startswith("before\n<!-- table: start -->\n| NMI")
    assert text.endswith("<!-- table: end -->\nafter\n")
    assert "old" not in text
