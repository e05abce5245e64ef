"""The pictures drawn from results show their numbers and the number of seeds."""

import math
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest

from phased.pictures.save import save
from phased.pictures.style import OTHERS, shades, styled
from phased_lab.report import looks
from phased_lab.report.drawing import bars, learning, pictures, tradeoff, trained
from phased_lab.report.groups import compared, groups, main
from phased_lab.runs import catalogue
from phased_lab.runs.descriptor import BN_LSTM, LSTM, PHASED, Kind
from phased_lab.runs.folder import read
from records import records


@pytest.fixture(scope="module")
def found(all_lines):
    return groups(records(*all_lines))


def of(found, experiment):
    return [group for group in found if group.experiment.name == experiment]


def made(*lines):
    return groups(records(*lines))


def texts(figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(mpl.text.Text))


def test_figure_3_has_a_bar_of_the_mean_for_every_model_and_condition(found):
    shown = main(of(found, "frequency"))
    figure = bars.draw_bars(shown)
    (axes,) = figure.axes
    tops = sorted(bar.get_y() + bar.get_height() for bar in axes.patches)
    assert np.allclose(tops, sorted(100 * group.test.mean for group in shown))
    words = texts(figure)
    for expected in (
        "standard, every 1 ms",
        "high resolution",
        "asynchronous",
        "5 seeds each",
        "paper scale",
        "Made-up CPU",
        "chance",
    ):
        assert expected in words


def test_figure_3_marks_every_seed(found):
    shown = main(of(found, "frequency"))
    (axes,) = bars.draw_bars(shown).axes
    dots = [height for dots in axes.collections if len(dots.get_offsets()) == 5 for height in dots.get_offsets()[:, 1]]
    assert np.allclose(sorted(dots), sorted(100 * run.test for group in shown for run in group.records))


def test_learning_curves_draw_the_mean_and_the_band(found):
    shown = main(of(found, "superimposed"))
    (axes,) = learning.draw_learning(shown).axes
    for group, line in zip(shown, axes.lines, strict=False):
        np.testing.assert_allclose(line.get_ydata(), 100 * group.curve().mean)
    assert len(axes.collections) == len(shown)


def test_the_adding_task_is_drawn_on_a_logarithmic_axis_from_light_to_dark(found):
    shown = main(of(found, "adding"))
    figure = learning.draw_learning(shown)
    assert figure.axes[0].get_yscale() == "log"
    assert "period exp U(6, 8)" in texts(figure)
    first = [look.colour for look in looks.by_condition(shown)[::2]]
    brightness = [sum(mpl.colors.to_rgb(colour)) for colour in first]
    assert brightness == sorted(brightness, reverse=True)


def test_a_model_has_one_colour_in_every_figure(found):
    for experiment in ("frequency", "superimposed"):
        for group, look in zip(main(of(found, experiment)), looks.by_variant(main(of(found, experiment))), strict=True):
            (own,) = (kind.colour for kind in (PHASED, BN_LSTM, LSTM) if kind.name == group.model)
            assert looks.colour(group) == own
            if not group.variant:
                assert look.colour == own


def test_a_model_whose_descriptor_names_no_colour_has_one_of_its_own(result, monkeypatch):
    about = replace(catalogue.experiment("frequency"), models=[Kind("phased", "One"), Kind("lstm", "Another"), BN_LSTM])
    monkeypatch.setattr(catalogue, "experiment", lambda name: about)
    found = made(result(), result(model="lstm"), result(model="bn-lstm"), result(model="lstm") | {"model": "unheard of"})
    colours = {group.model: looks.colour(group) for group in found}
    assert colours["bn-lstm"] == BN_LSTM.colour
    assert len({colours["phased"], colours["lstm"], colours["bn-lstm"]}) == 3
    assert {colours["phased"], colours["lstm"], colours["unheard of"]} <= set(OTHERS)


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_shades_are_all_different(count):
    assert len(set(shades(PHASED.colour, count))) == count


def test_accuracy_against_updates_shows_every_setting_of_the_condition_with_most(found):
    shown = compared(of(found, "frequency"))
    assert {group.condition for group in shown} == {"asynchronous"}
    words = texts(tradeoff.draw_tradeoff(shown))
    for expected in ("r_on 0.05 fixed", "r_on 0.2 fixed", "openness cost 0.1", "LSTM", "BN-LSTM"):
        assert expected in words


def test_learned_gates_show_every_unit_of_every_seed(found):
    group = main(of(found, "frequency"))[0]
    left, right = trained.draw_learned(group).axes
    assert len(left.collections[0].get_offsets()) == 5 * 110
    after = [ratio for run in group.records for ratio in run.after.ratio_on]
    assert np.allclose(sorted(right.collections[0].get_offsets()[:, 1]), sorted(after))


def test_a_raster_says_what_its_clock_is_and_how_much_is_open(found):
    words = texts(trained.draw_raster(main(of(found, "adding"))[0]))
    assert "500 steps" in words
    assert "% of 110 units x 500 samples are open" in words


def test_a_raster_of_a_model_without_gates_is_refused(found):
    (lstm, *_) = (group for group in of(found, "frequency") if group.model == "lstm")
    with pytest.raises(ValueError, match=r"the group 'LSTM' has no gates to draw. Choose one of a network with time gates"):
        trained.draw_raster(lstm)


def test_captions_own_up_to_uneven_seeds_and_diverged_runs(result):
    lost = result(model="lstm", seed=1)
    lost["curve"][-1]["test"] = math.nan
    note = looks.seeds_note(made(*(result(seed=seed) for seed in range(3)), result(model="lstm"), lost, result(model="bn-lstm")))
    assert "LSTM: 2" in note
    assert "BN-LSTM: 1" in note or "1 seed each" in note
    assert "1 of 2 of LSTM diverged, in no mean" in note


def test_a_group_that_diverged_altogether_is_called_so(result):
    lines = [result(experiment="superimposed", condition="superimposed", model=model) for model in ("phased", "lstm")]
    for point in lines[1]["curve"][3:]:
        point["test"] = None
    assert "LSTM: diverged" in texts(learning.draw_learning(made(*lines)))
    lines = [result(), result(model="lstm", end=0.6)]
    lines[1]["curve"][-1]["test"] = None
    assert "diverged" in texts(bars.draw_bars(made(*lines)))


def test_every_picture_that_results_allow_is_written_as_png_and_svg(full_folder, tmp_path):
    files = pictures.save_pictures(read(full_folder).records, tmp_path)
    names = {file.stem for file in files}
    assert names == {
        *(f"frequency-{kind}" for kind in ("bars", "learning", "updates", "gates", "raster")),
        *(f"superimposed-{kind}" for kind in ("learning", "gates", "raster")),
        *(f"adding-{kind}" for kind in ("learning", "gates", "raster")),
        *(f"nmnist-{kind}" for kind in ("learning", "updates", "gates", "raster", "confidence")),
        *(f"lipreading-{kind}" for kind in ("loss", "learning", "gates", "raster")),
    }
    assert {file.suffix for file in files} == {".png", ".svg"}
    assert sorted(tmp_path.iterdir()) == sorted(files)


def test_one_seed_of_one_epoch_at_the_quick_scale_is_enough_for_pictures(result, tmp_path):
    files = pictures.save_pictures(records(result(scale="quick", epochs=1)), tmp_path)
    assert {file.stem for file in files} == {f"frequency-quick-{kind}" for kind in ("bars", "learning", "gates", "raster")}


def test_of_very_many_conditions_and_settings_a_picture_shows_the_first(result):
    many = made(*(result(model="lstm", epochs=1, rate=rate) | {"condition": f"c{n}"} for n in range(9) for rate in range(9)))
    shown = pictures.few(many)
    assert len(shown) == pictures.MOST_GROUPS
    assert shown == many[: pictures.MOST_GROUPS]
    assert pictures.few(shown) == shown


def test_names_in_results_cannot_lead_out_of_the_folder(result, tmp_path):
    line = result(epochs=2)
    line["experiment"] = "../../elsewhere"
    files = pictures.save_pictures(records(line), tmp_path)
    assert {file.parent for file in files} == {tmp_path}
    assert all(file.is_file() for file in files)


def test_without_results_there_are_no_pictures(tmp_path):
    assert pictures.save_pictures([], tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_the_same_results_give_the_same_pictures(result, tmp_path):
    def written():
        with styled():
            return [file.read_bytes() for file in save(bars.draw_bars(made(result(), result(model="lstm"))), tmp_path, "bars")]

    assert written() == written()
