"""Units that never open: found and opened before training, or named in one warning after the first batches."""

import copy
import pickle
import re
import warnings
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.checkpoint import checkpoint

from layers import Doubled, Layer, each_direction, each_layer
from phased import LogUniform, PhasedLSTM, never_open, updates, wake
from phased.openings import BATCHES, suggested
from strategies import BACKENDS, clocks, f64, ragged, seeds

SEVEN = {"period": f64([4.0, 4.0, 1e6, 4.0, 1e6, 4.0, 4.0]), "shift": f64([0.0, 1.0, 5e5, 2.0, 5e5, 3.0, 0.5]), "ratio_on": 0.5}
"""Seven units, of which 2 and 4 are closed for the first half million units of time."""
NEVER = "units of layer .* have opened in no sequence of the first 20 training batches"


def train(rnn: nn.Module, batches: int, time: Tensor | None = None, **options: Any) -> None:
    time = clocks(30, 4) if time is None else time
    for _ in range(batches):
        rnn(torch.randn(*time.shape, 3), time, **options)[0].square().sum().backward()


def message(rnn: Layer, time: Tensor | None = None, **options: Any) -> str:
    with pytest.warns(UserWarning, match=NEVER) as caught:
        train(rnn, BATCHES, time, **options)
    assert len(caught) == 1
    return str(caught[0].message)


@each_layer
@pytest.mark.parametrize("backend", BACKENDS)
def test_units_that_never_open_are_counted_in_one_warning_after_twenty_batches(make, backend):
    rnn = make(3, 7, backend=backend, **SEVEN)
    train(rnn, 19)
    with pytest.warns(UserWarning, match=r"^2 of 7 units of layer 0 have opened in no .* so they learn nothing\. Choose"):
        train(rnn, 1)
    train(rnn, 30)  # a second warning would be an error here


@each_layer
@each_direction
def test_the_search_is_over_with_the_first_batch_in_which_every_unit_opens(make, bidirectional):
    rnn = make(3, 110, 2, bidirectional=bidirectional)
    train(rnn, 1, clocks(400, 4, span=1000.0))
    assert rnn._openings.batches == 1
    assert not rnn._openings.active
    always_open = with_values("ratio_on_l0", 5.0)  # beyond its bound
    train(always_open, 1)
    assert not always_open._openings.active


@pytest.mark.parametrize("opens_in, warns", [(20, False), (21, True)])
def test_a_unit_may_open_in_any_of_the_twenty_batches(opens_in, warns):
    rnn = PhasedLSTM(3, 7, **SEVEN)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for batch in range(1, 25):
            train(rnn, 1, clocks(30, 4) + (6e5 if batch == opens_in else 0.0))
    assert len(caught) == warns


def with_values(name: str, value: float, *units: int) -> Layer:
    rnn = PhasedLSTM(3, 7, **SEVEN)
    with torch.no_grad():
        rnn.get_parameter(name)[list(units) or slice(None)] = value
    return rnn


@pytest.mark.parametrize(
    "rnn, time, says",
    [
        (PhasedLSTM(3, 7, leak=0.1, **SEVEN), None, r"2 of 7 units of layer 0 .* through the leak alone(?!.*leak=)"),
        (with_values("period_l0", float("nan"), 2), None, r"1 of 7 units.*e\.g\. period=LogUniform\("),  # NaN counts as open
        (PhasedLSTM(3, 2, period=4.0, shift=2.0, ratio_on=0.1), torch.zeros(5, 2), "own times, or a larger ratio_on; or"),
    ],
    ids=["a leak", "a gate that is NaN", "times that stand still"],
)
def test_the_warning_says_what_the_units_do_and_what_helps(rnn, time, says):
    assert re.search(says, message(rnn, time))


def train_inputs(rnn: Layer) -> None:
    rnn(torch.randn(30, 4, 3, dtype=rnn.dtype), clocks(30, 4))


def transformed(rnn: Layer) -> None:
    values = {name: value.detach() for name, value in rnn.named_parameters()}
    x, time = torch.randn(30, 4, 3), clocks(30, 4)
    grad(lambda p: functional_call(rnn, p, (x, time))[0].sum())(values)


UNCOUNTED = {
    "evaluation": lambda rnn: train_inputs(rnn.eval()),
    "without gradients": torch.no_grad()(train_inputs),
    "nothing learned": lambda rnn: train_inputs(rnn.requires_grad_(False)),
    "no steps": lambda rnn: train(rnn, 1, torch.zeros(0, 4)),
    "no sequences": lambda rnn: train(rnn, 1, torch.zeros(30, 0)),
    "single steps": lambda rnn: train(rnn, 1, torch.zeros(1, 4)),
    "no data": lambda rnn: train(rnn, 1, clocks(30, 4), lengths=[0, 0, 0, 0]),
    "a part of longer sequences": lambda rnn: train(rnn, 1, hx=(torch.zeros(1, 4, 7), torch.zeros(1, 4, 7))),
    "a transform": transformed,
    "forward mode": forward_ad.dual_level()(train_inputs),
}


@pytest.mark.parametrize("call", UNCOUNTED.values(), ids=UNCOUNTED)
def test_what_is_not_training_on_sequences_is_not_counted(call):
    rnn = PhasedLSTM(3, 7, backend="reference", **SEVEN)
    call(rnn)
    assert rnn._openings.batches == 0


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_padding_opens_no_unit(packed, batch_first):
    rnn = PhasedLSTM(3, 7, batch_first=batch_first, **SEVEN)
    lengths = torch.tensor([30, 12, 0, 7]) if not packed else torch.tensor([30, 12, 1, 7])
    time = clocks(30, 4)
    time[torch.arange(30).unsqueeze(1) >= lengths] = 6e5  # here units 2 and 4 would be open
    time = time.T if batch_first else time
    x, options = torch.randn(*time.shape, 3), {} if packed else {"lengths": lengths}
    if packed:
        x, time = (pack_padded_sequence(value, lengths, batch_first, enforce_sorted=False) for value in (x, time))
    for _ in range(BATCHES - 1):
        rnn(x, time, **options)
    with pytest.warns(UserWarning, match="^2 of 7 units"):
        rnn(x, time, **options)


def test_every_layer_and_direction_is_counted_for_itself():
    period = [torch.where(torch.arange(5) < n, 1e6, 4.0) for n in (3, 0, 1)]
    rnn = PhasedLSTM(3, 5, 3, bidirectional=True, period=period, shift=[5e5, 0.0, 5e5], ratio_on=0.4)
    with torch.no_grad():
        rnn.period_l2_reverse.fill_(4.0)
    text = message(rnn, clocks(90, 4))
    assert text.startswith("3 of 5 units of layer 0, 3 of 5 units of layer 0 backwards, 1 of 5 units of layer 2 have opened in")


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda rnn: pickle.loads(pickle.dumps(rnn))], ids=["deepcopy", "pickle"])
def test_copies_go_on_where_the_layer_was(duplicate):
    rnn = PhasedLSTM(3, 7, **SEVEN)
    train(rnn, 12)
    other = duplicate(rnn)
    for layer in (rnn, other):
        train(layer, 7)
        with pytest.warns(UserWarning, match="^2 of 7 units"):
            train(layer, 1)
        train(duplicate(layer), 25)  # warned of already


@pytest.mark.parametrize(
    "anew", [PhasedLSTM.reset_parameters, lambda rnn: rnn.load_state_dict(rnn.state_dict())], ids=["drawn", "loaded"]
)
def test_drawn_or_loaded_parameters_start_the_count_anew(anew):
    rnn = PhasedLSTM(3, 7, **SEVEN)
    train(rnn, 19)
    assert list(rnn.state_dict()) == [name for name, _ in rnn.named_parameters()]
    anew(rnn)
    assert rnn._openings.batches == 0
    assert message(rnn).startswith("2 of 7 units")


def test_a_subclass_may_draw_its_parameters_itself():
    own = type("Own", (PhasedLSTM,), {"reset_parameters": lambda self: [nn.init.ones_(each) for each in self.parameters()]})
    train(own(3, 7), 2)


CLOCKS = {
    "whole numbers": torch.arange(200).unsqueeze(1).expand(200, 4),
    "microseconds since 1970": 1_700_000_000_000_000 + torch.randint(0, 10**9, (500, 4)).sort(0).values,
    "irregular": clocks(300, 4, span=2.5),
    "a few samples": clocks(10, 4),
    "two samples": torch.tensor([[0.0], [1.0]]),
    "several events at a time": torch.arange(100).repeat_interleave(3).unsqueeze(1),
    "float32": clocks(100, 4, span=1e6).float(),
}


@pytest.mark.parametrize("name", CLOCKS)
@pytest.mark.parametrize("ratio_on", [0.05, 0.3])
def test_a_layer_with_the_periods_and_the_shifts_of_the_message_does_not_warn(name, ratio_on):
    time = CLOCKS[name]
    settings = suggested(time, None, ratio_on)
    fitting = {"ratio_on": ratio_on} | eval(f"dict({settings})", {"LogUniform": LogUniform})
    rnn = PhasedLSTM(3, 200, **fitting)
    assert wake(rnn, time) <= 10, "on a clock of whole numbers that all sequences share, a few units miss every sample"
    train(rnn, BATCHES + 1, time)


def test_the_suggested_are_those_of_the_samples_and_not_of_their_padding():
    time = torch.arange(1000.0).unsqueeze(1).repeat(1, 3)
    lengths = torch.tensor([100, 200, 300])
    time[torch.arange(1000).unsqueeze(1) >= lengths] = float("nan")
    assert suggested(time, lengths, 0.1) == "period=LogUniform(2, 199)"
    assert suggested(time[:200, 1:2], None, 0.1) == "period=LogUniform(2, 199)"
    assert re.fullmatch(r"period=LogUniform\(1.25, 5\), ratio_on=0\.[2-5]\d?", suggested(time[:6, :1], None, 0.05))


def test_a_compiled_layer_does_not_count():
    torch.compiler.reset()
    rnn = PhasedLSTM(3, 7, **SEVEN)
    compiled = torch.compile(rnn, fullgraph=True, backend="aot_eager")
    train(compiled, 3)
    assert rnn._openings.batches == 0
    train(rnn, 1)  # the count is no reason to compile again
    with torch.compiler.set_stance("fail_on_recompile"):
        train(compiled, 1)


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpoints_work_while_units_are_looked_for(reentrant):
    rnn = PhasedLSTM(3, 7, **SEVEN)
    x = torch.randn(30, 4, 3, requires_grad=True)
    checkpoint(lambda x: rnn(x, clocks(30, 4))[0], x, use_reentrant=reentrant, preserve_rng_state=True).sum().backward()
    assert rnn._openings.active


@pytest.mark.gpu
def test_on_a_gpu_only_the_first_and_the_last_batch_synchronise(unsynchronised):
    settings = SEVEN | {"device": "cuda"}
    rnn = PhasedLSTM(3, 7, **settings)
    x, time = torch.randn(30, 4, 3, device="cuda"), clocks(30, 4).cuda()
    lengths = torch.tensor([30, 12, 0, 7], device="cuda")
    rnn(x, time, lengths=lengths)
    gates = [gate.bounded() for gate in rnn.gates()]
    with unsynchronised():
        for _ in range(18):
            rnn._openings.watch(gates, time, lengths, 1)
    assert rnn._openings.batches == 19
    with pytest.warns(UserWarning, match="^2 of 7 units"):
        rnn(x, time, lengths=lengths)


@pytest.mark.gpu
def test_on_a_gpu_a_healthy_layer_is_done_after_one_batch_and_capture_counts_for_nothing():
    rnn = PhasedLSTM(3, 110, device="cuda")
    x, time = torch.randn(400, 4, 3, device="cuda"), clocks(400, 4, span=1000.0).cuda()
    rnn(x, time)
    assert not rnn._openings.active
    rnn.reset_parameters()
    openings = rnn._openings
    rnn.eval()
    rnn(x, time)
    gates = [gate.bounded() for gate in rnn.gates()]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        time + 1  # torch warns of a graph without work
        openings.watch(gates, time, None, 1)
    assert openings.batches == 0


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:phased runs on cpu without its compiled core")
def test_a_layer_that_moves_to_a_gpu_goes_on_with_its_count():
    rnn = PhasedLSTM(3, 7, **SEVEN)
    train(rnn, 10)
    rnn.cuda()
    x, time = torch.randn(30, 4, 3, device="cuda"), clocks(30, 4).cuda()
    for _ in range(9):
        rnn(x, time)
    with pytest.warns(UserWarning, match="^2 of 7 units"):
        rnn(x, time)


# Before training


@each_layer
@each_direction
@pytest.mark.parametrize("batch_first", [False, True])
def test_units_without_an_update_in_any_sequence_never_open(make, bidirectional, batch_first):
    torch.manual_seed(3)
    rnn = make(3, 50, 2, batch_first=batch_first, bidirectional=bidirectional, period=LogUniform(0.01, 1000), leak=0.5)
    time = torch.arange(60).unsqueeze(1) + torch.arange(2)
    time = time.T if batch_first else time
    expected = updates(rnn, time).sum(1) == 0
    assert 0 < expected.sum() < expected.numel()
    assert torch.equal(never_open(rnn, time), expected)
    assert torch.equal(never_open(rnn, list(time if batch_first else time.T)), expected)


@given(seeds, ragged)
def test_padding_and_no_step_open_no_unit(seed, lengths):
    torch.manual_seed(seed)
    rnn, time = PhasedLSTM(1, 30, period=LogUniform(1, 1000)), clocks(9, len(lengths))
    assert torch.equal(never_open(rnn, time, lengths), updates(rnn, time, torch.tensor(lengths)).sum(1) == 0)
    assert never_open(rnn, []).all()
    assert never_open(PhasedLSTM(1, 4, ratio_on=1.0), [[]]).all()


@given(seeds, st.floats(0.001, 1.0), st.sampled_from([2, 30, 300]))
def test_after_waking_every_unit_is_fully_open_at_some_step(seed, ratio_on, steps):
    torch.manual_seed(seed)
    rnn = PhasedLSTM(1, 40, 2, bidirectional=True, period=LogUniform(0.1, 1e6), ratio_on=ratio_on)
    sequences = [clocks(steps, 1).flatten(), torch.arange(steps) + 0.5]
    closed = never_open(rnn, sequences)
    before = [gate.shift.detach().clone() for gate in rnn.gates()]
    assert wake(rnn, sequences) == int(closed.sum())
    assert not never_open(rnn, sequences).any()
    for gate, shift, asleep in zip(rnn.eval().gates(), before, closed, strict=True):
        assert torch.equal(gate.shift[~asleep], shift[~asleep])
        assert (gate(torch.cat(sequences)).amax(0)[asleep] > 0.999).all()
        assert ((gate.shift - shift)[asleep] < gate.period[asleep]).all(), "a shift moves by less than a period"


def test_waking_twice_changes_nothing_and_other_parameters_stay():
    rnn = PhasedLSTM(1, 40, period=LogUniform(1, 1e5), ratio_on=0.01, learn_shift=False)
    state = {name: value.clone() for name, value in rnn.state_dict().items() if not name.startswith("shift")}
    assert wake(rnn, torch.arange(50)) > 0
    assert wake(rnn, torch.arange(50)) == 0
    assert all(torch.equal(rnn.state_dict()[name], value) for name, value in state.items())
    assert not rnn.shift_l0.requires_grad


def test_the_shift_that_opens_a_unit_is_the_nearest():
    rnn = PhasedLSTM(1, 1, period=1000.0, shift=f64([500.0]), ratio_on=0.1)
    wake(rnn, [[0.0, 200.0], [300.0]])
    assert rnn.shift_l0.item() == pytest.approx(950.0)  # open from 950 to 1050, which is 50 in the cycle of 0


def test_parametrised_shifts_are_set_through_their_parametrisation():
    rnn = PhasedLSTM(1, 3, period=1000.0, shift=500.0)
    nn.utils.parametrize.register_parametrization(rnn, "shift_l0", Doubled())
    assert wake(rnn, torch.arange(10)) == 3
    assert not never_open(rnn, torch.arange(10)).any()


@pytest.mark.parametrize(
    "rnn, time, error, message",
    [
        (nn.LSTM(1, 2), torch.arange(5), TypeError, "rnn must be a PhasedLSTM or PhasedGRU, got LSTM"),
        (PhasedLSTM(1, 2), [2.0, 1.0], ValueError, "must not go backwards"),
        (PhasedLSTM(1, 2, device="meta"), [1.0, 2.0], ValueError, "rnn must have values"),
        (PhasedLSTM(1, 2), [], ValueError, r"time must have at least one step, got none\. Pass the times of the training data"),
    ],
)
def test_wrong_arguments_are_refused(rnn, time, error, message):
    for function in (never_open, wake) if len(time) else (wake,):
        with pytest.raises(error, match=message):
            function(rnn, time)


@pytest.mark.gpu
def test_on_a_gpu_the_same_units_never_open():
    rnn = PhasedLSTM(1, 200, period=LogUniform(0.01, 1e4))
    time = torch.arange(100)
    expected = never_open(rnn, time)
    assert torch.equal(never_open(rnn.cuda(), time).cpu(), expected)
    assert wake(rnn, time.cuda()) == int(expected.sum())
    assert not never_open(rnn, time).any()
