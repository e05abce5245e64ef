"""The docstrings of the public names: their examples run, and each has the sections that a reader looks for."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import phased
from examples import run_example
from phased.layer import PhasedRNN


def public() -> Iterator[tuple[str, Any]]:
    """Every public class and function, and the methods and properties of the classes."""
    for name in phased.__all__:
        yield name, getattr(phased, name)
    yield "PhasedLSTM.forward", PhasedRNN.forward
    yield "PhasedLSTM.save", PhasedRNN.save
    yield "PhasedLSTM.load", phased.PhasedLSTM.load
    yield "PhasedLSTM.from_lstm", phased.PhasedLSTM.from_lstm
    yield "PhasedGRU.from_gru", phased.PhasedGRU.from_gru
    for name in ("push", "run", "reset", "copy", "state", "time"):
        yield f"Stream.{name}", inspect.getattr_static(phased.Stream, name)


PUBLIC = dict(public())


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_of_a_public_name_runs_as_it_stands(name):
    run_example(name, inspect.getdoc(PUBLIC[name]))


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_the_sections_that_apply_to_it(name):
    value = PUBLIC[name]
    text = inspect.getdoc(value)
    sections = [line for line in text.splitlines() if line in ("Args:", "Shape:", "Returns:", "Raises:", "Example:")]
    assert sections == sorted(sections, key=["Args:", "Shape:", "Returns:", "Raises:", "Example:"].index)
    takes = [] if isinstance(value, property) else list(inspect.signature(value).parameters)
    assert ("Args:" in sections) == (set(takes) not in (set(), {"self"}))
    for argument in set(takes) - {"self"} if name != "PhasedGRU" else ():  # the GRU refers to the LSTM
        assert f"    {argument}: " in text, f"{name} does not say what {argument} is"
