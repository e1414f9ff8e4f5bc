"""Cluster the nodes of a graph when linked nodes tend to be different."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._errors import HenclerError, HenclerWarning

if TYPE_CHECKING:
    from ._estimator import HeNCler
    from ._graph import Graph
    from ._wksvd_estimator import WKSVD
    from .datasets import list_datasets, load_dataset, make_heterophilous_graph
    from .io import read_graph

__version__ = "0.1.0"

__all__ = [
    "WKSVD",
    "Graph",
    "HeNCler",
    "HenclerError",
    "HenclerWarning",
    "__version__",
    "list_datasets",
    "load_dataset",
    "make_heterophilous_graph",
    "read_graph",
]

# Loaded when they are asked for: torch and SciPy take seconds, and `hencler --help`, a mistyped
# option or a Tab on the command line should not.
_PLACES = {
    "HeNCler": "_estimator",
    "Graph": "_graph",
    "WKSVD": "_wksvd_estimator",
    "list_datasets": "datasets",
    "load_dataset": "datasets",
    "make_heterophilous_graph": "datasets",
    "read_graph": "io",
}
_MODULES = ("baselines", "datasets", "io", "metrics", "plotting", "report")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_PLACES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES, *_MODULES})
