"""The shell of the commands that answer for many files: find files, skip bad files, print lines or JSON, draw one file."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from phased import files
from phased.cli.errors import Errors, fail, plain_errors, plain_warnings, print_line
from phased.files import printable


@dataclass
class Answers:
    """A command that answers for many files: its options, and sums over the files that were answered.

    Args:
        model: the trained model.
        json: print lines of JSON.
        skip_bad: skip and count files that cannot be read.
    """

    model: Any
    json: bool = False
    skip_bad: bool = False
    console: Console = field(default_factory=Console, kw_only=True)
    errors: Console = field(default_factory=Errors, kw_only=True)
    answered: int = field(default=0, init=False)
    skipped: int = field(default=0, init=False)
    known: int = field(default=0, init=False)  # answers with a known truth
    right: int = field(default=0, init=False)

    suffixes: ClassVar[Collection[str]]
    one: ClassVar[str]
    many: ClassVar[str]

    def answer(self, file: Path) -> tuple[dict[str, Any], str | Text]:
        """Return the answer for a file as fields of JSON and as a line."""
        raise NotImplementedError

    def draw(self, file: Path) -> Any:
        """Return a figure of a file and its answer."""
        raise NotImplementedError

    def all(self, paths: Sequence[Path]) -> None:
        """Print the answer for each file as soon as it is known."""
        for file in self.found(paths):
            with self.skipping():
                fields, line = self.answer(file)
                self.answered += 1
                if self.json:
                    print(json.dumps(fields), flush=True)
                else:
                    print_line(self.console, line)

    def found(self, paths: Sequence[Path]) -> list[Path]:
        """Return all files of the paths in order."""
        every: list[Path] = []
        for path in paths:
            with self.skipping():
                every += files_in(path, self.suffixes, self.many)
        return every

    @contextmanager
    def skipping(self) -> Iterator[None]:
        """Handle the errors of one file. With --skip-bad they are printed and counted."""
        try:
            yield
        except (ValueError, OSError) as error:
            if not self.skip_bad:
                raise
            self.skipped += 1
            self.warn(f"skipped: {error}")

    def compare(self, said: Sequence[str], truth: Sequence[str] | None) -> None:
        """Count right answers for a file if the truth is known."""
        if truth is not None:
            self.known += len(truth)
            self.right += sum(one == other for one, other in zip(truth, said, strict=True))

    def warn(self, text: str) -> None:
        """Print a warning about a file."""
        print_line(self.errors, printable(text), "yellow")


def run(kind: Any, load: Any, paths: Sequence[Path], picture: Path | None, inputs: Sequence[Path], **options: Any) -> None:
    """Answer for all files and print the total, with a picture of a single file if its name is given.

    `kind` is a class of `Answers` and takes the options, `load` loads the model. The picture must replace no input.
    """
    with plain_errors(), plain_warnings(Errors()):
        if picture is not None:
            check_picture(picture, kind.one, paths, inputs)
        command = kind(load(), **options)
        try:
            command.all(paths)
        except ModuleNotFoundError as error:  # readers of some files are extras
            fail(str(error))
        if picture is not None and not command.skipped:
            save_picture(command, paths[0], picture)
        if not command.json:
            print_line(command.console, str(command))
        elif command.skipped:
            command.errors.print(f"{command.skipped} skipped.", style="yellow")
    if not command.answered:
        raise typer.Exit(1)


def counted(number: int, thing: str) -> str:
    """A number of things."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def files_in(path: Path, suffixes: Collection[str], what: str) -> list[Path]:
    """Return the file. For a folder return all files with these suffixes in it and below, also behind links, sorted.

    Each folder is searched once, since a link may lead to one above. Hidden files are left out: other systems keep some of them.
    """
    if not os.path.isdir(path):  # noqa: PTH112 (`Path.is_dir` raises an error for a name that is too long)
        return [path]
    found: list[Path] = []
    seen: set[str] = set()
    for place, folders, names in os.walk(path, onerror=_unlisted, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders.sort()
        found += [Path(place, name) for name in names if Path(name).suffix.lower() in suffixes and not name.startswith(".")]
    if not found:
        raise ValueError(f"there are no {what} in '{path}'. They end with {', '.join(suffixes)}.")
    return sorted(found)


def _unlisted(error: OSError) -> NoReturn:
    """Raise an error for a folder that cannot be listed."""
    raise OSError(f"cannot list the folder '{error.filename}': {files.reason(error)}. Check its permissions.") from error


def check_picture(out: Path, one: str, paths: Sequence[Path], inputs: Sequence[Path]) -> None:
    """Raise an error for a picture that could not be drawn or written, before any file is read."""
    from phased.pictures.save import picture_format

    picture_format(out)
    if len(paths) != 1 or paths[0].is_dir():
        raise ValueError(f"--picture takes one {one}, got a folder or several. Name one file.")
    files.check_output(out, (*paths, *inputs))


def save_picture(command: Answers, file: Path, out: Path) -> None:
    """Draw a file. The suffix of `out` selects the format."""
    from phased.pictures.save import save_as
    from phased.pictures.style import styled

    with styled():
        save_as(command.draw(file), out)
