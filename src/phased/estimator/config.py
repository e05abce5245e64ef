"""The configuration of a model, `config.json`: everything except the values of its parameters."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

import phased
from phased.estimator.checks import Columns
from phased.estimator.report import Report
from phased.estimator.scaling import Scaling
from phased.estimator.settings import Settings
from phased.estimator.targets import LARGEST_TARGET
from phased.model_folder import MOST, Format, Malformed

FORMAT = Format(
    "phased estimator",
    version=3,
    again="Fit the model again",
    cure="Name the folder of another model, or make it again with `phased fit` or `save`.",
)


def describe(model: Any, command: str) -> dict[str, Any]:
    """The fields of a trained estimator, as JSON values."""
    classes = getattr(model, "classes_", None)
    return {
        "kind": model.kind,
        "parameters": {name: plain(value) for name, value in model.fitted_with_.items()},
        "classes": None if classes is None else {"dtype": classes.dtype.str, "values": classes.tolist()},
        "target": None if classes is not None else {"center": model.center_, "spread": model.spread_},
        "variables": list(model.columns_.variables),
        "statics": list(model.columns_.statics),
        "unit": model.columns_.unit,
        "table": model.table_.settings.to_json(),
        "every_step": model.network_.every_step,
        "gate": getattr(model.network_.rnn, "gate", None),
        "scaling": model.scaling_.fields(),
        "longest": model.longest_,
        "report": model.report_.fields(),
        "command": command,
        "versions": versions(),
    }


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


def versions() -> dict[str, str]:
    """Versions of what trained the model."""
    found = {"phased": phased.__version__, "torch": torch.__version__, "python": platform.python_version()}
    return found | {name: version(name) for name in ("numpy", "scikit-learn")}


def apply(model: Any, fields: Mapping[str, Any]) -> None:
    """Set what `describe` read, except for the network; `Malformed` if a field is missing or wrong."""
    try:
        model.set_params(**{name: unplain(value) for name, value in fields["parameters"].items()})
        if fields["classes"] is not None:
            model.classes_ = classes(fields["classes"])
            if not 2 <= len(model.classes_) <= MOST:
                raise Malformed(f"it must have at least 2 classes, got {len(model.classes_)}")
        else:
            model.center_, model.spread_ = (float(fields["target"][name]) for name in ("center", "spread"))
            if not (abs(model.center_) <= LARGEST_TARGET and 0 < model.spread_ <= LARGEST_TARGET):
                raise Malformed(f"its 'target' must have numbers up to {LARGEST_TARGET:g} and a spread above 0, and has not")
        model._check_parameters()
        model.fitted_with_ = model.get_params(deep=False)
        model.columns_ = Columns(names(fields["variables"]), names(fields["statics"]), str(fields["unit"]))
        model.scaling_ = Scaling.read(fields["scaling"])
        if not model.scaling_.fits(len(model.columns_.variables), len(model.columns_.statics)):
            raise Malformed("its 'scaling' must make finite numbers of all variables, and does not")
        if not isinstance(fields["every_step"], bool):
            raise Malformed("its 'every_step' must be true or false")
        model.longest_ = float(fields["longest"])
        if not 0 <= model.longest_ < math.inf:
            raise Malformed("its 'longest' must be a finite time of at least 0, and is not")
        model.report_ = Report.read(fields["report"])
        model.table_ = empty(model.columns_, Settings.from_json(fields["table"]))
        if not 1 <= model.units <= MOST:
            raise Malformed(f"its 'units' must be from 1 to {MOST}, got {model.units}")
    except Malformed:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
        raise Malformed(f"a field is missing or wrong ({error})") from error
    if str(model.device).startswith("cuda") and not torch.cuda.is_available():
        model.device = "auto"  # where it was trained says nothing about this machine


def names(found: Any) -> tuple[str, ...]:
    """Names of variables."""
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise Malformed("its 'variables' and 'statics' must be lists of names")
    return tuple(found)


def classes(found: Mapping[str, Any]) -> Any:
    """The classes of a configuration, with the dtype that they had in training."""
    dtype = np.dtype(found["dtype"])
    if dtype.kind not in "biufUO" or dtype.itemsize > MOST:
        raise Malformed(f"its 'classes' must be numbers or words, got the dtype {found['dtype']!r}")
    return np.array(found["values"], dtype=dtype)


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
