"""Checkpoints: loading returns what was saved, or raises an error."""

import pytest
import torch

from phased.learn.store import load_checkpoint, save_checkpoint

STATE = {"weights": torch.arange(24.0).reshape(4, 6), "curve": [(1, 0.5)], "identity": {"task": "Sines()"}}


@pytest.fixture
def path(tmp_path):
    """A file with the checkpoint."""
    save_checkpoint(tmp_path / "state.pt", STATE)
    return tmp_path / "state.pt"


def same(state):
    return state.keys() == STATE.keys() and all(
        torch.equal(state[key], value) if torch.is_tensor(value) else state[key] == value for key, value in STATE.items()
    )


def test_what_is_saved_comes_back_and_torch_reads_it_too(path):
    assert same(load_checkpoint(path))
    assert same(torch.load(path, weights_only=True))
    assert load_checkpoint(path.with_name("other.pt")) is None


@pytest.mark.parametrize(
    "damage",
    [lambda whole: b"?" + whole[1:], lambda whole: whole[:-1] + b"?", lambda whole: whole[: len(whole) // 2], lambda whole: b""],
    ids=["a changed byte", "another digest", "cut off", "empty"],
)
def test_a_damaged_file_is_named(path, damage):
    """`tests/test_files.py` changes every bit of a sealed file."""
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"state.pt' is damaged, or not a checkpoint: .*SHA-256.* Delete it to start anew"):
        load_checkpoint(path)


def test_a_file_of_something_else_is_named(path):
    torch.save([1, 2], path)
    with pytest.raises(ValueError, match=r"not a checkpoint: it must end with its SHA-256, and does not. Delete it"):
        load_checkpoint(path)
    with pytest.raises(OSError, match=r"cannot read '.*': Is a directory. Move it away"):
        load_checkpoint(path.parent)
