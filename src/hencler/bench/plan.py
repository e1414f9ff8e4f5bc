"""What a fit of a given size would take on several machines, from measured speeds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._model import ModelConfig
from .._optional import optional_import
from .speed import count_flops

__all__ = ["Plan", "epoch_page", "plan", "plan_page", "ranks_figure"]

DOLLARS_PER_HOUR = {"cpu": 0.05, "cuda": 3.0}
"""Assumed price of a core and of a GPU for an hour; the only numbers here nobody measured."""

NETWORK_BYTES = 1.25e9
"""Assumed bytes per second between machines: 10 Gbit/s."""

_HIDDEN, _FEATURES = 256, 128
_ENCODING = 3


@dataclass(frozen=True)
class Plan:
    """A fit over `ranks` processes; bytes and operations of the whole, seconds on the clock."""

    nodes: int
    edges: int
    attributes: int
    clusters: int
    ranks: int
    device: str
    batch_per_rank: int
    epochs: int
    store_bytes: int
    result_bytes: int
    rank_bytes: int
    flops_per_epoch: int
    steps_per_epoch: int
    message_bytes_per_step: int
    seconds_computing: float
    seconds_sending: float
    dollars: float

    @property
    def hours(self) -> float:
        return (self.seconds_computing + self.seconds_sending) / 3600


def plan(
    nodes: int,
    edges: int,
    attributes: int,
    clusters: int,
    *,
    ranks: int,
    epochs: int,
    batch_per_rank: int,
    measured: dict[str, Any],
) -> Plan:
    """Bytes, operations, network and hours of a fit in minibatches, preset ``paper``.

    Parameters
    ----------
    measured : row of the section ``minibatch`` or ``gpu`` of ``hencler bench speed``: the
        operations per second of that row are taken to be reached again
    """
    s, d = 2 * clusters, attributes + _ENCODING
    config = ModelConfig(0, d, _ENCODING, n_components=s)
    width = max(1, (2 * s + d) // 2)
    flops = count_flops(config, width, nodes, 0, nodes)["hencler"]
    speed = measured["flops"]["hencler"] / measured["hencler_seconds"]
    computing = epochs * flops / speed / ranks
    weights = 2 * (d * _HIDDEN + _HIDDEN * _FEATURES + _HIDDEN + _FEATURES)
    weights += 2 * _FEATURES * s + s + (2 * _FEATURES + 1) * width + (width + 1) * attributes
    batch = batch_per_rank * ranks
    # Gradients; r of the batch forward and backward; its nodes; moments, sums and centres.
    message = 4 * weights + 2 * 4 * batch * s + 8 * batch + 4 * 16 * _FEATURES
    steps = -(-nodes // batch)
    # A ring sends every message twice, less one part in `ranks`.
    sending = epochs * steps * message * 2 * (ranks - 1) / ranks / NETWORK_BYTES
    index = 4 if max(nodes, edges) < 2**31 else 8
    device = str(measured["device"])
    hours = (computing + sending) / 3600
    return Plan(
        nodes=nodes,
        edges=edges,
        attributes=attributes,
        clusters=clusters,
        ranks=ranks,
        device=device,
        batch_per_rank=batch_per_rank,
        epochs=epochs,
        store_bytes=index * (nodes + 1 + edges) + 2 * nodes * attributes,
        result_bytes=2 * 4 * nodes * s + 8 * nodes,
        rank_bytes=4 * nodes * _ENCODING + (16 + 2 * 4 * s + 8) * nodes // ranks,
        flops_per_epoch=flops,
        steps_per_epoch=steps,
        message_bytes_per_step=message,
        seconds_computing=computing,
        seconds_sending=sending,
        dollars=hours * ranks * DOLLARS_PER_HOUR[device],
    )


def epoch_page(results: list[dict[str, Any]]) -> str:
    """Markdown: an epoch of each preset against its floor and its plain form, on every device."""
    head = ("device", "graph", "preset", "x floor", "x recorded floor", "plain form x")
    lines = ["| " + " | ".join(head) + " |", "|---|---|---|---:|---:|---:|"]
    for result in results:
        for name in ("epoch", "minibatch"):
            for row in _rows(result, name):
                where = row["graph"] + (", minibatches" if name == "minibatch" else "")
                shown = [
                    _number(row.get(key), digits)
                    for key, digits in (
                        ("hencler_to_floor", 2),
                        ("hencler_to_recorded_floor", 2),
                        ("plain_to_hencler", 1),
                    )
                ]
                cells = [row["device"], where, row["preset"], *shown]
                lines.append("| " + " | ".join(cells) + " |")
    lines += _gpu_table([row for result in results for row in _rows(result, "gpu")])
    lines += _quality_table([row for result in results for row in _rows(result, "quality")])
    lines += ["", *(_measured_on(result) for result in results)]
    return "\n".join(lines)


def _gpu_table(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    head = ("preset", "products", "nodes", "batch", "s per epoch", "million nodes per s",
            "TFLOP/s", "of peak", "GB/s", "of peak", "GB held", "loss")  # fmt: skip
    lines = ["", "In the memory of a GPU:", "", "| " + " | ".join(head) + " |"]
    lines.append("|---" + "|---:" * (len(head) - 1) + "|")
    for row in rows:
        cells = [
            row["preset"],
            _PRECISIONS[row["precision"]],
            f"{row['nodes']:,}",
            f"{row['batch_size']:,}",
            f"{row['hencler_seconds']:.2f}",
            f"{row['nodes_per_second'] / 1e6:.1f}",
            f"{row['flops_per_second'] / 1e12:.1f}",
            f"{100 * row['share_of_peak_flops']:.0f} %",
            f"{row['bytes_per_second'] / 1e9:,.0f}",
            f"{100 * row['share_of_peak_bytes']:.0f} %",
            f"{row['peak_memory_bytes'] / 1e9:.1f}",
            f"{row['losses']['loss']:.4g}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    peaks = {_PRECISIONS[row["precision"]]: row["peaks"] for row in rows}
    products = " and ".join(
        f"{peak['flops_per_second'] / 1e12:.0f} TFLOP/s in {name}" for name, peak in peaks.items()
    )
    copies = max(peak["bytes_per_second"] for peak in peaks.values())
    lines += ["", f"{rows[0]['edges']:,} edges. Peaks measured in the same run: {products} for a "]
    lines[-1] += f"product of 8192 x 8192 matrices, {copies / 1e12:.1f} TB/s for a copy."
    return lines


def _quality_table(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    lines = [
        "",
        "Full batches and minibatches, honest NMI in percent, mean and deviation of seeds:",
    ]
    lines += [
        "",
        "| graph | preset | batch | epochs | seeds | NMI |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        batch = "all nodes" if row["batch_size"] is None else row["batch_size"]
        score = f"{row['nmi']:.1f} ± {row['nmi_std']:.1f}"
        cells = [row["graph"], row["preset"], batch, row["epochs"], len(row["scores"]), score]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


_PRECISIONS = {"highest": "float32", "high": "TF32"}


def _rows(result: dict[str, Any], section: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = result["sections"].get(section, {}).get("rows", [])
    return rows


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _measured_on(result: dict[str, Any]) -> str:
    """Machines and commits of a result's sections."""
    places: dict[str, set[str]] = {}
    for section in result["sections"].values():
        environment = section.get("environment", {})
        machine = environment.get("machine", {})
        where = machine.get("gpu") or f"{machine.get('cpu')}, {machine.get('cores')} cores"
        places.setdefault(where, set()).add(str(environment.get("commit"))[:10])
    shown = (f"{where}: commit {', '.join(sorted(ids))}" for where, ids in places.items())
    return "; ".join(shown) + ".\n"


def ranks_figure(results: list[dict[str, Any]], path: Path) -> None:
    """Time per epoch, and bytes of e and r on a rank, against the number of ranks."""
    plt = optional_import("matplotlib.pyplot", "the figures")
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    for result in results:
        rows = _rows(result, "ranks")
        if not rows:
            continue
        device, ranks = rows[0]["device"], [row["ranks"] for row in rows]
        left.plot(ranks, [row["epoch_seconds"] for row in rows], "o-", label=device)
        held = [row["result_bytes_per_rank"] / 1e6 for row in rows]
        right.plot(ranks, held, "o-", label=device)
        for ax in (left, right):
            ax.set_xticks(ranks)
    left.set(xlabel="ranks", ylabel="seconds per epoch", ylim=(0, None))
    right.set(xlabel="ranks", ylabel="MB of e and r on a rank", ylim=(0, None))
    left.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def plan_page(results: list[dict[str, Any]]) -> str:
    """Markdown: what was measured over ranks, and a plan for 10^9 nodes for every device."""
    lines = ["| device | ranks | nodes | seconds per epoch | x one rank | bytes sent per step |"]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    for result in results:
        for row in _rows(result, "ranks"):
            lines.append(
                f"| {row['device']} | {row['ranks']} | {row['nodes']:,} | "
                f"{row['epoch_seconds']:.3g} | {row['to_one_rank']:.2f} | "
                f"{row['message_bytes_per_step']:,.0f} |"
            )
    lines += ["", "A billion nodes, ten billion edges, 64 attributes, 10 clusters, 3 epochs:", ""]
    plans = []
    for result in results:
        rows = [row for name in ("minibatch", "gpu") for row in _rows(result, name)]
        rows = [r for r in rows if r["preset"] == "paper" and r.get("precision") != "high"]
        if not rows:
            continue
        measured = max(rows, key=lambda row: (row["nodes"], row.get("batch_size", 0)))
        plans += [
            plan(10**9, 10**10, 64, 10, ranks=r, epochs=3, batch_per_rank=65_536, measured=measured)
            for r in (8, 64)
        ]
    parts: list[tuple[str, Any]] = [
        ("device of a rank", lambda p: p.device),
        ("ranks", lambda p: f"{p.ranks}"),
        ("graph on disk, float16 attributes", lambda p: f"{p.store_bytes / 1e9:,.0f} GB"),
        ("e, r and clusters, on disk", lambda p: f"{p.result_bytes / 1e9:,.0f} GB"),
        ("memory of a rank", lambda p: f"{p.rank_bytes / 1e9:,.0f} GB"),
        ("operations per epoch", lambda p: f"{p.flops_per_epoch:.2g}"),
        ("steps per epoch", lambda p: f"{p.steps_per_epoch:,}"),
        ("sent per step and rank", lambda p: f"{p.message_bytes_per_step / 1e6:,.1f} MB"),
        ("computing", lambda p: f"{p.seconds_computing / 3600:.2g} h"),
        ("sending, at 10 Gbit/s", lambda p: f"{p.seconds_sending / 3600:.2g} h"),
        ("in all", lambda p: f"{p.hours:.2g} h"),
        ("price, at the assumed rates", lambda p: f"{p.dollars:,.0f} $"),
    ]
    lines += ["| |" + " |" * len(plans), "|---|" + "---:|" * len(plans)]
    lines += [f"| {name} | " + " | ".join(show(p) for p in plans) + " |" for name, show in parts]
    return "\n".join(lines)
