"""What ``hencler bench scale`` measured, as tables and as a figure for the documentation."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .._optional import optional_import
from .scale import BASE, growth

__all__ = ["growth_figure", "growth_page"]

_GIB = 1 << 30
_AXES = ("nodes", "edges", "attributes", "clusters")


def growth_page(cells: Iterable[dict[str, Any]]) -> str:
    """Markdown: the largest fits, the ratios, and all points of the sweeps."""
    cells = list(cells)
    lines = [
        "Fits of generated graphs, one thread, preset `paper` unless said otherwise. Seconds per",
        "epoch are processor time; seconds in all are on the clock, on a machine that other work",
        f"shared ({_loads(cells)}). Memory is the peak of the whole process without mapped files.",
        "",
    ]
    head = ("preset", "nodes", "attributes", "edges", "clusters", "epochs", "s per epoch",
            "s in all", "mapped GiB", "planned GiB", "peak GiB", "NMI")  # fmt: skip
    lines += ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    order = sorted(cells, key=lambda c: (c["point"]["preset"] == "default", _sizes(c)))
    lines += [_row(cell) for cell in order]
    lines += ["", "| growth | from | to | time per epoch |", "|---|---:|---:|---:|"]
    for name, pairs in growth(cells).items():
        axis = name.split()[-1]
        for pair in pairs:
            ends = (f"{pair[end][axis]:,}" for end in ("from", "to"))
            lines.append(f"| {name} | {' | '.join(ends)} | x {pair['epoch_time_ratio']:.2f} |")
    commits = sorted({str(cell["environment"]["commit"])[:10] for cell in cells})
    machines = sorted({str(cell["environment"]["machine"]["cpu"]) for cell in cells})
    notes = sorted({cell["environment"].get("note", "") for cell in cells} - {""})
    lines += ["", "; ".join([", ".join(machines), f"commits {', '.join(commits)}", *notes]) + "."]
    return "\n".join(lines)


def _loads(cells: list[dict[str, Any]]) -> str:
    loads = [cell["environment"]["machine"]["load"] or 0.0 for cell in cells]
    cores = max((cell["environment"]["machine"]["cores"] for cell in cells), default=1)
    return f"load {min(loads, default=0):.0f} to {max(loads, default=0):.0f} on {cores} cores"


def _sizes(cell: dict[str, Any]) -> tuple[int, ...]:
    return tuple(cell["point"][axis] for axis in ("nodes", "edges", "attributes", "clusters"))


def _row(cell: dict[str, Any]) -> str:
    p = cell["point"]
    network = p["preset"] != "default"
    values = [
        p["preset"],
        f"{p['nodes']:,}",
        p["attributes"],
        f"{p['edges']:,}",
        p["clusters"],
        p["epochs"] if network else "",
        f"{cell['epoch_cpu_seconds']:.1f}" if network else "",
        f"{cell['seconds']['fit']:.0f}",
        *(
            f"{cell[f'{kind}_bytes'] / _GIB:.2f}"
            for kind in ("mapped", "planned", "peak_anonymous")
        ),
        f"{cell['nmi']:.2f}",
    ]
    return "| " + " | ".join(map(str, values)) + " |"


def growth_figure(cells: Iterable[dict[str, Any]], path: Path) -> None:
    """Time per epoch, and peak memory, against nodes, edges, attributes and clusters."""
    plt = optional_import("matplotlib.pyplot", "the figures")
    cells = [cell for cell in cells if cell["point"]["preset"] != "default"]
    figure, axes = plt.subplots(2, 4, figsize=(12, 5.5), layout="constrained", sharey="row")
    for column, axis in enumerate(_AXES):
        line = sorted(_along(axis, cells), key=lambda cell: cell["point"][axis])
        sizes = [cell["point"][axis] for cell in line]
        times = [cell["epoch_cpu_seconds"] for cell in line]
        peaks = [cell["peak_anonymous_bytes"] / _GIB for cell in line]
        axes[0, column].loglog(sizes, times, "o-", markersize=4)
        axes[1, column].loglog(sizes, peaks, "o-", markersize=4)
        for ax in axes[:, column]:
            ax.set_xticks(sizes, [_short(size) for size in sizes])
            ax.minorticks_off()
        axes[1, column].set_xlabel(axis)
    for ax, values in ((axes[0, 0], (0.5, 1, 2, 5, 10, 20)), (axes[1, 0], (0.25, 0.5, 1, 2))):
        ax.set_yticks(values, [f"{value:g}" for value in values])
    axes[0, 0].set_ylabel("processor s per epoch")
    axes[1, 0].set_ylabel("peak GiB, without maps")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _short(size: int) -> str:
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if size >= unit:
            return f"{size / unit:g}{letter}"
    return str(size)


def _along(axis: str, cells: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cells that differ from the base point in one size only; edges go with the nodes."""
    found = []
    for cell in cells:
        p = cell["point"]
        base = {name: getattr(BASE, name) for name in _AXES}
        if axis == "nodes":
            base["edges"] = base["edges"] // base["nodes"] * p["nodes"]
        if all(p[name] == base[name] for name in _AXES if name != axis):
            found.append(cell)
    return found
