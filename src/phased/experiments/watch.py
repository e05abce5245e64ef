"""News of runs in other processes or on other machines: their logs are watched, and each epoch is reported once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from phased.experiments.run import Run
from phased.learn.store import LOG, Epoch

State = Literal["skipped", "busy", "running", "done", "failed"]


class Event(NamedTuple):
    """News of a run: an epoch is over ("running"), another sweep does it ("busy"), or its end; `message` says why it failed."""

    run: Run
    state: State
    epoch: Epoch | None = None
    message: str = ""


Watch = Callable[[Event], None]


def one_by_one(watch: Watch) -> Watch:
    """The same, called by one thread at a time."""
    turn = threading.Lock()

    def tell(event: Event) -> None:
        with turn:
            watch(event)

    return tell


@contextmanager
def watching(runs: Sequence[Run], out: Path, tell: Watch, interval: float = 0.5) -> Iterator[Callable[[], None]]:
    """Inside, each new epoch of these runs is told, as their logs have it: whichever process, or machine, they run in."""
    logs = [Log(run, run.folder(out) / LOG) for run in runs]
    for log in logs:
        log.news()
    over = threading.Event()

    looking = threading.Lock()

    def look() -> None:
        with looking:
            for log in logs:
                for epoch in log.news():
                    tell(Event(log.run, "running", epoch))

    def watch() -> None:
        while not over.wait(interval):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield look
    finally:
        over.set()
        thread.join()


class Log:
    """The epochs of a run as its log has them, each told once."""

    def __init__(self, run: Run, path: Path) -> None:
        self.run, self.path = run, path
        self.version, self.told = (0, 0), 0

    def news(self) -> list[Epoch]:
        """The epochs since the last call; a log that has not changed is not read."""
        try:
            status = self.path.stat()
            version = status.st_mtime_ns, status.st_size  # two epochs may end within one tick of the file system's clock
            if version == self.version:
                return []
            lines = self.path.read_text().splitlines()
            fresh = [Epoch(**json.loads(line)) for line in lines[self.told :]]
        except (OSError, ValueError, TypeError, RecursionError):  # not there yet, or no log; the run writes it anew
            return []
        self.version, self.told = version, len(lines)
        return fresh
