"""Archives are read in place, and refused whole if a name in them leaves their folder."""

import stat
import zipfile

import pytest

from phased.data import BadRecording, open_recordings
from phased.data.archive import Archive

EVENT = bytes([1, 2, 0, 0, 10])


def pack(path, names, attributes=0):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            member = zipfile.ZipInfo("x")
            member.filename = name  # as it is: the constructor cleans names
            member.external_attr = attributes << 16
            archive.writestr(member, EVENT)
    return path


@pytest.mark.parametrize(
    "name, why",
    [
        ("/etc/passwd", "an absolute path"),
        ("../outside.bin", "a path upwards"),
        ("Train/0/../../../outside.bin", "a path upwards"),
        ("Train/..", "a path upwards"),
        ("C:/outside.bin", "a path with a drive"),
        ("c:outside.bin", "a path with a drive"),
        ("..\\outside.bin", "read differently elsewhere"),
        ("\\\\server\\share.bin", "read differently elsewhere"),
        ("Train\\0\\00001.bin", "read differently elsewhere"),
    ],
)
def test_a_name_that_leaves_the_folder_is_refused_before_anything_is_read(tmp_path, monkeypatch, name, why):
    pack(tmp_path / "Train.zip", ["Train/0/00001.bin", name])
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("a file was read"))
    for skip_bad in (False, True):
        with pytest.raises(BadRecording, match=f"names in an archive must stay in its folder, got .*{why}. Nothing of it was"):
            open_recordings(tmp_path, "train", skip_bad=skip_bad)


@pytest.mark.parametrize("kind, why", [(stat.S_IFLNK, "a link"), (stat.S_IFIFO, "neither a file nor a folder")])
def test_what_is_not_a_file_is_refused(tmp_path, kind, why):
    path = pack(tmp_path / "a.zip", ["Train/0/00001.bin"], kind | 0o777)
    with pytest.raises(BadRecording, match=why):
        Archive(path)


def test_dots_in_names_are_harmless(tmp_path):
    path = pack(tmp_path / "a.zip", ["Train/0/00001..bin", "Train/.../a", "..a"], stat.S_IFREG | 0o644)
    assert Archive(path).read("Train/.../a") == EVENT


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\5\6" + bytes(18 * 3)])
def test_what_is_not_an_archive_is_an_error(tmp_path, content):
    (tmp_path / "Train.zip").write_bytes(content)
    with pytest.raises(BadRecording, match=r"Train.zip': it must (be a zip archive|have files)"):
        open_recordings(tmp_path, "train")


def test_a_damaged_member_is_an_error_that_names_archive_and_member(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("Train/0/00001.bin", EVENT * 10)
    path.write_bytes(path.read_bytes().replace(EVENT, EVENT[::-1], 1))
    with pytest.raises(BadRecording, match=r"a.zip/Train/0/00001.bin': it must be a whole file, got .*CRC"):
        Archive(path).read("Train/0/00001.bin")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_occurs_twice_is_refused(tmp_path):
    pack(tmp_path / "Train.zip", ["Train/0/00001.bin", "Train/0/00001.bin"])
    with pytest.raises(BadRecording, match=r"each name must occur once in an archive, got 'Train/0/00001\.bin' twice"):
        Archive(tmp_path / "Train.zip")
