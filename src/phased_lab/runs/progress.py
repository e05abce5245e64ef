"""Progress of training and of data preparation, reported from any depth of calls to the command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phased.data.ragged import Progress


Show = Callable[[str, int, int, str], None]
"""Receives the name of a task, the finished and the total amount of work, and a message."""


_SHOW: ContextVar[Show | None] = ContextVar("show", default=None)


@contextmanager
def shown(show: Show) -> Iterator[None]:
    """Report the progress of all work inside the context to `show`."""
    before = _SHOW.set(show)
    try:
        yield
    finally:
        _SHOW.reset(before)


def progress(what: str) -> Progress | None:
    """Return a function that reports the finished and the total amount of a task, or None if progress is not shown."""
    show = _SHOW.get()
    return None if show is None else lambda done, total: show(what, done, total, "")
