"""A classifier as a folder: parameters in safetensors, configuration in JSON, and a model card. Reading executes no code."""

from __future__ import annotations

from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from phased import check, files
from phased.classifier.card import card
from phased.classifier.config import Config, Malformed, digest, parse
from phased.classifier.network import dtype_of
from phased.learn.readout import Readout

PARAMETERS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
SHIPPED = Path(__file__).parent / "nmnist"
CURE = "Name the folder of another model, or make it again with `phased pack`."


class BadModel(ValueError):
    """A folder does not hold a classifier; the message names the file and says what is wrong with it."""


def write(folder: Path, config: Config, model: Readout) -> None:
    """Write the three files, each atomically."""
    files.writable(folder)
    data = safetensors.torch.save({name: value.contiguous() for name, value in model.state_dict().items()})
    files.write_whole(folder / PARAMETERS, data)
    files.write_whole(folder / CONFIG, config.text(data).encode())
    files.write_whole(folder / CARD, card(config).encode())


def read(folder: Path) -> tuple[Config, Readout]:
    """The configuration and the network of a folder; `BadModel` if anything about it is not as it was written."""
    if not folder.is_dir():
        raise BadModel(f"there is no folder '{folder}' with a model. {CURE}")
    path = folder / CONFIG
    try:
        config, fields = parse(_content(path))
    except Malformed as error:
        raise BadModel(f"'{path}' is not the configuration of a model: {error}. {CURE}") from error
    path = folder / PARAMETERS
    data = _content(path)
    try:
        state = safetensors.torch.load(data)
    except SafetensorError as error:
        raise BadModel(f"'{path}' is cut off, damaged or no safetensors file: {error}. {CURE}") from error
    fault = _fault(state, config)
    if fault is None and digest(fields, data) != fields["sha256"]:
        fault = f"the SHA-256 of both files must be that in '{CONFIG}', and is another, so one of them was changed"
    if fault is not None:
        raise BadModel(f"'{path}' does not have the parameters of this model: {fault}. {CURE}")
    return config, config.sizes.load(state)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise BadModel(f"the model has no file '{path}'. {CURE}") from error
    except OSError as error:
        raise BadModel(f"cannot read '{path}': {files.reason(error)}. {CURE}") from error


def _fault(state: dict[str, Tensor], config: Config) -> str | None:
    """What is wrong with tensors that should be the parameters of a network, or None."""
    expected = config.sizes.shapes()
    for name in sorted(expected.keys() ^ state.keys()):
        return f"'{name}' is missing" if name in expected else f"'{name}' is not one of them"
    for name, shape in expected.items():
        value, dtype = state[name], dtype_of(name)
        if tuple(value.shape) != shape or value.dtype != dtype:
            got = f"{value.dtype} of shape {tuple(value.shape)}"
            return f"'{name}' must be {dtype} of shape {shape}, got {got}"
        if not bool(torch.isfinite(value).all()):
            return f"'{name}' must be finite, got NaN or infinity"
        try:
            if ".period_l" in name:
                check.periods(value)
            elif ".ratio_on_l" in name:
                check.ratios(value)
        except ValueError as error:
            return f"'{name}' is out of range: {str(error).rstrip('.')}"
    return None
