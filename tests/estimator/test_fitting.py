"""Training: the best epoch is kept, interrupts and checkpoints, the budget of updates, and the report."""

import copy
import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from patients import QUICK as SMALL
from patients import X, Y, quick
from phased import updates
from phased.estimator import PhasedClassifier, PhasedRegressor, training
from phased.estimator.choosing import is_better
from phased.estimator.inputs import elapsed
from phased.learn.average import Best
from phased.learn.store import CHECKPOINT, load_checkpoint

QUICK = {**SMALL, "epochs": 4}
LONGER = {**QUICK, "epochs": 12, "learning_rate": 0.05, "patience": 2}


@pytest.fixture
def interrupted(monkeypatch):
    """The maker of a model whose training is interrupted when it shows an epoch for the nth time."""

    def fit(epoch, time=1, **options):
        seen, shown = [], training.described

        def stop(one):
            seen.append(one.epoch)
            if seen.count(epoch) == time:
                raise KeyboardInterrupt
            return shown(one)

        with monkeypatch.context() as patch:
            patch.setattr(training, "described", stop)
            return PhasedClassifier(verbose=True, **QUICK, **options).fit(X, Y)

    return fit


def test_the_weights_are_those_of_the_epoch_with_the_lowest_held_out_loss():
    report = quick(**LONGER).report_
    losses = [epoch.test for epoch in report.curve]
    assert report.best == 1 + int(np.argmin(losses))
    assert len(losses) == min(12, report.best + 2)
    assert report.scores["log_loss"] == pytest.approx(min(losses), rel=1e-4)


def test_the_model_is_trained_on_all_sequences_for_as_many_epochs_as_were_best(monkeypatch):
    once, asked, original = quick(**LONGER, refit=False), [], training.train

    def train(network, task, *given):
        asked.append((task, given))
        return original(network, task, *given)

    monkeypatch.setattr(training, "train", train)
    twice = PhasedClassifier(**LONGER).fit(X, Y)
    assert (once.report_.refitted, twice.report_.refitted) == (False, True)
    *_, (first, _), (whole, given) = asked
    assert set(first.train) < set(whole.train)
    assert sorted(whole.train) == list(range(len(X)))
    settings, last = given[2], given[3]
    assert (settings.epochs, settings.train, last.epochs) == (LONGER["epochs"], len(X), twice.report_.best)
    # What is reported was measured without the sequences held out.
    assert twice.report_.scores == once.report_.scores
    assert not np.array_equal(twice.predict_proba(X), once.predict_proba(X))


def test_a_second_training_that_learned_less_is_not_kept(monkeypatch):
    once, original = quick(**QUICK, refit=False), training.train

    def train(network, task, objective, optimiser, settings, best, *given):
        if not isinstance(best, Best):  # the training on all sequences learns nothing
            optimiser = replace(optimiser, rate=1e-9)
        return original(network, task, objective, optimiser, settings, best, *given)

    monkeypatch.setattr(training, "train", train)
    model = PhasedClassifier(**QUICK).fit(X, Y)
    assert (model.report_.refitted, model.report_.interrupted) == (False, False)
    assert np.array_equal(model.predict_proba(X), once.predict_proba(X))


def test_torchs_default_dtype_does_not_matter(tmp_path):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        model = PhasedClassifier(**QUICK, refit=np.True_).fit(X, Y)
        model.save(tmp_path / "model")
        found = PhasedClassifier.load(tmp_path / "model").predict_proba(X)
    finally:
        torch.set_default_dtype(before)
    assert np.allclose(found, quick(**QUICK).predict_proba(X), atol=1e-5)


def test_own_validation_sequences_stop_the_training_and_are_not_trained_on():
    model = PhasedClassifier(**QUICK).fit(X[:40], Y[:40], validation=(X[40:], Y[40:]))
    assert (model.report_.train, model.report_.held_out, model.report_.refitted) == (40, 20, False)
    assert model.report_.scores["auroc"] == pytest.approx(model.evaluate(X[40:], Y[40:])["auroc"])
    assert "on all sequences" not in str(model.report_)


def test_an_interrupt_of_the_training_on_all_sequences_keeps_the_model_before_it(interrupted, tmp_path):
    model = interrupted(1, time=2, checkpoint=tmp_path)  # the first epoch of the second training
    assert (model.report_.interrupted, model.report_.refitted) == (True, False)
    assert np.array_equal(model.predict_proba(X), quick(**QUICK, refit=False).predict_proba(X))
    resumed = PhasedClassifier(checkpoint=tmp_path, **QUICK).fit(X, Y)
    assert resumed.report_.refitted
    assert np.array_equal(resumed.predict_proba(X), quick(**QUICK).predict_proba(X))


def test_a_training_that_is_interrupted_keeps_the_best_epoch_and_continues_with_the_same_numbers(interrupted, tmp_path):
    model, whole = interrupted(2, checkpoint=tmp_path), quick(**QUICK)
    assert model.report_.interrupted
    assert model.report_.best in (1, 2)
    assert "interrupted" in str(model.report_)
    assert np.isfinite(model.predict_proba(X)).all()
    assert len(load_checkpoint(tmp_path / CHECKPOINT)["curve"]) == 2
    resumed = PhasedClassifier(checkpoint=tmp_path, **QUICK).fit(X, Y)
    assert [epoch[:3] for epoch in resumed.report_.curve] == [epoch[:3] for epoch in whole.report_.curve]
    assert np.array_equal(resumed.predict_proba(X), whole.predict_proba(X))


def test_the_checkpoint_of_other_data_is_refused(tmp_path):
    PhasedClassifier(checkpoint=tmp_path, **QUICK).fit(X, Y)
    with pytest.raises(ValueError, match="is of another training: task is"):
        PhasedClassifier(checkpoint=tmp_path, **QUICK).fit(X, 1 - Y)
    with pytest.raises(ValueError, match="is of another training: model is"):
        PhasedClassifier(checkpoint=tmp_path, **{**QUICK, "units": 7}).fit(X, Y)


@pytest.mark.filterwarnings("ignore:.* units open at no step")  # so few updates leave some of them closed
@pytest.mark.parametrize("budget", [0.3, 0.1, 0.02])
def test_a_budget_of_updates_holds_on_the_training_sequences(budget):
    model = quick(updates=budget, units=32)
    assert model.report_.updates <= budget
    time = elapsed(X, model.scaling_)
    rnn = model.network_.rnn
    made = sum(int(updates(rnn, torch.from_numpy(part)).sum()) for part in np.split(time, X.offset[1:-1]))
    assert made / (len(time) * 32) < budget + 0.03  # with the held-out sequences
    assert np.isfinite(model.predict_proba(X)).all()


def test_no_unit_is_closed_for_good():
    assert [quick(units=64, epochs=1, random_state=seed).report_.never_open for seed in range(3)] == [0, 0, 0]


def test_periods_are_those_of_the_data():
    report = quick(PhasedRegressor).report_
    low, middle, high = report.periods
    assert 0.5 * np.median(X.lengths) < report.span / report.gap < 2 * np.median(X.lengths)
    assert 0.9 * report.span / 4 < low < middle < high < 1.1 * report.span


def test_the_report_says_what_was_chosen_and_measured(classifier):
    text = str(classifier.report_)
    parts = ("54 to train on, 6 held out", "periods", "updates", "units never open", "auroc", "s each", "<- best")
    for part in (*parts, "the best is 4, then as many on all sequences"):
        assert part in text
    assert len(classifier.report_.curve) == 4
    assert classifier.report_.seconds_per_epoch > 0
    assert f"median gap {classifier.report_.gap:.3g} h, median span {classifier.report_.span:.3g} h" in text


@pytest.mark.parametrize("installed", [True, False])
def test_progress_is_shown_on_demand_with_rich_or_without(installed, capsys, monkeypatch):
    if not installed:
        monkeypatch.setattr(training, "find_spec", lambda name: None)
    PhasedClassifier(verbose=True, **{**SMALL, "epochs": 1}).fit(X, Y)
    out, err = capsys.readouterr()
    assert "epoch 1: loss" in (err if installed else out)
    PhasedClassifier(**{**SMALL, "epochs": 1}).fit(X, Y)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("where", ["phased.estimator.training.fit", "phased.learn.loop.train_once"])
def test_a_fit_that_is_interrupted_before_its_first_epoch_leaves_the_estimator_as_it_was(monkeypatch, where):
    new, fitted = PhasedClassifier(**QUICK), copy.deepcopy(quick(**QUICK))

    def stop(*_, **__):
        raise KeyboardInterrupt

    before = fitted.predict_proba(X)
    monkeypatch.setattr(where, stop)
    for model in (new, fitted):
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, 1 - Y)
    assert np.array_equal(fitted.predict_proba(X), before)
    with pytest.raises(NotFittedError):
        new.predict_proba(X)


def test_the_data_of_a_training_are_freed_and_only_the_device_in_use_is_asked_for_its_random_numbers(monkeypatch):
    original, fork, kept, forked = training.train, torch.random.fork_rng, [], []

    def train(network, task, *given):
        kept.extend(map(weakref.ref, (task.data, task.data.measured.value)))
        return original(network, task, *given)

    monkeypatch.setattr(training, "train", train)
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices=None, **_: forked.append(devices) or fork(devices=[]))
    PhasedClassifier(**QUICK).fit(X, Y)
    gc.collect()
    assert len(kept) == 4
    assert [ref() for ref in kept] == [None] * 4
    assert forked
    assert all(devices == [] for devices in forked)


def long_sequences(n=40, steps=60):
    """Sequences long enough for sparse gates."""
    random = np.random.default_rng(0)
    return [(np.sort(random.uniform(0, steps, steps)), random.normal(size=(steps, 1)) + n % 2) for n in range(n)]


def test_sparse_gates_and_gates_that_begin_open_are_tried_and_reported():
    report = PhasedClassifier(**QUICK, refit=False).fit(long_sequences(), np.arange(40) % 2).report_
    assert list(report.openings) == ["sparse", "open"]
    assert report.openings["sparse"]["updates"] < 0.5 < report.openings["open"]["updates"]
    assert report.openings[report.opening]["log_loss"] == report.scores["log_loss"]
    assert "<- kept" in str(report)
    for settings in ({"updates": 0.2}, {"cell": "gru"}):
        alone = PhasedClassifier(**QUICK, refit=False, **settings).fit(long_sequences(), np.arange(40) % 2).report_
        assert len(alone.openings) == 1


def test_a_dearer_candidate_has_to_be_better_by_a_standard_error():
    random = np.random.default_rng(0)
    losses = random.random(100)
    assert not is_better(losses, losses)
    assert not is_better(losses - 0.001 + random.normal(0, 0.1, 100), losses)
    assert is_better(losses - 0.1 + random.normal(0, 0.1, 100), losses)


def test_a_target_that_is_a_later_value_begins_as_the_last_value():
    random = np.random.default_rng(0)
    levels = [50 + random.normal(size=30).cumsum() for _ in range(40)]
    data = [(np.arange(30.0), np.stack([level, random.normal(size=30)], 1)) for level in levels]
    y = [np.append(level[1:], np.nan) for level in levels]
    model = PhasedRegressor(units=4, epochs=1, learning_rate=1e-9, refit=False, random_state=0).fit(data, y)
    error = np.abs(model.predict(data) - np.concatenate(levels)).mean()
    assert error < 0.6 * np.concatenate(levels).std()  # the rest is what the network adds before it is trained
    unrelated = [random.normal(size=30) for _ in levels]
    other = PhasedRegressor(units=4, epochs=1, refit=False, random_state=0).fit(data, unrelated)
    assert not other.network_.begun.any()


def test_sequences_are_held_out_among_those_with_a_target():
    random = np.random.default_rng(0)
    data = [(np.arange(4.0), random.normal(size=(4, 1))) for _ in range(12)]
    y = [np.full(4, np.nan) if number % 2 else random.normal(size=4) for number in range(12)]
    for seed in range(6):
        PhasedRegressor(**{**QUICK, "random_state": seed}).fit(data, y)


def test_balanced_weights_allow_a_class_that_is_only_held_out():
    y = np.where(np.arange(20) == 19, 2, np.arange(20) % 2)
    PhasedClassifier(**QUICK, class_weight="balanced").fit(X[:18], y[:18], validation=(X[18:20], y[18:]))


def test_one_held_out_sequence_decides_nothing():
    assert not is_better(np.zeros(1), np.ones(1))
