"""Names of nodes: what may be one, and when two files mean the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import FileFormatError

__all__ = [
    "INTEGER",
    "check_id",
    "check_text",
    "check_unique",
    "natural",
    "of_same_kind",
    "plain_id",
]

_LONGEST_ID = 1000
"""NumPy gives every string of an array the room of the longest."""

INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\Z")


def natural(values: Sequence[str]) -> NDArray[Any]:
    """Integers where every value is one, written plainly; else strings."""
    if values and all(map(INTEGER.match, values)) and "-0" not in values:
        return np.array(values, dtype=object).astype(np.int64)
    return np.array(values, dtype=str)


def check_id(text: str, place: str) -> None:
    """Raise if `text` cannot name a node."""
    if not text.strip():
        problem = "the node id is empty"
    elif len(text) > _LONGEST_ID:
        problem = f"the node id has {len(text)} characters, more than {_LONGEST_ID}"
    elif "\0" in text:
        problem = "the node id holds a zero byte"
    else:
        return
    raise FileFormatError(problem, place=place, remedy="Give every node a short id")


def check_text(text: str, place: str) -> None:
    """Raise if one text would make an array of many too large."""
    if len(text) > _LONGEST_ID:
        raise FileFormatError(
            f"the text has {len(text)} characters, more than {_LONGEST_ID}",
            place=place,
            remedy="Use short names for classes and columns",
        )


def of_same_kind(a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both as they are, or both as strings when only one of them is."""
    return (
        (a, b) if (a.dtype.kind == "U") == (b.dtype.kind == "U") else (a.astype(str), b.astype(str))
    )


def check_unique(ids: NDArray[Any], place: Callable[[int], str]) -> None:
    order = np.argsort(ids, kind="stable")
    same = np.flatnonzero(ids[order][1:] == ids[order][:-1])
    if same.size:
        again = int(order[same + 1].min())
        raise FileFormatError(
            f"the node id {str(ids[again])!r} occurs more than once",
            place=place(again),
            remedy="Give every node one line",
        )


def plain_id(text: str) -> bool:
    """Whether the csv module would read the same id; quotation marks are for that module."""
    return (
        0 < len(text) <= _LONGEST_ID
        and '"' not in text
        and "\0" not in text
        and not text.isspace()
        and not text.startswith(" ")
    )
