"""Progress of work on data that takes long, for a command that is far from the function which does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from phased.data.index import Progress

Show = Callable[[str, int, int], None]
_SHOW: ContextVar[Show | None] = ContextVar("show", default=None)


@contextmanager
def shown(show: Show) -> Iterator[None]:
    """Within it, `show` is called with what is being done, how much of it is done, and how much there is."""
    before = _SHOW.set(show)
    try:
        yield
    finally:
        _SHOW.reset(before)


def progress(what: str) -> Progress | None:
    """The function to call with how much is done and how much there is; None if it is not shown."""
    show = _SHOW.get()
    return None if show is None else lambda done, total: show(what, done, total)
