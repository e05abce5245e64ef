"""Stream: a layer fed event by event, touching open units only."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from phased import check
from phased.cell import State, hold
from phased.gate import TimeGate
from phased.layer import PhasedRNN


class Stream:
    """One sequence through a PhasedLSTM or PhasedGRU, event by event, as the layer computes it in eval.

    The weights are copied when the stream is made. numpy in gives numpy out, tensors in give tensors out.
    """

    def __init__(self, rnn: PhasedRNN) -> None:
        if not isinstance(rnn, PhasedRNN):
            raise TypeError(f"rnn must be a PhasedLSTM or PhasedGRU, got {check.kind(rnn)}.")
        if rnn.bidirectional:
            raise ValueError(
                "rnn must not be bidirectional: the backward direction needs the future. Train one with bidirectional=False."
            )
        self.input_size = rnn.input_size
        self._cell = rnn.cell
        self._names = rnn.state_names
        self._dtype = torch.promote_types(rnn.get_parameter("weight_ih_l0").dtype, torch.float32)

        def own(value: Tensor) -> Tensor:
            return value.detach().to("cpu", self._dtype, copy=True)

        def own_time(value: Tensor) -> Tensor:
            return value.detach().to("cpu", copy=True)

        self._weights = [weights.map(own, own) for weights in rnn.weights()]
        self._gates = [
            TimeGate(own_time(gate.period), own_time(gate.shift), own_time(gate.ratio_on), 0.0, gate.shape)
            for gate in rnn.gates()
        ]
        self._state: State = ()
        self._time: float | None = None
        self.reset()

    def reset(self) -> None:
        """Forget everything: zero states, and any time may come next."""
        shape = (len(self._weights), self._weights[0].hh.shape[1])
        self._state = tuple(torch.zeros(shape, dtype=self._dtype) for _ in self._names)
        self._time = None

    @property
    def state(self) -> Any:
        """A copy of the state as the layer takes it for an unbatched sequence: (h, c), or h for the GRU, each (layers, H)."""
        copies = tuple(s.clone() for s in self._state)
        return copies if len(copies) > 1 else copies[0]

    @state.setter
    def state(self, value: Any) -> None:
        shape = tuple(self._state[0].shape)
        given = check.state(value, self._names, shape, self._dtype, torch.device("cpu"))
        self._state = tuple(s.detach().clone() for s in given)

    @property
    def time(self) -> float | None:
        """The time of the last event, or None before the first."""
        return self._time

    def push(self, x: Any, t: float) -> Any:
        """Take one event, features x (input_size,) at time t; the output of the last layer, (H,)."""
        row = self._features(x)
        time = torch.as_tensor(t, dtype=torch.float64)
        check.event(row, float(time), self.input_size, self._time)
        h = self._advance(row, time)
        return h if isinstance(x, Tensor) else h.numpy()

    def run(self, x: Any, t: Any) -> Any:
        """Take many events, features (N, input_size) at times (N,); the outputs, (N, H). A bad event anywhere changes nothing."""
        rows = self._features(x)
        times = torch.as_tensor(t)
        check.events(rows, times, self.input_size, self._time)
        outputs = torch.empty(len(rows), self._weights[0].hh.shape[1], dtype=self._dtype)
        for j, (row, time) in enumerate(zip(rows, times, strict=True)):
            outputs[j] = self._advance(row, time)
        return outputs if isinstance(x, Tensor) else outputs.numpy()

    def _features(self, x: Any) -> Tensor:
        values = x.detach() if isinstance(x, Tensor) else torch.from_numpy(np.array(x, copy=True))
        return values.to("cpu", self._dtype)

    @torch.no_grad()
    def _advance(self, x: Tensor, time: Tensor) -> Tensor:
        """All layers see the same time (the paper's Figure 2a)."""
        for layer, (weights, gate) in enumerate(zip(self._weights, self._gates, strict=True)):
            state = tuple(s[layer] for s in self._state)
            phi = gate.phase(time)
            unit = (phi < gate.ratio_on).nonzero().squeeze(-1)
            if unit.numel():
                k = gate.of(unit).openness(phi[unit]).to(self._dtype)
                previous = tuple(s[unit] for s in state)
                from_x = self._products(weights.ih, weights.bias_ih, unit, x)
                from_h = self._products(weights.hh, weights.bias_hh, unit, state[0])
                peephole = None if weights.peephole is None else weights.peephole[:, unit]
                proposal = self._cell.propose(from_x, from_h, previous, peephole)
                for whole, new in zip(state, hold(k, proposal.state, previous), strict=True):
                    whole[unit] = new
            x = state[0]
        self._time = float(time)
        return x.clone()

    def _products(self, weight: Tensor, bias: Tensor | None, unit: Tensor, row: Tensor) -> Tensor:
        """The gates' products of the open units, (G, open)."""
        products = weight.view(self._cell.gates, -1, len(row))[:, unit] @ row
        return products if bias is None else products + bias.view(self._cell.gates, -1)[:, unit]
