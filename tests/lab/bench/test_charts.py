"""The charts of benchmarks show the numbers of the files, and files without measurements have none."""

from pathlib import Path

import pytest

from phased_lab.bench import charts
from phased_lab.bench.cases import write
from phased_lab.bench.cuda import FLOAT32, SIZES
from phased_lab.bench.work import Work

MACHINE = {"processor": "a CPU", "gpu": "a GPU", "torch": "2.11"}


def case(part, seconds, **size):
    work = vars(Work(1, 10, 1, 4)) | size
    return {"part": part, "case": f"{part}, {size}", "work": work, "seconds": {name: [s, s, s] for name, s in seconds.items()}}


def shown(figure):
    """The rows of all data of a chart."""
    return [row for rows in figure.chart.to_dict()["datasets"].values() for row in rows]


def test_growth_shows_every_measured_point_and_its_first_panel_stands_alone():
    cases = [
        case(f"growth of {axis}", {"leak 0": 1e-3 * n, "nn.LSTM": 1e-2}, **{axis: n}) for axis in charts.AXES for n in (1, 2)
    ]
    cases += [case("growth of T", {"leak 0": 3e-3}, T=3)]  # nn.LSTM would take too long
    speed, growth = charts.draw_growth([{"machine": MACHINE, "plan": {}, "cases": cases}])
    ours = [(row["size"], row["ms"]) for row in shown(speed) if row["label"] == "PhasedLSTM, leak=0"]
    assert ours == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert [row["ms"] for row in shown(speed) if row["label"] == "nn.LSTM"] == [10.0, 10.0]
    assert len(growth.chart.to_dict()["concat"]) == 4
    assert (speed.name, growth.name, speed.note) == ("speed", "growth", "a CPU; torch 2.11.")


def test_speed_up_has_a_line_for_each_number_of_sequences_in_each_panel():
    peers = {"nn.LSTM": 2e-3, FLOAT32: 6e-3}
    cases = [
        case(SIZES, {f"leak {leak:g}": 1e-3 + leak} | peers, B=b, H=h) for b in (8, 32) for h in (64, 128) for leak in (0, 1e-3)
    ]
    (figure,) = charts.draw_speedup([{"machine": MACHINE, "plan": {}, "cases": cases}])
    found = {(row["panel"], row["label"], row["units"]): row["times"] for row in shown(figure)}
    assert len(found) == len(charts.PANELS) * 4
    assert found["Leak 0, nn.LSTM in TF32", "8 sequences", 64] == 2.0
    assert found["Leak 0.001, nn.LSTM in float32", "32 sequences", 128] == 3.0


@pytest.mark.parametrize("content", ["", '{"grid": {}}'])
def test_a_file_without_the_measurements_has_no_chart_and_a_broken_one_is_named(tmp_path: Path, content):
    write(tmp_path / "cuda.json", {"machine": MACHINE, "plan": {}, "cases": []})
    (tmp_path / "cpu.json").write_text(content)
    with pytest.warns(UserWarning, match=r"cpu\.json' must be a file of `phased bench`, and is not .* It is skipped"):
        assert charts.figures(tmp_path) == charts.figures(tmp_path / "nowhere") == []


def test_the_report_shows_the_benchmarks_of_its_results_on_the_page_and_as_pictures_and_names_a_broken_file(call, tmp_path: Path):
    cases = [case("growth of T", {"leak 0": 1e-3 * steps, "nn.LSTM": 1e-2}, T=steps) for steps in (1, 2)]
    write(tmp_path / "results" / "bench" / "cpu.json", {"machine": MACHINE, "plan": {}, "cases": cases})
    (tmp_path / "results" / "bench" / "cuda.json").write_text("[")
    told = call("report", "--results", tmp_path / "results", "--out", tmp_path / "out")
    assert told.exit_code == 0, told.output
    assert "cuda.json' must be a file of `phased bench`, and is not (JSONDecodeError('Expecting value: line 1" in told.output
    files = {file.name for file in (tmp_path / "out").iterdir()}
    assert files == {"report.html", "speed.png", "speed.svg", "growth.png", "growth.svg"}
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "A training step as the work grows" in page
    assert '"speed-growth"' in page
