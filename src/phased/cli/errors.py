"""The lines that commands print, and their errors, without a traceback."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import NoReturn

import typer
from rich.console import Console
from rich.text import Text

from phased import files
from phased.cli import STOPPED

TERMINATED = 143  # as a shell reports SIGTERM
RESUMES = "Finished runs are kept, and the same command continues with the others."


class Errors(Console):
    """The standard error. A reader that closes it does not end the command."""

    def __init__(self) -> None:
        super().__init__(stderr=True)

    def on_broken_pipe(self) -> None:
        """Print nothing more."""
        self.quiet = True


def print_line(console: Console, line: str | Text, style: str = "") -> None:
    """Print a line as it is, which may have brackets, and as long as it is."""
    console.print(line, style=style, soft_wrap=True, markup=False, highlight=False)


@contextmanager
def plain_errors(when_stopped: str = "") -> Iterator[list[signal.Signals]]:
    """Print errors of options, files and disks, Ctrl-C and SIGTERM without a traceback, and exit.

    Yields the SIGTERM that has come, in a list.
    """
    came: list[signal.Signals] = []
    try:
        with stopped_by_sigterm(came):
            yield came
    except BrokenPipeError:  # `| head` has read enough: `main` exits without a message
        raise
    except (ValueError, OSError) as error:
        if isinstance(error, OSError) and files.full(error) and error.filename is None:
            raise  # of the standard output, since errors of files have their name
        fail(str(error))
    except KeyboardInterrupt:
        fail(f"stopped. {when_stopped}".strip(), TERMINATED if came else STOPPED)


@contextmanager
def plain_warnings(console: Console) -> Iterator[None]:
    """Print warnings in yellow, each once and without their line of code."""
    printed: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in printed:
            printed.add(str(message))
            print_line(console, str(message), "yellow")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


@contextmanager
def stopped_by_sigterm(came: list[signal.Signals]) -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGTERM, which batch systems and containers send, so that files are closed and workers end."""
    if threading.current_thread() is not threading.main_thread():  # signal handlers can be set in the main thread only
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        came.append(signal.Signals(number))
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM, for the moment in which a model is written."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def writable(folder: Path, option: str = "--out") -> Path:
    """The folder, created if it does not exist; an OSError that names the folder and the option if it cannot be written to."""
    try:
        return files.writable(folder)
    except OSError as error:
        raise OSError(f"{error} It was set by {option}.") from error


def need(module: str, extra: str) -> None:
    """Exit with the command that installs a module, if it is missing."""
    if find_spec(module) is None:
        fail(f"this needs {module}, which is not installed. Install it with: pip install 'phased[{extra}]'")


def fail(message: str, code: int = 1) -> NoReturn:
    """Print what is wrong and what to do, and exit."""
    print_line(Errors(), f"phased: {files.printable(message)}", "red")
    raise typer.Exit(code)
