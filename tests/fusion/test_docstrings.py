"""The examples of the classes' methods run."""

import inspect

import pytest

from examples import run_example
from phased import Fusion, FusionStream, Timeline

METHODS = {
    f"{owner.__name__}.{name}": inspect.getattr_static(owner, name)
    for owner, names in (
        (Fusion, ("forward", "timeline", "updates")),
        (FusionStream, ("push", "run", "time", "state", "reset", "copy")),
        (Timeline, ("of",)),
    )
    for name in names
}


@pytest.mark.parametrize("name", METHODS)
def test_the_example_of_a_method_runs_as_it_stands(name):
    run_example(name, inspect.getdoc(METHODS[name]))
