"""An event camera in software: it looks at digits on a screen during the three saccades of N-MNIST."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from phased import check
from phased.data.recordings import NMNIST, Recordings
from phased.data.saccades import END, LEGS, X, Y, displacement

MARGIN = 6  # pixels around the sensor, more than the largest displacement
VERSION = 1  # raise it if the same settings give other recordings
STEP = 1.0  # ms between two computed images
AT_ONCE = {"cpu": 128, "cuda": 4000}  # recordings: on a CPU their images fit into its cache
REACH = 3  # pixels of the blur on each side
LONGEST = 400.0  # ms, for `jitter` and `end`
LEAST = 0.3  # of a threshold, for the random factors of pixels and recordings


@dataclass(frozen=True)
class Camera:
    """The screen, the lens and the pixels. The defaults were estimated from recordings of N-MNIST and the digits they show.

    A pixel compares the logarithm of its light with the value after its last event. It emits an event when the difference exceeds
    its threshold: with polarity bit 0 where the light rises, with bit 1 where it falls, as in N-MNIST's files.

    Args:
        gamma: light of the screen = grey value ** gamma.
        dark: light of a black screen; a white screen has 1 + dark.
        blur: standard deviation of the blur in pixels.
        size: pixels of the camera for a pixel of the digit.
        rise: threshold of the logarithm where the light rises.
        fall: threshold where it falls.
        mismatch: standard deviation of the thresholds over pixels, as a part of the threshold.
        gain: standard deviation of the thresholds over recordings, as a part of the threshold.
        refractory: mean time in ms after an event during which the pixel follows its light and emits nothing.
        spread: standard deviation of that time, as a part of its mean.
        noise: events per pixel and ms without a cause; nearly all of N-MNIST's have polarity bit 1, and these all do.
        place: standard deviation of the digit's position over recordings, in pixels.
        jitter: standard deviations of the times of the three saccades over recordings, in ms.
        end: mean and standard deviation of the end of a recording, in ms.

    Raises:
        ValueError: a number is out of its range, or `jitter` or `end` has another length.

    Example:
        >>> from phased.data.camera import Camera
        >>> Camera(noise=0.0).refractory
        0.7
    """

    gamma: float = 2.55
    dark: float = 0.285
    blur: float = 0.65
    size: float = 1.015
    rise: float = 0.1705
    fall: float = 0.173
    mismatch: float = 0.1
    gain: float = 0.03
    refractory: float = 0.7
    spread: float = 0.3
    noise: float = 2.8e-4
    place: float = 0.06
    jitter: tuple[float, float, float] = (0.6, 2.9, 2.3)
    end: tuple[float, float] = (310.3, 2.6)

    def __post_init__(self) -> None:
        for name in ("gamma", "dark", "size", "rise", "fall"):
            check.number(name, getattr(self, name), low=0.0, low_open=True)
        for name in ("mismatch", "gain", "refractory", "spread", "noise", "place"):
            check.number(name, getattr(self, name), low=0.0)
        check.number("blur", self.blur, low=0.0, high=REACH / 2, low_open=True)
        for name, length in (("jitter", 3), ("end", 2)):
            values = getattr(self, name)
            if not isinstance(values, tuple) or len(values) != length:
                raise ValueError(f"{name} must be a tuple of {length} numbers, got {values!r}. See the arguments of Camera.")
            for value in values:
                check.number(name, value, low=0.0, high=LONGEST)


def identity(camera: Camera) -> str:
    """A short text that differs for cameras whose recordings differ, for records and caches."""
    described = repr((VERSION, camera, X, Y))
    return hashlib.sha256(described.encode()).hexdigest()[:12]


def simulate(
    images: Tensor,
    label: Tensor | None = None,
    seed: int = 0,
    camera: Camera | None = None,
    progress: Callable[[int], None] | None = None,
) -> Recordings:
    """Recordings of digits, as N-MNIST was recorded, computed on the device of the images.

    Args:
        images: the digits, (N, 28, 28) uint8.
        label: their classes, (N,) int64; by default zeros.
        seed: the same seed gives the same recordings on the same device and version of torch.
        camera: the camera; by default the one of N-MNIST.
        progress: called with the number of recordings that are done.

    Returns:
        N recordings. `number` counts the images from 1, as the files of N-MNIST do.

    Raises:
        TypeError: images or label are not tensors.
        ValueError: images have another shape or dtype, or label another length.

    Example:
        >>> import torch
        >>> from phased.data.camera import simulate
        >>> digit = torch.zeros(1, 28, 28, dtype=torch.uint8)
        >>> digit[0, 6:22, 13:15] = 255
        >>> recordings = simulate(digit)
        >>> len(recordings), 500 < len(recordings[0]) < 5000
        (1, True)
    """
    check.tensor("images", images)
    if images.shape[1:] != (28, 28) or images.dtype != torch.uint8:
        raise ValueError(
            f"images must be (N, 28, 28) uint8, as MNIST is, got {tuple(images.shape)} {images.dtype}. Scale them to "
            "28 x 28 pixels with values from 0 to 255, and convert them with .to(torch.uint8)."
        )
    label = torch.zeros(len(images), dtype=torch.int64) if label is None else label
    check.tensor("label", label)
    if label.shape != (len(images),):
        raise ValueError(
            f"label must have shape ({len(images)},), one class per image, got {tuple(label.shape)}. "
            "Pass the classes of these images."
        )
    camera, device = camera or Camera(), images.device
    draws = torch.Generator(device).manual_seed(seed)
    parts = [tuple(torch.zeros(0, dtype=dtype, device=device) for dtype in (torch.int16, torch.int32, torch.int64))]
    at_once = AT_ONCE.get(device.type, AT_ONCE["cpu"])
    for first in range(0, len(images), at_once):
        parts.append(_record(images[first : first + at_once], camera, draws))
        if progress is not None:
            progress(min(first + at_once, len(images)))
    address, time, counts = (torch.cat(part) for part in zip(*parts, strict=True))
    offset = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    number = torch.arange(1, len(images) + 1, device=device)
    return Recordings(address, time, offset, label.to(device, torch.int64), number)


def _record(images: Tensor, camera: Camera, draws: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Addresses and times of all events, sorted by recording and time, and the number of events of each recording."""
    count, device = len(images), images.device

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draws, device=device, dtype=torch.float32)

    who, where, when = _crossings(_placed(images, camera, normal(count, 2)), camera, draws)
    spurious = torch.poisson(
        torch.full((count,), camera.noise * END * NMNIST.width * NMNIST.height, device=device, dtype=torch.float32), draws
    ).long()
    total = int(spurious.sum())
    who = torch.cat([who, torch.repeat_interleave(spurious, output_size=total)])
    pixel = torch.randint(NMNIST.width * NMNIST.height, (total,), generator=draws, device=device)
    where = torch.cat([where, pixel * 2 + 1])
    when = torch.cat([when, END * torch.rand(total, generator=draws, device=device, dtype=torch.float32)])

    # The three saccades of a recording are each a little early or late; between them its time is stretched or compressed.
    late = normal(count, 3) * torch.tensor(camera.jitter, device=device, dtype=torch.float32)
    second, third = (((when - LEGS[i]) / (LEGS[i + 1] - LEGS[i])).clamp(0, 1) for i in (0, 1))
    when = when + late[who, 0] * (1 - second) + late[who, 1] * (second - third) + late[who, 2] * third
    mean, deviation = camera.end
    kept = (when >= 0) & (when < (mean + deviation * normal(count))[who])
    who, where, microseconds = who[kept], where[kept], (1000 * when[kept]).long()
    order = torch.argsort((who << 22) + microseconds)  # `LONGEST` keeps a recording shorter than 2**22 us
    counts = torch.bincount(who, minlength=count)
    return where[order].to(torch.int16), microseconds[order].to(torch.int32), counts


def _placed(images: Tensor, camera: Camera, place: Tensor) -> Tensor:
    """The blurred digits in the middle of the sensor and its margin, (N, 34 + margins, 34 + margins); values from 0 to 1."""
    width, height = NMNIST.width + 2 * MARGIN, NMNIST.height + 2 * MARGIN
    kernel = torch.softmax(
        -0.5 * (torch.arange(-REACH, REACH + 1, device=images.device, dtype=torch.float32) / camera.blur) ** 2, 0
    )
    left, top = (width - 28) // 2, (height - 28) // 2
    image = functional.pad(images.unsqueeze(1).float() / 255, (left, width - 28 - left, top, height - 28 - top))
    image = functional.conv2d(image, kernel.view(1, 1, -1, 1), padding=(REACH, 0))
    image = functional.conv2d(image, kernel.view(1, 1, 1, -1), padding=(0, REACH))
    # Coordinates of `affine_grid` go from -1 to 1 over the image.
    affine = torch.zeros(len(images), 2, 3, device=images.device, dtype=torch.float32)
    affine[:, 0, 0] = affine[:, 1, 1] = 1 / camera.size
    affine[:, :, 2] = -2 * camera.place * place / torch.tensor([width - 1, height - 1], device=images.device, dtype=torch.float32)
    grid = functional.affine_grid(affine, [len(images), 1, height, width], align_corners=True)
    # The logarithm of 0 is slow on some CPUs.
    return functional.grid_sample(image, grid, align_corners=True).squeeze(1).clamp(min=1e-6)


def _crossings(image: Tensor, camera: Camera, draws: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Recording, address and time in ms of every crossing of a threshold, in the order of the computed images."""
    shape, device = (len(image), NMNIST.height, NMNIST.width), image.device

    def factor(deviation: float, *shape: int) -> Tensor:
        return (1 + deviation * torch.randn(shape, generator=draws, device=device, dtype=torch.float32)).clamp(min=LEAST)

    gain = factor(camera.gain, len(image), 1, 1)
    rise, fall = (limit * gain * factor(camera.mismatch, *shape) for limit in (camera.rise, -camera.fall))
    times = np.arange(0.0, END + STEP / 2, STEP)
    before = _light(image, displacement(times[:1])[0], camera)
    # Where a pixel is between its thresholds at first depends on what it saw before.
    start = 2 * torch.rand(shape, generator=draws, device=device, dtype=torch.float32) - 1
    reference = before + torch.where(start > 0, start * -fall, start * rise)
    # Pixels in their refractory time, by their index in flat images, and when it ends.
    blind, until = torch.zeros(0, dtype=torch.int64, device=device), torch.zeros(0, device=device, dtype=torch.float32)
    found = []
    for time, place in zip(times[:-1].tolist(), displacement(times[1:]), strict=True):
        light = _light(image, place, camera)
        # Between two images the light is linear. A blind pixel follows it until its refractory time ends.
        part = ((until - time) / STEP).clamp(0, 1)
        reference.view(-1)[blind] = before.view(-1)[blind].lerp(light.view(-1)[blind], part)
        change = light - reference
        pixel = ((change > rise) | (change < fall)).view(-1).nonzero().squeeze(1)
        changed = change.view(-1)[pixel]
        falls = changed < 0
        beyond = changed - torch.where(falls, fall.view(-1)[pixel], rise.view(-1)[pixel])
        speed = light.view(-1)[pixel] - before.view(-1)[pixel]
        when = time + STEP * (1 - (beyond / speed).clamp(0, 1))
        found.append((pixel, falls, when))
        still = until > time + STEP
        lasts = camera.refractory * (
            1 + camera.spread * torch.randn(len(pixel), generator=draws, device=device, dtype=torch.float32)
        )
        blind, until = torch.cat([blind[still], pixel]), torch.cat([until[still], when + lasts])
        before = light
    pixel, falls, when = (torch.cat(part) for part in zip(*found, strict=True))
    recording, pixel = pixel // (NMNIST.width * NMNIST.height), pixel % (NMNIST.width * NMNIST.height)
    return recording, pixel * 2 + falls, when


def _light(image: Tensor, place: NDArray[np.float64], camera: Camera) -> Tensor:
    """The logarithm of the light at every pixel of the sensor, with the digit displaced by (x, y) pixels."""
    x, y = MARGIN - float(place[0]), MARGIN - float(place[1])
    left, top = int(x), int(y)
    rows = image[:, top : top + NMNIST.height + 1]
    columns = rows[..., left : left + NMNIST.width].lerp(rows[..., left + 1 : left + 1 + NMNIST.width], x - left)
    grey = columns[:, :-1].lerp(columns[:, 1:], y - top)
    # exp(gamma * log(grey)) is grey ** gamma, in a third of the time.
    return grey.log_().mul_(camera.gamma).exp_().add_(camera.dark).log_()
