"""Progress of runs in other processes or on other machines: their logs are polled, and each epoch is reported once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from phased.learn.store import LOG, Epoch
from phased_lab.runs.run import Run
from phased_lab.runs.workers import Event, Watch


@contextmanager
def watching(runs: Sequence[Run], out: Path, report: Watch, interval: float = 0.5) -> Iterator[Watch]:
    """Report each new epoch in the logs of these runs. The function it yields reports other events, in order with the epochs.

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
            look()  # a run's last epoch is reported before its end
            report(event)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield report_in_order
    finally:
        over.set()
        thread.join()


class Log:
    """The epochs in a run's log, each returned once."""

    def __init__(self, run: Run, path: Path) -> None:
        self.run, self.path = run, path
        self.version, self.reported = (0, 0), 0

    def news(self) -> list[Epoch]:
        """The epochs since the last call; an unchanged log is not read."""
        try:
            status = self.path.stat()
            version = status.st_mtime_ns, status.st_size  # the size too: two epochs may have the same modification time
            if version == self.version:
                return []
            lines = self.path.read_text().splitlines()
            fresh = [Epoch(**json.loads(line)) for line in lines[self.reported :]]
        except (OSError, ValueError, TypeError, RecursionError):  # no log yet, or not a valid one; the run will write it again
            return []
        self.version, self.reported = version, len(lines)
        return fresh
