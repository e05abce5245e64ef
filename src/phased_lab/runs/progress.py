"""Progress of long work, such as training and making data, for a command that is far from the function which does it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from phased.data.ragged import Progress


class Show(Protocol):
    """Called with what is being done, how much of it is done, how much there is, and news of it in words."""

    def __call__(self, what: str, done: int, total: int, news: str = "", /) -> None:
        """Show it."""
        ...


def nothing(what: str, done: int, total: int, news: str = "", /) -> None:
    """Show nothing."""


_SHOW: ContextVar[Show | None] = ContextVar("show", default=None)


@contextmanager
def shown(show: Show) -> Iterator[None]:
    """Within it, `show` is called with the progress of what is done."""
    before = _SHOW.set(show)
    try:
        yield
    finally:
        _SHOW.reset(before)


def progress(what: str) -> Progress | None:
    """The function to call with how much is done and how much there is; None if it is not shown."""
    show = _SHOW.get()
    return None if show is None else lambda done, total: show(what, done, total)
