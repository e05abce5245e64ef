"""`phased classify`: classifies recordings of an event camera, and prints class, confidence, speed and updates."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.live import Live
from rich.text import Text

from phased.classifier import Answer, Classifier, Moment, crop
from phased.cli.answers import Answers, counted
from phased.data import BadRecording, Recording, read
from phased.data.read import READERS
from phased.files import printable
from phased.machine import using_threads

NATIVE = ".bin"  # N-MNIST's files: their times count from the beginning of the camera's movement
WARM_UP = 8192  # events, one microsecond apart
EVERY = 10.0  # ms between two states of the live line and two points of the picture
MOMENTS = 1000  # the most of them: in longer recordings, or with a gap of hours, they are further apart


@dataclass
class Recordings(Answers):
    """Classifies recordings. The truth is the folder of a recording, if it has the name of a class.

    Args:
        sensor: the size of the camera, for files without a size.
        corner: of the window to classify.
        replay: take the events at the pace at which they were recorded.
    """

    sensor: tuple[int, int] | None = None
    corner: tuple[int, int] | None = None
    replay: bool = False
    answers: list[Answer] = field(default_factory=list, init=False)

    model: Classifier
    suffixes = READERS
    one, many = "recording", "event files"

    def __str__(self) -> str:
        events, updates, possible, seconds = (
            sum(getattr(answer, name) for answer in self.answers) for name in ("events", "updates", "possible", "seconds")
        )
        speed = f"{counted(events, 'event')} in {seconds:.3g} s, {per_second(events, seconds)}"
        made = f"{share(updates, possible)} of the updates of a dense network"
        parts = [f"{counted(self.answered, 'recording')}: {speed}, {made}"]
        if self.known:
            parts.append(f"{self.right:,} of {self.known:,} in the folder of their class: {self.right / self.known:.1%}")
        if self.skipped:
            parts.append(f"{self.skipped:,} skipped")
        return ". ".join(parts) + "."

    def all(self, paths: Sequence[Path]) -> None:
        """Classify every recording, on one core."""
        with using_threads(1):
            warm_up(self.model)
            super().all(paths)

    def answer(self, file: Path) -> tuple[dict[str, Any], str]:
        """Classify the recording in a file, with a live line on a terminal. Errors name the file."""
        try:
            recording = self.read(file)
            live = not self.json and (self.console.is_terminal or self.replay)
            answer = self.watched(recording, file) if live else self.model.classify(recording)
        except BadRecording:  # it names the file
            raise
        except ValueError as error:
            raise ValueError(printable(f"'{file}': {error}")) from error
        self.answers.append(answer)
        self.compare([answer.label], [file.parent.name] if file.parent.name in self.model.classes else None)
        return as_json(file, answer), line(file, answer)

    def read(self, file: Path) -> Recording:
        """Read the recording in a file, with times from its beginning, and take the chosen window.

        A camera's own clock starts anywhere: then times count from the first event. Times that all lie within the length that the
        model was tested on stay as they are, so that a recording of N-MNIST gives the same answer in any kind of file.
        """
        recording = read(file, self.sensor)
        if file.suffix.lower() != NATIVE and recording.time[-1] > 1000 * (self.model.config.about.longest or 0.0):
            recording = recording.from_start()
        if self.corner is not None:
            recording = crop(recording, *self.corner, self.model.sensor)
            if not len(recording):
                raise ValueError("there is no event in the window. Choose another corner with --crop.")
        return recording

    def watched(self, recording: Recording, file: Path) -> Answer:
        """The answer, with a line that shows class and confidence as events arrive."""
        begin = time.perf_counter()
        with Live(console=self.console, transient=True, auto_refresh=False) as live:
            for moment in self.model.follow(recording, EVERY if self.replay else between_moments(recording)):
                if self.replay:
                    time.sleep(max(0.0, begin + moment.time / 1000 - time.perf_counter()))
                live.update(live_line(file, self.model.classes, moment), refresh=True)
        return self.model.classify(recording)  # again without the line, which takes time

    def draw(self, file: Path) -> Any:
        """Draw the events of a recording and the confidence over time."""
        from phased.pictures.confidence import draw_confidence

        recording = self.read(file)
        moments = list(self.model.follow(recording, between_moments(recording)))
        return draw_confidence(recording, moments, self.model.classes, self.model.classify(recording), file.name)


def warm_up(classifier: Classifier) -> None:
    """Classify made-up events at many pixels: the first call in a process allocates memory, and reads the weights into caches."""
    width, height = classifier.sensor
    event = np.arange(WARM_UP)
    y, x = np.divmod(event // 2 % (width * height), width)
    classifier.session().run(Recording(x, y, event % 2 == 1, event, classifier.sensor))


def between_moments(recording: Recording) -> float:
    """Milliseconds between two moments at which class and confidence are shown."""
    return max(EVERY, int(recording.time[-1] - recording.time[0]) / 1000 / MOMENTS)


def live_line(file: Path, classes: Sequence[str], moment: Moment) -> Text:
    """Class and confidence at a moment, with a bar."""
    best = int(moment.probabilities.argmax())
    confidence = float(moment.probabilities[best])
    when, bar = f"{printable(file.name)}  {moment.time:6.0f} ms  ", "━" * round(30 * confidence)
    return Text.assemble(when, (printable(classes[best]), "bold"), f"  {confidence:6.1%}  ", (bar, "green"))


def line(file: Path, answer: Answer) -> str:
    """One line for a recording."""
    speed = per_second(answer.events, answer.seconds)
    made = f"{counted(answer.updates, 'update')} ({share(answer.updates, answer.possible)})"
    named, events = f"{file}  {answer.label}", counted(answer.events, "event")
    return f"{printable(named)}  {answer.confidence:.1%}  {events}  {speed}  {made}"


def as_json(file: Path, answer: Answer) -> dict[str, Any]:
    """Return the fields of a line of JSON. The name of a class becomes a number if it is one."""
    label = int(answer.label) if answer.label.isdecimal() else answer.label
    made = {"events": answer.events, "updates": answer.updates, "seconds": answer.seconds}
    return {"file": str(file), "class": label, "confidence": answer.confidence, **made}


def per_second(events: int, seconds: float) -> str:
    """Events a second."""
    rate = events / seconds if seconds else 0.0
    return f"{rate / 1e6:.2f} M events/s" if rate >= 1e5 else f"{rate:,.0f} events/s"


def share(part: int, whole: int) -> str:
    """A share in percent."""
    return f"{part / whole:.1%}" if whole else "-"
