"""Every method of the tables, with the settings it is run with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._base import GraphClusterer
from .._errors import ParameterError

__all__ = ["ABLATIONS", "METHODS", "Method", "find_methods"]


@dataclass(frozen=True)
class Method:
    """One row of a table.

    Attributes
    ----------
    name : what the command line and the stored cells call it
    title : what the table calls it
    make : (n_clusters, seed, device) -> estimator
    paper : its column in the paper's tables, or None
    trained : whether it has epochs for the paper's protocol to choose from
    """

    name: str
    title: str
    make: Callable[[int, int, str], GraphClusterer]
    paper: str | None = None
    trained: bool = False


def _baseline(name: str, **settings: Any) -> Callable[[int, int, str], GraphClusterer]:
    def make(k: int, seed: int, device: str) -> GraphClusterer:
        from ..baselines import METHODS as CLASSES

        estimator: GraphClusterer = CLASSES[name](n_clusters=k, random_state=seed, **settings)
        if "device" in estimator.get_params():
            estimator.set_params(device=device)
        return estimator

    return make


def _hencler(**settings: Any) -> Callable[[int, int, str], GraphClusterer]:
    def make(k: int, seed: int, device: str) -> GraphClusterer:
        from .._estimator import HeNCler

        return HeNCler(k, random_state=seed, device=device, **settings)

    return make


_ALL = (
    Method("kmeans", "KMeans, standardised", _baseline("kmeans", scaling="standard"), "KMeans"),
    Method("kmeans-raw", "KMeans, raw", _baseline("kmeans", scaling="none")),
    Method("mincutpool", "MinCutPool", _baseline("mincutpool"), "MinCutPool", True),
    Method("dmon", "DMoN", _baseline("dmon"), "DMoN", True),
    Method("dmon-code", "DMoN, as its code", _baseline("dmon", null_weight=0.5), None, True),
    Method("s3gc", "S3GC", _baseline("s3gc"), "S3GC", True),
    Method("muse", "MUSE", _baseline("muse"), "MUSE", True),
    Method("hole", "HoLe", _baseline("hole"), "HoLe", True),
    Method("spectral", "spectral, symmetrised graph", _baseline("spectral")),
    Method("coclustering", "spectral co-clustering of A", _baseline("coclustering")),
    Method("ksc", "kernel spectral clustering", _baseline("ksc")),
    Method("content", "tf-idf with soft lengths, SVD", _baseline("content", representation="soft")),
    Method("hencler-released", "HeNCler, released", _hencler(preset="released"), "HeNCler", True),
    Method("hencler-paper", "HeNCler, paper", _hencler(preset="paper"), "HeNCler", True),
    Method("hencler", "HeNCler, default", _hencler()),
)

ABLATIONS = (
    Method(
        "paper-undirected",
        "one map",
        _hencler(preset="paper", shared_map=True),
        "Undirected",
        True,
    ),
    Method(
        "paper-reconstruction",
        "reconstruction only",
        _hencler(preset="paper", losses="reconstruction"),
        "Reconstr only",
        True,
    ),
    Method(
        "paper-wksvd", "wKSVD only", _hencler(preset="paper", losses="wksvd"), "wKSVD only", True
    ),
)
"""Variants of the preset ``paper``, as in the paper's ablation table."""

METHODS: dict[str, Method] = {method.name: method for method in (*_ALL, *ABLATIONS)}


def find_methods(names: list[str] | None) -> list[Method]:
    """Methods by name; all of them by default."""
    if names is None:
        return list(METHODS.values())
    unknown = [name for name in names if name not in METHODS]
    if unknown:
        from difflib import get_close_matches

        close = get_close_matches(unknown[0], METHODS, n=1)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        raise ParameterError(
            f"there is no method {unknown[0]!r}",
            place="--methods",
            remedy=f"{hint}Known: {', '.join(METHODS)}",
        )
    return [METHODS[name] for name in names]
