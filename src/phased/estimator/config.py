"""The configuration of a model, `config.json`: everything except the values of its parameters."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

import phased
from phased import files
from phased.estimator.checks import Columns
from phased.estimator.report import Report
from phased.estimator.scaling import Scaling
from phased.estimator.settings import Settings

KIND = "phased estimator"
VERSION = 1
MOST = 65_536
"""The most units or classes: a file with more asks for memory that no model needs."""


class Malformed(ValueError):
    """A configuration is not one; the message says why."""


def describe(model: Any, command: str) -> dict[str, Any]:
    """The fields of a trained estimator, as JSON values."""
    classes = getattr(model, "classes_", None)
    return {
        "format": KIND,
        "version": VERSION,
        "kind": model.kind,
        "parameters": {name: plain(value) for name, value in model.get_params(deep=False).items()},
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


def text(fields: Mapping[str, Any], parameters: bytes) -> str:
    """The JSON of `config.json`, with the SHA-256 of itself and the parameters."""
    return json.dumps({**fields, "sha256": digest(fields, parameters)}, indent=1, allow_nan=False) + "\n"


def digest(fields: Mapping[str, Any], parameters: bytes) -> str:
    """The SHA-256 of a configuration, in any order and layout, and of the parameters."""
    content = {name: value for name, value in fields.items() if name != "sha256"}
    return files.digest(json.dumps(content, sort_keys=True).encode() + b"\n" + parameters).decode()


def parse(content: bytes) -> dict[str, Any]:
    """The fields of a `config.json` of this version; `Malformed` if it is none."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Malformed("it must be JSON, and is cut off or damaged") from error
    if not isinstance(found, dict) or found.get("format") != KIND:
        raise Malformed(f"its 'format' must be '{KIND}', and it is of another kind")
    if found.get("version") != VERSION:
        newer = isinstance(found.get("version"), int) and found["version"] > VERSION
        cure = "Upgrade phased" if newer else "Fit the model again"
        raise Malformed(f"its 'version' must be {VERSION}, got {found.get('version')!r}. {cure}")
    return found


def apply(model: Any, fields: Mapping[str, Any]) -> None:
    """Set what `describe` read, except for the network; `Malformed` if a field is missing or wrong."""
    try:
        model.set_params(**{name: unplain(value) for name, value in fields["parameters"].items()})
        if fields["classes"] is not None:
            model.classes_ = np.array(fields["classes"]["values"], dtype=np.dtype(fields["classes"]["dtype"]))
            if not 2 <= len(model.classes_) <= MOST:
                raise Malformed(f"it must have at least 2 classes, got {len(model.classes_)}")
        else:
            model.center_, model.spread_ = float(fields["target"]["center"]), float(fields["target"]["spread"])
        model.columns_ = Columns(tuple(fields["variables"]), tuple(fields["statics"]), str(fields["unit"]))
        model.scaling_ = Scaling.read(fields["scaling"])
        model.longest_ = float(fields["longest"])
        model.report_ = Report.read(fields["report"])
        settings = Settings.from_json(fields["table"])
        if not 1 <= model.units <= MOST:
            raise Malformed(f"its 'units' must be from 1 to {MOST}, got {model.units}")
    except Malformed:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Malformed(f"a field is missing or wrong ({error})") from error
    model.table_ = empty(model.columns_, settings)


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
