"""A worker process ends soon after the process that started it, even if that one was killed and could not stop its workers."""

from __future__ import annotations

import os
import sys
import threading
import time

INTERVAL = 1.0  # seconds between two looks


def end_with(parent: int) -> None:
    """Watch the parent process from a thread, and end this process when the parent is gone. A checkpoint loses nothing by it."""
    threading.Thread(target=_watch, args=(parent,), name="watch the parent", daemon=True).start()


def _watch(parent: int) -> None:
    wait_for_end(parent)
    os._exit(1)


if sys.platform == "win32":
    import ctypes

    SYNCHRONIZE, FOREVER = 0x00100000, 0xFFFFFFFF

    def wait_for_end(parent: int) -> None:
        """Return when the parent is gone. Here a process keeps its parent's number when that is gone, so it takes a handle."""
        handle = ctypes.windll.kernel32.OpenProcess(SYNCHRONIZE, False, parent)
        if handle:
            ctypes.windll.kernel32.WaitForSingleObject(handle, FOREVER)

else:

    def wait_for_end(parent: int) -> None:
        """Return when the parent is gone: the system then gives its children another parent."""
        while os.getppid() == parent:
            time.sleep(INTERVAL)
