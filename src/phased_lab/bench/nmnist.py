"""Time per event of the classifier on one core, against a BN-LSTM by onnxruntime, nn.LSTM and nn.LSTMCell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from phased import PhasedLSTM, Stream, Uniform
from phased.classifier import Classifier, EventEmbedding
from phased.data.recordings import Recording
from phased.learn import Readout
from phased_lab.bench import lstm, onnx
from phased_lab.bench.measure import Timing, compare
from phased_lab.runs.baselines import Baseline

UNITS, CLASSES = 110, 10
EVENTS, DURATION = 4100, 307_000  # of an average recording of N-MNIST; microseconds
BURSTS = (50_000, 155_000, 255_000)
"""Times at which the camera of N-MNIST moves fastest, in microseconds."""
WIDTH = 18_000  # standard deviation of a burst, microseconds


def recording(events: int = EVENTS, seed: int = 0) -> Recording:
    """A made-up recording with the number of events, the duration and the three bursts of N-MNIST; anyone can repeat it."""
    random = np.random.default_rng(seed)
    time = random.normal(random.choice(np.array(BURSTS), events), WIDTH).clip(0, DURATION)
    x, y = (random.normal(17, 6, events).clip(0, 33).astype(np.int16) for _ in range(2))
    return Recording(x, y, random.random(events) < 0.5, np.sort(time).astype(np.int64))


def networks() -> tuple[Readout, Baseline]:
    """The paper's 41-110-10 Phased LSTM and the recurrent layer of its 42-110-10 BN-LSTM, untrained."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoder = EventEmbedding()
        rnn = PhasedLSTM(encoder.features, UNITS, period=100.0, shift=Uniform(0, 100), ratio_on=0.05)
        normalised = Baseline(encoder.features, UNITS, normalise="input", time_unit=100.0)
        assert normalised.norm is not None
        nn.init.uniform_(normalised.norm.running_var, 0.5, 2.0)
        nn.init.normal_(normalised.norm.running_mean)
    return Readout(rnn, CLASSES, encoder=encoder).eval().requires_grad_(False), normalised.eval().requires_grad_(False)


def folded(baseline: Baseline) -> nn.LSTM:
    """The LSTM that computes what a BN-LSTM computes in eval: there the normalisation of its input is part of the weights."""
    assert baseline.norm is not None
    scale, offset = baseline.norm(torch.empty(0), torch.empty(0))
    own = baseline.lstm
    made = nn.LSTM(own.input_size, own.hidden_size).eval().requires_grad_(False)
    state = dict(own.state_dict())
    state["bias_ih_l0"] = state["bias_ih_l0"] + state["weight_ih_l0"] @ offset
    state["weight_ih_l0"] = state["weight_ih_l0"] * scale
    made.load_state_dict(state)
    return made


def features(model: Readout, baseline: Baseline, events: Recording) -> Tensor:
    """The 42 features of each event for the BN-LSTM: embedding, polarity and time, (N, 42)."""
    assert isinstance(model.encoder, EventEmbedding)
    time = torch.from_numpy(events.time / 1000 / baseline.time_unit).float()
    return torch.cat([model.encoder(torch.from_numpy(events.address)), time.unsqueeze(-1)], -1)


def contestants(events: Recording) -> dict[str, Callable[[], Any]]:
    """Functions that take all events of a recording. The LSTMs are given features that were looked up before."""
    model, baseline = networks()
    peer = folded(baseline)
    rows = features(model, baseline, events)
    weight = {name.removesuffix("_l0"): value for name, value in peer.state_dict().items()}
    cell = nn.LSTMCell(peer.input_size, UNITS).eval()
    cell.load_state_dict(weight)
    found: dict[str, Callable[[], Any]] = {
        "Classifier, whole recording": classified(model, events),
        "Stream.push": pushed(model, events),
        "nn.LSTM, whole recording": lstm.whole(peer, rows),
        "nn.LSTMCell, step": lstm.steps(cell, rows),
    }
    parts = weight["weight_ih"], weight["weight_hh"], weight["bias_ih"] + weight["bias_hh"]
    session = onnx.lstm_step(*(part.numpy() for part in parts))
    if session is not None:
        found["onnxruntime BN-LSTM, step"] = onnx.steps(session, rows.numpy(), UNITS)
        found["onnxruntime, bound memory"] = onnx.bound_steps(session, rows.numpy(), UNITS)
    return found


def classified(model: Readout, events: Recording) -> Callable[[], Any]:
    """`Session.run`, which is what `phased classify` times: addresses, times, checks, layer and readout."""
    classifier = Classifier.of(model)
    return lambda: classifier.session().run(events)


def pushed(model: Readout, events: Recording) -> Callable[[], None]:
    """`Stream.push` of one address after another, in a Python loop."""
    assert isinstance(model.encoder, EventEmbedding)
    assert isinstance(model.rnn, PhasedLSTM)
    stream = Stream(model.rnn, table=model.encoder.table())
    pairs = list(zip(events.address.tolist(), (events.time / 1000).tolist(), strict=True))

    def run() -> None:
        stream.reset()
        for entry, time in pairs:
            stream.push(entry, time)

    return run


def measure(events: Recording, rounds: int) -> dict[str, Timing]:
    """Seconds per event of each contestant, in alternating rounds."""
    return {name: timing.per(len(events)) for name, timing in compare(contestants(events), rounds).items()}
