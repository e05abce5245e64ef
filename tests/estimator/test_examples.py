"""The examples in the docstrings of the estimators run as they stand, and the names are documented."""

import doctest
import inspect

import pytest

from phased.estimator import Online, PhasedClassifier, PhasedRegressor

FLAGS = doctest.ELLIPSIS


def public():
    """The classes, and their methods that users call."""
    for kind in (PhasedClassifier, PhasedRegressor, Online):
        yield kind.__name__, kind
        for name, value in inspect.getmembers(kind):
            ours = getattr(inspect.unwrap(getattr(value, "fget", value)), "__module__", None) or ""
            if not name.startswith("_") and callable(value) | isinstance(value, property) and ours.startswith("phased."):
                yield f"{kind.__name__}.{name}", value


PUBLIC = {name: value for name, value in public() if not name.endswith(".score")}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_runs_as_it_stands(name):
    text = inspect.getdoc(PUBLIC[name])
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    assert example.examples, f"{name} has no example"
    report: list[str] = []
    assert doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(example, out=report.append).failed == 0, "".join(report)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_argument_is_documented(name):
    value = PUBLIC[name]
    takes = [] if isinstance(value, property) else list(inspect.signature(value).parameters)
    shown = [] if name == "Online" else [argument for argument in takes if argument != "self"]
    assert [argument for argument in shown if f"    {argument}: " not in inspect.getdoc(value)] == []
