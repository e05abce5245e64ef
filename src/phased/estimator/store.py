"""A model as a folder: parameters in safetensors, configuration in JSON, and a model card. Reading executes no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from phased import check, files
from phased.estimator import config
from phased.estimator.card import card
from phased.estimator.network import Network
from phased.learn.best import tensors

PARAMETERS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
CURE = "Name the folder of another model, or make it again with `phased fit` or `save`."


class BadModel(ValueError):
    """A folder does not hold a model of this kind; the message names the file and says what is wrong with it."""


def write(folder: Path, model: Any, command: str = "") -> None:
    """Write the three files, each atomically."""
    files.writable(folder)
    values = {name: value.detach().cpu().contiguous() for name, value in tensors(model.network_)}
    data, fields = safetensors.torch.save(values), config.describe(model, command)
    files.write_whole(folder / PARAMETERS, data)
    files.write_whole(folder / CONFIG, config.text(fields, data).encode())
    files.write_whole(folder / CARD, card(fields, model.report_).encode())


def read(folder: Path, *kinds: Any) -> Any:
    """The trained estimator of a folder, of one of these classes; `BadModel` if anything is not as it was written."""
    if not folder.is_dir():
        raise BadModel(f"there is no folder '{folder}' with a model. {CURE}")
    path = folder / CONFIG
    try:
        fields = config.parse(content(path))
        found = {kind.kind: kind for kind in kinds}
        if fields.get("kind") not in found:
            raise config.Malformed(f"its 'kind' must be {' or '.join(map(repr, found))}, got {fields.get('kind')!r}")
        model = found[fields["kind"]]()
        config.apply(model, fields)
    except config.Malformed as error:
        raise BadModel(f"'{path}' is not the configuration of such a model: {error}. {CURE}") from error
    path = folder / PARAMETERS
    data = content(path)
    try:
        state = safetensors.torch.load(data)
    except SafetensorError as error:
        raise BadModel(f"'{path}' is cut off, damaged or no safetensors file: {error}. {CURE}") from error
    if config.digest(fields, data) != fields.get("sha256"):
        raise BadModel(
            f"'{path}' does not belong to '{CONFIG}': the SHA-256 of both must be that in '{CONFIG}', and is another, so one of "
            f"them was changed. {CURE}"
        )
    model.network_ = network(model, fields, state, path)
    return model


def network(model: Any, fields: dict[str, Any], state: dict[str, Tensor], path: Path) -> Network:
    """The network of a configuration with these parameters."""
    with torch.random.fork_rng(devices=[]):  # the parameters that are drawn here are replaced
        made: Network = model._network(bool(fields["every_step"]))
    expected = dict(tensors(made))
    fault = next((f"'{name}' is missing or not one of them" for name in sorted(expected.keys() ^ state.keys())), None)
    for name, value in expected.items() if fault is None else ():
        if state[name].shape != value.shape or state[name].dtype != value.dtype:
            fault = f"'{name}' must be {value.dtype} of shape {tuple(value.shape)}, got {check.shape(state[name])}"
        elif not bool(torch.isfinite(state[name]).all()):
            fault = f"'{name}' must be finite, got NaN or infinity"
    if fault is not None:
        raise BadModel(f"'{path}' does not have the parameters of this model: {fault}. {CURE}")
    made.load_state_dict(state)
    return made.requires_grad_(False).eval()


def content(path: Path) -> bytes:
    """The bytes of a file of a model."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise BadModel(f"the model has no file '{path}'. {CURE}") from error
    except OSError as error:
        raise BadModel(f"cannot read '{path}': {files.reason(error)}. {CURE}") from error
