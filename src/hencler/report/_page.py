"""From a run to the text of one HTML page that needs nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import sys
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from .._base import few_threads
from .._errors import HenclerError
from .._estimator import HeNCler
from .._optional import optional_import
from .._progress import announce, steps
from .._scoring import score_parts
from .._stability import Stability, compare, repeat
from .._stratified import stratified
from ..metrics import _unknown
from . import _views as views
from ._certainty import Certainty, certainty
from ._folder import Run
from ._map import circle_of_clusters, leading_plane, neighbourhoods
from ._profile import AttributeTable, attribute_table, unusual_attributes
from ._similarity import (
    SimilarityBlock,
    against_chance,
    cosines,
    is_scattered,
    similarity_block,
    spectra,
)

__all__ = ["render"]

MAP_NODES, NEAR_NODES = 5_000, 1_000
"""Nodes on the map by principal components, and by neighbourhoods, which take longer."""
STABLE_NODES, STABLE_RUNS, STABLE_CLUSTERS = 1_000, 4, 100
SCORED_NODES = 50_000
TABLE_NODES = 50_000
TABLE_BYTES = 5_000_000
HEAT_NODES = 120
DRAWN_NODES = 300
HOVER_ATTRIBUTES = 3
STEP = "writing the report"
MARKS = 8
"""Colours of the palette; clusters beyond them repeat the colours in another shape."""
ID_LENGTH = 120
"""Longer ids are cut where nodes are sampled; the full table has every id as it is."""


def render(run: Run) -> str:
    """The page, with every text of the user's escaped."""
    z = run.embedding
    announce(STEP)
    certain = certainty(z, run.clusters, run.k)
    model = _model(run)
    block = _similarity(run, model, certain)
    leading = _leading(run, block, model)
    stable = _stable(run, model)
    announce(STEP)
    attributes = None
    if run.graph.x is not None:
        attributes = attribute_table(run.graph.x, run.clusters, run.k)
    links = views.link_view(run)
    cards = views.cluster_cards(run, certain, attributes, links)
    picked = np.random.default_rng(0).permutation(
        stratified(run.clusters, run.k, MAP_NODES, np.random.default_rng(0))
    )
    complete = _table_fits(run)
    rows = np.arange(run.graph.n_nodes)
    if not complete:
        rows = _mentioned(picked, block, cards)
    data: dict[str, Any] = {
        "names": [views.shorten(name, 40) for name in run.names],
        "directed": run.graph.directed,
        "rows": _table(run, certain, stable, rows, complete),
        "complete": complete,
        "map": _map(run, z, picked, rows, attributes),
        "heat": _heat(block, leading, rows),
        "drawing": None,
    }
    announce(STEP)
    drawing = _drawing(run) if complete else None
    if drawing is not None:
        data["drawing"] = {key: drawing[key] for key in ("points", "edges")}
    context = {
        "run": {"finished": "", "warnings": [], "settings": {}, "seconds": None} | run.summary,
        "finished": _date(run.summary.get("finished")),
        "source": views.shorten(str(run.summary.get("graph", "")), 300),
        "title": _title(run),
        "score": _score(run, model),
        "names": data["names"],
        "version": __version__,
        "graph": run.graph,
        "k": run.k,
        **_counts(run),
        "sizes": views.size_view(run),
        "links": links,
        "map": data["map"],
        "heat": data["heat"],
        "cards": cards,
        "similarity": views.similarity_view(run, block, leading),
        "certain": views.certainty_view(run, certain, stable),
        "unsure_below": views.UNSURE,
        "stable_runs": STABLE_RUNS,
        "same": bool(np.array_equal(run.e, run.r)),
        "losses": views.loss_view(run.history),
        "sigma": views.sigma_view(run, None if isinstance(model, HenclerError) else model),
        "truth": views.confusion_view(run),
        "drawing": drawing,
        "complete": complete,
        "rows": data["rows"],
        "row_of": {int(node): i for i, node in enumerate(rows)},
        "on_map": set(data["map"]["row"]),
    }
    return _template(context, data)


def _model(run: Run) -> HeNCler | HenclerError:
    """The model; one that cannot be read costs the report some pictures, not all."""
    # The sample of a large graph's run has its model beside it.
    folder = run.folder.parent if run.sampled else run.folder
    try:
        return HeNCler.load(folder / "model", device="cpu")
    except HenclerError as error:
        return error


def _counts(run: Run) -> dict[str, int]:
    """Nodes, links and nodes without links; of a sample, what is known of the whole graph."""
    graph = run.graph
    nodes, edges = (run.summary.get(name) for name in ("nodes", "edges"))
    if run.sampled and type(nodes) is int and type(edges) is int:
        isolated = 0 if run.whole is None else run.whole.n_isolated
        return {"n_nodes": nodes, "n_edges": edges, "isolated": isolated}
    return {"n_nodes": graph.n_nodes, "n_edges": graph.n_edges, "isolated": graph.n_isolated}


def _similarity(
    run: Run, model: HeNCler | HenclerError, certain: Certainty
) -> SimilarityBlock | HenclerError:
    if isinstance(model, HenclerError):
        return model
    try:
        return similarity_block(run, model, certain.own, HEAT_NODES)
    except HenclerError as error:
        return error


def _stable(run: Run, model: HeNCler | HenclerError) -> Stability | None:
    """How stable the clusters are over seeds; None for one cluster, or without a model."""
    if run.stability is not None or run.sampled:
        return run.stability
    if isinstance(model, HenclerError) or run.k == 1 or run.k > STABLE_CLUSTERS:
        return None
    nodes = stratified(run.clusters, run.k, STABLE_NODES, np.random.default_rng(0))
    try:
        with few_threads(len(nodes)):
            runs = repeat(model._reassigner(run.graph, run.e, run.r), nodes, STABLE_RUNS)
    except HenclerError:
        return None
    return compare(run.clusters, run.k, nodes, runs)


def _score(run: Run, model: HeNCler | HenclerError) -> dict[str, float] | None:
    """The label-free score and its parts; views that first must be chosen, for some graphs only."""
    views_known = getattr(model, "views_", None)
    if isinstance(model, HenclerError) or (not views_known and run.graph.n_nodes > SCORED_NODES):
        return None
    if run.sampled:  # which has too few of the links to tell whether the clusters pay
        return None
    with few_threads(run.graph.n_nodes):
        return score_parts(run.graph, run.clusters, views=views_known)


def _title(run: Run) -> str:
    """The data set, or the name of the file without its folder."""
    source = str(run.summary.get("graph", "")).removeprefix("dataset:")
    return views.shorten(re.split(r"[/\\]", source.rstrip("/"))[-1] or "a graph")


def _date(text: Any) -> str:
    """2026-01-31T10:20:30Z as people write it; anything else as it is."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\dZ", str(text or ""))
    return f"{found[1]}, {found[2]} UTC" if found else views.shorten(text or "", 40)


# --- data for the browser --------------------------------------------------------------------


def _table_fits(run: Run) -> bool:
    """Whether the table can hold every node."""
    if run.graph.n_nodes > TABLE_NODES:
        return False
    ids = embedded_json(run.graph.ids.tolist())
    return len(ids.encode("utf-8", "replace")) <= TABLE_BYTES


def _mentioned(
    picked: NDArray[np.int64], block: Any, cards: list[dict[str, Any]]
) -> NDArray[np.int64]:
    """Every node that some view shows: the rows of a table that cannot have all."""
    others = [block.nodes] if isinstance(block, SimilarityBlock) else []
    for card in cards:
        named = [*card["typical"], *(node for node, _ in card["outliers"])]
        others.append(np.array(named, dtype=np.int64))
    return np.unique(np.concatenate([picked, *others]))


def _table(
    run: Run,
    certain: Certainty,
    stable: Stability | None,
    rows: NDArray[np.int64],
    complete: bool,
) -> dict[str, Any]:
    adjacency = run.graph.adjacency
    length = sys.maxsize if complete else ID_LENGTH
    table: dict[str, Any] = {
        "id": [views.shorten(node, length) for node in run.graph.ids[rows].tolist()],
        "cluster": run.clusters[rows].tolist(),
        "out": np.diff(adjacency.indptr)[rows].tolist(),
    }
    if run.graph.directed:
        into = np.bincount(adjacency.indices, minlength=run.graph.n_nodes)
        table["in"] = into[rows].tolist()
    if run.k > 1:
        table["sure"] = np.round(1000 * certain.margin[rows]).astype(int).tolist()
        table["next"] = certain.next_cluster[rows].tolist()
    if stable is not None and not np.isnan(stable.nodes).all():
        shares = np.nan_to_num(stable.nodes[rows], nan=-0.01)  # -1: not among those drawn
        table["stable"] = np.round(100 * shares).astype(int).tolist()
    if run.truth is not None:
        known = ~_unknown(run.truth)
        classes, codes = np.unique(run.truth[known], return_inverse=True)
        numbers = np.full(run.truth.size, -1)
        numbers[known] = codes
        table["class"] = numbers[rows].tolist()
        table["classes"] = [views.shorten(c, 60) for c in classes.tolist()]
    return table


def _map(
    run: Run,
    z: NDArray[Any],
    picked: NDArray[np.int64],
    rows: NDArray[np.int64],
    attributes: AttributeTable | None,
) -> dict[str, Any]:
    if run.graph.directed:
        parts = [
            ("e", "as sources of links", run.e),
            ("r", "as targets of links", run.r),
        ]
    else:
        parts = [("[e | r]", "all of the embedding", z)]
    panels = []
    for name, meaning, part in steps("mapping the nodes", parts):
        plane = leading_plane(part, picked)
        near = neighbourhoods(part[picked[:NEAR_NODES]])
        panels.append(
            {
                "name": name,
                "meaning": meaning,
                "explained": plane.explained,
                "near": None if near is None else _places(near),
                "plane": _places(plane.points),
            }
        )
    drawn: dict[str, Any] = {"row": np.searchsorted(rows, picked).tolist(), "panels": panels}
    if run.graph.x is not None and attributes is not None:
        unusual = unusual_attributes(run.graph.x, picked, attributes, HOVER_ATTRIBUTES)
        columns = sorted({j for node in unusual for j, _ in node})
        number = {j: i for i, j in enumerate(columns)}
        drawn["attributes"] = [views.shorten(views.attribute_name(run, j), 40) for j in columns]
        drawn["values"] = [[[number[j], float(f"{v:.3g}")] for j, v in node] for node in unusual]
    return drawn


def _places(points: NDArray[Any]) -> dict[str, Any]:
    """Points on the grid, and how many of them lie beyond its edge."""
    (x, beyond_x), (y, beyond_y) = (_grid(points[:, axis]) for axis in (0, 1))
    return {"x": x, "y": y, "beyond": int((beyond_x | beyond_y).sum())}


def _grid(values: NDArray[Any]) -> tuple[list[int], NDArray[np.bool_]]:
    """Values as 0 ... 10,000, finer than any screen, and which of them lie beyond the edge.

    The edge is where the values end, or one and a half times the width of their middle 96 %
    away from it: a few nodes far out must not press all others together.
    """
    inner_low, inner_high = np.quantile(values, [0.02, 0.98])
    reach = 1.5 * (inner_high - inner_low)
    low, high = float(values.min()), float(values.max())
    if reach > 0:
        low, high = max(low, inner_low - reach), min(high, inner_high + reach)
    span = high - low
    scaled = (values - low) / span if span > 0 else np.full(values.shape, 0.5)
    beyond = (scaled < 0) | (scaled > 1)
    return np.round(10_000 * np.clip(scaled, 0, 1)).astype(int).tolist(), beyond


def _heat(
    block: SimilarityBlock | HenclerError,
    leading: dict[str, NDArray[Any]],
    rows: NDArray[np.int64],
) -> dict[str, Any] | None:
    """The block of S, and each similarity by its leading components, as layers of one picture."""
    if isinstance(block, HenclerError):
        return None
    finite = np.nan_to_num(block.values)
    relative = against_chance(finite)
    level = finite if relative is None else np.log2(np.maximum(relative, 1e-12))
    # Where a few pairs stand out from all others, the others set the end of the scale.
    end = max(float(np.quantile(np.abs(level), 0.98)), 1e-9)
    name = "S against chance" if relative is not None else "S"
    sign = "both" if relative is not None or finite.min() < 0 else "positive"
    first = _layer(name, finite, level, end, sign, relative is not None)
    layers = [first]
    for view, values in leading.items():
        layers.append(_layer(f"cosine of e and r, {view}", values, values, 1.0, "both", False))
    return {
        "row": np.searchsorted(rows, block.nodes).tolist(),
        "layers": layers,
        "shown": int(bool(leading) and is_scattered(finite)),
    }


def _leading(
    run: Run, block: SimilarityBlock | HenclerError, model: HeNCler | HenclerError
) -> dict[str, NDArray[Any]]:
    """Each similarity by its leading components, for the nodes of the block."""
    if isinstance(block, HenclerError) or isinstance(model, HenclerError):
        return {}
    both = (run.e, run.r)
    return {view: cosines(model, view, block.nodes, both) for view in spectra(model) if view}


def _layer(
    name: str, values: NDArray[Any], level: NDArray[Any], end: float, sign: str, relative: bool
) -> dict[str, Any]:
    """A matrix as whole numbers: its colours from -100 to 100, its values against the largest."""
    top = float(np.abs(values).max()) or 1.0
    return {
        "name": name,
        "top": top,
        "end": end,
        "sign": sign,
        "relative": relative,
        "level": np.round(100 * np.clip(level / end, -1, 1)).astype(int).ravel().tolist(),
        "values": np.round(10_000 * values / top).astype(int).ravel().tolist(),
    }


def _drawing(run: Run) -> dict[str, Any] | None:
    graph = run.graph
    if graph.n_nodes > DRAWN_NODES or graph.adjacency.nnz == 0:
        return None
    degrees = np.diff(graph.adjacency.indptr) + np.bincount(
        graph.adjacency.indices, minlength=graph.n_nodes
    )
    points, centres, radii = circle_of_clusters(run.clusters, degrees, run.k)
    edges = graph.adjacency.tocoo()
    keep = edges.row != edges.col if graph.directed else edges.row < edges.col
    pairs = np.stack([edges.row[keep], edges.col[keep]], axis=1)
    low = (centres - radii[:, None]).min(axis=0) - 1.8
    high = (centres + radii[:, None]).max(axis=0) + 1.8
    outward = centres / np.maximum(np.linalg.norm(centres, axis=1), 1e-9)[:, None]
    tags = centres + outward * (radii + 1.0)[:, None]
    if run.k == 1:
        tags = np.array([[0, -radii[0] - 1.0]])
    return {
        "points": np.round(points, 2).tolist(),
        "edges": pairs.tolist(),
        "paths": _curves(points, pairs, run),
        "opacity": round(float(np.clip(30 / np.sqrt(max(1, len(pairs))) / 3, 0.1, 0.6)), 2),
        "box": [round(float(v), 2) for v in (*low, *(high - low))],
        "discs": [
            {"x": x, "y": y, "radius": radius, "tag": tag}
            for (x, y), radius, tag in zip(
                np.round(centres, 2).tolist(),
                np.round(radii, 2).tolist(),
                np.round(tags, 2).tolist(),
            )
        ],
        "clusters": run.clusters.tolist(),
    }


def _curves(points: NDArray[Any], pairs: NDArray[Any], run: Run) -> list[str]:
    """One path of all links from each cluster; every link bends to its left."""
    tail, head = points[pairs[:, 0]], points[pairs[:, 1]]
    step = head - tail
    bend = (tail + head) / 2 + 0.14 * np.stack([step[:, 1], -step[:, 0]], axis=1)
    numbers = np.round(np.concatenate([tail, bend, head], axis=1), 2)
    paths: list[list[str]] = [[] for _ in range(run.k)]
    for cluster, (a, b, c, d, e, f) in zip(run.clusters[pairs[:, 0]], numbers.tolist()):
        paths[cluster].append(f"M{a} {b}Q{c} {d} {e} {f}")
    return ["".join(path) for path in paths]


# --- text ------------------------------------------------------------------------------------


def _template(context: dict[str, Any], data: dict[str, Any]) -> str:
    jinja2 = optional_import("jinja2", "the report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "count": lambda v: f"{v:,}",
        "percent": _percent,
        "short": lambda v: f"{v:.3g}",
        "amount": _amount,
        "fixed": lambda v: "–" if math.isnan(v) else f"{v:.2f}",
        "signed": lambda v: f"{v:+.2f}".replace("-", "−"),
        "brief": views.shorten,
    }
    script = _part("page.js")
    # Only this script may run: whatever else slipped in would not have this digest.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.from_string(_part("page.html")).render(
        **context,
        style=_part("page.css"),
        script=script,
        script_digest=digest,
        data=embedded_json(data),
        marks=MARKS,
    )


def _part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def embedded_json(data: Any) -> str:
    """JSON that may stand inside a script element: no character of it can end or open a tag."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _amount(value: float) -> str:
    """A count that fits a cell: 0.039, 12.3, 4,728, 84.9k, 136k, 1.2M."""
    if value >= 999_500:
        return f"{value / 1e6:,.1f}M"
    if value >= 9_995:
        return f"{value / 1e3:.1f}k" if value < 99_950 else f"{value / 1e3:.0f}k"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _percent(share: float) -> str:
    if math.isnan(share):
        return "–"
    percent = 100 * share
    if 0 < percent < 1:
        return "<1%"
    return f"{percent:.0f}%"
