"""Normalise: the inputs of the estimators for any network."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from phased import check, clock
from phased.estimator.checks import check_range, check_reach
from phased.estimator.events import Events
from phased.estimator.inputs import Inputs, Measured, width
from phased.estimator.ragged import offsets, unpadded
from phased.estimator.scaling import NUMBERS, Numbers, Scaling


class Normalise(nn.Module):
    """The inputs that the estimators compute from measurements at irregular times, for a PhasedLSTM or PhasedGRU.

    Call `fit` with the training sequences, or load a `state_dict`. The features of a step are, in this order:

    - of all variables: last known value in the scale of the training, whether it is new, and log(1 + time since it was measured)
    - log(1 + time since the previous step), in median gaps, and the time since the first step in median spans
    - of all variables, relative to the sequence so far: deviation from the mean, change, rate of change, log of the spread

    Features do not depend on later steps, nor on the units of values and times. A variable that only counts time is read as its
    difference from the time. The computation runs on the CPU in float32 and has no gradient. `NormaliseStream` computes the same
    event by event.

    Args:
        input_size: number of variables.
        batch_first: whether input, time and output have the batch as their first dimension.

    Attributes:
        output_size: number of features.
        scales: centre, factor, lower bound, upper bound and increase with the time of each variable, (5, input_size).
        times: median gap and median span, (2,).

    Example:
        >>> import torch
        >>> from phased import PhasedGRU
        >>> from phased.estimator import Normalise
        >>> x, time = torch.randn(50, 4, 3), torch.rand(50, 4, dtype=torch.float64).cumsum(0)
        >>> x[torch.rand(50, 4, 3) < 0.5] = float("nan")  # not measured
        >>> normalise = Normalise(3).fit(x, time)
        >>> rnn = PhasedGRU(normalise.output_size, 8)
        >>> output, h_n = rnn(normalise(x, time), time)
        >>> output.shape
        torch.Size([50, 4, 8])
    """

    scales: Tensor
    times: Tensor

    def __init__(self, input_size: int, batch_first: bool = False) -> None:
        super().__init__()
        check.positive_int("input_size", input_size)
        check.flag("batch_first", batch_first)
        self.input_size, self.batch_first, self.output_size = input_size, batch_first, width(input_size, input_size)
        self.register_buffer("scales", torch.zeros(len(NUMBERS) + 1, input_size, dtype=torch.float64, device="cpu"))
        self.register_buffer("times", torch.zeros(2, dtype=torch.float64, device="cpu"))

    def fit(self, input: Tensor, time: Tensor, lengths: Any = None) -> Self:
        """Measure the scales on training sequences, given as for `forward`, and return the module.

        Example:
            >>> import torch
            >>> from phased.estimator import Normalise
            >>> Normalise(1).fit(torch.rand(9, 1), 2 * torch.arange(9)).times  # gap and span
            tensor([ 2., 16.], dtype=torch.float64)
        """
        scaling = Scaling.of(self._events(input, time, lengths))
        rows = *(getattr(scaling.values, name) for name in NUMBERS), scaling.slopes
        self.scales.copy_(torch.from_numpy(np.stack(rows)))
        self.times[0], self.times[1] = scaling.gap, scaling.span
        return self

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, input: Tensor, time: Tensor, lengths: Any = None) -> Tensor:
        """Compute the features of measurements.

        Args:
            input: values, NaN where not measured.
            time: integers or floats, never decreasing within a sequence.
            lengths: number of steps of each sequence that are data. The rest is padding, with features of 0. Default: all.

        Shape:
            - input: (T, B, input_size); (B, T, input_size) with `batch_first`; (T, input_size) without a batch.
            - time: the shape of input without variables.
            - lengths: (B,).
            - output: the shape of input with `output_size` features.

        Returns:
            The features, on the device and in the dtype of input. In float32 if input has integers.

        Raises:
            TypeError: input or time is no tensor of real numbers.
            ValueError: shapes do not fit, times are not finite or go backwards, a value is infinite, or the module has no scales.

        Example:
            >>> import torch
            >>> from phased.estimator import Normalise
            >>> x, time = torch.randn(50, 3), torch.arange(50)
            >>> Normalise(3).fit(x, time)(x, time).shape
            torch.Size([50, 23])
        """
        scaling, events = self.scaling, self._events(input, time, lengths)
        found = Measured.of(events, scaling)
        check_reach(events, found.time, scaling)
        sequences, steps = np.arange(len(events)), input.shape[1 if self.batch_first and input.dim() == 3 else 0]
        made = torch.empty(*input.shape[:-1], self.output_size, dtype=torch.float32, device="cpu")
        first, apart = (sequences * steps, 1) if self.batch_first else (sequences, len(sequences))
        inputs = Inputs(scaling.numbers, scaling.span_in_gaps)
        inputs.fill(found, sequences, made.view(-1, self.output_size).numpy(), first, apart, steps)
        return made.to(input.device, input.dtype if input.is_floating_point() else None)

    @property
    def scaling(self) -> Scaling:
        """The scales in the form of the estimators."""
        *values, slopes = self.scales.detach().double().cpu().numpy().copy()
        gap, span = self.times.tolist()
        scaling = Scaling(Numbers(*values), (True,) * self.input_size, slopes, Numbers.of([]), (), gap, span, ())
        if not scaling.fits(self.input_size, 0):
            raise ValueError(
                "Normalise must be fitted, got one without valid scales. Call fit(input, time), or load a state_dict."
            )
        return scaling

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Move the scales to another device, but keep them in float64."""
        for name, scales in self.named_buffers():
            setattr(self, name, scales.to(fn(scales).device))
        return self

    def _events(self, input: Tensor, time: Tensor, lengths: Any) -> Events:
        """The measurements of a padded batch."""
        x, count = unpadded(input, self.input_size, lengths, self.batch_first)
        check.times(time, input.shape[:-1], input.device)
        clocks = clock.read(time, lengths, self.batch_first)
        rows = x.double().numpy()
        measured = ~np.isnan(rows)
        events = Events(
            ids=np.arange(len(count)),
            variables=tuple(f"x{number}" for number in range(self.input_size)),
            statics=(),
            unit="",
            offset=offsets(count),
            time=clocks.time.double().numpy(),
            entry=offsets(measured.sum(1)),
            variable=np.nonzero(measured)[1].astype(np.int32),
            value=rows[measured],
            static=np.empty((len(count), 0)),
        )
        check_range(events)
        return events
