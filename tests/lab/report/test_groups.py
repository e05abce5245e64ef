"""Groups: runs that differ only in their seed are one group, and each run is counted once."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased_lab.report import findings, names
from phased_lab.report import groups as grouping
from phased_lab.report.groups import groups, learning, main, sections, spread
from phased_lab.runs import catalogue
from phased_lab.runs.sweep import runs_of
from records import records as made


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=9))
def test_the_spread_has_the_samples_mean_and_deviation(values):
    found = spread(values)
    assert found.n == len(values)
    assert np.isclose(found.mean, np.mean(values))
    assert np.isclose(found.deviation, np.std(values, ddof=1))
    assert (found.low, found.high) == (min(values), max(values))


def test_one_seed_has_no_deviation():
    assert spread([0.5]).deviation is None


def test_numbers_that_are_not_finite_are_counted_but_in_no_mean():
    found = spread([0.5, math.nan, 0.7, math.inf])
    assert (found.n, found.lost) == (2, 2)
    assert found.mean == pytest.approx(0.6)
    assert math.isnan(spread([math.nan]).mean)


def test_runs_that_differ_in_the_seed_only_are_one_group(result):
    (group,) = groups(made(*(result(seed=seed) for seed in (2, 0, 1))))
    assert group.seeds == [0, 1, 2]
    assert group.label == "Phased LSTM, leak 0.001"
    assert group.test.mean == pytest.approx(np.mean([run.test for run in group.records]))


def test_groups_are_named_as_their_records_say_and_no_more(result):
    found = groups(made(result(leak=0.0), result(leak=0.001), result(model="lstm")))
    assert [group.label for group in found] == ["Phased LSTM, leak 0", "Phased LSTM, leak 0.001", "LSTM"]


@pytest.fixture(scope="module")
def all_groups(all_lines):
    return groups(made(*all_lines))


@pytest.mark.parametrize("seed", range(20))
def test_a_group_has_one_name_whatever_else_is_loaded(all_lines, all_groups, seed):
    def labels(found):
        return {
            (*group.section, group.study, group.condition, record.name): group.label
            for group in found
            for record in group.records
        }

    draw = random.Random(seed)
    some = draw.sample(all_lines, draw.choice([1, 2, 5, 50]))
    everywhere = labels(all_groups)
    alone = labels(groups(made(*some)))
    assert alone
    assert alone.items() <= everywhere.items()


def test_the_same_words_in_two_studies_are_two_groups(result):
    found = groups(made(result(variant="of one name"), result(variant="of one name", study="sparsity", seed=1)))
    assert [(group.study, group.seeds) for group in found] == [("frequency", [0]), ("sparsity", [1])]


@pytest.mark.parametrize(
    "one, other, words",
    [
        ({"lr": 1e-3}, {"lr": 1e-4}, ["lr 0.0001", "lr 0.001"]),
        ({"epochs": 12}, {"epochs": 30}, ["epochs 12", "epochs 30"]),
        ({"task": {"points": [1, 2]}}, {"task": {"points": [1, 3]}}, ["points (1, 2)", "points (1, 3)"]),
        ({"lr": 1, "batch": 8}, {"lr": 2, "batch": 16}, ["batch 8, lr 1", "batch 16, lr 2"]),
    ],
)
def test_records_of_one_place_with_different_settings_are_never_averaged_and_named_by_what_differs(result, one, other, words):
    lines = [result(seed=seed, **changed) for seed in range(2) for changed in (one, other)]
    found = groups(made(*lines))
    assert [group.variant for group in found] == [", ".join(filter(None, ("leak 0.001", word))) for word in words]
    assert [group.seeds for group in found] == [[0, 1], [0, 1]]
    for group in found:
        assert len({record.settings.get("lr") for record in group.records}) == 1


def test_a_setting_that_older_records_do_not_have_separates_none(result):
    (group,) = groups(made(result(seed=0), result(seed=1, extra=True)))
    assert (group.label, group.seeds) == ("Phased LSTM, leak 0.001", [0, 1])


def test_records_with_two_values_of_a_new_setting_are_never_averaged_whatever_older_ones_lie_beside_them(result):
    found = groups(made(result(seed=0), result(seed=1, extra=1), result(seed=2, extra=2)))
    for group in found:
        assert len({record.settings["extra"] for record in group.records if "extra" in record.settings}) <= 1
    assert sorted(seed for group in found for seed in group.seeds) == [0, 1, 2]


def test_settings_that_say_where_a_run_was_made_set_nothing_apart(result):
    (group,) = groups(made(result(device="cpu", seed=0), result(device="cuda", workers=3, seed=1)))
    assert group.label == "Phased LSTM, leak 0.001"


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize("scale", ["paper", "quick"])
@pytest.mark.parametrize("name", catalogue.studies())
def test_runs_of_one_place_differ_in_nothing_but_the_seed(name, scale):
    options = catalogue.studies()[name].options
    choices = [{}] + [{option: value} for option, about in options.items() for value in about.values]
    seen = {}
    for chosen in choices:
        for run in runs_of(name, scale, range(2), options=chosen):
            place = run.experiment, run.study, run.data, run.network.model, run.condition, run.variant
            settings = run.settings | {"seed": None}
            assert seen.setdefault(place, settings) == settings, run.name


def test_a_setting_that_goes_with_the_condition_names_no_group(result):
    found = groups(made(result(condition="standard", lr=1e-3), result(condition="high", lr=1e-4)))
    assert [group.label for group in found] == ["Phased LSTM, leak 0.001", "Phased LSTM, leak 0.001"]


def test_nested_settings_set_groups_apart_and_whole_numbers_are_numbers(result):
    found = groups(made(result(gate={"shape": "square"}, leak=0), result(gate={"shape": "triangle"}, leak=0.0)))
    assert [group.variant for group in found] == ["leak 0, gate shape square", "leak 0, gate shape triangle"]


def test_fixed_learned_and_costly_ratios_are_called_so(result):
    lines = (result(ratio_on=0.1, learn_ratio_on=False, leak=0.0), result(), result(openness_cost=0.3, leak=0.0))
    shown = {group.variant for group in groups(made(*lines))}
    assert shown == {"r_on 0.1 fixed, leak 0", "leak 0.001", "r_on learned from 0.05, leak 0, openness cost 0.3"}
    assert shown <= {run.variant for study in ("frequency", "sparsity") for run in runs_of(study, seeds=[0])}  # as real runs do


def test_a_run_made_twice_is_counted_once_and_the_later_one_counts(result, at_the_end):
    early, late = result(end=0.7), result(end=0.9)
    early["date"], late["date"] = "2026-01-01", "2026-01-02"
    late["name"] = "called otherwise since"
    for order in ((early, late), (late, early)):
        (group,) = groups(made(*order))
        assert group.test.n == 1
        assert group.test.mean == pytest.approx(at_the_end(late))


def test_groups_come_in_the_order_of_the_papers_figures_conditions_and_models(all_lines):
    found = groups(made(*reversed(all_lines)))
    places = [(group.experiment.name, group.condition, group.model) for group in found]
    wanted = [
        (experiment.name, condition, kind.name)
        for experiment in catalogue.experiments().values()
        for condition in experiment.conditions
        if condition not in experiment.beyond
        for kind in experiment.models
    ]
    assert [place for place in dict.fromkeys(places) if place[1] != "both"] == wanted


def test_scales_are_never_mixed(result):
    found = groups(made(result(scale="quick", epochs=3), result(scale="paper")))
    assert [(group.scale, group.test.n, group.variant) for group in found] == [
        ("paper", 1, "leak 0.001"),
        ("quick", 1, "leak 0.001"),
    ]


def test_two_versions_of_the_data_are_two_sections_of_all_models(result):
    laws = ({"task": {"periods": law, "condition": "asynchronous"}} for law in ("paper", "authors"))
    phased = [result(**law) for law in laws]
    lstm = result(model="lstm", task={"periods": "paper", "condition": "asynchronous"})
    found = sections(groups(made(*phased, lstm)))
    assert [[group.label for group in some] for some in found] == [
        ["Phased LSTM, leak 0.001", "LSTM"],
        ["Phased LSTM, leak 0.001"],
    ]
    assert [some[0].key for some in found] == ["frequency", "frequency-authors"]
    assert [some[0].data_words for some in found] == ["waves as in the paper's text", "waves as in the authors' code"]


def test_the_curve_over_seeds_has_mean_least_and_greatest(result):
    lines = [result(seed=seed, epochs=4) for seed in range(3)]
    (group,) = groups(made(*lines))
    tests = np.array([[point["test"] for point in line["curve"]] for line in lines])
    curve = group.curve()
    np.testing.assert_array_equal(curve.epoch, [1, 2, 3, 4])
    np.testing.assert_allclose(curve.mean, tests.mean(0))
    np.testing.assert_array_equal(curve.low, tests.min(0))
    np.testing.assert_array_equal(curve.high, tests.max(0))


def test_a_figure_over_conditions_shows_the_settings_run_under_most_of_them(all_lines):
    frequency = [group for group in groups(made(*all_lines)) if group.experiment.name == "frequency"]
    shown = main(frequency)
    assert {group.label for group in shown} == {"Phased LSTM, leak 0", "Phased LSTM, leak 0.001", "BN-LSTM", "LSTM"}
    assert len(shown) == 12


@pytest.mark.parametrize("other", [{"peephole": True}, {"period": "exp U(0, 3)"}, {"weights": "normal"}])
def test_a_study_of_other_settings_stays_out_of_the_figure_under_however_many_conditions_it_was_run(result, other):
    conditions = ("standard", "high", "asynchronous")
    usual = [result(condition=condition) for condition in conditions]
    studied = [result(condition=condition, seed=1, **other) for condition in conditions]
    assert {run.name for group in main(groups(made(*usual, *studied))) for run in group.records} == {
        line["name"] for line in usual
    }
    assert len(main(groups(made(*studied)))) == 3  # alone it is the figure


def test_curves_of_a_named_study_are_drawn_beside_those_of_the_figure(result):
    usual = [result(experiment="lipreading", condition=name, study="lipreading") for name in ("high", "low")]
    beside = result(experiment="lipreading", condition="high", study="lipreading-normalised", variant="inputs normalised")
    other = result(experiment="lipreading", condition="high", study="lipreading-paper", variant="clips unchanged")
    found = groups(made(*usual, beside, other))
    assert [group.study for group in main(found)] == ["lipreading"] * 2
    assert sorted(group.study for group in learning(found)) == ["lipreading", "lipreading", "lipreading-normalised"]


def test_of_a_figures_own_study_variants_under_few_conditions_stay_out(result):
    usual = [result(condition=condition, leak=0.0) for condition in ("standard", "high", "asynchronous")]
    lone, lstm = result(leak=0.5), result(model="lstm")
    shown = main(groups(made(*usual, lone, lstm)))
    assert [group.label for group in shown] == ["Phased LSTM, leak 0"] * 3 + ["LSTM"]


def test_leaks_are_compared_between_runs_that_differ_in_nothing_else(all_lines):
    pairs = findings.leak_pairs(groups(made(*all_lines)))
    assert len(pairs) == 3 + 1 + 4
    for pair in pairs:
        assert pair.without.settings["leak"] == 0
        assert pair.leaking.settings["leak"] > 0
        assert pair.without.condition == pair.leaking.condition
        assert pair.faster == pytest.approx(2.5)
        assert pair.difference == pytest.approx(pair.without.test.mean - pair.leaking.test.mean)


def test_with_one_seed_nothing_is_said_of_the_spread(result):
    (pair,) = findings.leak_pairs(groups(made(result(leak=0.0), result())))
    assert pair.within_spread is None


def test_times_on_two_machines_are_not_compared(result):
    here, there = result(leak=0.0), result()
    there["machine"]["device"] = "Made-up GPU"
    (pair,) = findings.leak_pairs(groups(made(here, there)))
    assert pair.faster is None


def test_accuracy_against_updates_leaves_out_studies_of_something_else(result):
    lines = [
        result(leak=0.0),
        result(),
        result(leak=0.0, openness_cost=0.1),
        result(leak=0.0, peephole=True),
        result(leak=0.0, period="exp U(0, 3)"),
        result(model="lstm"),
    ]
    shown = grouping.compared(groups(made(*lines)))
    assert [group.variant for group in shown] == ["leak 0", "leak 0.001", "r_on learned from 0.05, leak 0, openness cost 0.1", ""]


def test_fewer_than_three_settings_of_gates_are_no_comparison_of_accuracy_against_updates(result):
    two = [result(leak=0.0), result(), result(model="lstm"), result(model="bn-lstm"), result(leak=0.0, peephole=True)]
    assert grouping.compared(groups(made(*two))) == []
    assert len(grouping.compared(groups(made(*two, result(leak=0.0, openness_cost=0.1))))) == 5
    assert grouping.compared([]) == []


def test_an_error_is_not_compared_with_updates(result):
    lines = [result(experiment="adding", condition="exp(2,4)", leak=leak) for leak in (0.0, 0.001, 0.01, 0.1)]
    assert grouping.compared(groups(made(*lines))) == []


def test_the_cost_counts_a_run_on_every_machine_it_was_made_on(result):
    here, there = result(), result()
    there["machine"]["device"] = "Made-up GPU"
    assert [(cost.device, cost.wall.n) for cost in findings.costs(made(here, there))] == [
        ("Made-up CPU, 2 cores", 1),
        ("Made-up GPU", 1),
    ]
    (group,) = groups(made(here, there))
    assert group.test.n == 1


def test_nothing_is_missing_from_five_seeds_of_everything(all_lines):
    assert findings.missing(groups(made(*all_lines))) == []


def test_what_is_missing_is_told_with_the_command_that_makes_it(result):
    lines = [result(seed=seed) for seed in range(3)] + [result(model="lstm", scale="quick", seed=seed) for seed in range(5)]
    frequency, superimposed, adding, *_ = findings.missing(groups(made(*lines)), "some/folder")
    assert "Phased LSTM, asynchronous: 3 of 5 seeds" in frequency.lacks
    assert "LSTM, asynchronous: 0 of 5 seeds" in frequency.lacks
    assert len(frequency.lacks) == 9
    assert frequency.command == "phased run frequency --scale paper --seeds 5 --out some/folder"
    assert len(superimposed.lacks) == 3
    assert len(adding.lacks) == 4


def test_the_papers_numbers_are_parts_of_one_for_every_bar_of_figure_3():
    figure = catalogue.experiment("frequency")
    assert set(figure.claims) == set(figure.figure_runs())
    assert len(figure.claims) == 9
    for claim in figure.claims.values():
        assert 0.5 <= claim.low <= claim.value <= claim.high <= 1.0


def test_a_groups_claim_is_that_of_its_model_and_condition(result):
    (waves,) = groups(made(result(model="lstm", condition="high")))
    assert waves.claim == catalogue.experiment("frequency").claims["lstm", "high"]
    (sums,) = groups(made(result(experiment="adding", condition="exp(6,8)")))
    assert sums.claim is None


def test_numbers_in_names_sort_as_numbers():
    mixed = ["leak 10", "leak 2", "leak 0.01", "leak 1e-1", "leak 0.001", "leak 0"]
    assert sorted(mixed, key=grouping.natural) == ["leak 0", "leak 0.001", "leak 0.01", "leak 1e-1", "leak 2", "leak 10"]


@given(st.text())
def test_a_slug_is_fit_for_a_file(name):
    slug = names.slug(name)
    assert slug
    assert not set(slug) & set("/\\:<>\"' ")
    assert slug not in {".", ".."}


def test_times_are_told_as_people_would():
    assert [names.seconds(value) for value in (0.5, 75, 150, 7200)] == ["0.5 s", "75 s", "2.5 min", "2 h"]


def test_settings_are_told_in_words():
    assert names.settings({"leak": 0.0, "period": "exp U(0, 3)"}) == "leak 0, period exp U(0, 3)"
    assert names.settings({"learn_ratio_on": True, "ratio_on": 0.05}) == "ratio on learned, ratio on 0.05"
    assert names.settings({"learn_ratio_on": False, "peephole": False}) == "ratio on fixed, no peephole"
    assert names.settings({"task.points": [15, 125], "peephole": True, "gone": None}) == "peephole, points (15, 125)"
    assert names.settings({}) == ""
