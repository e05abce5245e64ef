"""News of runs in other processes or on other machines: their logs are watched, and each epoch is reported once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from phased.experiments.run import Run
from phased.experiments.workers import Event, Watch
from phased.learn.store import LOG, Epoch


@contextmanager
def watching(runs: Sequence[Run], out: Path, report: Watch, interval: float = 0.5) -> Iterator[Watch]:
    """Inside, each new epoch in the logs of these runs is reported. What is yielded reports other events, in order with them.

    `report` is called by one thread at a time.
    """
    logs = [Log(run, run.folder(out) / LOG) for run in runs]
    for log in logs:
        log.news()
    over, turn = threading.Event(), threading.Lock()

    def look() -> None:
        for log in logs:
            for epoch in log.news():
                report(Event(log.run, "running", epoch))

    def watch() -> None:
        while not over.wait(interval):
            with turn:
                look()

    def report_in_order(event: Event) -> None:
        with turn:
            look()  # a run's last epoch comes before its end
            report(event)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield report_in_order
    finally:
        over.set()
        thread.join()


class Log:
    """The epochs of a run as its log has them, each reported once."""

    def __init__(self, run: Run, path: Path) -> None:
        self.run, self.path = run, path
        self.version, self.reported = (0, 0), 0

    def news(self) -> list[Epoch]:
        """The epochs since the last call; a log that has not changed is not read."""
        try:
            status = self.path.stat()
            version = status.st_mtime_ns, status.st_size  # two epochs may end within one tick of the file system's clock
            if version == self.version:
                return []
            lines = self.path.read_text().splitlines()
            fresh = [Epoch(**json.loads(line)) for line in lines[self.reported :]]
        except (OSError, ValueError, TypeError, RecursionError):  # not there yet, or no log; the run writes it anew
            return []
        self.version, self.reported = version, len(lines)
        return fresh
