"""Methods to compare with, each one file, all with the estimator face of HeNCler.

``METHODS`` maps a method's short name to its class. A class is imported when it is first asked
for, so that listing the names costs nothing.

>>> from hencler.baselines import METHODS
>>> sorted(METHODS)[:4]
['coclustering', 'content', 'dmon', 'hole']
>>> METHODS["dmon"](n_clusters=3)
DMoN(n_clusters=3)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from .._base import GraphClusterer

__all__ = [
    "KSC",
    "METHODS",
    "MUSE",
    "S3GC",
    "Content",
    "DMoN",
    "HoLe",
    "KMeans",
    "MinCutPool",
    "SpectralClustering",
    "SpectralCoclustering",
]

# short name, which is also the module's -> class
_CLASSES = {
    "kmeans": "KMeans",
    "spectral": "SpectralClustering",
    "coclustering": "SpectralCoclustering",
    "ksc": "KSC",
    "content": "Content",
    "mincutpool": "MinCutPool",
    "dmon": "DMoN",
    "s3gc": "S3GC",
    "muse": "MUSE",
    "hole": "HoLe",
}


class _Methods(Mapping[str, type[GraphClusterer]]):
    def __getitem__(self, name: str) -> type[GraphClusterer]:
        cls = _CLASSES[name]  # KeyError for an unknown name, before any import
        method: type[GraphClusterer] = getattr(import_module(f".{name}", __name__), cls)
        return method

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


METHODS: Mapping[str, type[GraphClusterer]] = _Methods()


def __getattr__(name: str) -> Any:
    for key, cls in _CLASSES.items():
        if cls == name:
            return METHODS[key]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
