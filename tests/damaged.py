"""Files with bytes that were changed or cut off, what reading them gives, and folders of models with other content."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import safetensors.torch
from hypothesis import strategies as st

from phased.data import BadFile
from phased.model_folder import digest

T = TypeVar("T")


BLOCKS: dict[str, Callable[[bytearray], bytes]] = {
    "left out": lambda block: b"",
    "zero": lambda block: bytes(len(block)),
    "twice": lambda block: bytes(2 * block),
    "backwards": lambda block: bytes(block[::-1]),
    "as it is": bytes,
}
"""Kinds of damage of a block of a file."""


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """The content with a block that is damaged, perhaps cut off, with up to three or up to forty other bytes."""
    data = bytearray(content)
    begin, end = sorted(draw(st.integers(0, len(data))) for _ in range(2))
    data[begin:end] = BLOCKS[draw(st.sampled_from(sorted(BLOCKS)))](data[begin:end])
    if draw(st.booleans()):
        del data[draw(st.integers(0, len(data))) :]
    if data:
        for place in draw(st.lists(st.integers(0, len(data) - 1), max_size=draw(st.sampled_from((0, 3, 40))))):
            data[place] = draw(st.integers(0, 255))
    return bytes(data)


def outcome(read: Callable[[], T]) -> T | BadFile:
    """What was read, or the error that explains why it cannot be; any other error is raised."""
    try:
        return read()
    except BadFile as error:
        return error


def reconfigure(folder: Path, sort_keys: bool = False, **changes: Any) -> None:
    """Change fields of a model's configuration; the digest stays."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes, sort_keys=sort_keys))


def resign(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]] = dict, **changes: Any) -> None:
    """Change parameters and configuration, with a digest that fits."""
    path = folder / "model.safetensors"
    path.write_bytes(safetensors.torch.save(change(safetensors.torch.load_file(path))))
    reconfigure(folder, **changes)
    reconfigure(folder, sha256=digest(json.loads((folder / "config.json").read_text()), path.read_bytes()))
