"""Running the examples of docstrings and documents."""

import doctest


def run_example(name: str, text: str) -> None:
    """Run the doctest examples in a text, of which there must be one; every failure is in the message."""
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    assert example.examples, f"{name} has no example"
    report: list[str] = []
    assert doctest.DocTestRunner(verbose=False).run(example, out=report.append).failed == 0, "".join(report)
