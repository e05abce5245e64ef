"""Sequences of different lengths in flat arrays, and the file that holds them: whole and unchanged, or made again."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from phased.data import ragged
from phased.data.ragged import Ragged, Stored

ARRAYS = {
    "x": torch.arange(6, dtype=torch.int16),
    "frames": torch.arange(24, dtype=torch.uint8).view(2, 3, 4),
    "time": torch.tensor([0.5, 1.5]),
    "few": torch.tensor([1.0, 2.0], dtype=torch.float16),
    "offset": torch.tensor([0, 2, 6]),
    "none": torch.zeros(0, 3, dtype=torch.int32),
}
ABOUT = {"names": ["s1/a", "ü"], "skipped": []}


def write(path: Path, key: str = "k") -> Path:
    ragged.save(path, ARRAYS, ABOUT, key)
    return path


def assert_written(stored: Stored | None) -> None:
    assert stored is not None
    assert stored.about == ABOUT
    assert stored.arrays.keys() == ARRAYS.keys()
    assert all(torch.equal(stored.arrays[name], array) for name, array in ARRAYS.items())


def test_what_is_written_is_read_and_safetensors_reads_it_too(tmp_path):
    from safetensors.torch import load_file

    path = write(tmp_path / "a")
    assert_written(ragged.load(path, "k"))
    assert_written(ragged.load(path))
    assert ragged.load(path, "other") is None
    assert ragged.load(tmp_path / "missing") is None
    assert torch.equal(load_file(path)["frames"], ARRAYS["frames"])
    assert list(tmp_path.iterdir()) == [path]


def test_arrays_are_mapped_can_be_written_to_and_leave_the_file_as_it_is(tmp_path):
    path = write(tmp_path / "a")
    before = path.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stored = ragged.load(path)
        assert stored is not None
        stored.arrays["x"].zero_()
    assert path.read_bytes() == before
    assert_written(ragged.load(path))


def test_every_bit_of_a_file_that_changes_and_every_byte_that_is_missing_is_noticed(tmp_path):
    whole = write(tmp_path / "whole").read_bytes()
    flipped = ((int.from_bytes(whole) ^ 1 << bit).to_bytes(len(whole)) for bit in range(8 * len(whole)))
    cut = (whole[:size] for size in range(len(whole)))
    for changed in (*flipped, *cut):
        (tmp_path / "changed").write_bytes(changed)
        assert ragged.load(tmp_path / "changed", "k") is None


def test_two_calls_at_once_make_a_file_once(tmp_path):
    made = []

    def make() -> Stored:
        made.append(1)
        return Stored(ARRAYS, ABOUT)

    with ThreadPoolExecutor(4) as pool:
        for stored in pool.map(lambda _: ragged.cached(tmp_path / "new", "a", "k", make), range(4)):
            assert_written(stored)
    assert len(made) == 1


def of(lengths: list[int]) -> tuple[Ragged, list[Tensor]]:
    """Sequences of these lengths, and each of them alone."""
    parts = [torch.rand(length, 2) for length in lengths]
    return Ragged.joined([Ragged.one(x=part, n=torch.arange(len(part))) for part in parts]), parts


@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=5), data=st.data())
def test_rows_and_padded_rows_are_those_of_the_sequences(lengths, data):
    many, parts = of(lengths)
    assert many.offset.diff().tolist() == lengths
    which = torch.tensor(data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=6)))
    some = many.rows(which)
    assert torch.equal(some.arrays["x"], torch.cat([parts[row] for row in which]))
    assert some.offset.diff().tolist() == [lengths[row] for row in which]
    _, owner, before = many.places(which, len(some.arrays["x"]))
    assert owner.tolist() == [place for place, row in enumerate(which.tolist()) for _ in range(lengths[row])]
    assert torch.equal(before, some.offset[:-1])
    if any(lengths):
        wanted = torch.nn.utils.rnn.pad_sequence([parts[row] for row in which])
        assert torch.equal(many.padded("x", which, len(wanted)), wanted)
        assert many.padded("n", which, 7).shape == (7, len(which))
