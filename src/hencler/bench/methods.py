"""Every method of the tables, with the settings it is run with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._base import GraphClusterer
from .._errors import ParameterError, did_you_mean

__all__ = ["ABLATIONS", "DEFAULT_ABLATIONS", "METHODS", "Method", "find_methods"]


Maker = Callable[[int, int, str, str], GraphClusterer]

# What the authors of a method chose for a graph, where they chose anything, or what was found
# to be better.
_OWN_SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("hole", "cora"): {
        "hops": 8,
        "warmup_epochs": 150,
        "epochs": 50,
        "update_every": 10,
        "node_ratio": 1.0,
        "delete_ratio": 0.01,
        "kappa": 1.0,
        "binarize": True,
    },
    ("hole", "citeseer"): {
        "warmup_epochs": 150,
        "activation": "sigmoid",
        "reset": True,
    },
    ("hole", "pubmed"): {
        "hops": 35,
        "warmup_epochs": 50,
        "epochs": 200,
        "rounds": 3,
        "update_every": 10,
        "node_ratio": 0.5,
        "kappa": 1.0,
        "binarize": True,
    },
    # The default of the authors' layer; their script's is 1. Chosen by the score on cora among
    # four settings and two seeds, so that this row is not a clean one; over five seeds the gain
    # is within the noise. One run on citeseer did no better.
    ("dmon", "cora"): {"collapse_weight": 0.1},
    ("s3gc", "cora"): {"epochs": 40},
    ("s3gc", "citeseer"): {"epochs": 40, "batch_size": 256, "lr": 0.001},
    ("s3gc", "pubmed"): {"epochs": 40, "batch_size": 256, "lr": 0.001, "walks_per_node": 15},
    ("muse", "squirrel"): {"normalize_rows": True},
    # Ours, not the authors': of 19,717 nodes, so many random ones are contrasted in each epoch.
    ("muse", "pubmed"): {"contrast_nodes": 8_192},
}


@dataclass(frozen=True)
class Method:
    """One row of a table.

    Attributes
    ----------
    name : what the command line and the stored cells call it
    title : what the table calls it
    make : (n_clusters, seed, device, data set) -> estimator
    paper : its column in the paper's tables, or None
    trained : whether it has epochs for the paper's protocol to choose from
    symmetrise : whether it is shown the graph without its directions
    """

    name: str
    title: str
    make: Maker
    paper: str | None = None
    trained: bool = False
    symmetrise: bool = False


def _baseline(name: str, **settings: Any) -> Maker:
    def make(k: int, seed: int, device: str, dataset: str) -> GraphClusterer:
        from ..baselines import METHODS as CLASSES

        chosen = {**settings, **_OWN_SETTINGS.get((name, dataset), {})}
        estimator: GraphClusterer = CLASSES[name](n_clusters=k, random_state=seed, **chosen)
        if "device" in estimator.get_params():
            estimator.set_params(device=device)
        return estimator

    return make


def _picked(k: int, seed: int, device: str, dataset: str) -> GraphClusterer:
    from .picked import RestartedKMeans

    return RestartedKMeans(k, random_state=seed)


def _hencler(**settings: Any) -> Maker:
    def make(k: int, seed: int, device: str, _: str) -> GraphClusterer:
        from .._estimator import HeNCler

        return HeNCler(k, random_state=seed, device=device, **settings)

    return make


_ALL = (
    Method("kmeans", "KMeans, standardised", _baseline("kmeans", scaling="standard"), "KMeans"),
    Method("kmeans-raw", "KMeans, raw", _baseline("kmeans", scaling="none")),
    Method("kmeans-picked", "KMeans, raw, 300 single starts", _picked, None, True),
    Method("mincutpool", "MinCutPool", _baseline("mincutpool"), "MinCutPool", True),
    Method("dmon", "DMoN", _baseline("dmon"), "DMoN", True),
    Method("dmon-code", "DMoN, as its code", _baseline("dmon", null_weight=0.5), None, True),
    Method("s3gc", "S3GC", _baseline("s3gc"), "S3GC", True),
    Method("muse", "MUSE", _baseline("muse"), "MUSE", True),
    Method("hole", "HoLe", _baseline("hole"), "HoLe", True),
    Method("spectral", "spectral, symmetrised graph", _baseline("spectral")),
    Method("coclustering", "spectral co-clustering of A", _baseline("coclustering")),
    Method("ksc", "kernel spectral clustering", _baseline("ksc")),
    Method("content", "tf-idf, soft lengths, SVD", _baseline("content")),
    Method("content-tfidf", "tf-idf, SVD", _baseline("content", representation="tfidf")),
    Method("content-count", "attribute count", _baseline("content", representation="count")),
    Method("content-mean", "neighbours' means", _baseline("content", representation="mean")),
    Method("content-joint", "own and neighbours", _baseline("content", representation="joint")),
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

DEFAULT_ABLATIONS = (
    Method("default-own", "own attributes only", _hencler(view="own", learned_maps=False)),
    Method("default-explicit", "without learned maps", _hencler(learned_maps=False)),
    Method("default-undirected", "directions forgotten", _hencler(), symmetrise=True),
)
"""Parts of the default left out."""

METHODS: dict[str, Method] = {m.name: m for m in (*_ALL, *ABLATIONS, *DEFAULT_ABLATIONS)}


def find_methods(names: list[str] | None) -> list[Method]:
    """Methods by name; all of them by default."""
    if names is None:
        return list(METHODS.values())
    unknown = [name for name in names if name not in METHODS]
    if unknown:
        raise ParameterError(
            f"there is no method {unknown[0]!r}",
            place="--methods",
            remedy=did_you_mean(unknown[0], METHODS),
        )
    return [METHODS[name] for name in names]
