"""The figure of a benchmark's growth, and the warning that names a broken benchmark file."""

import json
import os

import matplotlib as mpl
import pytest

from phased.report.drawing import growth


def row(axis, value, **more):
    work = {"B": 1, "T": 10, "D": 1, "H": 4, "ratio_on": 0.05} | {axis: value}
    return {"axis": axis, "work": work, "sparse": 1e-3 * value, "nn.LSTM": None if value == 3 else 1e-2} | more


def benchmark(**more):
    """What `phased bench cpu` writes, with fields of the first row changed."""
    rows = [row(axis, value) for axis in growth.AXES for value in (1, 2, 3)]
    return {"growth": [rows[0] | more, *rows[1:]]}


def test_growth_draws_every_measured_point(tmp_path):
    measured = benchmark()
    figure = growth.draw_growth({axis: growth.points(measured, axis) for axis in growth.AXES})
    for axes in figure.axes:
        peer, ours = (line.get_ydata() for line in axes.lines)
        assert list(ours) == [1.0, 2.0, 3.0]
        assert list(peer) == [10.0, 10.0]
    file = tmp_path / "cpu.json"
    file.write_text(json.dumps(measured))
    assert [path.name for path in growth.save_growth(file, tmp_path)] == ["growth.png", "growth.svg"]


def test_without_a_peer_or_a_second_point_ours_is_drawn():
    measured = {"growth": [row(axis, 3) for axis in growth.AXES]}
    figure = growth.draw_growth({axis: growth.points(measured, axis) for axis in growth.AXES})
    assert [list(axes.lines[1].get_ydata()) for axes in figure.axes] == [[3.0]] * 4
    assert "PhasedLSTM, leak 0" in [text.get_text() for text in figure.findobj(mpl.text.Text)]


def test_rows_of_an_axis_of_a_newer_version_are_no_hindrance(tmp_path):
    file = tmp_path / "cpu.json"
    file.write_text(json.dumps({"growth": [*benchmark()["growth"], row("D", 7), None, 5]}))
    assert len(growth.save_growth(file, tmp_path)) == 2


BROKEN = {
    "an empty file": (b"", "not JSON"),
    "a file cut off": (json.dumps(benchmark()).encode()[:-20], "not JSON"),
    "bytes": (b"\xff\xfe\x00\x01", "not JSON"),
    "deep nesting": (b"[" * 100_000, "nested too deeply"),
    "a list": (b"[1, 2]", "expected an object"),
    "another object": (b'{"train": []}', "it has no 'growth'"),
    "growth of another kind": (b'{"growth": {"T": 1}}', "'growth' must be of type list"),
    "growth of nothing": (b'{"growth": []}', "'growth' has no row of the axis 'T'"),
    "no work": (json.dumps(benchmark(work=None)).encode(), "'work' must be of type dict"),
    "no size": (json.dumps(benchmark(work={})).encode(), "it has no 'T'"),
    "a time of nothing": (json.dumps(benchmark(sparse=None)).encode(), "'sparse' must be a number above 0"),
    "a time of zero": (json.dumps(benchmark(sparse=0)).encode(), "'sparse' must be a number above 0"),
    "a time of 1e308": (json.dumps(benchmark(sparse=1e308)).encode(), "'sparse' must be at most"),
    "a time of 10^400": (json.dumps(benchmark(**{"nn.LSTM": 10**400})).encode(), "'nn.LSTM' must be at most"),
    "a time that is text": (json.dumps(benchmark(sparse="fast")).encode(), "'sparse' must be a number"),
}


@pytest.mark.parametrize("content, reason", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_benchmark_is_skipped_by_name_and_nothing_is_drawn(content, reason, tmp_path):
    file = tmp_path / "cpu.json"
    file.write_bytes(content)
    with pytest.warns(UserWarning, match=r"cpu\.json': skipped, ") as caught:
        assert growth.save_growth(file, tmp_path) == []
    assert len(caught) == 1
    assert reason in str(caught[0].message)
    assert list(tmp_path.iterdir()) == [file]


STRANGE = {
    "a folder": lambda path: path.mkdir(),
    "a FIFO": os.mkfifo,
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a dangling link": lambda path: path.symlink_to("nowhere"),
    "a gigabyte": lambda path: (path.touch(), os.truncate(path, 10**9)),
}


@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE.keys())
def test_a_benchmark_that_is_no_regular_file_is_skipped_by_name(make, tmp_path):
    make(tmp_path / "cpu.json")
    with pytest.warns(UserWarning, match=r"cpu\.json': skipped, it (cannot be read|has 1000000000 bytes)"):
        assert growth.save_growth(tmp_path / "cpu.json", tmp_path) == []
