"""How a fitted model shows itself in a notebook: sizes, singular values, score."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._scoring import score_parts

__all__ = ["fitted_html"]

SHOWN_CLUSTERS, SHOWN_VALUES = 30, 60

# Colours of the page around it, light or dark, and one accent; no script, no request.
_STYLE = """\
<style>
.hencler-fit { font: 13px/1.45 system-ui, sans-serif; margin: .6em 0; max-width: 60em; }
.hencler-fit .parts { display: flex; flex-wrap: wrap; gap: 1em 2.4em; align-items: flex-start; }
.hencler-fit h4 { font-size: 1em; margin: 0 0 .3em; font-weight: 600; }
.hencler-fit table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 0; }
.hencler-fit td, .hencler-fit th { padding: .05em .6em .05em 0; text-align: right; border: 0;
  background: none; font-weight: 400; }
.hencler-fit th { text-align: left; opacity: .75; }
.hencler-fit .track { width: 12em; padding: 0 .6em; }
.hencler-fit .bar { height: .8em; background: #2e7cc2; border-radius: 2px; min-width: 1px; }
.hencler-fit svg { display: block; }
</style>"""


def fitted_html(model: Any) -> str:
    """HTML about a fitted :class:`~hencler.HeNCler`; every text of it is escaped."""
    from .report._similarity import spectra  # which knows the estimator, and is known by it

    sizes = np.bincount(model.labels_, minlength=model.n_clusters_)
    parts = [_facts(model), _sizes(sizes)]
    parts += [_spectrum(name, np.asarray(values)) for name, values in spectra(model).items()]
    return f'{_STYLE}<div class="hencler-fit"><div class="parts">{"".join(parts)}</div></div>'


def _facts(model: Any) -> str:
    rows = [
        ("nodes", f"{len(model.labels_):,}"),
        ("clusters", str(model.n_clusters_)),
        ("components of e, r", str(model.e_.shape[1])),
    ]
    views = getattr(model, "views_", None)
    if views:
        rows.append(("looks at", ", ".join(views)))
    rows += _score(model, views)
    if model.history_:
        last = model.history_[-1]
        rows.append(("epochs", f"{int(last.get('epoch', len(model.history_)))}"))
        rows.append(("last loss", f"{last.get('loss', float('nan')):.4g}"))
    return f"<div><h4>Clusters found</h4>{_table(rows)}</div>"


def _score(model: Any, views: Any) -> Iterable[tuple[str, str]]:
    """The label-free score, where its views are known and the graph is at hand."""
    graph = getattr(model, "_graph", None)
    if graph is None or not views:
        return []
    score = score_parts(graph, model.labels_, views=views)["score"]
    return [("label-free score", f"{score:.3g} nats per node")]


def _table(rows: Iterable[tuple[str, str]]) -> str:
    cells = (f'<tr><th scope="row">{escape(a)}</th><td>{escape(b)}</td></tr>' for a, b in rows)
    return f"<table>{''.join(cells)}</table>"


def _sizes(sizes: NDArray[np.int64]) -> str:
    largest = np.sort(np.argsort(-sizes, kind="stable")[:SHOWN_CLUSTERS])
    rows = [
        f'<tr><th scope="row">{c}</th><td class="track"><div class="bar" '
        f'style="width:{100 * sizes[c] / max(1, sizes.max()):.1f}%"></div></td>'
        f"<td>{sizes[c]:,}</td></tr>"
        for c in largest.tolist()
    ]
    more = "" if len(largest) == len(sizes) else f", the {len(largest)} largest"
    return f"<div><h4>Nodes per cluster{more}</h4><table>{''.join(rows)}</table></div>"


def _spectrum(name: str, values: NDArray[Any]) -> str:
    """Bars of the singular values of a similarity, the largest at full height."""
    shown = np.nan_to_num(values[:SHOWN_VALUES])
    top = max(float(shown.max(initial=0.0)), np.finfo(float).tiny)
    step = 180 / max(1, len(shown))
    title = f"Singular values, {name}" if name else "Singular values"
    bars = (
        f'<rect x="{i * step:.1f}" width="{0.8 * step:.1f}" y="{80 * (1 - v / top):.1f}" '
        f'height="{80 * v / top:.1f}"/>'
        for i, v in enumerate(np.maximum(shown, 0))
    )
    words = ", ".join(f"{v:.3g}" for v in shown[:10])
    return (
        f'<div><h4>{escape(title)}</h4><svg width="180" height="80" role="img" fill="#2e7cc2" '
        f'aria-label="{escape(title)}: {escape(words)}"><title>{escape(words)}</title>'
        f"{''.join(bars)}</svg></div>"
    )
