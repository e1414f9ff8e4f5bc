"""Typed errors and the one warning class: what is wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "AttributeDataError",
    "DatasetError",
    "FileFormatError",
    "GraphError",
    "HenclerError",
    "HenclerWarning",
    "MissingExtraError",
    "ModelFileError",
    "ParameterError",
    "ResourceError",
    "WriteError",
    "did_you_mean",
]


class HenclerError(Exception):
    """Base of every error that a user's input can cause.

    Parameters
    ----------
    problem : str
        What is wrong, as a sentence without its full stop.
    place : str, optional
        Where: a file with its line, a column, a node, a parameter.
    remedy : str, optional
        What the user can do, as a sentence without its full stop.

    Examples
    --------
    >>> from hencler import Graph, HenclerError
    >>> try:
    ...     Graph([[0, -1], [0, 0]])
    ... except HenclerError as error:
    ...     print(error.problem, "|", error.place, "|", error.remedy)
    the weight is -1.0 | edge number 0 (0 -> 1) | Weights must be finite and not negative
    """

    def __init__(
        self, problem: str, *, place: str | None = None, remedy: str | None = None
    ) -> None:
        self.problem = problem
        self.place = place
        self.remedy = remedy
        text = f"{place}: {problem}" if place else problem
        end = "" if remedy and remedy.endswith("?") else "."
        super().__init__(f"{text}. {remedy}{end}" if remedy else f"{text}.")

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are pickled by their positional arguments; ours are keyword-only.
        return (_rebuild, (type(self), self.problem, self.place, self.remedy))


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A remedy for a mistyped name: the closest known one, else what is known.

    >>> did_you_mean("papr", ["default", "paper"])
    "Did you mean 'paper'?"
    >>> did_you_mean("best", ["default", "paper"])
    "Choose one of 'default', 'paper'"
    """
    names = list(known)
    lower = {each.lower(): each for each in reversed(names)}
    close = difflib.get_close_matches(name.lower(), lower, 1)
    if close:
        return f"Did you mean {lower[close[0]]!r}?"
    return otherwise or "Choose one of " + ", ".join(map(repr, names))


def _rebuild(
    cls: type[HenclerError], problem: str, place: str | None, remedy: str | None
) -> HenclerError:
    return cls(problem, place=place, remedy=remedy)


class GraphError(HenclerError, ValueError):
    """The edges or the node ids are not those of a graph this library can cluster."""


class AttributeDataError(HenclerError, ValueError):
    """The node attributes cannot be used: NaN, infinite, of the wrong shape or type."""


class ParameterError(HenclerError, ValueError):
    """A parameter of an estimator or function is out of its range."""


class FileFormatError(HenclerError, ValueError):
    """A file is damaged or not of the format its name promises."""


class DatasetError(HenclerError, LookupError):
    """A benchmark graph is unknown, absent, or not the one it claims to be."""


class ModelFileError(HenclerError, ValueError):
    """A saved model is damaged, altered, or of a format this version cannot read."""


class ResourceError(HenclerError, MemoryError):
    """The work would not fit into the memory there is."""


class WriteError(HenclerError, OSError):
    """A result cannot be written: no room, no permission, or another run is writing there."""


class MissingExtraError(HenclerError, ImportError):
    """An optional package is needed for what was asked."""


class HenclerWarning(UserWarning):
    """Something was done that the user may want to know about.

    Examples
    --------
    In a script that must not go on, it can be made an error:

    >>> import warnings
    >>> from hencler import HenclerWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", HenclerWarning)
    ...     warnings.warn("the first line may be a header", HenclerWarning)
    Traceback (most recent call last):
        ...
    hencler._errors.HenclerWarning: the first line may be a header
    """
