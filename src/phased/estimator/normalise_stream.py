"""NormaliseStream: the inputs and the shares of the estimators, event by event, for any network."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phased import check, clock
from phased.estimator.checks import beyond, too_late
from phased.estimator.inputs import Inputs, Rows
from phased.estimator.normalise import Normalise
from phased.estimator.scaling import LARGEST
from phased.estimator.shares import Shares
from phased.stream import OneSequence, identity


class NormaliseStream(OneSequence):
    """One sequence through a `Normalise`, event by event, beside a `phased.Stream`. A batch gets the same features.

    Scales and kernels are copied when the stream is made. One thread at a time may use a stream.

    Args:
        normalise: computes the features.
        shares: random convolutions over these features. Default: the stream has no `shares`.

    Example:
        >>> import torch
        >>> from phased import PhasedGRU, Stream
        >>> from phased.estimator import Normalise, NormaliseStream
        >>> x, time = torch.randn(50, 3), torch.rand(50, dtype=torch.float64).cumsum(0)
        >>> normalise = Normalise(3).fit(x, time)
        >>> rnn = PhasedGRU(normalise.output_size, 8).eval()
        >>> inputs, stream = NormaliseStream(normalise), Stream(rnn)
        >>> for values, t in zip(x, time):
        ...     h = stream.push(inputs.push(values, t), t)
        >>> torch.allclose(h, rnn(normalise(x, time), time)[0][-1], atol=1e-6)
        True
    """

    _model: Steps

    def __init__(self, normalise: Normalise, shares: Shares | None = None) -> None:
        self._model = Steps(*deepcopy((normalise, shares)))
        self._now = self._model.start()

    @property
    def time(self) -> float | None:
        """The time of the last event, or None before the first."""
        _, last, steps = self._now["clock"][0].tolist()
        return last if steps else None

    @property
    def shares(self) -> Tensor:
        """The shares of the steps so far, (features,) float32, equal to the shares of a batch. Before the first event they are 0.

        Example:
            >>> import torch
            >>> from phased.estimator import Normalise, NormaliseStream, Shares
            >>> x, time = torch.randn(50, 3), torch.arange(50)
            >>> normalise = Normalise(3).fit(x, time)
            >>> shares = Shares(3).fit(normalise(x, time))
            >>> stream = NormaliseStream(normalise, shares)
            >>> for values, t in zip(x, time):
            ...     row = stream.push(values, t)
            >>> torch.equal(stream.shares, shares(normalise(x, time)))
            True
        """
        if self._model.shares is None:
            raise ValueError("the stream must have a Shares, got None. Make it with NormaliseStream(normalise, shares).")
        counts, steps = self._now["counts"].ravel(), self._now["clock"][0, 2]
        return torch.from_numpy((counts / max(steps, 1)).astype(np.float32))

    def push(self, x: Any, t: float) -> Any:
        """Take the values of one event.

        Args:
            x: values of all variables, NaN where not measured: a tensor, an array or a list.
            t: their time, not before the last event.

        Shape:
            - x: (input_size,).
            - returned: (output_size,).

        Returns:
            The features: a tensor in the dtype of x if x is a tensor of floats, otherwise a float32 tensor or array.

        Raises:
            TypeError: x or t are no real numbers.
            ValueError: x has another shape or an infinite value, or t is not finite or before the last event. The stream does not
                change then.

        Example:
            >>> import torch
            >>> from phased.estimator import Normalise, NormaliseStream
            >>> stream = NormaliseStream(Normalise(1).fit(torch.rand(9, 1), torch.arange(9)))
            >>> stream.push([0.5], 0.0).shape
            (9,)
        """
        scaling = self._model.scaling
        given = check.numbers("x", x)
        if given.shape != (len(scaling.numbers),):
            raise ValueError(f"x must have shape ({len(scaling.numbers)},), the input_size, got {check.shape(given)}.")
        values, time = given.cpu().double().numpy(), float(clock.moment(t, self.time, scaling.gap))
        clock.after(time, self.time)
        if abs(time) > clock.EXACT_FLOAT64:
            raise beyond("time", time, "for this event")
        for variable in np.flatnonzero(np.abs(values) > LARGEST)[:1]:
            raise beyond("x", values[variable], f"for variable {variable}")
        now = self._now.copy()
        start, last, steps = now["clock"][0].tolist() if self.time is not None else (time, time, 0)
        moment = (time - start) / scaling.gap
        if moment > scaling.reach:
            raise too_late(moment, scaling, "for this event")
        scaled = scaling.values(values - scaling.slopes * time).astype(np.float32)
        self._model.take(now, scaled, moment, moment - (last - start) / scaling.gap, int(steps))
        now["clock"] = start, time, steps + 1
        self._now, row = now, now["x"][0].copy()
        if not isinstance(x, Tensor):
            return row
        return torch.from_numpy(row).to(x.device, x.dtype if x.is_floating_point() else torch.float32)


class Steps:
    """The modules that sequences share. The state of a sequence is one record of numpy, with `Inputs.kept` and `Shares.parts`.

    "clock": times of the first and of the last step, and the number of steps. "x": the last row of inputs.
    """

    def __init__(self, normalise: Normalise, shares: Shares | None) -> None:
        for name, module, kind in (("normalise", normalise, Normalise), ("shares", shares, Shares | None)):
            if not isinstance(module, kind):
                raise TypeError(f"{name} must be a {name.title()}, got {check.kind(module)}.")
        if shares is not None and shares.input_size != normalise.output_size:
            raise ValueError(
                f"shares must have the input_size {normalise.output_size} of normalise's features, got {shares.input_size}. "
                f"Make it with Shares({normalise.input_size})."
            )
        self.modules, self.shares, self.scaling = (normalise, shares), shares, normalise.scaling
        self.inputs = Inputs(self.scaling.numbers, self.scaling.span_in_gaps)
        kept = [(name, "f8", (size,)) for name, size in self.inputs.kept().items()]
        counted = [] if shares is None else [*reversed(shares.parts())]
        self.parts = np.dtype([*kept, ("clock", "f8", (3,)), ("x", "f4", (self.inputs.width,)), *counted])
        self.core = None if shares is None else shares.compiled()
        tensors = [tensor for module in self.modules if module is not None for tensor in module.state_dict().values()]
        self.identity = identity(self.parts, (tensor.cpu() for tensor in tensors))

    def __reduce__(self) -> tuple[Any, ...]:
        return Steps, self.modules

    def start(self) -> NDArray[Any]:
        """The state before the first event."""
        return np.zeros(1, self.parts)

    def pack(self, now: NDArray[Any]) -> bytes:
        """A state as bytes."""
        return now.tobytes()

    def unpack(self, data: bytes) -> NDArray[Any]:
        """The state from what `pack` returned."""
        return np.frombuffer(data, self.parts).copy()

    def take(self, now: NDArray[Any], values: Rows, moment: float, after: float, before: int) -> None:
        """Update a state by scaled values, at a moment since the first step and after the previous one, in median gaps."""
        x = now["x"]
        if self.inputs.core is not None:
            self.inputs.core.step(x.ctypes.data, now.ctypes.data, moment, after, values.ctypes.data)
        else:
            kept = {name: now[name] for name in self.inputs.kept()}
            self.inputs.step(x, kept, np.array([moment]), np.array([after]), values[None])
        if self.core is not None:
            self.core.step(*(now[name].ctypes.data for name in ("x", "ring", "counts")), before)
        elif self.shares is not None:
            self.shares.step(x[0], now["ring"][0], now["counts"][0], before)
