"""A lip reader as a folder; see `phased.model_folder`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from phased.model_folder import Malformed
from phased.parameters import in_force, is_of_time
from phased_lab.clips import WORDS
from phased_lab.lipreader.card import card
from phased_lab.lipreader.config import FORMAT, Config, parse
from phased_lab.lipreader.network import Words, phased_network

SHIPPED = Path(__file__).parent / "grid"
HALF = torch.float16  # weights take half the space; period, shift and open ratio keep their precision


def stored_dtype(name: str, value: Tensor) -> torch.dtype:
    """The dtype in which a parameter is stored."""
    return HALF if value.dtype == torch.float32 and not is_of_time(name.rpartition(".")[2]) else value.dtype


def rounded(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters as they are stored: gates within their bounds, weights in half precision."""
    return {name: value.detach().cpu().to(stored_dtype(name, value)) for name, value in in_force(state).items()}


def write(folder: Path, config: Config, state: Mapping[str, Tensor]) -> None:
    """Write the three files, all or none of them."""
    FORMAT.write(folder, config.fields(), rounded(state), card(config))


def read(folder: Path) -> tuple[Config, Words]:
    """The configuration and the network of a folder; `BadModel` if anything about it is not as it was written."""
    stored = FORMAT.read(folder)
    try:
        config = parse(stored.fields)
    except Malformed as error:
        raise FORMAT.misconfigured(folder, error) from error
    with torch.device("meta"):  # sizes from a file: nothing is allocated before they are known to fit the parameters
        expected = built(config).state_dict()
    FORMAT.check(folder, stored, {name: (tuple(value.shape), stored_dtype(name, value)) for name, value in expected.items()})
    network = built(config)
    network.load_state_dict({name: value.to(expected[name].dtype) for name, value in stored.state.items()})
    return config, network.eval()


def built(config: Config) -> Words:
    """A network of the sizes of a configuration."""
    with torch.random.fork_rng(devices=[]):
        return phased_network(config.units, config.layers, len(WORDS), config.normalised)
