"""A trained model as a folder: parameters in safetensors, configuration in JSON, and a model card. Reading executes no code."""

from __future__ import annotations

import json
import math
import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from phased import check, files
from phased.fields import Malformed, decode, encode
from phased.parameters import clamped_gates, tensors
from phased.saving import metadata, seal

C = TypeVar("C")
M = TypeVar("M", bound=nn.Module)

PARAMETERS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
ENTRY = "phased.model"
"""Entry of the metadata of `model.safetensors` with the configuration as JSON. Folders of earlier versions do not have it."""
MOST = 65_536
"""The most units, layers, classes or pixels in a row: a file with more asks for memory that no model needs."""


class BadModel(ValueError):
    """A folder does not hold a model of the expected kind; the message names the file and says what is wrong with it."""


@dataclass(frozen=True)
class Kind(Generic[C]):
    """One kind of trained model, as a folder.

    Args:
        name: the entry 'format' of its configuration.
        version: counts the changes of the configuration.
        config: the dataclass of its configuration; `phased.fields` writes and reads it.
        card: the model card of a configuration.
        again: what makes the folder again, if it was written by an older version: "Pack the model again".
        cure: what to do about a damaged folder, a sentence.
        stored: the dtype in which a parameter is stored, from its name and value.
    """

    name: str
    version: int
    config: type[C]
    card: Callable[[C], str]
    again: str = "Pack the model again"
    cure: str = "Name the folder of another model, or make it again with `phased pack`."
    stored: Callable[[str, Tensor], torch.dtype] = lambda name, value: value.dtype

    def write(self, folder: Path | str, config: C, network: nn.Module) -> None:
        """Write the three files. Renaming the parameters commits them with their configuration. The others are copies."""
        folder = files.named(folder)
        check_free(folder)
        found = encode(config)
        check_finite(found)
        state = {name: value.cpu().contiguous() for name, value in self.rounded(dict(tensors(network))).items()}
        check_parameters(state)
        content = {"format": self.name, "version": self.version, **found}
        content["sha256"] = seal(content, state)
        data = safetensors.torch.save(state, {ENTRY: json.dumps(content, allow_nan=False)})
        text = json.dumps(content, indent=1, allow_nan=False) + "\n"
        files.writable(folder)
        about = self.card(config).encode("utf-8", "backslashreplace")
        files.write_together({folder / PARAMETERS: data, folder / CONFIG: text.encode(), folder / CARD: about})

    def rounded(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return parameters as they are stored: gates within their bounds, each in its dtype."""
        return {name: value.detach().to(self.stored(name, value)) for name, value in clamped_gates(state).items()}

    def read(self, folder: Path | str, build: Callable[[C], M]) -> tuple[C, M]:
        """Return the configuration of a folder and its network in eval. `build` makes a network of a configuration.

        Raises `BadModel` if the content is not as it was written.
        """
        folder = files.named(folder)
        fields, state, intact = self.files(folder)
        with self.naming(folder / CONFIG):
            config = decode(self.config, fields)
            make = partial(build, config)
            # Sizes from a file: nothing is allocated before they are known to fit the parameters.
            with torch.device("meta"), Uninitialised():
                expected = dict(tensors(undrawn(make)))
        fault = wrong(state, {name: (tuple(value.shape), self.stored(name, value)) for name, value in expected.items()})
        if fault is None and not intact:
            fault = f"the SHA-256 of both files must be that in '{CONFIG}', and is another, so one of them was changed"
        if fault is not None:
            raise BadModel(f"'{folder / PARAMETERS}' does not have the parameters of this model: {fault}. {self.cure}")
        return config, restored(make, state)

    def files(self, folder: Path) -> tuple[dict[str, Any], dict[str, Tensor], bool]:
        """Return the fields of a folder's configuration, its parameters, and whether both are as they were written.

        Raises `BadModel` if a file is missing, damaged, or of another kind or version.

        A `config.json` that is missing, or has the SHA-256 of another model, is a copy that a crash left behind and is not used.
        """
        if not folder.is_dir():
            raise BadModel(f"there is no folder '{folder}' with a model. {self.cure}")
        data, copy = self._content(folder / PARAMETERS), folder / CONFIG
        committed = metadata(data, ENTRY)
        text = self._content(copy) if committed is None or os.path.lexists(copy) else None
        if committed is not None and (text is None or left_behind(text, committed)):
            text, copy = committed, folder / PARAMETERS
        with self.naming(copy):
            content = self.parse(text or b"")
        try:
            state = safetensors.torch.load(data)
        except SafetensorError as error:
            raise BadModel(f"'{folder / PARAMETERS}' is cut off, damaged or no safetensors file: {error}. {self.cure}") from error
        digested = digest(content, data) if committed is None else seal(content, state)
        return content, state, digested == content.get("sha256")

    def parse(self, text: bytes) -> dict[str, Any]:
        """The fields of a configuration of this kind and version; `Malformed` if it is none."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Malformed("it must be JSON, and is cut off or damaged") from error
        if not isinstance(found, dict) or found.get("format") != self.name:
            raise Malformed(f"its 'format' must be '{self.name}', and it is of another kind")
        version = decode(int, found.get("version"), "version")
        if version != self.version:
            cure = "Upgrade phased" if version > self.version else self.again
            raise Malformed(f"its 'version' must be {self.version}, got {version}. {cure}")
        return found

    @contextmanager
    def naming(self, file: Path) -> Iterator[None]:
        """Raise a `BadModel` with the name of the file if its configuration is `Malformed`."""
        try:
            yield
        except Malformed as error:
            raise BadModel(f"'{file}' is not the configuration of a model: {error}. {self.cure}") from error

    def _content(self, path: Path) -> bytes:
        try:
            if path.exists() and not path.is_file():
                raise BadModel(f"'{path}' must be a regular file. {self.cure}")
            return path.read_bytes()
        except FileNotFoundError as error:
            raise BadModel(f"the model has no file '{path}'. {self.cure}") from error
        except OSError as error:
            raise BadModel(f"cannot read '{path}': {files.reason(error)}. {self.cure}") from error


class Uninitialised(TorchFunctionMode):
    """Functions of `torch.nn.init` set no values. On the meta device they would import torch's compiler, which takes a second."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if getattr(func, "__module__", "") == "torch.nn.init":
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)


def undrawn(build: Callable[[], M]) -> M:
    """Return a network whose parameters are replaced; torch's generator stays where it is."""
    with torch.random.fork_rng(devices=[]):
        return build()


def restored(build: Callable[[], M], state: Mapping[str, Tensor]) -> M:
    """Return a network in eval with these parameters, in its own dtypes."""
    network = undrawn(build)
    network.load_state_dict({name: state[name].to(value.dtype) for name, value in tensors(network)})
    return network.requires_grad_(False).eval()


def check_free(folder: Path, inputs: Iterable[Path] = ()) -> None:
    """Raise an error if a model cannot be written to a folder, or would replace files of something else or a part of an input."""
    files.writable(folder, create=False)
    ours = is_model(folder)
    for name in (CONFIG, CARD, PARAMETERS):
        path = folder / name
        if os.path.lexists(path) and not (ours and path.is_file()):
            raise FileExistsError(
                f"'{folder}' must be a new folder or that of a model, got one with '{name}', which would be replaced. "
                f"Name another folder."
            )
        files.check_output(path, inputs)


def is_model(folder: Path) -> bool:
    """Return whether a folder has the files of a model of any kind, also of a damaged one."""
    for name, mark in ((CONFIG, b'"format": "phased '), (PARAMETERS, b'{"__metadata__":{"%s":' % ENTRY.encode())):
        with suppress(OSError):
            if (folder / name).is_file():
                with (folder / name).open("rb") as file:
                    if mark in file.read(1024):
                        return True
    return False


def check_finite(value: Any, place: str = "") -> None:
    """Raise a ValueError that names the first number of a configuration that is not finite, which JSON cannot express."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place} of a model must be finite, got {value}. Replace it.")
    inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for name, entry in inner:
        check_finite(entry, f"{place}[{name!r}]" if place else str(name))


def check_parameters(state: Mapping[str, Tensor]) -> None:
    """Raise a ValueError that names the first parameter of a network with a value that is not finite."""
    for name, value in state.items():
        if not bool(value.isfinite().all()):
            raise ValueError(f"the parameter '{name}' of a model must be finite, got NaN or infinity. Train the model again.")


def left_behind(copy: bytes, committed: bytes) -> bool:
    """Return whether a `config.json` is whole, but of another model than the committed one."""
    try:
        found, expected = json.loads(copy), json.loads(committed)
        return str(found["format"]).startswith("phased ") and str(found["sha256"]) != expected["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def digest(fields: Mapping[str, Any], parameters: bytes) -> str:
    """Return the SHA-256 in the configuration of a folder of an earlier version, whose parameters are a file without metadata."""
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


def card_of(title: str, *parts: str) -> str:
    """Return a model card in Markdown. Empty parts are left out."""
    return "\n\n".join(filter(None, (f"# {title}", *parts))) + "\n"


def filled(text: str, indent: str = "") -> str:
    """Return prose in lines of at most 140 columns."""
    return textwrap.fill(text, 140, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def listed(*lines: str) -> str:
    """Return a list in Markdown."""
    return "\n".join(filled(f"- {line}", "  ") for line in lines)


def trained(about: Any) -> list[str]:
    """Return the section of a model card about the training: data, command, date and versions."""
    versions = (f"{name} {version}" for name, version in about.versions.items())
    made = ", ".join(filter(None, (about.date, *versions)))
    command = f"```\n{about.command}\n```" if about.command else ""
    return [
        "## Training",
        filled(about.data or "The training data are not recorded."),
        command,
        filled(f"{made}.") if made else "",
    ]
