"""Modules of extras, imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

PACKAGES = {"sklearn": "scikit-learn"}


def module(name: str, what: str, extra: str) -> ModuleType:
    """Import a module of an extra. The error names the command that installs it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or name).partition(".")[0]  # it, or a module that it needs
        package = PACKAGES.get(missing, missing)
        raise ModuleNotFoundError(
            f"{what} needs {package}, which is not installed. Install it with: pip install 'phased[{extra}]'", name=name
        ) from error
