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


program = next((each for each in sys.orig_argv[1:] if not each.startswith("-")), "")  # `phased`, or of `python -m phased`
if Path(program).stem == "phased" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, leave)
