"""Streams and processes: sent to another one by torch's reductions, which send tensors by address, and stopped by Ctrl-C."""

import signal
import subprocess
import sys

import pytest
import torch

from phased import PhasedGRU, PhasedLSTM, Stream
from strategies import BACKENDS
from streams import assert_runs


def test_a_stream_of_any_backend_can_be_sent_to_another_process():
    sent = []
    for backend in BACKENDS:
        for make in (PhasedLSTM, PhasedGRU):
            stream = Stream(make(2, 4, period=3.0, ratio_on=0.9, backend=backend))
            stream.push([1.0, 2.0], 0.5)
            sent.append((stream, stream.copy().run(torch.ones(3, 2), [1, 2, 3])))
    process = torch.multiprocessing.get_context("spawn").Process(target=assert_runs, args=(sent,))
    process.start()
    process.join()
    assert process.exitcode == 0


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
