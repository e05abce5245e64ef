"""Ctrl-C while the command `phased` imports torch, which takes seconds: it ends without a traceback."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

STOPPED = 130  # as a shell reports Ctrl-C


def leave(*_: Any) -> None:
    """End the process at once: nothing has been done yet."""
    os._exit(STOPPED)


def imported() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# `phased`, or `python -m phased`, perhaps after options of Python.
called = {Path(each).stem for each in sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 2]}
if "phased" in called and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, leave)
