"""Calls that must fail, and what their messages must say."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

A_FURTHER_SENTENCE = r"[.:] [A-Z`]"


class Wrong(NamedTuple):
    """A call that must fail, and what its message must say."""

    what: str
    call: Callable[[], Any]
    error: type[Exception]
    expected: str
    got: str
    cure: str | None = A_FURTHER_SENTENCE

    def assert_says_so(self) -> None:
        with pytest.raises(self.error) as caught:
            self.call()
        message = str(caught.value)
        assert type(caught.value) is self.error
        for part, pattern in (("expected", self.expected), ("got", self.got), ("cure", self.cure)):
            assert pattern is None or re.search(pattern, message), f"no {part}, /{pattern}/, in: {message}"


def table(rows: list[Wrong]) -> Any:
    assert len({row.what for row in rows}) == len(rows)
    return pytest.mark.parametrize("wrong", rows, ids=lambda row: row.what)
