"""Streams, camera sessions and online sequences: their copies, pickles and dumps have the state, and copies share the weights."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch

from fusing import network as fusion
from patients import X, known, measured, quick
from phased import FusionStream, LogUniform, PhasedGRU, PhasedLSTM, Stream
from phased.classifier import Classifier
from phased.data.recording import Sensor
from recordings import network, recording

TINY = Sensor(4, 3)
LAYER = {"period": LogUniform(2, 40), "ratio_on": 0.3}
LONGEST = int(X.lengths.argmax())
SAVED = Path(__file__).parents[1] / "nets/saved"


@pytest.fixture(autouse=True, scope="module", params=["auto"])
def _every_way_to_run_a_stream():
    """The cases below name the backend."""


def of_layer(kind, table=None, **options):
    x = torch.randint(20, (12,)) if table else torch.randn(12, 3)
    stream = Stream(kind(3, 5, 2, **LAYER, **options), table=torch.randn(20, 3) if table else None)
    return stream, [(row.numpy(), float(t)) for t, row in enumerate(x)]


def of_fusion():
    random = np.random.default_rng(0)
    sizes = {"ears": 3, "eyes": 2, "skin": 1}
    events = [({name: random.normal(size=sizes[name])}, t) for t, name in enumerate([*sizes, *sizes] * 2)]
    return FusionStream(fusion()), events


def of_camera(**options):
    events = recording(12, sensor=TINY)
    session = Classifier.of(network(units=3, sensor=TINY, outputs=3, **options)).session()
    return session, list(zip(events.x, events.y, events.polarity, events.time, strict=True))


def of_estimator(backend="auto"):
    model = copy.deepcopy(quick(units=8, epochs=4))
    model.network_.rnn.backend = backend
    return model.online(static=known(X, LONGEST)), measured(X, LONGEST)


MADE = {
    "stream": partial(of_layer, PhasedLSTM),
    "stream of a GRU": partial(of_layer, PhasedGRU),
    "stream of float64 in plain PyTorch": partial(of_layer, PhasedLSTM, dtype=torch.float64, backend="reference"),
    "stream of indices": partial(of_layer, PhasedLSTM, table=True),
    "fusion": of_fusion,
    "camera": of_camera,
    "camera, mean output": partial(of_camera, mean=True),
    "estimator": of_estimator,
    "estimator in plain PyTorch": partial(of_estimator, "reference"),
}
each_kind = pytest.mark.parametrize("kind", MADE)
made = cache(lambda kind: MADE[kind]())


def half_way(kind):
    """A sequence after six of its events, and the other events."""
    sequence, events = made(kind)
    sequence = sequence.copy()
    sequence.reset()
    answers(sequence, events[:6])
    return sequence, events[6:]


def answers(sequence, events):
    return [np.asarray(sequence.push(*event)) for event in events]


def restored(sequence):
    other = sequence.copy()
    other.reset()
    other.restore(sequence.dump())
    return other


COPIES = {
    "copy()": lambda sequence: sequence.copy(),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda sequence: pickle.loads(pickle.dumps(sequence)),
    "dump": restored,
}


@each_kind
@pytest.mark.parametrize("way", COPIES)
def test_a_copy_has_the_state_and_goes_its_own_way(kind, way):
    sequence, events = half_way(kind)
    before = sequence.dump()
    other = COPIES[way](sequence)
    assert other.dump() == before
    found = answers(other, events)
    assert sequence.dump() == before != other.dump()
    assert np.array_equal(found, answers(sequence, events))
    assert (other._model is sequence._model) == (way != "pickle")
    with pytest.raises(ValueError, match=r"must not (go backwards|be before)"):
        other.push(*events[-2])


@each_kind
def test_many_that_are_pickled_together_share_their_weights(kind):
    sequence, _ = half_way(kind)
    first, second = pickle.loads(pickle.dumps([sequence, sequence.copy()]))
    assert first._model is second._model


@each_kind
def test_reset_begins_again(kind):
    sequence, events = made(kind)
    one, other = sequence.copy(), sequence.copy()
    new, first = one.dump(), answers(one, events)
    one.reset()
    assert (one.dump(), one.time) == (new, None)
    assert np.array_equal(answers(one, events), first)
    assert other.dump() == new


@each_kind
def test_every_flipped_bit_of_a_dump_is_refused_and_so_is_a_part_of_it(kind):
    sequence, _ = half_way(kind)
    dump = sequence.dump()
    for bit in range(8 * len(dump)):
        damaged = bytearray(dump)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match=r"must be what dump\(\) returned, got bytes that is cut off or damaged"):
            sequence.restore(bytes(damaged))
    for damaged in (dump[:-1], dump[1:], dump + b"\0", dump[:30], b"", None, 7, "text", bytearray(dump)):
        with pytest.raises(ValueError, match="cut off or damaged"):
            sequence.restore(damaged)
    assert sequence.dump() == dump


def test_what_was_pickled_with_the_earlier_name_of_a_backend_is_read():
    layer = PhasedLSTM(3, 5, backend="eager")
    stream = Stream(layer)
    layer.__dict__["backend"] = "adjoint"
    assert pickle.loads(pickle.dumps(layer)).backend == "eager"
    *parts, _ = stream._model.parts
    state = [values.numpy() for values in stream._model.values(stream._now)]
    earlier = object.__new__(Stream)
    earlier.__setstate__({"_parts": (*parts, "adjoint"), "state": state, "time": -np.inf})
    assert earlier.dump() == stream.dump()


@pytest.mark.parametrize("kind", ["stream", "fusion", "camera", "estimator"])
def test_a_dump_of_another_model_or_of_another_version_is_refused(kind, monkeypatch):
    sequence, _ = half_way(kind)
    torch.manual_seed(1)
    others = [made(other)[0] for other in MADE if other.split()[0] != kind]
    others.append(quick(units=5).online() if kind == "estimator" else MADE[kind]()[0])
    for other in others:
        with pytest.raises(ValueError, match="state must be of this model, got one of another"):
            sequence.restore(other.dump())
    monkeypatch.setattr("phased.stream.VERSION", 2)
    newer = sequence.dump()
    monkeypatch.undo()
    with pytest.raises(ValueError, match="state must be of version 1, got 2"):
        sequence.restore(newer)


def test_the_core_and_plain_pytorch_continue_each_others_dumps():
    sequence, events = half_way("estimator")
    other = made("estimator in plain PyTorch")[0].copy()
    other.restore(sequence.dump())
    np.testing.assert_allclose(answers(other, events), answers(sequence, events), rtol=1e-6)


@each_kind
def test_copies_in_several_threads_do_not_disturb_each_other(kind):
    """Copies share the weights, and each thread has working memory of its own."""
    sequence, events = made(kind)
    want = answers(sequence.copy(), events)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda one: answers(one, events), [sequence.copy() for _ in range(16)]))
    assert all(np.array_equal(one, want) for one in found)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from Linux")
def test_a_further_stream_needs_two_kilobytes():
    """Not the 253 KB of the weights and of working memory."""
    stream = Stream(PhasedLSTM(41, 110, **LAYER))
    before, many = resident(), [stream.copy() for _ in range(5_000)]
    assert (resident() - before) / len(many) < 2048


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
