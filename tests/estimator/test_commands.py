"""`phased fit`, `predict` and `score`: what they print, what they write, and how they fail."""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from patients import patients
from phased.cli.app import app
from phased.estimator import Events, PhasedClassifier

QUICK = ("--epochs", "2", "--device", "cpu")
X, Y = patients(30)


@pytest.fixture
def call():
    runner = CliRunner(env={"COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"})
    return lambda *arguments: runner.invoke(app, [str(argument) for argument in arguments])


def write(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def long_table(events):
    """A row per measurement, static variables at the first time."""
    for one in events:
        yield from ([one.ids[0], one.time[0], name, value] for name, value in zip(one.statics, one.static[0], strict=True))
        for time, row in zip(one.time, one.dense(), strict=True):
            yield from ([one.ids[0], time, name, value] for name, value in zip(one.variables, row, strict=True))


@pytest.fixture
def table(tmp_path):
    rows = ([*row[:3], "" if np.isnan(row[3]) else row[3]] for row in long_table(X))
    return write(tmp_path / "set-a.csv", ["id", "time", "variable", "value"], rows)


@pytest.fixture
def labels(tmp_path):
    return write(tmp_path / "outcomes.csv", ["id", "target"], zip(X.ids, Y, strict=True))


def test_the_three_commands_from_a_table_to_scores(call, table, labels, tmp_path):
    made = call("fit", table, "--labels", labels, "--unit", "h", "--out", tmp_path / "mortality", *QUICK)
    assert made.exit_code == 0, made.output
    assert "held out" in made.stdout

    said = call("predict", tmp_path / "mortality", table, "--out", tmp_path / "risk.csv")
    assert said.exit_code == 0, said.output
    rows = list(csv.reader((tmp_path / "risk.csv").read_text().splitlines()))
    assert rows[0] == ["id", "0", "1"]
    assert [row[0] for row in rows[1:]] == X.ids.tolist()
    given = np.array([row[1:] for row in rows[1:]], float)
    assert np.allclose(given.sum(1), 1.0)

    scored = call("score", tmp_path / "mortality", table, "--labels", labels, "--json")
    assert scored.exit_code == 0, scored.output
    found = json.loads(scored.stdout)
    assert {"auroc", "auprc", "sequences"} <= found.keys()
    assert found["sequences"] == 30
    model = PhasedClassifier.load(tmp_path / "mortality")
    events = Events.read(table, like=model.table_.settings)
    assert np.allclose(model.predict_proba(events), given)
    assert found["auroc"] == pytest.approx(model.evaluate(events, Y)["auroc"])
    assert "sequences  30" in call("score", tmp_path / "mortality", table, "--labels", labels).stdout


def test_columns_may_have_other_names_and_the_seed_decides(call, tmp_path):
    rows = ([*row[:3], -9.0 if np.isnan(row[3]) else row[3]] for row in long_table(X))
    table = write(tmp_path / "t.csv", ["who", "when", "what", "much"], rows)
    labels = write(tmp_path / "l.csv", ["patient", "died"], zip(X.ids, Y, strict=True))
    columns = ("--id", "who", "--time", "when", "--variable", "what", "--value", "much", "--missing", "-9", "--unit", "h")
    targets = ("--labels", labels, "--labels-id", "patient", "--target", "died")
    risks = []
    for seed, name in ((1, "a"), (1, "b"), (2, "c")):
        made = call("fit", table, *targets, *columns, "--seed", seed, "--out", tmp_path / name, *QUICK)
        assert made.exit_code == 0, made.output
        assert call("predict", tmp_path / name, table, "--out", tmp_path / f"{name}.csv").exit_code == 0
        risks.append((tmp_path / f"{name}.csv").read_text())
    assert risks[0] == risks[1] != risks[2]
    scored = call("score", tmp_path / "a", table, *targets, "--json")
    assert json.loads(scored.stdout)["sequences"] == 30


def test_numbers_and_targets_per_step(call, table, tmp_path):
    fractions = write(tmp_path / "f.csv", ["id", "target"], zip(X.ids, Y + 0.25, strict=True))
    assert call("fit", table, "--labels", fractions, "--unit", "h", "--out", tmp_path / "numbers", *QUICK).exit_code == 0
    assert call("predict", tmp_path / "numbers", table, "--out", tmp_path / "p.csv").exit_code == 0
    assert (tmp_path / "p.csv").read_text().splitlines()[0] == "id,prediction"
    scored = json.loads(call("score", tmp_path / "numbers", table, "--labels", fractions, "--json").stdout)
    assert {"r2", "rmse", "mae", "sequences"} == scored.keys()

    there = Events.read(table, unit="h")  # without the steps at which nothing was measured
    steps = zip(there.ids[there.sequence], there.time, (there.time > 20).astype(int), strict=True)
    each = write(tmp_path / "s.csv", ["id", "time", "target"], steps)
    arguments = ("--labels", each, "--labels-time", "time")
    made = call("fit", table, *arguments, "--unit", "h", "--out", tmp_path / "steps", *QUICK)
    assert made.exit_code == 0, made.output
    assert call("predict", tmp_path / "steps", table, "--out", tmp_path / "q.csv").exit_code == 0
    lines = (tmp_path / "q.csv").read_text().splitlines()
    assert lines[0] == "id,time,0,1"
    assert len(lines) == 1 + len(there.time)


@pytest.mark.parametrize(
    "changes, message",
    [
        (("--unit", "min"), "unit"),
        (("--labels", "nowhere.csv"), "nowhere.csv"),
        (("--id", "patient"), "patient"),
    ],
)
def test_what_does_not_fit_is_one_line_and_no_traceback(call, table, labels, tmp_path, changes, message):
    PhasedClassifier(units=4, epochs=1, random_state=0).fit(Events.read(table, unit="h"), Y).save(tmp_path / "model")
    result = call("score", tmp_path / "model", table, "--labels", labels, *changes)
    assert result.exit_code == 1
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_there_is_no_model(call, table, tmp_path):
    result = call("predict", tmp_path / "nowhere", table, "--out", tmp_path / "risk.csv")
    assert result.exit_code == 1
    assert "there is no folder" in result.stderr


@pytest.mark.skipif(not os.environ.get("PHASED_DATA"), reason="PHASED_DATA is not set")
def test_intensive_care_stays_in_their_own_layout(call, tmp_path):
    """150 real stays of PhysioNet 2012, as the challenge distributes them."""
    import tarfile

    archive = Path(os.environ["PHASED_DATA"]) / "physionet2012" / "set-a.tar.xz"
    if not archive.is_file():
        pytest.skip("PHASED_DATA has no physionet2012")
    with tarfile.open(archive) as tar:
        members = [member for member in tar if member.isfile()]
        chosen = sorted(member.name for member in members if member.name.endswith(".txt") and "Outcomes" not in member.name)[:150]
        tar.extractall(
            tmp_path, [member for member in members if member.name in chosen or "Outcomes" in member.name], filter="data"
        )
    outcomes = next(tmp_path.rglob("Outcomes-a.txt"))
    ids = {Path(name).stem for name in chosen}
    rows = [row for row in csv.reader(outcomes.read_text().splitlines()) if row[0] == "RecordID" or row[0] in ids]
    labels = write(tmp_path / "outcomes.csv", rows[0], rows[1:])
    arguments = ("--labels", labels, "--target", "In-hospital_death", "--unit", "h", "--merge", "mean")
    made = call("fit", (tmp_path / chosen[0]).parent, *arguments, "--out", tmp_path / "model", *QUICK)
    assert made.exit_code == 0, made.output
    assert {"Age", "Gender", "Height", "ICUType"} <= set(PhasedClassifier.load(tmp_path / "model").columns_.statics)


def test_files_of_the_users_are_not_replaced(call, table, labels, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "README.md").write_text("mine")
    made = call("fit", table, "--labels", labels, "--unit", "h", "--out", project, *QUICK)
    assert made.exit_code == 1
    assert "must be a new folder or that of a model, got one with 'README.md'" in made.stderr
    assert "epoch" not in made.output  # refused before the training
    assert (project / "README.md").read_text() == "mine"


def test_a_variable_that_the_model_does_not_know_is_left_out_as_the_message_says(call, table, labels, tmp_path):
    model = tmp_path / "model"
    assert call("fit", table, "--labels", labels, "--unit", "h", "--out", model, *QUICK).exit_code == 0
    more = tmp_path / "more.csv"
    more.write_text(table.read_text() + f"{X.ids[0]},{X.time[0]},NEW,1\n")
    said = call("predict", model, more, "--out", tmp_path / "risk.csv")
    assert said.exit_code == 1
    assert "Leave them out: --drop NEW." in said.stderr
    assert call("predict", model, more, "--out", tmp_path / "risk.csv", "--drop", "NEW").exit_code == 0
    assert call("score", model, more, "--labels", labels, "--drop", "NEW").exit_code == 0


def test_sequences_without_a_label_are_left_out_if_asked_for(call, table, labels, tmp_path):
    few = tmp_path / "few.csv"
    few.write_text("".join(labels.read_text().splitlines(keepends=True)[:21]) + "stranger,1\n")
    said = call("fit", table, "--labels", few, "--unit", "h", "--out", tmp_path / "model", *QUICK)
    assert said.exit_code == 1
    assert "Add --labelled to keep the sequences that have both." in said.stderr
    assert call("fit", table, "--labels", few, "--labelled", "--unit", "h", "--out", tmp_path / "model", *QUICK).exit_code == 0
    found = call("score", tmp_path / "model", table, "--labels", few, "--labelled", "--json")
    assert json.loads(found.stdout)["sequences"] == 20
    refused = call("score", tmp_path / "model", table, "--labels", few, "--labelled", "--labels-time", "time")
    assert "--labelled is for a target per sequence" in refused.stderr


def test_a_score_remembers_the_labels_of_the_fit_and_predictions_have_the_times_of_the_table(call, tmp_path):
    """Dates as text, several rows at one time, text, and events without a target."""
    rows = [
        [f"p{n}", f"2024-03-0{1 + step // 2} 14:30", "up" if (n + step) % 3 else "down", n * step]
        for n in range(24)
        for step in range(6)
    ]
    table = write(tmp_path / "t.csv", ["who", "when", "state", "x"], rows)
    grades = [[row[0], row[1], ["", "low", "high"][number % 3]] for number, row in enumerate(rows)][:-2]
    labels = write(tmp_path / "l.csv", ["person", "at", "grade"], grades)
    more = ("--labels", labels, "--labels-id", "person", "--labels-time", "at", "--target", "grade")
    model = tmp_path / "model"
    made = call("fit", table, *more, "--id", "who", "--time", "when", "--unit", "d", "--out", model, *QUICK)
    assert made.exit_code == 0, made.output
    assert "- state: down, up" in (model / "README.md").read_text()
    scored = call("score", model, table, "--labels", labels, "--json")
    assert scored.exit_code == 0, scored.output
    assert scored.stdout == call("score", model, table, *more, "--json").stdout
    said = call("predict", model, table, "--out", tmp_path / "p.csv")
    assert said.exit_code == 0, said.output
    with (tmp_path / "p.csv").open() as file:
        answers = list(csv.reader(file))
    assert answers[0] == ["id", "time", "high", "low"]
    assert [row[:2] for row in answers[1:]] == [row[:2] for row in rows]
    for options in (("--labels-time", "nowhere"), ("--labels-id", "nowhere"), ("--target", "person")):
        wrong = call("score", model, table, "--labels", labels, *options)
        assert wrong.exit_code == 1
        assert options[0].replace("--target", "--labels") in wrong.stderr or "two columns" in wrong.stderr
