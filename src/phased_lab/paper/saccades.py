"""Figure 5: how the digit moves before the event camera, and what the camera reports of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from phased import pictures
from phased.data.camera import simulate
from phased.data.mnist import SIDE, read_mnist
from phased.data.nmnist import open_recordings
from phased.data.places import find_mnist, find_nmnist
from phased.data.recording import Recording
from phased.data.saccades import displacement
from phased_lab.runs.descriptor import Array, Drawn, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIGIT = 8
ENDS = (0, 105, 210, 315)  # ms: the digit rests between the saccades


@dataclass(frozen=True)
class Shown:
    """A recording, its origin in words, and the place of the digit at every millisecond: x and y in pixels, (N, 2)."""

    recording: Recording
    origin: str
    path: Array

    @property
    def frame(self) -> NDArray[np.int64]:
        """The number of events at each pixel, (height, width)."""
        width, height = self.recording.sensor
        pixels = self.recording.y.astype(np.int64) * width + self.recording.x
        return np.bincount(pixels, minlength=width * height).reshape(height, width)

    @property
    def finding(self) -> str:
        """The recording in one sentence."""
        events = self.recording
        return (
            f"{self.origin[0].upper()}{self.origin[1:]}: {len(events)} events in {events.time[-1] / 1000:.0f} ms, "
            f"{1 - events.polarity.mean():.0%} of them where it gets brighter, at most {self.frame.max()} at one pixel."
        )


def run() -> Shown:
    """Return the first recording of an 8 in PHASED_DATA, or a simulated recording of an 8."""
    path = displacement(np.arange(ENDS[-1] + 1.0))
    for find in (real, of_mnist):
        try:
            recording, origin = find()
        except FileNotFoundError:
            continue
        return Shown(recording, origin, path)
    return Shown(*of_rings(), path)


def real() -> tuple[Recording, str]:
    """The first real recording of the digit."""
    recordings, _ = open_recordings(find_nmnist(), "train", skip_bad=True)
    found = (recordings.label == DIGIT).nonzero()
    if not len(found):
        raise FileNotFoundError(f"expected a recording of the digit {DIGIT}, got none among the training recordings.")
    first = int(found[0])
    return recordings[first], f"real recording number {int(recordings.number[first])} of N-MNIST"


def of_mnist() -> tuple[Recording, str]:
    """A simulated recording of the first image of the digit."""
    images, labels = read_mnist(find_mnist(), "train")
    first = int(np.flatnonzero(labels == DIGIT)[0])
    return simulated(images[first]), f"simulated recording of image number {first + 1} of MNIST"


def of_rings() -> tuple[Recording, str]:
    """A simulated recording of two rings, one above the other."""
    y, x = np.mgrid[:SIDE, :SIDE]
    rings = [np.abs(np.hypot(x - 14, y - centre) - radius) < 1.4 for centre, radius in ((9, 4), (18, 5))]
    return simulated(np.where(rings[0] | rings[1], 255, 0).astype(np.uint8)), "simulated recording of two rings"


def simulated(image: NDArray[np.uint8]) -> Recording:
    """Simulate a recording of an image (28, 28)."""
    return simulate(torch.from_numpy(image).unsqueeze(0))[0]


def draw_saccades(shown: Shown) -> Figure:
    """The movement, the events summed at each pixel, and the events in space and time."""
    figure: Figure = pictures.figure(3.0)
    grid = figure.add_gridspec(1, 3, width_ratios=(1.0, 1.0, 1.7))
    _movement(figure.add_subplot(grid[0]), shown)
    summed = figure.add_subplot(grid[1])
    summed.imshow(shown.frame, cmap="Greys", interpolation="nearest")
    summed.set(xlabel="x (pixels)", xticks=[0, 10, 20, 30], yticks=[0, 10, 20, 30])
    pictures.panel(summed, "b", "Events summed")
    _space_and_time(figure.add_subplot(grid[2], projection="3d"), shown)
    pictures.caption(
        figure,
        f"{shown.origin[0].upper()}{shown.origin[1:]}, {len(shown.recording)} events. (a) The digit's displacement on the "
        "sensor, estimated from real recordings. (b) Darker: more events. (c) A dot for each event; red: the pixel gets "
        "brighter, blue: darker.",
    )
    return figure


def _movement(axes: Axes, shown: Shown) -> None:
    """The digit's path, one colour for each of three saccades, with an arrow in the middle of each."""
    for number, colour in enumerate(pictures.UNITS):
        part = slice(ENDS[number], ENDS[number + 1] + 1)
        x, y = shown.path[part].T
        axes.plot(x, y, color=colour, linewidth=1.6)
        fastest = int(np.argmax(np.hypot(np.diff(x), np.diff(y))))
        arrow = {"arrowstyle": "-|>", "color": colour, "mutation_scale": 12, "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (x[fastest + 4], y[fastest + 4]), (x[fastest], y[fastest]), arrowprops=arrow)
        away = np.array([x[fastest], y[fastest]]) - shown.path.mean(0)
        place = shown.path.mean(0) + away * (1 + 1.1 / np.hypot(*away))
        axes.annotate(str(number + 1), place, color=colour, ha="center", va="center", fontweight="bold")
    axes.set(xlim=(-4.6, 4.6), ylim=(5.0, -4.2), xticks=[-2, 0, 2], aspect="equal", xlabel="x (pixels)", ylabel="y (pixels)")
    pictures.panel(axes, "a", "Three saccades")


def _space_and_time(axes: Any, shown: Shown) -> None:
    """A dot for each event; time runs to the right, and the digit stands upright. `axes` is three-dimensional."""
    events = shown.recording
    for falls, colour in ((False, pictures.UNITS[0]), (True, pictures.UNITS[1])):
        some = events.polarity == falls
        axes.scatter(
            events.time[some] / 1000,
            events.x[some],
            events.y[some],
            s=1.8,
            color=colour,
            alpha=0.75,
            linewidth=0,
            rasterized=True,
        )
    width, height = events.sensor
    axes.set(xlim=(0, ENDS[-1]), ylim=(0, width), zlim=(height, 0))
    axes.set(xticks=[0, 100, 200, 300], yticks=[0, 15, 30], zticks=[0, 15, 30])
    axes.set_box_aspect((2.4, 1.0, 1.0), zoom=1.55)
    axes.view_init(elev=16, azim=-48)
    axes.tick_params(labelsize=6, pad=-2)
    axes.set_xlabel("time (ms)", labelpad=-4)
    axes.set_ylabel("x", labelpad=-8)
    axes.set_zlabel("y", labelpad=-8)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.pane.set_facecolor("white")
        axis.pane.set_edgecolor(pictures.QUIET)
        axis._axinfo["grid"].update({"linewidth": 0.3, "color": pictures.QUIET})
    axes.set_title(r"$\bf{c}$  Events in space and time", color=pictures.INK, y=1.0)


@drawing(
    "A digit seen by an event camera",
    number="Fig. 5",
    place=49,
    about="Figure 5: the three saccades, and the events of a digit as a frame and in space and time",
)
def saccades() -> Drawn:
    """The movement of a digit and its events."""
    shown = run()
    return Drawn({"saccades": draw_saccades(shown)}, shown.finding)
