"""No experiment is named outside of its folder: a new one needs no change elsewhere."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import phased_lab.cli
from phased_lab.runs import catalogue

SOURCE = Path(phased_lab.cli.__file__).parents[1]
# Names of experiments that are also ordinary words, or benchmarks, which a text may contain.
COMMON = {"gate", "memory", "schedule", "weights", "ranges", "nmnist", "camera", "lipreading"}
OTHER_MEANINGS = {
    ("cli/bench_command.py", "nmnist"),  # a benchmark
    ("cli/bench_command.py", "lipreading"),
    ("cli/bench.py", "memory"),
    ("runs/network.py", "weights"),
    ("runs/record.py", "schedule"),
}


def texts(tree: ast.AST) -> Iterator[str]:
    """All strings of a module that are not docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    first = [node.body[0] for node in ast.walk(tree) if isinstance(node, documented) and node.body]
    docstrings = {id(statement.value) for statement in first if isinstance(statement, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def imported(tree: ast.AST) -> Iterator[str]:
    """All modules that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("folder", ["report", "cli", "runs"])
def test_no_code_but_its_own_names_an_experiment(folder):
    names = {
        name for experiment in catalogue.experiments().values() for name in (experiment.name, *catalogue.commands(experiment))
    }
    assert len(names) >= 11
    files = sorted((SOURCE / folder).rglob("*.py"))
    assert files
    for file in files:
        tree, place = ast.parse(file.read_text(encoding="utf-8")), str(file.relative_to(SOURCE))
        for text in texts(tree):
            assert text not in names or (place, text) in OTHER_MEANINGS, f"{place}: {text!r}"
            for name in names - COMMON:
                assert not re.search(rf"\b{name}\b", text), f"{place}: {text!r}"
        for module in imported(tree):
            assert not module.startswith("phased_lab.paper"), f"{place} imports {module}"
