"""EventEmbedding: features of a camera's events, learned per pixel."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from phased import check
from phased.data.recordings import NMNIST, Sensor
from phased.lookup import look_up

STD = 0.3  # of the vectors at first


class EventEmbedding(nn.Module):
    """An event's features: a learned vector of its pixel, and its polarity as -1 or 1.

    Args:
        sensor: the size of the camera, width and height in pixels.
        size: the length of a pixel's vector.
        smooth: how many pixels apart the first vectors of two pixels are still similar, so that training needs fewer recordings:
            the standard deviation of a Gaussian by which random vectors are blurred. 0 for vectors that are drawn independently.

    Shape:
        - address: (N,) int64, `(y * width + x) * 2 + polarity`.
        - returned: (N, size + 1).

    Raises:
        TypeError: size is no int, or smooth no number.
        ValueError: size is below 1, smooth is negative, or sensor is not two sizes of at least 1.

    Example:
        >>> import torch
        >>> from phased.classifier.encoder import EventEmbedding
        >>> encoder = EventEmbedding()
        >>> address = torch.tensor([(17 * 34 + 12) * 2 + 1])  # polarity 1 at x = 12, y = 17
        >>> encoder(address).shape
        torch.Size([1, 41])
    """

    def __init__(self, sensor: tuple[int, int] = NMNIST, size: int = 40, smooth: float = 0.0) -> None:
        super().__init__()
        check.positive_int("size", size)
        check.number("smooth", smooth, low=0.0)
        self.sensor = Sensor.of(sensor)
        self.size = size
        self.pixel = nn.Embedding(self.sensor.width * self.sensor.height, size)
        nn.init.normal_(self.pixel.weight, std=STD)
        if smooth:
            with torch.no_grad():
                self.pixel.weight.copy_(blurred(self.pixel.weight, self.sensor, smooth))

    @property
    def features(self) -> int:
        """The number of features of an event."""
        return self.size + 1

    def forward(self, address: Tensor) -> Tensor:
        """The features of events, (N, size + 1), from their addresses, (N,)."""
        return look_up(self.table(), address)

    def table(self) -> Tensor:
        """The features of every address, (addresses, size + 1): the table of a `phased.Stream` of addresses."""
        vector = self.pixel.weight.repeat_interleave(2, 0)
        polarity = vector.new_tensor([-1.0, 1.0]).repeat(len(vector) // 2)
        return torch.cat((vector, polarity.unsqueeze(-1)), -1)

    def extra_repr(self) -> str:
        """The size of the camera, which no submodule prints."""
        return f"{self.sensor.width} x {self.sensor.height} pixels, {self.size} + 1 features"


def blurred(vectors: Tensor, sensor: Sensor, distance: float) -> Tensor:
    """Vectors of pixels, (pixels, size), blurred over the camera by a Gaussian, and scaled back to STD."""
    images = vectors.T.reshape(-1, sensor.height, sensor.width)
    across, down = (torch.arange(length, dtype=vectors.dtype) for length in (sensor.width, sensor.height))
    wide, high = (torch.exp(-(((axis.unsqueeze(1) - axis) / distance) ** 2) / 2) for axis in (across, down))
    wide, high = (kernel / kernel.norm(dim=1, keepdim=True) for kernel in (wide, high))  # vectors at the border are as long
    images = high @ images @ wide.T
    scaled: Tensor = STD / images.square().mean().sqrt() * images
    return scaled.flatten(1).T
