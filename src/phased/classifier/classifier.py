"""Classifier: a trained network that classifies recordings of an event camera, event by event."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch

import phased
from phased.classifier.folder import KIND, SHIPPED
from phased.classifier.network import About, Config, EventEmbedding, sizes_of
from phased.classifier.session import Camera, Moment, Probabilities, Session
from phased.cost import updates
from phased.data.recording import MICROSECONDS, Recording, Sensor, warn_of_unit
from phased.layer import PhasedRNN
from phased.learn.model import Readout
from phased.model_folder import check_parameters, restored
from phased.parameters import tensors
from phased.stream import Stream


class Answer(NamedTuple):
    """What a classifier says of a recording.

    Args:
        label: the name of the class with the highest probability.
        confidence: that probability, after the last event.
        probabilities: of all classes, (classes,).
        events: the number of events.
        updates: the number of updates of units, in all layers.
        possible: the number of updates if every unit were open at every event.
        seconds: the time spent on the events, without reading the file and counting the updates.
    """

    label: str
    confidence: float
    probabilities: Probabilities
    events: int
    updates: int
    possible: int
    seconds: float


class Classifier:
    """A trained network that classifies recordings of an event camera, event by event.

    Make one with `Classifier.load`, or from a trained network with `Classifier.of`. It computes what the network computes in
    eval, exactly. The embedding of the events is folded into the input weights, so an event costs open units only.

    Example:
        >>> import numpy as np
        >>> from phased.classifier import Classifier
        >>> from phased.data import Recording
        >>> classifier = Classifier.load()  # the model for N-MNIST that comes with the package
        >>> random = np.random.default_rng(0)
        >>> x, y, polarity = random.integers(34, size=1000), random.integers(34, size=1000), random.random(1000) < 0.5
        >>> noise = Recording(x, y, polarity, np.sort(random.integers(300_000, size=1000)))
        >>> answer = classifier.classify(noise)
        >>> answer.events, answer.possible, answer.label in classifier.classes
        (1000, 110000, True)
    """

    def __init__(self, config: Config, model: Readout) -> None:
        encoder, rnn = model.encoder, model.rnn
        assert isinstance(encoder, EventEmbedding)
        assert isinstance(rnn, PhasedRNN)
        self.config = config
        self._model = model
        last = [layer for layer in (model.hidden, model.linear) if layer is not None]
        layers = [(layer.weight.numpy(), layer.bias.numpy()) for layer in last]
        stream = Stream(rnn, table=encoder.table())
        self._camera = Camera(stream, layers, model.mean, config.sizes.sensor, config.about.longest)

    @classmethod
    def load(cls, folder: Path | str | None = None) -> Self:
        """Read a classifier from its folder. No code in the files is executed.

        Args:
            folder: The folder that `save` or `phased pack` wrote. Default: the model for N-MNIST that comes with the package.

        Returns:
            The classifier.

        Raises:
            phased.classifier.BadModel: A file is missing, damaged or of another version, or does not fit the others.

        Example:
            >>> from phased.classifier import Classifier
            >>> Classifier.load().sensor
            Sensor(width=34, height=34)
        """
        return cls(*KIND.read(SHIPPED if folder is None else folder, Config.build))

    @classmethod
    def of(cls, model: Readout, classes: Sequence[str] | None = None, about: About | None = None) -> Self:
        """Make a classifier of a trained network; its parameters are copied, weights as float32.

        Args:
            model: A Readout with an `EventEmbedding` and a PhasedLSTM or PhasedGRU. Times are milliseconds.
            classes: Names of the classes. Default: "0", "1" and so on.
            about: How it was trained and tested, for the model card.

        Returns:
            The classifier.

        Raises:
            TypeError: The model is of another kind.
            ValueError: The model does not classify whole sequences, or classes are not as many as it has outputs.

        Example:
            >>> from phased import PhasedLSTM
            >>> from phased.classifier import Classifier, EventEmbedding
            >>> from phased.learn import Readout
            >>> encoder = EventEmbedding()
            >>> rnn = PhasedLSTM(encoder.features, 16, period=100.0)
            >>> Classifier.of(Readout(rnn, 2, encoder=encoder), classes=["left", "right"]).classes
            ('left', 'right')
        """
        sizes, outputs = sizes_of(model), model.classes or 0
        check_parameters(dict(tensors(model)))
        names = tuple(map(str, range(outputs) if classes is None else classes))
        if len(set(names)) != outputs:
            raise ValueError(f"classes must be {outputs} different names, one for each output, got {list(names)}.")
        given = about or About()
        versions = {"phased": phased.__version__, "torch": torch.__version__, "python": platform.python_version()}
        config = Config(sizes, names, about=replace(given, versions=dict(given.versions) or versions))
        return cls(config, restored(config.build, dict(tensors(model))))

    def save(self, folder: Path | str) -> None:
        """Write the classifier as a folder: parameters (safetensors), configuration (JSON) and a model card.

        Args:
            folder: The folder; created if needed. Files of an older model in it are replaced.

        Raises:
            OSError: The folder cannot be written to.

        Example:
            >>> from tempfile import mkdtemp
            >>> from phased.classifier import Classifier
            >>> folder = mkdtemp()
            >>> Classifier.load().save(folder)
            >>> Classifier.load(folder).classes[:3]
            ('0', '1', '2')
        """
        KIND.write(folder, self.config, self._model)

    def described(self, about: About) -> Self:
        """The same classifier with another account of how it was trained and tested."""
        return type(self)(replace(self.config, about=about), self._model)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.config.classes

    @property
    def sensor(self) -> Sensor:
        """The size of the camera."""
        return self.config.sizes.sensor

    def session(self) -> Session:
        """Begin a new stream of events, for example of a live camera.

        Returns:
            The session, with a state of zeros.

        Example:
            >>> from phased.classifier import Classifier
            >>> session = Classifier.load().session()
            >>> probabilities = session.push(16, 7, 1, 2_000)
        """
        return Session(self._camera)

    def classify(self, recording: Recording) -> Answer:
        """Classify a recording.

        Args:
            recording: Its events; times count from its beginning.

        Returns:
            The class with its confidence, and what it cost.

        Raises:
            ValueError: The recording has no events, or is of another sensor.

        Warns:
            UserWarning: The recording is longer than those that the model was tested on, or its times are hardly microseconds.

        Example:
            >>> import numpy as np
            >>> from phased.classifier import Classifier
            >>> from phased.data import Recording
            >>> events = Recording(np.array([16, 17]), np.array([7, 7]), np.array([True, True]), np.array([2_000, 12_450]))
            >>> Classifier.load().classify(events).events
            2
        """
        self._check(recording)
        session = self.session()
        begin = time.perf_counter()
        probabilities = session.run(recording)
        seconds = time.perf_counter() - begin
        best, events, sizes = int(probabilities.argmax()), len(recording), self.config.sizes
        possible = events * sizes.units * sizes.layers
        made = self.updates(recording)
        return Answer(self.classes[best], float(probabilities[best]), probabilities, events, made, possible, seconds)

    def follow(self, recording: Recording, every: float = 10.0) -> Iterator[Moment]:
        """Classify a recording and give the probabilities of all classes over time; see `Session.follow`.

        Args:
            recording: Its events; times count from its beginning.
            every: Milliseconds between two moments. The last moment is that of the last event.

        Returns:
            An iterator of moments: a time in ms, and the probabilities of shape (classes,).

        Raises:
            ValueError: The recording has no events, or is of another sensor, or every is not positive.

        Example:
            >>> import numpy as np
            >>> from phased.classifier import Classifier
            >>> from phased.data import Recording
            >>> events = Recording(np.array([16, 17]), np.array([7, 7]), np.array([True, True]), np.array([2_000, 12_450]))
            >>> [moment.time for moment in Classifier.load().follow(events)]
            [10.0, 12.45]
        """
        self._check(recording)
        return self.session().follow(recording, every)

    def updates(self, recording: Recording) -> int:
        """The number of updates of units that a recording takes, in all layers; its times alone decide it."""
        rnn: Any = self._model.rnn
        return int(updates(rnn, torch.from_numpy(recording.time / MICROSECONDS)).sum())

    def _check(self, recording: Recording) -> None:
        if not len(recording):
            raise ValueError("the recording must have at least one event, got none. There is nothing to classify.")
        warn_of_unit(recording.time)
