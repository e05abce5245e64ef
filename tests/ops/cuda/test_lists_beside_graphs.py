"""Listed passes are CUDA graphs of their own: they leave alone what a user records meanwhile."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from on_gpu import batch, gradients, layer
from phased.ops.cuda import replay
from phased.ops.cuda.replay import passes_of
from phased.ops.native import MISSING

# Without the compiled core, lists are launched one by one.
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]


def forget(rnn):
    """Free all lists, and with them their graphs."""
    replay.CALLS.clear()
    replay.FORWARD_PASSES.clear()
    passes_of.cache_clear()
    rnn._calls._calls.clear()


def test_passes_are_listed_run_and_freed_while_another_thread_records_a_graph():
    recorded, (x, time) = layer(), batch()
    listed, others = layer(40), batch(50)
    listed._openings.active = False
    expected, wanted = recorded(x, time)[0].detach(), gradients(listed, *others)
    stream, found = torch.cuda.Stream(), []

    def list_and_free():
        found.clear()
        with torch.cuda.stream(stream):
            for _ in range(replay.LISTED_AFTER + 3):
                found[:] = gradients(listed, *others)
        assert len(replay.CALLS)
        assert listed._calls._calls
        forget(listed)

    with ThreadPoolExecutor(1) as thread:
        for _ in range(2):  # afterwards all memory that it needs is cached: to allocate more would end the recording
            thread.submit(list_and_free).result()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(torch.cuda.Stream()):
            graph.capture_begin()  # without the emptying of the cache that torch.cuda.graph begins with
            try:
                output = recorded(x, time)[0].detach()
                thread.submit(list_and_free).result()
            finally:
                graph.capture_end()
    output.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(output, expected)
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))
