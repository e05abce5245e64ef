"""A trained model as a folder: parameters in safetensors, configuration in JSON, and a model card. Reading executes no code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from phased import check, files

PARAMETERS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
MOST = 65_536
"""The most units, layers, classes or pixels in a row: a file with more asks for memory that no model needs."""


class BadModel(ValueError):
    """A folder does not hold a model of the expected kind; the message names the file and says what is wrong with it."""


class Malformed(ValueError):
    """A configuration is not one; the message says why."""


class Stored(NamedTuple):
    """What a folder holds: the fields of its configuration, its parameters, and whether both are as they were written."""

    fields: dict[str, Any]
    state: dict[str, Tensor]
    intact: bool


@dataclass(frozen=True)
class Format:
    """One kind of model folder.

    Args:
        name: the entry 'format' of its configuration.
        version: counts the changes of the configuration.
        again: what makes the folder again, if it was written by an older version: "Pack the model again".
        cure: what to do about a damaged folder, a sentence.
    """

    name: str
    version: int
    again: str
    cure: str

    def write(self, folder: Path, fields: Mapping[str, Any], state: Mapping[str, Tensor], card: str) -> None:
        """Write the three files, each atomically. Format, version and digest are added to the fields."""
        files.writable(folder)
        self.check_free(folder)
        data = safetensors.torch.save({name: value.detach().cpu().contiguous() for name, value in state.items()})
        content = {"format": self.name, "version": self.version, **fields}
        text = json.dumps({**content, "sha256": digest(content, data)}, indent=1, allow_nan=False) + "\n"
        files.write_whole(folder / CONFIG, text.encode())  # first: a folder that has it is known as that of a model
        files.write_whole(folder / PARAMETERS, data)
        files.write_whole(folder / CARD, card.encode())

    def check_free(self, folder: Path) -> None:
        """A FileExistsError if the files of a model would replace others, which are not those of a model."""
        taken = [name for name in (CONFIG, CARD, PARAMETERS) if (folder / name).exists()]
        if not taken or is_model(folder / CONFIG):
            return
        raise FileExistsError(
            f"'{folder}' must be a new folder or that of a model, got one with '{taken[0]}', which would be replaced. "
            f"Name another folder."
        )

    def read(self, folder: Path) -> Stored:
        """What a folder holds; `BadModel` if a file is missing, damaged, or of another kind or version."""
        if not folder.is_dir():
            raise BadModel(f"there is no folder '{folder}' with a model. {self.cure}")
        try:
            fields = self.parse(self._content(folder / CONFIG))
        except Malformed as error:
            raise self.misconfigured(folder, error) from error
        data = self._content(folder / PARAMETERS)
        try:
            state = safetensors.torch.load(data)
        except SafetensorError as error:
            raise BadModel(f"'{folder / PARAMETERS}' is cut off, damaged or no safetensors file: {error}. {self.cure}") from error
        return Stored(fields, state, digest(fields, data) == fields["sha256"])

    def parse(self, text: bytes) -> dict[str, Any]:
        """The fields of a configuration of this kind and version; `Malformed` if it is none."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Malformed("it must be JSON, and is cut off or damaged") from error
        if not isinstance(found, dict) or found.get("format") != self.name:
            raise Malformed(f"its 'format' must be '{self.name}', and it is of another kind")
        version = found.get("version")
        if isinstance(version, bool) or not isinstance(version, int):
            raise Malformed(f"its 'version' must be of type int, got {type(version).__name__}")
        if version != self.version:
            cure = "Upgrade phased" if version > self.version else self.again
            raise Malformed(f"its 'version' must be {self.version}, got {version}. {cure}")
        if not isinstance(found.get("sha256"), str):
            raise Malformed("it must have a 'sha256' of type str, and has none")
        return found

    def misconfigured(self, folder: Path, error: Malformed) -> BadModel:
        """The error for a configuration that is none."""
        return BadModel(f"'{folder / CONFIG}' is not the configuration of a model: {error}. {self.cure}")

    def check(self, folder: Path, stored: Stored, expected: Mapping[str, tuple[tuple[int, ...], torch.dtype]]) -> None:
        """`BadModel` if the parameters are not those expected, by name, or were changed after they were written."""
        fault = wrong(stored.state, expected)
        if fault is None and not stored.intact:
            fault = f"the SHA-256 of both files must be that in '{CONFIG}', and is another, so one of them was changed"
        if fault is not None:
            raise BadModel(f"'{folder / PARAMETERS}' does not have the parameters of this model: {fault}. {self.cure}")

    def _content(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except FileNotFoundError as error:
            raise BadModel(f"the model has no file '{path}'. {self.cure}") from error
        except OSError as error:
            raise BadModel(f"cannot read '{path}': {files.reason(error)}. {self.cure}") from error


def is_model(config: Path) -> bool:
    """Whether a file is the configuration of a model of any kind, or of a damaged one."""
    try:
        return b'"format": "phased ' in config.read_bytes()[:1024]
    except OSError:
        return False


def digest(fields: Mapping[str, Any], parameters: bytes) -> str:
    """The SHA-256 of a configuration, in any order and layout, and of the parameters, whose shapes do not fix all of it."""
    content = {name: value for name, value in fields.items() if name != "sha256"}
    return files.digest(json.dumps(content, sort_keys=True).encode() + b"\n" + parameters).decode()


def wrong(state: Mapping[str, Tensor], expected: Mapping[str, tuple[tuple[int, ...], torch.dtype]]) -> str | None:
    """What is wrong with tensors that should have these shapes and dtypes, or None."""
    for name in sorted(expected.keys() ^ state.keys()):
        return f"'{name}' is missing" if name in expected else f"'{name}' is not one of them"
    for name, (shape, dtype) in expected.items():
        value = state[name]
        if tuple(value.shape) != shape or value.dtype != dtype:
            return f"'{name}' must be {dtype} of shape {shape}, got {value.dtype} of shape {tuple(value.shape)}"
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
