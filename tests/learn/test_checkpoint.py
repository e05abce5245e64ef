"""Checkpoints: loading returns what was saved, or raises an error."""

import random

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


def test_a_flipped_bit_anywhere_is_found(path):
    whole = path.read_bytes()
    draw = random.Random(0)
    flips = [8 * byte + draw.randrange(8) for byte in range(0, len(whole), 8)]
    flips += range(8 * (len(whole) - 100), 8 * len(whole))  # all bits of the digest
    for flip in flips:
        damaged = bytearray(whole)
        damaged[flip // 8] ^= 1 << flip % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"is damaged, or not a checkpoint: .*SHA-256.* Delete it to start anew"):
            load_checkpoint(path)
    path.write_bytes(b"?" + whole[1:])
    with pytest.raises(ValueError, match=r"state.pt' .*: its SHA-256 must be [0-9a-f]{64}, got [0-9a-f]{64}. Delete it"):
        load_checkpoint(path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.97, 0.999])
def test_a_cut_off_file_is_found(path, share):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=r"not a checkpoint: it must end with its SHA-256, and does not. Delete it"):
        load_checkpoint(path)


def test_a_file_of_something_else_is_named(path):
    torch.save([1, 2], path)
    with pytest.raises(ValueError, match=r"not a checkpoint: it must end with its SHA-256, and does not. Delete it"):
        load_checkpoint(path)
    with pytest.raises(OSError, match=r"cannot read '.*': Is a directory. Move it away"):
        load_checkpoint(path.parent)
