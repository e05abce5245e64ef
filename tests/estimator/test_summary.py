"""What the linear layer reads of the inputs: summaries of a sequence, and their pieces between quantiles."""

import math

import numpy as np
import pytest
import torch

from patients import patients
from phased.estimator import PhasedClassifier, PhasedRegressor
from phased.estimator.inputs import inputs, width
from phased.estimator.recent import RATE
from phased.estimator.scaling import Scaling
from phased.estimator.summary import LEAST_WIDTH, SPREAD, Pieces, columns, summaries

X, Y = patients(30)
SCALING = Scaling.of(X)
VARIABLES = len(X.variables)


def slowly(x):
    """The summaries of the steps x (T, D) of one sequence, as the documentation states them."""
    values, masks, time = x[:, :VARIABLES], x[:, VARIABLES : 2 * VARIABLES] > 0, x[:, -1].astype(float)
    rows = []
    for value, mask in zip(values.T.astype(float), masks.T, strict=True):
        measured = np.flatnonzero(mask)
        highest = lowest = roughness = change = 0.0
        if len(measured):
            highest = lowest = value[measured[0]]
            for step in range(measured[0] + 1, len(x)):
                kept, before = math.exp(-RATE * (time[step] - time[step - 1])), value[step - 1]
                highest = max(before + (highest - before) * kept, value[step])
                lowest = min(before + (lowest - before) * kept, value[step])
            roughness = np.abs(np.diff(value[measured])).mean() if len(measured) > 1 else 0.0
            change = value[-1] - value[measured[0]]
        rows.append((highest, lowest, roughness, change))
    return np.concatenate([x[-1], x.mean(0), *np.array(rows).T])


def batch():
    """All sequences padded, with their lengths and static inputs."""
    parts = np.split(inputs(X, SCALING), X.offset[1:-1])
    padded = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(part) for part in parts], padding_value=math.nan)
    return parts, padded, torch.from_numpy(X.lengths), torch.from_numpy(SCALING.static_inputs(X.static))


@pytest.mark.usefixtures("each_way")
def test_summaries_are_last_mean_recent_extremes_roughness_and_change_of_the_steps_so_far():
    parts, x, lengths, static = batch()
    last = summaries(x, static, lengths, VARIABLES, every_step=False)
    found = summaries(x, static, lengths, VARIABLES, every_step=True)
    assert last.shape == (30, columns(width(VARIABLES), VARIABLES, static.shape[1]))
    for sequence, part in enumerate(parts):
        expected = [np.concatenate([slowly(part[: step + 1]), static[sequence]]) for step in range(len(part))]
        assert np.allclose(found[: len(part), sequence], expected, atol=1e-5)
        assert np.allclose(last[sequence], expected[-1], atol=1e-5)


@pytest.mark.usefixtures("each_way")
def test_a_sequence_without_steps_has_summaries_of_zero():
    found = summaries(torch.zeros(1, 1, width(2)), torch.ones(1, 3), torch.tensor([0]), 2, every_step=False)
    assert found[0, :-3].abs().max() == 0
    assert found[0, -3:].tolist() == [1, 1, 1]


@pytest.mark.usefixtures("each_way")
def test_summaries_of_padding_are_finite_though_time_goes_back_in_it():
    x = torch.zeros(3, 2, width(1))
    x[:2, 0, -1] = torch.tensor([0.0, 20.0])  # median spans; the third step is padding
    x[..., 1] = 1.0
    assert summaries(x, torch.ones(2, 0), torch.tensor([2, 3]), 1, every_step=True).isfinite().all()


@pytest.fixture
def pieces():
    made = Pieces(3, 4)
    rows = torch.stack([torch.linspace(0, 8, 81), torch.full((81,), 7.0), (torch.arange(81) > 70).float()], 1)
    made.measure(rows)
    return made


def test_pieces_rise_one_after_another_from_quantile_to_quantile(pieces):
    cut = pieces.cut(torch.tensor([[-1.0, 0, 0], [3.0, 0, 0], [99.0, 0, 0]]))[..., 0]
    assert torch.allclose(cut, torch.tensor([[0.0, 0, 0, 0], [1, 0.5, 0, 0], [1, 1, 1, 1]]), atol=1e-6)


def test_a_piece_without_a_width_is_zero_and_a_mask_has_one_piece(pieces):
    assert pieces.slope[:, 1].abs().max() == 0
    assert (pieces.slope[:, 2] > 0).tolist() == [False, False, False, True]
    assert pieces.used == 4 + 0 + 1
    assert pieces(torch.tensor([[0.0, 1e9, 0.5]])).reshape(4, 3)[:, 1].abs().max() == 0


def test_pieces_are_centred_have_one_spread_and_do_not_magnify_rounding():
    rows = torch.randn(500, 2, generator=torch.Generator().manual_seed(0))
    made = Pieces(2, 8)
    made.measure(rows)
    found = made(rows)
    assert found.mean(0).abs().max() < 1e-6
    assert torch.allclose(found.std(0, correction=0), torch.full((16,), SPREAD), rtol=0.01)
    narrow = Pieces(1, 2)
    narrow.measure(1e9 + torch.rand(50, 1) * LEAST_WIDTH / 2)
    assert narrow.used == 0


def test_a_linear_layer_on_pieces_sees_that_both_low_and_high_are_bad():
    random = np.random.default_rng(0)
    level = random.uniform(-1, 1, 200)
    data = [(np.arange(3.0), np.full((3, 1), value)) for value in level]
    # With states dropped in nearly every batch, pieces have to learn it.
    model = PhasedClassifier(cell="gru", units=2, epochs=15, learning_rate=0.04, dropout=0.99, random_state=0)
    model.fit(data, np.abs(level) > 0.5)
    with torch.no_grad():
        model.network_.head.weight[:, : model.network_.sizes.states] = 0
    assert model.score(data, np.abs(level) > 0.5) > 0.97


def test_the_penalty_grows_with_pieces_and_falls_with_sequences():
    few, many = (PhasedClassifier(units=2, epochs=1, random_state=0, refit=False).fit(*patients(n)).network_ for n in (40, 120))
    assert few.decay / few.pieces.used == pytest.approx(3 * many.decay / many.pieces.used, rel=0.1)
    assert few.pairs.decay == pytest.approx(3 * many.pairs.decay, rel=0.1)
    with torch.no_grad():
        many.head.weight[:, many.sizes.states :] = 0
    assert few.penalty() > many.penalty() == many.pairs.penalty() > 0


def test_with_a_target_per_step_a_summary_has_one_piece():
    assert len(PhasedRegressor(units=2, epochs=1, random_state=0).fit(X, X.time).network_.pieces.start) == 1
    assert len(PhasedRegressor(units=2, epochs=1, random_state=0).fit(X, 1.0 * Y).network_.pieces.start) == 8
