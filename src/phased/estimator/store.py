"""A trained estimator as a folder; see `phased.model_folder`."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch

import phased
from phased.estimator.card import card
from phased.estimator.checks import Columns
from phased.estimator.report import Report
from phased.estimator.scaling import Scaling
from phased.estimator.settings import Settings
from phased.estimator.targets import LARGEST_TARGET
from phased.fields import Between, Malformed, decode
from phased.model_folder import MOST, BadModel, Kind, is_model
from phased.parameters import tensors


@dataclass(frozen=True)
class Classes:
    """The classes of a classifier, and the dtype that they had in training."""

    dtype: str
    values: list[Any]

    def array(self) -> Any:
        """As an array of that dtype."""
        dtype = np.dtype(self.dtype)
        if dtype.kind not in "biufUO" or dtype.itemsize > MOST:
            raise Malformed(f"its 'classes' must be numbers or words, got the dtype {self.dtype!r}")
        if not 2 <= len(self.values) <= MOST:
            raise Malformed(f"it must have at least 2 classes, got {len(self.values)}")
        return np.array(self.values, dtype=dtype)


@dataclass(frozen=True)
class Target:
    """Centre and spread of a regressor's targets."""

    center: Annotated[float, Between(-LARGEST_TARGET, LARGEST_TARGET)]
    spread: Annotated[float, Between(sys.float_info.min, LARGEST_TARGET)]


@dataclass(frozen=True, eq=False)
class Config:
    """What `config.json` holds, except for format, version and digest: a trained estimator without its network."""

    kind: str
    parameters: dict[str, Any]
    classes: Classes | None
    target: Target | None
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


KIND: Kind[Config, Any] = Kind(
    "phased estimator",
    version=3,
    config=Config,
    card=card,
    again="Fit the model again",
    cure="Name the folder of another model, or make it again with `phased fit` or `save`.",
)


def write(folder: Path, model: Any, command: str = "") -> None:
    """Write the three files, all or none of them."""
    KIND.write(folder, described(model, command), dict(tensors(model.network_)))


def read(folder: Path, *kinds: Any) -> Any:
    """The trained estimator of a folder, of one of these classes; `BadModel` if anything is not as it was written."""
    found = KIND.files(folder)
    config = KIND.configured(folder, lambda: decode(Config, found.fields))
    model = KIND.configured(folder, lambda: configured(config, kinds))
    model.network_ = KIND.network(folder, found, lambda: model._network(config.every_step))
    return model


def finished(folder: Path) -> bool:
    """Return whether a folder has a model that must be kept: any but an estimator whose training was interrupted."""
    try:
        report = KIND.files(folder).fields.get("report")
    except BadModel:
        return is_model(folder)
    return not (isinstance(report, dict) and report.get("interrupted") is True)


def described(model: Any, command: str) -> Config:
    """The configuration of a trained estimator."""
    classes = getattr(model, "classes_", None)
    found = {"phased": phased.__version__, "torch": torch.__version__, "python": platform.python_version()}
    return Config(
        model.kind,
        {name: plain(value) for name, value in model.fitted_with_.items()},
        None if classes is None else Classes(classes.dtype.str, classes.tolist()),
        Target(model.center_, model.spread_) if classes is None else None,
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
    try:
        model.set_params(**{name: unplain(value) for name, value in config.parameters.items()})
        model._check_parameters()
        if config.classes is not None:
            model.classes_ = config.classes.array()
        else:
            model.center_, model.spread_ = config.target.center, config.target.spread  # type: ignore[union-attr]
    except Malformed:
        raise
    except (TypeError, ValueError, AttributeError, OverflowError, KeyError, IndexError) as error:
        raise Malformed(f"a field is missing or wrong ({error})") from error
    model.fitted_with_ = model.get_params(deep=False)
    model.columns_ = Columns(config.variables, config.statics, config.unit)
    if not config.scaling.fits(len(config.variables), len(config.statics)):
        raise Malformed("its 'scaling' must make finite numbers of all variables, and does not")
    model.scaling_, model.longest_, model.report_ = config.scaling, config.longest, config.report
    model.table_ = empty(model.columns_, config.table)
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


def empty(columns: Columns, settings: Settings) -> Any:
    """Events without sequences, for `Events.read(like=...)`."""
    from phased.estimator.events import Events

    zero = np.zeros(1, np.int64)
    return Events(
        np.zeros(0, np.int64),
        columns.variables,
        columns.statics,
        columns.unit,
        zero,
        np.zeros(0),
        zero,
        np.zeros(0, np.int32),
        np.zeros(0),
        np.zeros((0, len(columns.statics))),
        settings=settings,
    )
