"""Normalise: the inputs of the estimators, as a module for networks of one's own."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from phased import check, clock
from phased.estimator.checks import check_range, check_reach
from phased.estimator.events import Events
from phased.estimator.inputs import Inputs, elapsed, width
from phased.estimator.ragged import offsets, padded, unpadded
from phased.estimator.scaling import NUMBERS, Numbers, Scaling


class Normalise(nn.Module):
    """The inputs that the estimators compute from measurements at irregular times, for a PhasedLSTM or PhasedGRU.

    Call `fit` with the training sequences, or load a `state_dict`. A step of the output has, in this order:

    - for each variable its last known value, scaled by the training sequences, then whether it was measured at this step, then
      the logarithm of the time since it was measured last, log(1 + median gaps);
    - the logarithm of the time since the previous step, and the time since the first step in median spans;
    - for each variable, relative to its measurements in this sequence so far, the deviation from their mean, then the change
      since the previous one, then the rate of this change, then the logarithm of their spread.

    A step does not depend on later steps. Other units of values and times give the same output. A variable that only counts time
    is read as its difference from the time. `NormaliseStream` computes the same event by event. The computation runs on the CPU
    in float32, whatever the device, and has no gradient.

    Args:
        input_size: Number of variables.
        batch_first: Whether input, time and output have the batch as their first dimension.

    Attributes:
        scales: centre, factor, lower and upper bound, and increase per unit of time that is subtracted, of each variable,
            (5, input_size).
        times: median gap and median span, (2,).
        output_size: number of features of a step, 7 * input_size + 2.

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
        """Compute the inputs of a network from measurements.

        Args:
            input: Values of every step, NaN where not measured.
            time: Time of every step: integers or floats, never decreasing. Each sequence has its own clock.
            lengths: Number of steps of each sequence that are data. The rest is padding, where the output is 0. Default: all.

        Shape:
            With T steps, B sequences, D variables and F = `output_size` features:

            - input: (T, B, D); (B, T, D) with `batch_first`; (T, D) without a batch.
            - time: the shape of input without variables.
            - lengths: (B,).
            - output: (T, B, F); (B, T, F) with `batch_first`; (T, F) without a batch.

        Returns:
            The features, on the device and in the dtype of input, or in float32 if input has integers.

        Raises:
            TypeError: An argument is no tensor of real numbers.
            ValueError: The module has no scales, shapes do not fit, times are not finite or go backwards, or a value is infinite.

        Example:
            >>> import torch
            >>> from phased.estimator import Normalise
            >>> x, time = torch.randn(50, 3), torch.arange(50)
            >>> Normalise(3).fit(x, time)(x, time).shape
            torch.Size([50, 23])
        """
        scaling, events = self.scaling, self._events(input, time, lengths)
        since = elapsed(events, scaling)
        check_reach(events, since, scaling)
        rows = Inputs(scaling.numbers, scaling.span_in_gaps).batch(events, scaling, since)
        return padded(rows, events.lengths, input, self.batch_first)

    @property
    def scaling(self) -> Scaling:
        """The scales, as the estimators have them."""
        *values, slopes = self.scales.detach().double().cpu().numpy().copy()
        scaling = Scaling(Numbers(*values), (True,) * self.input_size, slopes, Numbers.of([]), (), *self.times.tolist())
        if not scaling.fits(self.input_size, 0):
            raise ValueError("Normalise must have scales, got none or damaged ones. Call fit(input, time), or load a state_dict.")
        return scaling

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Keep the scales on the CPU in float64, where they are used, when the network around is moved or converted."""
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
