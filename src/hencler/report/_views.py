"""The sections of the report as plain data: numbers, and the sentences that say what they mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import poisson

from .._errors import HenclerError
from .._estimator import HeNCler
from .._link_matrix import LinkMatrix, link_matrix
from .._stability import Stability
from ..metrics import _unknown, edge_homophily
from ._certainty import Certainty, members_by_distance
from ._charts import histogram, line, singular_bars
from ._folder import Run
from ._profile import AttributeTable
from ._similarity import SimilarityBlock, against_chance, asymmetry, is_scattered, spectra

__all__ = [
    "certainty_view",
    "cluster_cards",
    "confusion_view",
    "link_view",
    "loss_view",
    "matched_order",
    "shorten",
    "sigma_view",
    "similarity_view",
    "size_view",
]

SHOWN_CLUSTERS = 30
"""More rows or cards than this nobody reads; the largest clusters are shown."""

UNSURE = 0.1
"""Below this margin a node lies between two clusters."""

STABLE, DISSOLVED = 0.75, 0.5
"""Jaccard similarities between which a cluster is neither, after Hennig (2007)."""

MOVING = 0.5
"""A node that stays in its cluster in fewer of the runs than this has no steady place."""

_NEGLIGIBLE = 0.05
"""Standardised differences below this say nothing."""

_CAP = 3.0
"""|log2 ratio| at which the colour of a link cell is full: eight times chance."""


def shorten(text: Any, length: int = 120) -> str:
    """Text that fits a table; lone surrogates, which UTF-8 cannot hold, become question marks."""
    plain = str(text).encode("utf-8", "replace").decode("utf-8")
    return plain if len(plain) <= length else plain[: length - 1] + "…"


def largest(run: Run) -> NDArray[np.int64]:
    """The clusters to show, in the order of their numbers."""
    return np.sort(np.argsort(-run.sizes, kind="stable")[:SHOWN_CLUSTERS])


def size_view(run: Run) -> dict[str, Any]:
    """Bars of the cluster sizes."""
    sizes, shown = run.sizes, largest(run)
    bars = [
        {
            "cluster": int(c),
            "size": int(sizes[c]),
            "share": float(sizes[c] / sizes.sum()),
            "width": float(sizes[c] / sizes.max()),
        }
        for c in shown
    ]
    return {"bars": bars, "hidden": run.k - len(bars)}


# --- links -----------------------------------------------------------------------------------


def merged(run: Run) -> tuple[NDArray[np.int64], list[int]]:
    """The row of each cluster in a readable matrix; those beyond the largest are one row, -1."""
    shown = largest(run)
    if shown.size == run.k:
        return np.arange(run.k), list(range(run.k))
    row = np.full(run.k, shown.size, dtype=np.int64)
    row[shown] = np.arange(shown.size)
    return row, [*shown.tolist(), -1]


def _row_links(run: Run, row: NDArray[np.int64], m: int) -> LinkMatrix:
    """Links between the m rows, of the whole graph where they were counted."""
    if run.whole is None:
        return link_matrix(run.graph.adjacency, row[run.clusters], m)
    member = np.zeros((run.k, m), dtype=np.int64)
    member[np.arange(run.k), row] = 1
    links = run.whole.links
    return LinkMatrix(member.T @ links.observed @ member, links.self_loops @ member)


def link_view(run: Run) -> dict[str, Any]:
    """The link matrix with the sentence it supports."""
    row, rows = merged(run)
    links = _row_links(run, row, len(rows))
    # Shares are those of all clusters, not of the merged rows.
    within, chance = _within(run, links if len(rows) == run.k else None)
    n_links = int(links.observed.sum()) // (1 if run.graph.directed else 2)
    halves = 1 if run.graph.directed else 1 + np.eye(len(rows), dtype=np.int64)
    observed, expected = links.observed // halves, links.expected / halves
    ratio = links.log_ratio
    unlikely = _tail(observed, expected) < 0.01
    cells = [
        [
            _link_cell(observed[a, b], expected[a, b], ratio[a, b], bool(unlikely[a, b]))
            for b in range(len(rows))
        ]
        for a in range(len(rows))
    ]
    return {
        "rows": rows,
        "cells": cells,
        "n_links": n_links,
        "n_self_loops": links.n_self_loops,
        "within": within,
        "chance": chance,
        "title": _link_title(run.k, within, chance, n_links),
        "matrix": links,
    }


def _within(run: Run, links: LinkMatrix | None) -> tuple[float, float]:
    if links is None and run.whole is not None:
        links = run.whole.links
    if links is not None:
        return links.within, links.within_expected
    edges = run.graph.adjacency.tocoo()
    off = edges.row != edges.col
    tail, head = run.clusters[edges.row[off]], run.clusters[edges.col[off]]
    if tail.size == 0:
        return float("nan"), float("nan")
    out_links, in_links = (np.bincount(side, minlength=run.k) for side in (tail, head))
    return float((tail == head).mean()), float(out_links @ in_links / tail.size**2)


def _tail(observed: NDArray[Any], expected: NDArray[Any]) -> NDArray[np.float64]:
    """Two-sided probability of a count at least as far off, were links Poisson."""
    upper, lower = poisson.sf(observed - 1, expected), poisson.cdf(observed, expected)
    return np.minimum(1, 2 * np.minimum(upper, lower))


def _link_cell(observed: int, expected: float, ratio: float, unlikely: bool) -> dict[str, Any]:
    if np.isnan(ratio):
        text, strength = "–", 0.0
    elif observed == 0:
        text, strength = "none", 1.0
    else:
        text, strength = _times(2**ratio), min(1.0, abs(ratio) / _CAP)
    return {
        "text": text,
        "observed": int(observed),
        "expected": float(expected),
        "more": bool(ratio > 0),
        "strength": strength if unlikely else 0.0,
    }


def _times(ratio: float) -> str:
    return f"×{ratio:.0f}" if ratio >= 10 else f"×{ratio:.1f}" if ratio >= 1 else f"×{ratio:.2f}"


def _link_title(k: int, within: float, chance: float, n_links: int) -> str:
    if np.isnan(within):
        return "The graph has no links between nodes"
    if k == 1:
        return "With one cluster every link stays within it"
    if within < 0.02 and chance < 0.1:
        return "Almost every link joins two different clusters"
    ratio = within / chance if chance > 0 else 1.0
    observed, expected = np.array(round(within * n_links)), np.array(chance * n_links)
    if float(_tail(observed, expected)) > 0.01:
        return "Links neither seek nor avoid their own cluster"
    if ratio < 0.8:
        return "Links prefer other clusters than their own"
    if ratio > 1.25:
        return "Links stay within clusters more than chance would have it"
    return "Links neither seek nor avoid their own cluster"


# --- similarity ------------------------------------------------------------------------------


def similarity_view(
    run: Run, block: SimilarityBlock | HenclerError, leading: dict[str, NDArray[Any]]
) -> dict[str, Any]:
    """Asymmetry and block means of the sampled similarity, or why there is none.

    Of its `leading` components, the first of them, where S itself is too sparse to be sampled.
    """
    if isinstance(block, HenclerError):
        return {"missing": str(block)}
    codes = run.clusters[block.nodes]
    shown = np.unique(codes)
    name, values = None, block.values
    if leading and is_scattered(values):
        name, values = next(iter(leading.items()))
    means = None
    relative = None if name else against_chance(values)
    if shown.size <= SHOWN_CLUSTERS:
        member = (codes[:, None] == shown).astype(np.float64)
        sums = member.T @ values @ member
        means = _block_means(sums, member.sum(axis=0), relative is not None)
    value = asymmetry(values)
    return {
        "missing": None,
        "by": name,
        "asymmetry": value,
        "title": _asymmetry_title(value),
        "n": len(block.nodes),
        "clusters": shown.tolist(),
        "means": means,
        "relative": relative is not None,
    }


def _block_means(
    sums: NDArray[Any], sizes: NDArray[Any], relative: bool
) -> list[list[dict[str, Any]]]:
    """Blocks against chance, coloured as the links are; plain means where there is no chance."""
    if not relative:
        means = sums / np.outer(sizes, sizes)
        end = max(float(np.abs(means).max()), np.finfo(float).tiny)
        return [
            [{"text": f"{v:.3g}", "strength": abs(v) / end, "more": bool(v > 0)} for v in row]
            for row in means
        ]
    ratio = sums * sums.sum() / np.outer(sums.sum(axis=1), sums.sum(axis=0))
    level = np.log2(np.maximum(ratio, 1e-12))
    end = max(0.1, float(np.abs(level).max()))
    return [
        [
            {"text": f"×{v:.2f}", "strength": min(1.0, abs(l) / end), "more": bool(l > 0)}
            for v, l in zip(*row)
        ]
        for row in zip(ratio, level)
    ]


def _asymmetry_title(value: float) -> str:
    if np.isnan(value):
        return "The learned similarity is zero"
    if value < 0.05:
        return "The learned similarity is nearly symmetric"
    if value < 0.5:
        return "The learned similarity is mildly asymmetric"
    return "The learned similarity depends on the direction"


# --- clusters --------------------------------------------------------------------------------


def cluster_cards(
    run: Run,
    certain: Certainty,
    attributes: AttributeTable | None,
    links: dict[str, Any],
    count: int = 6,
) -> list[dict[str, Any]]:
    """What distinguishes each cluster, for the largest ones."""
    members = members_by_distance(certain.own, run.clusters, run.k)
    sizes, degrees = run.sizes, _degrees(run)
    cards = []
    for c in largest(run).tolist():
        nodes = members[c]
        centre = float(np.median(certain.own[nodes]))
        far = nodes[::-1][: count - 1]
        cards.append(
            {
                "cluster": c,
                "size": int(sizes[c]),
                "attributes": None if attributes is None else _contrast(run, attributes, c, count),
                "typical": nodes[: count - 1].tolist(),
                # In a tiny cluster the farthest are as typical as the nearest.
                "outliers": [
                    (int(i), float(certain.own[i] / centre))
                    for i in far
                    if nodes.size >= 2 * count and centre > 0
                ],
                "partners": _partners(links, c),
                "degree": {
                    side: (float(d[c] / sizes[c]), float(d.sum() / sizes.sum()))
                    for side, d in degrees.items()
                },
            }
        )
    return cards


def _degrees(run: Run) -> dict[str, NDArray[np.int64]]:
    """Links out of and into each cluster, links of nodes to themselves among them."""
    if run.whole is not None:
        links = run.whole.links
        return {
            side: links.observed.sum(axis=axis) + links.self_loops
            for side, axis in (("out", 1), ("in", 0))
        }
    adjacency, n = run.graph.adjacency, run.graph.n_nodes
    nodes = {
        "out": np.diff(adjacency.indptr),
        "in": np.bincount(adjacency.indices, minlength=n),
    }
    return {
        side: np.bincount(run.clusters, weights=d, minlength=run.k) for side, d in nodes.items()
    }


def attribute_name(run: Run, column: int) -> str:
    """Name of an attribute, or its column where it has none."""
    names = run.graph.attribute_names
    return f"column {column}" if names is None else shorten(names[column], 80)


def _contrast(run: Run, table: AttributeTable, c: int, count: int) -> list[dict[str, Any]]:
    """The attributes most over- and most under-represented, strongest first."""
    difference = table.difference[c]
    order = np.argsort(-difference, kind="stable")
    over = [j for j in order[:count] if difference[j] > _NEGLIGIBLE]
    under = [j for j in order[::-1][:count] if difference[j] < -_NEGLIGIBLE]
    top = max([abs(difference[j]) for j in over + under], default=1.0)
    return [
        {
            "name": attribute_name(run, int(j)),
            "difference": float(difference[j]),
            "width": float(abs(difference[j]) / top),
            "inside": _level(table.inside[c, j], table.sd[j], bool(table.binary[j])),
            "outside": _level(table.outside[c, j], table.sd[j], bool(table.binary[j])),
        }
        for j in [*over, *under[::-1]]
    ]


def _level(value: float, sd: float, binary: bool) -> str:
    if binary:
        return f"{100 * value:.0f}%" if value >= 0.1 else f"{100 * value:.2g}%"
    # What is far below the spread of the column is 0 for all that anybody can see.
    value = 0.0 if abs(value) < 0.005 * sd else value
    return f"{value:.3g}".replace("-", "−")


def _partners(links: dict[str, Any], c: int) -> dict[str, list[dict[str, Any]]]:
    """Clusters linked to, and from, clearly more than chance; the strongest three each."""
    at = links["rows"].index(c)
    sides = {"out": links["cells"][at], "in": [row[at] for row in links["cells"]]}
    out = {}
    for side, cells in sides.items():
        found = [
            {"cluster": other, **cell}
            for other, cell in zip(links["rows"], cells)
            if cell["more"] and cell["strength"] > 0 and other >= 0
        ]
        found.sort(key=lambda cell: -cell["strength"])
        out[side] = found[:3]
    return out


# --- certainty -------------------------------------------------------------------------------


def certainty_view(run: Run, certain: Certainty, stable: Stability | None) -> dict[str, Any] | None:
    """How sure and how stable each cluster is; None for one cluster."""
    if run.k == 1:
        return None
    jaccard = np.full(run.k, np.nan) if stable is None else stable.clusters
    rows = []
    for c in largest(run).tolist():
        margin = certain.margin[run.clusters == c]
        rows.append(
            {
                "cluster": c,
                "bars": histogram(margin),
                "median": float(np.median(margin)),
                "unsure": float((margin < UNSURE).mean()),
                "stability": float(jaccard[c]),
            }
        )
    unsure = int((certain.margin < UNSURE).sum())
    share = unsure / certain.margin.size
    title = "Most nodes clearly belong to one cluster"
    if share > 0.3:
        title = "Many nodes lie between clusters"
    elif share > 0.1:
        title = "Some nodes lie between clusters"
    return {
        "rows": rows,
        "unsure": unsure,
        "share": share,
        "title": title,
        "median": float(np.median(certain.margin)),
        "stability": None if stable is None else _stability_view(stable),
    }


def _stability_view(stable: Stability) -> dict[str, Any]:
    """The clusters over seeds in a sentence."""
    lowest, drawn = float(np.nanmin(stable.clusters)), ~np.isnan(stable.nodes)
    title = "All clusters come back with other seeds"
    if lowest < DISSOLVED:
        title = "Some clusters dissolve with other seeds"
    elif lowest < STABLE:
        title = "Some clusters change with other seeds"
    return {
        "title": title,
        "agreement": stable.agreement,
        "drawn": int(drawn.sum()) or None,
        "moving": int((stable.nodes[drawn] < MOVING).sum()),
    }


# --- training --------------------------------------------------------------------------------

LOSSES = {
    "loss": "all losses together",
    "wksvd": "weighted kernel SVD",
    "node": "reconstruction of what is known of the nodes",
    "edge": "reconstruction of the links",
}


def loss_view(history: list[dict[str, float]]) -> list[dict[str, Any]]:
    """One small chart per loss."""
    keys = dict.fromkeys(key for record in history for key in record if key != "epoch")
    charts = []
    for key in list(keys)[:8]:
        epochs = np.array([r.get("epoch", i + 1) for i, r in enumerate(history)], dtype=float)
        values = np.array([r.get(key, np.nan) for r in history], dtype=float)
        drawn = line(epochs, values)
        if drawn is not None:
            charts.append({"name": shorten(key, 40), "meaning": LOSSES.get(key, ""), **drawn})
    return charts


def sigma_view(run: Run, model: HeNCler | None) -> list[dict[str, Any]]:
    """One chart of the singular values per similarity."""
    parts = {"": run.singular_values} if model is None else spectra(model)
    charts = [
        {
            "name": f"Singular values, {name}" if name else "Singular values",
            "bars": singular_bars(sigma[np.isfinite(sigma)]),
            "k": run.k,
        }
        for name, sigma in parts.items()
    ]
    return [chart for chart in charts if chart["bars"]]


# --- truth -----------------------------------------------------------------------------------

SCORES = {
    "nmi": ("NMI", "normalised mutual information; 0 for one single cluster, 1 at best"),
    "ari": ("ARI", "adjusted Rand index; 0 in expectation by chance, 1 at best"),
    "acc": ("ACC", "share of nodes in the cluster matched to their class"),
    "pairwise_f1": ("pairwise F1", "F1 over all pairs of nodes: do they belong together?"),
    "macro_f1": ("macro F1", "mean over classes of the F1 with the matched cluster"),
    "paper_f1": ("F1 of the papers", "for comparison only: one single cluster scores high on it"),
    "n_clusters": ("clusters", "that are not empty"),
    "n_evaluated": ("nodes", "of known class"),
}


def confusion_view(run: Run) -> dict[str, Any] | None:
    """Classes against clusters, the columns ordered so that matches lie on the diagonal."""
    if run.truth is None or run.metrics is None:
        return None
    known = ~_unknown(run.truth)
    classes, codes = np.unique(run.truth[known], return_inverse=True)
    row, columns = merged(run)
    k = len(columns)
    if classes.size > SHOWN_CLUSTERS:
        table = None
    else:
        groups = row[run.clusters[known]]
        table = np.bincount(codes * k + groups, minlength=classes.size * k)
        table = table.reshape(classes.size, k)
    view: dict[str, Any] = {
        "scores": [
            {
                "name": SCORES.get(key, (shorten(key, 40), ""))[0],
                "meaning": SCORES.get(key, ("", ""))[1],
                "value": value,
            }
            for key, value in run.metrics.items()
            if isinstance(value, int | float)
        ],
        "n_classes": int(classes.size),
        "rows": None,
        "homophily": _homophily(run, known),
    }
    if table is not None:
        order = matched_order(table)
        totals = table.sum(axis=1)
        view["columns"] = [columns[j] for j in order]
        view["rows"] = [
            {
                "name": shorten(classes[i], 60),
                "total": int(totals[i]),
                "cells": [
                    {"count": int(table[i, j]), "share": float(table[i, j] / totals[i])}
                    for j in order
                ],
            }
            for i in range(classes.size)
        ]
    return view


def matched_order(table: NDArray[Any]) -> list[int]:
    """Columns in the order of the rows they match best, those without a row last."""
    _, matched = linear_sum_assignment(table, maximize=True)
    return [*matched.tolist(), *(j for j in range(table.shape[1]) if j not in set(matched))]


def _homophily(run: Run, known: NDArray[np.bool_]) -> float:
    return edge_homophily(run.graph, run.truth) if known.any() else float("nan")
