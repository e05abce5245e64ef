"""A lip reader as a folder: parameters in safetensors, configuration in JSON, and a model card. Reading executes no code."""

from __future__ import annotations

from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from phased import check, files
from phased.data.clips import WORDS
from phased.lipreader.card import card
from phased.lipreader.config import Config, Malformed, digest, parse
from phased.lipreader.network import Words, phased_network

SHIPPED = Path(__file__).parent / "grid"
PARAMETERS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
CURE = "Name the folder of another model, or make it again with `phased pack`."
HALF = torch.float16  # weights take half the space; period, shift and open ratio keep their precision


class BadModel(ValueError):
    """A folder does not hold a lip reader; the message names the file and says what is wrong with it."""


def rounded(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The parameters as they are stored: weights in half precision."""
    gates = (".period_l", ".shift_l", ".ratio_on_l")
    return {
        name: value.detach().cpu().to(HALF if value.dtype == torch.float32 and not any(g in name for g in gates) else value.dtype)
        for name, value in state.items()
    }


def write(folder: Path, config: Config, state: dict[str, Tensor]) -> None:
    """Write the three files, each atomically."""
    files.writable(folder)
    data = safetensors.torch.save({name: value.contiguous() for name, value in rounded(state).items()})
    files.write_whole(folder / PARAMETERS, data)
    files.write_whole(folder / CONFIG, config.text(data).encode())
    files.write_whole(folder / CARD, card(config).encode())


def read(folder: Path) -> tuple[Config, Words]:
    """The configuration and the network of a folder; `BadModel` if anything about it is not as it was written."""
    if folder == SHIPPED and not folder.is_dir():
        raise BadModel(
            "no model comes with this version of phased. Train one on GRID and name its folder with --model:\n"
            "  phased run lipreading --data GRID --seeds 1 --only lipreading-high-phased-seed0\n"
            "  phased pack lipreading-high-phased-seed0 --out FOLDER"
        )
    if not folder.is_dir():
        raise BadModel(f"there is no folder '{folder}' with a model. {CURE}")
    path = folder / CONFIG
    try:
        config, fields = parse(_content(path))
    except Malformed as error:
        raise BadModel(f"'{path}' is not the configuration of a lip reader: {error}. {CURE}") from error
    path = folder / PARAMETERS
    data = _content(path)
    try:
        state = safetensors.torch.load(data)
    except SafetensorError as error:
        raise BadModel(f"'{path}' is cut off, damaged or no safetensors file: {error}. {CURE}") from error
    network = built(config)
    fault = _fault(state, network.state_dict())
    if fault is None and digest(fields, data) != fields.get("sha256"):
        fault = f"the SHA-256 of both files must be that in '{CONFIG}', and is another, so one of them was changed"
    if fault is not None:
        raise BadModel(f"'{path}' does not have the parameters of this model: {fault}. {CURE}")
    network.load_state_dict({name: value.to(network.state_dict()[name].dtype) for name, value in state.items()})
    return config, network.eval()


def built(config: Config) -> Words:
    """A network of the sizes of a configuration."""
    with torch.random.fork_rng(devices=[]):
        return phased_network(config.units, config.layers, len(WORDS), config.normalised)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise BadModel(f"the model has no file '{path}'. {CURE}") from error
    except OSError as error:
        raise BadModel(f"cannot read '{path}': {files.reason(error)}. {CURE}") from error


def _fault(state: dict[str, Tensor], expected: dict[str, Tensor]) -> str | None:
    """What is wrong with tensors that should be the parameters of a network, or None."""
    for name in sorted(expected.keys() ^ state.keys()):
        return f"'{name}' is missing" if name in expected else f"'{name}' is not one of them"
    for name, value in state.items():
        if value.shape != expected[name].shape:
            return f"'{name}' must have shape {tuple(expected[name].shape)}, got {tuple(value.shape)}"
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
