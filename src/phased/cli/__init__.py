"""The `phased` command. It needs the extra `cli`; this module does not, and prints how to install it."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the `phased` command; without typer and rich, exit with the command that installs them."""
    try:
        from phased.cli.app import app
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in {"typer", "rich"}:
            raise
        sys.exit(f"phased: the command needs {missing}, which is not installed. Install it with: pip install 'phased[cli]'")
    app()
