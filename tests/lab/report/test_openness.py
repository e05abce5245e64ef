"""The gates of a trained layer are shown as the layer computes them."""

import numpy as np
import torch

from phased import PhasedLSTM, updates
from phased_lab.report.openness import bends, by_period, is_open, openness
from phased_lab.runs import discovery
from phased_lab.runs.record import Gates
from records import records, result


def some_gates(units=20) -> tuple[PhasedLSTM, Gates]:
    rnn = PhasedLSTM(1, units, learn_ratio_on=True).eval()
    (gate,) = rnn.gates()
    return rnn, Gates(*(tuple(values.tolist()) for values in (gate.period, gate.shift, gate.ratio_on)))


def sample_times(line) -> np.ndarray:
    """When samples come in the figures of a run's gates."""
    (record,) = records(line)
    return discovery.experiment(record.experiment).clock(record).time


def test_openness_is_the_layers_own_and_open_units_are_those_it_updates():
    rnn, gates = some_gates()
    (gate,) = rnn.gates()
    time = sample_times(result())
    np.testing.assert_array_equal(is_open(gates, time).sum(0), updates(rnn, torch.from_numpy(time))[0].numpy())
    np.testing.assert_array_equal(openness(gates, time), gate._replace(leak=0.0)(torch.from_numpy(time)).detach().numpy())


def test_ordering_by_period_moves_whole_units():
    _, gates = some_gates()
    ordered = by_period(gates)
    assert list(ordered[0]) == sorted(gates.period)
    assert set(map(tuple, ordered.T)) == set(zip(*gates, strict=True))


def test_a_clock_is_of_its_conditions_kind_and_the_same_every_time():
    def clock(**where):
        return sample_times(result(**where))

    for where in ({}, {"experiment": "superimposed", "condition": "superimposed"}):
        np.testing.assert_array_equal(clock(**where), clock(**where))
        assert len(np.unique(np.diff(clock(**where)))) > 100
    np.testing.assert_allclose(np.diff(clock(condition="standard")), 1.0)
    np.testing.assert_allclose(np.diff(clock(condition="high")), 0.1)
    adding = {"experiment": "adding", "condition": "exp(6,8)"}
    assert len(clock(**adding)) == 500
    assert len(clock(**adding, task={"length": [90, 110]})) == 100


def test_a_line_drawn_through_its_bends_is_the_line():
    _, gates = some_gates(3)
    time = np.linspace(0, 100, 2000)
    k = openness(gates, time)[:, 1]
    t, height = bends(time, k)
    assert len(t) < len(time) / 2
    np.testing.assert_allclose(np.interp(time, t, height), k, atol=1e-6)
