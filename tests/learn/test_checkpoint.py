"""Checkpoints: loading returns what was saved, or raises an error."""

import random

import pytest
import torch

from phased.learn.store import load_checkpoint, save_checkpoint

STATE = {"weights": torch.arange(24.0).reshape(4, 6), "curve": [(1, 0.5)], "identity": {"task": "Sines()"}}


def same(state):
    return state.keys() == STATE.keys() and all(
        torch.equal(state[key], value) if torch.is_tensor(value) else state[key] == value for key, value in STATE.items()
    )


def test_what_is_saved_comes_back(tmp_path):
    save_checkpoint(tmp_path / "state.pt", STATE)
    assert same(load_checkpoint(tmp_path / "state.pt"))
    assert load_checkpoint(tmp_path / "other.pt") is None


def test_torch_reads_it_too(tmp_path):
    save_checkpoint(tmp_path / "state.pt", STATE)
    assert same(torch.load(tmp_path / "state.pt", weights_only=True))


def test_a_flipped_bit_anywhere_is_found(tmp_path):
    path = tmp_path / "state.pt"
    save_checkpoint(path, STATE)
    whole = path.read_bytes()
    draw = random.Random(0)
    flips = [8 * byte + draw.randrange(8) for byte in range(len(whole))]
    flips += range(8 * (len(whole) - 100), 8 * len(whole))  # all bits of the digest
    for flip in flips:
        damaged = bytearray(whole)
        damaged[flip // 8] ^= 1 << flip % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"is damaged.* Delete it to start anew"):
            load_checkpoint(path)


def test_damage_is_named_with_both_digests_and_the_cure(tmp_path):
    path = tmp_path / "state.pt"
    save_checkpoint(path, STATE)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    with pytest.raises(
        ValueError,
        match=r"state.pt' is damaged, or not a checkpoint: its SHA-256 must be [0-9a-f]{64}, got [0-9a-f]{64}. Delete it",
    ):
        load_checkpoint(path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.97, 0.999])
def test_a_cut_off_file_is_found(tmp_path, share):
    path = tmp_path / "state.pt"
    save_checkpoint(path, STATE)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(
        ValueError, match=r"is damaged, or not a checkpoint: it must end with its SHA-256, and does not. Delete it"
    ):
        load_checkpoint(path)


def test_older_checkpoints_without_a_digest_are_read(tmp_path):
    torch.save(STATE, tmp_path / "state.pt")
    assert same(load_checkpoint(tmp_path / "state.pt"))


def test_a_file_of_something_else_is_named(tmp_path):
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(ValueError, match=r"list.pt' must hold the dict of a checkpoint, got list"):
        load_checkpoint(tmp_path / "list.pt")
    with pytest.raises(OSError, match=r"cannot read '.*': Is a directory. Move it away"):
        load_checkpoint(tmp_path)
