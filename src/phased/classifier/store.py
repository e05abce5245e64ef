"""A classifier as a folder; see `phased.model_folder`."""

from __future__ import annotations

from pathlib import Path

from phased.classifier.card import card
from phased.classifier.config import FORMAT, Config, parse
from phased.classifier.network import dtype_of
from phased.learn.readout import Readout
from phased.model_folder import Malformed
from phased.parameters import in_force

SHIPPED = Path(__file__).parent / "nmnist"


def write(folder: Path, config: Config, model: Readout) -> None:
    """Write the three files, all or none of them."""
    FORMAT.write(folder, config.fields(), in_force(model.state_dict()), card(config))


def read(folder: Path) -> tuple[Config, Readout]:
    """The configuration and the network of a folder; `BadModel` if anything about it is not as it was written."""
    stored = FORMAT.read(folder)
    try:
        config = parse(stored.fields)
    except Malformed as error:
        raise FORMAT.misconfigured(folder, error) from error
    FORMAT.check(folder, stored, {name: (shape, dtype_of(name)) for name, shape in config.sizes.shapes().items()})
    return config, config.sizes.load(stored.state)
