"""The border: every wrong argument is named, with what was expected, what came and a cure, before anything has changed."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from phased import PhasedGRU, PhasedLSTM, openness_cost, updates
from wrong import Wrong, table

NAN, INF = float("nan"), float("inf")
X, T = torch.randn(6, 4, 3), torch.arange(24.0, dtype=torch.float64).reshape(4, 6).T
H, C = torch.randn(1, 4, 5), torch.randn(1, 4, 5)


# Calling a layer

lstm, gru = PhasedLSTM(3, 5), PhasedGRU(3, 5)
lstm_64, lstm_first, lstm_one = PhasedLSTM(3, 5, dtype=torch.float64), PhasedLSTM(3, 5, batch_first=True), PhasedLSTM(1, 5)
lstm_deep = PhasedLSTM(3, 5, 2, bidirectional=True)


def call(rnn=lstm, input=X, time=T, hx=None, lengths=None):
    return lambda: rnn(input, time, hx, lengths=lengths)


def at(time: Tensor, step: int, sequence: int, value: float) -> Tensor:
    changed = time.clone()
    changed[step, sequence] = value
    return changed


# An error, and what its message says is expected, after the name of the argument
A_TENSOR = TypeError, r"must be a torch\.Tensor"
NUMBERS = TypeError, "must be integer or floating point"
FINITE = ValueError, "must be finite"
FORWARD = ValueError, "must not go backwards"
PACKED_ALIKE = ValueError, "must be packed as input is"
PACKED_TOO = TypeError, "must be a (PackedSequence|Tensor)"
A_PAIR = TypeError, r"must be a tuple of 2 tensors, \(h_0, c_0\)"
WHOLE = TypeError, "must be whole numbers"
NONE = ValueError, "must be None"


def of(dtype: str) -> tuple[type[Exception], str]:
    return TypeError, rf"must .*torch\.{dtype}"


def shape(expected: str) -> tuple[type[Exception], str]:
    return ValueError, rf"must .*\({expected}\)"


DEVICE = ValueError, "must .*device.*cpu"
UP_TO_6 = ValueError, r"must be in \[0, 6\]"
EACH = ValueError, r"must .*each sequence.*\(4,\)"
X_SHAPE = shape("steps, batch, 3")
PACKED, PACKED_T = (pack_padded_sequence(v, torch.tensor([6, 5, 2, 1])) for v in (X, T))
OTHER_T = pack_padded_sequence(T, torch.tensor([6, 4, 3, 1]))
SHUFFLED_T = pack_padded_sequence(T, torch.tensor([1, 2, 5, 6]), enforce_sorted=False)
NARROW = PACKED._replace(data=PACKED.data[:, :2])
NAN_T = PACKED_T._replace(data=PACKED_T.data * NAN)

# What is wrong, the call, what the message says is expected, and what it says came, with the cure
CALLS = {
    "input": [
        ("a list", call(input=X.tolist()), A_TENSOR, r"got list.*torch\.as_tensor"),
        ("features", call(input=X[..., :2]), shape(r"steps, batch, 3\).*\(steps, 3"), r"got \(6, 4, 2\)"),
        ("batch first", call(lstm_first, X[..., :2]), shape("batch, steps, 3"), r"got \(6, 4, 2\)"),
        ("one dimension", call(input=X[0, 0]), X_SHAPE, r"got \(3,\)"),
        ("a lost feature", call(lstm_one, X[..., 0]), shape("steps, batch, 1"), r"got \(6, 4\).*unsqueeze\(-1\)"),
        ("whole numbers", call(input=X.long()), of("float32"), r"got torch\.int64.*input\.to\("),
        ("float64", call(input=X.double()), of("float32"), r"got torch\.float64.*\.to\("),
        ("float32", call(lstm_64), of("float64"), r"got torch\.float32.*\.to\("),
        ("a device", call(input=X.to("meta")), DEVICE, r"got meta.*input\.to\('cpu'\)"),
        ("packed features", call(input=NARROW, time=PACKED_T), shape(".*, 3"), r"got .*2\)"),
    ],
    "time": [
        ("a list", call(time=T.tolist()), A_TENSOR, r"got list.*torch\.as_tensor"),
        ("one clock", call(time=T[:, 0]), shape("6, 4"), r"got \(6,\).*unsqueeze\(-1\)\.expand\(6, 4\)"),
        ("one row", call(lstm_first, time=T[0]), shape("6, 4"), r"got \(4,\).*time\.expand\(6, 4\)"),
        ("a tail", call(time=T[..., None]), shape("6, 4"), r"got \(6, 4, 1\).*squeeze\(-1\)"),
        ("transposed", call(time=T.T), shape("6, 4"), r"got \(4, 6\).*(time\.T|transpose|batch_first)"),
        ("too short", call(time=T[:5]), shape("6, 4"), r"got \(5, 4\)"),
        ("unbatched", call(input=X[:, 0]), shape("6,?"), r"got \(6, 4\)"),
        ("bools", call(time=T > 0), NUMBERS, r"got torch\.bool"),
        ("complex", call(time=T + 1j), NUMBERS, r"got torch\.complex128"),
        ("a device", call(time=T.to("meta")), DEVICE, r"got meta.*time\.to\('cpu'\)"),
        ("nan", call(time=at(T, 3, 2, NAN)), FINITE, "got nan at step 3 of sequence 2"),
        ("inf", call(time=at(T, 5, 0, INF)), FINITE, "got inf at step 5 of sequence 0"),
        ("batch first nan", call(lstm_first, time=at(T.T.reshape(6, 4), 3, 2, NAN)), FINITE, "step 2 of sequence 3"),
        ("unbatched nan", call(input=X[:, 0], time=T[:, 0] * NAN), FINITE, "got nan at step 0"),
        ("packed nan", call(input=PACKED, time=NAN_T), FINITE, "got nan"),
        (
            "back",
            call(time=at(T, 3, 2, 13.5)),
            FORWARD,
            r"got 13\.5 after 14\.0 at step 3 of sequence 2.*Sort.*check_time = False",
        ),
        ("back, int", call(time=at(T.long(), 3, 2, 13)), FORWARD, "got 13 after 14 at step 3 of sequence 2.*check_time = False"),
        ("only input packed", call(input=PACKED), PACKED_TOO, "got Tensor.*pack_padded_sequence"),
        ("only time packed", call(time=PACKED_T), PACKED_TOO, "got PackedSequence.*Pack both or neither"),
        ("packed lengths", call(input=PACKED, time=OTHER_T), PACKED_ALIKE, "got other lengths.*same lengths"),
        ("packed order", call(input=PACKED, time=SHUFFLED_T), PACKED_ALIKE, "another order.*same lengths"),
    ],
    "lengths": [
        ("too few", call(lengths=[6, 6]), EACH, r"got \(2,\)"),
        ("one number", call(lengths=6), EACH, r"got \(\)"),
        ("batch first", call(lstm_first, lengths=[4] * 4), shape("6,"), r"got \(4,\)"),
        ("negative", call(lengths=[6, -1, 6, 6]), UP_TO_6, "got -1"),
        ("floats", call(lengths=[6.0, 5.0, 6.0, 6.0]), WHOLE, r"got torch\.float32"),
        ("bools", call(lengths=[True] * 4), WHOLE, r"got torch\.bool"),
        ("words", call(lengths=["6"] * 4), (TypeError, "must be"), "got "),
        ("a dict", call(lengths={0: 6}), (TypeError, "must be"), "got dict"),
        ("unbatched", call(input=X[:, 0], time=T[:, 0], lengths=[6]), NONE, r"for unbatched.*input\["),
        ("packed", call(input=PACKED, time=PACKED_T, lengths=[6, 5, 2, 1]), NONE, ""),
    ],
    "hx": [
        ("a tensor", call(hx=H), A_PAIR, "got Tensor"),
        ("three", call(hx=(H, C, C)), A_PAIR, "got tuple of length 3"),
    ],
    "h_0": [
        ("an array", call(hx=(H.numpy(), C)), A_TENSOR, "got ndarray"),
        ("batch", call(hx=(H[:, :3], C)), shape("1, 4, 5"), r"got \(1, 3, 5\)"),
        ("unbatched", call(hx=(H[:, 0], C[:, 0])), shape("1, 4, 5"), r"got \(1, 5\)"),
        ("device", call(hx=(H.to("meta"), C)), DEVICE, r"got meta.*h_0\.to\('cpu'\)"),
        ("a tuple to a GRU", call(gru, hx=(H,)), A_TENSOR, "got tuple of length 1"),
        ("shape to a GRU", call(gru, hx=H[0]), shape("1, 4, 5"), r"got \(4, 5\)"),
    ],
    "c_0": [
        ("none", call(hx=(H, None)), A_TENSOR, "got NoneType"),
        ("units", call(hx=(H, C[..., :4])), shape("1, 4, 5"), r"got \(1, 4, 4\)"),
        ("dtype", call(hx=(H, C.double())), of("float32"), r"got torch\.float64.*c_0\.to\("),
    ],
}

torch_lstm, torch_gru, projected = nn.LSTM(3, 5), nn.GRU(3, 5), nn.LSTM(3, 5, proj_size=2)
CALLS["time"] += [
    ("list to updates", lambda: updates(lstm, [1.0]), A_TENSOR, r"got list.*as_tensor"),
    ("input to updates", lambda: updates(lstm, X), shape("steps, batch"), r"got \(6, 4, 3\)"),
    ("back to updates", lambda: updates(lstm, T.flip(0)), FORWARD, "got .*Sort"),
    ("device to updates", lambda: updates(lstm, T.to("meta")), DEVICE, r"got meta.*\.to\("),
]
CALLS["lengths"] += [("too long for updates", lambda: updates(lstm, T, [7] * 4), UP_TO_6, "got 7")]
CALLS["rnn"] = [
    (f"{function.__name__} of nn.LSTM", wrong, (TypeError, "must be a PhasedLSTM or PhasedGRU"), "got LSTM")
    for function, wrong in ((updates, lambda: updates(torch_lstm, T)), (openness_cost, lambda: openness_cost(torch_lstm)))
]
CALLS["lstm"] = [
    ("from a GRU", lambda: PhasedLSTM.from_lstm(torch_gru), (TypeError, r"must be a torch\.nn\.LSTM"), "got GRU"),
    ("projections", lambda: PhasedLSTM.from_lstm(projected), (ValueError, "must have proj_size=0"), "got 2.*Linear"),
]
CALLS["gru"] = [("from an LSTM", lambda: PhasedGRU.from_gru(torch_lstm), (TypeError, r"must be a torch\.nn\.GRU"), "got LSTM")]
WITHOUT_A_CURE = {
    "rnn: updates of nn.LSTM",
    "rnn: openness_cost of nn.LSTM",
    "lstm: from a GRU",
    "gru: from an LSTM",
    "time: input to updates",
    "lengths: packed",
}
ROWS = [
    Wrong(f"{name}: {what}", wrong, error, f"{name} {expected}.*{got}", "")
    for name, rows in CALLS.items()
    for what, wrong, (error, expected), got in rows
]


lstm(X, T)[0].sum().backward()


def everything_is_as_it_was() -> Callable[[], None]:
    """Call now and later: the layers' parameters and gradients, the caller's tensors and torch's generator have not moved."""
    kept = [rnn.state_dict() for rnn in (lstm, gru, lstm_64, lstm_first, lstm_deep)] + [{"X": X, "T": T, "H": H, "C": C}]
    kept.append({name: value.grad for name, value in lstm.named_parameters() if value.grad is not None})
    before, generator = copy.deepcopy(kept), torch.get_rng_state()

    def check() -> None:
        for old, new in zip(before, kept, strict=True):
            assert all(torch.equal(old[name], new[name]) for name in old)
        assert torch.equal(torch.get_rng_state(), generator)

    return check


@table([row._replace(cure=None) if row.what in WITHOUT_A_CURE else row for row in ROWS])
def test_a_wrong_argument_is_refused(wrong):
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
    "time",
    [T[:, 0].unsqueeze(-1).expand(6, 4), T[..., None].squeeze(-1), T.T.T, T.float(), T.int(), 0 * T, 0 * T.long()],
)
def test_the_cures_cure_and_times_may_stand_still(time):
    lstm(X, time)


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
