"""Fusion on a GPU: the numbers of the CPU, the same ones every time, and no synchronisation for a timeline."""

import pytest
import torch

from fusing import batch, network, parameters
from phased import Timeline
from phased.fusion import hold

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:phased runs on cpu without its compiled core")]
LENGTHS = {"ears": [40, 0, 31, 7], "eyes": [12, 9, 0, 0], "skin": [25, 0, 30, 2]}


def there(streams):
    return {name: tuple(part.cuda() for part in samples) for name, samples in streams.items()}


def trained(fusion, streams):
    fusion.zero_grad()
    output, timeline, _ = fusion(streams)
    output.square().sum().backward()
    return [output.detach(), timeline.time, *timeline.latest.values(), *(p.grad.clone() for p in parameters(fusion))]


def test_outputs_and_gradients_are_those_of_the_cpu():
    fusion, streams = network(dtype=torch.float32), batch(LENGTHS, dtype=torch.float32)
    want = trained(fusion, streams)
    got = trained(fusion.cuda(), there(streams))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-3, atol=1e-4)


def test_a_timeline_with_a_given_number_of_steps_does_not_synchronise(unsynchronised):
    streams = {name: (time, lengths) for name, (_, time, lengths) in there(batch(LENGTHS)).items()}
    output = torch.randn(40, 4, 6, device="cuda")
    want = Timeline.of(streams, steps=80)
    with unsynchronised():
        timeline = Timeline.of(streams, steps=80)
        held = hold(output, timeline.latest["ears"])
    assert torch.equal(timeline.time, want.time)
    assert held.shape == (80, 4, 6)
