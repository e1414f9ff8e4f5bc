"""Cluster the nodes of a graph when linked nodes tend to be different."""

__version__ = "0.1.0"

from ._errors import HenclerError, HenclerWarning
from ._estimator import HeNCler
from ._graph import Graph
from ._wksvd import WKSVD
from .datasets import list_datasets, load_dataset, make_heterophilous_graph
from .io import read_graph

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
