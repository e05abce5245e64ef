"""PhasedLSTM and PhasedGRU: the interface of torch.nn.LSTM and torch.nn.GRU, plus time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from math import e
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from phased import check, init, ops, tracing
from phased.cell import GRU, LSTM, State, Weights
from phased.gate import SHAPES, TimeGate
from phased.parameters import GATE, GatedModule, Setting
from phased.schedule import valid_steps

Sequences = Tensor | PackedSequence


class PhasedRNN(GatedModule):
    """What the two layers share: options, checks, stacking, directions, ragged batches."""

    state_names: ClassVar[tuple[str, ...]]

    check_time: bool = True
    """Whether times of CPU tensors are checked: finite, never backwards, not rounded to a standstill. False skips the check."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        period: Setting = init.LogUniform(e, e**6),  # noqa: B008 (a frozen law, not state)
        shift: Setting | None = None,
        ratio_on: Setting = 0.05,
        leak: float = 0.0,
        learn_period: bool | Sequence[bool] = True,
        learn_shift: bool | Sequence[bool] = True,
        learn_ratio_on: bool | Sequence[bool] = False,
        peephole: bool = False,
        gate: str = "triangle",
        backend: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            check.size(name, value)
        for name, flag in (
            ("bias", bias),
            ("batch_first", batch_first),
            ("bidirectional", bidirectional),
            ("peephole", peephole),
        ):
            check.flag(name, flag)
        check.number("dropout", dropout, low=0.0, high=1.0)
        check.number("leak", leak, low=0.0, high=1.0)
        check.choice("gate", gate, SHAPES)
        check.choice("backend", backend, ("auto", *ops.backends()))
        check.floating("dtype", dtype)
        ops.require(backend)
        if peephole and self.cell is not LSTM:
            raise ValueError("peephole must be False: a GRU has no cell state to look at. Use PhasedLSTM for peepholes.")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.leak = float(leak)
        self.peephole = peephole
        self.gate = gate
        self.backend = backend
        self._gate_starts = {
            name: check.per_layer(name, setting, num_layers)
            for name, setting in zip(GATE, (period, shift, ratio_on), strict=True)
        }
        learned = {
            name: check.per_layer(f"learn_{name}", flags, num_layers)
            for name, flags in zip(GATE, (learn_period, learn_shift, learn_ratio_on), strict=True)
        }
        self._register(learned, device, dtype)
        self.reset_parameters()

    def flatten_parameters(self) -> None:
        """Do nothing: torch.nn.LSTM's method of this name lays weights out for cuDNN, and code written for it may call it."""

    def __prepare_scriptable__(self) -> Self:
        """Refuse torch.jit.script, which calls this first."""
        raise RuntimeError(
            f"{type(self).__name__} must not be compiled by torch.jit.script, which knows neither its options nor its operator. "
            f"Use torch.export.export(model, args) instead."
        )

    def forward(
        self,
        input: Sequences,
        time: Sequences,
        hx: Tensor | tuple[Tensor, Tensor] | None = None,
        lengths: Tensor | Sequence[int] | None = None,
    ) -> tuple[Any, Any]:
        """Output and final state, with torch.nn.LSTM's shapes.

        time has input's shape without features: integers or floats, one clock for each sequence. `lengths` (one entry for each
        sequence) marks the rest of a sequence as padding: it keeps the state, and its output is zero.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, time, hx, lengths)
        if not torch.compiler.is_compiling():
            tracing.refuse_tracers(type(self).__name__, self.backend)
        operands = self._operands()
        weight = operands[1][0].ih
        check.sequences(input, self.input_size, self.batch_first)
        check.same_device("input", input, weight.device)
        low = autocast_dtype(input.device)
        if low is None:
            check.same_dtype("input", input, weight.dtype)
        else:
            check.floating("input", input.dtype)
        if isinstance(time, PackedSequence):
            raise TypeError("time must be a Tensor as input is, got PackedSequence. Pack both or neither.")
        check.times(time, input.shape[:-1], input.device)

        batched = input.dim() == 3
        x, t = input, time
        if not batched:
            x, t = x.unsqueeze(1), t.unsqueeze(1)
        elif self.batch_first:
            x, t = x.transpose(0, 1), t.transpose(0, 1)
        steps, batch, _ = x.shape
        if lengths is not None and not batched:
            raise ValueError("lengths must be None for unbatched input: it has one sequence. Pass input[:length] instead.")
        length = None if lengths is None else check.lengths(lengths, batch, steps, input.device)
        t = self.checked_time(t, length)
        initial = self._initial_state(hx, batch, batched, weight)

        # Half-precision weights are read as such; states and arithmetic are float32 at least.
        working = torch.promote_types(weight.dtype, torch.float32)
        with nullcontext() if low is None else torch.autocast(input.device.type, enabled=False):
            output, final = self._run(operands, x, t, initial, length, low, working)
        if not torch.compiler.is_compiling() and self._openings.active and self.training and torch.is_grad_enabled():
            self._openings.watch(operands[0], t, length, self._directions)
        if weight.dtype != working:
            output, final = output.to(weight.dtype), tuple(s.to(weight.dtype) for s in final)
        if not batched:
            output, final = output.squeeze(1), tuple(s.squeeze(1) for s in final)
        elif self.batch_first:
            output = output.transpose(0, 1)
        return output, final if len(final) > 1 else final[0]

    def checked_time(self, time: Tensor, lengths: Tensor | None) -> Tensor:
        """Times (T, B) as integers or floats that torch computes with, checked where their values can be read at once."""
        if not (time.is_cpu and tracing.readable(time)):  # values on a GPU would have to be waited for
            return check.signed(time)
        valid = None if lengths is None else valid_steps(len(time), lengths)
        time = check.signed(time, valid)
        if self.check_time:
            check.clock(time, valid)
            check.resolution(time, valid, self.shortest_open_time)
        return time

    def _initial_state(self, hx: Any, batch: int, batched: bool, weight: Tensor) -> State | None:
        """The states of all layers and directions, each (layers x directions, B, H); None where none were given."""
        if hx is None:
            return None
        count = self.num_layers * self._directions
        shape = (count, batch, self.hidden_size) if batched else (count, self.hidden_size)
        given = check.state(hx, self.state_names, shape, weight.dtype, weight.device)
        return given if batched else tuple(s.unsqueeze(1) for s in given)

    def _run(
        self,
        operands: tuple[list[TimeGate], list[Weights]],
        x: Tensor,
        t: Tensor,
        initial: State | None,
        lengths: Tensor | None,
        low: torch.dtype | None,
        working: torch.dtype,
    ) -> tuple[Tensor, State]:
        """All layers and directions, one after another. Under autocast the operands of products are rounded, nothing else is."""

        def operand(value: Tensor) -> Tensor:
            rounded = value if low is None else value.to(low)
            return rounded if rounded.dtype == working else rounded.to(working)

        gates, weights = operands
        backend = self._backend(x)
        if tracing.in_forward_mode():
            parameters = [p for w, gate in zip(weights, gates, strict=True) for p in (*w.present(), *gate.parameters())]
            tracing.refuse_tangents(type(self).__name__, backend, [x, t, *(initial or ()), *parameters])
        finals: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = nn.functional.dropout(x, self.dropout, self.training)
            x = operand(x)
            outputs = []
            for direction in range(self._directions):
                index = len(finals)
                w = weights[index]
                if low is not None or w.ih.dtype != working:
                    w = w.map(operand, lambda value: value.to(working))
                state = None if initial is None else tuple(s[index].to(working) for s in initial)
                inputs = (reverse(x, lengths), reverse(t, lengths)) if direction else (x, t)
                output, final = ops.recurrence(self.cell, gates[index], *inputs, state, w, lengths, backend)
                outputs.append(reverse(output, lengths) if direction else output)
                finals.append(final)
            x = outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)
        return x, tuple(
            states[0].unsqueeze(0) if len(states) == 1 else torch.stack(states) for states in zip(*finals, strict=True)
        )

    def _backend(self, x: Tensor) -> str:
        """The layer's backend; for tensors without values the reference, which gives any of them the right shapes."""
        if torch.compiler.is_compiling() or not tracing.is_valueless(x):
            return self.backend
        if self.backend != "auto":
            ops.choose(self.backend, x.device)  # one for another device raises all the same
        return "reference"

    def _forward_packed(self, input: PackedSequence, time: Any, hx: Any, lengths: Any) -> tuple[PackedSequence, Any]:
        """The same for a PackedSequence: unpacked, run with its lengths, packed again in the same order."""
        if lengths is not None:
            raise ValueError("lengths must be None for a PackedSequence, which has its own.")
        check.packed_times(time, input)
        time = time._replace(data=check.signed(time.data))
        padded, length = pad_packed_sequence(input, batch_first=self.batch_first)
        padded_time, _ = pad_packed_sequence(time, batch_first=self.batch_first)
        output, final = self.forward(padded, padded_time, hx, length)
        if input.sorted_indices is not None:
            output = output.index_select(0 if self.batch_first else 1, input.sorted_indices)
            length = length[input.sorted_indices.cpu()]
        data = pack_padded_sequence(output, length, batch_first=self.batch_first).data
        return PackedSequence(data, input.batch_sizes, input.sorted_indices, input.unsorted_indices), final

    @classmethod
    def _from(cls, rnn: nn.LSTM | nn.GRU, settings: dict[str, Any]) -> Self:
        """A layer with the sizes, options and weights of a torch one, and the gate settings given."""
        weight: Any = rnn.weight_ih_l0
        layer = cls(
            rnn.input_size,
            rnn.hidden_size,
            rnn.num_layers,
            rnn.bias,
            rnn.batch_first,
            rnn.dropout,
            rnn.bidirectional,
            device=weight.device,
            dtype=weight.dtype,
            **settings,
        )
        with torch.no_grad():
            for names in layer._names:
                for name in names.weights:  # not by state_dict, which has other names where rnn is parametrised
                    layer._set(name, getattr(rnn, name))
        return layer.train(rnn.training)


class PhasedLSTM(PhasedRNN):
    """`torch.nn.LSTM` whose units carry a time gate: `output, (h_n, c_n) = rnn(input, time, hx=None, lengths=None)`.

    Arguments up to `bidirectional` and all shapes are nn.LSTM's. period, shift and ratio_on take a number, a law of `phased.init`
    or a tensor with one value per unit, or a list of these with one entry per layer; `shift=None` spreads the units over their
    own periods. The leak acts in training only.
    """

    cell = LSTM
    state_names = ("h_0", "c_0")

    @classmethod
    def from_lstm(cls, lstm: nn.LSTM, **settings: Any) -> Self:
        """Take over a trained `torch.nn.LSTM`; `settings` are this layer's keyword arguments."""
        if not isinstance(lstm, nn.LSTM):
            raise TypeError(f"lstm must be a torch.nn.LSTM, got {check.kind(lstm)}.")
        if lstm.proj_size:
            raise ValueError(
                f"lstm must have proj_size=0, got {lstm.proj_size}: a projected output mixes units, so no gate could hold it. "
                f"Put a Linear after the layer instead."
            )
        return cls._from(lstm, settings)


class PhasedGRU(PhasedRNN):
    """`torch.nn.GRU` whose units carry a time gate: `output, h_n = rnn(input, time, hx=None, lengths=None)`; see PhasedLSTM."""

    cell = GRU
    state_names = ("h_0",)

    @classmethod
    def from_gru(cls, gru: nn.GRU, **settings: Any) -> Self:
        """Take over a trained `torch.nn.GRU`; `settings` are this layer's keyword arguments."""
        if not isinstance(gru, nn.GRU):
            raise TypeError(f"gru must be a torch.nn.GRU, got {check.kind(gru)}.")
        return cls._from(gru, settings)


def reverse(sequences: Tensor, lengths: Tensor | None) -> Tensor:
    """Each sequence (T, B, ...) from its own last step to its first; padding stays where it is."""
    if lengths is None:
        return sequences.flip(0)
    steps = sequences.shape[0]
    lengths = lengths.clamp(max=steps)  # those of a GPU or in a compiled graph are not checked
    forwards = torch.arange(steps, device=sequences.device).unsqueeze(-1)
    index = torch.where(forwards < lengths, lengths - 1 - forwards, forwards)
    return sequences.gather(0, index.view(*index.shape, *(1,) * (sequences.dim() - 2)).expand_as(sequences))


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The dtype of the autocast region around the call, or None; None for meta tensors."""
    if device.type == "meta":
        return None
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None
