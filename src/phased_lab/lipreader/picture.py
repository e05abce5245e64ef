"""The picture of a clip that was read: faces, sound, gates of all layers, and the words, over time (Fig. 6 of the paper)."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from phased.pictures import style
from phased.pictures.annotate import caption, plain
from phased.pictures.style import FAINT, INK, QUIET, UNITS
from phased_lab.clips import WORDS, Clip
from phased_lab.clips.decoding import Sense
from phased_lab.lipreader import LipReader
from phased_lab.lipreader.grammar import Spoken

FACES = 10  # in a row
SHOWN = 30  # units of each merged layer


def draw_clip(reader: LipReader, clip: Clip, spoken: Spoken, name: str, sense: Sense = "both") -> Figure:
    """Faces, MFCCs, gates and words of one clip."""
    followed = reader.follow(clip, sense)
    figure = style.figure(6.4)
    rows = figure.subplots(4, 1, sharex=True, height_ratios=(1.0, 1.0, 1.7, 1.0))
    _faces(rows[0], clip)
    _sound(rows[1], clip, reader.config.rate)
    _gates(rows[2], reader, clip, followed.time)
    _words(rows[3], np.exp(followed.outputs), followed.time, spoken)
    rows[0].set_title(f"{plain(name)}: {' '.join(WORDS[word] for word in spoken.words)}")
    rows[-1].set_xlim(0.0, float(followed.time[-1]))
    rows[-1].set_xlabel("time (ms)")
    known = "known from the alignment" if clip.sentence is not None else "found from the outputs and the grammar"
    used = {"both": "Video and sound", "video": "Video alone", "audio": "Sound alone"}[sense]
    caption(
        figure,
        f"{used}. The times of the words are {known}. Gates: dark where a unit is open; merged layers: {SHOWN} units each.",
    )
    return figure


def _faces(axes: Axes, clip: Clip) -> None:
    """Some frames, each where it was taken."""
    last = float(clip.time[-1])
    width = last / FACES
    for place in range(FACES):
        begin = place * width
        frame = clip.frames[int(np.abs(clip.time - (begin + width / 2)).argmin())]
        axes.imshow(frame, cmap="gray", vmin=0, vmax=255, extent=(begin, begin + width, 0, 1), aspect="auto")
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.set_ylabel("video")


def _sound(axes: Axes, clip: Clip, rate: int) -> None:
    """The MFCCs; the first one, loudness, is much larger than the others and is left out."""
    sound = clip.mfcc[rate]
    hop = 1000.0 / rate
    values = sound.values[:, 1:].T
    limit = float(np.abs(values).max()) or 1.0
    extent = (hop * (sound.first - 1), hop * (sound.first - 1 + values.shape[1]), 0.5, 12.5)
    axes.imshow(
        values, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", origin="lower", extent=extent, interpolation="nearest"
    )
    axes.set_yticks([1, 6, 12])
    axes.set_ylabel("MFCC")


def _gates(axes: Axes, reader: LipReader, clip: Clip, time: np.ndarray) -> None:
    """Samples of the sensors, when all units of their layers are open, and the openness of units of the merged layers."""
    _, heard = clip.sound(reader.config.rate)
    layers = reader.network.fusion.merged.gates()  # type: ignore[operator]
    bottom, labels = 0.0, []
    for number, gate in enumerate(layers, 1):
        order = gate.period.argsort()[:: max(1, len(gate.period) // SHOWN)][:SHOWN]
        with torch.no_grad():
            k = gate.bounded()(torch.from_numpy(time))[:, order].T.numpy()
        extent = (float(time[0]), float(time[-1]), bottom, bottom + len(order))
        axes.imshow(k, cmap="Greys", vmin=0, vmax=1, aspect="auto", origin="lower", extent=extent, interpolation="nearest")
        labels.append((bottom + len(order) / 2, f"Merged-{number}"))
        bottom += len(order) + 2
    for label, times, colour in (("audio", heard, UNITS[1]), ("video", clip.time, UNITS[0])):
        axes.vlines(times, bottom, bottom + 6, color=colour, linewidth=0.6)
        labels.append((bottom + 3, label))
        bottom += 8
    axes.set_ylim(0, bottom - 2)
    axes.set_yticks([height for height, _ in labels], [label for _, label in labels])


def _words(axes: Axes, probability: np.ndarray, time: np.ndarray, spoken: Spoken) -> None:
    """The probability of each recognised word over time, and its name where it was spoken."""
    for place, (word, (begin, end)) in enumerate(zip(spoken.words, spoken.spans, strict=True)):
        colour = UNITS[place % len(UNITS)]
        axes.axvspan(begin, end, color=FAINT if place % 2 else "#f3f4f6", zorder=0, linewidth=0)
        axes.plot(time, 100 * probability[:, word], color=colour)
        axes.text((begin + end) / 2, 108, WORDS[word], ha="center", va="bottom", color=INK)
    axes.set_ylim(0, 128)
    axes.set_yticks([0, 50, 100])
    axes.tick_params(axis="y", colors=QUIET)
    axes.set_ylabel("probability (%)")
