"""Ending worker processes soon after their parent process, even if the parent was killed and could not stop them."""

from __future__ import annotations

import os
import sys
import threading
import time

INTERVAL = 1.0  # seconds between two checks


def end_with(parent: int) -> None:
    """Start a thread that ends this process when the parent process has ended. Checkpoints stay intact."""
    threading.Thread(target=_watch, args=(parent,), name="watch the parent", daemon=True).start()


def _watch(parent: int) -> None:
    wait_for_end(parent)
    os._exit(1)


if sys.platform == "win32":
    import ctypes

    SYNCHRONIZE, FOREVER = 0x00100000, 0xFFFFFFFF

    def wait_for_end(parent: int) -> None:
        """Return when the parent has ended. On Windows the parent's id does not change then, so a handle is needed."""
        handle = ctypes.windll.kernel32.OpenProcess(SYNCHRONIZE, False, parent)
        if handle:
            ctypes.windll.kernel32.WaitForSingleObject(handle, FOREVER)

else:

    def wait_for_end(parent: int) -> None:
        """Return when the parent has ended: the system then changes the parent's id."""
        while os.getppid() == parent:
            time.sleep(INTERVAL)
