"""PhasedLSTM and PhasedGRU: the interface of torch.nn.LSTM and torch.nn.GRU, plus time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from math import e
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from phased import check, clock, init, notice, ops, tracing
from phased.cell import GRU, LSTM, State
from phased.gate import SHAPES
from phased.openings import Openings
from phased.ops.contract import Problem, autocast_dtype
from phased.parameters import GATE, SETTINGS, GatedModule, Operands, Setting
from phased.schedule import valid_steps

if TYPE_CHECKING:
    from phased.layer_calls import LayerCalls

Sequences = Tensor | PackedSequence

OF_TORCH = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional")
"""Options of torch.nn.LSTM."""

CHECKS: dict[type, Callable[..., None]] = {
    int: check.positive_int,
    bool: check.flag,
    float: partial(check.number, low=0.0, high=1.0),
    str: lambda name, value: check.choice(name, value, tuple(SHAPES)),
}
"""The check of a setting, by its type."""


class PhasedRNN(GatedModule):
    """What the two layers share: options, checks, stacking, directions, ragged batches."""

    check_time: bool = True
    """Whether times of CPU tensors are checked: finite, never decreasing, not made equal by rounding. Set to False to skip."""

    check_input: bool = True
    """Whether a layer on a CPU warns, once, of input that makes its state NaN. Set to False to skip the check."""

    _calls: LayerCalls | None = None

    def _watch(self) -> None:
        self._openings = Openings()

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
        given = locals()
        super().__init__()
        for name, kind in SETTINGS.items():
            CHECKS[kind](name, given[name])
            setattr(self, name, kind(given[name]))
        check.floating("dtype", dtype)
        if peephole and not self.cell.peepholes:
            raise ValueError(
                f"peephole must be False: a {type(self).__name__} has no cell state to look at. Use PhasedLSTM for peepholes."
            )
        self.backend = backend
        self._gate_starts = {name: check.per_layer(name, given[name], self.num_layers) for name in GATE}
        learned = {name: check.per_layer(f"learn_{name}", given[f"learn_{name}"], self.num_layers) for name in GATE}
        self._register(learned, device, dtype)
        self.reset_parameters()

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of the initial states."""
        return ("h_0", "c_0")[: self.cell.states]

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; a backend that does not exist or cannot run here raises."""
        if name == "backend":
            check.choice(name, value, ("auto", *ops.backends()))
            ops.require(value)
        super().__setattr__(name, value)

    def flatten_parameters(self) -> None:
        """Do nothing. torch.nn.LSTM's method of this name lays weights out for cuDNN, and code written for it may call it."""

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
        """Run the layer over sequences of samples.

        Args:
            input: Features of every step, a tensor or a `PackedSequence` in the layer's dtype.
            time: Time of every step, packed if input is: integers or floats, never decreasing. Each sequence has its own clock.
            hx: Initial state, `(h_0, c_0)` for a PhasedLSTM, `h_0` for a PhasedGRU. Default: zeros.
            lengths: Number of steps of each sequence that are data. The rest is padding: it changes no state, its output is 0.

        Shape:
            With T steps, B sequences, D input features, H units, L layers and N directions (1 or 2):

            - input: (T, B, D); (B, T, D) with `batch_first`; (T, D) without a batch.
            - time: the shape of input without features.
            - h_0, c_0, h_n, c_n: (L * N, B, H); (L * N, H) without a batch.
            - lengths: (B,).
            - output: (T, B, N * H); (B, T, N * H) with `batch_first`; (T, N * H) without a batch.

        Returns:
            `output, (h_n, c_n)` for a PhasedLSTM, `output, h_n` for a PhasedGRU. output is packed if input is.

        Raises:
            TypeError: An argument is not a tensor, or has another dtype than the layer.
            ValueError: Shapes or devices do not fit; or, on a CPU, times are not finite or go backwards.
            RuntimeError: The call is traced by torch.jit, or transformed by torch.func with a backend other than "reference".

        Warns:
            UserWarning: On a CPU, input that is NaN has reached the state. Or, in training, some units have opened in no sequence
                of the first 20 batches.

        Example:
            >>> import torch
            >>> from phased import PhasedLSTM
            >>> rnn = PhasedLSTM(3, 8, num_layers=2, batch_first=True)
            >>> x, time = torch.randn(4, 50, 3), torch.arange(50.0).expand(4, 50)
            >>> output, (h_n, c_n) = rnn(x, time, lengths=[50, 20, 31, 7])
            >>> output.shape, h_n.shape
            (torch.Size([4, 50, 8]), torch.Size([2, 4, 8]))
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, time, hx, lengths)
        if not torch.compiler.is_compiling():
            tracing.refuse_tracers(type(self).__name__, self.backend)
            if hx is None and lengths is None and self._calls is not None:
                found = self._calls.replay(self, input, time)
                if found is not None:
                    return found
        operands = self._operands()
        weight = operands.weights[0].ih
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
        given, t = t, self.checked_time(t, length)
        initial = self._initial_state(hx, batch, batched, weight)

        output, final = self._run(operands, x, t, initial, length, low)
        is_replayable = hx is None and lengths is None and batched and t is given
        if is_replayable and (x.is_cuda or self.backend == "cuda") and not torch.compiler.is_compiling():
            from phased.layer_calls import LayerCalls  # for GPUs alone

            self._calls = self._calls or LayerCalls()
            self._calls.add(self, operands, x, t, low)
        if self.check_input:
            self._check_final(final[0], x, length)
        # A call that continues from a state has a part of longer sequences: units may open in another part.
        if not torch.compiler.is_compiling() and self._openings.active and self.training and output.requires_grad and hx is None:
            self._openings.watch(operands.gates, t, length, self._directions)
        if weight.dtype != output.dtype:
            output, final = output.to(weight.dtype), tuple(s.to(weight.dtype) for s in final)
        if not batched:
            output, final = output.squeeze(1), tuple(s.squeeze(1) for s in final)
        elif self.batch_first:
            output = output.transpose(0, 1)
        return output, final if len(final) > 1 else final[0]

    def checked_time(self, time: Tensor, lengths: Tensor | None) -> Tensor:
        """Times (T, B) as integers or floats that torch computes with, checked where their values can be read at once."""
        # Reading values on a GPU would synchronise.
        if self.check_time and time.is_cpu and tracing.readable(time) and not ops.is_clock(time, lengths):
            clock.flat(time, lengths).check(self.shortest_open_time, clock.LAYER)
        return clock.signed(time)

    def _check_final(self, h: Tensor, x: Tensor, lengths: Tensor | None) -> None:
        """Warn, once for each layer, if input (T, B, D) has made the final state NaN; not where reading it would synchronise.

        A unit that is NaN stays so until the end. So the final state is read, and the much larger input only if it is NaN.
        """
        if not (h.is_cpu and tracing.readable(h)) or math.isfinite(float(h.detach().sum())):
            return
        where = check.not_finite(x.detach(), None if lengths is None else valid_steps(len(x), lengths))
        if where is not None:  # otherwise parameters or the initial state are to blame
            self.check_input = False
            notice.warn(
                f"input must be finite, got {where}: units that open from there on become NaN, and stay NaN. Leave such steps "
                f"out, or fill the gaps and add a feature that marks them. This layer does not warn again."
            )

    def _initial_state(self, hx: Any, batch: int, batched: bool, weight: Tensor) -> State | None:
        """The states of all layers and directions, each (layers x directions, B, H); None if hx is."""
        if hx is None:
            return None
        count = self.num_layers * self._directions
        shape = (count, batch, self.hidden_size) if batched else (count, self.hidden_size)
        given = check.state(hx, self.state_names, shape, weight.dtype, weight.device)
        return given if batched else tuple(s.unsqueeze(1) for s in given)

    def _run(
        self, operands: Operands, x: Tensor, t: Tensor, initial: State | None, lengths: Tensor | None, low: torch.dtype | None
    ) -> tuple[Tensor, State]:
        """All layers and directions, one after another. Under autocast they compute as outside of it."""
        gates, weights = operands
        backend = self._backend(x)
        # Half-precision weights are read as such; states and arithmetic are float32 at least.
        working = torch.promote_types(weights[0].ih.dtype, torch.float32)
        if tracing.in_forward_mode():
            parameters = [p for w, gate in zip(weights, gates, strict=True) for p in (*w.present(), *gate.parameters())]
            tracing.refuse_tangents(type(self).__name__, backend, [x, t, *(initial or ()), *parameters])
        finals: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = nn.functional.dropout(x, self.dropout, self.training)
            if x.dtype != working:
                x = x.to(working)
            outputs = []
            for direction in range(self._directions):
                index = len(finals)
                w = weights[index]
                if w.ih.dtype != working:
                    w = w.map(lambda value: value.to(working))
                state = () if initial is None else tuple(s[index].to(working) for s in initial)
                inputs = (reverse(x, lengths), reverse(t, lengths)) if direction else (x, t)
                problem = Problem(self.cell, gates[index], *inputs, state, w, lengths, low)
                output, final = ops.recurrence(problem, backend)
                outputs.append(reverse(output, lengths) if direction else output)
                finals.append(final)
            x = outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)
        return x, tuple(
            states[0].unsqueeze(0) if len(states) == 1 else torch.stack(states) for states in zip(*finals, strict=True)
        )

    def _backend(self, x: Tensor) -> str:
        """The layer's backend; for tensors without values the reference, which computes shapes on every device."""
        if torch.compiler.is_compiling() or not tracing.is_valueless(x):
            return self.backend
        if self.backend != "auto":
            ops.choose(self.backend, x.device)  # a backend for another device raises here, too
        return "reference"

    def _forward_packed(self, input: PackedSequence, time: Any, hx: Any, lengths: Any) -> tuple[PackedSequence, Any]:
        """Unpack a PackedSequence, run it with its lengths, and pack the output in the same order."""
        if lengths is not None:
            raise ValueError("lengths must be None for a PackedSequence, which has its own.")
        check.packed_times(time, input)
        time = time._replace(data=clock.signed(time.data))
        padded, length = pad_packed_sequence(input, batch_first=self.batch_first)
        padded_time, _ = pad_packed_sequence(time, batch_first=self.batch_first)
        output, final = self.forward(padded, padded_time, hx, length)
        if input.sorted_indices is not None:
            output = output.index_select(0 if self.batch_first else 1, input.sorted_indices)
            length = length[input.sorted_indices.cpu()]
        data = pack_padded_sequence(output, length, batch_first=self.batch_first).data
        return PackedSequence(data, input.batch_sizes, input.sorted_indices, input.unsorted_indices), final

    @classmethod
    def _from(cls, name: str, rnn: Any, kind: type[nn.LSTM | nn.GRU], settings: dict[str, Any]) -> Self:
        """A layer with the sizes, options and weights of a torch one, and the gate settings given."""
        if not isinstance(rnn, kind):
            raise TypeError(f"{name} must be a torch.nn.{kind.__name__}, got {check.kind(rnn)}.")
        if rnn.proj_size:
            raise ValueError(
                f"{name} must have proj_size=0, got {rnn.proj_size}: a projected output mixes units, so no gate could hold it. "
                f"Put a Linear after the layer instead."
            )
        weight: Any = rnn.weight_ih_l0
        options = {name: getattr(rnn, name) for name in OF_TORCH}
        layer = cls(**options, device=weight.device, dtype=weight.dtype, **settings)
        with torch.no_grad():
            for names in layer._names:
                for name in names.weights:  # not by state_dict, which has other names where rnn is parametrised
                    layer._set(name, getattr(rnn, name))
        return layer.train(rnn.training)


class PhasedLSTM(PhasedRNN):
    """`torch.nn.LSTM` whose units carry a time gate: `output, (h_n, c_n) = rnn(input, time, hx=None, lengths=None)`.

    A unit opens once in every period, for the part `ratio_on` of it. A sample that comes while the unit is open updates it;
    between two open phases its state does not change (Eqs. 6 to 10 of the paper).

    `period`, `shift` and `ratio_on` take a number, a law (`LogUniform`, `Uniform`, `Constant`) or a tensor with one value per
    unit; a list gives every layer its own. The `learn_*` flags take a bool or a list of them. Periods and shifts have the unit
    of `time`.

    Args:
        input_size: Features of a sample.
        hidden_size: Units of a layer.
        num_layers: Layers, each with the output of the one below as its input.
        bias: Whether the layers have biases.
        batch_first: Whether input, time and output have the batch as their first dimension.
        dropout: Probability with which outputs of all layers except the last are set to 0 in training.
        bidirectional: Whether a second set of units runs through the sequences backwards.
        period: Length of a unit's cycle.
        shift: Time at which a unit opens. Default: anywhere in the unit's own period, uniformly.
        ratio_on: Part of the period for which a unit is open, in (0, 1].
        leak: Slope of the openness while a gate is closed, in training only. Above 0 every unit computes at every step.
        learn_period: Whether periods are learned.
        learn_shift: Whether shifts are learned.
        learn_ratio_on: Whether open ratios are learned.
        peephole: Whether the input, forget and output gates see the cell state.
        gate: Shape of the open phase: "triangle" rises and falls, "square" is fully open.
        backend: "auto", "cpu", "cuda", "eager" or "reference"; `phased info` lists those that can run.
        device: Device of the parameters.
        dtype: Dtype of the weights. Parameters of time are always float64.

    Shape:
        Those of `torch.nn.LSTM`, and `time` with input's shape without features: see `forward`.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option is out of its range.
        RuntimeError: The backend cannot run here.

    Example:
        >>> import torch
        >>> from phased import LogUniform, PhasedLSTM
        >>> rnn = PhasedLSTM(3, 8, batch_first=True, period=LogUniform(10, 1000))
        >>> x = torch.randn(4, 200, 3)
        >>> time = torch.rand(4, 200, dtype=torch.float64).cumsum(1)
        >>> output, (h_n, c_n) = rnn(x, time)
        >>> output.shape, h_n.shape, c_n.shape
        (torch.Size([4, 200, 8]), torch.Size([1, 4, 8]), torch.Size([1, 4, 8]))
    """

    cell = LSTM

    @classmethod
    def from_lstm(cls, lstm: nn.LSTM, **settings: Any) -> Self:
        """Make a layer with the sizes, options and weights of a trained `torch.nn.LSTM`.

        Args:
            lstm: The layer whose weights are copied.
            settings: Keyword arguments of this layer: `period`, `shift`, `ratio_on`, `leak` and so on.

        Returns:
            A new layer on the device and in the dtype of lstm. With every gate open it computes what lstm does.

        Raises:
            TypeError: lstm is no `torch.nn.LSTM`.
            ValueError: lstm has a projection (`proj_size`).

        Example:
            >>> import torch
            >>> from phased import PhasedLSTM
            >>> lstm = torch.nn.LSTM(3, 8)
            >>> rnn = PhasedLSTM.from_lstm(lstm, ratio_on=1.0, gate="square")
            >>> x, time = torch.randn(20, 4, 3), torch.arange(20).unsqueeze(1).expand(20, 4)
            >>> torch.allclose(rnn(x, time)[0], lstm(x)[0], atol=1e-6)
            True
        """
        return cls._from("lstm", lstm, nn.LSTM, settings)


class PhasedGRU(PhasedRNN):
    """`torch.nn.GRU` whose units carry a time gate: `output, h_n = rnn(input, time, hx=None, lengths=None)`.

    Args:
        input_size: Features of a sample.
        hidden_size: Units of a layer.
        num_layers: Layers; this and all other options are those of `PhasedLSTM`. A GRU has no peepholes.

    Shape:
        Those of `torch.nn.GRU`, and `time` with input's shape without features: see `forward`.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option is out of its range, or `peephole` is True.
        RuntimeError: The backend cannot run here.

    Example:
        >>> import torch
        >>> from phased import LogUniform, PhasedGRU
        >>> rnn = PhasedGRU(3, 8, period=LogUniform(10, 1000))
        >>> output, h_n = rnn(torch.randn(200, 4, 3), torch.arange(200.0).unsqueeze(1).expand(200, 4))
        >>> output.shape, h_n.shape
        (torch.Size([200, 4, 8]), torch.Size([1, 4, 8]))
    """

    cell = GRU

    @classmethod
    def from_gru(cls, gru: nn.GRU, **settings: Any) -> Self:
        """Make a layer with the sizes, options and weights of a trained `torch.nn.GRU`.

        Args:
            gru: The layer whose weights are copied.
            settings: Keyword arguments of this layer: `period`, `shift`, `ratio_on`, `leak` and so on.

        Returns:
            A new layer on the device and in the dtype of gru. With every gate open it computes what gru does.

        Raises:
            TypeError: gru is no `torch.nn.GRU`.

        Example:
            >>> import torch
            >>> from phased import PhasedGRU
            >>> gru = torch.nn.GRU(3, 8)
            >>> rnn = PhasedGRU.from_gru(gru, period=100.0, ratio_on=0.2)
            >>> torch.equal(rnn.weight_hh_l0, gru.weight_hh_l0)
            True
        """
        return cls._from("gru", gru, nn.GRU, settings)


def reverse(sequences: Tensor, lengths: Tensor | None) -> Tensor:
    """Each sequence (T, B, ...) from its own last step to its first; padding stays where it is."""
    if lengths is None:
        return sequences.flip(0)
    steps = sequences.shape[0]
    lengths = lengths.clamp(max=steps)  # on a GPU and in a compiled graph they are not checked
    forwards = torch.arange(steps, device=sequences.device).unsqueeze(-1)
    index = torch.where(forwards < lengths, lengths - 1 - forwards, forwards)
    return sequences.gather(0, index.view(*index.shape, *(1,) * (sequences.dim() - 2)).expand_as(sequences))
