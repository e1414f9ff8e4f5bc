"""Tables whose two columns name nodes of two kinds: user 1 and item 1 are two nodes.

Their ids are made distinct by the side they are on, ``user:1`` and ``item:1``, and rows come before
columns as in :meth:`hencler.Graph.from_biadjacency`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import HenclerWarning, ParameterError
from ._assemble import Edges
from ._columns import is_two_kinds
from ._ids import natural

__all__ = ["check_directed", "ordered_ids", "split_sides", "two_sided", "warn_if_two_kinds"]


def check_directed(directed: bool | None) -> None:
    if directed is False:
        raise ParameterError(
            "bipartite and undirected were both asked for",
            remedy="Leave one out: links of a bipartite graph go from the first column to the "
            "second",
        )


def split_sides(
    source: NDArray[np.int64], target: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Values on each side, and the edges as positions in both, one after the other."""
    rows, source = np.unique(source, return_inverse=True)
    cols, target = np.unique(target, return_inverse=True)
    return rows, cols, source.astype(np.int64), target.astype(np.int64) + len(rows)


def two_sided(edges: Edges) -> Edges:
    """The same edges between nodes of two kinds."""
    rows, cols, source, target = split_sides(edges.source, edges.target)
    names = edges.ids.astype(str)
    old = [_prefixed(names[part].tolist(), side) for part, side in zip((rows, cols), edges.sides)]
    ids = ordered_ids(*old, sides=edges.sides)
    at = {name: i for i, name in enumerate(ids.tolist())}
    new = np.array([at[name] for part in old for name in part], dtype=np.int64)
    return replace(edges, ids=ids, source=new[source], target=new[target], ordered=True)


def ordered_ids(
    rows: Iterable[str], cols: Iterable[str], *, sides: tuple[str, str]
) -> NDArray[np.str_]:
    """Ids that begin with their sides: rows before columns, integers by their size."""
    parts = []
    for names, side in zip((rows, cols), sides):
        bare = np.sort(natural([name[len(side) + 1 :] for name in names]))
        parts += _prefixed(bare.tolist(), side)
    return np.array(parts, dtype=str)


def _prefixed(names: Iterable[Any], side: str) -> list[str]:
    return [f"{side}:{name}" for name in names]


def warn_if_two_kinds(edges: Edges, file: Path) -> None:
    """Users and items that share ids were hardly meant to be the same nodes."""
    if not is_two_kinds(edges.sides):
        return
    shared = np.intersect1d(edges.source, edges.target)
    if shared.size:
        warnings.warn(
            f"{file}: {shared.size} ids, such as {str(edges.ids[shared[0]])!r}, are both "
            f"{edges.sides[0]!r} and {edges.sides[1]!r} and were read as one node each; if they "
            "are different things, read the table as bipartite (--bipartite)",
            HenclerWarning,
            stacklevel=3,
        )
