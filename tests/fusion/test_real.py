"""A network of the paper's sizes on a real clip of GRID, where one is present: 25 frames and 100 rows of sound a second."""

import numpy as np
import pytest
import torch
from torch import nn

from phased import Fusion, FusionStream, PhasedLSTM, Uniform, aligned, open_at_samples
from phased_lab import clips


def eyes():
    parts = [[nn.Conv2d(inputs, 16, 5), nn.MaxPool2d(2), nn.ReLU()] for inputs in (1, 16, 16)]
    return nn.Sequential(*(module for part in parts for module in part), nn.Flatten())


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_stream_of_frames_and_sound_gives_what_the_network_gives_for_the_whole_clip(grid, by_hand):
    clip = clips.prepare_clip(next(grid.glob("s*/*.mpg")))
    rows, first = clip.mfcc[100]
    frames = torch.from_numpy(clip.frames).unsqueeze(1).float() / 255, torch.from_numpy(clip.time).double()
    sound = torch.from_numpy(rows) / 100, 10.0 * torch.arange(first, first + len(rows), dtype=torch.float64)

    video_gate, audio_gate = (aligned(40), aligned(10)) if by_hand else (open_at_samples(), open_at_samples())
    merged = PhasedLSTM(260, 250, 2, period=[Uniform(10, 1000), Uniform(500, 3000)], ratio_on=0.2)
    layers = {"video": PhasedLSTM(64, 110, **video_gate), "audio": PhasedLSTM(13, 150, **audio_gate)}
    fusion = Fusion(layers, merged, encoders={"video": eyes()}).eval()
    streams = {"video": frames, "audio": sound}
    with torch.no_grad():
        batch = {name: (x.unsqueeze(1), time.unsqueeze(1)) for name, (x, time) in streams.items()}
        output, timeline, _ = fusion(batch)
    times = sorted({*frames[1].tolist(), *sound[1].tolist()})
    assert timeline.time.flatten().tolist() == times
    assert len(times) < len(frames[0]) + len(sound[0])  # a frame and a row of sound at one time are one step
    counts = fusion.updates(batch)
    assert bool((counts.sensors["video"] == len(frames[0])).all())
    assert bool((counts.sensors["audio"] == len(sound[0])).all())

    stream, outputs = FusionStream(fusion), []
    for time in times:
        now = {name: x[np.flatnonzero(own == time)[0]] for name, (x, own) in streams.items() if time in own}
        outputs.append(stream.push(now, time))
    torch.testing.assert_close(torch.stack(outputs), output[:, 0], atol=1e-5, rtol=1e-4)
