"""The `phased` command. It needs the extra `cli`; this module does not, and prints how to install it.

Everything else is imported within `main`, where Ctrl-C ends the command without a traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

STOPPED = 130  # as a shell reports Ctrl-C


def main() -> None:
    """Run the `phased` command; without typer and rich, exit with the command that installs them."""
    try:
        from phased.cli.app import app

        try:
            app()
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # another Ctrl-C does not disturb the end of Python
            if sys.stdout is not None:
                sys.stdout.flush()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in {"typer", "rich"}:
            raise
        sys.exit(f"phased: the command needs {missing}, which is not installed. Install it with: pip install 'phased[cli]'")
    except KeyboardInterrupt:
        sys.exit(STOPPED)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # `| head` has read enough
            silence()
            sys.exit(0)
        raise
    except OSError as error:
        from phased import files

        silence()
        if isinstance(error, BrokenPipeError):
            sys.exit(0)
        sys.exit(f"phased: cannot write to the standard output: {files.reason(error)}. Make room, or write it to another file.")


def silence() -> None:
    """Write the rest of the standard output to nowhere, so that Python does not fail again when it ends."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
