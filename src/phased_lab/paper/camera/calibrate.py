"""Estimate how the camera of N-MNIST moved and what it saw, from real recordings and the digits they show.

    python -m phased_lab.paper.camera.calibrate --recordings 180

The events of a pixel in 5 ms are Poisson distributed. Their mean is the rise, or the fall, of the logarithm of the pixel's light
in this time, divided by a threshold, plus noise. The light is the blurred digit at the place to which the camera has moved it.
Path, optics and thresholds of all recordings, and time, place and gain of each one, maximise the likelihood together. The command
prints what belongs into `phased.data.saccades` and `phased.data.camera.Camera`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
import torch
import typer
from rich.progress import track
from torch import Tensor, nn
from torch.nn import functional

from phased.cli.errors import plain_errors
from phased.data.camera import Camera
from phased.data.recordings import NMNIST, Recordings
from phased.data.saccades import END, EVERY, LEGS, X, Y
from phased_lab.paper.camera.data import Pairs, load
from phased_lab.runs.descriptor import Array

BINS = round(END / EVERY)  # in time, between the positions of the path
SIDE = NMNIST.width  # the sensor is square
BATCH = 12  # recordings
# Where the path starts: the corners of the triangle that the digit describes, known from the sums of events of each saccade.
CORNERS = ((-3.0, -2.0), (-1.0, 4.0), (3.0, -2.0), (-3.0, -2.0))
SACCADE = 30.0  # ms: the time constant of a saccade at the start
# Prior standard deviations of what differs between recordings: three delays in ms, x and y in pixels, the logarithm of the gain.
OWN = (4.0, 4.0, 4.0, 0.1, 0.1, 0.1)
SMOOTH = 10.0  # weight of the squared second differences of the path


class Rates(nn.Module):
    """The expected number of events at each pixel, of each polarity, in each 5 ms.

    Args:
        recordings: how many have parameters of their own.
    """

    unit: Tensor
    edges: Tensor

    def __init__(self, recordings: int) -> None:
        super().__init__()
        self.path = nn.Parameter(torch.tensor(first_path(), dtype=torch.float32))
        # Logarithms, which keep these positive.
        start = {"gamma": 1.5, "dark": 0.15, "blur": 0.6, "size": 1.0, "rise": 0.3, "fall": 0.3, "noise": 1e-3}
        self.optics = nn.ParameterDict({name: nn.Parameter(torch.tensor(value).log()) for name, value in start.items()})
        self.own = nn.Embedding(recordings, len(OWN), sparse=True)  # in units of OWN
        nn.init.zeros_(self.own.weight)
        self.register_buffer("unit", torch.tensor(OWN))
        self.register_buffer("edges", torch.arange(BINS + 1) * EVERY)

    def forward(self, which: Tensor, images: Tensor) -> Tensor:
        """Indices of B recordings and their images, (B, 34, 34) from 0 to 1 -> rates (B, bins, 2, 34, 34)."""
        own: Tensor = self.own(which) * self.unit
        of: dict[str, Tensor] = {name: value.exp() for name, value in self.optics.items()}
        place = self.position(own[:, :3]) + own[:, None, 3:5]
        light = self.light(images, place, of)
        change = light.diff(dim=1) * own[:, 5].exp().view(-1, 1, 1, 1)
        return torch.stack([change.relu() / of["rise"], (-change).relu() / of["fall"]], 2) + of["noise"]

    def position(self, delay: Tensor) -> Tensor:
        """The path at the edges of the bins, if the saccades are late by `delay` ms, (B, 3) -> (B, bins + 1, 2)."""
        second, third = (((self.edges - LEGS[i]) / (LEGS[i + 1] - LEGS[i])).clamp(0, 1) for i in (0, 1))
        late = delay @ torch.stack([1 - second, second - third, third])
        knot = ((self.edges - late) / EVERY).clamp(0, BINS - 1e-3)
        before = knot.detach().floor().long()
        left, right = self.path[before], self.path[before + 1]
        return left + (knot - before).unsqueeze(-1) * (right - left)

    def light(self, images: Tensor, place: Tensor, of: dict[str, Tensor]) -> Tensor:
        """The logarithm of the light with the digits at these places, (B, bins + 1, 2) -> (B, bins + 1, 34, 34)."""
        kernel = torch.softmax(-0.5 * (torch.arange(-3.0, 4.0) / of["blur"]) ** 2, 0)
        blurred = functional.conv2d(images.unsqueeze(1), kernel.view(1, 1, 7, 1), padding=(3, 0))
        blurred = functional.conv2d(blurred, kernel.view(1, 1, 1, 7), padding=(0, 3))
        pixel = torch.arange(SIDE) - (SIDE - 1) / 2
        x, y = ((pixel / of["size"] - place[..., axis, None]) * 2 / (SIDE - 1) for axis in (0, 1))
        batch, edges = place.shape[:2]
        grid = torch.stack([x.unsqueeze(-2).expand(-1, -1, SIDE, -1), y.unsqueeze(-1).expand(-1, -1, -1, SIDE)], -1)
        many = blurred.expand(-1, edges, -1, -1).reshape(-1, 1, SIDE, SIDE)
        grey = functional.grid_sample(many, grid.flatten(0, 1), align_corners=True).view(batch, edges, SIDE, SIDE)
        return torch.log(of["dark"] + (grey + 1e-6) ** of["gamma"])


@dataclass(frozen=True)
class Estimate:
    """What `calibrate` found: the path (64, 2) in pixels, the fields of `Camera`, and the loss of a recording, in nats."""

    path: Array
    fields: dict[str, float | tuple[float, ...]]
    loss: float


def calibrate(pairs: Pairs, steps: int = 600, seed: int = 0, shown: Callable[[range], Iterable[int]] = iter) -> Estimate:
    """Maximise the likelihood of recordings given their images.

    Args:
        pairs: the recordings and their images.
        steps: of the optimiser, with 12 recordings each.
        seed: of the order in which it sees the recordings.
        shown: shows the progress of an iteration.

    Returns:
        The estimates. The thresholds are those of a pixel without a refractory time, larger than those of `Camera`.
    """
    counted = counts(pairs.recordings)
    images = functional.pad(pairs.images.float() / 255, [(SIDE - pairs.images.shape[-1]) // 2] * 4)
    rates = Rates(len(images))
    optimisers: tuple[torch.optim.Optimizer, ...] = (
        torch.optim.Adam([rates.path, *rates.optics.values()], lr=0.03),
        torch.optim.SparseAdam([rates.own.weight], lr=0.15),
    )
    schedules = [torch.optim.lr_scheduler.CosineAnnealingLR(each, steps) for each in optimisers]
    draws = torch.Generator().manual_seed(seed)
    losses = []
    for _ in shown(range(steps)):
        which = torch.randperm(len(images), generator=draws)[:BATCH]
        rate = rates(which, images[which])
        loss = functional.poisson_nll_loss(rate, counted[which].float(), log_input=False, reduction="sum") / len(which)
        bend = SMOOTH * rates.path.diff(n=2, dim=0).square().sum()
        prior = 0.5 * rates.own(which).square().sum() / len(which)
        for optimiser in optimisers:
            optimiser.zero_grad()
        (loss + bend + prior).backward()
        for optimiser in optimisers:
            optimiser.step()
        for schedule in schedules:
            schedule.step()
        losses.append(loss.item())
    return estimate(rates, float(np.mean(losses[-max(1, steps // 10) :])))


@torch.no_grad()
def estimate(rates: Rates, loss: float) -> Estimate:
    """The parameters as `saccades` and `Camera` have them. Means of the recordings' own go into the path and the thresholds."""
    own = rates.own.weight * rates.unit
    mean, deviation = own.mean(0), own.std(0).tolist()
    path = rates.position(mean[None, :3])[0] + mean[3:5]
    fields: dict[str, float | tuple[float, ...]] = {name: value.exp().item() for name, value in rates.optics.items()}
    for name in ("rise", "fall"):
        fields[name] = (rates.optics[name] - mean[5]).exp().item()
    fields["noise"] = 2 / EVERY * rates.optics["noise"].exp().item()  # of both polarities, per ms
    fields |= {"gain": deviation[5], "place": float(np.hypot(*deviation[3:5]) / np.sqrt(2)), "jitter": tuple(deviation[:3])}
    return Estimate(path.double().numpy(), fields, loss)


def counts(recordings: Recordings) -> Tensor:
    """Events of each recording in each 5 ms, of each polarity, at each pixel, (R, bins, 2, 34, 34) uint8."""
    who = torch.arange(len(recordings)).repeat_interleave(recordings.offset.diff())
    step = recordings.time.long() // round(1000 * EVERY)
    address = recordings.address.long()
    place = ((who * BINS + step) * 2 + (address & 1)) * SIDE**2 + (address >> 1)
    found = torch.bincount(place[step < BINS], minlength=len(recordings) * BINS * 2 * SIDE**2)
    return found.to(torch.uint8).view(len(recordings), BINS, 2, SIDE, SIDE)


def first_path() -> Array:
    """Three smooth legs between the corners, (64, 2)."""
    time = np.arange(BINS + 1) * EVERY
    legs = [np.diff(CORNERS, axis=0)[i] / (1 + np.exp(-(time[:, None] - LEGS[i]) / (SACCADE / 4))) for i in range(3)]
    return np.asarray(CORNERS[0] + sum(legs))


def words(found: Estimate) -> str:
    """The estimates beside the numbers that are in use."""
    differences = found.path - np.stack([X, Y], -1)
    lines = [f"{name} = ({', '.join(f'{value:.2f}' for value in found.path[:, i])})" for i, name in enumerate("XY")]
    lines.append(f"The path is {np.sqrt(np.mean(differences**2)):.3f} pixels from that of saccades.py (root mean square).")
    for name, value in found.fields.items():
        shown, used = (np.round(np.atleast_1d(each), 5) for each in (value, getattr(Camera(), name)))
        lines.append(f"{name:8} {', '.join(f'{x:g}' for x in shown):24} in use: {', '.join(f'{x:g}' for x in used)}")
    lines.append(f"Loss of a recording: {found.loss:.1f} nats.")
    return "\n".join(lines)


def main(
    recordings: Annotated[int, typer.Option(help="How many of the training set.")] = 180,
    steps: Annotated[int, typer.Option(help="Steps of the optimiser.")] = 600,
) -> None:
    """Estimate how the camera of N-MNIST moved and what it saw, from real recordings and the digits they show."""
    with plain_errors():
        pairs = load(recordings, ("train",), seed=0)
        print(words(calibrate(pairs, steps, shown=partial(track, description="Fitting"))))


if __name__ == "__main__":
    typer.run(main)
