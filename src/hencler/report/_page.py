"""From a run to the text of one HTML page that needs nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import sys
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from .._errors import HenclerError
from .._optional import optional_import
from ..metrics import _unknown
from . import _views as views
from ._certainty import Certainty, certainty
from ._folder import Run
from ._groups import stratified
from ._map import circle_of_clusters, leading_plane
from ._profile import AttributeTable, attribute_table, unusual_attributes
from ._similarity import SimilarityBlock, against_chance, similarity_block

__all__ = ["render"]

MAP_NODES = 5_000
TABLE_NODES = 50_000
TABLE_BYTES = 5_000_000
HEAT_NODES = 120
DRAWN_NODES = 300
HOVER_ATTRIBUTES = 3
MARKS = 8
"""Colours of the palette; clusters beyond them repeat the colours in another shape."""
ID_LENGTH = 120
"""Longer ids are cut where nodes are sampled; the full table has every id as it is."""


def render(run: Run) -> str:
    """The page, with every text of the user's escaped."""
    z = run.embedding
    certain = certainty(z, run.clusters, run.k)
    block = _similarity(run, certain)
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
        "rows": _table(run, certain, rows, complete),
        "complete": complete,
        "map": _map(run, z, picked, rows, attributes),
        "heat": _heat(block, rows),
        "drawing": None,
    }
    drawing = _drawing(run) if complete else None
    if drawing is not None:
        data["drawing"] = {key: drawing[key] for key in ("points", "edges")}
    context = {
        "run": {"finished": "", "warnings": [], "settings": {}, "seconds": None} | run.summary,
        "title": views.shorten(str(run.summary.get("graph", "a graph")).removeprefix("dataset:")),
        "names": data["names"],
        "version": __version__,
        "graph": run.graph,
        "k": run.k,
        "isolated": run.graph.n_isolated,
        "sizes": views.size_view(run),
        "links": links,
        "map": data["map"],
        "cards": cards,
        "similarity": views.similarity_view(run, block),
        "certain": views.certainty_view(run, certain, z),
        "unsure_below": views.UNSURE,
        "losses": views.loss_view(run.history),
        "sigma": views.sigma_view(run),
        "truth": views.confusion_view(run),
        "drawing": drawing,
        "complete": complete,
        "rows": data["rows"],
        "row_of": {int(node): i for i, node in enumerate(rows)},
        "on_map": set(data["map"]["row"]),
    }
    return _template(context, data)


def _similarity(run: Run, certain: Certainty) -> SimilarityBlock | HenclerError:
    """A block of S; a model that cannot be read costs the report one picture, not all."""
    try:
        return similarity_block(run, certain.own, HEAT_NODES)
    except HenclerError as error:
        return error


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


def _table(run: Run, certain: Certainty, rows: NDArray[np.int64], complete: bool) -> dict[str, Any]:
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
    for name, meaning, part in parts:
        plane = leading_plane(part, picked)
        (x, beyond_x), (y, beyond_y) = (_grid(plane.points[:, axis]) for axis in (0, 1))
        panels.append(
            {
                "name": name,
                "meaning": meaning,
                "explained": plane.explained,
                "x": x,
                "y": y,
                "beyond": int((beyond_x | beyond_y).sum()),
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


def _heat(block: SimilarityBlock | HenclerError, rows: NDArray[np.int64]) -> dict[str, Any] | None:
    if isinstance(block, HenclerError):
        return None
    finite = np.nan_to_num(block.values)
    top = float(np.abs(finite).max()) or 1.0
    relative = against_chance(finite)
    level = finite if relative is None else np.log2(np.maximum(relative, 1e-12))
    # Where a few pairs stand out from all others, the others set the end of the scale.
    end = max(float(np.quantile(np.abs(level), 0.98)), 1e-9)
    return {
        "row": np.searchsorted(rows, block.nodes).tolist(),
        "top": top,
        "end": end,
        "relative": relative is not None,
        "level": np.round(100 * np.clip(level / end, -1, 1)).astype(int).ravel().tolist(),
        "values": np.round(10_000 * finite / top).astype(int).ravel().tolist(),
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
    """A count that fits a cell: 0.039, 12.3, 4,728, 84.9k, 1.2M."""
    if value >= 999_950:
        return f"{value / 1e6:,.1f}M"
    if value >= 10_000:
        return f"{value / 1e3:.1f}k"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _percent(share: float) -> str:
    if math.isnan(share):
        return "–"
    percent = 100 * share
    if 0 < percent < 1:
        return "<1%"
    return f"{percent:.0f}%"
