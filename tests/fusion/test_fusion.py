"""Fusion: each layer at the samples of its own sensor, the merged layer at all of them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fusing import batch, close, network, one_of, parameters, slowly
from layers import each_layer, states
from phased import Fusion, PhasedGRU, PhasedLSTM, Uniform, aligned, open_at_samples, updates
from phased.encoding import encoded
from phased.fusion import Parts, hold
from phased.learn.batch import Samples
from phased_lab.runs.baselines import Baseline
from strategies import seeds

LENGTHS = {"ears": [9, 0, 4, 1], "eyes": [3, 2, 0, 0], "skin": [5, 0, 7, 0]}
ragged = st.integers(1, 4).flatmap(
    lambda size: st.fixed_dictionaries({name: st.lists(st.integers(0, 6), min_size=size, max_size=size) for name in LENGTHS})
)


# Equal to a loop over events


@settings(max_examples=25)
@given(seeds, ragged, st.booleans(), st.booleans())
def test_a_batch_is_what_a_loop_over_a_list_of_events_gives(seed, lengths, grid, with_extra):
    """Ragged sensors with NaN as padding, some without samples, many samples at equal times."""
    torch.manual_seed(seed)
    fusion = network()
    streams = batch(lengths, grid)
    size = len(lengths["ears"])
    extra = [1.0, 2.5, 30.0] if with_extra else []
    further = torch.tensor(extra, dtype=torch.float64).unsqueeze(1).expand(-1, size)
    output, timeline, state = fusion(streams, extra=further)
    for sequence in range(size):
        times, want, last = slowly(fusion, streams, sequence, extra)
        steps = len(times)
        assert timeline.time[:steps, sequence].tolist() == times
        close(output[:steps, sequence], want)
        assert not output[steps:, sequence].any()
        for name, got in {**state.sensors, "merged": state.merged}.items():
            if got is None:  # no sequence has a sample of this sensor
                assert last[name] is None
                continue
            of_sequence = states(one_of(got, sequence))
            # A layer that has not run is in its initial state.
            for part, expected in zip(of_sequence, last[name] or (torch.zeros_like(s) for s in of_sequence), strict=True):
                close(part, expected)


@each_layer
def test_gradients_are_those_of_a_loop_over_a_list_of_events(make):
    fusion = network(make)
    streams = batch(LENGTHS)
    inputs = [x.requires_grad_() for x, _, _ in streams.values()]
    weights = torch.randn(40, 4, 5, dtype=torch.float64)

    output, timeline, _ = fusion(streams)
    fast = torch.autograd.grad((output * weights[: len(output)]).sum(), [*parameters(fusion), *inputs])
    total = torch.zeros((), dtype=torch.float64)
    for sequence in range(4):
        _, want, _ = slowly(fusion, streams, sequence)
        total = total + (want * weights[: len(want), sequence]).sum()
    slow = torch.autograd.grad(total, [*parameters(fusion), *inputs])
    for got, want in zip(fast, slow, strict=True):
        close(got, want)
    assert int(timeline.lengths.sum()) > 10


# Equal to closed gates on a shared timeline


def test_running_at_its_own_samples_is_running_at_all_of_them_with_gates_that_are_closed_between():
    """A regular sensor whose gates are set by hand: on the shared timeline, with anything as input in between, its outputs are
    those that are held.
    """
    sensor = PhasedLSTM(3, 4, 2, dtype=torch.float64, **aligned(interval=10.0, start=2.0, ratio_on=0.1))
    other = PhasedLSTM(2, 3, dtype=torch.float64, **open_at_samples())
    fusion = Fusion(
        {"regular": sensor, "other": other}, PhasedLSTM(7, 5, period=Uniform(5, 40), ratio_on=0.5, dtype=torch.float64)
    )
    time = 2 + 10 * torch.arange(8, dtype=torch.float64).unsqueeze(1)
    x = torch.randn(8, 1, 3, dtype=torch.float64)
    between = torch.sort((4 + 6 * torch.rand(30, dtype=torch.float64)) + 10 * torch.randint(0, 7, (30,))).values.unsqueeze(1)
    output, timeline, state = fusion({"regular": (x, time), "other": (torch.randn(30, 1, 2, dtype=torch.float64), between)})

    everywhere = 100 * torch.randn(len(timeline.time), 1, 3, dtype=torch.float64)
    at = torch.isin(timeline.time, time)
    everywhere[at] = x.squeeze(1)
    shared, last = sensor(everywhere, timeline.time)
    own, _ = sensor(x, time)
    close(shared, own[timeline.latest["regular"].flatten()])
    for got, want in zip(state.sensors["regular"], last, strict=True):
        close(got, want)
    assert len(output) == 38
    assert updates(sensor, timeline.time).sum() == updates(sensor, time).sum() == 8 * 4 * 2


# Sensors that are absent


@each_layer
def test_a_sensor_that_is_absent_altogether_is_one_of_length_0(make):
    fusion = network(make)
    streams = batch({**LENGTHS, "eyes": [0, 0, 0, 0]})
    nothing = torch.zeros(5, 4, 2, dtype=torch.float64), torch.zeros(5, 4), torch.zeros(4, dtype=torch.int64)
    with_none, _, state = fusion({**streams, "eyes": None})
    assert state.sensors["eyes"] is None
    assert torch.equal(fusion(streams).output, with_none)
    assert torch.equal(fusion({**streams, "eyes": nothing}).output, with_none)


# States


@each_layer
def test_two_halves_are_the_whole(make):
    fusion = network(make)
    early, late = batch({"ears": [3, 3], "eyes": [2, 2], "skin": [1, 1]}), batch({"ears": [4, 2], "eyes": [0, 3], "skin": [2, 0]})
    late = {name: (x, time + 20.5, lengths) for name, (x, time, lengths) in late.items()}
    parts = {name: list(zip(early[name], late[name], strict=True)) for name in early}
    output, _, state = fusion({name: (torch.cat(x), torch.cat(time), sum(lengths)) for name, (x, time, lengths) in parts.items()})
    first, of_first, hx = fusion(early)
    rest, of_rest, hx = fusion(late, hx)
    for sequence in range(2):
        steps, more = of_first.lengths[sequence], of_rest.lengths[sequence]
        close(torch.cat([first[:steps, sequence], rest[:more, sequence]]), output[: steps + more, sequence])
    for got, want in zip((hx.merged, *hx.sensors.values()), (state.merged, *state.sensors.values()), strict=True):
        close(states(got), states(want))


# Encoders, dropout, other layers


ENCODERS = {
    "images": (
        nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)),
        torch.randn(9, 4, 1, 8, 8),
    ),
    "words": (nn.Embedding(20, 3), torch.randint(20, (9, 4))),
}


@pytest.mark.parametrize("encoder, x", ENCODERS.values(), ids=ENCODERS)
def test_an_encoder_sees_samples_and_no_padding_unless_it_may(encoder, x):
    """Padding that it may not see is NaN, or an index that is not in the table."""
    lengths = torch.tensor([9, 1, 0, 8])
    real = torch.arange(9).unsqueeze(1) < lengths
    found = []
    for padding in (False, True):
        given = x.clone()
        given[~real] = 0 if padding else 20 if x.dtype == torch.int64 else torch.nan
        encoder.zero_grad()
        features = encoded(encoder, given, lengths, padding)
        assert features.shape == (9, 4, 3)
        assert padding or not features[~real].any()
        features[real].square().sum().backward()
        found.append([features[real], *(p.grad.clone() for p in encoder.parameters())])
    for one, other in zip(*found, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other)
    torch.testing.assert_close(found[0][0], encoder(x[real]))


@pytest.mark.parametrize("padding", [False, True])
def test_the_layer_of_a_sensor_reads_what_its_encoder_gives(padding):
    fusion = network(encoders={"eyes": nn.Embedding(7, 2, dtype=torch.float64)}, encode_padding=padding)
    streams = batch(LENGTHS)
    index = torch.randint(7, (3, 4))
    features = fusion.encoders["eyes"](index)
    output = fusion({**streams, "eyes": (index, *streams["eyes"][1:])}).output
    fusion.encoders.clear()
    close(output, fusion({**streams, "eyes": (features, *streams["eyes"][1:])}).output)


def test_batch_normalisation_stays_finite_when_its_sensor_is_absent():
    fusion = network(encoders={"ears": nn.BatchNorm1d(3, dtype=torch.float64)}).train()
    fusion(batch({"ears": [0, 0], "eyes": [3, 2], "skin": [1, 1]}))
    padded = torch.full((4, 2, 3), torch.nan, dtype=torch.float64), torch.zeros(4, 2), torch.zeros(2, dtype=torch.int64)
    fusion({"ears": padded, "eyes": None, "skin": None}, extra=torch.ones(1, 2))
    assert bool(fusion.encoders["ears"].running_mean.isfinite().all())


def test_dropout_acts_on_what_the_merged_layer_receives_in_training_alone():
    fusion = network(dropout=1.0).eval()
    streams = batch(LENGTHS)
    want = network()
    want.load_state_dict(fusion.state_dict())
    assert torch.equal(fusion(streams).output, want(streams).output)
    output, timeline, _ = fusion.train()(streams)
    nothing = torch.zeros(*timeline.time.shape, 9, dtype=torch.float64)
    assert torch.equal(output, fusion.merged(nothing, timeline.time, lengths=timeline.lengths)[0])


def test_the_baselines_are_layers_too_and_run_at_the_samples_of_their_sensor():
    fusion = Fusion({"ears": Baseline(3, 4), "eyes": Baseline(2, 3, "input")}, Baseline(7, 5, "term"))
    streams = batch({"ears": [6, 3], "eyes": [2, 4]}, dtype=torch.float32)
    streams = {name: Samples(x.nan_to_num(), time.nan_to_num(), lengths) for name, (x, time, lengths) in streams.items()}
    held = []
    fusion.merged.register_forward_pre_hook(lambda _, given: held.append(given[0]))
    output, timeline, _ = fusion(streams)
    assert output.shape == (*timeline.time.shape, 5)
    output[timeline.valid].square().sum().backward()
    assert all(p.grad.isfinite().all() for p in parameters(fusion))
    want, _ = fusion.sensors["ears"](*streams["ears"])
    close(held[0][..., :4], hold(want, timeline.latest["ears"]))
    alone, _, _ = fusion({**streams, "eyes": None})
    assert alone.shape[1:] == (2, 5)


# As a torch module


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_dtypes_keep_times_in_float64(dtype):
    fusion = network().to(dtype)
    streams = {name: (x.to(dtype), time, lengths) for name, (x, time, lengths) in batch(LENGTHS).items()}
    output, timeline, _ = fusion(streams)
    assert (output.dtype, timeline.time.dtype) == (dtype, torch.float64)


def test_no_value_is_read_where_the_number_of_steps_is_given():
    """On a GPU reading a value would synchronise. Tensors without values cannot be read at all."""
    fusion = network(encoders={"eyes": nn.Linear(2, 2, dtype=torch.float64)}, encode_padding=True).to("meta")
    streams = {name: tuple(part.to("meta") for part in samples) for name, samples in batch(LENGTHS).items()}
    output, timeline, _ = fusion(streams, extra=torch.empty(6, 4, device="meta"), steps=25)
    assert output.shape == (25, 4, 5)
    assert fusion(streams, steps=20).output.shape == (20, 4, 5)
    assert timeline.latest["eyes"].shape == (25, 4)


def test_updates_are_counted_at_the_samples_of_each_sensor_and_at_all_steps():
    fusion = network()
    streams = batch(LENGTHS)
    counts = fusion.updates(streams)
    timeline = fusion.timeline(streams)
    assert counts.sensors["ears"].tolist() == [[4 * [n] for n in LENGTHS["ears"]]]
    assert torch.equal(counts.merged, updates(fusion.merged, timeline.time, timeline.lengths))
    assert not fusion.updates({**streams, "skin": None}).sensors["skin"].any()
    assert counts.sensors["skin"].shape == (1, 4, 2)


# Errors


LAYER = PhasedLSTM(3, 4)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (({}, LAYER), ValueError, "at least one layer"),
        (([LAYER], LAYER), TypeError, "sensors must be given by name, as a dict, got list"),
        (({"a": nn.Linear(2, 3)}, LAYER), TypeError, "sensor 'a': the layer must be a PhasedLSTM.* got Linear"),
        (({"a": LAYER}, "layer"), TypeError, "merged: the layer must be a PhasedLSTM"),
        (({"a": PhasedLSTM(3, 4, bidirectional=True)}, LAYER), ValueError, "sensor 'a': the layer must be one-directional"),
        (({"a": LAYER}, PhasedGRU(4, 4, batch_first=True)), ValueError, "merged: the layer must be one-directional"),
        (({"a": LAYER}, LAYER), ValueError, "merged must have input_size 4, the sum of the sensors' hidden sizes, got 3"),
        (({"a.b": LAYER}, PhasedGRU(4, 4)), KeyError, r'contain "\."'),
        (({"a": LAYER}, PhasedGRU(4, 4), {"b": nn.Linear(3, 3)}), ValueError, "unknown sensor 'b', expected 'a'"),
    ],
)
def test_wrong_networks_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Fusion(*arguments)


GOOD = batch({"ears": [3, 2], "eyes": [2, 2], "skin": [1, 1]})
X, TIME, ENDS = GOOD["ears"]


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"nose": GOOD["ears"]}, ValueError, "unknown sensor 'nose', expected 'ears', 'eyes', 'skin'"),
        ({"ears": X}, TypeError, r"sensor 'ears': samples must be \(x, time\) or \(x, time, lengths\), got Tensor"),
        ({"ears": (X,)}, TypeError, "sensor 'ears': samples must be"),
        ({"ears": (X[..., :2], TIME, ENDS)}, ValueError, r"'ears': input must have shape \(steps, batch, 3\) .* got \(3, 2, 2"),
        ({"ears": (X[:2], TIME, ENDS)}, ValueError, r"'ears': x must begin with the shape of its times, \(3, 2\), got"),
        ({"ears": (X.tolist(), TIME, ENDS)}, TypeError, "sensor 'ears': x must be a torch.Tensor, got list"),
        ({"ears": (X.to("meta"), TIME, ENDS)}, ValueError, "sensor 'ears': time must be on the device of x, meta, got cpu"),
        (
            {"ears": (X, TIME.clone().requires_grad_(), ENDS)},
            RuntimeError,
            r"sensor 'ears': a gradient to time .*time\.detach\(\)",
        ),
    ],
)
def test_wrong_samples_are_refused_and_named(change, error, message):
    with pytest.raises(error, match=message):
        network()({**GOOD, **change})
    if error is RuntimeError:
        with torch.no_grad():
            network()({**GOOD, **change})


@pytest.mark.parametrize(
    "streams, options, error, message",
    [
        ({"ears": GOOD["ears"]}, {}, ValueError, r"samples of 'eyes', 'skin' are missing\. Pass None"),
        ([GOOD["ears"]], {}, TypeError, "by name, as a dict, got list"),
        (GOOD, {"hx": {}}, TypeError, "the state must be Parts"),
        (GOOD, {"hx": Parts({"ears": None}, None)}, ValueError, "the states of 'eyes', 'skin' are missing"),
        (
            dict.fromkeys(GOOD),
            {"hx": network()(GOOD).state, "extra": torch.ones(1, 1)},
            ValueError,
            r"initial must have shape \(1, 4\), got \(2, 4\)",
        ),
        (GOOD, {"steps": 0}, ValueError, "steps must be at least 1, got 0"),
        (GOOD, {"extra": torch.ones(3)}, ValueError, r"extra: time must have shape \(steps, sequences\)"),
    ],
)
def test_wrong_arguments_are_refused(streams, options, error, message):
    with pytest.raises(error, match=message):
        network()(streams, **options)


def test_an_encoder_must_return_vectors_of_features():
    message = r"sensor 'ears': the encoder must return shape \(5, D\) for 5 samples, got \(5, 3, 1\)"
    with pytest.raises(ValueError, match=message):
        network(encoders={"ears": nn.Identity()})({**GOOD, "ears": (X.unsqueeze(-1), TIME, ENDS)})
