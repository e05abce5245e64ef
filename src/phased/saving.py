"""A layer in one file: parameters and settings as safetensors. Reading executes no code."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any, Self

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from phased import check, files
from phased.model_folder import seal as digest
from phased.parameters import GATE, GatedModule, is_of_time

ENTRY = "phased.layer"
"""The entry of the file's metadata that has the settings, as JSON."""
VERSION = 1
"""Counts the changes of this format."""
SETTINGS: dict[str, type] = {
    "input_size": int,
    "hidden_size": int,
    "num_layers": int,
    "bias": bool,
    "batch_first": bool,
    "dropout": float,
    "bidirectional": bool,
    "leak": float,
    "peephole": bool,
    "gate": str,
}
"""Arguments of the constructor and their types; those of the gates are among the parameters."""
FIELDS: dict[str, type] = {"class": str, "training": bool, "frozen": list, "sha256": str, **SETTINGS}
CURE = "Name another file, or save the layer again."


class BadLayer(ValueError):
    """A file does not hold the layer that was asked for; the message names it and says what is wrong."""


class SavedModule(GatedModule):
    """A layer that is saved to a file with its settings, and loaded from it as it was."""

    def save(self, file: str | PathLike[str]) -> None:
        """Write the layer to a file: its parameters, and every setting that decides what it computes.

        The file is safetensors, with the settings in its metadata: sizes, gate shape, leak, `batch_first`, dropout, which
        parameters are learned, and whether the layer is in training. It is written whole or not at all. The backend and the laws
        that the gates were drawn from are not part of it.

        Args:
            file: Path of the file, by convention with the ending `.safetensors`. A file that exists is replaced. Links are
                followed, and a device or FIFO is opened and written.

        Raises:
            ValueError: The layer has parametrised, pruned or additional parameters, or parameters on the meta device; a gate is
                not finite; or the name is empty.
            OSError: The file cannot be written, or is a folder, a socket or a link to nothing.

        Example:
            >>> import tempfile
            >>> from phased import PhasedLSTM
            >>> rnn = PhasedLSTM(3, 8, gate="square", batch_first=True).eval()
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     rnn.save(f"{folder}/layer.safetensors")
            ...     PhasedLSTM.load(f"{folder}/layer.safetensors").gate
            'square'
        """
        path = files.named(file)
        files.check_output(path)
        state = self.state_dict()
        for name in sorted(state.keys() ^ self._shapes.keys()):
            raise ValueError(
                f"A layer to save must have the parameters of its class alone; '{name}' is "
                f"{'not one of them' if name in state else 'missing'}. Undo parametrisations and pruning first "
                f"(torch.nn.utils.parametrize.remove_parametrizations, prune.remove), or save the state_dict."
            )
        if any(value.is_meta for value in state.values()):
            raise ValueError("A layer to save must have values, got parameters on the meta device. Load or draw them first.")
        tensors = {name: value.detach().to("cpu", copy=True).contiguous() for name, value in state.items()}
        for name, value in tensors.items():
            if is_of_time(name):  # which `load` refuses
                check.finite(name, value)
        frozen = [name for name, value in self.named_parameters() if not value.requires_grad]
        about = {"version": VERSION, "class": type(self).__name__, "training": self.training, "frozen": frozen}
        about |= {name: of(getattr(self, name)) for name, of in SETTINGS.items()}
        text = json.dumps(about | {"sha256": digest(about, tensors)}, allow_nan=False)
        files.write_whole(path, safetensors.torch.save(tensors, {ENTRY: text}))

    @classmethod
    def load(cls, file: str | PathLike[str], *, device: torch.device | str | None = None, backend: str = "auto") -> Self:
        """Read a layer that `save` wrote: it has the same parameters, settings and mode, so it computes the same.

        `reset_parameters()` draws new weights for the loaded layer; the gates then start from the values in the file.

        Args:
            file: Path of the file.
            device: Device of the layer. Default: torch's default device.
            backend: Backend of the layer, of which a file says nothing.

        Returns:
            A new layer, in training mode or not, as the saved one was.

        Raises:
            ValueError: The file is cut off, damaged or changed; it is no layer, one of another class, or one of another version
                of the format; or there is no such backend.
            OSError: The file cannot be read.
            RuntimeError: The backend cannot run here.

        Example:
            >>> import tempfile, torch
            >>> from phased import PhasedGRU
            >>> rnn = PhasedGRU(3, 8)
            >>> x, time = torch.randn(50, 3), torch.arange(50.0)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     rnn.save(f"{folder}/layer.safetensors")
            ...     again = PhasedGRU.load(f"{folder}/layer.safetensors")
            >>> torch.equal(again(x, time)[0], rnn(x, time)[0])
            True
        """
        about, tensors = read(files.named(file), cls.__name__)
        # Constant gates, and weights on meta: nothing is drawn, so torch's generator stays where it is.
        settings: dict[str, Any] = {name: about[name] for name in SETTINGS} | {"period": 1.0, "shift": 0.0, "ratio_on": 1.0}
        layer = cls(**settings, backend=backend, device="meta", dtype=tensors["weight_ih_l0"].dtype)
        layer.load_state_dict(tensors, assign=True)
        for name, value in layer.named_parameters():
            value.requires_grad_(name not in about["frozen"])
        gates = layer.gates()[:: layer._directions]
        layer._gate_starts = {kind: [getattr(gate, kind).detach().clone() for gate in gates] for kind in GATE}
        return layer.train(about["training"]).to(torch.get_default_device() if device is None else device)


def read(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The settings and the parameters in a file, saved from a layer of the class `kind`; `BadLayer` if it holds anything else."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise type(error)(error.errno, f"cannot read the layer: {files.reason(error)}. {CURE}", str(path)) from error
    try:
        tensors = safetensors.torch.load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    except SafetensorError as error:
        raise BadLayer(f"'{path}' is cut off, damaged or no safetensors file: {error}. {CURE}") from error
    try:
        about = json.loads(header.get("__metadata__", {})[ENTRY])
    except (KeyError, ValueError, RecursionError) as error:
        raise BadLayer(f"'{path}' must be a layer that its `save` has written, got a file of another kind. {CURE}") from error
    fault = _fault(about, tensors, kind)
    if fault is not None:
        raise BadLayer(f"'{path}' {fault}")
    return about, tensors


def _fault(about: Any, tensors: dict[str, Tensor], kind: str) -> str | None:
    """What is wrong with the content of a file, and the cure; None if it is a layer of the class `kind`."""
    version = about.get("version") if isinstance(about, dict) else None
    if version != VERSION:
        newer = isinstance(version, int) and version > VERSION
        cure = "Upgrade phased" if newer else "Save the layer again"
        return f"must be of version {VERSION} of the format, got {version!r}. {cure}, or name another file."
    wrong = next((name for name, of in FIELDS.items() if type(about.get(name)) is not of), None)
    if wrong is not None:
        return f"must have the setting '{wrong}' as {FIELDS[wrong].__name__}, got {about.get(wrong)!r}. {CURE}"
    if about["class"] != kind:
        return f"must be a {kind}, got a {about['class']}. Call {about['class']}.load(...), or name another file."
    if digest(about, tensors) != about["sha256"] or "weight_ih_l0" not in tensors:
        return f"must have the SHA-256 that it was saved with, and has another: it was damaged or changed. {CURE}"
    return None
