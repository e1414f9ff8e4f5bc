"""The benchmark of the score: what it writes, and graphs that are missing."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

from hencler.bench import scoring


@pytest.fixture
def small(monkeypatch):
    """Small graphs, few clusterings, no learned maps."""
    make, methods = scoring.make_heterophilous_graph, scoring._methods
    monkeypatch.setattr(
        scoring,
        "make_heterophilous_graph",
        lambda random_state: make(90, random_state=random_state),
    )
    monkeypatch.setattr(scoring, "_SEEDS", 2)
    monkeypatch.setattr(scoring, "_RESTARTS", 2)
    monkeypatch.setattr(
        scoring, "estimate_n_clusters", partial(scoring.estimate_n_clusters, k_max=4)
    )
    monkeypatch.setattr(
        scoring, "_methods", lambda *a: (each for each in methods(*a) if each[0] != "method")
    )


def test_run_writes_correlations_and_numbers_of_clusters(small, tmp_path):
    out = tmp_path / "scoring.json"
    payload = scoring.run(out, ["generated:0"], [("blobs", 2)])
    assert json.loads(out.read_text()) == payload
    (row,) = payload["ranking"]
    assert row["data"] == "generated:0"
    assert row["count"] == 2 * 3  # two seeds; content is for words, and left out
    assert -1 <= row["spearman"] <= 1
    assert row["nmi_mean"] <= row["nmi_best"]
    assert payload["pooled"]["clusterings"] == row["count"]
    # One graph: the pooled correlation of ranks is the graph's own.
    assert payload["pooled"]["rank_correlation"] == pytest.approx(row["spearman"])
    assert [r["true"] for r in payload["n_clusters"] + payload["n_clusters_known"]] == [4, 2]


def test_links_alone_are_not_clustered_by_attributes():
    graph = scoring.make_known("cyclic", 3)
    views = {m.view for kind, _, _, m in scoring._methods(graph, 3) if kind == "method"}
    assert views == {"links", "auto"}


def test_missing_graphs_are_listed(tmp_path, monkeypatch):
    monkeypatch.setenv("HENCLER_DATA", str(tmp_path))
    payload = scoring.run(tmp_path / "scoring.json", ["celegans"], [])
    assert payload["ranking"] == []
    assert [each["data"] for each in payload["skipped"]] == ["celegans"]
    assert payload["pending"] == []


def test_correlation_of_constants_is_none():
    assert scoring._spearman(np.ones(3), np.arange(3.0)) is None


@pytest.mark.parametrize(("kind", "step"), [("assortative", 0), ("cyclic", 1)])
def test_known_graphs_follow_their_plan(kind, step):
    graph = scoring.make_known(kind, 4, seed=0)
    rows, cols = graph.adjacency.nonzero()
    planned = (graph.y[rows] + step) % 4 == graph.y[cols]
    assert planned.mean() == pytest.approx(0.8 + 0.2 / 4, abs=0.03)


def test_disassortative_graphs_avoid_their_own_cluster():
    graph = scoring.make_known("disassortative", 3, seed=0)
    rows, cols = graph.adjacency.nonzero()
    assert (graph.y[rows] == graph.y[cols]).mean() == pytest.approx(0.2 / 3, abs=0.03)
