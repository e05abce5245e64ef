"""The compiled core under each instruction set that this CPU has."""

from collections.abc import Iterator
from contextlib import contextmanager

from phased.ops.native import core

SETS: list[str] = [] if core is None else core.instruction_sets()


class CoreOn(str):
    """The name of the backend "cpu", and the instruction set to run it with."""

    instructions: str

    @classmethod
    def each(cls) -> list["CoreOn"]:
        """One for every instruction set; one without any where the core is missing."""
        found = []
        for name in SETS or [""]:
            found.append(cls("cpu"))
            found[-1].instructions = name
        return found


@contextmanager
def using(name: str) -> Iterator[None]:
    """Inside, the core runs with this instruction set."""
    if not name:
        yield
        return
    before = core.instruction_set()
    core.use_instruction_set(name)
    try:
        yield
    finally:
        core.use_instruction_set(before)
