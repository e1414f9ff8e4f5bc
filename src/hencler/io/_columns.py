"""Which column of a table is meant, by the name in its head."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from .._errors import FileFormatError

__all__ = [
    "CLUSTER_NAMES",
    "ID_NAMES",
    "SIDES",
    "SOURCE_NAMES",
    "TARGET_NAMES",
    "WEIGHT_NAMES",
    "find_column",
    "is_pair",
    "is_two_kinds",
    "label_column",
    "raise_no_label",
    "side_names",
    "two_columns",
]

SOURCE_NAMES = ("source", "src", "from", "u")
TARGET_NAMES = ("target", "dst", "to", "v")
WEIGHT_NAMES = ("weight", "w", "amount", "count", "strength")
_PAIRS = (
    ("buyer", "seller"), ("sender", "receiver"), ("sender", "recipient"), ("predator", "prey"),
    ("parent", "child"), ("citing", "cited"), ("follower", "followed"), ("follower", "followee"),
    ("pre", "post"), ("node1", "node2"), ("start", "end"), ("tail", "head"), ("row", "col"),
)  # fmt: skip
"""Heads of two columns, in this order, that are no edge."""

_KINDS = (
    ("user", "item"), ("user", "product"), ("user", "movie"), ("customer", "product"),
    ("customer", "item"), ("author", "paper"), ("plant", "pollinator"), ("host", "parasite"),
)  # fmt: skip
"""The same, of nodes of two kinds."""

SIDES = ("row", "col")
"""Of a bipartite graph whose columns have no heads."""

_LONGEST_HEAD = 40

ID_NAMES = ("id", "node", "node_id")

CLUSTER_NAMES = ("cluster", "label", "class", "y")


def find_column(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    lowered = [name.strip().lower() for name in names]
    return next((lowered.index(name) for name in wanted if name in lowered), None)


def is_pair(first: Sequence[str]) -> bool:
    """Whether the first two fields are a well-known pair of heads, such as user_id,item_id."""
    return _plain(first) in _PAIRS or is_two_kinds(first)


def is_two_kinds(heads: Sequence[str]) -> bool:
    """Whether the first two heads are those of nodes of two kinds, which share no node."""
    return _plain(heads) in _KINDS


def _plain(heads: Sequence[str]) -> tuple[str, ...]:
    return tuple(re.sub(r"[ _-]|ids?$|name$", "", head.strip().lower()) for head in heads[:2])


def side_names(heads: Sequence[str]) -> tuple[str, str]:
    """What the ids of the two sides begin with: the columns' heads, or ``row`` and ``col``.

    >>> side_names(["user_id", "Item"])
    ('user', 'Item')
    >>> side_names(["id", "id"])
    ('row', 'col')
    """
    first, second = (re.sub(r"(?:[ _-][iI][dD]s?|I[dD]s?|^id)$", "", h.strip()) for h in heads)
    plain = all(name and ":" not in name and len(name) <= _LONGEST_HEAD for name in (first, second))
    return (first, second) if plain and first != second else SIDES


def two_columns(key: int | None, at: int | None) -> tuple[int, int]:
    if key is None:
        key = 1 if at == 0 else 0
    if at is None:
        at = 1 if key == 0 else 0
    return key, at


def label_column(names: Sequence[str], label: str, file: Path) -> int:
    if label in names:
        return list(names).index(label)
    close = difflib.get_close_matches(label, names, 1)
    raise FileFormatError(
        f"there is no column {label!r}",
        place=str(file),
        remedy=f"Did you mean {close[0]!r}?"
        if close
        else "Name a column of the header: " + ", ".join(map(repr, names[:10])),
    )


def raise_no_label(place: str) -> NoReturn:
    raise FileFormatError(
        "the label is empty", place=place, remedy="Give every node a class, for example 'unknown'"
    )
