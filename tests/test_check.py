"""The border: every wrong argument is named, with what was expected, what came and a cure, before anything has changed."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from phased import PhasedGRU, PhasedLSTM, updates
from strategies import clocks
from wrong import Wrong, table

NAN, INF = float("nan"), float("inf")
X, T = torch.randn(6, 4, 3), torch.arange(24.0, dtype=torch.float64).reshape(4, 6).T
H, C = torch.randn(1, 4, 5), torch.randn(1, 4, 5)


# Calling a layer

lstm, gru = PhasedLSTM(3, 5), PhasedGRU(3, 5)
lstm_64, lstm_first, lstm_one = PhasedLSTM(3, 5, dtype=torch.float64), PhasedLSTM(3, 5, batch_first=True), PhasedLSTM(1, 5)
lstm_deep = PhasedLSTM(3, 5, 2, bidirectional=True)


def at(time: Tensor, step: int, sequence: int, value: float) -> Tensor:
    changed = time.clone()
    changed[step, sequence] = value
    return changed


INPUTS = [
    Wrong("a list", lambda: lstm(X.tolist(), T), TypeError, "input must be a torch.Tensor", "got list", r"torch\.as_tensor"),
    Wrong("an array", lambda: lstm(X.numpy(), T), TypeError, "input must be a torch.Tensor", "got ndarray", r"torch\.as_tensor"),
    Wrong("none", lambda: lstm(None, T), TypeError, "input must be a torch.Tensor", "got NoneType"),
    Wrong(
        "features", lambda: lstm(X[..., :2], T), ValueError, r"input must .*\(steps, batch, 3\).*\(steps, 3\)", r"got \(6, 4, 2\)"
    ),
    Wrong("no features", lambda: lstm(X[..., :0], T), ValueError, r"input must .*\(steps, batch, 3\)", r"got \(6, 4, 0\)"),
    Wrong("batch first", lambda: lstm_first(X[..., :2], T), ValueError, r"input must .*\(batch, steps, 3\)", r"got \(6, 4, 2\)"),
    Wrong("one dimension", lambda: lstm(X[0, 0], T), ValueError, r"input must .*\(steps, batch, 3\)", r"got \(3,\)"),
    Wrong("four dimensions", lambda: lstm(X[None], T), ValueError, r"input must .*\(steps, batch, 3\)", r"got \(1, 6, 4, 3\)"),
    Wrong(
        "a lost feature", lambda: lstm_one(X[..., 0], T), ValueError, r"\(steps, batch, 1\)", r"got \(6, 4\)", r"unsqueeze\(-1\)"
    ),
    Wrong(
        "whole numbers", lambda: lstm(X.long(), T), TypeError, r"input must .*torch\.float32", r"got torch\.int64", r"input\.to\("
    ),
    Wrong("bools", lambda: lstm(X > 0, T), TypeError, r"input must .*torch\.float32", r"got torch\.bool", r"input\.to\("),
    Wrong("float64", lambda: lstm(X.double(), T), TypeError, r"input must .*torch\.float32", r"got torch\.float64", r"\.to\("),
    Wrong("float32", lambda: lstm_64(X, T), TypeError, r"input must .*torch\.float64", r"got torch\.float32", r"\.to\("),
    Wrong(
        "bfloat16", lambda: lstm(X.bfloat16(), T), TypeError, r"input must .*torch\.float32", r"got torch\.bfloat16", r"\.to\("
    ),
    Wrong("a device", lambda: lstm(X.to("meta"), T), ValueError, "input must .*device.*cpu", "got meta", r"input\.to\('cpu'\)"),
]

TIMES = [
    Wrong("a list", lambda: lstm(X, T.tolist()), TypeError, "time must be a torch.Tensor", "got list", r"torch\.as_tensor"),
    Wrong("an array", lambda: lstm(X, T.numpy()), TypeError, "time must be a torch.Tensor", "got ndarray", r"torch\.as_tensor"),
    Wrong("none", lambda: lstm(X, None), TypeError, "time must be a torch.Tensor", "got NoneType"),
    Wrong("a number", lambda: lstm(X, 1.0), TypeError, "time must be a torch.Tensor", "got float"),
    Wrong(
        "one clock",
        lambda: lstm(X, T[:, 0]),
        ValueError,
        r"time must .*\(6, 4\)",
        r"got \(6,\)",
        r"unsqueeze\(-1\)\.expand\(6, 4\)",
    ),
    Wrong("one row", lambda: lstm_first(X, T[0]), ValueError, r"time must .*\(6, 4\)", r"got \(4,\)", r"time\.expand\(6, 4\)"),
    Wrong("a tail", lambda: lstm(X, T[..., None]), ValueError, r"time must .*\(6, 4\)", r"got \(6, 4, 1\)", r"squeeze\(-1\)"),
    Wrong(
        "transposed", lambda: lstm(X, T.T), ValueError, r"time must .*\(6, 4\)", r"got \(4, 6\)", r"time\.T|transpose|batch_first"
    ),
    Wrong("too short", lambda: lstm(X, T[:5]), ValueError, r"time must .*\(6, 4\)", r"got \(5, 4\)"),
    Wrong("too few", lambda: lstm(X, T[:, :3]), ValueError, r"time must .*\(6, 4\)", r"got \(6, 3\)"),
    Wrong("a scalar", lambda: lstm(X, T[0, 0]), ValueError, r"time must .*\(6, 4\)", r"got \(\)"),
    Wrong("no features", lambda: lstm(X, X.double()), ValueError, r"time must .*\(6, 4\)", r"got \(6, 4, 3\)"),
    Wrong("unbatched", lambda: lstm(X[:, 0], T), ValueError, r"time must .*\(6,?\)", r"got \(6, 4\)"),
    Wrong("bools", lambda: lstm(X, T > 0), TypeError, "time must be integer or floating point", r"got torch\.bool"),
    Wrong("complex", lambda: lstm(X, T + 1j), TypeError, "time must be integer or floating point", r"got torch\.complex128"),
    Wrong("a device", lambda: lstm(X, T.to("meta")), ValueError, "time must .*device.*cpu", "got meta", r"time\.to\('cpu'\)"),
    Wrong("nan", lambda: lstm(X, at(T, 3, 2, NAN)), ValueError, "time must be finite", "got nan at step 3 of sequence 2"),
    Wrong("inf", lambda: lstm(X, at(T, 5, 0, INF)), ValueError, "time must be finite", "got inf at step 5 of sequence 0"),
    Wrong("-inf", lambda: lstm(X, at(T, 0, 0, -INF)), ValueError, "time must be finite", "got -inf at step 0 of sequence 0"),
    Wrong(
        "batch first nan", lambda: lstm_first(X, at(T.T.reshape(6, 4), 3, 2, NAN)), ValueError, "finite", "step 2 of sequence 3"
    ),
    Wrong("unbatched nan", lambda: lstm(X[:, 0], T[:, 0] * NAN), ValueError, "time must be finite", "got nan at step 0"),
    Wrong(
        "backwards",
        lambda: lstm(X, at(T, 3, 2, 13.5)),
        ValueError,
        "time must not go backwards",
        r"got 13\.5 after 14\.0 at step 3 of sequence 2",
        r"Sort.*check_time = False",
    ),
    Wrong(
        "integers backwards",
        lambda: lstm(X, at(T.long(), 3, 2, 13)),
        ValueError,
        "time must not go backwards",
        r"got 13 after 14 at step 3 of sequence 2",
        r"Sort.*check_time = False",
    ),
    Wrong(
        "deep nan", lambda: lstm_deep(X, at(T, 3, 2, NAN)), ValueError, "time must be finite", "got nan at step 3 of sequence 2"
    ),
    Wrong("nan in data", lambda: lstm(X, at(T, 3, 2, NAN), lengths=[6, 6, 4, 6]), ValueError, "time must be finite", "got nan"),
    Wrong("gru nan", lambda: gru(X, at(T, 3, 2, NAN)), ValueError, "time must be finite", "got nan at step 3 of sequence 2"),
]

LENGTHS = [
    Wrong("too few", lambda: lstm(X, T, lengths=[6, 6]), ValueError, r"lengths must .*each sequence.*\(4,\)", r"got \(2,\)"),
    Wrong("one number", lambda: lstm(X, T, lengths=6), ValueError, r"lengths must .*each sequence.*\(4,\)", r"got \(\)"),
    Wrong("a matrix", lambda: lstm(X, T, lengths=torch.ones(4, 1).long()), ValueError, r"lengths must .*\(4,\)", r"got \(4, 1\)"),
    Wrong("too long", lambda: lstm(X, T, lengths=[6, 7, 6, 6]), ValueError, r"lengths must be in \[0, 6\]", "got 7"),
    Wrong("negative", lambda: lstm(X, T, lengths=[6, -1, 6, 6]), ValueError, r"lengths must be in \[0, 6\]", "got -1"),
    Wrong(
        "floats",
        lambda: lstm(X, T, lengths=[6.0, 5.0, 6.0, 6.0]),
        TypeError,
        "lengths must be whole numbers",
        r"got torch\.float32",
    ),
    Wrong("bools", lambda: lstm(X, T, lengths=[True] * 4), TypeError, "lengths must be whole numbers", r"got torch\.bool"),
    Wrong("words", lambda: lstm(X, T, lengths=["6"] * 4), TypeError, "lengths must be", "got "),
    Wrong("a dict", lambda: lstm(X, T, lengths={0: 6}), TypeError, "lengths must be", "got dict"),
    Wrong(
        "unbatched", lambda: lstm(X[:, 0], T[:, 0], lengths=[6]), ValueError, "lengths must be None for unbatched", "", r"input\["
    ),
    Wrong("batch first", lambda: lstm_first(X, T, lengths=[4] * 4), ValueError, r"lengths must .*\(6,\)", r"got \(4,\)"),
]

STATES = [
    Wrong("a tensor", lambda: lstm(X, T, H), TypeError, r"hx must be a tuple of 2 tensors, \(h_0, c_0\)", "got Tensor"),
    Wrong("one of two", lambda: lstm(X, T, (H,)), TypeError, r"hx must be a tuple of 2 tensors", "got tuple of length 1"),
    Wrong("three", lambda: lstm(X, T, (H, C, C)), TypeError, r"hx must be a tuple of 2 tensors", "got tuple of length 3"),
    Wrong("none inside", lambda: lstm(X, T, (H, None)), TypeError, "c_0 must be a torch.Tensor", "got NoneType"),
    Wrong("an array", lambda: lstm(X, T, (H.numpy(), C)), TypeError, "h_0 must be a torch.Tensor", "got ndarray"),
    Wrong("batch", lambda: lstm(X, T, (H[:, :3], C)), ValueError, r"h_0 must have shape \(1, 4, 5\)", r"got \(1, 3, 5\)"),
    Wrong("units", lambda: lstm(X, T, (H, C[..., :4])), ValueError, r"c_0 must have shape \(1, 4, 5\)", r"got \(1, 4, 4\)"),
    Wrong("layers", lambda: lstm_deep(X, T, (H, C)), ValueError, r"h_0 must have shape \(4, 4, 5\)", r"got \(1, 4, 5\)"),
    Wrong(
        "broadcast", lambda: lstm(X, T, (H[:, :1], C[:, :1])), ValueError, r"h_0 must have shape \(1, 4, 5\)", r"got \(1, 1, 5\)"
    ),
    Wrong("unbatched", lambda: lstm(X, T, (H[:, 0], C[:, 0])), ValueError, r"h_0 must have shape \(1, 4, 5\)", r"got \(1, 5\)"),
    Wrong("batched", lambda: lstm(X[:, 0], T[:, 0], (H, C)), ValueError, r"h_0 must have shape \(1, 5\)", r"got \(1, 4, 5\)"),
    Wrong(
        "dtype", lambda: lstm(X, T, (H, C.double())), TypeError, r"c_0 must .*torch\.float32", r"got torch\.float64", r"c_0\.to\("
    ),
    Wrong(
        "device", lambda: lstm(X, T, (H.to("meta"), C)), ValueError, r"h_0 must .*device.*cpu", "got meta", r"h_0\.to\('cpu'\)"
    ),
    Wrong("a tuple to a GRU", lambda: gru(X, T, (H,)), TypeError, "h_0 must be a torch.Tensor", "got tuple of length 1"),
    Wrong("shape to a GRU", lambda: gru(X, T, H[0]), ValueError, r"h_0 must have shape \(1, 4, 5\)", r"got \(4, 5\)"),
]

PACKED, PACKED_T = (pack_padded_sequence(v, torch.tensor([6, 5, 2, 1])) for v in (X, T))
OTHER_T = pack_padded_sequence(T, torch.tensor([6, 4, 3, 1]))
SHUFFLED_T = pack_padded_sequence(T, torch.tensor([1, 2, 5, 6]), enforce_sorted=False)
PACKS = [
    Wrong(
        "only input", lambda: lstm(PACKED, T), TypeError, "time must be a PackedSequence", "got Tensor", "pack_padded_sequence"
    ),
    Wrong(
        "only time", lambda: lstm(X, PACKED_T), TypeError, "time must be a Tensor", "got PackedSequence", "Pack both or neither"
    ),
    Wrong(
        "lengths",
        lambda: lstm(PACKED, OTHER_T),
        ValueError,
        "time must be packed as input is",
        "got other lengths",
        "same lengths",
    ),
    Wrong(
        "order", lambda: lstm(PACKED, SHUFFLED_T), ValueError, "time must be packed as input is", "another order", "same lengths"
    ),
    Wrong("lengths twice", lambda: lstm(PACKED, PACKED_T, lengths=[6, 5, 2, 1]), ValueError, "lengths must be None", "", None),
    Wrong("nan", lambda: lstm(PACKED, PACKED_T._replace(data=PACKED_T.data * NAN)), ValueError, "time must be finite", "got nan"),
    Wrong(
        "hx", lambda: lstm(PACKED, PACKED_T, (H[:, :2], C)), ValueError, r"h_0 must have shape \(1, 4, 5\)", r"got \(1, 2, 5\)"
    ),
    Wrong(
        "features",
        lambda: lstm(PACKED._replace(data=PACKED.data[:, :2]), PACKED_T),
        ValueError,
        r"input must .*, 3\)",
        r"got .*2\)",
    ),
    Wrong("dtype", lambda: lstm(PACKED.double(), PACKED_T), TypeError, r"input must .*torch\.float32", r"got torch\.float64"),
]


def everything_is_as_it_was() -> Callable[[], None]:
    """Call now and later: the layers' parameters, the caller's tensors and torch's generator have not moved."""
    kept = [rnn.state_dict() for rnn in (lstm, gru, lstm_64, lstm_first, lstm_deep)] + [{"X": X, "T": T, "H": H, "C": C}]
    before, generator = copy.deepcopy(kept), torch.get_rng_state()

    def check() -> None:
        for old, new in zip(before, kept, strict=True):
            assert all(torch.equal(old[name], new[name]) for name in old)
        assert torch.equal(torch.get_rng_state(), generator)

    return check


@table(INPUTS)
def test_a_wrong_input_is_refused(wrong):
    unchanged = everything_is_as_it_was()
    wrong.assert_says_so()
    unchanged()


@table(TIMES)
def test_a_wrong_time_is_refused(wrong):
    unchanged = everything_is_as_it_was()
    wrong.assert_says_so()
    unchanged()


@table(LENGTHS)
def test_wrong_lengths_are_refused(wrong):
    unchanged = everything_is_as_it_was()
    wrong.assert_says_so()
    unchanged()


@table(STATES)
def test_a_wrong_initial_state_is_refused(wrong):
    unchanged = everything_is_as_it_was()
    wrong.assert_says_so()
    unchanged()


@table(PACKS)
def test_a_wrong_packed_sequence_is_refused(wrong):
    unchanged = everything_is_as_it_was()
    wrong.assert_says_so()
    unchanged()


def test_the_message_of_the_design_is_the_message_given():
    rnn = PhasedLSTM(3, 5, batch_first=True)
    with pytest.raises(ValueError) as caught:
        rnn(torch.randn(4, 128, 3), torch.arange(128))
    assert str(caught.value) == (
        "time must have the shape of input without features, (4, 128), got (128,). "
        "Pass time.expand(4, 128) if all sequences share one clock."
    )


@pytest.mark.parametrize(
    "cured", [T[:, 0].unsqueeze(-1).expand(6, 4), T[..., None].squeeze(-1), T.T.T, T.float(), T.long(), T.int()]
)
def test_the_cures_cure(cured):
    lstm(X, cured)


def test_under_autocast_whole_numbers_are_still_no_input():
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(TypeError, match=r"input must .*floating.*got torch\.int64\. [A-Z]"),
    ):
        lstm(X.long(), T)


# Time that goes backwards, and how to allow it


@pytest.mark.parametrize("make", [PhasedLSTM, PhasedGRU])
def test_times_may_go_backwards_when_checking_is_switched_off(make):
    rnn = make(3, 5, period=7.0, ratio_on=0.5).eval()
    with pytest.raises(ValueError, match="backwards"):
        rnn(X, T.flip(0))
    rnn.check_time = False
    output, _ = rnn(X, T.flip(0))
    assert output.isfinite().all()
    assert make(3, 5).check_time is True  # the switch is the layer's own


def test_times_may_stand_still():
    lstm(X, torch.zeros(6, 4))
    lstm(X, torch.zeros(6, 4, dtype=torch.int64))


@pytest.mark.parametrize("filler", [NAN, INF, -INF, -1e9])
def test_padding_may_hold_any_time(filler):
    lengths = torch.tensor([6, 5, 0, 2])
    padding = torch.arange(6).unsqueeze(-1) >= lengths
    want, _ = lstm.eval()(X, T, lengths=lengths)
    got, _ = lstm(X.masked_fill(padding.unsqueeze(-1), filler), T.masked_fill(padding, filler), lengths=lengths)
    assert torch.equal(got, want)


def test_the_last_step_before_padding_is_still_checked():
    broken = at(T, 4, 1, -5.0)
    with pytest.raises(ValueError, match=r"backwards.*step 4 of sequence 1"):
        lstm(X, broken, lengths=[6, 5, 0, 2])
    lstm(X, broken, lengths=[6, 4, 0, 2])


# Everything else that takes arguments

torch_lstm, torch_gru, projected = nn.LSTM(3, 5), nn.GRU(3, 5), nn.LSTM(3, 5, proj_size=2)
OTHERS = [
    Wrong(
        "updates of nn.LSTM", lambda: updates(torch_lstm, T), TypeError, "rnn must be a PhasedLSTM or PhasedGRU", "got LSTM", None
    ),
    Wrong("updates of a list", lambda: updates(lstm, [1.0]), TypeError, "time must be a torch.Tensor", "got list", r"as_tensor"),
    Wrong(
        "updates of input",
        lambda: updates(lstm, X),
        ValueError,
        r"time must have shape \(steps, batch\)",
        r"got \(6, 4, 3\)",
        None,
    ),
    Wrong("updates of nan", lambda: updates(lstm, T * NAN), ValueError, "time must be finite", "got nan"),
    Wrong("updates backwards", lambda: updates(lstm, T.flip(0)), ValueError, "time must not go backwards", "got ", "Sort"),
    Wrong("updates of bools", lambda: updates(lstm, T > 0), TypeError, "time must be integer or floating", r"got torch\.bool"),
    Wrong("updates too long", lambda: updates(lstm, T, [7] * 4), ValueError, r"lengths must be in \[0, 6\]", "got 7"),
    Wrong("updates elsewhere", lambda: updates(lstm, T.to("meta")), ValueError, "time must .*device.*cpu", "got meta", r"\.to\("),
    Wrong(
        "from_lstm of a GRU", lambda: PhasedLSTM.from_lstm(torch_gru), TypeError, "lstm must be a torch.nn.LSTM", "got GRU", None
    ),
    Wrong(
        "from_gru of an LSTM", lambda: PhasedGRU.from_gru(torch_lstm), TypeError, "gru must be a torch.nn.GRU", "got LSTM", None
    ),
    Wrong(
        "from_lstm with projections",
        lambda: PhasedLSTM.from_lstm(projected),
        ValueError,
        "lstm must have proj_size=0",
        "got 2",
        "Linear",
    ),
]


@table(OTHERS)
def test_other_wrong_arguments_are_refused(wrong):
    unchanged = everything_is_as_it_was()
    wrong.assert_says_so()
    unchanged()


def test_a_bad_call_leaves_gradients_and_hooks_alone():
    rnn = PhasedLSTM(3, 5, period=7.0, ratio_on=0.5)
    rnn(X, T)[0].sum().backward()
    before = {name: p.grad.clone() for name, p in rnn.named_parameters() if p.grad is not None}
    with pytest.raises(ValueError, match="finite"):
        rnn(X, at(clocks(6, 4), 5, 3, NAN))
    assert all(torch.equal(rnn.get_parameter(name).grad, grad) for name, grad in before.items())
