"""Coordinates of the small charts; the template turns them into SVG."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["histogram", "line", "singular_bars"]

WIDTH, HEIGHT = 300.0, 110.0


def line(x: NDArray[Any], y: NDArray[Any], points: int = 300) -> dict[str, Any] | None:
    """Polyline of finite values within WIDTH x HEIGHT, thinned to `points`; None without any."""
    finite = np.isfinite(y)
    x, y = x[finite], y[finite]
    if x.size == 0:
        return None
    keep = np.unique(np.linspace(0, x.size - 1, min(points, x.size)).round().astype(int))
    low, high = float(y.min()), float(y.max())
    across = _unit(x[keep]) * WIDTH
    up = HEIGHT - _unit(y[keep], low, high) * HEIGHT
    return {
        "points": " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, up)),
        "low": low,
        "high": high,
        "first": float(x[0]),
        "last": float(x[-1]),
        "start": float(y[0]),
        "end": float(y[-1]),
    }


def _unit(v: NDArray[Any], low: float | None = None, high: float | None = None) -> NDArray[Any]:
    low = float(v.min()) if low is None else low
    high = float(v.max()) if high is None else high
    return (v - low) / (high - low) if high > low else np.full(v.shape, 0.5)


def singular_bars(values: NDArray[Any], limit: int = 60) -> list[dict[str, float]]:
    """Bars for the leading singular values, height relative to the largest."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))[::-1][:limit]
    top = max(float(ordered[0]), 1e-300) if ordered.size else 1.0
    return [{"value": float(v), "height": max(0.0, float(v) / top)} for v in ordered]


def histogram(values: NDArray[Any], bins: int = 30, low: float = -0.5) -> list[float]:
    """Heights in [0, 1] of a histogram over [low, 1]; values below fall into its first bin."""
    counts, _ = np.histogram(np.clip(values, low, 1), bins=bins, range=(low, 1))
    top = max(1, int(counts.max()))
    return [float(count / top) for count in counts]
