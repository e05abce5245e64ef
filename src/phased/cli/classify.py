"""`phased classify`: classifies recordings of an event camera, and prints class, confidence, speed and updates."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.live import Live
from rich.text import Text

from phased.classifier import Answer, Classifier, Moment, crop
from phased.cli.answers import files_in, save_picture, skipping
from phased.data import BadRecording, Recording, read
from phased.data.read import READERS
from phased.files import printable

NATIVE = ".bin"  # N-MNIST's files: their times count from the beginning of the camera's movement
WARM_UP = 8192  # events, one microsecond apart
EVERY = 10.0  # ms between two states of the live line and two points of the picture
MOMENTS = 1000  # the most of them: in longer recordings, or with a gap of hours, they are further apart


@dataclass
class Total:
    """Sums over all recordings that were classified."""

    recordings: int = 0
    events: int = 0
    updates: int = 0
    possible: int = 0
    seconds: float = 0.0
    named: int = 0  # those whose folder is one of the classes
    correct: int = 0
    skipped: int = 0

    def add(self, file: Path, answer: Answer, classes: Sequence[str]) -> None:
        """Count one recording."""
        self.recordings += 1
        self.events += answer.events
        self.updates += answer.updates
        self.possible += answer.possible
        self.seconds += answer.seconds
        self.named += file.parent.name in classes
        self.correct += file.parent.name == answer.label

    def __str__(self) -> str:
        speed = f"{counted(self.events, 'event')} in {self.seconds:.3g} s, {per_second(self.events, self.seconds)}"
        made = f"{share(self.updates, self.possible)} of the updates of a dense network"
        parts = [f"{counted(self.recordings, 'recording')}: {speed}, {made}"]
        if self.named:
            parts.append(f"{self.correct:,} of {self.named:,} in the folder of their class: {self.correct / self.named:.1%}")
        if self.skipped:
            parts.append(f"{self.skipped:,} skipped")
        return ". ".join(parts) + "."


@dataclass(frozen=True)
class Options:
    """What to print, and how to read the recordings."""

    json: bool = False
    skip_bad: bool = False
    sensor: tuple[int, int] | None = None  # of files that do not contain it
    corner: tuple[int, int] | None = None  # of the window to classify
    replay: bool = False


def classify(console: Console, errors: Console, classifier: Classifier, paths: Sequence[Path], options: Options) -> Total:
    """Classify every recording, on one core, and print an answer for each as soon as it is known."""
    total = Total()
    skip_bad = partial(skipping, errors, total, options.skip_bad)
    with one_core():
        warm_up(classifier)
        for path in paths:
            found: list[Path] = []
            with skip_bad():
                found = files_in(path, READERS, "event files")
            for file in found:
                with skip_bad():
                    answer = answer_for(console, classifier, file, options)
                    total.add(file, answer, classifier.classes)
                    if options.json:
                        print(json.dumps(as_json(file, answer)), flush=True)
                    else:
                        console.print(line(file, answer), soft_wrap=True, markup=False, highlight=False)
    return total


def warm_up(classifier: Classifier) -> None:
    """Classify made-up events at many pixels: the first call in a process allocates memory, and reads the weights into caches."""
    width, height = classifier.sensor
    event = np.arange(WARM_UP)
    y, x = np.divmod(event // 2 % (width * height), width)
    classifier.session().run(Recording(x, y, event % 2 == 1, event, classifier.sensor))


def load(file: Path, classifier: Classifier, options: Options) -> Recording:
    """The recording in a file as the classifier takes it: times from its beginning, and the window that was chosen.

    A camera's own clock starts anywhere: then times count from the first event. Times that all lie within the length that the
    model was tested on stay as they are, so that a recording of N-MNIST gives the same answer in any kind of file.
    """
    recording = read(file, options.sensor)
    if file.suffix.lower() != NATIVE and recording.time[-1] > 1000 * (classifier.config.about.longest or 0.0):
        recording = recording.from_start()
    if options.corner is not None:
        recording = crop(recording, *options.corner, classifier.sensor)
        if not len(recording):
            raise ValueError("there is no event in the window. Choose another corner with --crop.")
    return recording


def answer_for(console: Console, classifier: Classifier, file: Path, options: Options) -> Answer:
    """The answer for one file, with a live line on a terminal; errors name the file."""
    try:
        recording = load(file, classifier, options)
        if options.json or not (console.is_terminal or options.replay):
            return classifier.classify(recording)
        return watched(console, classifier, recording, file, options.replay)
    except BadRecording:  # it names the file
        raise
    except ValueError as error:
        raise ValueError(printable(f"'{file}': {error}")) from error


def watched(console: Console, classifier: Classifier, recording: Recording, file: Path, replay: bool) -> Answer:
    """The answer, with a line that shows class and confidence as events arrive; `replay` keeps the recording's own pace."""
    begin = time.perf_counter()
    with Live(console=console, transient=True, auto_refresh=False) as live:
        for moment in classifier.follow(recording, EVERY if replay else between_moments(recording)):
            if replay:
                time.sleep(max(0.0, begin + moment.time / 1000 - time.perf_counter()))
            live.update(live_line(file, classifier.classes, moment), refresh=True)
    return classifier.classify(recording)  # again, without the line, so that the time is that of the events alone


def between_moments(recording: Recording) -> float:
    """Milliseconds between two moments at which class and confidence are shown."""
    return max(EVERY, int(recording.time[-1] - recording.time[0]) / 1000 / MOMENTS)


def live_line(file: Path, classes: Sequence[str], moment: Moment) -> Text:
    """Class and confidence at a moment, with a bar."""
    best = int(moment.probabilities.argmax())
    confidence = float(moment.probabilities[best])
    when, bar = f"{printable(file.name)}  {moment.time:6.0f} ms  ", "━" * round(30 * confidence)
    return Text.assemble(when, (printable(classes[best]), "bold"), f"  {confidence:6.1%}  ", (bar, "green"))


def picture(classifier: Classifier, file: Path, options: Options, out: Path) -> None:
    """Draw the events of a recording and the confidence over time; the suffix of `out` selects the format."""
    from phased.pictures.confidence import draw_confidence

    recording = load(file, classifier, options)
    moments = list(classifier.follow(recording, between_moments(recording)))
    answer = classifier.classify(recording)
    save_picture(lambda: draw_confidence(recording, moments, classifier.classes, answer, file.name), out)


def line(file: Path, answer: Answer) -> str:
    """One line for a recording."""
    speed = per_second(answer.events, answer.seconds)
    made = f"{counted(answer.updates, 'update')} ({share(answer.updates, answer.possible)})"
    named, events = f"{file}  {answer.label}", counted(answer.events, "event")
    return f"{printable(named)}  {answer.confidence:.1%}  {events}  {speed}  {made}"


def as_json(file: Path, answer: Answer) -> dict[str, Any]:
    """The fields of a line of JSON; a class whose name is a number is one."""
    label = int(answer.label) if answer.label.isdecimal() else answer.label
    made = {"events": answer.events, "updates": answer.updates, "seconds": answer.seconds}
    return {"file": str(file), "class": label, "confidence": answer.confidence, **made}


def counted(number: int, thing: str) -> str:
    """A number of things."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def per_second(events: int, seconds: float) -> str:
    """Events a second."""
    rate = events / seconds if seconds else 0.0
    return f"{rate / 1e6:.2f} M events/s" if rate >= 1e5 else f"{rate:,.0f} events/s"


def share(part: int, whole: int) -> str:
    """A share in percent."""
    return f"{part / whole:.1%}" if whole else "-"


@contextmanager
def one_core() -> Iterator[None]:
    """Restrict torch to one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
