"""Options of single studies: `phased run NAME --option VALUE`, declared by the descriptors of the experiments."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import typer

from phased_lab.runs import catalogue
from phased_lab.runs.descriptor import Option


def name_first(name: str, arguments: Sequence[str], known: Collection[str]) -> tuple[str, list[str]]:
    """The study's name and the other arguments, if an option of the study comes before its name.

    The command does not declare options of studies, so for `--periods authors frequency` it parses "--periods" as the name.
    """
    named = [argument for argument in arguments if argument in known]
    if not name.startswith("-") or len(named) != 1:
        return name, list(arguments)
    return named[0], [argument for argument in (name, *arguments) if argument != named[0]]


def parse_options(name: str, arguments: Sequence[str]) -> dict[str, str]:
    """The options of the study among the arguments; their values are checked later."""
    found: dict[str, str] = {}
    left = list(arguments)
    study = catalogue.studies().get(name)
    known = study.options if study is not None else {}
    while left:
        option, equals, value = left.pop(0).partition("=")
        key = option[2:].replace("-", "_")
        if not option.startswith("--") or key not in known:
            others = f"Its own options are {', '.join(map(spelled, known))}." if known else "It has no options of its own."
            raise typer.BadParameter(f"'{name}' does not take '{option}'. {others}")
        if not equals:
            if not left:
                raise typer.BadParameter(f"'{option}' needs a value.")
            value = left.pop(0)
        if not value and not known[key].values:
            raise typer.BadParameter(f"'{option}' needs a value, got an empty one.")
        found[key] = value
    return found


def spelled(name: str) -> str:
    """An option as it is typed: --skip-bad for skip_bad."""
    return f"--{name.replace('_', '-')}"


def options_help() -> str:
    """One line of help for each option of the studies."""
    found: dict[tuple[str, Option], list[str]] = {}
    for study in catalogue.studies().values():
        for name, option in study.options.items():
            found.setdefault((name, option), []).append(study.name)
    lines = []
    for (name, option), studies in found.items():
        values = f" One of {', '.join(option.values)}." if option.values else ""
        lines.append(f"{spelled(name)} VALUE, for {', '.join(studies)}: {option.about}{values}")
    return "\n\n".join(lines)
