"""PhasedLSTM and PhasedGRU: torch's layers when every gate is open, and gated memories when not."""

import copy
import io
import math
import pickle
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from phased import PhasedGRU, PhasedLSTM
from phased.gate import TimeGate
from phased.init import Constant, LogUniform, Uniform
from strategies import BACKENDS, apart, clocks, f64, poisoned, ragged, seeds

Layer = PhasedLSTM | PhasedGRU
each_layer = pytest.mark.parametrize("make", [PhasedLSTM, PhasedGRU])
each_direction = pytest.mark.parametrize("bidirectional", [False, True])
OPEN: dict[str, Any] = {"ratio_on": 1.0, "gate": "square"}
EXACT: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-11}


def states(value: Any) -> tuple[Tensor, ...]:
    """(h, c) or (h,), however the layer returns it."""
    return (value,) if isinstance(value, Tensor) else tuple(value)


def as_hx(values: tuple[Tensor, ...]) -> Any:
    return values[0] if len(values) == 1 else values


def some_state(make: type, *shape: int, dtype: torch.dtype = torch.float64) -> Any:
    return as_hx(tuple(torch.randn(*shape, dtype=dtype) for _ in range(2 if make is PhasedLSTM else 1)))


def gates_of(rnn: Layer, suffix: str = "l0") -> TimeGate:
    return TimeGate(*(rnn.get_parameter(f"{name}_{suffix}").detach() for name in ("period", "shift", "ratio_on")))


# All gates open is torch's own layer


def twins(make: type, *args: Any, **settings: Any) -> tuple[nn.LSTM | nn.GRU, Layer]:
    """A torch layer, and ours with its weights and every gate open."""
    theirs = (nn.LSTM if make is PhasedLSTM else nn.GRU)(*args, dtype=torch.float64, **settings)
    take = PhasedLSTM.from_lstm if make is PhasedLSTM else PhasedGRU.from_gru
    return theirs, take(theirs, **OPEN)


def leaves_of(x: Tensor, hx: Any) -> list[Tensor]:
    return [x, *(() if hx is None else states(hx))]


def assert_twins(theirs: nn.Module, ours: Layer, x: Tensor, time: Tensor, hx: Any, seed: int = 0) -> None:
    """The same outputs, final states and gradients to weights, input and initial state."""
    found = []
    for rnn in (theirs, ours):
        rnn.zero_grad()
        leaves = [leaf.detach().clone().requires_grad_() for leaf in leaves_of(x, hx)]
        start = None if hx is None else as_hx(tuple(leaves[1:]))
        torch.manual_seed(seed)
        output, final = rnn(leaves[0], start) if rnn is theirs else rnn(leaves[0], time, start)
        results = [output, *states(final)]
        draw = torch.Generator().manual_seed(1)
        sum((r * torch.randn(r.shape, dtype=r.dtype, generator=draw)).sum() for r in results).backward()
        weights = [p.grad for name, p in rnn.named_parameters() if name.startswith(("weight", "bias"))]
        found.append([*results, *(leaf.grad for leaf in leaves), *weights])
    assert len(found[0]) == len(found[1])
    for want, got in zip(*found, strict=True):
        assert got.shape == want.shape
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
    shape = (6, 4) if batched else (6,)
    if batched and batch_first:
        shape = (4, 6)
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
    assert_twins(theirs, ours, x, torch.zeros(6, 4), None, seed=5)


def test_dropout_acts_in_training_only_and_never_after_the_last_layer():
    rnn = PhasedLSTM(3, 8, num_layers=2, dropout=0.5, leak=0.0, period=10.0, ratio_on=0.9)
    x, time = torch.randn(20, 4, 3), clocks(20, 4)
    assert not torch.equal(rnn(x, time)[0], rnn(x, time)[0])
    rnn.eval()
    assert torch.equal(rnn(x, time)[0], rnn(x, time)[0])
    one = PhasedLSTM(3, 8, dropout=0.5)
    assert torch.equal(one(x, time)[0], one(x, time)[0])


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
    shape = (4, 6) if batch_first else (6, 4)
    x = torch.randn(*shape, 3, dtype=torch.float64, requires_grad=True)
    settings = {"batch_first": batch_first, "enforce_sorted": enforce_sorted}
    packed_time = pack_padded_sequence(torch.zeros(shape), torch.tensor(lengths), **settings)
    hx = some_state(make, layers * (2 if bidirectional else 1), 4, 5) if with_state else None
    found = []
    for rnn in (theirs, ours):
        packed = pack_padded_sequence(x, torch.tensor(lengths), **settings)
        output, final = theirs(packed, hx) if rnn is theirs else ours(packed, packed_time, hx)
        assert isinstance(output, PackedSequence)
        weights = [parameter for name, parameter in rnn.named_parameters() if name.startswith(("weight", "bias"))]
        loss = output.data.square().sum() + sum(s.sin().sum() for s in states(final))
        found.append((output, states(final), torch.autograd.grad(loss, [x, *weights])))
    (their_output, their_final, their_grads), (our_output, our_final, our_grads) = found
    assert torch.equal(our_output.batch_sizes, their_output.batch_sizes)
    for name in ("sorted_indices", "unsorted_indices"):
        got, want = getattr(our_output, name), getattr(their_output, name)
        assert (got is None) == (want is None)
        assert got is None or torch.equal(got, want)
    torch.testing.assert_close(our_output.data, their_output.data, **EXACT)
    for got, want in zip((*our_final, *our_grads), (*their_final, *their_grads), strict=True):
        torch.testing.assert_close(got, want, **EXACT)


@each_layer
@each_direction
def test_a_packed_batch_is_a_padded_one_with_lengths(make, bidirectional):
    rnn = make(3, 5, 2, bidirectional=bidirectional, period=10.0, ratio_on=0.5, dtype=torch.float64)
    x, time, lengths = torch.randn(9, 4, 3, dtype=torch.float64), clocks(9, 4), torch.tensor([4, 9, 1, 6])
    want, want_final = rnn(x, time, lengths=lengths)
    packed = [pack_padded_sequence(value, lengths, enforce_sorted=False) for value in (x, time)]
    output, final = rnn(*packed)
    got, got_lengths = pad_packed_sequence(output)
    assert torch.equal(got_lengths, lengths)
    torch.testing.assert_close(got, want, **EXACT)
    for a, b in zip(states(final), states(want_final), strict=True):
        torch.testing.assert_close(a, b, **EXACT)


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


# Gates


@each_layer
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("gate", ["triangle", "square"])
def test_closed_gates_keep_the_state_bit_for_bit(make, backend, gate):
    """In eval the leak is gone: units that are closed at every step end as they began."""
    rnn = make(3, 8, 2, period=1000.0, shift=500.0, leak=0.3, gate=gate, backend=backend).eval()
    hx = some_state(make, 2, 4, 8, dtype=torch.float32)
    output, final = rnn(1e3 * torch.randn(30, 4, 3), clocks(30, 4, span=400.0), hx)
    for before, after in zip(states(hx), states(final), strict=True):
        assert torch.equal(before, after)
    assert torch.equal(output, states(hx)[0][1].expand(30, 4, 8))


@each_layer
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_unit_that_is_closed_at_a_step_does_not_change_at_it(make, backend):
    rnn = make(3, 20, period=LogUniform(1, 50), ratio_on=0.2, backend=backend).eval()
    x, time, hx = torch.randn(40, 4, 3), clocks(40, 4), some_state(make, 1, 4, 20, dtype=torch.float32)
    output, _ = rnn(x, time, hx)
    before = torch.cat([states(hx)[0], output[:-1]])
    closed = gates_of(rnn)(time) == 0
    assert 0.5 < closed.double().mean() < 0.95
    assert torch.equal(output[closed], before[closed])
    assert (output[~closed] != before[~closed]).all()


@each_layer
def test_a_closed_unit_passes_its_gradient_untouched(make):
    rnn = make(3, 8, period=1000.0, shift=500.0, leak=0.0)
    hx = as_hx(tuple(s.requires_grad_() for s in states(some_state(make, 1, 4, 8, dtype=torch.float32))))
    x = torch.randn(30, 4, 3, requires_grad=True)
    _, final = rnn(x, clocks(30, 4, span=400.0), hx)
    weights = torch.randn(4, 8)
    sum((s * weights).sum() for s in states(final)).backward()
    for s in states(hx):
        assert torch.equal(s.grad[0], weights)
    assert (x.grad == 0).all()


@each_layer
def test_the_leak_acts_in_training_only(make):
    rnn = make(3, 8, period=1000.0, shift=500.0, leak=0.3)
    tight = copy.deepcopy(rnn)
    tight.leak = 0.0
    x, time = torch.randn(30, 4, 3), clocks(30, 4, span=400.0)
    assert not torch.equal(rnn(x, time)[0], tight(x, time)[0])
    assert torch.equal(rnn.eval()(x, time)[0], tight(x, time)[0])
    assert torch.equal(rnn.eval()(x, time)[0], tight.eval()(x, time)[0])
    assert not torch.equal(rnn.train()(x, time)[0], tight(x, time)[0])


def test_every_layer_and_direction_sees_the_same_times():
    """The paper's Figure 2a: the timestamp is distributed to all layers."""
    rnn = PhasedLSTM(2, 6, 2, bidirectional=True, period=50.0, shift=0.0, ratio_on=0.2).eval()
    time = f64([[1.0], [2.0], [20.0], [30.0], [51.0], [80.0]])
    h, c = torch.randn(4, 1, 6), torch.randn(4, 1, 6)
    output, (h_n, c_n) = rnn(torch.randn(6, 1, 2), time, (h, c))
    closed_only = time[[2, 3, 5]]
    _, (h_held, c_held) = rnn(torch.randn(3, 1, 2), closed_only, (h, c))
    assert torch.equal(h_held, h)
    assert torch.equal(c_held, c)
    assert (h_n != h).all()
    assert (c_n != c).all()
    assert torch.equal(output[1, :, :6], output[2, :, :6])  # forwards, closed after step 1
    assert torch.equal(output[2, :, 6:], output[4, :, 6:])  # backwards, closed before step 4


# Each sequence for itself


@each_layer
@each_direction
@pytest.mark.parametrize("batch, hidden", [(4, 7), (5, 5), (1, 3)])
@pytest.mark.parametrize("leak", [0.0, 0.05])
def test_each_sequence_sees_only_its_own_clock(make, bidirectional, batch, hidden, leak):
    """Batched equals one by one; also where the batch is as large as the layer, and broadcasting could mix the two up."""
    rnn = make(3, hidden, 2, bidirectional=bidirectional, period=LogUniform(2, 40), ratio_on=0.4, leak=leak, dtype=torch.float64)
    x, time = torch.randn(15, batch, 3, dtype=torch.float64), clocks(15, batch)
    hx = some_state(make, 4 if bidirectional else 2, batch, hidden)
    output, final = rnn(x, time, hx)
    for b in range(batch):
        alone, alone_final = rnn(x[:, b], time[:, b], as_hx(tuple(s[:, b] for s in states(hx))))
        torch.testing.assert_close(output[:, b], alone, **EXACT)
        for got, want in zip(states(final), states(alone_final), strict=True):
            torch.testing.assert_close(got[:, b], want, **EXACT)


@given(seeds, ragged, st.booleans(), st.booleans(), st.sampled_from([PhasedLSTM, PhasedGRU]), st.sampled_from([0.0, 0.05]))
def test_padding_changes_nothing(seed, lengths, bidirectional, batch_first, make, leak):
    """A ragged batch, NaN in its padding, equals its sequences one by one: outputs, states and gradients, both directions."""
    torch.manual_seed(seed)
    rnn = make(
        2, 4, 2, bidirectional=bidirectional, batch_first=batch_first, period=8.0, ratio_on=0.5, leak=leak, dtype=torch.float64
    )
    for parameter in rnn.parameters():
        parameter.requires_grad_()
    batch, length = len(lengths), torch.tensor(lengths)
    x, time = torch.randn(9, batch, 2, dtype=torch.float64), clocks(9, batch)
    padding = torch.arange(9).unsqueeze(-1) >= length
    x_pad, time_pad = x.masked_fill(padding.unsqueeze(-1), float("nan")), time.masked_fill(padding, float("nan"))
    hx = some_state(make, 4 if bidirectional else 2, batch, 4)

    alone = [rnn(x[:n, b], time[:n, b], as_hx(tuple(s[:, b] for s in states(hx)))) for b, n in enumerate(lengths)]
    loss = sum(output.square().sum() + sum(s.sin().sum() for s in states(final)) for output, final in alone)
    learned = list(rnn.parameters())
    want_grads = torch.autograd.grad(loss, learned, allow_unused=True)

    if batch_first:
        x_pad, time_pad = x_pad.transpose(0, 1), time_pad.T
    with poisoned():
        output, final = rnn(x_pad, time_pad, hx, lengths=length)
        loss = output.square().sum() + sum(s.sin().sum() for s in states(final))
        got_grads = torch.autograd.grad(loss, learned, allow_unused=True)
    output = output.transpose(0, 1) if batch_first else output
    for b, (want, want_final) in enumerate(alone):
        torch.testing.assert_close(output[: lengths[b], b], want, **EXACT)
        assert (output[lengths[b] :, b] == 0).all()
        for got_state, want_state in zip(states(final), states(want_final), strict=True):
            torch.testing.assert_close(got_state[:, b], want_state, **EXACT)
    for got, want in zip(got_grads, want_grads, strict=True):
        if got is not None:
            torch.testing.assert_close(got, torch.zeros_like(got) if want is None else want, rtol=1e-8, atol=1e-8)


@each_layer
@each_direction
def test_an_empty_sequence_keeps_its_initial_state(make, bidirectional):
    rnn = make(3, 5, 2, bidirectional=bidirectional)
    hx = some_state(make, 4 if bidirectional else 2, 3, 5, dtype=torch.float32)
    output, final = rnn(torch.randn(6, 3, 3), clocks(6, 3), hx, lengths=[6, 0, 2])
    assert (output[:, 1] == 0).all()
    for before, after in zip(states(hx), states(final), strict=True):
        assert torch.equal(before[:, 1], after[:, 1])
        assert not torch.equal(before[:, 0], after[:, 0])


@each_layer
@each_direction
@pytest.mark.parametrize("shape", [(0, 3), (6, 0), (0, 0), (0,)])
def test_no_steps_and_no_sequences_are_fine(make, bidirectional, shape):
    rnn = make(3, 5, 2, bidirectional=bidirectional)
    rows = 4 if bidirectional else 2
    hx = some_state(make, rows, *shape[1:], 5, dtype=torch.float32)
    output, final = rnn(torch.randn(*shape, 3), torch.zeros(shape), hx)
    assert output.shape == (*shape, 10 if bidirectional else 5)
    for before, after in zip(states(hx), states(final), strict=True):
        assert torch.equal(before, after)
    (output.sum() + sum(s.sum() for s in states(final))).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in rnn.parameters())


@pytest.mark.parametrize("lengths", [[], torch.tensor([], dtype=torch.int64)], ids=["list", "tensor"])
def test_a_batch_of_no_sequences_has_no_lengths(lengths):
    output, _ = PhasedLSTM(3, 5)(torch.randn(6, 0, 3), torch.zeros(6, 0), lengths=lengths)
    assert output.shape == (6, 0, 5)


@each_layer
def test_the_reverse_direction_starts_at_each_sequences_own_end(make):
    rnn = make(3, 5, bidirectional=True, period=LogUniform(2, 40), ratio_on=0.4, dtype=torch.float64).eval()
    backwards = make(3, 5, dtype=torch.float64, period=1.0).eval()
    backwards.check_time = False
    names = [name for name, _ in backwards.named_parameters()]
    backwards.load_state_dict({name: rnn.get_parameter(f"{name}_reverse") for name in names})
    x, time, lengths = torch.randn(9, 4, 3, dtype=torch.float64), clocks(9, 4), [9, 2, 0, 5]
    output, final = rnn(x, time, lengths=lengths)
    for b, n in enumerate(lengths):
        want, want_final = backwards(x[:n, b].flip(0), time[:n, b].flip(0))
        torch.testing.assert_close(output[:n, b, 5:], want.flip(0), **EXACT)
        for got, state in zip(states(final), states(want_final), strict=True):
            torch.testing.assert_close(got[1, b], state[0], **EXACT)


@given(seeds, st.integers(0, 12), st.sampled_from([PhasedLSTM, PhasedGRU]), st.booleans())
def test_splitting_a_sequence_in_two_and_carrying_the_state_changes_nothing(seed, cut, make, training):
    torch.manual_seed(seed)
    rnn = make(2, 4, 2, period=8.0, ratio_on=0.5, leak=0.05, dtype=torch.float64).train(training)
    x, time, hx = torch.randn(12, 3, 2, dtype=torch.float64), clocks(12, 3), some_state(make, 2, 3, 4)
    whole, whole_final = rnn(x, time, hx)
    first, between = rnn(x[:cut], time[:cut], hx)
    second, final = rnn(x[cut:], time[cut:], between)
    torch.testing.assert_close(torch.cat([first, second]), whole, **EXACT)
    for got, want in zip(states(final), states(whole_final), strict=True):
        torch.testing.assert_close(got, want, **EXACT)


def test_the_gradient_flows_through_a_carried_state():
    rnn = PhasedLSTM(2, 4, period=8.0, ratio_on=0.5, dtype=torch.float64)
    x, time = torch.randn(12, 3, 2, dtype=torch.float64), clocks(12, 3)
    whole = torch.autograd.grad(rnn(x, time)[0][-1].sum(), rnn.weight_hh_l0)
    _, between = rnn(x[:5], time[:5])
    parts = torch.autograd.grad(rnn(x[5:], time[5:], between)[0][-1].sum(), rnn.weight_hh_l0)
    torch.testing.assert_close(parts, whole, **EXACT)


# Settings


def test_a_number_a_law_and_a_tensor_set_the_gates_of_every_layer():
    mine = torch.tensor([1.0, 2.0, 3.0, 4.0])
    rnn = PhasedLSTM(2, 4, 2, bidirectional=True, period=mine, shift=2, ratio_on=Uniform(0.2, 0.4))
    for suffix in ("l0", "l0_reverse", "l1", "l1_reverse"):
        assert rnn.get_parameter(f"period_{suffix}").tolist() == [1, 2, 3, 4]
        assert rnn.get_parameter(f"shift_{suffix}").tolist() == [2] * 4
        ratio = rnn.get_parameter(f"ratio_on_{suffix}")
        assert ((ratio >= 0.2) & (ratio < 0.4)).all()


def test_a_list_sets_the_gates_layer_by_layer():
    """As the paper's lip reader needs it: U(10, 1000) in the first merged layer, U(500, 3000) in the second."""
    rnn = PhasedLSTM(
        2,
        50,
        3,
        period=[Uniform(10, 1000), Uniform(500, 3000), 7.0],
        shift=[None, 0.0, torch.arange(50)],
        ratio_on=[0.1, Constant(0.2), 1.0],
        learn_period=[True, False, True],
        learn_shift=[False, False, True],
        learn_ratio_on=[True, False, False],
    )
    assert 10 <= rnn.period_l0.min() < rnn.period_l0.max() < 1000
    assert 500 <= rnn.period_l1.min() < rnn.period_l1.max() < 3000
    assert (rnn.period_l2 == 7).all()
    assert (rnn.shift_l0 < rnn.period_l0).all()
    assert (rnn.shift_l1 == 0).all()
    assert rnn.shift_l2.tolist() == list(range(50))
    assert [rnn.get_parameter(f"ratio_on_l{n}")[0].item() for n in range(3)] == [0.1, 0.2, 1.0]
    for name, flags in {"period": (1, 0, 1), "shift": (0, 0, 1), "ratio_on": (1, 0, 0)}.items():
        assert [rnn.get_parameter(f"{name}_l{n}").requires_grad for n in range(3)] == list(map(bool, flags))


def test_by_default_the_paper_learns_period_and_shift_and_fixes_the_ratio():
    rnn = PhasedLSTM(2, 4)
    assert rnn.period_l0.requires_grad
    assert rnn.shift_l0.requires_grad
    assert not rnn.ratio_on_l0.requires_grad
    assert (rnn.ratio_on_l0 == 0.05).all()
    assert rnn.leak == 0.001


@pytest.mark.parametrize("name", ["period", "shift", "ratio_on"])
@pytest.mark.parametrize("learned", [True, False])
def test_each_of_the_three_is_learned_or_frozen(name, learned):
    flags = {f"learn_{other}": (other == name) == learned for other in ("period", "shift", "ratio_on")}
    rnn = PhasedLSTM(2, 4, period=8.0, ratio_on=0.5, **flags)
    rnn(torch.randn(20, 3, 2), clocks(20, 3))[0].square().sum().backward()
    for other in ("period", "shift", "ratio_on"):
        parameter = rnn.get_parameter(f"{other}_l0")
        assert parameter.requires_grad == flags[f"learn_{other}"]
        assert (parameter.grad is not None) == flags[f"learn_{other}"]
        if parameter.grad is not None:
            assert (parameter.grad != 0).any()


@pytest.mark.parametrize("name", ["period", "shift", "ratio_on"])
def test_a_gate_can_be_set_by_hand_at_any_time(name):
    rnn = PhasedLSTM(2, 4, period=8.0, shift=1.0, ratio_on=0.5, dtype=torch.float64).eval()
    x, time = torch.randn(20, 3, 2, dtype=torch.float64), clocks(20, 3)
    other = PhasedLSTM(2, 4, **({"period": 8.0, "shift": 1.0, "ratio_on": 0.5} | {name: 0.7}), dtype=torch.float64).eval()
    other.load_state_dict({k: v for k, v in rnn.state_dict().items() if not k.startswith(name)}, strict=False)
    with torch.no_grad():
        rnn.get_parameter(f"{name}_l0").fill_(0.7)
    assert torch.equal(rnn(x, time)[0], other(x, time)[0])


def test_parameters_carry_torchs_names_and_the_gates_own():
    rnn = PhasedLSTM(2, 4, peephole=True)
    torchs = [name for name, _ in nn.LSTM(2, 4).named_parameters()]
    own = ["period_l0", "shift_l0", "ratio_on_l0", "weight_ci_l0", "weight_cf_l0", "weight_co_l0"]
    assert {name for name, _ in rnn.named_parameters()} == {*torchs, *own}


def test_weights_start_as_torchs_do():
    rnn = PhasedLSTM(20, 100, peephole=True)
    for name, weight in rnn.named_parameters():
        if name.startswith(("weight", "bias")):
            assert -0.1 <= weight.min() < -0.08, name
            assert 0.08 < weight.max() <= 0.1, name


def test_reset_parameters_draws_anew_from_the_same_laws():
    rnn = PhasedLSTM(2, 50, period=LogUniform(10, 20))
    before = copy.deepcopy(rnn.state_dict())
    rnn.reset_parameters()
    assert ((rnn.period_l0 >= 10) & (rnn.period_l0 <= 20)).all()
    changed = {name for name, value in rnn.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == set(before) - {"ratio_on_l0"}


def test_its_repr_says_what_it_is():
    text = repr(PhasedLSTM(3, 5, num_layers=2, bidirectional=True, period=7.0, shift=0.0, ratio_on=0.1, peephole=True, leak=0.0))
    for part in ("PhasedLSTM(3, 5", "num_layers=2", "bidirectional=True", "period=7", "ratio_on=0.1", "peephole=True", "leak=0"):
        assert part in text
    assert "batch_first" not in text
    assert "backend" not in text
    assert repr(PhasedGRU(3, 5)).startswith("PhasedGRU(3, 5, ")
    assert repr(PhasedGRU(3, 5, device="meta")).startswith("PhasedGRU(3, 5, ")


# Life as a module


def full(make: type) -> Layer:
    settings = {"peephole": True} if make is PhasedLSTM else {}
    return make(3, 5, 2, bidirectional=True, period=LogUniform(2, 40), ratio_on=Uniform(0.1, 0.9), **settings)


def assert_same_layer(a: Layer, b: Layer) -> None:
    x, time = torch.randn(9, 4, 3), clocks(9, 4)
    for one, two in ((a, b), (a.eval(), b.eval())):
        got, want = one(x, time), two(x, time)
        assert torch.equal(got[0], want[0])
        assert all(torch.equal(p, q) for p, q in zip(states(got[1]), states(want[1]), strict=True))
    assert [p.requires_grad for p in a.parameters()] == [p.requires_grad for p in b.parameters()]
    assert repr(a) == repr(b)


@each_layer
def test_a_state_dict_goes_round(make):
    rnn, other, file = full(make), full(make), io.BytesIO()
    torch.save(rnn.state_dict(), file)
    file.seek(0)
    assert other.load_state_dict(torch.load(file)) == nn.modules.module._IncompatibleKeys([], [])
    assert_same_layer(rnn, other)


@each_layer
def test_a_deep_copy_is_the_same_and_independent(make):
    rnn = full(make)
    other = copy.deepcopy(rnn)
    assert_same_layer(rnn, other)
    with torch.no_grad():
        other.period_l0.fill_(1.0)
    assert not (rnn.period_l0 == 1.0).any()


@each_layer
def test_a_pickle_is_the_same(make):
    rnn = full(make)
    assert_same_layer(rnn, pickle.loads(pickle.dumps(rnn)))


GATE_NAMES = ("period", "shift", "ratio_on")


@each_layer
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a model"])
def test_a_change_of_dtype_keeps_the_parameters_of_time_exact(make, dtype, inside):
    rnn = make(3, 5, period=LogUniform(1, 1e9))
    exact = {name: p.clone() for name, p in rnn.named_parameters() if name.startswith(GATE_NAMES)}
    (nn.ModuleList([rnn]) if inside else rnn).to(dtype)
    for name, parameter in rnn.named_parameters():
        if name.startswith(GATE_NAMES):
            assert parameter.dtype == torch.float64
            assert torch.equal(parameter, exact[name])
        else:
            assert parameter.dtype == dtype


@pytest.mark.parametrize("change", [nn.Module.half, nn.Module.bfloat16, nn.Module.float, nn.Module.double])
def test_half_float_and_double_keep_time_exact_too_and_so_do_gradients(change):
    rnn = PhasedLSTM(3, 5, period=LogUniform(1, 1e3), ratio_on=0.5)
    rnn(torch.randn(9, 4, 3), clocks(9, 4))[0].sum().backward()
    period, grad = rnn.period_l0.detach().clone(), rnn.period_l0.grad.clone()
    change(rnn)
    assert torch.equal(rnn.period_l0, period)
    assert torch.equal(rnn.period_l0.grad, grad)
    assert isinstance(rnn.period_l0, nn.Parameter)
    assert rnn.period_l0.requires_grad


def test_an_optimiser_keeps_hold_of_parameters_that_were_converted():
    rnn = PhasedLSTM(3, 5, period=8.0, ratio_on=0.5)
    optimiser = torch.optim.SGD(rnn.parameters(), lr=1.0)
    rnn.to(torch.bfloat16)
    rnn(torch.randn(9, 4, 3, dtype=torch.bfloat16), clocks(9, 4))[0].sum().backward()
    optimiser.step()
    assert (rnn.period_l0 != 8).any()


@each_layer
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_runs_and_is_close(make, training, dtype):
    rnn = make(3, 16, 2, bidirectional=True, period=LogUniform(2, 40), ratio_on=0.4).train(training).to(dtype)
    wide = copy.deepcopy(rnn).to(torch.float32)
    x, time = torch.randn(30, 4, 3).to(dtype), clocks(30, 4, start=1e9)
    output, final = rnn(x, time)
    want, want_final = wide(x.float(), time)
    assert output.dtype == dtype
    assert all(s.dtype == dtype for s in states(final))
    torch.testing.assert_close(output.float(), want, rtol=0, atol=0.02)
    for got, state in zip(states(final), states(want_final), strict=True):
        torch.testing.assert_close(got.float(), state, rtol=0.02, atol=0.02)
    output.float().square().sum().backward()
    for p in rnn.parameters():
        assert p.grad is None or (p.grad.isfinite().all() and p.grad.dtype == p.dtype)


@each_layer
def test_the_reference_backend_can_be_asked_for_and_agrees(make):
    rnn = full(make)
    other = copy.deepcopy(rnn)
    other.backend = "reference"
    x, time = torch.randn(9, 4, 3), clocks(9, 4)
    torch.testing.assert_close(rnn(x, time)[0], other(x, time)[0])


# Autocast


@each_layer
@pytest.mark.parametrize("training", [True, False])
def test_autocast_rounds_products_and_never_time(make, training):
    rnn = make(3, 16, 2, period=LogUniform(0.5, 4), ratio_on=0.3).train(training)
    x, time = torch.randn(30, 4, 3), clocks(30, 4, start=1.7e9)
    want, want_final = rnn(x, time)
    k = rnn.gates()[0](time)
    with torch.autocast("cpu", torch.bfloat16):
        output, final = rnn(x, time)
        assert torch.equal(rnn.gates()[0](time), k)
    assert output.dtype == torch.float32
    torch.testing.assert_close(output, want, rtol=0, atol=0.05)
    assert not torch.equal(output, want)  # something was rounded, or autocast was not noticed
    for got, state in zip(states(final), states(want_final), strict=True):
        assert got.dtype == torch.float32
        torch.testing.assert_close(got, state, rtol=0.05, atol=0.05)
    if not training:  # whoever was closed kept its state exactly, so the two agree on who was
        for a in (output, want):
            kept = a[1:] == a[:-1]
            closed = (rnn.gates()[1](time) == 0)[1:]
            assert torch.equal(kept, closed)


def test_under_autocast_gradients_are_finite_and_of_each_parameters_dtype():
    rnn = PhasedLSTM(3, 16, period=LogUniform(0.5, 4), ratio_on=0.3)
    with torch.autocast("cpu", torch.bfloat16):
        head = nn.Linear(16, 2)
        loss = head(rnn(torch.randn(30, 4, 3), clocks(30, 4, start=1e6))[0]).float().square().mean()
    loss.backward()
    for p in rnn.parameters():
        assert p.grad is None or (p.grad.dtype == p.dtype and p.grad.isfinite().all())


def test_under_autocast_the_input_may_be_bfloat16_already():
    rnn = PhasedLSTM(3, 16, period=LogUniform(0.5, 4), ratio_on=0.3)
    with torch.autocast("cpu", torch.bfloat16):
        x = nn.Linear(3, 3)(torch.randn(30, 4, 3))
        assert x.dtype == torch.bfloat16
        output, _ = rnn(x, clocks(30, 4))
    assert output.isfinite().all()


# Compile and export


def assert_compiled_equals_eager(rnn: Layer, compiled: Any, shapes: list[tuple[int, int]], lengths: bool = False) -> None:
    for steps, batch in shapes:
        x, time = torch.randn(steps, batch, 3), clocks(steps, batch)
        length = torch.arange(batch) % (steps + 1) if lengths else None
        results = []
        for run in (rnn, compiled):
            rnn.zero_grad()
            output, final = run(x, time, lengths=length)
            if rnn.training:
                (output.square().sum() + sum(s.sin().sum() for s in states(final))).backward()
            grads = [p.grad.clone() for p in rnn.parameters() if p.grad is not None]
            results.append([output, *states(final), *grads])
        assert len(results[0]) == len(results[1])
        for got, want in zip(*results, strict=True):
            torch.testing.assert_close(got, want)


@pytest.fixture
def fresh_compiler() -> None:
    torch.compiler.reset()


@each_layer
@pytest.mark.parametrize("leak", [0.0, 0.01])
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_without_a_graph_break_it_equals_eager(make, training, leak):
    rnn = make(3, 5, 2, period=8.0, ratio_on=0.4, leak=leak).train(training)
    compiled = torch.compile(rnn, fullgraph=True, backend="aot_eager")
    assert_compiled_equals_eager(rnn, compiled, [(9, 4), (12, 3)])


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # torch's own, on importing its compiler
def test_compiled_by_inductor_it_equals_eager():
    rnn = PhasedLSTM(3, 5, period=8.0, ratio_on=0.4, leak=0.0)
    assert_compiled_equals_eager(rnn, torch.compile(rnn, fullgraph=True), [(9, 4)])


@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_with_every_option_and_dynamic_shapes_it_equals_eager():
    rnn = PhasedLSTM(3, 5, 2, bidirectional=True, peephole=True, period=8.0, ratio_on=0.4, leak=0.0, learn_ratio_on=True)
    compiled = torch.compile(rnn, fullgraph=True, dynamic=True, backend="aot_eager")
    assert_compiled_equals_eager(rnn, compiled, [(9, 4), (5, 2)], lengths=True)


@each_layer
def test_an_exported_layer_takes_any_steps_and_any_batch(make):
    rnn = make(3, 5, 2, bidirectional=True, period=8.0, ratio_on=0.4).eval()
    steps, batch = torch.export.Dim("steps", min=2), torch.export.Dim("batch", min=2)
    program = torch.export.export(
        rnn,
        (torch.randn(9, 4, 3), clocks(9, 4)),
        dynamic_shapes={"input": {0: steps, 1: batch}, "time": {0: steps, 1: batch}},
    )
    exported = program.module()
    for shape in ((9, 4), (30, 2), (3, 7)):
        x, time = torch.randn(*shape, 3), clocks(*shape)
        got, want = exported(x, time), rnn(x, time)
        torch.testing.assert_close(got[0], want[0])
        for a, b in zip(states(got[1]), states(want[1]), strict=True):
            torch.testing.assert_close(a, b)


def test_an_exported_layer_survives_a_file(tmp_path):
    rnn = PhasedLSTM(3, 5, period=8.0, ratio_on=0.4).eval()
    x, time = torch.randn(9, 4, 3), clocks(9, 4)
    torch.export.save(torch.export.export(rnn, (x, time)), tmp_path / "layer.pt2")
    exported = torch.export.load(tmp_path / "layer.pt2").module()
    torch.testing.assert_close(exported(x, time)[0], rnn(x, time)[0])


# Training


def train(rnn: Layer, optimiser: torch.optim.Optimizer, time: Tensor, steps: int = 20, clip: float | None = 1.0) -> list[float]:
    """Fit a constant target; the losses."""
    x, losses = torch.randn(*time.shape, rnn.input_size), []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = (rnn(x, time)[0] - 0.3).square().mean()
        loss.backward()
        for name, parameter in rnn.named_parameters():
            assert parameter.grad is None or parameter.grad.isfinite().all(), name
        if clip is not None:
            assert nn.utils.clip_grad_norm_(rnn.parameters(), clip).isfinite()
        optimiser.step()
        losses.append(loss.item())
    assert all(map(math.isfinite, losses))
    assert all(parameter.isfinite().all() for parameter in rnn.parameters())
    return losses


@each_layer
@pytest.mark.parametrize("clip", [None, 1.0], ids=["unclipped", "clipped"])
@pytest.mark.parametrize("leak", [0.0, 0.001])
def test_training_stays_finite_for_times_in_the_millions(make, clip, leak):
    rnn = make(2, 8, period=LogUniform(1, 100), ratio_on=0.2, leak=leak, learn_ratio_on=True)
    time = clocks(40, 4, span=1e3, start=5e6)
    train(rnn, torch.optim.Adam(rnn.parameters(), lr=0.1), time, clip=clip)


@each_layer
@pytest.mark.parametrize("leak", [0.0, 0.001])
@pytest.mark.parametrize("name", ["period", "ratio_on"])
@pytest.mark.parametrize("value", [0.0, -1.0, -1e6, 1e-30, 1e30])
def test_training_stays_finite_when_a_parameter_was_pushed_where_it_makes_no_sense(make, leak, name, value):
    rnn = make(2, 8, period=10.0, ratio_on=0.2, leak=leak, learn_ratio_on=True)
    with torch.no_grad():
        rnn.get_parameter(f"{name}_l0")[::2] = value
    train(rnn, torch.optim.Adam(rnn.parameters(), lr=0.01), clocks(30, 4, span=1e3, start=1e6), steps=8)
    output, _ = rnn.eval()(torch.randn(30, 4, 2), clocks(30, 4))
    assert output.isfinite().all()
    assert "nan" not in repr(rnn)


OPTIMISERS = [
    torch.optim.Adadelta,
    torch.optim.Adagrad,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adamax,
    torch.optim.ASGD,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.RMSprop,
    torch.optim.Rprop,
    torch.optim.SGD,
]


@pytest.mark.parametrize("make_optimiser", OPTIMISERS, ids=lambda o: o.__name__)
def test_every_optimiser_of_torch_trains_the_mixed_dtypes(make_optimiser):
    rnn = PhasedLSTM(2, 8, period=10.0, ratio_on=0.3, learn_ratio_on=True)
    before = copy.deepcopy(rnn.state_dict())
    train(rnn, make_optimiser(rnn.parameters(), lr=0.01), clocks(30, 4))
    assert all(not torch.equal(value, before[name]) for name, value in rnn.state_dict().items())


@pytest.mark.parametrize("options", [{"foreach": True}, {"fused": True}, {"capturable": False, "foreach": False}], ids=str)
def test_adams_fast_paths_train_the_mixed_dtypes(options):
    rnn = PhasedLSTM(2, 8, period=10.0, ratio_on=0.3)
    train(rnn, torch.optim.Adam(rnn.parameters(), **options), clocks(30, 4))


@pytest.mark.parametrize("foreach", [True, False])
def test_gradients_are_clipped_across_the_mixed_dtypes(foreach):
    rnn = PhasedLSTM(2, 8, period=10.0, ratio_on=0.3)
    rnn(torch.randn(30, 4, 2), clocks(30, 4, start=1e6))[0].square().sum().backward()
    grads = [p.grad for p in rnn.parameters() if p.grad is not None]
    total = math.sqrt(sum(g.double().square().sum().item() for g in grads))
    norm = nn.utils.clip_grad_norm_(rnn.parameters(), 1.0, foreach=foreach)
    assert norm.item() == pytest.approx(total, rel=1e-5)
    assert math.sqrt(sum(g.double().square().sum().item() for g in grads)) == pytest.approx(1.0, rel=1e-4)


@each_layer
def test_learning_lowers_the_loss(make):
    rnn = make(2, 16, period=LogUniform(1, 20), ratio_on=0.3)
    losses = train(rnn, torch.optim.Adam(rnn.parameters(), lr=0.02), clocks(30, 4), steps=40)
    assert losses[-1] < 0.5 * losses[0]


def test_a_gate_learns_when_to_open():
    """One unit, woken at the wrong time: the gradient moves its shift until it opens when the event comes."""
    rnn = PhasedLSTM(1, 1, period=10.0, shift=1.0, ratio_on=0.9, learn_period=False, leak=0.001, dtype=torch.float64)
    with torch.no_grad():
        rnn.bias_ih_l0.copy_(f64([5.0, 0.0, 5.0, 5.0]))
    optimiser = torch.optim.Adam([rnn.shift_l0], lr=0.05)
    x, time = torch.ones(1, 1, 1, dtype=torch.float64), f64([[2.0]])
    best = rnn.ratio_on_l0.item() / 2  # the phase of the peak
    before = apart(rnn.gates()[0].phase(time), f64(best)).item()
    for _ in range(200):
        optimiser.zero_grad()
        (-rnn(x, time)[0].sum()).backward()
        optimiser.step()
    after = apart(rnn.gates()[0].phase(time), f64(best)).item()
    assert before > 0.3
    assert after < 0.02
