"""The readout: the compiled core and torch agree, in outputs and in every gradient, for every instruction set."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from instructions import SETS, using
from phased.estimator.network import Network
from phased.estimator.readout import by_torch, read_out
from phased.estimator.summary import Pieces
from phased.ops.native import MISSING

needs_core = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
LENGTHS = torch.tensor([4, 0, 1, 3, 2])
COLUMNS, PIECES = 11, 3


def arguments(dtype, units=7, outputs=2, dropped=True, seed=0):
    """Arguments of `read_out`: equal states, as a closed unit has them, and padding that is not a number."""
    torch.manual_seed(seed)
    h = 2 * torch.rand(4, len(LENGTHS), units, dtype=dtype) - 1
    h[2, 3], h[1, 0], h[1, 4] = h[1, 3], h[2, 0], h[0, 4]
    for sequence, length in enumerate(LENGTHS):
        h[length:, sequence] = torch.nan
    keep = (torch.rand(len(LENGTHS), 3 * units, dtype=dtype) < 0.5) * torch.tensor(2.0, dtype=dtype) if dropped else None
    pieces = Pieces(COLUMNS, PIECES).to(dtype)
    pieces.measure(torch.randn(50, COLUMNS, dtype=dtype))
    head = nn.Linear(3 * units + PIECES * COLUMNS, outputs, dtype=dtype)
    return h.requires_grad_(), LENGTHS, keep, 2 * torch.randn(len(LENGTHS), COLUMNS, dtype=dtype), pieces, head


def by_hand(h, lengths, keep, summaries, pieces, head):
    """The definition, one sequence at a time."""
    rows = []
    for sequence, length in enumerate(lengths):
        own = h[:length, sequence]
        parts = [own[-1], own.mean(0), own.amax(0)] if length else [h.new_zeros(3 * h.shape[-1])]
        states = torch.cat(parts) * (1 if keep is None else keep[sequence])
        rows.append(torch.cat([states, pieces(summaries[sequence])]))
    return head(torch.stack(rows))


def results(read, given, weights):
    """The outputs of a readout, and its gradients to states, weights and biases."""
    y = read(*given)
    return [y, *torch.autograd.grad((y * weights).sum(), [given[0], given[-1].weight, given[-1].bias])]


@pytest.mark.parametrize("way", ["torch", *SETS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "units, outputs, dropped, lengths", [(7, 2, True, torch.int64), (16, 1, False, torch.int32), (33, 3, True, torch.int16)]
)
def test_it_reads_out_as_the_definition_says(way, dtype, units, outputs, dropped, lengths):
    given = arguments(dtype, units, outputs, dropped)
    weights = torch.randn(len(LENGTHS), outputs, dtype=dtype)
    if way == "torch":
        with torch.no_grad():
            given[0].nan_to_num_(0.5)
    expected = results(by_hand, given, weights)
    h, steps, *rest = given
    with nullcontext() if way == "torch" else using(way):
        found = results(by_torch if way == "torch" else read_out, (h, steps.to(lengths), *rest), weights)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other.nan_to_num())


@needs_core
def test_a_summary_that_is_not_a_number_leaves_no_number():
    h, lengths, keep, summaries, pieces, head = arguments(torch.float32)
    summaries[1, 4] = torch.nan
    y = read_out(h, lengths, keep, summaries, pieces, head)
    assert y[1].isnan().all()
    assert torch.isfinite(y[[0, 2, 3, 4]]).all()


@needs_core
@pytest.mark.parametrize("which", ["summaries", "lengths", "keep", "head"])
def test_sizes_that_do_not_fit_never_reach_the_core(which):
    h, lengths, keep, summaries, pieces, head = arguments(torch.float32)
    with torch.no_grad():
        h.nan_to_num_(0.5)
    wrong = {
        "summaries": (h, lengths, keep, summaries[:, :-1], pieces, head),
        "lengths": (h, lengths[:-1], keep, summaries, pieces, head),
        "keep": (h, lengths, keep[:, :-1], summaries, pieces, head),
        "head": (h, lengths, keep, summaries, pieces, nn.Linear(head.in_features - 1, 2)),
    }
    with pytest.raises((RuntimeError, ValueError)):
        read_out(*wrong[which])


def test_dropout_of_states_keeps_their_mean_and_ends_with_training():
    network = Network(3, 0, units=50, outputs=2, dropout=0.25)
    kept = network.kept_states(torch.zeros(1, 200, 50))
    assert kept.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    assert kept.mean().item() == pytest.approx(1, abs=0.02)
    assert network.eval().kept_states(torch.zeros(1, 200, 50)) is None
    assert not Network(3, 0, units=2, outputs=2, dropout=1.0).kept_states(torch.zeros(1, 2, 2)).any()
