"""With every gate open the layers are torch's: outputs, states, gradients, dropout and packed sequences."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from layers import EXACT, OPEN, Layer, as_hx, assert_close, each_direction, each_layer, some_state, states
from phased import PhasedGRU, PhasedLSTM
from strategies import clocks


def twins(make: type, *args: Any, **settings: Any) -> tuple[nn.LSTM | nn.GRU, Layer]:
    """A torch layer, and ours with its weights and every gate open."""
    theirs = (nn.LSTM if make is PhasedLSTM else nn.GRU)(*args, dtype=torch.float64, **settings)
    take = PhasedLSTM.from_lstm if make is PhasedLSTM else PhasedGRU.from_gru
    return theirs, take(theirs, **OPEN)


def as_it_is(value: Tensor) -> Any:
    return value


def assert_twins(
    theirs: nn.Module, ours: Layer, x: Tensor, time: Tensor, hx: Any, pack: Callable[[Tensor], Any] = as_it_is
) -> None:
    """The same outputs, final states and gradients to weights, input and initial state."""
    found = []
    for rnn in (theirs, ours):
        rnn.zero_grad()
        leaves = [leaf.detach().clone().requires_grad_() for leaf in (x, *(() if hx is None else states(hx)))]
        start = None if hx is None else as_hx(tuple(leaves[1:]))
        torch.manual_seed(5)
        output, final = rnn(pack(leaves[0]), start) if rnn is theirs else rnn(pack(leaves[0]), pack(time), start)
        output, *order = output if isinstance(output, PackedSequence) else (output,)
        results = [output, *states(final)]
        draw = torch.Generator().manual_seed(1)
        sum((r * torch.randn(r.shape, dtype=r.dtype, generator=draw)).sum() for r in results).backward()
        weights = [p.grad for name, p in rnn.named_parameters() if name.startswith(("weight", "bias"))]
        found.append([*results, *(leaf.grad for leaf in leaves), *weights, *order])
    for want, got in zip(*found, strict=True):
        torch.testing.assert_close(got, want, **EXACT)


@each_layer
@each_direction
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize("batch_first", [False, True], ids=["steps-first", "batch-first"])
@pytest.mark.parametrize("batched", [True, False], ids=["batched", "unbatched"])
@pytest.mark.parametrize("with_state", [True, False], ids=["hx", "no-hx"])
def test_with_every_gate_open_it_is_torchs_layer(make, layers, bias, batch_first, bidirectional, batched, with_state):
    theirs, ours = twins(make, 3, 5, layers, bias=bias, batch_first=batch_first, bidirectional=bidirectional)
    shape = ((4, 6) if batch_first else (6, 4)) if batched else (6,)
    x, time = torch.randn(*shape, 3, dtype=torch.float64), torch.zeros(shape, dtype=torch.int64)
    rows = layers * (2 if bidirectional else 1)
    hx = some_state(make, rows, *((4,) if batched else ()), 5) if with_state else None
    assert_twins(theirs, ours, x, time, hx)


@each_layer
@each_direction
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("dropout", [0.0, 0.4, 1.0])
def test_dropout_acts_between_layers_as_torchs_does(make, bidirectional, training, dropout):
    theirs, ours = twins(make, 3, 5, 3, dropout=dropout, bidirectional=bidirectional)
    theirs.train(training)
    ours.train(training)
    x = torch.randn(6, 4, 3, dtype=torch.float64)
    assert_twins(theirs, ours, x, torch.zeros(6, 4), None)


@each_layer
@each_direction
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("batch_first", [False, True], ids=["steps-first", "batch-first"])
@pytest.mark.parametrize("lengths, enforce_sorted", [([6, 6, 3, 1], True), ([3, 6, 1, 6], False)], ids=["sorted", "unsorted"])
@pytest.mark.parametrize("with_state", [True, False], ids=["hx", "no-hx"])
def test_packed_sequences_go_in_and_out_as_in_torch(
    make, bidirectional, layers, batch_first, lengths, enforce_sorted, with_state
):
    theirs, ours = twins(make, 3, 5, layers, batch_first=batch_first, bidirectional=bidirectional)
    x = torch.randn(*((4, 6) if batch_first else (6, 4)), 3, dtype=torch.float64)
    hx = some_state(make, layers * (2 if bidirectional else 1), 4, 5) if with_state else None
    pack = partial(pack_padded_sequence, lengths=torch.tensor(lengths), batch_first=batch_first, enforce_sorted=enforce_sorted)
    assert_twins(theirs, ours, x, torch.zeros(x.shape[:2]), hx, pack)


@each_layer
@each_direction
def test_a_packed_batch_is_a_padded_one_with_lengths(make, bidirectional):
    rnn = make(3, 5, 2, bidirectional=bidirectional, period=10.0, ratio_on=0.5, dtype=torch.float64)
    x, time, lengths = torch.randn(9, 4, 3, dtype=torch.float64), clocks(9, 4), torch.tensor([4, 9, 1, 6])
    want = rnn(x, time, lengths=lengths)
    packed = [pack_padded_sequence(value, lengths, enforce_sorted=False) for value in (x, time)]
    output, final = rnn(*packed)
    got, got_lengths = pad_packed_sequence(output)
    assert torch.equal(got_lengths, lengths)
    assert_close((got, final), want, **EXACT)


@each_layer
def test_a_trained_torch_layer_is_taken_over_with_its_options(make):
    theirs = (nn.LSTM if make is PhasedLSTM else nn.GRU)(3, 5, 2, False, True, 0.3, True, dtype=torch.float64).eval()
    take = PhasedLSTM.from_lstm if make is PhasedLSTM else PhasedGRU.from_gru
    ours = take(theirs, period=4.0, learn_period=False, leak=0.2)
    for name in ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional", "training"):
        assert getattr(ours, name) == getattr(theirs, name), name
    for name, weight in theirs.named_parameters():
        assert torch.equal(ours.get_parameter(name), weight)
        assert ours.get_parameter(name).data_ptr() != weight.data_ptr()
    assert (ours.period_l1_reverse == 4).all()
    assert not ours.period_l0.requires_grad
    assert ours.leak == 0.2


@each_layer
def test_code_that_flattens_torchs_parameters_runs_unchanged(make):
    """Models often call it before each forward pass."""
    rnn, x, time = make(3, 5), torch.randn(9, 4, 3), clocks(9, 4)
    want, _ = rnn(x, time)
    assert rnn.flatten_parameters() is None
    assert torch.equal(rnn(x, time)[0], want)
