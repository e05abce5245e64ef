"""Groups: runs that differ only in their seed are one group, and each run is counted once."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased_lab.report import findings
from phased_lab.report.seeds import compared, learning, main, sections, spread
from phased_lab.report.tables import leaks, seconds
from phased_lab.runs import discovery
from records import at_the_end, grouped, result

CONDITIONS = ("standard", "high", "asynchronous")


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=9), st.lists(st.sampled_from([math.nan, math.inf, -math.inf]), max_size=3))
def test_the_spread_has_the_samples_mean_and_deviation_and_counts_what_is_not_finite(values, lost):
    found = spread(values + lost)
    assert (found.n, found.lost) == (len(values), len(lost))
    assert np.isclose(found.mean, np.mean(values))
    assert np.isclose(found.deviation, np.std(values, ddof=1))
    assert (found.low, found.high) == (min(values), max(values))
    assert (spread(values[:1]).deviation, math.isnan(spread(lost).mean)) == (None, True)


def test_every_record_is_in_one_group_with_its_place_and_the_groups_are_in_the_order_of_the_catalogue(all_lines, found):
    assert sorted(run.name for group in found for run in group.records) == sorted(line["name"] for line in all_lines)
    for group in found:
        assert [run.seed for run in group.records] == [0, 1, 2, 3, 4]
        for run in group.records:
            place = run.experiment, run.study, run.scale, run.data, run.model, run.condition, run.variant
            own = group.experiment.name, group.study, group.scale, group.data, group.model, group.condition, group.variant
            assert place == own
    assert [group.label for group in grouped(*reversed(all_lines))] == [group.label for group in found]
    for experiment in discovery.experiments().values():
        wanted = [(condition, kind.name) for condition in experiment.conditions for kind in experiment.models]
        shown = main([group for group in found if group.experiment.name == experiment.name and not group.data])
        places = list(dict.fromkeys((group.condition, group.model) for group in shown))
        assert places == [place for place in wanted if place in places]


def test_a_run_made_twice_is_counted_once_and_the_later_one_counts():
    early, late = (
        result(end=0.7) | {"date": "2026-01-01"},
        result(end=0.9) | {"date": "2026-01-02", "name": "called otherwise since"},
    )
    for order in ((early, late), (late, early)):
        (group,) = grouped(*order)
        assert (group.test.n, group.test.mean) == (1, pytest.approx(at_the_end(late)))


def test_scales_studies_and_versions_of_the_data_are_never_mixed():
    lines = [result(scale="quick"), result(), result(study="sparsity", variant="leak 0.001"), result(data="authors")]
    found = grouped(*lines)
    assert [group.test.n for group in found] == [1] * 4
    assert [(section[0].key, section[0].data_words, [group.study for group in section]) for section in sections(found)] == [
        ("frequency", "waves as in the paper's text", ["frequency", "sparsity"]),
        ("frequency-authors", "waves as in the authors' code", ["frequency"]),
        ("frequency-quick", "waves as in the paper's text", ["frequency"]),
    ]


def test_a_figure_shows_its_own_study_and_of_a_model_the_variants_under_most_conditions(found):
    shown = main([group for group in found if group.key == "frequency"])
    assert {group.label for group in shown} == {"Phased LSTM, leak 0", "Phased LSTM, leak 0.001", "BN-LSTM", "LSTM"}
    assert len(shown) == 12
    usual = [result(condition=condition, leak=0.0) for condition in CONDITIONS]
    studied = [result(condition=condition, seed=1, study="peepholes", variant="peepholes") for condition in CONDITIONS]
    lone, lstm = result(), result(model="lstm")
    assert [group.label for group in main(grouped(*usual, *studied, lone, lstm))] == ["Phased LSTM, leak 0"] * 3 + ["LSTM"]
    assert len(main(grouped(*studied))) == 3, "alone it is the figure"
    words = [group for group in found if group.experiment.name == "lipreading"]
    assert {group.study for group in words} == {"lipreading", "lipreading-normalised", "lipreading-paper"}
    assert {group.study for group in main(words)} == {"lipreading"}
    assert {group.study for group in learning(words)} == {"lipreading", "lipreading-normalised"}, "beside those of the figure"


def test_accuracy_against_updates_compares_three_settings_of_gates_or_more(found):
    shown = compared([group for group in found if group.key == "frequency"])
    assert {group.study for group in shown} == {"frequency", "sparsity"}
    two = [result(leak=0.0), result(), result(model="lstm"), result(model="bn-lstm"), result(leak=0.0, peephole=True)]
    assert compared(grouped(*two)) == []
    assert len(compared(grouped(*two, result(leak=0.0, openness_cost=0.1)))) == 5
    assert compared([group for group in found if group.key == "adding"]) == [], "an error is not compared with updates"


def test_leaks_are_compared_between_runs_that_differ_in_nothing_else(found):
    pairs = findings.leak_pairs(found)
    assert len(pairs) == 3 + 1 + 1 + 4
    for (without, leaking), row in zip(pairs, leaks(found).rows, strict=True):
        assert without.settings | {"leak": None} == leaking.settings | {"leak": None}
        assert without.settings["leak"] == 0 < leaking.settings["leak"]
        sides = [np.array([run.test for run in side.records]) for side in (without, leaking)]
        within = abs(sides[0].mean() - sides[1].mean()) <= max(side.std(ddof=1) for side in sides)
        assert row[-1] == ("yes" if within else "no")


def test_what_is_missing_is_told_with_the_command_that_makes_it(found):
    assert findings.missing(found) == []
    lines = [result(seed=seed) for seed in range(3)] + [result(model="lstm", scale="quick", seed=seed) for seed in range(5)]
    frequency, superimposed, adding, *_ = findings.missing(grouped(*lines), "some/folder")
    assert "Phased LSTM, asynchronous: 3 of 5 seeds" in frequency.lacks
    assert "LSTM, asynchronous: 0 of 5 seeds" in frequency.lacks
    assert len(frequency.lacks) == 9
    assert superimposed.lacks == adding.lacks == ["no runs at the paper's scale"]
    assert frequency.command == "phased run frequency --scale paper --seeds 5 --out some/folder"


def test_every_bar_of_figure_3_has_a_number_of_the_paper():
    figure = discovery.experiment("frequency")
    assert set(figure.claims) == set(figure.figure_runs())
    assert all(0.5 <= claim.low <= claim.value <= claim.high <= 1.0 for claim in figure.claims.values())
    waves, sums = grouped(result(model="lstm", condition="high"), result("adding", condition="exp(6,8)"))
    assert (waves.claim, sums.claim) == (figure.claims["lstm", "high"], None)


def test_times_are_told_as_people_would():
    assert [seconds(value) for value in (0.5, 75, 150, 7200)] == ["0.5 s", "75 s", "2.5 min", "2 h"]
