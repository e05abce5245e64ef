"""The examples in the docstrings of clips run as they stand."""

import doctest
import inspect
import sys

import pytest

from phased_lab import clips

CALLED = [name for name in clips.__all__ if inspect.isfunction(getattr(clips, name))]


@pytest.mark.parametrize("name", CALLED)
def test_a_function_that_users_call_has_an_example_that_runs(name):
    function = getattr(clips, name)
    names = vars(sys.modules[function.__module__])
    (example,) = doctest.DocTestFinder(recurse=False).find(function, name, globs=dict(names))
    assert example.examples
    report: list[str] = []
    assert doctest.DocTestRunner(verbose=False).run(example, out=report.append).failed == 0, "".join(report)
