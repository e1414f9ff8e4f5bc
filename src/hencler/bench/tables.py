"""Markdown tables from stored cells, beside the paper's numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

import numpy as np

from ..datasets import DATASETS
from ._markdown import MISSING, Summary, markdown, spread
from .honesty import collapse_section, fall_section, misses_section
from .methods import ABLATIONS, DEFAULT_ABLATIONS, METHODS, Method
from .paper import HETEROPHILOUS, HOMOPHILOUS, LINKS_ONLY, STAND_IN, TIMED
from .times import OVER, latest

__all__ = ["Summary", "paper_tables", "render", "short_tables", "summarise"]

_MEASURES = {
    "nmi": "NMI",
    "ari": "ARI",
    "acc": "ACC",
    "pairwise_f1": "pairwise F1",
    "paper_f1": "the paper's F1",
}


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
        seconds=float(np.min([cell["seconds"] for cell in good])),
        peak_bytes=float(np.max([cell["peak_gpu_bytes"] or cell["peak_bytes"] for cell in good])),
        clusters=float(np.mean([cell["honest"]["n_clusters"] for cell in good])),
        device=good[0]["device"],
    )


def _spread(values: Sequence[float]) -> tuple[float, float]:
    return 100 * float(np.mean(values)), 100 * float(np.std(values))


# --- the tables --------------------------------------------------------------------------------


def render(cells: Iterable[dict[str, Any]], times: Iterable[dict[str, Any]] = ()) -> str:
    """All tables as one Markdown document; `times` from :mod:`hencler.bench.times`."""
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
    parts.append(f"## From the paper's protocol to the honest one\n\n{fall_section(found, paper)}")
    parts.append(f"## Where our runs miss the paper's figure\n\n{misses_section(found, paper)}")
    parts.append(f"## One cluster for all nodes\n\n{collapse_section(found, paper)}")
    parts.append(f"## Computation time\n\n{_time_table(found, times, paper)}")
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
    others = [m for m in trained if not m.startswith(("hencler", "kmeans"))]
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
    first = markdown(["NMI", "protocol", *names], rows)
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
    return f"{first}\n\nDirected graphs without attributes:\n\n{markdown(['NMI', *links], rows)}"


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
    return markdown(["method", "protocol", *datasets], rows)


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
                lambda m, short=short: spread(paper["ablation"][short]["NMI"][m.paper]),
            ),
            ("ours, by labels", lambda m, n=name: _our_value(found, m.name, n, "nmi", "best")),
            ("**ours, honest**", lambda m, n=name: _our_value(found, m.name, n, "nmi", "honest")),
        ):
            rows.append([name, label, *(value(method) for method in methods)])
    return markdown(["NMI", "protocol", *titles], rows)


def _default_table(found: dict[tuple[str, str], Summary]) -> str:
    """Honest NMI with parts of the default left out."""
    methods: tuple[Method, ...] = (*DEFAULT_ABLATIONS, METHODS["hencler"])
    rows = []
    for name in (*HETEROPHILOUS, *HOMOPHILOUS, *LINKS_ONLY):
        values = [_our_value(found, method.name, name, "nmi", "honest") for method in methods]
        if any(value != MISSING for value in values):
            rows.append([name, *values])
    titles = [*(method.title for method in DEFAULT_ABLATIONS), "all of it"]
    return markdown(["honest NMI", *titles], rows)


def _time_table(
    found: dict[tuple[str, str], Summary], times: Iterable[dict[str, Any]], paper: dict[str, Any]
) -> str:
    """Seconds of one fit, alone where that was measured, else the fastest of the scored runs."""
    alone = latest(times)
    rows = []
    for method in METHODS.values():
        published, ours = [], []
        for name in TIMED:
            row = next(v for k, v in paper["times"].items() if _same_graph(k, name))["seconds"]
            value = row.get(method.paper or "", MISSING)
            published.append("OOM" if value is None else str(value))
            ours.append(_seconds(found, alone, method.name, name))
        if any(value != MISSING for value in ours):
            if any(value != MISSING for value in published):
                rows.append([method.title, "paper", *published])
            rows.append([method.title, "ours", *ours])
    return f"{markdown(['method', '', *TIMED], rows)}\n\n{_time_notes(alone.values())}"


def _time_notes(cells: Iterable[dict[str, Any]]) -> str:
    machines = {cell["environment"]["machine"]["gpu"] or "no GPU" for cell in cells}
    where = f" ({', '.join(sorted(machines))})" if machines else ""
    return (
        "Seconds to a finished clustering, one fit each, by the clock of `hencler bench times`"
        f"{where}: every fit on one core of its own, trained methods of the paper on the GPU with "
        "at most one other fit beside it, all others and the default on the core alone; other "
        "cores were at work. "
        "\\* on a generated graph of the same size, since the graph itself could not be had. "
        "*> limit (about ...)*: stopped, with an estimate from the epochs done. † not measured in "
        "this way: the fastest of the runs that were scored, of which up to 16 ran side by side."
    )


def _same_graph(title: str, name: str) -> bool:
    return title.lower().rstrip("s") == name.rstrip("s")


def _seconds(
    found: dict[tuple[str, str], Summary],
    alone: dict[tuple[str, str], dict[str, Any]],
    method: str,
    dataset: str,
) -> str:
    names = ((dataset, ""), (STAND_IN + dataset, "\\*"))
    for name, mark in names:
        if (cell := alone.get((method, name))) is not None:
            return _seconds_alone(cell, mark)
    for name, mark in names:
        if (s := found.get((method, name))) is not None:
            return "OOM" if s.status == "oom" else f"{s.seconds:.1f}{mark}†"
    return MISSING


def _seconds_alone(cell: dict[str, Any], mark: str) -> str:
    if cell["status"] == OVER:
        about = f" (about {cell['estimate']:.0f})" if cell["estimate"] else ""
        return f"> {cell['limit']:.0f}{about}{mark}"
    if cell["status"] != "ok":
        return "OOM" if cell["status"] == "oom" else "n/a"
    return f"{cell['seconds']:.1f}{mark}" if cell["seconds"] >= 0.05 else f"< 0.1{mark}"


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
    return markdown(["", *methods], rows)


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
    return markdown([*head, "edges, paper", "H, paper"], rows)
