"""A trained estimator as a folder; see `phased.model_folder`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from phased.estimator import config
from phased.estimator.card import card
from phased.estimator.config import FORMAT
from phased.learn.best import tensors
from phased.model_folder import BadModel, Malformed, is_model
from phased.parameters import in_force


def write(folder: Path, model: Any, command: str = "") -> None:
    """Write the three files, all or none of them."""
    fields = config.describe(model, command)
    FORMAT.write(folder, fields, in_force(dict(tensors(model.network_))), card(fields, model.report_))


def read(folder: Path, *kinds: Any) -> Any:
    """The trained estimator of a folder, of one of these classes; `BadModel` if anything is not as it was written."""
    stored = FORMAT.read(folder)
    try:
        model = configured(stored.fields, kinds)
    except Malformed as error:
        raise FORMAT.misconfigured(folder, error) from error
    every_step = bool(stored.fields["every_step"])
    with torch.device("meta"):  # sizes from a file: nothing is allocated before they are known to fit the parameters
        expected = dict(tensors(model._network(every_step)))
    FORMAT.check(folder, stored, {name: (tuple(value.shape), value.dtype) for name, value in expected.items()})
    with torch.random.fork_rng(devices=[]):  # the parameters that are drawn here are replaced
        network = model._network(every_step)
    network.load_state_dict(stored.state)
    model.network_ = network.requires_grad_(False).eval()
    return model


def finished(folder: Path) -> bool:
    """Return whether a folder has a model that must be kept: any but an estimator whose training was interrupted."""
    try:
        report = FORMAT.read(folder).fields.get("report")
    except BadModel:
        return is_model(folder)
    return not (isinstance(report, dict) and report.get("interrupted") is True)


def configured(fields: dict[str, Any], kinds: tuple[Any, ...]) -> Any:
    """An estimator of one of these classes with the fields of a configuration, without its network."""
    found = {kind.kind: kind for kind in kinds}
    if fields.get("kind") not in list(found):
        raise Malformed(f"its 'kind' must be {' or '.join(map(repr, found))}, got {fields.get('kind')!r}")
    model = found[fields["kind"]]()
    config.apply(model, fields)
    return model
