"""What all tables share: the summary of a cell, and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["MISSING", "Summary", "markdown", "spread"]

MISSING = "—"


@dataclass(frozen=True)
class Summary:
    """All seeds of one method on one graph.

    ``honest`` and ``best`` map a measure to (mean, population std) in percent; ``status`` is
    "ok" or what kept every seed from finishing; ``seconds`` are those of the fastest run.
    """

    runs: int
    status: str
    honest: dict[str, tuple[float, float]]
    best: dict[str, tuple[float, float]]
    seconds: float
    peak_bytes: float
    clusters: float
    device: str


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def spread(value: Any) -> str:
    """Mean and standard deviation; null is out of memory in the paper's tables."""
    return "OOM" if value is None else f"{value[0]:.2f} ± {value[1]:.2f}"
