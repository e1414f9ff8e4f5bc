"""What a fit of a given size would take on several machines, from measured speeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._model import ModelConfig
from .speed import count_flops

__all__ = ["Plan", "epoch_page", "plan", "plan_page"]

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
    measured : row of the section ``minibatch`` of ``hencler bench speed``: the operations per
        second of that row are taken to be reached again
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
        rank_bytes=4 * nodes * _ENCODING + 16 * nodes // ranks + 2 * 4 * nodes * s + 8 * nodes,
        flops_per_epoch=flops,
        steps_per_epoch=steps,
        message_bytes_per_step=message,
        seconds_computing=computing,
        seconds_sending=sending,
        dollars=hours * ranks * DOLLARS_PER_HOUR[device],
    )


def epoch_page(results: list[dict[str, Any]]) -> str:
    """Markdown: an epoch of each preset against its floor and its plain form, on every device."""
    lines = ["| device | graph | preset | x floor | plain form x |", "|---|---|---|---:|---:|"]
    for result in results:
        for name in ("epoch", "minibatch"):
            for row in result["sections"].get(name, {}).get("rows", []):
                plain = row.get("plain_to_hencler")
                where = row["graph"] + (", minibatches" if name == "minibatch" else "")
                lines.append(
                    f"| {row['device']} | {where} | {row['preset']} | "
                    f"{row['hencler_to_floor']:.2f} | {'' if plain is None else f'{plain:.1f}'} |"
                )
    return "\n".join(lines)


def plan_page(results: list[dict[str, Any]]) -> str:
    """Markdown: what was measured over ranks, and a plan for 10^9 nodes for every device."""
    lines = ["| device | ranks | nodes | seconds per epoch | x one rank | bytes sent per step |"]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    for result in results:
        for row in result["sections"].get("ranks", {}).get("rows", []):
            lines.append(
                f"| {row['device']} | {row['ranks']} | {row['nodes']:,} | "
                f"{row['epoch_seconds']:.3g} | {row['to_one_rank']:.2f} | "
                f"{row['message_bytes_per_step']:,.0f} |"
            )
    lines += ["", "A billion nodes, ten billion edges, 64 attributes, 10 clusters, 3 epochs:", ""]
    plans = []
    for result in results:
        section = result["sections"].get("minibatch")
        if section is None:
            continue
        rows = [row for row in section["rows"] if row["preset"] == "paper"]
        measured = max(rows, key=lambda row: row["nodes"])
        plans += [
            plan(10**9, 10**10, 64, 10, ranks=r, epochs=3, batch_per_rank=65_536, measured=measured)
            for r in (8, 64)
        ]
    parts: list[tuple[str, Any]] = [
        ("device of a rank", lambda p: p.device),
        ("ranks", lambda p: f"{p.ranks}"),
        ("graph on disk, float16 attributes", lambda p: f"{p.store_bytes / 1e9:,.0f} GB"),
        ("e, r and clusters", lambda p: f"{p.result_bytes / 1e9:,.0f} GB"),
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
