"""What the two estimators share: fit, the checks of its arguments, predictions, and the folder of a model."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
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
from phased.estimator import checks, gates, training
from phased.estimator.events import Events
from phased.estimator.inputs import elapsed, inputs
from phased.estimator.network import CELLS, Network
from phased.estimator.objective import Objective
from phased.estimator.optimiser import Optimiser
from phased.estimator.report import Report
from phased.estimator.scaling import Scaling
from phased.estimator.splits import split
from phased.estimator.store import plain
from phased.estimator.targets import Targets, check_copies, targets
from phased.estimator.task import EventTask, Sequences, batch_size, in_batches
from phased.fields import encode
from phased.layer import PhasedRNN
from phased.learn.device import check_device
from phased.learn.loop import Training
from phased.model_folder import MOST, check_finite

CLIP = 1.0
"""Largest norm of the gradients."""
LARGEST_RATE = 1e6
"""Largest learning rate and weight decay."""
AVERAGE = 0.99
"""Decay of the moving average of the weights, which is tested and kept."""
MEASURED = 256
"""Sequences of which inputs are measured together."""


class Fitted:
    """What `fit` leaves in an estimator."""

    columns_: checks.Columns
    scaling_: Scaling
    network_: Network
    report_: Report
    table_: Events
    longest_: float
    fitted_with_: dict[str, Any]


@dataclass(kw_only=True, eq=False, repr=False)
class PhasedEstimator(Fitted, BaseEstimator, ABC):  # type: ignore[misc]
    """The part of `PhasedClassifier` and `PhasedRegressor` that does not depend on the kind of target.

    docs/estimator.md says how the defaults were chosen.
    """

    kind: ClassVar[str]

    units: int = 32
    updates: float | None = None
    cell: str = "phased_lstm"
    learning_rate: float = 2e-3
    weight_decay: float = 1e-2
    dropout: float = 0.5
    batch_size: int | None = None
    epochs: int = 100
    patience: int = 5
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
        found = targets(events, y)
        check_copies(events, found)
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        if validation is None:
            train, test = split(events, found, self.validation, random, stratify=self._stratified())
            whole, both = events, found
        else:
            whole, both, train, test = self._joined(X, events, found, validation)
        encoded = self._encode(both, train)
        self.columns_ = checks.Columns(events.variables, events.statics, events.unit)
        self.table_ = events[:0]
        checks.warn_sentinels(events)
        learned = whole[train]
        self.scaling_ = Scaling.of(learned)
        spans = checks.spans(learned)
        self.longest_ = float(spans.max()) if len(spans) else 0.0
        data = self._sequences(whole, encoded, both.counts)
        gates.check_budget(data, train, int(self.units), self._budget())
        network, data = self._begin(seed, data, train)
        batch = int(batch_size(self.batch_size, len(train)))
        folder = None if self.checkpoint is None else files.named(self.checkpoint)
        task = EventTask(data, train, test, batch)
        objective = self._objective(encoded, both.counts, train, whole)
        fitted = self._train(network, task, objective, seed, int(self.epochs), int(self.patience), folder)
        share = self._share(network, task)
        answer = self._answer(training.answers(network, data, test))
        interrupted, refitted = fitted.interrupted, False
        if self.refit and validation is None and fitted.best and not interrupted:
            everyone = np.concatenate([train, test])
            task_of_all = EventTask(data, everyone, test, batch)
            objective = self._objective(encoded, both.counts, everyone, whole)
            apart = None if folder is None else folder / training.ALL
            try:
                again, _ = self._begin(seed, data, everyone)
                second = self._train(again, task_of_all, objective, seed, fitted.best, None, apart)
                interrupted = second.interrupted
            except KeyboardInterrupt:  # before its first batch: the first network is kept
                interrupted = True
            # It has been trained on the sequences held out. If it is worse on them all the same, it has not learned in time what
            # the first one learned late and by chance, as networks do that learn nothing for many epochs.
            refitted = not interrupted and second.curve[-1].test <= fitted.curve[fitted.best - 1].test
            if refitted:
                network, task = again, task_of_all
                share = self._share(network, task)
        self.network_ = network.requires_grad_(False)
        self.report_ = Report(
            len(train),
            len(test),
            events.unit,
            self.scaling_.gap,
            self.scaling_.span,
            self._periods(),
            share,
            self._never_open(task),
            self._scores(*self._chosen(encoded, both.counts, whole, test), answer),
            fitted.best,
            fitted.curve,
            interrupted,
            refitted,
        )
        checks.warn_never_open(self.report_.never_open, self.units)
        return self

    def _begin(self, seed: int, data: Sequences, train: NDArray[np.int64]) -> tuple[Network, Sequences]:
        """The network before its training, with what it measures on these sequences; and the data as it reads them."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = self._network(data.counts is not None)
            data = replace(data, step_first=not isinstance(network.rnn, PhasedRNN))
            if data.counts is None and data.summary is None:
                data = data.summarised(network.summaries)
            gates.open_all(network, data, train)
            network.measure(data.batch(some) for some in in_batches(data, train, MEASURED))
        return network, data

    def _train(
        self,
        network: Network,
        task: EventTask,
        objective: Objective,
        seed: int,
        epochs: int,
        patience: int | None,
        checkpoint: Path | None,
    ) -> training.Fitted:
        """Train a network in place; without patience, for all epochs."""
        rate = float(self.learning_rate)
        settings = Training(
            epochs,
            len(task.train),
            len(task.test),
            task.size,
            rate,
            CLIP,
            openness_cost=1.0,  # the factor of the network's penalty
            seed=seed,
            average=AVERAGE,
        )
        optimiser = Optimiser(rate, float(self.weight_decay), budget=self._budget())
        where = self.device, checkpoint, bool(self.verbose)
        return training.train(network, task, objective, optimiser, settings, patience, *where)

    def _share(self, network: Network, task: EventTask) -> float:
        """Keep the budget of updates, and return their share."""
        share, budget = training.keep_budget(network, task, self._budget()), self._budget()
        return share if share or budget is None else gates.open_some(network, task.data, task.train, budget)

    def _budget(self) -> float | None:
        """The share of updates that is allowed, if there is a bound."""
        return None if self.updates is None else float(self.updates)

    def _joined(self, X: Any, events: Events, found: Targets, validation: Any) -> Any:
        """Training and validation sequences as one, and which is which."""
        if not isinstance(validation, tuple) or len(validation) != 2:
            raise TypeError(f"validation must be a pair (X, y), got {check.kind(validation)}.")
        columns = checks.Columns(events.variables, events.statics, events.unit)
        other = checks.matched(checks.as_events(validation[0], columns), columns)
        checks.check_range(other)
        others = targets(other, validation[1])
        if (others.counts is None) != (found.counts is None):
            raise ValueError("y of training and of validation must both have a target for each sequence, or for each step.")
        if isinstance(X, Events) and isinstance(validation[0], Events):  # a list has no ids
            checks.check_disjoint(events, other)
        counts = None if found.counts is None or others.counts is None else np.concatenate([found.counts, others.counts])
        both = Targets(np.concatenate([found.y, others.y]), counts)
        size = len(events)
        return checks.joined(events, other), both, np.arange(size), np.arange(size, size + len(other))

    def _sequences(self, events: Events, y: NDArray[Any], counts: NDArray[np.bool_] | None) -> Sequences:
        """Inputs and encoded targets as tensors."""
        static = self.scaling_.static_inputs(events.static)
        since = elapsed(events, self.scaling_)
        checks.check_reach(events, since, self.scaling_)
        return Sequences(
            torch.from_numpy(np.concatenate([inputs(events, self.scaling_), static.repeat(events.lengths, 0)], 1)),
            torch.from_numpy(since),
            torch.from_numpy(static),
            np.asarray(events.offset),
            torch.from_numpy(y),
            None if counts is None else torch.from_numpy(counts),
        )

    def _network(self, every_step: bool) -> Network:
        """The network with its initial weights."""
        phased = self.cell.startswith("phased")
        return Network(
            len(self.columns_.variables),
            self.scaling_.static_features,
            int(self.units),
            self._outputs(),
            every_step,
            self.cell,
            float(self.dropout),
            **(gates.settings(self.scaling_.span_in_gaps, self._budget()) if phased else {}),
        )

    def _events(self, X: Any) -> Events:
        """Sequences with the model's variables, in its order, and without the numbers that mean "not known" to it."""
        check_is_fitted(self, "network_")
        events = checks.unmarked(checks.matched(checks.as_events(X, self.columns_), self.columns_), self.table_.settings)
        checks.check_range(events)
        return events

    def _targets(self, events: Events, y: Any) -> Targets:
        """Targets to compare answers with: one for each sequence or each step, as in the training."""
        found = targets(events, y)
        if (found.counts is not None) != self.network_.every_step:
            wanted, got = ("step", "sequence") if self.network_.every_step else ("sequence", "step")
            raise ValueError(f"y must have a target for each {wanted}, as in the training, got one for each {got}.")
        return found

    def _raw(self, X: Any) -> NDArray[np.float64]:
        """The network's outputs for sequences, (n, ...) or (steps, ...)."""
        events = self._events(X)
        checks.warn_spans(events, self.scaling_.span, self.longest_)
        every_step = self.network_.every_step
        y = np.zeros(len(events.time) if every_step else len(events), np.int64)
        counts = np.zeros(len(events.time), bool) if every_step else None
        kind, index = check_device(self.device)
        device = torch.device(f"{kind}:{index}" if index else kind)
        data = self._sequences(events, y, counts).to(device)
        found = training.answers(self.network_.to(device), data, np.arange(len(events)))
        self.network_.to("cpu")
        checks.check_answers(events, found, every_step)
        return found

    def _chosen(self, y: NDArray[Any], counts: Any, events: Events, chosen: Any) -> tuple[NDArray[Any], Any]:
        """Targets of some sequences, and which of them count, or None if all do."""
        if counts is None:
            return y[chosen], None
        places = [np.arange(events.offset[which], events.offset[which + 1]) for which in chosen]
        steps = np.concatenate(places) if places else np.zeros(0, np.int64)
        return y[steps], counts[steps]

    def _periods(self) -> tuple[float, ...]:
        if not isinstance(self.network_.rnn, PhasedRNN):
            return ()
        period = self.network_.rnn.gates()[0].period * self.scaling_.gap
        return tuple(float(period.quantile(part)) for part in (0.0, 0.5, 1.0))

    def _never_open(self, task: EventTask) -> int:
        if not isinstance(self.network_.rnn, PhasedRNN):
            return 0
        return int((gates.count(self.network_, task.data, task.train) == 0).sum())

    def _check_parameters(self) -> None:
        """A TypeError or ValueError that names the parameter."""
        for name in ("units", "epochs", "patience", *(["batch_size"] if self.batch_size is not None else [])):
            check.size(name, getattr(self, name))
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
        check_device(self.device)
        try:
            check_random_state(self.random_state)
        except ValueError as error:
            given = repr(self.random_state)
            raise ValueError(f"random_state must be None, a RandomState or a seed from 0 to 2**32 - 1, got {given}.") from error

    @abstractmethod
    def _stratified(self) -> bool:
        """Whether held-out sequences are drawn from every class alike."""

    @abstractmethod
    def _outputs(self) -> int:
        """The number of outputs of the network."""

    @abstractmethod
    def _encode(self, found: Targets, train: NDArray[np.int64]) -> NDArray[Any]:
        """Targets as the network learns them, measured on the training sequences."""

    @abstractmethod
    def _objective(self, y: NDArray[Any], counts: Any, train: NDArray[np.int64], events: Events) -> Objective:
        """What is minimised."""

    @abstractmethod
    def _answer(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Answers from the outputs of the network."""

    @abstractmethod
    def _scores(self, y: NDArray[Any], counts: Any, answer: NDArray[np.float64]) -> dict[str, float]:
        """The scores of answers, by name."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.two_d_array = False
        return tags
