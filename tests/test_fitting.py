"""Settings from the times of a data set: periods between its gaps and its spans, and an open ratio with which units open."""

import os
import re
import tarfile
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from phased import LogUniform, PhasedLSTM, fitted, never_open, updates, wake
from phased.clock import read
from strategies import clocks

pytestmark = pytest.mark.filterwarnings("ignore:ratio_on must leave a unit")  # most sequences here are short
FEW_UPDATES = r"ratio_on must leave a unit at least 20 updates in a sequence, got "
HOURS = [torch.arange(97) / 2, torch.arange(48) / 2, torch.arange(95) / 2]


def padded(sequences: list[Tensor]) -> tuple[Tensor, list[int]]:
    return torch.nn.utils.rnn.pad_sequence(sequences, padding_value=float("nan")), [len(entry) for entry in sequences]


def closed_share(sequences: list[Tensor], units: int = 1000) -> float:
    """The part of the units of a fitted layer that open in no sequence."""
    torch.manual_seed(0)
    return never_open(PhasedLSTM(1, units, **fitted(sequences)), sequences).double().mean().item()


def test_periods_reach_from_two_median_gaps_to_the_median_span():
    assert fitted(HOURS)["period"] == LogUniform(1.0, 47.0)


def test_every_form_of_the_same_times_gives_the_same_settings():
    batch, lengths = padded(HOURS)
    assert fitted(batch, lengths) == fitted(batch.T, lengths, batch_first=True) == fitted(HOURS)
    assert fitted([entry.tolist() for entry in HOURS]) == fitted(tuple(entry.numpy() for entry in HOURS)) == fitted(HOURS)
    one, fixed = HOURS[0], HOURS[0].numpy().copy()
    fixed.flags.writeable = False
    for form in (one.tolist(), [one], one.unsqueeze(1), list(one), fixed, [fixed]):
        assert fitted(form) == fitted(one)


@given(st.floats(1e-6, 1e6), st.floats(0, 1e6))
def test_periods_have_the_unit_of_time_and_do_not_depend_on_its_origin(unit, origin):
    law = fitted([(origin + entry.double()) * unit for entry in HOURS])["period"]
    assert (law.low, law.high) == pytest.approx((1.0 * unit, 47.0 * unit), rel=1e-5)


def test_microseconds_since_1970_lose_nothing():
    micros = [1_700_000_000_000_000 + torch.arange(1000) * 7 for _ in range(3)]
    assert fitted(micros)["period"] == LogUniform(14.0, 6993.0)
    assert fitted([entry.numpy().astype(np.uint64) for entry in micros])["period"] == LogUniform(14.0, 6993.0)


def test_steps_at_the_same_time_and_sequences_of_one_step_change_no_period():
    twice = [entry.repeat_interleave(3) for entry in HOURS]
    assert fitted([*twice, torch.tensor([5.0]), torch.tensor([])])["period"] == fitted(HOURS)["period"]


@pytest.mark.parametrize("steps", [2, 3, 5])
def test_few_steps_still_give_two_octaves_and_a_larger_ratio(steps):
    settings = fitted([clocks(steps, 1).flatten() for _ in range(200)])
    assert settings["period"].high / settings["period"].low >= 4
    assert 0.05 < settings["ratio_on"] <= 1


def test_many_steps_at_irregular_times_need_no_larger_ratio():
    sequences = [clocks(300, 1).flatten() for _ in range(20)]
    assert fitted(sequences)["ratio_on"] == 0.05
    assert fitted(sequences, ratio_on=0.2)["ratio_on"] == 0.2
    assert closed_share(sequences) == 0


@pytest.mark.parametrize("steps", [3, 10, 30, 100, 1000])
def test_on_a_clock_that_all_sequences_share_hardly_a_unit_stays_closed_and_none_after_waking(steps):
    sequences = [torch.arange(steps)] * 4
    assert closed_share(sequences) < 0.05
    rnn = PhasedLSTM(1, 500, **fitted(sequences))
    wake(rnn, sequences)
    assert not never_open(rnn, sequences).any()


def test_at_least_half_of_the_sequences_open_nearly_every_unit():
    torch.manual_seed(1)
    sequences = [clocks(12, 1).flatten() for _ in range(100)]
    rnn = PhasedLSTM(1, 200, **fitted(sequences))
    opened = torch.stack([updates(rnn, entry)[0] > 0 for entry in sequences]).double().mean(0)
    assert (opened >= 0.45).double().mean() > 0.97


def test_bursts_give_periods_from_within_a_burst_to_the_whole_recording():
    bursts = [(clocks(200, 1, span=1e-3) + 60.0 * n + torch.rand(1)).flatten() for n in range(40)]
    settings = fitted([torch.cat(bursts)])
    assert settings["period"].low < 1e-3
    assert settings["period"].high > 60 * 38
    assert settings["ratio_on"] < 0.4


def test_long_sequences_are_thinned_and_give_the_ratio_of_the_whole():
    assert fitted(clocks(100_000, 1, span=1e5))["ratio_on"] == 0.05
    assert fitted([torch.arange(1000)] * 300)["ratio_on"] == 0.05


@pytest.mark.parametrize(
    "steps, ratio, message", [(200, 0.05, "0.05, .* 10 .* 200 .* ratio_on=0.1 "), (15, 0.9, "0.9, .* ratio_on=1 ")]
)
def test_an_open_ratio_that_leaves_few_updates_is_a_warning_at_the_callers_line(steps, ratio, message):
    times = [clocks(1000, 1).flatten(), *(clocks(steps, 1).flatten() for _ in range(2)), torch.tensor([])]
    with pytest.warns(UserWarning, match=FEW_UPDATES + message) as found:
        assert fitted(times, ratio_on=ratio)["ratio_on"] == ratio
    assert [each.filename for each in found] == [__file__]


@pytest.mark.filterwarnings("error")
@given(st.integers(2, 1000), st.sampled_from([0.01, 0.05, 0.3, 1.0]))
def test_few_updates_are_a_warning_and_the_ratio_that_it_names_gives_none(steps, ratio):
    times = torch.arange(steps) ** 1.1
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        made = fitted(times, ratio_on=ratio)["ratio_on"]
    assert len(found) == (made < 1 and made * steps < 20)
    for each in found:
        named = float(re.search(r"Pass ratio_on=(\S+)", str(each.message)).group(1))
        assert named * steps >= 20 or named == 1
        assert fitted(times, ratio_on=named)["ratio_on"] == named


def test_the_number_of_updates_in_the_warning_is_that_of_a_layer():
    times = [clocks(200, 1).flatten() for _ in range(20)]
    with pytest.warns(UserWarning, match="a median of 10 updates in 200 steps"):
        rnn = PhasedLSTM(1, 2000, **fitted(times))
    counts = torch.stack([updates(rnn, each).double() for each in times])
    assert counts.mean().item() == pytest.approx(10, rel=0.05)


NO_GAP = r"a sequence with two steps at different times, got .* and none\. .* set period= by hand"
DATES = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[s]")


LATE = torch.arange(10).expand(3, 10) - torch.arange(3).unsqueeze(1)
REFUSED = [  # the times, the error, the message, other arguments
    *(
        (time, ValueError, NO_GAP, {})
        for time in (torch.zeros(5, 3), [torch.tensor([4.0])] * 7, [torch.tensor([])], torch.zeros(0, 4), torch.full((9,), 3))
    ),
    ([[0, 1], [0, float("nan"), 2]], ValueError, r"time must be finite, got nan at step 1 of sequence 1", {}),
    ([[0, 1], [5], [3.0, 4, 1]], ValueError, "must not go backwards, got 1.0 after 4.0 at step 2 of sequence 2", {}),
    ([[0.0, 1.0], [[1.0, 2.0]]], ValueError, r"time of sequence 1 must have shape \(steps,\), got \(1, 2\)", {}),
    (torch.zeros(2, 3, 4), ValueError, r"time must be a list of arrays, or have shape \(steps, batch\)", {}),
    (torch.tensor([1.7e9 + 10 * n for n in range(50)]), ValueError, "time must tell its steps apart", {}),
    ([[-1.7e308, 0.0, 1.7e308]], ValueError, r"time must span at most 1e\+300, got a median span of inf", {}),
    (LATE, ValueError, "batch_first=True", {}),
    (HOURS, ValueError, r"ratio_on must be in \(0, 1\], got 0", {"ratio_on": 0.0}),
    (HOURS, ValueError, "lengths must be None for a list", {"lengths": [1, 2, 3]}),
    (HOURS[0], ValueError, r"Pass time\[:length\]", {"lengths": [1]}),
    (DATES, TypeError, "time must be real numbers", {}),
    ([[1.0, 2.0], ["a", "b"]], TypeError, "time of sequence 1 must be real numbers", {}),
]


@pytest.mark.parametrize("time, error, message, options", REFUSED)
def test_times_that_fit_nothing_and_other_wrong_arguments_are_refused(time, error, message, options):
    with pytest.raises(error, match=message):
        fitted(time, **options)


def test_float32_times_on_the_grid_of_their_dtype_are_data_if_sequences_start_anew():
    even = torch.arange(2**25, 2**25 + 400, 4, dtype=torch.float32)
    assert fitted([even, even, even])["period"] == LogUniform(8.0, 396.0)


@given(st.lists(st.lists(st.integers(0, 50), max_size=6), min_size=1, max_size=6))
def test_flat_clocks_have_the_gaps_and_spans_of_their_sequences(sequences):
    sequences = [sorted(entry) for entry in sequences]
    flat = read([np.array(entry, np.int64) for entry in sequences])
    assert flat.gaps().tolist() == [after - before for entry in sequences for before, after in pairwise(entry)]
    assert flat.spans().tolist() == [entry[-1] - entry[0] if entry else 0 for entry in sequences]
    assert [flat.sequence(n).tolist() for n in range(len(sequences))] == sequences


def test_intensive_care_stays_get_the_periods_that_tuning_found():
    archive = Path(os.environ.get("PHASED_DATA", "none")) / "physionet2012" / "set-a.tar.xz"
    if not archive.is_file():
        pytest.skip("PHASED_DATA has no physionet2012/set-a.tar.xz")
    stays = []
    with tarfile.open(archive) as stored:
        for member in stored:
            if member.name.endswith(".txt") and "Outcomes" not in member.name:
                lines = stored.extractfile(member).read().decode().splitlines()[1:]
                stays.append(torch.tensor(sorted({60 * int(line[:2]) + int(line[3:5]) for line in lines})) / 60)
                if len(stays) == 100:
                    break
    settings = fitted(stays)
    assert settings["period"].low == pytest.approx(1.0, rel=0.1)
    assert settings["period"].high == pytest.approx(47.5, rel=0.02)
    assert settings["ratio_on"] == 0.05
    assert closed_share(stays, 200) == 0
