"""Paths as arguments and options of commands, and commands from functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from phased import files


def command(**settings: Any) -> Callable[[Callable[..., None]], Any]:
    """Make a command of a function, for an entry point of the group `phased.commands`."""

    def make(function: Callable[..., None]) -> Any:
        app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
        app.command(**settings)(function)
        return typer.main.get_command(app)

    return make


def named(text: str) -> Path:
    """Return the path of an argument or option. Every one that is a path has this as its parser."""
    try:
        return files.named(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def table_named(text: str) -> Path:
    """Return the path of a table."""
    try:
        files.check_utf8(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return named(text)


def path(*names: str, **more: Any) -> Any:
    """Declare an option whose value is a path."""
    return typer.Option(*names, **{"parser": named, **more})
