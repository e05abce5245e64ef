"""Options of several commands, paths as arguments and options, and commands from functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from phased import files


def command(**settings: Any) -> Callable[[Callable[..., None]], Any]:
    """Make a command of a function, for an entry point of the group `phased.commands`."""

    def make(function: Callable[..., None]) -> Any:
        app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
        app.command(**settings)(function)
        return typer.main.get_command(app)

    return make


def listing(about: Mapping[str, str], load: Callable[[str], Any], **settings: Any) -> typer.Typer:
    """Make a group that lists commands by name. `load` imports the command that is called, or returns None."""

    class OnCall(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            for name, begins in about.items():
                self.add_command(TyperCommand(name, help=begins))

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            command = load(args[0])
            return super().resolve_command(ctx, args) if command is None else (args[0], command, args[1:])

    return typer.Typer(cls=OnCall, add_completion=False, pretty_exceptions_show_locals=False, **settings)


def expanded(function: Callable[..., None]) -> Callable[..., None]:
    """Replace each dataclass among the parameters of a command by an option for each field."""
    given = signature(function, eval_str=True).parameters
    kinds: dict[str, Any] = {name: each.annotation for name, each in given.items() if is_dataclass(each.annotation)}
    own = {name: [*signature(kind, eval_str=True).parameters.values()] for name, kind in kinds.items()}

    @wraps(function)
    def call(**values: Any) -> None:
        made = {name: kind(**{each.name: values.pop(each.name) for each in own[name]}) for name, kind in kinds.items()}
        function(**values, **made)

    return with_signature(call, [option for name, each in given.items() for option in own.get(name, [each])])


def with_signature(function: Callable[..., None], parameters: Iterable[Parameter]) -> Callable[..., None]:
    """Set the parameters of a function. Each becomes an option of its command."""
    keywords = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in parameters]
    function.__signature__ = Signature(keywords)  # type: ignore[attr-defined]
    function.__annotations__ = {each.name: each.annotation for each in keywords}
    return function


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


AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON, and nothing else.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:1.")]
Lines = Annotated[bool, typer.Option("--json", help="Print one line of JSON per file, and nothing else.")]
ModelOut = Annotated[Path, path("--out", metavar="FOLDER", help="The folder for the model; created if needed.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip and count files that cannot be read, instead of stopping.")]
