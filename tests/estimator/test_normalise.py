"""Normalise and its stream: the inputs of the estimators, the same for a batch and event by event, causal, without units."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phased import PhasedGRU, PhasedLSTM, Stream
from phased.estimator import Events, Normalise, NormaliseStream, Shares
from phased.estimator import inputs as of_inputs
from phased.estimator import shares as of_shares
from phased.estimator.inputs import Inputs, Measured
from phased.estimator.scaling import Scaling
from phased.ops.native import MISSING

NAN, LENGTHS = float("nan"), [40, 0, 17, 1]
ways = st.sampled_from(["numpy"] if MISSING else ["core", "numpy"])


def measured(lengths=LENGTHS, variables=3, seed=0, known=0.5):
    """Padded values and times (T, B), rounded so that several steps have one time, with NaN where nothing was measured."""
    random = np.random.default_rng(seed)
    steps, batch = max([1, *lengths]), len(lengths)
    x = 50 + 10 * random.normal(size=(steps, batch, variables)).cumsum(0)
    x[random.random(x.shape) > known] = NAN
    time = 100 + np.round(random.exponential(2.0, (steps, batch)), 1).cumsum(0)
    return torch.from_numpy(x), torch.from_numpy(time)


X, TIME = measured()
FITTED = Normalise(3).fit(X, TIME, LENGTHS)


def way(patch, name):
    if name == "numpy":
        patch.setattr(of_inputs, "core", None)
        patch.setattr(of_shares, "core", None)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(1, 4), st.integers(0, 99), ways)
@settings(max_examples=30, deadline=None)
def test_a_stream_has_the_features_and_the_shares_of_the_batch(lengths, variables, seed, how):
    x, time = measured(lengths, variables, seed)
    with pytest.MonkeyPatch.context() as patch:
        way(patch, how)
        normalise = Normalise(variables).fit(x, time, lengths)
        rows = normalise(x, time, lengths)
        shares = Shares(variables).fit(rows, lengths)
        found = shares(rows, lengths)
        first = NormaliseStream(normalise, shares)
        for which, length in enumerate(lengths):
            first.reset()
            for step in range(length):
                row = first.push(x[step, which], time[step, which])
                torch.testing.assert_close(row, rows[step, which], rtol=1e-6, atol=1e-6)
            assert torch.equal(first.shares, found[which].float())


@pytest.mark.parametrize("layer", [PhasedLSTM, PhasedGRU])
def test_beside_a_stream_of_the_layer_events_give_the_output_of_the_batch(layer):
    rnn = layer(FITTED.output_size, 8).eval()
    inputs, stream = NormaliseStream(FITTED), Stream(rnn)
    outputs = [stream.push(inputs.push(x, t), t) for x, t in zip(X[:, 0].float().numpy(), TIME[:, 0].tolist(), strict=True)]
    expected = rnn(FITTED(X.float(), TIME, LENGTHS), TIME, lengths=LENGTHS)[0][:, 0]
    np.testing.assert_allclose(np.stack(outputs), expected.detach().numpy(), atol=1e-6)


@pytest.mark.parametrize("how", ["core", "numpy"])
def test_the_features_are_the_inputs_of_the_estimators(how, monkeypatch):
    if how == "core" and MISSING is not None:
        pytest.skip(str(MISSING))
    way(monkeypatch, how)
    sequences = [slice(0, length) for length in LENGTHS]
    events = Events.of(
        [TIME[own, n].numpy() for n, own in enumerate(sequences)], [X[own, n].numpy() for n, own in enumerate(sequences)]
    )
    scaling = Scaling.of(events)
    rows = Inputs(scaling.numbers, scaling.span_in_gaps).rows(Measured.of(events, scaling), np.arange(len(events)))
    found = Normalise(3).fit(X, TIME, LENGTHS)(X, TIME, LENGTHS)
    assert np.array_equal(np.concatenate([found[own, n] for n, own in enumerate(sequences)]), rows)


@given(st.integers(0, 39), st.integers(0, 99))
def test_the_past_does_not_depend_on_the_future(step, seed):
    others, later = measured(seed=seed)
    x, time = X.clone(), TIME.clone()
    x[step:], time[step:] = others[step:], TIME[step] + (later[step:] - later[step])
    assert torch.equal(FITTED(x, time, LENGTHS)[:step], FITTED(X, TIME, LENGTHS)[:step])


@given(st.floats(1e-6, 1e6), st.floats(-1e3, 1e3), st.floats(1e-6, 1e6), st.floats(-1e3, 1e3))
@settings(deadline=None)
def test_units_and_origins_of_values_and_times_change_nothing(unit, origin, tick, start):
    x, time = unit * (X + origin), tick * (TIME + start)
    found = Normalise(3).fit(x, time, LENGTHS)(x, time, LENGTHS)
    torch.testing.assert_close(found, FITTED(X, TIME, LENGTHS), rtol=1e-4, atol=1e-4)


def test_what_was_not_measured_keeps_the_last_value_and_its_age_grows():
    x = torch.tensor([[1.0, NAN], [NAN, NAN], [3.0, NAN], [NAN, NAN]])
    normalise = Normalise(2).fit(x, torch.tensor([0, 1, 2, 4]))
    found = normalise(x, torch.tensor([0, 1, 2, 4]))
    assert torch.isfinite(found).all()
    value, mask, age, gap = found[:, :2], found[:, 2:4], found[:, 4:6], found[:, 6]
    assert torch.equal(value[:, 0], value[[0, 0, 2, 2], 0])
    assert mask.tolist() == [[1, 0], [0, 0], [1, 0], [0, 0]]
    assert age.tolist() == [pytest.approx(np.log1p(each), abs=1e-6) for each in ([0, 0], [1, 1], [0, 2], [2, 4])]
    assert gap.tolist() == pytest.approx(np.log1p([0, 1, 1, 2]), abs=1e-6)
    assert not value[:, 1].any()


def test_every_form_of_a_batch_gives_the_same_features_and_padding_has_no_effect():
    first = Normalise(3, batch_first=True).fit(X.transpose(0, 1), TIME.T, LENGTHS)
    assert all(torch.equal(first.state_dict()[name], value) for name, value in FITTED.state_dict().items())
    whole = FITTED(X, TIME, LENGTHS)
    assert torch.equal(first(X.transpose(0, 1), TIME.T, torch.tensor(LENGTHS)), whole.transpose(0, 1))
    x, time = X.clone(), TIME.clone()
    for number, length in enumerate(LENGTHS):
        assert torch.equal(FITTED(X[:length, number], TIME[:length, number]), whole[:length, number])
        x[length:, number], time[length:, number] = float("inf"), NAN
        assert not whole[length:, number].any()
    assert torch.equal(FITTED(x, time, LENGTHS), whole)
    shares = Shares(3).fit(whole, LENGTHS)
    transposed = Shares(3, batch_first=True)
    transposed.load_state_dict(shares.state_dict())
    assert torch.equal(transposed(whole.transpose(0, 1), LENGTHS), shares(whole, LENGTHS))
    assert torch.equal(shares(whole[:17, 2]), shares(whole, LENGTHS)[2])


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("shape", [(0, 2, 3), (5, 0, 3), (0, 3), (0, 0, 3)])
def test_batches_without_steps_or_sequences_have_features_of_their_shape(shape, batch_first):
    normalise = Normalise(3, batch_first)
    normalise.load_state_dict(FITTED.state_dict())
    assert normalise(torch.zeros(shape), torch.zeros(shape[:-1])).shape == (*shape[:-1], 23)
    again = Normalise(3, batch_first).fit(torch.zeros(shape), torch.zeros(shape[:-1]))
    assert again(torch.ones(1, 3), torch.ones(1)).isfinite().all()


def test_integers_of_time_are_exact():
    micros = (TIME * 10).long() * 100_000 + 1_700_000_000_000_000
    assert torch.equal(
        Normalise(3).fit(X, micros, LENGTHS)(X, micros, LENGTHS),
        Normalise(3).fit(X, micros.double(), LENGTHS)(X, micros.double(), LENGTHS),
    )


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_features_have_the_device_and_the_dtype_of_the_values_and_no_gradient(dtype, device):
    x, time = X.clone().to(device, dtype).requires_grad_(), TIME.to(device)
    found, row = FITTED(x, time, LENGTHS), NormaliseStream(FITTED).push(x[0, 0], time[0, 0])
    assert found.dtype == row.dtype == dtype
    assert found.device.type == row.device.type == device
    assert not found.requires_grad
    torch.testing.assert_close(row, found[0, 0])
    torch.testing.assert_close(found.double(), FITTED(x.detach().double(), time, LENGTHS), rtol=1e-2, atol=1e-2)


def test_integers_give_float32_whatever_the_default():
    x, before = torch.arange(12).view(4, 1, 3), torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        normalise = Normalise(3).fit(x, torch.arange(4).view(4, 1))
        assert normalise(x, torch.arange(4).view(4, 1)).dtype == torch.float32
        assert NormaliseStream(normalise).push(x[0, 0], 0).dtype == torch.float32
        assert NormaliseStream(normalise).push([0, 1, 2], 0).dtype == np.float32
    finally:
        torch.set_default_dtype(before)


def test_a_compiled_network_calls_them_uncompiled():
    rows = FITTED(X, TIME)
    shares = Shares(3).fit(rows)
    compiled = torch.compile(lambda x, time: shares(FITTED(x, time) * 1.0), backend="eager")
    assert torch.equal(compiled(X, TIME), shares(rows))


def test_a_state_dict_has_the_scales_and_converting_a_network_changes_none():
    network, other = torch.nn.Sequential(copy.deepcopy(FITTED)), torch.nn.Sequential(Normalise(3))
    network.half().to(torch.bfloat16)
    other.load_state_dict(network.state_dict())
    copies = other[0], pickle.loads(pickle.dumps(FITTED)), network[0]
    assert all(torch.equal(each(X, TIME, LENGTHS), FITTED(X, TIME, LENGTHS)) for each in copies)
    with pytest.raises(RuntimeError, match="size mismatch for scales"):
        Normalise(4).load_state_dict(FITTED.state_dict())


def test_a_stream_can_be_copied_dumped_pickled_and_reset():
    shares = Shares(3).fit(FITTED(X, TIME, LENGTHS), LENGTHS)
    stream = NormaliseStream(FITTED, shares)
    assert stream.time is None
    assert not stream.shares.any()
    rows = [stream.push(x, t) for x, t in zip(X[:10, 0], TIME[:10, 0], strict=True)]
    assert stream.time == TIME[9, 0]
    others = [stream.copy(), pickle.loads(pickle.dumps(stream)), NormaliseStream(FITTED, shares)]
    others[2].restore(stream.dump())
    expected = stream.push(X[10, 0], TIME[10, 0])
    for other in others:
        assert torch.equal(other.push(X[10, 0], TIME[10, 0]), expected)
        assert torch.equal(other.shares, stream.shares)
    stream.reset()
    assert torch.equal(stream.push(X[0, 0], TIME[0, 0]), rows[0])
    for another in (NormaliseStream(FITTED), NormaliseStream(Normalise(3).fit(2 * X, TIME, LENGTHS), shares)):
        with pytest.raises(ValueError, match="must be of this model"):
            another.restore(stream.dump())


def test_a_later_fit_does_not_change_a_stream():
    normalise = copy.deepcopy(FITTED)
    stream = NormaliseStream(normalise)
    normalise.fit(3 * X, TIME, LENGTHS)
    assert torch.equal(stream.push(X[0, 0], TIME[0, 0]), FITTED(X[:1, 0], TIME[:1, 0])[0])


def test_a_variable_that_counts_time_is_read_as_its_difference_from_the_time():
    random = np.random.default_rng(0)
    times = [torch.from_numpy(100 * n + random.exponential(1.0, 50).cumsum()) for n in range(6)]
    noise = [torch.from_numpy(random.exponential(0.001, 50)) for _ in times]
    x = torch.stack([time + each for time, each in zip(times, noise, strict=True)], 1).cummax(0).values.unsqueeze(-1)
    time = torch.stack(times, 1)
    normalise = Normalise(1).fit(1000 * x, time)
    assert normalise.scales[4].item() == pytest.approx(1000, rel=1e-3)
    stream = NormaliseStream(normalise)
    found = torch.stack([stream.push(1000 * row, t) for row, t in zip(x[:, 3], time[:, 3], strict=True)])
    torch.testing.assert_close(found, normalise(1000 * x, time)[:, 3], rtol=1e-6, atol=1e-6)


WRONG = [
    (lambda: Normalise(0), ValueError, "input_size must be at least 1, got 0"),
    (
        lambda: Normalise(3)(X, TIME),
        ValueError,
        r"must be fitted, got one without valid scales. Call fit\(input, time\), or load a state_dict",
    ),
    (lambda: NormaliseStream(Normalise(3)), ValueError, "Normalise must be fitted"),
    (lambda: FITTED(X.numpy(), TIME), TypeError, "input must be a torch.Tensor, got ndarray"),
    (lambda: FITTED(X + 1j, TIME), TypeError, "input must be real numbers, got torch.complex"),
    (lambda: FITTED(X[..., :2], TIME), ValueError, r"input must have shape \(steps, batch, 3\)"),
    (lambda: FITTED(X, TIME[:-1]), ValueError, "time must have the shape of input without features"),
    (lambda: FITTED(X, TIME.flip(0)), ValueError, "time must not go backwards"),
    (lambda: FITTED(X, TIME, [50, 0, 1, 1]), ValueError, r"lengths must be in \[0, 40\]"),
    (lambda: FITTED(X[:, 0], TIME[:, 0], [3]), ValueError, r"lengths must be None .* Pass input\[:length\]"),
    (lambda: FITTED(X.nan_to_num(float("inf")), TIME), ValueError, "value must be finite, got inf .* Use NaN where nothing was"),
    (lambda: FITTED(X, 1e16 * TIME), ValueError, r"time must be from -2\*\*53 to 2\*\*53, got .* Subtract the start"),
    (lambda: FITTED(X[:, 0], TIME[:, 0].float() + 2.0**30), ValueError, "time must tell its steps apart"),
    (lambda: NormaliseStream("a"), TypeError, "normalise must be a Normalise, got str"),
    (lambda: NormaliseStream(FITTED, "a"), TypeError, "shares must be a Shares, got str"),
    (lambda: NormaliseStream(FITTED, Shares(2)), ValueError, r"must have the input_size 23 .* got 16. Make it with Shares\(3\)"),
    (lambda: NormaliseStream(FITTED).shares, ValueError, r"must have a Shares, got None. Make it with NormaliseStream\("),
    (
        lambda: Shares(3)(FITTED(X, TIME)),
        ValueError,
        r"must be fitted, got one without valid kernels. Call fit\(input\), or load a state_dict",
    ),
    (lambda: Shares(3).fit(X), ValueError, r"input must have shape \(steps, batch, 23\)"),
]


@pytest.mark.parametrize("call, error, message", WRONG)
def test_errors_say_what_was_expected_what_came_and_what_to_do(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    "x, t, error, message",
    [
        ([1.0, 2.0], 3.0, ValueError, r"x must have shape \(3,\), the input_size, got \(2,\)"),
        ([1.0, float("-inf"), 2.0], 3.0, ValueError, "x must be finite, got -inf for variable 1. Leave out"),
        ([1.0, 2.0, 1e301], 3.0, ValueError, r"x must be from -1e\+300 to 1e\+300, got 1e\+301 for variable 2. Change its unit"),
        ([1.0, 2.0, NAN], 1.0, ValueError, "time must not go backwards, got 1.0 after 2.0"),
        ([1.0, 2.0, NAN], NAN, ValueError, "time must be finite"),
        ([1.0, 2.0, NAN], 1e16, ValueError, r"time must be from -2\*\*53 to 2\*\*53"),
        (["a", "b", "c"], 3.0, TypeError, "x must be real numbers"),
    ],
)
def test_a_wrong_event_leaves_the_stream_as_it_was(x, t, error, message):
    stream = NormaliseStream(FITTED)
    stream.push([1.0, NAN, 2.0], 2.0)
    before = stream.dump()
    with pytest.raises(error, match=message):
        stream.push(x, t)
    assert stream.dump() == before
