"""Time per event of the classifier on one core, against a BN-LSTM by onnxruntime, nn.LSTM and nn.LSTMCell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from phased import PhasedLSTM, Stream, Uniform
from phased.classifier import Classifier, EventEmbedding
from phased.data.recordings import Recording
from phased.learn import Readout
from phased_lab.bench import peers
from phased_lab.bench.cases import Case, Sheet, benchmark, contestants
from phased_lab.bench.measure import compare
from phased_lab.bench.stream import pushed, speed_up
from phased_lab.runs.baselines import Baseline

UNITS, CLASSES = 110, 10
EVENTS, DURATION = 4100, 307_000  # of an average recording of N-MNIST, in microseconds
BURSTS = (50_000, 155_000, 255_000)
"""Times at which the camera of N-MNIST moves fastest, in microseconds."""
WIDTH = 18_000  # standard deviation of a burst, microseconds
WHOLE, PUSH = "Classifier, whole recording", "Stream.push"


def recording(events: int = EVENTS, seed: int = 0) -> Recording:
    """Make a random recording with the number of events, the duration and the three bursts of N-MNIST."""
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


def features(model: Readout, baseline: Baseline, events: Recording) -> Tensor:
    """The 42 features of each event for the BN-LSTM: embedding, polarity and time, (N, 42)."""
    assert isinstance(model.encoder, EventEmbedding)
    time = torch.from_numpy(events.time / 1000 / baseline.time_unit).float()
    return torch.cat([model.encoder(torch.from_numpy(events.address)), time.unsqueeze(-1)], -1)


def ways(events: Recording) -> dict[str, Callable[[], Any]]:
    """Functions that take all events of a recording. The LSTMs are given features that were looked up before."""
    model, baseline = networks()
    assert isinstance(model.encoder, EventEmbedding)
    assert isinstance(model.rnn, PhasedLSTM)
    classifier, peer = Classifier.of(model), peers.folded(baseline)
    rows = features(model, baseline, events)
    by_onnx = peers.by_onnx(peer, rows)
    return {
        # `phased classify` times the same: addresses, times, checks, layer and readout.
        WHOLE: lambda: classifier.session().run(events),
        PUSH: pushed(Stream(model.rnn, table=model.encoder.table()), events.address.tolist(), events.time / 1000),
        "nn.LSTM, whole recording": peers.whole(peer, rows),
        "nn.LSTMCell, step": peers.steps(peer, rows),
        **{f"onnxruntime{' BN-LSTM' if name == 'step' else ''}, {name}": run for name, run in by_onnx.items()},
    }


def measure(events: int, rounds: int) -> dict[str, Any]:
    """Seconds per event."""
    return {"seconds": {name: timing.per(events) for name, timing in compare(ways(recording(events)), rounds).items()}}


@benchmark(
    Sheet(
        contestants("an event"),
        {
            "an event of a recording, one core": lambda row: row.label,
            "us": lambda row: f"{1e6 * row.median():.2f}",
            "events per second": lambda row: f"{1 / row.median():,.0f}",
            "speed-up of `Classifier`": lambda row: speed_up(row, WHOLE, PUSH, of_whole=True),
            "speed-up of `Stream.push`": lambda row: speed_up(row, WHOLE, PUSH, of_whole=False),
        },
    ),
    quick={"rounds": 3},
    threads=1,
    backend="cpu",
)
def nmnist(rounds: int = 11, events: int = EVENTS) -> Iterator[Case]:
    """A made-up recording like N-MNIST."""
    yield Case("an event", "42-110-10", partial(measure, events, rounds))
