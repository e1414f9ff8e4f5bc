"""Progress of long steps, told to whoever listens: a terminal, a notebook, or nobody.

A step says what it does and how far it is; it does not know whether anybody is shown that. The
listener belongs to the context of the caller, so that no signature on the way has to carry it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

__all__ = ["Listener", "Step", "announce", "listening", "steps"]

T = TypeVar("T")


class Step(NamedTuple):
    """What is being done, and how much of it is done; `total` is None where nobody knows."""

    name: str
    done: int = 0
    total: int | None = None


Listener = Callable[[Step], None]

_listener: ContextVar[Listener | None] = ContextVar("hencler_progress", default=None)


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Tell `listener` of all steps of this context while the block runs.

    >>> from hencler._progress import listening, steps
    >>> with listening(print):
    ...     doubled = [2 * x for x in steps("doubling", [1, 2])]
    Step(name='doubling', done=0, total=2)
    Step(name='doubling', done=1, total=2)
    Step(name='doubling', done=2, total=2)
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def announce(name: str, done: int = 0, total: int | None = None) -> None:
    """Say where a step is."""
    listener = _listener.get()
    if listener is not None:
        listener(Step(name, done, total))


def steps(name: str, items: Collection[T]) -> Iterator[T]:
    """The items, one after the other, with an announcement before and after each."""
    total = len(items)
    announce(name, 0, total)
    for done, item in enumerate(items, start=1):
        yield item
        announce(name, done, total)
