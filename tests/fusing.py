"""Test material for the fusion of sensors: networks, ragged batches, and a slow network that loops over a list of events."""

from typing import Any

import torch
from torch import Tensor

from layers import EXACT, as_hx, states
from phased import Fusion, PhasedLSTM, Uniform, open_at_samples

Streams = dict[str, tuple[Tensor, Tensor, Tensor]]
FEATURES = {"ears": 3, "eyes": 2, "skin": 1}


def network(make: type = PhasedLSTM, dtype: torch.dtype = torch.float64, **options: Any) -> Fusion:
    """Three sensors of different sizes; the gates of one of them close at times, and those of the merged layers are learned."""
    open_, closing = {"dtype": dtype, **open_at_samples()}, {"period": Uniform(3, 9), "ratio_on": 0.6}
    sensors = {
        "ears": make(3, 4, **open_),
        "eyes": make(2, 3, 2, **open_),
        "skin": make(1, 2, dtype=dtype, **closing),
    }
    return Fusion(sensors, make(9, 5, 2, learn_ratio_on=True, dtype=dtype, **closing), **options)


def batch(lengths: dict[str, list[int]], grid: bool = True, dtype: torch.dtype = torch.float64) -> Streams:
    """Ragged samples; times on a grid often coincide, within and across sensors. Padding is NaN, and time 0."""
    streams = {}
    for name, ends in lengths.items():
        steps, size = max(ends, default=0), len(ends)
        time = 20 * torch.rand(steps, size, dtype=torch.float64).sort(0).values
        x = torch.randn(steps, size, FEATURES[name], dtype=dtype)
        length = torch.tensor(ends, dtype=torch.int64)
        padding = torch.arange(steps).unsqueeze(1) >= length
        streams[name] = (
            x.masked_fill(padding.unsqueeze(-1), torch.nan),
            (time.round() if grid else time).masked_fill(padding, torch.nan),
            length,
        )
    return streams


def events(streams: Streams, sequence: int, extra: list[float] | None = None) -> list[tuple[float, dict[str, list[Tensor]]]]:
    """One sequence as a list of moments in order, each with the samples of all sensors at that time."""
    moments: dict[float, dict[str, list[Tensor]]] = {time: {} for time in extra or []}
    for name, (x, time, lengths) in streams.items():
        for step in range(int(lengths[sequence])):
            moments.setdefault(time[step, sequence].item(), {}).setdefault(name, []).append(x[step, sequence])
    return sorted(moments.items())


def slowly(fusion: Fusion, streams: Streams, sequence: int, extra: list[float] | None = None) -> tuple[list[float], Tensor, Any]:
    """Times, outputs (T, H) and last states of one sequence, moment by moment, each layer one step at a time."""
    now: dict[str, Any] = dict.fromkeys(fusion.sensors)
    held = {name: torch.zeros(layer.hidden_size, dtype=torch.float64) for name, layer in fusion.sensors.items()}
    times, outputs, merged = [], [], None
    for time, samples in events(streams, sequence, extra):
        moment = torch.tensor([time], dtype=torch.float64)
        for name, rows in samples.items():
            for row in rows:
                output, now[name] = fusion.sensors[name](row.unsqueeze(0), moment, now[name])
                held[name] = output[0]
        output, merged = fusion.merged(torch.cat([held[name] for name in fusion.sensors]).unsqueeze(0), moment, merged)
        times.append(time)
        outputs.append(output[0])
    empty = torch.zeros(0, fusion.hidden_size, dtype=torch.float64)
    return times, torch.stack(outputs) if outputs else empty, {**now, "merged": merged}


def one_of(state: Any, sequence: int) -> Any:
    """The state of one sequence of a batch, as an unbatched call returns it."""
    return as_hx(tuple(s[:, sequence] for s in states(state)))


def parameters(fusion: Fusion) -> list[Tensor]:
    """What is trained."""
    return [p for p in fusion.parameters() if p.requires_grad]


def close(got: Any, want: Any) -> None:
    """Two results are equal but for rounding in float64."""
    torch.testing.assert_close(got, want, **EXACT)
