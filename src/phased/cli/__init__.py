"""The `phased` command. It needs the extra `cli`; this module does not, so that it can say so."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the `phased` command; without typer and rich, say how to get them."""
    try:
        from phased.cli.app import app
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in {"typer", "rich"}:
            raise
        sys.exit(f"phased: the command needs {missing}, which is not installed. Install it with: pip install 'phased[cli]'")
    app()
