"""Imports on first use: public names of a package, functions of a module, and modules of optional dependencies."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any


def exports(package: str, modules: Mapping[str, tuple[str, ...]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, with the public names of each module."""
    homes = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find, lambda: sorted({*vars(sys.modules[package]), *homes})


class Functions:
    """Functions of a module that is imported at the first call of one of them."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., Any]:
        @cache
        def found() -> Callable[..., Any]:
            function: Callable[..., Any] = getattr(import_module(self._module), name)
            return function

        return lambda *given, **named: found()(*given, **named)


def module(name: str, what: str, extra: str) -> ModuleType:
    """Import a module of an extra. The error names the command that installs it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or name).partition(".")[0]  # it, or a module that it needs
        package = {"sklearn": "scikit-learn"}.get(missing, missing)
        raise ModuleNotFoundError(
            f"{what} needs {package}, which is not installed. Install it with: pip install 'phased[{extra}]'", name=name
        ) from error
