"""Text variables become variables of 0 and 1, one for each level."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased.estimator import Events, PhasedClassifier
from phased.estimator.tables.cells import MOST
from tables import assert_same, long


def table(columns, sequences=12, steps=3):
    """A wide table; each column is a function of sequence and step."""
    rows = [(sequence, step) for sequence in range(sequences) for step in range(steps)]
    made = {name: [column(*row) for row in rows] for name, column in columns.items()}
    return {"id": [row[0] for row in rows], "time": [row[1] for row in rows], **made}


def last_known(events):
    """The last-known value of each variable at each step, NaN before the first."""
    frame = pl.DataFrame(events.dense(), schema=list(events.variables)).fill_nan(None)
    return frame.with_columns(pl.all().forward_fill().over(pl.Series(events.sequence))).fill_null(float("nan"))


TEXTS = st.lists(st.sampled_from([None, "", "NA", "up", "down ", "odd"]), min_size=36, max_size=36)


@given(TEXTS, TEXTS.map(lambda texts: texts[:36]))
def test_the_last_known_values_are_the_present_level_in_both_layouts(texts, new):
    """`odd` is rare, so it may be the level "other"; a text that was never seen is that level too, or none."""
    texts = ["up", "down", None] * 12 if all(text in (None, "", "NA") for text in texts) else texts
    number = iter(range(36))
    wide = table({"x": lambda *_: 1.0, "state": lambda *_: texts[next(number)]})
    present = [None if text in (None, "", "NA") else text.strip() for text in texts]
    count = {text: len({row // 3 for row in range(36) if present[row] == text}) for text in {*present} - {None}}
    levels = sorted(text for text in count if count[text] >= 10)
    if not levels:
        with pytest.warns(UserWarning, match="'state' has .* different texts in .* and is left out"):
            assert Events.read(wide, static=[]).variables == ("x",)
        return
    events = Events.read(wide, static=[])
    named = (*levels, *(["other"] if len(count) > len(levels) else []))
    assert events.variables == ("x", *(f"state={level}" for level in named))
    assert events.settings.levels == {"state": named}
    shown = last_known(events)
    for row in range(36):
        known = [text for text in present[row - row % 3 : row + 1] if text is not None]
        level = None if not known else known[-1] if known[-1] in levels else "other"
        for each in named:
            value = shown[f"state={each}"][row]
            assert np.isnan(value) or value == (each == level)
        assert level is None or shown[f"state={level}"][row] == 1
    rows = zip(wide["id"], wide["time"], texts, strict=True)
    again = Events.read(long([row for *at, text in rows for row in ((*at, "x", "1.0"), (*at, "state", text))]), like=events)
    assert_same(again, events)
    assert again.settings.levels == events.settings.levels
    number = iter(range(36))
    Events.read(table({"x": lambda *_: 1.0, "state": lambda *_: new[next(number)]}), like=events)


def test_statics_keep_their_levels_and_numbers_stay_numbers():
    wide = table({"sex": lambda sequence, _: "fm"[sequence % 2], "dose": lambda *row: sum(row), "on": lambda *_: True}, 24)
    wide["sex"][0:3] = ["", "", ""]
    events = Events.read(wide)
    assert (events.variables, events.statics) == (("dose",), ("sex=f", "sex=m", "on"))
    np.testing.assert_array_equal(events.static[:3, :2], [[np.nan, np.nan], [0, 1], [1, 0]])
    new = Events.read({"id": [1, 1], "time": [0, 1], "sex": ["x", "x"], "dose": [1, 2]}, like=events)
    np.testing.assert_array_equal(new.static, [[0, 0, np.nan]])  # unseen, and no rare level was there to learn "other" from
    assert Events.read(wide, static=["sex"]).statics == ("sex=f", "sex=m")


def test_at_most_so_many_levels_and_none_for_free_text_or_numbers_as_text():
    def wide(column):
        return table({"x": lambda *row: row[1], "text": column}, 600)

    levels = Events.read(wide(lambda sequence, _: f"level {sequence % (MOST + 10):02}")).settings.levels["text"]
    assert (len(levels), levels[-1]) == (MOST + 1, "other")
    assert Events.read(wide(lambda sequence, step: f"{step}" if sequence else "n/a")).variables == ("x", "text")
    notes = wide(lambda sequence, step: f"note {sequence} {step}")
    with pytest.warns(UserWarning, match=r"'text' has 1,800 different texts in 1,800 rows.*left out.*\(drop: 'text'\)"):
        events = Events.read(notes)
    assert (events.variables, events.settings.drop) == (("x",), ("text",))
    assert Events.read(notes, like=events).variables == ("x",)  # without a warning


@pytest.mark.parametrize(
    "cell, got",
    [
        (lambda sequence, step: "7O" if (sequence, step) == (3, 1) else "70", "'7O' at id 3, time 1, .*row 10"),
        (lambda sequence, step: f"36,{sequence % 3}", "'36,0' at id 0, time 0, .*row 0"),
        (lambda sequence, step: f"-1,{step}00.5" if sequence else "n.m.", "'n.m.' at id 0, time 0, .*row 0"),
    ],
)
def test_a_number_that_became_text_is_named(cell, got):
    wide = table({"x": cell})
    for source in (wide, {"id": wide["id"], "time": wide["time"], "variable": ["x"] * len(wide["x"]), "value": wide["x"]}):
        with pytest.raises(ValueError, match=f"a value must be a finite number, got {got} of the table.*write 36,6 as 36.6"):
            Events.read(source)


@pytest.mark.parametrize("how, expected", [("mean", "down"), ("last", "down"), ("first", "up")])
def test_text_at_one_time_is_merged_to_the_last_or_the_first(how, expected):
    wide = table({"state": lambda _, step: ["up", "down"][step]}, steps=2)
    wide["time"] = [0] * 24
    events = Events.read(wide, merge=how, static=[])
    assert last_known(events)[f"state={expected}"].to_list() == [1.0] * 12


def test_a_target_that_is_a_column_of_text_is_refused_with_a_cure_that_can_be_followed():
    wide = table({"x": lambda _, step: float(step), "speaker": lambda sequence, _: "ab"[sequence % 2]}, 40)
    for y in (np.arange(40) % 2, np.array(["a", "b"] * 20)):
        with pytest.raises(ValueError, match=r"got static 'speaker=[ab]' equal to y .*\(drop: 'speaker'\)"):
            PhasedClassifier(units=4, epochs=1).fit(Events.read(wide), y)
    others = np.array(["b"] + ["a", "b"] * 19 + ["a"])
    PhasedClassifier(units=4, epochs=1).fit(Events.read(wide), others)
    PhasedClassifier(units=4, epochs=1).fit(Events.read(wide, drop=["speaker"]), ["a", "b"] * 20)
