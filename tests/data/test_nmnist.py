"""N-MNIST: indexed once, mapped from then on, made again if it or its files change; bad files are named or skipped."""

import os
import zipfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock, Mock, call

import pytest
import torch

from disk import room_for
from phased.data import BadRecording, Recordings, cache_folder, open_recordings, read_native
from phased.data import nmnist as module
from recordings import assert_equal

EVENT = bytes([1, 2, 0, 0, 10])
BAD = {
    "00002.bin": (b"", "empty file", 0),
    "00004.bin": (EVENT + bytes([1]), "truncated", 5),
    "00005.bin": (EVENT + bytes([1, 40, 0, 0, 10]), "y must be", 5),
}


@pytest.fixture
def builds(monkeypatch):
    """How often files were decoded."""
    calls = Mock(wraps=module.decoded)
    monkeypatch.setattr(module, "decoded", calls)
    return calls


def packed(folder: Path, archive: Path, prefix: str = "Train/") -> Path:
    """The training set in an archive; its folder."""
    archive.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(folder.glob("Train/**/*")):
            file.write(path, prefix + str(path.relative_to(folder / "Train")))
    return archive.parent


@pytest.fixture(params=["folder", "archive"])
def place(request, folder, tmp_path):
    """The maker of a data set with other files, in a folder or packed."""

    def make(files: dict[str, bytes]) -> Path:
        for name, content in files.items():
            (folder / "Train" / name).write_bytes(content)
        return folder if request.param == "folder" else packed(folder, tmp_path / "packed" / "Train.zip")

    return make


def index_file() -> Path:
    (found,) = cache_folder().glob("*.safetensors")
    return found


def assert_same(recordings, folder, part="Train"):
    """The recordings are those in the files."""
    assert len(recordings) == len(list(folder.glob(f"{part}/[0-9]/[0-9]*.bin")))
    for recording, label, number in zip(recordings, recordings.label.tolist(), recordings.number.tolist(), strict=True):
        assert_equal(recording, read_native(folder / part / str(label) / f"{number:05}.bin"))


@pytest.mark.parametrize("split, part, count", [("train", "Train", 12), ("test", "Test", 5)])
def test_recordings_labels_and_numbers_are_those_of_the_files(folder, tmp_path, split, part, count):
    for name in ("notes.txt", "0/readme.txt", "0/._00010.bin", "10/00001.bin", "x/00001.bin"):  # other names are ignored
        (folder / part / name).parent.mkdir(exist_ok=True)
        (folder / part / name).write_text("other")
    (tmp_path / "linked" / part).mkdir(parents=True)
    for digit in (folder / part).iterdir():
        (tmp_path / "linked" / part / digit.name).symlink_to(digit)
    before = {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]}
    for place in (folder, tmp_path / "linked"):
        recordings, skipped = open_recordings(place, split)
        assert recordings.number.tolist() == list(range(1, count + 1))
        assert recordings.label.tolist() == [number % 10 for number in range(1, count + 1)]
        assert skipped == ()
        assert_same(recordings, folder, part)
    assert {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]} == before


def test_the_second_time_nothing_is_decoded_and_an_access_reads_the_events_of_its_recording_alone(folder, builds, monkeypatch):
    first, _ = open_recordings(folder, "train")
    monkeypatch.setattr(module, "read_bytes", lambda path: pytest.fail(f"{path} was read"))
    again, _ = open_recordings(folder, "train")
    assert builds.call_count == 1
    assert all(torch.equal(array, again.arrays[name]) for name, array in first.arrays.items())
    address = MagicMock(__getitem__=Mock(side_effect=first.address.__getitem__))
    assert len(replace(first, address=address)[4]) == 15
    assert address.__getitem__.mock_calls == [call(slice(*first.offset[4:6].tolist()))]


def _grow(file):
    status = file.stat()
    file.write_bytes(file.read_bytes() + bytes([0, 0, 127, 0, 0]))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        lambda file: os.utime(file, ns=(1, 1)),
        _grow,
        Path.unlink,
        lambda file: file.rename(file.with_name("00033.bin")),
        lambda file: os.truncate(index_file(), 100),
    ],
    ids=["touched", "longer", "removed", "renamed", "the index is cut off"],
)
def test_after_a_change_of_the_files_or_the_index_files_are_decoded_again(folder, builds, change):
    open_recordings(folder, "train")
    change(folder / "Train" / "3" / "00003.bin")
    assert_same(open_recordings(folder, "train").recordings, folder)
    assert builds.call_count == 2
    index_file()


@pytest.mark.parametrize("name, prefix", [("Train.zip", "Train/"), ("Train.zip", ""), ("train.zip", "Train/")])
def test_an_archive_has_the_recordings_of_its_folder_and_an_index_of_its_own(folder, tmp_path, builds, name, prefix):
    (folder / "Train" / "10").mkdir()
    (folder / "Train" / "10" / "00099.bin").write_bytes(EVENT)  # no digit
    packed(folder, tmp_path / name, prefix)
    for place in (folder, tmp_path) * 2:
        assert_same(open_recordings(place, "train").recordings, folder)
    assert builds.call_count == 2
    os.utime(tmp_path / name, ns=(1, 1))
    assert_same(open_recordings(tmp_path, "train").recordings, folder)
    assert builds.call_count == 3
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["nmnist"]


def test_damaged_files_in_an_archive_are_named(tmp_path):
    path = tmp_path / "Train.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("Train/0/00001.bin", EVENT * 10)
    path.write_bytes(path.read_bytes().replace(EVENT * 10, EVENT[::-1] * 10, 1))
    damaged = r"Train.zip/Train/0/00001.bin': it must be a whole file, got one that cannot be unpacked: Bad CRC"
    with pytest.raises(BadRecording, match=damaged):
        open_recordings(tmp_path, "train")


def test_bad_files_are_errors_or_skipped_and_named_when_they_are_decoded_and_when_they_are_mapped(place, folder, builds):
    bad, calls = place({f"{name[4]}/{name}": content for name, (content, _, _) in BAD.items()}), []
    first = r"2/00002.bin', byte 0: a recording must have events, got an empty file"
    with pytest.raises(BadRecording, match=first):
        open_recordings(bad, "train")
    assert not list(cache_folder().glob("*.safetensors"))
    for _ in range(2):
        recordings, skipped = open_recordings(bad, "train", skip_bad=True, progress=lambda *done: calls.append(done))
        assert recordings.number.tolist() == [1, 3, 6, 7, 8, 9, 10, 11, 12]
        for error, (name, (_, message, byte)) in zip(skipped, BAD.items(), strict=True):
            assert (Path(error.path).name, error.byte) == (name, byte)
            assert message in error.what
    with pytest.raises(BadRecording, match=first):
        open_recordings(bad, "train")
    assert builds.call_count == 2
    assert calls == [(done, 12) for done in range(1, 13)]
    for name in BAD:
        (folder / "Train" / name[4] / name).unlink()
    assert_same(recordings, folder)


def test_files_that_cannot_be_read_are_skipped_too(folder):
    (folder / "Train" / "3" / "00003.bin").unlink()
    (folder / "Train" / "3" / "00003.bin").symlink_to("nowhere")
    (folder / "Train" / "4" / "00044.bin").mkdir()
    recordings, skipped = open_recordings(folder, "train", skip_bad=True)
    assert len(recordings) == 11
    assert sorted(Path(error.path).name for error in skipped) == ["00003.bin", "00044.bin"]
    with pytest.raises(BadRecording, match=r"3/00003.bin': cannot read it"):
        open_recordings(folder, "train")


def test_one_number_with_two_labels_is_refused(place):
    data = place({"5/3.bin": EVENT})
    with pytest.raises(BadRecording, match=r"5/3\.bin': each MNIST number must be there once, got 3 in '.*3/00003\.bin' too"):
        open_recordings(data, "train")


@pytest.mark.parametrize(
    "name, content, error, message",
    [
        ("Train.zip", b"", BadRecording, "Train.zip': it must be a zip archive"),
        ("Train.zip", b"no archive", BadRecording, "Train.zip': it must be a zip archive"),
        ("Train.zip", b"PK\5\6" + bytes(18 * 3), BadRecording, r"Train.zip': it must (be a zip archive|have files)"),
        ("Train/0/00001.bin", b"", BadRecording, "All 1 recordings are bad"),
        ("Train/0/none", b"", BadRecording, r"it must have files Train/<digit 0 to 9>/<MNIST number>.bin, got none"),
        ("none", b"", FileNotFoundError, r"expected the folder 'Train' with files Train/<digit 0 to 9>/<MNIST number>.bin, or"),
    ],
)
def test_what_is_no_data_set_is_an_error(tmp_path, name, content, error, message):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=message):
        open_recordings(tmp_path, "train", skip_bad=True)
    with pytest.raises(ValueError, match="split must be 'train' or 'test', got 'Train'"):
        open_recordings(tmp_path, "Train")


def test_a_cache_that_cannot_be_written_to_is_an_error_that_names_its_setting(folder, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"cannot write to the folder '.*file': it is no folder.* PHASED_CACHE sets its folder"):
        open_recordings(folder, "train", cache=tmp_path / "file")
    with room_for(100), pytest.raises(OSError, match=r"cannot write .*File too large.*PHASED_CACHE sets its folder"):
        open_recordings(folder, "train")
    assert not list(cache_folder().glob("*.safetensors"))
    assert_same(open_recordings(folder, "train").recordings, folder)


def test_real_recordings_have_the_statistics_of_the_data_set(nmnist):
    train, test = (open_recordings(nmnist, split).recordings for split in ("train", "test"))
    everything = Recordings.concatenate([train, test])
    events = everything.offset.diff()
    last = everything.time[everything.offset[1:] - 1].double()
    assert len(everything) >= 950
    assert events.double().mean().item() == pytest.approx(4108, rel=0.02)
    assert (everything.address & 1).double().mean().item() == pytest.approx(0.5, abs=0.01)
    assert last.mean().item() == pytest.approx(307_700, rel=0.01)
    means = [events[everything.label == digit].double().mean().item() for digit in range(10)]
    assert means == pytest.approx([5497, 2539, 4704, 4850, 3714, 4210, 4163, 3738, 4502, 3767], rel=0.1)
    for peak in (50_000, 155_000, 255_000):
        burst = ((everything.time - peak).abs() < 10_000).double().mean()
        assert burst > 20 / 307  # more than if events were spread evenly
