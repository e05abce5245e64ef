"""Memory of a training, in a process of its own."""

import numpy as np
import pytest

from phased.estimator import Events, PhasedClassifier
from phased.estimator import batches as of_batches
from phased.estimator.batches import in_batches
from phased.estimator.targets import Targets
from phased_lab.bench.memory import FIT, measure


def test_a_training_takes_a_few_times_the_memory_of_its_sequences():
    found = measure(6000, epochs=1, convolutions=False, refit=False, updates=0.5)["bytes"]
    assert found[FIT] < 9 * found["the sequences"]  # the inputs of all steps alone are 13 times as large


@pytest.mark.parametrize("every_step", [False, True])
def test_long_sequences_are_read_in_smaller_batches_with_the_same_answers(every_step, monkeypatch):
    random = np.random.default_rng(0)
    lengths = [0, 3, 200, 90, 4, 30, 1, 60]
    events = Events.of([np.arange(float(length)) for length in lengths], [random.normal(size=(each, 2)) for each in lengths])
    y = events.time if every_step else np.arange(8) % 2.0
    model = PhasedClassifier(units=4, epochs=1, random_state=0, refit=False, device="cpu").fit(events, (y > 0).astype(int))
    answer = model._answer(events)
    monkeypatch.setattr(of_batches, "MOST_INPUTS", 12_000)
    np.testing.assert_allclose(model._answer(events), answer, rtol=1e-5, atol=1e-6)
    nothing = Targets(np.zeros(len(events)), None)
    data = model._sequences(events, nothing)
    parts = list(in_batches(data, np.arange(8)))
    assert sorted(np.concatenate(parts)) == list(range(8))
    assert len(parts) > 2
    assert max(len(part) * data.lengths[part].max() * data.width for part in parts if len(part) > 1) <= 12_000


def test_summaries_of_every_step_are_measured_on_some_of_the_rows(monkeypatch):
    from phased.estimator import network as of_network

    random = np.random.default_rng(0)
    events = Events.of([np.arange(30.0)] * 40, [random.normal(size=(30, 2)) for _ in range(40)])
    seen, measured = [], of_network.Pieces.measure
    monkeypatch.setattr(of_network, "ROWS", 100)
    monkeypatch.setattr(of_network.Pieces, "measure", lambda self, rows: seen.append(len(rows)) or measured(self, rows))
    PhasedClassifier(units=4, epochs=1, random_state=0, refit=False).fit(events, np.arange(1200) % 2)
    assert seen
    assert all(90 <= rows <= 100 for rows in seen)
