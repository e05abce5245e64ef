"""Errors of commands, printed as a message without a traceback."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import NoReturn

import typer
from rich.console import Console

from phased import files

STOPPED = 130  # as a shell reports Ctrl-C
RESUMES = "Finished runs are kept, and the same command continues with the others."


@contextmanager
def plain_errors(when_stopped: str = "", worded: Callable[[str], str] = str) -> Iterator[None]:
    """Print errors of options, files and disks, Ctrl-C and SIGTERM without a traceback, `worded` for the command, and exit."""
    try:
        with stopped_by_sigterm():
            yield
    except BrokenPipeError:  # `| head` has read enough: typer exits without a message
        raise
    except (ValueError, OSError) as error:
        fail(worded(str(error)))
    except KeyboardInterrupt:
        fail(f"stopped. {when_stopped}".strip(), STOPPED)


@contextmanager
def plain_warnings(console: Console, worded: Callable[[str], str] = str) -> Iterator[None]:
    """Print warnings in yellow, each once, `worded` for the command and without their line of code."""
    printed: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in printed:
            printed.add(str(message))
            console.print(worded(str(message)), style="yellow", soft_wrap=True, markup=False, highlight=False)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


@contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGTERM, which batch systems and containers send, so that files are closed and workers end."""
    if threading.current_thread() is not threading.main_thread():  # signal handlers can be set in the main thread only
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


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
    Console(stderr=True).print(f"phased: {files.printable(message)}", style="red", soft_wrap=True, markup=False, highlight=False)
    raise typer.Exit(code)
