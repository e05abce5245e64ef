"""Files are whole or not there, with other writers in the folder and on a full disk."""

import os
import re
import stat
import threading
from pathlib import Path

import pytest

import phased
from disk import room_for
from phased import files
from phased.files import Damaged, remove_parts, seal, unseal, writable, write_whole


@pytest.mark.parametrize("old, left", [(b"old", "the one before it is intact. Make room"), (None, "there was none before it")])
def test_a_full_disk_leaves_the_old_file_and_no_other_and_names_it(tmp_path, old, left):
    path = tmp_path / "result"
    if old:
        write_whole(path, old)
    with room_for(1000), pytest.raises(OSError, match=rf"cannot write '{path}': File too large; {left}"):
        write_whole(path, bytes(100_000))
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == ({path: old} if old else {})


def test_an_interrupted_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    def interrupt(handle):
        raise KeyboardInterrupt

    path = tmp_path / "result"
    write_whole(path, b"old")
    monkeypatch.setattr(files.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"new")
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == {path: b"old"}


@pytest.mark.parametrize("mask, expected", [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_file_has_the_permissions_that_the_umask_leaves(tmp_path, mask, expected):
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "result", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "result").stat().st_mode) == expected


def test_a_link_at_the_name_aside_is_not_followed(tmp_path, monkeypatch):
    """Even for an attacker who guesses the name."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    monkeypatch.setattr(files.secrets, "token_hex", lambda size: "guessed")
    (tmp_path / ".phased-guessed.part").symlink_to(victim)
    with pytest.raises(OSError, match=r"cannot write .*result': File exists"):
        write_whole(tmp_path / "result", b"new")
    assert victim.read_bytes() == b"precious"


def test_of_several_writers_at_once_one_wins_and_its_file_is_whole(tmp_path):
    contents = [bytes([n]) * 100_000 for n in range(4)]

    def write_often(content):
        for _ in range(10):
            write_whole(tmp_path / "result", content)

    threads = [threading.Thread(target=write_often, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "result").read_bytes() in contents
    assert [file.name for file in tmp_path.iterdir()] == ["result"]


def test_the_longest_name_a_disk_takes_can_be_written(tmp_path):
    path = tmp_path / ("n" * 255)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"


def test_only_parts_of_phased_are_removed(tmp_path):
    for name in (".phased-0123456789abcdef.part", ".video.part", "video.part", "result"):
        (tmp_path / name).touch()
    remove_parts(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {".video.part", "video.part", "result"}


def test_a_folder_that_is_a_file_is_named_with_the_cure(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        OSError, match=r"cannot write to the folder '.*file': it is no folder. Move it away, or choose another folder"
    ):
        writable(tmp_path / "file")


@pytest.mark.parametrize("name, message", [("", "must have a name"), ("a\0b", "must be without null characters, got 'a.x00b'")])
@pytest.mark.parametrize("call", [files.named, phased.PhasedLSTM(1, 1).save, phased.PhasedLSTM.load])
def test_a_name_that_no_file_can_have_is_refused(name, message, call):
    with pytest.raises(ValueError, match=message):
        call(name)


def test_a_seal_finds_every_bit_that_changes():
    data = bytes(range(40))
    whole = seal(data)
    assert unseal(whole) == data
    for n in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[n // 8] ^= 1 << n % 8
        with pytest.raises(Damaged, match="SHA-256"):
            unseal(bytes(flipped))
    with pytest.raises(Damaged, match="must end with its SHA-256"):
        unseal(data)


def test_no_other_module_writes_files():
    """`write_whole` is the one writer; a second one would forget something of it."""
    writes = re.compile(r"\.write_(text|bytes)\(|open\([^)]*[\"'][wxa]b?[\"']|NamedTemporaryFile|mkstemp")
    found = {
        f"{path.name}: {line.strip()}"
        for path in Path(phased.__file__).parents[1].rglob("*.py")
        for line in path.read_text().splitlines()
        if writes.search(line) and path.name != "files.py" and ">>>" not in line
    }
    assert found == {
        'cpu.py: Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here',
        'store.py: with on_disk.open("ab") as file:  # temporary, beside the store',
    }
