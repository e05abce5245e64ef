"""Packages of the extra `estimator`."""

from __future__ import annotations

from importlib.util import find_spec

PACKAGES = {"sklearn": "scikit-learn"}


def require(*modules: str) -> None:
    """A ModuleNotFoundError with the command that installs a module, if it is missing."""
    for module in modules:
        if find_spec(module) is None:
            name = PACKAGES.get(module, module)
            raise ModuleNotFoundError(
                f"phased.estimator needs {name}, which is not installed. Install it with: pip install 'phased[estimator]'",
                name=module,
            )
