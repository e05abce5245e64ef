"""A trained estimator as a folder: configuration, model card, `save` and `load`; see `phased.model_folder`."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

import phased
from phased import files
from phased.estimator.checks import Columns
from phased.estimator.events import Events
from phased.estimator.report import Report
from phased.estimator.scaling import Scaling
from phased.estimator.settings import Settings
from phased.estimator.targets import Classes, Number, Target
from phased.fields import Between, Malformed
from phased.learn.device import is_first
from phased.model_folder import BadModel, Kind, filled, is_model

NAMES = {
    "auroc": "area under the ROC curve",
    "auprc": "area under the precision-recall curve",
    "accuracy": "share of correct classes",
    "log_loss": "log loss",
    "r2": "coefficient of determination",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
}


@dataclass(frozen=True, eq=False)
class Config:
    """What `config.json` holds, except for format, version and digest: a trained estimator without its network."""

    kind: str
    parameters: dict[str, Any]
    classes: Classes | None
    target: Number | None
    variables: tuple[str, ...]
    statics: tuple[str, ...]
    unit: str
    table: Settings
    every_step: bool
    gate: str | None
    scaling: Scaling
    longest: Annotated[float, Between(0, sys.float_info.max)]
    report: Report
    command: str
    versions: dict[str, str]

    @property
    def targets(self) -> Target | None:
        """What is known of the targets, whichever kind they are of."""
        return self.classes or self.target


def card(config: Config) -> str:
    """What the model is, what it reads, how it was trained, its scores, and how to use it, in Markdown."""
    unit, parameters, report = config.unit or "no unit given", config.parameters, config.report
    classes = None if config.classes is None else config.classes.values
    answer = "a number" if classes is None else f"one of {len(classes)} classes: {named(map(str, classes))}"
    when = "at each step" if config.every_step else "for each sequence"
    network = (
        f"a recurrent layer of {parameters['units']} units ({parameters['cell']}) between dense layers, and a linear layer that "
        f"also reads summaries of the inputs"
    )
    convolutions = "random convolutions over the inputs, and summaries of the inputs, read by a ridge"
    made_of = {"network": network, "convolutions": convolutions, "both": f"the mean of {network}, and of {convolutions}"}
    what = f"A model that gives {answer}, {when} of measurements at uneven times: {made_of[report.part]}."
    reads = (
        f"Variables over time: {named(config.variables)}. Known once a sequence: {named(config.statics)}. Times are in "
        f"{unit}; the training sequences have a median gap of {report.gap:.4g} and a median span of {report.span:.4g}, at most "
        f"{config.longest:.4g}."
    )
    texts = [f"- {name}: {named(levels)}" for name, levels in config.table.levels.items()]
    trained = f"{report.train:,} sequences; {report.held_out:,} others were held out for early stopping. "
    trained += (
        f"Epoch {report.best} of {len(report.curve)} was best; the model was then trained on all of them for as many. The scores "
        "below are those of the network that had not seen the sequences held out."
        if report.refitted
        else f"The weights are those of epoch {report.best} of {len(report.curve)}."
    )
    trained += " The training was interrupted." if report.interrupted else ""
    updates = f" An event updates {report.updates:.1%} of the units on average." if report.periods else ""
    versions = ", ".join(f"{name} {version}" for name, version in config.versions.items())
    scores = [f"| {NAMES.get(name, name)} | {value:.4f} |" for name, value in report.scores.items()]
    usage = f"""```python
from phased.estimator import Events, Phased{config.kind.capitalize()}

model = Phased{config.kind.capitalize()}.load("FOLDER")
X = Events.read("table.csv", like=model.table_)
answer = model.{"predict" if classes is None else "predict_proba"}(X)
```"""
    parts = [
        f"# Phased {config.kind}",
        filled(what),
        "## Input",
        filled(reads),
        *(["Each level of a text variable is an input of 0 and 1, called name=level:"] if texts else []),
        *(["\n".join(filled(line, "  ") for line in texts)] if texts else []),
        "## Training",
        filled(trained + updates),
        *([f"```\n{config.command}\n```"] if config.command else []),
        filled(f"{versions}."),
        "## Scores on the held-out sequences",
        "\n".join(["| score | value |", "|---|---|", *scores]),
        filled("These sequences chose the epoch, so scores on new ones may be a little lower."),
        "## Use",
        usage,
        "## Limits",
        "\n".join(
            filled(f"- {line}", "  ")
            for line in (
                "It answers for any sequence, also for one unlike those of the training.",
                "Values outside the range of the training count as its ends.",
                "Sequences much longer than those of the training give a warning: the scores do not hold for them.",
            )
        ),
    ]
    return "\n\n".join(parts) + "\n"


def named(names: Any) -> str:
    """Names in a row."""
    return ", ".join(names) or "none"


KIND = Kind(
    "phased estimator",
    version=5,
    config=Config,
    card=card,
    again="Fit the model again",
    cure="Name the folder of another model, or make it again with `phased fit` or `save`.",
)


def write(folder: Path, model: Any, command: str = "") -> None:
    """Write the three files, all or none of them."""
    KIND.write(folder, described(model, command), model.network_)


def read(folder: Path, *kinds: Any) -> Any:
    """The trained estimator of a folder, of one of these classes; `BadModel` if anything is not as it was written."""

    def network(config: Config) -> Any:
        return configured(config, kinds)._network(config.every_step, config.report.opening, config.report.part)

    config, found = KIND.read(folder, network)
    model = configured(config, kinds)
    model.network_ = found
    return model


def finished(folder: Path) -> bool:
    """Return whether a folder has a model that must be kept: any but an estimator whose training was interrupted."""
    try:
        report = KIND.files(folder)[0].get("report")
    except BadModel:
        return is_model(folder)
    return not (isinstance(report, dict) and report.get("interrupted") is True)


def described(model: Any, command: str) -> Config:
    """The configuration of a trained estimator."""
    target = model._target
    found = {"phased": phased.__version__, "torch": torch.__version__, "python": platform.python_version()}
    return Config(
        model.kind,
        {name: plain(value) for name, value in model.fitted_with_.items()},
        target if isinstance(target, Classes) else None,
        target if isinstance(target, Number) else None,
        model.columns_.variables,
        model.columns_.statics,
        model.columns_.unit,
        model.table_.settings,
        model.network_.every_step,
        getattr(model.network_.rnn, "gate", None),
        model.scaling_,
        model.longest_,
        model.report_,
        command,
        found | {name: version(name) for name in ("numpy", "scikit-learn")},
    )


def configured(config: Config, kinds: tuple[Any, ...]) -> Any:
    """An estimator of one of these classes with a configuration, without its network; `Malformed` if something in it is wrong."""
    found = {kind.kind: kind for kind in kinds}
    if config.kind not in found:
        raise Malformed(f"its 'kind' must be {' or '.join(map(repr, found))}, got {config.kind!r}")
    model = found[config.kind]()
    if not isinstance(config.targets, model._targets):
        raise Malformed(f"it must have the targets of a {config.kind}, and has none")
    try:
        model.set_params(**{name: unplain(value) for name, value in config.parameters.items()})
        model._check_parameters()
    except (TypeError, ValueError, AttributeError, OverflowError, KeyError, IndexError) as error:
        raise Malformed(f"a field is missing or wrong ({error})") from error
    model.__dict__.update(config.targets.fields())
    model.fitted_with_ = model.get_params(deep=False)
    model.columns_ = Columns(config.variables, config.statics, config.unit)
    if not config.scaling.fits(len(config.variables), len(config.statics)):
        raise Malformed("its 'scaling' must make finite numbers of all variables, and does not")
    model.scaling_, model.longest_, model.report_ = config.scaling, config.longest, config.report
    none = Events.of([], [], variables=config.variables, static=np.zeros((0, len(config.statics))), statics=config.statics)
    model.table_ = replace(none, unit=config.unit, settings=config.table)
    if str(model.device).startswith("cuda") and not torch.cuda.is_available():
        model.device = "auto"  # where it was trained says nothing about this machine
    return model


def plain(value: Any) -> Any:
    """A parameter as a JSON value; a dict becomes pairs, whose keys keep their types. None for what JSON cannot express."""
    if isinstance(value, Mapping):
        return {"pairs": [[plain(key), plain(entry)] for key, entry in value.items()]}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (str, bool, int, float)) or value is None:
        return value
    return str(value) if hasattr(value, "__fspath__") else None


def unplain(value: Any) -> Any:
    """What `plain` was given."""
    return dict(value["pairs"]) if isinstance(value, dict) else value


class SavedMixin:
    """`save` and `load`, for both estimators."""

    def save(self, folder: Path | str, command: str = "") -> None:
        """Write the model as a folder: parameters (safetensors), configuration (JSON) and a model card.

        Of several processes that trained it together, the first one writes.

        Args:
            folder: The folder. It is created if needed. The files of an older model in it are replaced, all or none of them.
            command: The command that trained it, for the model card.

        Raises:
            sklearn.exceptions.NotFittedError: `fit` was not called.
            ValueError: The name is empty.
            OSError: The folder cannot be written to, or has files of these names that are not those of a model.

        Example:
            >>> from tempfile import mkdtemp
            >>> import numpy as np
            >>> from phased.estimator import PhasedRegressor
            >>> X = [(np.arange(5.0), np.full((5, 1), label)) for label in range(20)]
            >>> model = PhasedRegressor(units=4, epochs=1, random_state=0).fit(X, range(20))
            >>> folder = mkdtemp()
            >>> model.save(folder)
            >>> bool((PhasedRegressor.load(folder).predict(X) == model.predict(X)).all())
            True
        """
        check_is_fitted(self, "network_")
        if is_first():
            write(files.named(folder), self, command)

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Read a model from its folder. No code in the files is executed.

        Args:
            folder: The folder that `save` or `phased fit` wrote.

        Returns:
            The trained estimator.

        Raises:
            phased.estimator.BadModel: A file is missing, damaged, of another version or of another kind of model.

        Example:
            >>> from phased.estimator import PhasedClassifier
            >>> PhasedClassifier.load("nowhere")
            Traceback (most recent call last):
                ...
            phased.model_folder.BadModel: there is no folder 'nowhere' with a model. ...
        """
        model = read(files.named(folder), cls)
        assert isinstance(model, cls)
        return model
