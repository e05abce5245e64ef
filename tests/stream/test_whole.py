"""State and clock move together, also when a run is interrupted."""

import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from phased import Stream
from streams import LAYERS, assert_unchanged, build, events, snapshot


@pytest.mark.parametrize("what", ["x", "time", "state", "index"])
def test_values_that_torch_negates_when_it_reads_them_are_read_so(what):
    table = torch.randn(20, 3, dtype=torch.float64) if what == "index" else None
    stream = Stream(build(LAYERS["lstm"]), table=table)
    x, t = events(12)
    x = torch.randint(20, (12,)) if what == "index" else x
    other = stream.copy()
    if what == "state":
        value = tuple(torch.randn_like(s) for s in stream.state)
        stream.state, other.state = value, tuple(torch._neg_view(-s) for s in value)
    want = stream.run(x, t)
    got = other.run(torch._neg_view(-x) if what in ("x", "index") else x, torch._neg_view(-t) if what == "time" else t)
    torch.testing.assert_close(got, want)
    assert other.time == stream.time


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_an_interrupted_run_changes_nothing(share, monkeypatch):
    """Whether the signal comes before, amid or right after the events; the same run can then be repeated."""
    stream = Stream(build(LAYERS["lstm, two layers"]))
    x, t = events(40)
    stream.run(x[:5], t[:5])
    want = stream.copy().run(x[5:], t[5:])
    before, run = snapshot(stream), stream._model.run

    def interrupted(state, rows, times):
        some = int(share * len(rows))
        run(state, rows[:some], times[:some])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stream._model, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stream.run(x[5:], t[5:])
    assert_unchanged(stream, before)
    assert torch.equal(stream.run(x[5:], t[5:]), want)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers that send signals are POSIX")
def test_ctrl_c_ends_a_run_and_leaves_the_stream_as_it_was():
    """In a process of its own, since the signal may come to a run that is over."""
    code = """
import signal, numpy as np
from phased import PhasedLSTM, Stream
stream = Stream(PhasedLSTM(1, 64, period=10.0))
x, t = np.zeros((400_000, 1), np.float32), np.arange(400_000.0)
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.02)
try:
    for _ in range(1000):
        stream.run(x, t)
        stream.reset()
except KeyboardInterrupt:
    print(stream.time, any(s.any() for s in stream.state))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() in (["None", "False"], ["399999.0", "True"])


def test_pushes_move_the_state_and_the_clock_in_one_call():
    stream = Stream(build(LAYERS["lstm"], torch.float32))
    row, other = np.ones(3, np.float32), stream.copy()
    for t in (0, 1.5, np.float64(2.5), np.float32(3.0), np.int64(4)):
        stream.push(row, t)
        other.run(row[None], [float(t)])
        assert_unchanged(stream, snapshot(other))
        assert stream.time == float(t)
    stream.reset()
    assert stream.time is None
    stream.push(row, -5.0)
    assert stream.time == -5.0
