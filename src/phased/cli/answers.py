"""What the commands that answer for many files share: which files, those that cannot be read, and a picture of one."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from phased import files
from phased.files import printable


@contextmanager
def skipping(errors: Console, total: Any, skip_bad: bool) -> Iterator[None]:
    """Handle the errors of one file. With --skip-bad they are printed and counted in `total`."""
    try:
        yield
    except (ValueError, OSError) as error:
        if not skip_bad:
            raise
        total.skipped += 1
        warn(errors, f"skipped: {error}")


def warn(errors: Console, text: str) -> None:
    """Print a warning about a file."""
    errors.print(printable(text), style="yellow", soft_wrap=True, markup=False, highlight=False)


def files_in(path: Path, suffixes: Collection[str], what: str) -> list[Path]:
    """The file as given; for a folder all files with these suffixes in it and below, linked ones too, sorted.

    Each folder is searched once, since a link may lead to one above. Hidden files are left out: other systems keep some of them.
    """
    if not is_folder(path):
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


def is_folder(path: Path) -> bool:
    """Whether a path is a folder; one that the system refuses, such as too long a name, is none, and an error when it is read."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _unlisted(error: OSError) -> NoReturn:
    """Raise an error for a folder that cannot be listed."""
    raise OSError(f"cannot list the folder '{error.filename}': {files.reason(error)}. Check its permissions.") from error


def check_picture(out: Path, paths: Sequence[Path], what: str, used: Sequence[Path]) -> None:
    """Raise an error for a picture that could not be drawn or written, before any file is read."""
    from phased.pictures.save import picture_format

    picture_format(out)
    if len(paths) != 1 or is_folder(paths[0]):
        raise ValueError(f"--picture takes one {what}, got a folder or several. Name one file.")
    files.check_output(out, (*paths, *used))


def save_picture(draw: Callable[[], Any], out: Path) -> None:
    """Draw, and write the figure; the suffix of `out` selects the format."""
    from phased.pictures.save import save_as
    from phased.pictures.style import styled

    with styled():
        save_as(draw(), out)
