"""Files with bytes that were changed or cut off, and what reading them gives."""

from collections.abc import Callable
from typing import TypeVar

from hypothesis import strategies as st

from phased.data import BadFile

T = TypeVar("T")


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """The content, perhaps cut off, with up to three other bytes."""
    data = bytearray(content)
    if draw(st.booleans()):
        del data[draw(st.integers(0, len(data))) :]
    if data:
        for place in draw(st.lists(st.integers(0, len(data) - 1), max_size=3)):
            data[place] = draw(st.integers(0, 255))
    return bytes(data)


def outcome(read: Callable[[], T]) -> T | BadFile:
    """What was read, or the error that explains why it cannot be; any other error is raised."""
    try:
        return read()
    except BadFile as error:
        return error
