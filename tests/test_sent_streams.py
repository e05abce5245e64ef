"""A stream sent to another process, as an argument, by torch's reductions, which send tensors by address."""

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
