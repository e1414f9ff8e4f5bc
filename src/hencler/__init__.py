"""Cluster the nodes of a graph when linked nodes tend to be different."""

__version__ = "0.1.0"

from ._errors import HenclerError, HenclerWarning
from ._graph import Graph

__all__ = [
    "Graph",
    "HenclerError",
    "HenclerWarning",
    "__version__",
]
