"""Modules of extras, imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

PACKAGES = {"sklearn": "scikit-learn", "lightning.fabric": "lightning"}


def module(name: str, what: str, extra: str) -> ModuleType:
    """Import a module of an extra. The error names the command that installs it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = PACKAGES.get(name, name)
        raise ModuleNotFoundError(
            f"{what} needs {package}, which is not installed. Install it with: pip install 'phased[{extra}]'", name=name
        ) from error
