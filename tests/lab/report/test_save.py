"""A figure's files are written atomically."""

import errno
import os

import pytest
from matplotlib.figure import Figure

from phased import files
from phased.pictures.save import save
from phased.pictures.style import styled


def some_figure() -> Figure:
    figure = Figure(figsize=(1, 1))
    figure.subplots().plot([0, 1])
    return figure


def test_a_figure_is_written_as_png_and_svg_and_nothing_else(tmp_path):
    files = save(some_figure(), tmp_path, "name")
    assert files == [tmp_path / "name.png", tmp_path / "name.svg"]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in files[1].read_text()


def test_the_same_figure_gives_the_same_bytes(tmp_path):
    with styled():
        first = [file.read_bytes() for file in save(some_figure(), tmp_path, "name")]
        again = [file.read_bytes() for file in save(some_figure(), tmp_path, "name")]
    assert first == again


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    old = tmp_path / "name.png"
    old.write_bytes(b"old")

    def disk_full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", disk_full)
    with pytest.raises(OSError, match=r"cannot write '.*name.png': No space left on device; the one before it is intact"):
        save(some_figure(), tmp_path, "name")
    assert list(tmp_path.iterdir()) == [old]
    assert old.read_bytes() == b"old"
