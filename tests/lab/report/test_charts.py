"""The data of each chart are the numbers of its records."""

import math
from functools import cache

import numpy as np
import pytest

from phased.pictures.style import shades
from phased_lab.report import looks
from phased_lab.report.charts import figures
from phased_lab.report.seeds import compared, learning, main, sections
from phased_lab.report.theme import DIGITS, save, short
from phased_lab.runs.descriptor import BN_LSTM, LSTM, PHASED
from records import grouped, result

EXACT = 10.0 ** (1 - DIGITS)  # of drawn numbers, relative


def picked_by_its_legend(spec):
    """A name of the legend picks its marks."""
    (pick,) = spec["params"]
    assert (pick["name"], pick["select"]["fields"], pick["bind"]) == ("pick", ["label"], "legend")
    return "'param': 'pick'" in str(spec)


def of(found, key):
    return [group for group in found if group.key == key]


@pytest.fixture(scope="module")
def drawn(found):
    """Draw a chart of a section: its note, its specification, and its data sets as columns by the fields that they have."""

    @cache
    def figures_of(key):
        return {figure.name: figure for figure in figures(of(found, key))}

    def draw(key, name):
        figure = figures_of(key)[name]
        spec = figure.chart.to_dict()
        columns = {
            frozenset(rows[0]): {field: [row[field] for row in rows] for field in rows[0]} for rows in spec["datasets"].values()
        }
        return figure.note, spec, columns

    return draw


def with_fields(columns, *fields):
    """The data set that has these fields."""
    (found,) = (table for names, table in columns.items() if set(fields) <= names)
    return found


def drawn_from(shown, means, dots, mean):
    """Means, whiskers and dots of a chart are those of the records."""
    tests = 100 * np.array([[record.test for record in group.records] for group in shown])
    sides = tests.std(1, ddof=1)
    for field, wanted in ((mean, tests.mean(1)), ("low", tests.mean(1) - sides), ("high", tests.mean(1) + sides)):
        np.testing.assert_allclose(means[field], wanted, rtol=EXACT)
    np.testing.assert_allclose(dots["test"], tests.ravel(), rtol=EXACT)


def test_a_bar_is_the_mean_and_the_deviation_of_its_seeds_and_every_seed_is_a_dot(found, drawn):
    shown = main(of(found, "frequency"))
    _, spec, columns = drawn("frequency", "bars")
    assert picked_by_its_legend(spec)
    bars, dots = with_fields(columns, "mean"), with_fields(columns, "seed")
    drawn_from(shown, bars, dots, "mean")
    assert bars["label"] == [group.label for group in shown]
    assert bars["condition"] == [group.experiment.condition(group.condition) for group in shown]
    assert bars["paper"] == [short(100 * group.claim.value) for group in shown]


@pytest.mark.parametrize(
    "key, name, field, unit",
    [
        ("frequency", "learning", "test", 100),
        ("superimposed", "learning", "test", 100),
        ("adding", "learning", "test", 1),
        ("lipreading", "learning", "test", 100),
        ("lipreading", "loss", "test_loss", 1),
    ],
)
def test_a_line_is_the_mean_and_a_band_the_range_of_its_seeds_at_every_epoch(found, key, name, field, unit, drawn):
    shown = learning(of(found, key))
    _, spec, columns = drawn(key, name)
    assert picked_by_its_legend(spec)
    lines = with_fields(columns, "mean", "epoch")
    for column, over_seeds in (("mean", np.mean), ("low", np.min), ("high", np.max)):
        numbers = [[[getattr(point, field) for point in record.curve] for record in group.records] for group in shown]
        wanted = unit * np.concatenate([over_seeds(np.array(each), axis=0) for each in numbers])
        np.testing.assert_allclose(lines[column], wanted, rtol=EXACT)
    several = len({group.condition for group in shown}) > 1
    assert ("facet" in spec) == (several and key != "adding"), "a panel for each condition, but one for all errors"
    labels = [look.label for look in looks.looks(shown, of_conditions=key == "adding")]
    assert list(dict.fromkeys(lines["label"])) == list(dict.fromkeys(labels))


def test_an_error_is_drawn_on_a_logarithmic_axis_from_light_to_dark(found, drawn):
    _, spec, _ = drawn("adding", "learning")
    assert '"type": "log"' in str(spec).replace("'", '"')
    tones = [look.colour for look in looks.looks(main(of(found, "adding")), of_conditions=True)[::2]]
    brightness = [sum(bytes.fromhex(tone[1:])) for tone in tones]
    assert brightness == sorted(set(brightness), reverse=True)


def test_accuracy_against_updates_has_a_point_for_each_setting_of_the_condition_with_most(found, drawn):
    shown = compared(of(found, "frequency"))
    assert {group.condition for group in shown} == {"asynchronous"}
    _, spec, columns = drawn("frequency", "updates")
    assert picked_by_its_legend(spec)
    points, dots = with_fields(columns, "left"), with_fields(columns, "seed")
    updates = 100 * np.array([[1.0 if run.updates is None else run.updates for run in group.records] for group in shown])
    np.testing.assert_allclose(points["updates"], updates.mean(1), rtol=EXACT)
    drawn_from(shown, points, dots, "test")
    assert {"r_on 0.05 fixed, leak 0", "r_on learned from 0.05, leak 0, openness cost 0.1", "LSTM"} <= set(points["label"])


def test_gates_show_every_unit_of_every_seed_of_the_group_chosen(found, drawn):
    shown = [group for group in main(of(found, "frequency")) if group.gated]
    _, spec, columns = drawn("frequency", "gates")
    units = with_fields(columns, "opens")
    for index, group in enumerate(shown):
        chosen = np.array(units["group"]) == index
        for field, values in (("before", "period"), ("after", "period"), ("opened", "ratio_on"), ("opens", "ratio_on")):
            side = "before" if field in {"before", "opened"} else "after"
            wanted = [number for run in group.records for number in getattr(getattr(run, side), values)]
            np.testing.assert_allclose(np.array(units[field])[chosen], wanted, rtol=EXACT, atol=1e-9)
    (choice,) = spec["params"]
    assert choice["bind"]["options"] == list(range(len(shown)))
    assert choice["bind"]["labels"][choice["value"]] == "Phased LSTM, leak 0, asynchronous"


def test_a_raster_has_a_mark_for_every_update_and_says_what_its_clock_is(found, drawn):
    group = main(of(found, "adding"))[-2]
    note, _, columns = drawn("adding", "raster")
    marks = with_fields(columns, "w")
    record = group.records[0]
    clock = group.experiment.clock(record)
    for when, gates in enumerate((record.before, record.after)):
        period, shift, ratio = (np.array(values) for values in gates)
        phase = np.mod((clock.time[:, None] - shift) / period, 1.0)
        updates = marks["w"].count(when)
        assert abs(updates - int((phase < ratio).sum())) <= 2  # rounded the other way at the edge of a phase
    assert "The clock is made for this chart: 500 steps" in note
    assert note.endswith("% after.")


def test_a_model_has_one_colour_in_every_figure(found):
    for key in ("frequency", "superimposed"):
        shown = main(of(found, key))
        for group, look in zip(shown, looks.looks(shown), strict=True):
            (own,) = (kind.colour for kind in (PHASED, BN_LSTM, LSTM) if kind.name == group.model)
            assert look.colour == own or group.variant


def test_shades_are_all_different():
    assert [len(set(shades(PHASED.colour, count))) for count in (1, 2, 3, 9)] == [1, 2, 3, 9]


def test_notes_own_up_to_uneven_seeds_and_diverged_runs():
    lost = result(model="lstm", seed=1)
    lost["curve"][-1]["test"] = math.nan
    note = looks.seeds_note(
        grouped(*(result(seed=seed) for seed in range(3)), result(model="lstm"), lost, result(model="bn-lstm"))
    )
    assert "LSTM: 2" in note
    assert "BN-LSTM: 1" in note or "1 seed each" in note
    assert "1 of 2 of LSTM diverged, in no mean" in note


def test_every_chart_that_results_allow_is_written_as_png_and_svg(report):
    charts = {
        **dict.fromkeys(("frequency", "frequency-authors"), ("bars", "learning", "gates", "raster")),
        **dict.fromkeys(("superimposed", "adding"), ("learning", "gates", "raster")),
        "nmnist": ("learning", "updates", "gates", "raster"),
        "lipreading": ("loss", "learning", "gates", "raster"),
    }
    wanted = {f"{key}-{name}" for key, names in charts.items() for name in names} | {"frequency-updates"}
    assert {path.name for path in report.pictures} == {f"{name}.{form}" for name in wanted for form in ("png", "svg")}
    assert sorted(report.page.parent.iterdir()) == sorted([report.page, *report.pictures])
    for path in report.pictures:
        assert path.read_bytes().startswith(b"\x89PNG" if path.suffix == ".png" else b"<svg")


def test_the_same_results_give_the_same_pictures_with_their_title_and_note(tmp_path):
    def written():
        (bars, *_) = figures(next(iter(sections(grouped(result(), result(model="lstm"))))))
        return [file.read_bytes() for file in save(bars.chart, tmp_path, "bars", bars.title, bars.note)]

    first = written()
    assert written() == first
    assert b"Accuracy by condition" in first[1]
    assert b"1 seed each" in first[1]
