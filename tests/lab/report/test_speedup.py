"""The figure of speed by units and sequences, and the warning that names a broken benchmark file."""

import json

import pytest

from phased_lab.cli.report import drawn
from phased_lab.report.drawing.speedup import PANELS, draw_speedup, ratios, save_speedup

BATCHES, UNITS = (8, 32), (64, 128, 256)
SLOWER = {"nn.LSTM": 1, "nn.LSTM float32": 3}


def row(batch, units, leak, **more):
    work = {"B": batch, "T": 500, "D": 8, "H": units, "ratio_on": 0.05}
    peers = {name: {"median": 1e-5 * units * (1 + leak) * factor} for name, factor in SLOWER.items()}
    return {"work": work, "leak": leak, "ours": {"median": 1e-3}} | peers | more


def benchmark(**more):
    """What `phased bench cuda` writes, with fields of the first row changed."""
    rows = [row(batch, units, leak) for batch in BATCHES for units in UNITS for leak in (0.0, 0.001)]
    return {"machine": {"gpu": "a GPU", "torch": "2.11"}, "grid": [rows[0] | more, *rows[1:]]}


def test_there_is_a_line_for_each_number_of_sequences(tmp_path):
    measured = benchmark()
    figure = draw_speedup({which: ratios(measured, *which) for which in PANELS}, "a GPU")
    for axes, (peer, leak) in zip(figure.axes, PANELS, strict=True):
        even, *lines = axes.lines
        assert set(even.get_ydata()) == {1.0}
        assert len(lines) == len(BATCHES)
        for line in lines:
            assert list(line.get_xdata()) == list(UNITS)
            assert list(line.get_ydata()) == pytest.approx([units * (1 + leak) * SLOWER[peer] / 100 for units in UNITS])
    assert [path.name for path in save_speedup(measured, tmp_path)] == ["speedup.png", "speedup.svg"]


def test_a_file_without_the_measurements_has_no_picture(tmp_path):
    assert save_speedup({"train": []}, tmp_path) == []


@pytest.mark.parametrize("content", [b"", json.dumps({"grid": {}}).encode(), json.dumps(benchmark(work=None)).encode()])
def test_a_broken_file_is_named(tmp_path, content):
    file = tmp_path / "cuda.json"
    file.write_bytes(content)
    with pytest.warns(UserWarning, match=r"cuda\.json': skipped, it is not the file of a benchmark"):
        assert drawn(file, save_speedup, tmp_path) == []
