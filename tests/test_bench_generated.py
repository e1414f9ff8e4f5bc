import json

import numpy as np
import pytest
import scipy.sparse as sp

from hencler.bench import generated
from hencler.bench.generated import ATTRIBUTES, PATTERNS, Case, cases, make, render, run


def block_means(graph, y):
    """Density of links from cluster to cluster."""
    one_hot = np.eye(y.max() + 1)[y]
    sizes = one_hot.sum(axis=0)
    return one_hot.T @ (graph.adjacency @ one_hot) / np.outer(sizes, sizes)


def test_every_case_has_something_to_find():
    found = list(cases(1))
    assert {case.pattern for case in found} == set(PATTERNS)
    assert {case.attributes for case in found} == set(ATTRIBUTES)
    assert len(set(found)) == len(found)
    for case in found:
        by_links = case.pattern != "none" and case.link_signal == 0.8
        by_attributes = case.attributes != "absent" and case.attribute_signal > 0
        assert by_links or by_attributes


def test_links_follow_their_pattern():
    strong = {name: make(Case(name, "absent", 0.0, 0.8, 1)) for name in PATTERNS}
    for name, graph in strong.items():
        density = block_means(graph, graph.y)
        inside, outside = np.diag(density), density[~np.eye(len(density), dtype=bool)]
        if name == "assortative":
            assert inside.min() > outside.max()
        elif name in ("disassortative", "ring", "bipartite"):
            assert inside.mean() < outside.mean()


@pytest.mark.parametrize("kind", ["normal", "words"])
def test_attributes_without_signal_are_the_same_in_all_clusters(kind):
    spread = []
    for signal in (0.0, 3.0):
        graph = make(Case("none", kind, signal, 0.3, 0))
        x = graph.x.toarray() if sp.issparse(graph.x) else graph.x
        means = np.stack([x[graph.y == c].mean(axis=0) for c in range(graph.y.max() + 1)])
        spread.append(means.var(axis=0).sum() / x.var(axis=0).sum())
    assert spread[1] > 1.3 * spread[0]


def test_run_writes_what_render_shows(tmp_path, monkeypatch):
    chosen = [Case("ring", "normal", 0.0, 0.8, 0), Case("assortative", "absent", 0.0, 0.8, 0)]
    monkeypatch.setattr(generated, "cases", lambda seeds: iter(chosen))
    seen = []
    payload = run(tmp_path / "out.json", seeds=1, progress=seen.append)
    assert payload["graphs"] == seen
    assert json.loads((tmp_path / "out.json").read_text())["graphs"][0]["pattern"] == "ring"
    ring = seen[0]
    assert set(ring["views"]) == {"own", "neighbours", "smooth", "links"}
    assert set(seen[1]["views"]) == {"links"}
    last = render(payload).splitlines()[-1].split("|")
    assert last[3].strip() == "2"
    assert float(last[4]) == pytest.approx(50 * (ring["nmi"] + seen[1]["nmi"]), abs=0.06)
