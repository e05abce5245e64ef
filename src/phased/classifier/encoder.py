"""EventEmbedding: features of a camera's events, learned per pixel."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from phased import check
from phased.data.recordings import NMNIST, Sensor
from phased.learn.lookup import look_up


class EventEmbedding(nn.Module):
    """An event's features: a learned vector of its pixel, and its polarity as -1 or 1.

    Args:
        sensor: the size of the camera, width and height in pixels.
        size: the length of a pixel's vector.

    Shape:
        - address: (N,) int64, `(y * width + x) * 2 + polarity`.
        - returned: (N, size + 1).

    Raises:
        TypeError: size is no int.
        ValueError: size is below 1, or sensor is not two sizes of at least 1.

    Example:
        >>> import torch
        >>> from phased.classifier.encoder import EventEmbedding
        >>> encoder = EventEmbedding()
        >>> address = torch.tensor([(17 * 34 + 12) * 2 + 1])  # polarity 1 at x = 12, y = 17
        >>> encoder(address).shape
        torch.Size([1, 41])
    """

    def __init__(self, sensor: tuple[int, int] = NMNIST, size: int = 40) -> None:
        super().__init__()
        check.size("size", size)
        self.sensor = Sensor.of(sensor)
        self.size = size
        self.pixel = nn.Embedding(self.sensor.width * self.sensor.height, size)
        nn.init.normal_(self.pixel.weight, std=0.3)

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
