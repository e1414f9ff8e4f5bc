"""Markdown tables from stored cells, beside the paper's numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from ..datasets import DATASETS
from .methods import ABLATIONS, DEFAULT_ABLATIONS, METHODS, Method
from .paper import HETEROPHILOUS, HOMOPHILOUS, LINKS_ONLY, STAND_IN, TIMED

__all__ = ["Summary", "collapse_table", "paper_tables", "render", "short_tables", "summarise"]

MISSING = "—"
_MEASURES = {
    "nmi": "NMI",
    "ari": "ARI",
    "acc": "ACC",
    "pairwise_f1": "pairwise F1",
    "paper_f1": "the paper's F1",
}


@dataclass(frozen=True)
class Summary:
    """All seeds of one method on one graph.

    ``honest`` and ``best`` map a measure to (mean, population std) in percent; ``status`` is
    "ok" or what kept every seed from finishing.
    """

    runs: int
    status: str
    honest: dict[str, tuple[float, float]]
    best: dict[str, tuple[float, float]]
    seconds: float
    peak_bytes: float
    clusters: float
    device: str


def paper_tables() -> dict[str, Any]:
    """The paper's tables, transcribed: [mean, std] in percent, null = out of memory."""
    text = resources.files(__package__).joinpath("paper_tables.json").read_text("utf-8")
    tables: dict[str, Any] = json.loads(text)
    return tables


def summarise(cells: Iterable[dict[str, Any]]) -> dict[tuple[str, str], Summary]:
    """Summary of each (method, data set); of two cells of a seed the later one counts."""
    latest: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for cell in cells:
        latest.setdefault((cell["method"], cell["dataset"]), {})[cell["seed"]] = cell
    return {key: _summary(list(seeds.values())) for key, seeds in latest.items()}


def _summary(cells: list[dict[str, Any]]) -> Summary:
    good = [cell for cell in cells if cell["status"] == "ok"]
    if not good:
        return Summary(0, cells[0]["status"], {}, {}, np.nan, np.nan, np.nan, "")
    by_labels = [cell for cell in good if "best_by_labels" in cell]
    return Summary(
        runs=len(good),
        status="ok",
        honest={m: _spread([cell["honest"][m] for cell in good]) for m in _MEASURES},
        best={
            m: _spread([cell["best_by_labels"][m] for cell in by_labels])
            for m in _MEASURES
            if by_labels
        },
        seconds=float(np.median([cell["seconds"] for cell in good])),
        peak_bytes=float(np.max([cell["peak_gpu_bytes"] or cell["peak_bytes"] for cell in good])),
        clusters=float(np.mean([cell["honest"]["n_clusters"] for cell in good])),
        device=good[0]["device"],
    )


def _spread(values: Sequence[float]) -> tuple[float, float]:
    return 100 * float(np.mean(values)), 100 * float(np.std(values))


# --- the tables --------------------------------------------------------------------------------


def render(cells: Iterable[dict[str, Any]]) -> str:
    """All tables as one Markdown document."""
    found = summarise(cells)
    paper = paper_tables()
    parts = []
    for title, names in (
        ("Heterophilous graphs", HETEROPHILOUS),
        ("Homophilous graphs", HOMOPHILOUS),
        ("Directed graphs without attributes", LINKS_ONLY),
    ):
        parts.append(f"## {title}")
        for measure, label in _MEASURES.items():
            parts.append(f"### {label}\n\n{_score_table(found, paper, names, measure)}")
    parts.append(f"## Ablation of the preset `paper`\n\n{_ablation_table(found, paper)}")
    parts.append(f"## What the parts of the default add\n\n{_default_table(found)}")
    parts.append(f"## From the paper's protocol to the honest one\n\n{_fall_table(found)}")
    parts.append(f"## Where our runs miss the paper's figure\n\n{_misses(found, paper)}")
    parts.append(f"## One cluster for all nodes\n\n{collapse_table(found, paper)}")
    parts.append(f"## Computation time\n\n{_time_table(found, paper)}")
    parts.append(f"## Complexity\n\n{_complexity_table(paper)}")
    parts.append(f"## Data\n\n{_data_table(paper)}")
    return "\n\n".join(parts) + "\n"


def short_tables(cells: Iterable[dict[str, Any]]) -> str:
    """The two tables of the README: NMI with and without attributes."""
    found, paper = summarise(cells), paper_tables()
    names = [n for n in (*HETEROPHILOUS, *HOMOPHILOUS) if ("hencler", n) in found]
    simple = ("kmeans", "kmeans-raw", "spectral", "coclustering", "ksc")
    untrained = [m for m in METHODS if m in simple or m.startswith("content")]
    trained = [m.name for m in METHODS.values() if m.trained and not m.name.startswith("paper-")]
    others = [m for m in trained if not m.startswith("hencler")]
    published = {n: _published(paper, n) for n in names}
    rows = [
        [
            "**HeNCler, default**",
            "**honest**",
            *(f"**{_mean(found, ['hencler'], n)}**" for n in names),
        ],
        ["HeNCler, as released", "honest", *(_mean(found, ["hencler-released"], n) for n in names)],
        [
            "best other trained method *for that graph*",
            "honest",
            *(_mean(found, others, n) for n in names),
        ],
        [
            "best untrained method *for that graph*",
            "honest",
            *(_mean(found, untrained, n) for n in names),
        ],
        [
            "HeNCler in the paper",
            "epoch picked by labels",
            *(f"{published[n]['HeNCler'][0]:.1f}" for n in names),
        ],
        [
            "best method in the paper *for that graph*",
            "epoch picked by labels",
            *(f"{max(v[0] for v in published[n].values() if v):.1f}" for n in names),
        ],
    ]
    first = _markdown(["NMI", "protocol", *names], rows)
    links = [n for n in LINKS_ONLY if ("hencler", n) in found]
    rows = [
        ["**HeNCler, default**", *(f"**{_mean(found, ['hencler'], n)}**" for n in links)],
        [
            "the same, directions forgotten",
            *(_mean(found, ["default-undirected"], n) for n in links),
        ],
        ["spectral co-clustering", *(_mean(found, ["coclustering"], n) for n in links)],
        ["spectral, symmetrised graph", *(_mean(found, ["spectral"], n) for n in links)],
    ]
    return f"{first}\n\nDirected graphs without attributes:\n\n{_markdown(['NMI', *links], rows)}"


def _published(paper: dict[str, Any], dataset: str) -> dict[str, Any]:
    short = DATASETS[dataset].paper_name
    table = paper["heterophilous"].get(short) or paper["homophilous"][short]
    row: dict[str, Any] = table["NMI"]
    return row


def _mean(found: dict[tuple[str, str], Summary], methods: Sequence[str], dataset: str) -> str:
    """Honest mean NMI of the best of some methods on a graph."""
    summaries = [found[m, dataset] for m in methods if (m, dataset) in found]
    values = [s.honest["nmi"][0] for s in summaries if s.status == "ok"]
    return f"{max(values):.1f}" if values else MISSING


def _score_table(
    found: dict[tuple[str, str], Summary],
    paper: dict[str, Any],
    datasets: Sequence[str],
    measure: str,
) -> str:
    """Per method up to three rows: the paper's figure, ours by labels, ours honest."""
    in_paper = {"nmi": "NMI", "paper_f1": "F1"}.get(measure)
    ablations = {method.name for method in (*ABLATIONS, *DEFAULT_ABLATIONS)}
    rows = []
    for method in METHODS.values():
        if method.name in ablations:
            continue
        if in_paper and method.paper:
            values = [_paper_value(paper, name, in_paper, method.paper) for name in datasets]
            rows.append([method.title, "paper, by labels", *values])
        for protocol in ("best", "honest"):
            if protocol == "best" and not method.trained:
                continue
            label = "ours, by labels" if protocol == "best" else "**ours, honest**"
            values = [_our_value(found, method.name, n, measure, protocol) for n in datasets]
            if any(value != MISSING for value in values):
                rows.append([method.title, label, *values])
    return _markdown(["method", "protocol", *datasets], rows)


def _our_value(
    found: dict[tuple[str, str], Summary], method: str, dataset: str, measure: str, protocol: str
) -> str:
    summary = found.get((method, dataset))
    if summary is None:
        return MISSING
    if summary.status != "ok":
        return "OOM" if summary.status == "oom" else "n/a"
    values = summary.best if protocol == "best" else summary.honest
    if measure not in values:
        return MISSING
    mean, std = values[measure]
    runs = "" if summary.runs >= 10 else f" ({summary.runs} runs)"
    return f"{mean:.2f} ± {std:.2f}{runs}"


def _paper_value(paper: dict[str, Any], dataset: str, measure: str, column: str) -> str:
    short = DATASETS[dataset].paper_name
    for table in ("heterophilous", "homophilous", "ablation"):
        row = paper[table].get(short, {}).get(measure, {})
        if column in row:
            value = row[column]
            return "OOM" if value is None else f"{value[0]:.2f} ± {value[1]:.2f}"
    return MISSING


def _ablation_table(found: dict[tuple[str, str], Summary], paper: dict[str, Any]) -> str:
    methods = (*ABLATIONS, METHODS["hencler-paper"])
    titles = [*(method.title for method in ABLATIONS), "all of it"]
    rows = []
    for name in HETEROPHILOUS:
        short = DATASETS[name].paper_name
        for label, value in (
            (
                "paper, by labels",
                lambda m, short=short: _plain(paper["ablation"][short]["NMI"][m.paper]),
            ),
            ("ours, by labels", lambda m, n=name: _our_value(found, m.name, n, "nmi", "best")),
            ("**ours, honest**", lambda m, n=name: _our_value(found, m.name, n, "nmi", "honest")),
        ):
            rows.append([name, label, *(value(method) for method in methods)])
    return _markdown(["NMI", "protocol", *titles], rows)


def _default_table(found: dict[tuple[str, str], Summary]) -> str:
    """Honest NMI with parts of the default left out."""
    methods: tuple[Method, ...] = (*DEFAULT_ABLATIONS, METHODS["hencler"])
    rows = []
    for name in (*HETEROPHILOUS, *HOMOPHILOUS, *LINKS_ONLY):
        values = [_our_value(found, method.name, name, "nmi", "honest") for method in methods]
        if any(value != MISSING for value in values):
            rows.append([name, *values])
    titles = [*(method.title for method in DEFAULT_ABLATIONS), "all of it"]
    return _markdown(["honest NMI", *titles], rows)


def _plain(value: Any) -> str:
    return "OOM" if value is None else f"{value[0]:.2f} ± {value[1]:.2f}"


def _fall_table(found: dict[tuple[str, str], Summary]) -> str:
    """NMI points lost when the labels no longer pick the epoch."""
    datasets = [
        name
        for name in (*HETEROPHILOUS, *HOMOPHILOUS)
        if any(key[1] == name and s.best for key, s in found.items())
    ]
    rows = []
    for method in METHODS.values():
        values = []
        for name in datasets:
            s = found.get((method.name, name))
            fall = s.best["nmi"][0] - s.honest["nmi"][0] if s is not None and s.best else None
            values.append(MISSING if fall is None else f"{fall:.1f}")
        if any(value != MISSING for value in values):
            rows.append([method.title, *values])
    return _markdown(["NMI points lost", *datasets], rows)


def _misses(found: dict[tuple[str, str], Summary], paper: dict[str, Any]) -> str:
    """Places where our run by labels is more than two of our or the paper's std away."""
    rows = []
    for method in METHODS.values():
        for name in (*HETEROPHILOUS, *HOMOPHILOUS):
            s = found.get((method.name, name))
            if s is None or s.status != "ok" or not method.paper:
                continue
            short = DATASETS[name].paper_name
            table: dict[str, Any] = next(
                (
                    paper[t][short]["NMI"]
                    for t in ("heterophilous", "homophilous", "ablation")
                    if method.paper in paper[t].get(short, {}).get("NMI", {})
                ),
                {},
            )
            published = table.get(method.paper)
            ours = s.best.get("nmi") or s.honest["nmi"]
            if published and abs(ours[0] - published[0]) > 2 * max(ours[1], published[1]):
                rows.append(
                    [
                        method.title,
                        name,
                        _plain(published),
                        _plain(ours),
                        f"{ours[0] - published[0]:+.1f}",
                    ]
                )
    return _markdown(["method", "data", "paper", "ours, by labels", "difference"], rows)


def collapse_table(found: dict[tuple[str, str], Summary], paper: dict[str, Any]) -> str:
    """The paper's F1 of a single cluster, beside the best figure in the paper's tables."""
    from ..datasets import load_dataset
    from ..metrics import dmon_f1

    rows = []
    for name in (*HETEROPHILOUS, *HOMOPHILOUS):
        try:
            graph = load_dataset(name)
        except LookupError:
            continue
        assert graph.y is not None
        short = DATASETS[name].paper_name
        table = paper["heterophilous"].get(short) or paper["homophilous"][short]
        best = max((v[0], k) for k, v in table["F1"].items() if v is not None)
        one = 100 * dmon_f1(np.zeros_like(graph.y), graph.y)
        verdict = "**one cluster**" if one > best[0] else best[1]
        rows.append([name, f"{one:.2f}", f"{best[0]:.2f} ({best[1]})", verdict])
    return _markdown(["data", "one cluster", "best in the paper", "winner"], rows)


def _time_table(found: dict[tuple[str, str], Summary], paper: dict[str, Any]) -> str:
    rows = []
    for method in METHODS.values():
        published, ours = [], []
        for name in TIMED:
            row = next(v for k, v in paper["times"].items() if _same_graph(k, name))["seconds"]
            value = row.get(method.paper or "", MISSING)
            published.append("OOM" if value is None else str(value))
            ours.append(_seconds(found, method.name, name))
        if any(value != MISSING for value in ours):
            if any(value != MISSING for value in published):
                rows.append([method.title, "paper", *published])
            rows.append([method.title, "ours", *ours])
    note = (
        "Median seconds to a finished clustering, on the machine named in each cell. Cells ran "
        "side by side, up to 16 at a time, which lengthens them: orders of magnitude, not a race. "
        "* on a generated graph of the same size, since the graph itself could not be had."
    )
    return _markdown(["method", "", *TIMED], rows) + f"\n\n{note}"


def _same_graph(title: str, name: str) -> bool:
    return title.lower().rstrip("s") == name.rstrip("s")


def _seconds(found: dict[tuple[str, str], Summary], method: str, dataset: str) -> str:
    for name, mark in ((dataset, ""), (STAND_IN + dataset, "*")):
        s = found.get((method, name))
        if s is not None:
            return "OOM" if s.status == "oom" else f"{s.seconds:.1f}{mark}"
    return MISSING


def _complexity_table(paper: dict[str, Any]) -> str:
    methods = list(paper["complexity"]["space"])
    rows = [
        [f"{kind}, paper", *(f"${_latex(paper['complexity'][kind][m])}$" for m in methods)]
        for kind in ("space", "time")
    ]
    rows.append(
        [
            "space, here",
            r"$O(|V|+|E|)$",
            r"$O(|V|+|E|)$",
            r"$O(|V|)$",
            r"$O(|V|)$, by blocks",
            r"$O(|V|)$",
        ]
    )
    rows.append(
        [
            "time, here",
            r"$O(|V|+|E|)$",
            r"$O(|V|+|E|)$",
            r"$O(|V|)$",
            r"$O(|V|^2)$",
            r"$O(|V|+|E|)$ once, then $O(|V|)$",
        ]
    )
    return _markdown(["", *methods], rows)


def _latex(text: str) -> str:
    return text.replace("|V|", r"\lvert V\rvert").replace("|E|", r"\lvert E\rvert")


def _data_table(paper: dict[str, Any]) -> str:
    from ..datasets import load_dataset
    from ..metrics import class_insensitive_homophily

    rows = []
    for info in DATASETS.values():
        published = paper["datasets"].get(info.paper_name or "", {})
        try:
            homophily = f"{class_insensitive_homophily(load_dataset(info.name)):.3f}"
        except LookupError:
            homophily = MISSING
        edges = info.n_links if info.directed else info.n_undirected
        rows.append(
            [
                info.name,
                f"{info.n_nodes:,}",
                f"{edges:,}",
                str(info.n_classes),
                f"{info.n_attributes:,}",
                "yes" if info.directed else "no",
                homophily,
                f"{published['edges']:,}" if published else MISSING,
                f"{published['homophily']:.3f}" if published else MISSING,
            ]
        )
    head = ["data", "nodes", "edges", "classes", "attributes", "directed", "H"]
    return _markdown([*head, "edges, paper", "H, paper"], rows)


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
