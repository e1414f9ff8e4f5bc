"""The report: its numbers against dense computations, and the page for every kind of run."""

from __future__ import annotations

import csv
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA

from hencler import Graph, HeNCler
from hencler._errors import FileFormatError
from hencler._link_matrix import link_matrix
from hencler._run import write_run
from hencler._stability import Stability
from hencler._stratified import stratified
from hencler.report import _page as page_module
from hencler.report import write_report
from hencler.report._certainty import certainty, members_by_distance
from hencler.report._charts import histogram, line, singular_bars
from hencler.report._folder import Run, read_folder
from hencler.report._map import circle_of_clusters, leading_plane, neighbourhoods
from hencler.report._page import embedded_json
from hencler.report._profile import attribute_table, unusual_attributes
from hencler.report._similarity import against_chance, asymmetry, similarity_block
from hencler.report._views import (
    _link_title,
    cluster_cards,
    confusion_view,
    link_view,
    similarity_view,
)

pytestmark = pytest.mark.usefixtures("quick_report")

HOSTILE = "</script><script>alert(1)</script>"


# --- numbers ---------------------------------------------------------------------------------


def test_link_matrix_is_the_dense_one(global_random_seed: int) -> None:
    rng = np.random.default_rng(global_random_seed)
    a = (rng.random((60, 60)) < 0.1) * rng.random((60, 60))
    clusters = rng.integers(4, size=60)
    links = link_matrix(sp.csr_array(a), clusters, 4)
    member = np.eye(4)[clusters]
    plain = (a > 0) & ~np.eye(60, dtype=bool)
    observed = member.T @ plain @ member
    assert_array_equal(links.observed, observed)
    assert links.n_self_loops == np.count_nonzero(np.diag(a))
    expected = np.outer(plain.sum(1) @ member, plain.sum(0) @ member) / plain.sum()
    assert_allclose(links.expected, expected)
    assert_allclose(links.expected.sum(), observed.sum())
    same = clusters[:, None] == clusters
    assert links.within == pytest.approx(plain[same].sum() / plain.sum())
    assert links.within_expected == pytest.approx(np.trace(expected) / plain.sum())


def test_links_as_by_chance_have_ratio_one() -> None:
    complete = sp.csr_array(np.ones((6, 6)) - np.eye(6))
    bipartite = sp.csr_array(np.kron([[0, 1], [1, 0]], np.ones((3, 3))))
    clusters = np.array([0, 0, 0, 1, 1, 1])
    assert_allclose(link_matrix(bipartite, clusters, 2).log_ratio, [[-np.inf, 1], [1, -np.inf]])
    assert_allclose(link_matrix(complete, np.zeros(6, dtype=int), 1).log_ratio, [[0]])
    assert np.isnan(link_matrix(sp.csr_array((6, 6)), clusters, 2).within)


@pytest.mark.parametrize("sparse", [False, True])
def test_over_representation_is_numpys(sparse: bool, global_random_seed: int) -> None:
    rng = np.random.default_rng(global_random_seed)
    x = rng.normal(size=(50, 7)) * (rng.random((50, 7)) < 0.5)
    x[:, 0] = rng.random(50) < 0.3
    x[:, 1] = 0.0 if sparse else 1e6 + rng.normal(size=50)
    x[:, 2] = 3.7
    clusters = np.arange(50) % 3
    table = attribute_table(sp.csr_array(x) if sparse else x, clusters, 3)
    for c in range(3):
        inside, outside = x[clusters == c].mean(0), x[clusters != c].mean(0)
        assert_allclose(table.inside[c], inside)
        assert_allclose(table.outside[c], outside)
        sd = x.std(0)
        expected = np.zeros(7)
        varies = np.ptp(x, axis=0) > 0
        expected[varies] = (inside - outside)[varies] / sd[varies]
        assert_allclose(table.difference[c], expected, atol=1e-6)
    assert_array_equal(table.binary, [True, sparse, *[False] * 5])


def test_one_cluster_has_no_over_representation() -> None:
    table = attribute_table(np.arange(6.0).reshape(3, 2), np.zeros(3, dtype=int), 1)
    assert_array_equal(table.difference, np.zeros((1, 2)))


@pytest.mark.parametrize("sparse", [False, True])
def test_unusual_attributes_have_the_largest_standard_scores(sparse: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 6)) * (rng.random((40, 6)) < 0.6)
    given = sp.csr_array(x) if sparse else x
    table = attribute_table(given, np.zeros(40, dtype=int), 1)
    nodes = np.array([5, 3, 17])
    found = unusual_attributes(given, nodes, table, 2)
    score = np.abs((x - x.mean(0)) / x.std(0))
    if sparse:
        score[x == 0] = 0
    for node, listed in zip(nodes, found):
        best = np.argsort(-score[node], kind="stable")[:2]
        assert [j for j, _ in listed] == [j for j in best if score[node, j] > 0]
        assert [v for _, v in listed] == [x[node, j] for j, _ in listed]


def test_margin_from_all_distances(global_random_seed: int) -> None:
    rng = np.random.default_rng(global_random_seed)
    z, clusters = rng.normal(size=(40, 3)), np.arange(40) % 4
    found = certainty(z, clusters, 4)
    centres = np.stack([z[clusters == c].mean(0) for c in range(4)])
    for i in range(40):
        d = np.linalg.norm(z[i] - centres, axis=1)
        a, others = d[clusters[i]], np.delete(d, clusters[i])
        assert found.own[i] == pytest.approx(a)
        assert found.margin[i] == pytest.approx((others.min() - a) / max(a, others.min()))
        assert d[found.next_cluster[i]] == others.min()
    order = members_by_distance(found.own, clusters, 4)
    assert all(np.all(np.diff(found.own[nodes]) >= 0) for nodes in order)
    assert_array_equal(np.sort(order[2]), np.flatnonzero(clusters == 2))


def test_margin_of_points_on_their_centres_and_of_one_cluster() -> None:
    z = np.array([[0.0], [0.0], [1.0]])
    assert_array_equal(certainty(z, np.array([0, 0, 1]), 2).margin, [1, 1, 1])
    assert np.isnan(certainty(z, np.zeros(3, dtype=int), 1).margin).all()
    same = certainty(np.zeros((4, 2)), np.array([0, 0, 1, 1]), 2)
    assert_array_equal(same.margin, np.zeros(4))


def test_asymmetry() -> None:
    rng = np.random.default_rng(0)
    s = rng.random((5, 5))
    assert asymmetry(s + s.T) == 0
    assert asymmetry(np.triu(s, 1)) == pytest.approx(np.sqrt(2))
    expected = np.sqrt(((s - s.T) ** 2).sum() / (s**2).sum())
    assert asymmetry(s) == pytest.approx(expected)
    assert np.isnan(asymmetry(np.zeros((2, 2))))


def test_similarity_against_chance() -> None:
    assert_allclose(against_chance(np.outer([1, 2, 3], [4, 5, 6])), np.ones((3, 3)))
    assert against_chance(np.array([[1.0, -1.0], [1.0, 1.0]])) is None
    assert against_chance(np.array([[0.0, 0.0], [1.0, 1.0]])) is None


def test_leading_plane_is_pca(global_random_seed: int) -> None:
    rng = np.random.default_rng(global_random_seed)
    z = rng.normal(size=(50, 5)) * [5, 3, 1, 1, 1] + 7
    nodes = np.array([3, 1, 40])
    plane = leading_plane(z, nodes)
    pca = PCA(2).fit(z)
    assert_allclose(np.abs(plane.points), np.abs(pca.transform(z[nodes])), atol=1e-8)
    assert_allclose(plane.explained, pca.explained_variance_ratio_)
    one = leading_plane(z[:, :1], nodes)
    assert_allclose(one.points, np.stack([z[nodes, 0] - z[:, 0].mean(), np.zeros(3)], axis=1))
    assert leading_plane(np.ones((4, 3)), np.arange(4)).explained == (0.0, 0.0)


@pytest.mark.parametrize("sizes", [[5], [40, 3], [100, 1, 1, 1], [9] * 12])
def test_drawn_clusters_do_not_overlap(sizes: list[int]) -> None:
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    points, centres, radii = circle_of_clusters(clusters, np.ones(clusters.size), len(sizes))
    assert np.all(np.linalg.norm(points - centres[clusters], axis=1) < radii[clusters])
    gaps = np.linalg.norm(centres[:, None] - centres, axis=2) - radii - radii[:, None]
    np.fill_diagonal(gaps, 1)
    assert gaps.min() > 0


def test_samples_keep_small_clusters_and_the_limit() -> None:
    clusters = np.repeat([0, 1, 2], [9000, 990, 10])
    nodes = stratified(clusters, 3, 500, np.random.default_rng(0))
    counts = np.bincount(clusters[nodes])
    assert 490 <= nodes.size <= 500
    assert counts[2] == 10
    assert counts[0] > counts[1] > counts[2]
    assert np.unique(nodes).size == nodes.size
    assert_array_equal(stratified(clusters, 3, 10_000, np.random.default_rng(0)), np.arange(10_000))
    singles = stratified(np.arange(50), 50, 20, np.random.default_rng(0))
    assert np.unique(singles).size == 20


def test_charts() -> None:
    drawn = line(np.array([1.0, 2.0, 3.0]), np.array([2.0, np.nan, 0.0]))
    assert drawn is not None
    assert drawn["points"] == "0.0,0.0 300.0,110.0"
    assert line(np.array([1.0]), np.array([np.inf])) is None
    assert [b["height"] for b in singular_bars(np.array([1.0, 4.0]))] == [1.0, 0.25]
    assert singular_bars(np.array([])) == []
    assert histogram(np.array([-1.0, 1.0, 1.0]), bins=3) == [0.5, 0.0, 1.0]


def test_counts_that_fit_a_cell() -> None:
    counts = [0, 0.0388, 12.0, 99.6, 4728, 84896, 999_499, 999_500, 2e9]
    words = ["0", "0.0388", "12", "99.6", "4,728", "84.9k", "999k", "1.0M", "2,000.0M"]
    assert [page_module._amount(v) for v in counts] == words


def test_json_cannot_end_its_element() -> None:
    text = embedded_json({"id": HOSTILE + "&<!--"})
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"id": HOSTILE + "&<!--"}


# --- pages -------------------------------------------------------------------------------------


class _Page(HTMLParser):
    """Elements with their attributes, and the data of the page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.text = path.read_text(encoding="utf-8")
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._in_data = False
        self.data: Any = None
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._in_data = tag == "script" and dict(attrs).get("id") == "data"

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.data = json.loads(data)
            self._in_data = False
        self.words.append(data)

    def tags(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for tag, attrs in self.elements if tag == name]


def _run(folder: Path, graph: Graph, k: int = 3, **options: Any) -> Path:
    """Fit quickly, write the run and its report."""
    model = HeNCler(k, epochs=2, n_init=1, device="cpu", random_state=0).fit(graph)
    write_run(folder, graph, model, seconds=0.5, source="test", **options)
    return folder


def _graph(n: int = 60, *, attributes: bool = True, directed: bool = True, **options: Any) -> Graph:
    rng = np.random.default_rng(0)
    groups = np.arange(n) % 3
    a = (rng.random((n, n)) < 0.1 + 0.3 * ((groups[:, None] + 1) % 3 == groups)).astype(float)
    x = rng.normal(size=(n, 4)) + 3 * np.eye(4)[groups] if attributes else None
    return Graph(a if directed else np.maximum(a, a.T), x, directed=directed, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph = _graph(ids=[HOSTILE] + [f"n{i}" for i in range(1, 60)], attribute_names=list("abcd"))
    return _run(
        tmp_path_factory.mktemp("run"),
        graph,
        truth=np.arange(60) % 3,
        warnings=[HOSTILE, "second"],
    )


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_the_page_holds_what_the_folder_says(folder: Path) -> None:
    page = _Page(write_report(folder))
    rows = page.data["rows"]
    with (folder / "labels.csv").open(newline="", encoding="utf-8") as table:
        records = list(csv.DictReader(table))
    assert rows["id"] == [r["node"] for r in records]
    assert [page.data["names"][c] for c in rows["cluster"]] == [r["cluster"] for r in records]
    assert page.data["complete"]
    assert len(page.data["map"]["panels"]) == 2
    assert page.data["map"]["attributes"] == list("abcd")
    ids = {attrs["id"] for attrs in page.tags("section")}
    sections = "summary links drawing map truth clusters similarity certainty training nodes"
    assert ids == set(sections.split())
    assert "second" in page.words


def test_the_same_folder_gives_the_same_bytes(folder: Path) -> None:
    first = write_report(folder).read_bytes()
    assert write_report(str(folder)).read_bytes() == first


def test_nothing_comes_from_elsewhere(folder: Path) -> None:
    page = _Page(write_report(folder))
    for _, attrs in page.elements:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            target = attrs.get(name)
            assert target is None or target == "labels.csv" or target.startswith(("#", "data:"))
    addresses = set(re.findall(r"https?://[^\s\"'<>]+", page.text))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name space, never fetched
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|WebSocket|import\(", page.text)
    [policy] = [m["content"] for m in page.tags("meta") if m.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy


def test_hostile_texts_stay_text(folder: Path) -> None:
    page = _Page(write_report(folder))
    assert "<script>alert" not in page.text
    assert page.data["rows"]["id"][0] == HOSTILE
    assert page.words.count(HOSTILE) >= 1  # the warning
    assert len(page.tags("script")) == 2


def test_similarity_block_is_the_models(folder: Path) -> None:
    run = read_folder(folder)
    model = HeNCler.load(folder / "model", device="cpu")
    block = similarity_block(run, model, np.arange(60.0), 20)
    assert len(block.nodes) <= 20
    assert np.all(np.diff(run.clusters[block.nodes]) >= 0)
    s = model.similarity(graph=run.graph)
    assert_allclose(block.values, s[np.ix_(block.nodes, block.nodes)], rtol=1e-5)


def test_confusion_counts_known_classes_only(copy: Path) -> None:
    lines = (copy / "truth.csv").read_text().splitlines()
    lines[5] = lines[5].rpartition(",")[0] + ",-1"
    (copy / "truth.csv").write_text("\n".join(lines) + "\n")
    view = confusion_view(read_folder(copy))
    assert view is not None
    assert sum(row["total"] for row in view["rows"]) == 59
    assert [row["name"] for row in view["rows"]] == ["0", "1", "2"]
    counts = np.array([[cell["count"] for cell in row["cells"]] for row in view["rows"]])
    assert counts.sum() == 59


def test_undirected_links_are_counted_once(tmp_path: Path) -> None:
    run = read_folder(_run(tmp_path, _graph(directed=False)))
    view = link_view(run)
    counts = np.array([[cell["observed"] for cell in row] for row in view["cells"]])
    assert_array_equal(counts, counts.T)
    assert np.triu(counts).sum() == view["n_links"] == run.graph.n_edges - run.graph.n_self_loops
    page = _Page(write_report(tmp_path))
    assert [panel["name"] for panel in page.data["map"]["panels"]] == ["[e | r]"]
    assert "in" not in page.data["rows"]


@pytest.mark.parametrize(
    ("graph", "k"),
    [
        (_graph(attributes=False), 3),
        (_graph(), 1),
        (Graph(sp.csr_array((40, 40)), np.random.default_rng(0).normal(size=(40, 3))), 3),
        (Graph(np.array([[0, 1], [0, 0]]), np.eye(2)), 2),
        (_graph(350), 3),
    ],
    ids=["no attributes", "one cluster", "no edges", "two nodes", "too many to draw"],
)
def test_a_page_for_every_kind_of_graph(tmp_path: Path, graph: Graph, k: int) -> None:
    _run(tmp_path, graph, k)
    page = _Page(write_report(tmp_path))
    assert len(page.data["rows"]["id"]) == graph.n_nodes
    ids = {attrs["id"] for attrs in page.tags("section")}
    assert ("certainty" in ids) == (k > 1)
    assert ("drawing" in ids) == (graph.n_nodes <= 300 and graph.n_edges > 0)
    assert "truth" not in ids
    assert "nan" not in re.sub(r"<script.*", "", page.text, flags=re.S).lower().split()


def test_missing_parts_cost_their_section_only(copy: Path) -> None:
    (copy / "history.jsonl").unlink()
    (copy / "metrics.json").unlink()
    shutil.rmtree(copy / "model")
    page = _Page(write_report(copy))
    assert page.data["heat"] is None
    assert "It could not be computed" in page.text
    assert not [a for a in page.tags("polyline") if a.get("class") == "curve"]
    assert any("NMI" in word for word in page.words)  # computed anew from the classes


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("embeddings.npz", None),
        ("embeddings.npz", b"no zip"),
        ("history.jsonl", b'{"epoch": 1}\n[1]\n'),
        ("metrics.json", b"{"),
        ("graph.npz", None),
        ("labels.csv", None),
        ("run.json", None),
    ],
)
def test_damaged_parts_are_named(copy: Path, name: str, content: bytes | None) -> None:
    if content is None:
        (copy / name).unlink()
    else:
        (copy / name).write_bytes(content)
    with pytest.raises(FileFormatError) as caught:
        write_report(copy)
    assert name in str(caught.value) or (name == "run.json" and "no run here" in str(caught.value))


@pytest.mark.parametrize(
    ("e", "message"),
    [(np.zeros((7, 2)), "60 nodes"), (np.full((60, 2), np.nan), "not finite")],
)
def test_embeddings_that_cannot_be_are_refused(copy: Path, e: Any, message: str) -> None:
    np.savez(copy / "embeddings.npz", e=e, r=e, singular_values=e[0])
    with pytest.raises(FileFormatError, match=message):
        write_report(copy)


def test_large_graphs_are_sampled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "TABLE_NODES", 40)
    monkeypatch.setattr(page_module, "MAP_NODES", 20)
    monkeypatch.setattr(page_module, "HEAT_NODES", 10)
    run = read_folder(folder)
    text = page_module.render(run)
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
    assert not data["complete"]
    assert len(data["rows"]["id"]) < 60
    ids = run.graph.ids.tolist()
    picked = [ids.index(data["rows"]["id"][row]) for row in data["map"]["row"]]
    assert len(set(picked)) == len(picked) <= 20
    for layer in data["heat"]["layers"]:
        assert len(layer["values"]) == len(data["heat"]["row"]) ** 2 <= 100
    assert 'href="labels.csv"' in text


def test_the_page_stays_below_10_mb_whatever_the_names() -> None:
    n, rng = 60_000, np.random.default_rng(0)
    ids = np.array([f"{'<' * 300}{i}" for i in range(n)])
    x = sp.random_array((n, 400), density=0.01, rng=rng, format="csr")
    names = [f"{'&' * 100}{j}" for j in range(400)]
    edges = sp.random_array((n, n), density=2 / n, rng=rng, format="csr")
    e = rng.normal(size=(n, 2)).astype(np.float32)
    run = Run(
        Path("nowhere"),
        {"graph": "<" * 5000, "warnings": ["<" * 5000]},
        Graph(edges, x, ids=ids, attribute_names=names, directed=True),
        rng.integers(4, size=n),
        list("abcd"),
        e,
        e,
        np.ones(2),
        [],
        None,
        None,
    )
    assert len(page_module.render(run).encode()) < 10_000_000


def test_long_ids_are_kept_whole_where_all_nodes_are_listed(tmp_path: Path) -> None:
    ids = [f"{'x' * 500}{i}" for i in range(60)]
    page = _Page(write_report(_run(tmp_path, _graph(ids=ids))))
    assert page.data["complete"]
    assert page.data["rows"]["id"] == ids


def test_many_clusters_are_merged_beyond_the_largest(tmp_path: Path) -> None:
    graph = _graph(120)
    _run(tmp_path, graph, 40)
    run = read_folder(tmp_path)
    view = link_view(run)
    assert view["rows"][-1] == -1
    assert len(view["rows"]) == 31
    whole = link_matrix(graph.adjacency, run.clusters, run.k)
    assert view["within"] == pytest.approx(whole.within)
    assert view["chance"] == pytest.approx(whole.within_expected)
    assert len(_Page(write_report(tmp_path)).tags("article")) == 30


# --- style -------------------------------------------------------------------------------------


def _luminance(colour: str) -> float:
    v = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def _contrast(a: str, b: str) -> float:
    low, high = sorted([_luminance(a), _luminance(b)])
    return (high + 0.05) / (low + 0.05)


def test_both_themes_can_be_read() -> None:
    css = page_module._part("page.css")
    blocks = re.findall(r":root[^{]*\{([^}]*)\}", css)
    light, by_system, by_reader = blocks
    assert by_system == by_reader
    for block in (light, by_reader):
        theme = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
        for ground in ("bg", "surface", "soft", "warn-bg"):
            assert _contrast(theme["text"], theme[ground]) >= 7
            assert _contrast(theme["muted"], theme[ground]) >= 4.5
        assert _contrast(theme["accent"], theme["surface"]) >= 4.5
        for c in range(page_module.MARKS):
            assert _contrast(theme[f"c{c}"], theme["surface"]) >= 3
        for colour, share in {"more": 0.8, "less": 0.8, "accent": 0.5}.items():  # fullest cells
            mixed = _mixed(theme[colour], theme["surface"], share)
            assert _contrast(theme["text"], mixed) >= 4.5


def _mixed(a: str, b: str, share: float) -> str:
    pairs = [(int(a[i : i + 2], 16), int(b[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(share * u + (1 - share) * v):02x}" for u, v in pairs)


# --- stability and maps --------------------------------------------------------------------------


def test_neighbourhoods_keep_groups_together() -> None:
    rng = np.random.default_rng(0)
    groups = np.arange(60) % 3
    z = np.eye(5)[groups] + 0.1 * rng.normal(size=(60, 5))
    points = neighbourhoods(z)
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    np.fill_diagonal(distances, np.inf)
    assert (groups[distances.argmin(axis=1)] == groups).all()
    assert_array_equal(points, neighbourhoods(z))
    assert neighbourhoods(z[:5]) is None
    assert neighbourhoods(np.ones((20, 3))) is None
    assert np.isfinite(neighbourhoods(np.vstack([z, np.zeros((3, 5))]))).all()


@pytest.mark.parametrize(
    ("within", "chance", "words"),
    [
        (0.0, 0.05, "Almost every link joins two different clusters"),
        (0.5, 0.25, "stay within"),
        (0.1, 0.25, "prefer other clusters"),
        (0.26, 0.25, "neither"),
        (float("nan"), 0.0, "no links"),
    ],
)
def test_the_sentence_about_links(within: float, chance: float, words: str) -> None:
    assert words in _link_title(4, within, chance, 1000)
    if words == "stay within":  # three links are no evidence
        assert "neither" in _link_title(4, within, chance, 3)


def test_a_model_that_cannot_be_read_costs_pictures_only(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model")
    page = _Page(write_report(tmp_path / "run"))
    assert page.data["heat"] is None
    assert "stable" not in page.data["rows"]
    assert "Stability over seeds was not computed" in page.text


def test_titles_and_dates() -> None:
    run = Run(**(dict.fromkeys(Run.__dataclass_fields__) | {"summary": {"graph": "a\\b/c.csv"}}))
    assert page_module._title(run) == "c.csv"
    run.summary["graph"] = "dataset:texas"
    assert page_module._title(run) == "texas"
    del run.summary["graph"]
    assert page_module._title(run) == "a graph"
    assert page_module._date("2026-01-31T10:20:30Z") == "2026-01-31, 10:20 UTC"
    assert page_module._date(None) == ""
    assert page_module._date(["odd"]) == "['odd']"


def test_the_sample_of_a_large_graph_has_its_model_and_stability_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hencler import _run, make_heterophilous_graph

    monkeypatch.setattr(_run, "WHOLE_NODES", 50)
    monkeypatch.setattr(_run, "SAMPLE_NODES", 40)
    graph = make_heterophilous_graph(60, 3, random_state=0)
    model = HeNCler(3, n_init=2, random_state=0).fit(graph)
    write_run(tmp_path, graph, model, seconds=1.0, source="large")
    page = _Page(write_report(tmp_path))
    stable = model.stability(n_runs=4, max_nodes=1000)
    assert f"{stable.agreement:.2f} (adjusted Rand index)" in page.text
    assert "stable" not in page.data["rows"]
    assert len(page.data["heat"]["layers"]) == 1 + len(model.views_)
    assert "Stability over seeds: 4 times" not in page.text or "for 1,000 nodes" in page.text
    assert "<dt>nodes</dt><dd>60</dd>" in page.text, "the whole graph, not the sample"
    assert "no link to another node" not in page.text
    assert "links between them are those of all" in page.text
    assert "label-free score" not in page.text, "that of a sample is not that of the graph"
    (tmp_path / "sample" / "stability.json").write_text("[")
    with pytest.raises(FileFormatError, match="stability cannot be read"):
        write_report(tmp_path)


@pytest.mark.parametrize("kind", ["memory", "disk", "undirected", "many clusters"])
def test_links_of_a_sampled_graph_are_counted_over_all_of_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, global_random_seed: int
) -> None:
    from hencler import _link_matrix, _run, read_graph
    from hencler._graph import edge_blocks
    from hencler.io import write_store

    monkeypatch.setattr(_run, "WHOLE_NODES", 100)
    monkeypatch.setattr(_run, "SAMPLE_NODES", 60)
    monkeypatch.setattr(_link_matrix, "edge_blocks", lambda a: edge_blocks(a, entries=50))
    rng = np.random.default_rng(global_random_seed)
    dense = rng.random((200, 200)) < 0.03
    dense[7] = dense[:, 7] = False  # isolated
    graph = Graph(dense.astype(float), directed=kind != "undirected")
    dense = graph.adjacency.toarray() > 0
    k = 35 if kind == "many clusters" else 4
    labels = np.r_[np.arange(k), rng.integers(0, k - 1, 200 - k)]  # the last one is tiny
    if kind == "disk":
        write_store(graph, tmp_path / "store")
        graph = read_graph(tmp_path / "store")
    model = HeNCler(k, n_init=1, random_state=0).fit(graph)
    model.labels_ = labels
    monkeypatch.setattr(model, "stability", lambda **_: Stability(np.ones(k), np.ones(60), 1.0))
    write_run(tmp_path / "run", graph, model, seconds=1.0, source="large")

    run = read_folder(tmp_path / "run" / "sample")
    assert run.k == k, "a cluster of one node is seen, too"
    assert run.sizes.tolist() == np.bincount(labels).tolist()
    member = np.eye(k)[labels]
    off = dense & ~np.eye(200, dtype=bool)
    expected = member.T @ off @ member
    assert run.whole is not None
    assert_allclose(run.whole.links.observed, expected)
    assert run.whole.n_isolated == 200 - np.count_nonzero(off.any(0) | off.any(1)) >= 1
    view = link_view(run)
    assert view["n_links"] == graph.n_edges - graph.n_self_loops
    assert view["n_self_loops"] == np.count_nonzero(np.diag(dense))
    assert_allclose(view["within"], np.trace(expected) / expected.sum())
    assert view["matrix"].observed.sum() == expected.sum()
    if len(view["rows"]) == k:
        assert_allclose(view["matrix"].observed, expected)
    card = cluster_cards(run, certainty(run.embedding, run.clusters, k), None, view)[1]
    assert_allclose(card["degree"]["out"][0], dense[labels == card["cluster"]].sum(1).mean())
    assert_allclose(card["degree"]["in"][1], dense.sum(0).mean())
    assert card["size"] == np.count_nonzero(labels == card["cluster"])


def test_damaged_counts_of_the_whole_graph_are_named(copy: Path) -> None:
    k = 4
    good = {
        "sizes": np.ones(k, int), "links": np.ones((k, k), int), "self_loops": np.zeros(k, int),
        "isolated": np.array(0),
    }  # fmt: skip
    np.savez(copy / "whole.npz", **good)
    assert read_folder(copy).whole is not None
    for name, wrong in (
        ("links", np.ones((k, 3), int)), ("links", -good["links"]), ("sizes", np.ones(2, int)),
        ("self_loops", np.zeros(k)), ("isolated", np.zeros(2, int)),
    ):  # fmt: skip
        np.savez(copy / "whole.npz", **{**good, name: wrong})
        with pytest.raises(FileFormatError, match="not the counts of this run"):
            read_folder(copy)
    (copy / "whole.npz").write_bytes(b"PK")
    with pytest.raises(FileFormatError, match="counts cannot be read"):
        read_folder(copy)


def test_a_sparse_similarity_is_told_by_its_leading_components(global_random_seed: int) -> None:
    """Four clusters in a ring: S among a few nodes is nearly empty, the cosines are not."""
    from hencler import make_heterophilous_graph
    from hencler.report._page import _leading

    graph = make_heterophilous_graph(
        2000, 4, n_attributes=0, link_signal=0.9, random_state=global_random_seed
    )
    for each in (graph, graph.to_undirected()):
        model = HeNCler(4, n_init=2, view="links", learned_maps=False, random_state=0).fit(each)
        run = Run(
            Path(), {}, each, model.labels_, ["0", "1", "2", "3"], model.e_, model.r_,
            model.singular_values_, [], None, None,
        )  # fmt: skip
        own = np.zeros(each.n_nodes)
        block = similarity_block(run, model, own, 100)
        view = similarity_view(run, block, _leading(run, block, model))
        assert view["by"] == "links"
        if not each.directed:
            assert view["asymmetry"] < 1e-6
            continue
        assert view["asymmetry"] > 0.5
        means = np.array([[float(cell["text"]) for cell in row] for row in view["means"]])
        links = link_matrix(each.adjacency, model.labels_, 4).observed
        assert (means.argmax(1) == links.argmax(1)).all(), "who is similar to whom is who links"
