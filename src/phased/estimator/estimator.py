"""What the two estimators share: parameters, fit, the checks of its arguments, predictions, folder and online sequences."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from phased import check, files
from phased.estimator import checks, choosing, gates, training
from phased.estimator.batches import EventTask, Indices, Sequences, batch_size, in_batches, joined, split
from phased.estimator.checks import Columns
from phased.estimator.choosing import Candidate, Trained
from phased.estimator.convolutions import convolve
from phased.estimator.events import Events
from phased.estimator.folder import SavedMixin, plain
from phased.estimator.gates import Opening
from phased.estimator.inputs import Inputs, Measured
from phased.estimator.network import CELLS, Network, Part
from phased.estimator.online import Online
from phased.estimator.online_model import OnlineModel
from phased.estimator.report import Report
from phased.estimator.scaling import Scaling
from phased.estimator.targets import Number, Target, Targets, check_copies
from phased.fields import encode
from phased.layer import PhasedRNN
from phased.learn.average import Best, Last
from phased.learn.device import agreed, check_device, one_device, together
from phased.learn.loop import Training
from phased.model_folder import MOST, check_finite

CLIP = 1.0
"""Largest norm of the gradients."""
LARGEST_RATE = 1e6
"""Largest learning rate and weight decay."""
AVERAGE = 0.99
"""Decay of the moving average of the weights, which is tested and kept."""
LEAST_EPOCHS = 5
"""Epochs before this one are forgotten: a network that has hardly been trained may do well by chance."""


class Fitted:
    """What `fit` leaves in an estimator."""

    columns_: Columns
    scaling_: Scaling
    network_: Network
    report_: Report
    table_: Events
    longest_: float
    fitted_with_: dict[str, Any]
    _shared: OnlineModel | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class PhasedEstimator(Fitted, SavedMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """The part of `PhasedClassifier` and `PhasedRegressor` that does not depend on the kind of target.

    docs/estimator.md says how the defaults were chosen.
    """

    kind: ClassVar[str]
    _targets: ClassVar[type[Target]]
    class_weight = None  # a parameter of the classifier alone

    units: int = 64
    updates: float | None = None
    cell: str = "phased_gru"
    convolutions: bool | np.bool_ = True
    learning_rate: float = 2e-3
    weight_decay: float = 1e-2
    dropout: float = 0.2
    batch_size: int | None = None
    epochs: int = 25
    patience: int = 8
    validation: float = 0.1
    refit: bool | np.bool_ = True
    device: str = "auto"
    random_state: Any = None
    checkpoint: Any = None
    verbose: bool = False

    def fit(self, X: Any, y: Any, validation: tuple[Any, Any] | None = None) -> Self:
        """Train on sequences.

        Args:
            X: Events, or a list of (times, values) with values of shape (T, V), NaN where not measured.
            y: One target for each sequence; or one for each step, as one array for each sequence or one aligned with `X.time`.
                NaN is a step without a target.
            validation: (X, y) of other sequences for early stopping. Default: the share `validation` of X, drawn at random;
                sequences with the same id stay together. With `refit` another network is then trained on all of X, for as
                many epochs as were best.

        Shape:
            - y: (n,), or (steps,).

        Returns:
            The estimator itself.

        Raises:
            TypeError: X is neither Events nor a list of (times, values).
            ValueError: A parameter is out of range; y does not fit X, has one class only, or is among the inputs; a sequence is
                both in training and in validation; or the checkpoint is of another training.

        Warns:
            UserWarning: Values look like marks for "not known", or units open at no step.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedRegressor
            >>> random = np.random.default_rng(0)
            >>> X = [(np.sort(random.uniform(0, 10, 20)), random.normal(size=(20, 1))) for _ in range(40)]
            >>> y = [values.mean() for _, values in X]
            >>> model = PhasedRegressor(units=8, epochs=2, random_state=0).fit(X, y)
            >>> model.predict(X).shape
            (40,)
        """
        self._check_parameters()
        before = dict(self.__dict__)
        try:
            return self._fit(X, y, validation)
        except BaseException:  # a fit that failed or was interrupted leaves the estimator as it was
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _fit(self, X: Any, y: Any, validation: tuple[Any, Any] | None) -> Self:
        self._shared = None
        self.fitted_with_ = self.get_params(deep=False)
        events = checks.as_events(X)
        parameters = {name: plain(value) for name, value in self.fitted_with_.items()}
        check_finite({**parameters, "table": encode(events.settings)})  # what could not be saved is not trained
        checks.check_range(events)
        found = Targets.of(events, y)
        check_copies(events, found)
        together(self.device)
        random = agreed(check_random_state(self.random_state))
        seed = int(random.randint(2**31 - 1))
        if validation is None:
            train, test = split(events, found, self.validation, random, self._targets.stratified)
            whole, both = events, found
        else:
            whole, both, train, test = joined(X, events, found, validation)
        target = self._targets.of(both)
        self.__dict__.update(target.fields())
        self.columns_ = Columns.of(events)
        self.table_ = events[:0]
        checks.warn_sentinels(events)
        self.scaling_ = Scaling.of(whole[train], both.counts is not None)
        self.longest_ = float(whole.spans()[train].max(initial=0.0))
        data = self._sequences(whole, Targets(target.encode(both), both.counts))
        gates.check_budget(data, train, int(self.units), self._budget())
        batch = int(batch_size(self.batch_size, len(train)))
        folder = None if self.checkpoint is None else files.named(self.checkpoint)
        tried = self._openings(data, train, test, batch, seed, folder)
        first, interrupted = choosing.chosen(tried), any(each.trained.course.interrupted for each in tried)
        parts, weight = [first], self.get_params().get("class_weight")
        if self.convolutions and weight is None and not interrupted:
            try:
                parts = choosing.parts(first, train, test, target, seed)
            except KeyboardInterrupt:  # the network is kept
                interrupted = True
        first = best = choosing.chosen(parts)
        everyone, again = np.concatenate([train, test]), bool(self.refit) and validation is None and not interrupted
        if again and first.trained.course.best and first.part != "convolutions":
            apart = None if folder is None else folder / training.ALL
            try:
                second = self._trained(
                    first.trained.task.data, everyone, test, batch, seed, apart, first.opening, first.trained.course.best
                )
                interrupted = second.course.interrupted
            except KeyboardInterrupt:  # before its first batch: the first network is kept
                interrupted = True
            # Keep the second network only if it is not worse on the held-out sequences, which it has seen: some tasks are
            # learned suddenly, and it may not have got there in as many epochs.
            if not interrupted and second.course.curve[-1].test <= first.trained.course.best_test:
                best = first._replace(trained=second)
        best.trained.network.answer_by(first.part)
        if first.part != "network":
            fitted = copy.deepcopy(first.trained.network)
            fitted.answer_by(first.part)
            try:
                learned_on = everyone if again and not interrupted else train
                convolve(best.trained.network, best.trained.task.data, learned_on, target, seed)
            except KeyboardInterrupt:  # the model that was fitted to the training sequences is kept
                best, interrupted = first._replace(trained=first.trained._replace(network=fitted)), True
        self.network_ = best.trained.network.requires_grad_(False)
        self.report_ = Report(
            len(train),
            len(test),
            events.unit,
            self.scaling_.gap,
            self.scaling_.span,
            () if best.part == "convolutions" else gates.periods(self.network_, self.scaling_.gap),
            0.0 if best.part == "convolutions" else best.trained.share,
            int((gates.count(self.network_, best.trained.task.data, best.trained.task.train) == 0).sum()),
            first.scores,
            first.trained.course.best,
            first.trained.course.curve,
            interrupted,
            best is not first,
            best.opening,
            best.part,
            {each.opening: {"updates": each.trained.share, **each.scores} for each in tried},
            {each.part: each.scores for each in parts},
        )
        if best.opening == "sparse":  # gates that begin open are closed by their cost, and only where they are of no use
            checks.warn_never_open(self.report_.never_open, self.units)
        return self

    def _openings(
        self, data: Sequences, train: Indices, test: Indices, batch: int, seed: int, folder: Path | None
    ) -> list[Candidate]:
        """Train a network with each opening of the gates that is tried, and test it on the held-out sequences."""
        tried: list[Candidate] = []
        for opening in gates.openings(self.cell, self.scaling_.span_in_gaps, self._budget()):
            own = folder if folder is None or not tried else folder / opening
            try:
                trained = self._trained(data, train, test, batch, seed, own, opening)
            except KeyboardInterrupt:  # before its first batch: the network before it is kept
                if not tried:
                    raise
                course = replace(tried[-1].trained.course, interrupted=True)
                tried[-1] = tried[-1]._replace(trained=tried[-1].trained._replace(course=course))
                break
            data = trained.task.data  # with summaries
            tried.append(Candidate.of(opening, "network", trained, data, test, self._target))
            if trained.course.interrupted:
                break
        return tried

    def _trained(
        self,
        data: Sequences,
        train: Indices,
        test: Indices,
        batch: int,
        seed: int,
        checkpoint: Path | None,
        opening: Opening,
        epochs: int | None = None,
    ) -> Trained:
        """Train a network; with a number of epochs, for so many, without early stopping."""
        network, data = self._begin(seed, data, train, opening)
        task, rate, budget = EventTask(data, train, test, batch), float(self.learning_rate), self._budget()
        objective = self._target.objective(data.targets(train)[0], self.class_weight)
        settings = Training(
            int(self.epochs),
            len(train),
            len(test),
            batch,
            rate,
            CLIP,
            openness_cost=gates.PRICE if opening == "open" else 0.0,
            seed=seed,
            average=AVERAGE,
        )
        optimiser = training.Optimiser(rate, float(self.weight_decay), budget=budget)
        best = Best(int(self.patience), LEAST_EPOCHS) if epochs is None else Last(epochs)
        where = self.device, checkpoint, bool(self.verbose)
        course = training.train(network, task, objective, optimiser, settings, best, *where)
        return Trained(network, task, course, gates.keep_budget(network, data, train, budget))

    def _begin(self, seed: int, data: Sequences, train: Indices, opening: Opening) -> tuple[Network, Sequences]:
        """The network before its training, with what it measures on these sequences; and the data as it reads them."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = self._network(data.counts is not None, opening)
            data = replace(data, step_first=not isinstance(network.rnn, PhasedRNN))
            if data.counts is None and data.summary is None:
                data = data.summarised(network.summaries)
            gates.open_all(network, data, train)
            rows = len(train) if data.counts is None else int(data.lengths[train].sum())
            network.measure((data.batch(some) for some in in_batches(data, train)), rows)
            followed = choosing.followed(data, train, self.scaling_, self._target) if isinstance(self._target, Number) else None
            if followed is not None:
                network.follow(*followed)
        return network, data

    def _budget(self) -> float | None:
        """The share of updates that is allowed, if there is a bound."""
        return None if self.updates is None else float(self.updates)

    def _sequences(self, events: Events, encoded: Targets) -> Sequences:
        """Scaled values, from which batches are made, and encoded targets as tensors."""
        measured = Measured.of(events, self.scaling_)
        checks.check_reach(events, measured.time, self.scaling_)
        y, counts = torch.from_numpy(encoded.y), encoded.counts
        return Sequences(
            Inputs(self.scaling_.numbers, self.scaling_.span_in_gaps),
            measured,
            torch.from_numpy(self.scaling_.static_inputs(events.static)),
            y.float() if y.is_floating_point() else y,
            None if counts is None else torch.from_numpy(counts),
        )

    def _network(self, every_step: bool, opening: Opening, part: Part = "network") -> Network:
        """The network with its initial weights."""
        phased = self.cell.startswith("phased")
        return Network(
            self.scaling_.numbers,
            self.scaling_.static_features,
            int(self.units),
            self._target.outputs,
            every_step,
            part,
            self.cell,
            float(self.dropout),
            **(gates.settings(self.scaling_.span_in_gaps, self._budget(), opening) if phased else {}),
        )

    def _events(self, X: Any) -> Events:
        """Sequences with the model's variables, in its order, and without the numbers that mean "not known" to it."""
        check_is_fitted(self, "network_")
        events = checks.unmarked(checks.matched(checks.as_events(X, self.columns_), self.columns_), self.table_.settings)
        checks.check_range(events)
        return events

    def _answer(self, X: Any) -> NDArray[np.float64]:
        """Probabilities or numbers for sequences, (n, ...), or for steps, (steps, ...)."""
        events, network = self._events(X), self.network_
        checks.warn_spans(events, self.scaling_.span, self.longest_)
        steps = len(events.time)
        nothing = Targets(np.zeros(steps), np.zeros(steps, bool)) if network.every_step else Targets(np.zeros(len(events)), None)
        device = one_device(self.device).device
        data = replace(self._sequences(events, nothing), shares=network.shares)
        if device.type != "cpu":
            network = copy.deepcopy(network).to(device)  # the model stays where it is, also after an error
        found = training.answers(network, data, np.arange(len(events)))
        checks.check_answers(events, found, network.every_step)
        return self._target.answer(found)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class, or the number.

        Args:
            X: Events with the variables and the unit of the training, or a list of (times, values).

        Shape:
            - returned: (n,); with one target per step (steps,), aligned with `X.time`.

        Returns:
            The classes or numbers.

        Raises:
            ValueError: X has unknown variables or another unit.
            sklearn.exceptions.NotFittedError: `fit` was not called.

        Warns:
            UserWarning: Sequences are much longer than those of the training.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedClassifier
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in [0, 1] * 10]
            >>> model = PhasedClassifier(units=4, epochs=2, random_state=0).fit(X, [0, 1] * 10)
            >>> model.predict(X).shape
            (20,)
        """
        answer = self._answer(X)
        return self._target.chosen(answer)

    def evaluate(self, X: Any, y: Any) -> dict[str, float]:
        """Scores on other sequences: AUROC, AUPRC, accuracy and log loss of classes; R2, RMSE and MAE of numbers.

        Args:
            X: Events or a list of (times, values).
            y: Their targets, as `fit` takes them.

        Returns:
            Scores by name. AUROC and AUPRC are left out where y lacks a class.

        Raises:
            ValueError: y does not fit X, or has classes that are not in `classes_`.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedRegressor
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in range(20)]
            >>> model = PhasedRegressor(units=4, epochs=2, random_state=0).fit(X, range(20))
            >>> sorted(model.evaluate(X, range(20)))
            ['mae', 'r2', 'rmse']
        """
        events = self._events(X)
        found = Targets.of(events, y)
        if (found.counts is not None) != self.network_.every_step:
            wanted, got = ("step", "sequence") if self.network_.every_step else ("sequence", "step")
            raise ValueError(f"targets must be given for each {wanted}, as in the training, got one for each {got}.")
        encoded = self._target.encode(found)
        return self._target.scores(encoded[found.which], self._answer(events)[found.which])

    def online(self, static: Mapping[str, Any] | None = None, state: bytes | None = None) -> Online:
        """Begin a sequence that is fed event by event, or continue one.

        Args:
            static: Static variables to numbers; those that are left out are unknown.
            state: What `Online.dump` returned, to continue that sequence; it has its static variables.

        Returns:
            The sequence. After each event it gives what the model gives for the events so far.

        Raises:
            sklearn.exceptions.NotFittedError: `fit` was not called.
            ValueError: A static variable is unknown, or the state is of another model.
            TypeError: A static variable is no number.

        Example:
            >>> import numpy as np
            >>> from phased.estimator import PhasedClassifier
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in [0, 1] * 10]
            >>> model = PhasedClassifier(units=4, epochs=1, random_state=0).fit(X, [0, 1] * 10)
            >>> 0 < model.online().push(0.12, {"x0": 1.0}) < 1
            True
        """
        check_is_fitted(self, "network_")
        if self._shared is None:
            self._shared = OnlineModel(self.network_, self.scaling_, self.columns_, self._target, self.table_.settings)
        if state is not None and static is not None:
            raise ValueError("state has the static variables of its sequence already. Leave out static.")
        sequence = Online(self._shared, static)
        if state is not None:
            sequence.restore(state)
        return sequence

    @property
    @abstractmethod
    def _target(self) -> Target:
        """The classes, or centre and spread, that were learned."""

    def _check_parameters(self) -> None:
        """A TypeError or ValueError that names the parameter."""
        for name in ("units", "epochs", "patience", *(["batch_size"] if self.batch_size is not None else [])):
            check.positive_int(name, getattr(self, name))
        if self.checkpoint is not None and not isinstance(self.checkpoint, str | os.PathLike):
            raise TypeError(f"checkpoint must be a folder or None, got {check.kind(self.checkpoint)}.")
        if self.checkpoint is not None:
            files.named(self.checkpoint)
        if self.units > MOST:
            raise ValueError(f"units must be at most {MOST}, got {check.as_float(self.units):g}. Choose fewer units.")
        check.number("learning_rate", self.learning_rate, low=0.0, low_open=True, high=LARGEST_RATE)
        check.number("weight_decay", self.weight_decay, low=0.0, high=LARGEST_RATE)
        check.number("dropout", self.dropout, low=0.0, high=1.0, high_open=True)
        check.number("validation", self.validation, low=0.0, low_open=True, high=1.0, high_open=True)
        check.choice("cell", self.cell, CELLS)
        if self.updates is not None:
            check.number("updates", self.updates, low=0.0, low_open=True, high=1.0)
            if not self.cell.startswith("phased"):
                raise ValueError(f"updates must be None for cell={self.cell!r}, whose units are always open, got {self.updates}.")
        check.flag("refit", self.refit)
        check.flag("convolutions", self.convolutions)
        check_device(self.device)
        try:
            check_random_state(self.random_state)
        except ValueError as error:
            given = repr(self.random_state)
            raise ValueError(f"random_state must be None, a RandomState or a seed from 0 to 2**32 - 1, got {given}.") from error

    def __getstate__(self) -> dict[str, Any]:
        values: Any = super().__getstate__()
        return {name: value for name, value in values.items() if name != "_shared"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.two_d_array = False
        return tags
