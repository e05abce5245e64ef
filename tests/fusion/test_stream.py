"""FusionStream: sample by sample, the numbers of the network in eval."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fusing import batch, close, events, network
from layers import each_layer, states
from phased import Fusion, FusionStream, PhasedLSTM
from phased_lab.runs.baselines import Baseline
from strategies import seeds

LENGTHS = {"ears": [12], "eyes": [5], "skin": [8]}
one_sequence = st.fixed_dictionaries({name: st.lists(st.integers(0, 8), min_size=1, max_size=1) for name in LENGTHS})


def single(streams):
    """The valid samples of the only sequence, as `run` takes them."""
    return {name: (x[: lengths[0], 0], time[: lengths[0], 0]) for name, (x, time, lengths) in streams.items()}


def frozen(stream):
    state = stream.state
    return stream.time, [s.clone() for part in (*state.sensors.values(), state.merged) for s in states(part)]


def same(one, other):
    return one[0] == other[0] and all(torch.equal(a, b) for a, b in zip(one[1], other[1], strict=True))


# Equal to the network


@settings(max_examples=25)
@given(seeds, one_sequence, st.booleans(), st.randoms(use_true_random=False))
def test_pushing_samples_one_by_one_gives_the_outputs_of_the_batch(seed, lengths, grid, order):
    """At equal times the output of the last push is that of the step, whatever the order of the sensors."""
    torch.manual_seed(seed)
    fusion = network().eval()
    streams = batch(lengths, grid)
    stream = FusionStream(fusion)
    outputs = []
    for time, samples in events(streams, 0, extra=[3.0, 3.5]):
        first = {name: rows.pop(0) for name, rows in samples.items() if order.random() < 0.3}  # pushed together
        h = stream.push(first, time) if first or not samples else None
        for name in order.sample(list(samples), len(samples)):
            for row in samples[name]:
                h = stream.push({name: row}, time)
        outputs.append(h)
    output, timeline, state = fusion(streams, extra=torch.tensor([[3.0], [3.5]]))
    close(torch.stack(outputs), output[:, 0])
    assert stream.time == timeline.time[-1].item()
    close(states(stream.state.merged)[0], states(state.merged)[0])


@settings(max_examples=25)
@given(seeds, one_sequence, st.booleans(), st.integers(0, 25))
def test_running_many_samples_in_parts_is_the_batch(seed, lengths, grid, cut):
    """A part may begin at the time at which the last one ended."""
    torch.manual_seed(seed)
    fusion = network().eval()
    streams = batch(lengths, grid)
    want, timeline, state = fusion(streams, extra=torch.arange(4.0).unsqueeze(1))
    stream = FusionStream(fusion)
    outputs = {}
    grid_times = torch.arange(4.0)
    for part in (0, 1):
        mine = {}
        for name, (x, time) in single(streams).items():
            # At the cut the ears' samples belong to the first part, all others to the second.
            early = (time <= cut) if name == "ears" else (time < cut)
            rows = ~early if part else early
            mine[name] = x[rows], time[rows]
        output, times = stream.run(mine, extra=grid_times[(grid_times >= cut) == bool(part)])
        outputs |= dict(zip(times.tolist(), output, strict=True))
    assert list(outputs) == timeline.time.flatten().tolist()
    close(torch.stack(list(outputs.values())), want[:, 0])
    close(states(stream.state.merged)[0], states(state.merged)[0])


@each_layer
def test_the_network_goes_on_where_a_stream_stopped_and_the_other_way_round(make):
    fusion = network(make).eval()
    streams = single(batch(LENGTHS, grid=False))
    whole = {name: (x.unsqueeze(1), time.unsqueeze(1)) for name, (x, time) in streams.items()}
    early = {name: (x[time < 9], time[time < 9]) for name, (x, time) in streams.items()}
    late = {name: (x[time >= 9], time[time >= 9]) for name, (x, time) in streams.items()}
    want = fusion(whole).output[:, 0]

    stream = FusionStream(fusion)
    steps = len(stream.run(early)[0])
    rest, _, _ = fusion({name: (x.unsqueeze(1), time.unsqueeze(1)) for name, (x, time) in late.items()}, stream.state)
    close(rest[:, 0], want[steps:])

    other = FusionStream(fusion)
    other.state = fusion({name: (x.unsqueeze(1), time.unsqueeze(1)) for name, (x, time) in early.items()}).state
    close(other.run(late)[0], want[steps:])


def test_an_encoder_runs_as_in_eval():
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(8, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)).double()
    fusion = network(encoders={"ears": encoder})
    images, time = torch.randn(6, 1, 2, 2, 2, dtype=torch.float64), torch.arange(6.0).unsqueeze(1)
    fusion.train()({"ears": (images, time), "eyes": None, "skin": None})
    pushed, run = FusionStream(fusion), FusionStream(fusion)
    want = fusion.eval()({"ears": (images, time), "eyes": None, "skin": None}).output[:, 0]
    fusion.train()
    close(torch.stack([pushed.push({"ears": image.numpy()}, t) for t, image in enumerate(images[:, 0])]), want)
    close(run.run({"ears": (images[:, 0], time[:, 0])})[0], want)


def test_arrays_and_lists_are_samples_too():
    fusion = network(dtype=torch.float32)
    x = torch.tensor([0.5, -1.0, 2.0])
    outputs = [FusionStream(fusion).push({"ears": given}, np.float64(2)) for given in (x, x.numpy(), x.tolist(), x.double())]
    assert all(torch.equal(output, outputs[0]) for output in outputs)
    assert outputs[0].dtype == torch.float32


# States and weights


def test_a_state_of_none_is_zeros():
    stream = FusionStream(network())
    stream.push({"ears": torch.randn(3), "eyes": torch.randn(2)}, 50.0)
    stream.state = stream.state._replace(sensors=dict.fromkeys(LENGTHS), merged=None)
    assert all(not s.any() for s in frozen(stream)[1])


def test_the_weights_are_those_of_the_moment_at_which_the_stream_was_made():
    fusion = network(encoders={"ears": nn.Linear(3, 3, dtype=torch.float64)})
    stream, x = FusionStream(fusion), torch.randn(3)
    want = stream.copy().push({"ears": x}, 1.0)
    with torch.no_grad():
        for parameter in fusion.parameters():
            parameter.add_(1.0)
    assert torch.equal(stream.push({"ears": x}, 1.0), want)


# Errors


GOOD = {"ears": torch.ones(3), "eyes": torch.ones(2)}
TWO = torch.ones(2, 3)


def push(samples, time):
    return lambda stream: stream.push(samples, time)


def run(**streams):
    return lambda stream: stream.run(streams)


def put(change):
    return lambda stream: setattr(stream, "state", change(stream.state))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (push(GOOD, 4.9), ValueError, r"time must not go backwards, got 4\.9 after 5\.0"),
        (push(GOOD, np.nan), ValueError, "time must be finite"),
        (push({}, 10**400), TypeError, "time must be real numbers"),
        (push({**GOOD, "nose": torch.ones(2)}, 6.0), ValueError, "unknown sensor 'nose', expected 'ears', 'eyes', 'skin'"),
        (push({**GOOD, "skin": torch.ones(2)}, 6.0), ValueError, r"sensor 'skin': x must have shape \(1,\)"),
        (push(torch.ones(3), 6.0), TypeError, "sensors must be given by name, as a dict, got Tensor"),
        (run(ears=(TWO, [4.0, 6.0])), ValueError, r"time must not go backwards, got 4\.0 after 5\.0"),
        (run(ears=(TWO, [7.0, 6.0])), ValueError, r"sensor 'ears': time must not go backwards, got 6\.0 after 7"),
        (run(eyes=(TWO[:1, :2], [6]), ears=(TWO[:1, :2], [6])), ValueError, "sensor 'ears': x must have shape"),
        (run(ears=TWO), TypeError, r"sensor 'ears': samples must be a pair \(x, time\), got Tensor\. Pass both"),
        (run(), ValueError, "a timeline must have times"),
        (put(lambda state: state._replace(sensors={})), ValueError, "the states of 'ears', 'eyes', 'skin' are missing"),
        (put(lambda state: state._replace(merged=state.sensors["ears"])), ValueError, r"merged: h_0 must have shape \(2, 5\)"),
    ],
)
def test_what_is_wrong_raises_and_changes_nothing(call, error, message):
    stream = FusionStream(network())
    stream.push(GOOD, 5.0)
    before = frozen(stream)
    with pytest.raises(error, match=message):
        call(stream)
    assert same(frozen(stream), before)
    stream.push(GOOD, 5.0)


@pytest.mark.parametrize(
    "fusion, message",
    [
        (PhasedLSTM(3, 4), "fusion must be a Fusion, got PhasedLSTM"),
        (
            Fusion({"ears": Baseline(3, 4)}, PhasedLSTM(4, 5)),
            "sensor 'ears': rnn must be a PhasedLSTM or PhasedGRU, got Baseline",
        ),
        (Fusion({"ears": PhasedLSTM(3, 4)}, Baseline(4, 5)), "merged: rnn must be a PhasedLSTM or PhasedGRU, got Baseline"),
    ],
)
def test_what_is_no_fusion_of_phased_layers_cannot_be_streamed(fusion, message):
    with pytest.raises(TypeError, match=message):
        FusionStream(fusion)


@pytest.mark.parametrize("kind", [np.float32, lambda t: torch.tensor(t, dtype=torch.float32)], ids=["numpy", "torch"])
def test_a_time_that_float32_rounds_to_that_of_the_last_sample_changes_nothing(kind):
    stream = FusionStream(network().eval())
    stream.push({"ears": torch.ones(3)}, kind(1.7e9))
    stream.push({"eyes": torch.ones(2)}, kind(1.7e9))  # another sensor may share the time
    before = frozen(stream)
    with pytest.raises(ValueError, match="sensor 'ears': time must tell its steps apart"):
        stream.push({"ears": torch.ones(3)}, kind(1.7e9 + 1))
    assert same(frozen(stream), before)


@pytest.mark.parametrize("kind", [int, np.int64, torch.tensor])
def test_nanoseconds_that_float64_would_round_are_pushed_as_they_are_run(kind):
    fusion = network().eval()
    times = torch.tensor([1_700_000_000_000_000_000 + after for after in (0, 100, 200, 700)])
    x = torch.randn(4, 3, dtype=torch.float64)
    output, ran = FusionStream(fusion).run({"ears": (x, times)})
    assert torch.equal(ran, times)
    close(output, fusion({"ears": (x.unsqueeze(1), times.unsqueeze(1)), "eyes": None, "skin": None}).output[:, 0])
    stream = FusionStream(fusion)
    pushed = [stream.push({"ears": row}, kind(time)) for row, time in zip(x, times.tolist(), strict=True)]
    close(torch.stack(pushed), output)
    assert isinstance(stream.time, float)
    earlier = times[-1].item() - 1
    for call in (lambda: stream.push({}, kind(earlier)), lambda: stream.run({"ears": (x[:1], [earlier])})):
        with pytest.raises(ValueError, match="time must not go backwards"):
            call()


@pytest.mark.parametrize("shape", [(0, 1, 8, 8), (0, 3), (0,)])
def test_a_sensor_may_have_no_samples_of_any_shape_as_in_a_fusion(shape):
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    fusion = Fusion({"a": PhasedLSTM(3, 4), "b": PhasedLSTM(3, 4)}, PhasedLSTM(8, 5), encoders={"a": encoder}).eval()
    x, time, empty = torch.randn(2, 3), torch.tensor([0.0, 1.0]), (torch.zeros(shape), torch.zeros(0))
    for name, other in (("a", "b"), ("b", "a")):
        given = x if other == "b" else torch.randn(2, 1, 8, 8)
        output, _ = FusionStream(fusion).run({name: empty, other: (given, time)})
        for absent in ({name: None}, {}):
            assert torch.equal(output, FusionStream(fusion).run({**absent, other: (given, time)})[0])
    stream = FusionStream(fusion)
    output, times = stream.run({"a": empty})
    assert (output.shape, times.shape, stream.time) == ((0, 5), (0,), None)
    with pytest.raises(ValueError, match="sensor 'a': time must have the shape"):
        stream.run({"a": (torch.zeros(shape), time)})


class Named(nn.Linear):
    """An encoder whose state is more than tensors."""

    def get_extra_state(self):
        return {"name": "ears"}

    def set_extra_state(self, state):
        assert state == self.get_extra_state()


@pytest.mark.parametrize("encoder", [Named(3, 3), nn.Linear(3, 3).bfloat16(), nn.Linear(3, 3, dtype=torch.complex64)], ids=str)
def test_a_stream_is_dumped_whatever_the_state_of_its_encoders(encoder):
    stream = FusionStream(network(encoders={"ears": encoder}))
    stream.push({}, 1.0)
    other = stream.copy()
    other.reset()
    other.restore(stream.dump())
    assert other.dump() == stream.dump()
