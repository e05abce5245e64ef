"""The figure of speed by units and sequences, and the warning that names a broken benchmark file."""

import json

import pytest

from phased.report.drawing.speedup import PANELS, draw_speedup, ratios, save_speedup

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
    file = tmp_path / "cuda.json"
    file.write_text(json.dumps(measured))
    assert [path.name for path in save_speedup(file, tmp_path)] == ["speedup.png", "speedup.svg"]


def test_a_file_without_the_measurements_has_no_picture(tmp_path):
    file = tmp_path / "cuda.json"
    file.write_text(json.dumps({"train": []}))
    assert save_speedup(file, tmp_path) == []


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "not JSON"),
        (json.dumps({"grid": {}}).encode(), "'grid' must be of type list"),
        (json.dumps({"grid": []}).encode(), "'grid' has no row with a leak of 0"),
        (json.dumps(benchmark(work=None)).encode(), "'work' must be of type dict"),
        (json.dumps({"grid": [{"leak": 0.0}]}).encode(), "'grid' has a row without 'nn.LSTM float32'. Run `phased bench cuda`"),
        (json.dumps(benchmark(ours={"median": 0})).encode(), "'median' must be a number above 0"),
        (json.dumps(benchmark() | {"machine": {}}).encode(), "it has no 'gpu'"),
    ],
)
def test_a_broken_file_is_named(tmp_path, content, message):
    file = tmp_path / "cuda.json"
    file.write_bytes(content)
    with pytest.warns(UserWarning, match=message) as warned:
        assert save_speedup(file, tmp_path) == []
    assert str(file) in str(warned[0].message)
