"""The parameters of a layer: names, shapes, initial values, conversion, saving and loading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self, get_type_hints

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized
from torch.nn.utils.prune import BasePruningMethod

from phased import check, init, ops, tracing
from phased.cell import Cell, Weights
from phased.gate import LONGEST_PERIOD, SHORTEST_PERIOD, SMALLEST_RATIO, TimeGate

Setting = init.Values | Sequence[init.Values]
"""One value for all layers, or a list with one for each layer."""

GATE = ("period", "shift", "ratio_on")
PEEPHOLES = ("weight_ci", "weight_cf", "weight_co")
SAVED_SETTINGS = ("gate", "batch_first")
"""Settings that a state_dict records: they change the output and show in no parameter's name or shape."""


class Names(NamedTuple):
    """The parameters of one layer and direction; the biases come last among the weights."""

    weights: tuple[str, ...]
    peephole: tuple[str, ...]
    time_gate: tuple[str, ...]


class Operands(NamedTuple):
    """The gates, not yet bounded, and the weights of each layer and direction."""

    gates: list[TimeGate]
    weights: list[Weights]


class Settings:
    """The settings of a layer beside its gates: arguments of the constructor, attributes, and fields of a file."""

    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    leak: float
    peephole: bool
    gate: str


SETTINGS: dict[str, type] = get_type_hints(Settings)


class GatedModule(Settings, nn.Module):
    """The parameters of a PhasedLSTM or PhasedGRU, with torch.nn.LSTM's names and, for time, the gates' own."""

    cell: ClassVar[Cell]
    backend: str
    _gate_starts: dict[str, list[Any]]
    _openings: Any  # `phased.openings.Openings`

    def _watch(self) -> None:
        """Look for units that do not open in the next training batches."""
        raise NotImplementedError

    def _register(self, learned: dict[str, list[bool]], device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """Make the parameters, without values."""
        self._watch()  # here, too: a subclass may have a reset_parameters of its own
        self._names: list[Names] = []
        self._shapes: dict[str, tuple[int, ...]] = {}
        stacked, units = self.cell.gates * self.hidden_size, self.hidden_size
        for layer, suffix in self._suffixes():
            width = self.input_size if layer == 0 else units * self._directions
            weights = {"weight_ih": (stacked, width), "weight_hh": (stacked, units)}
            biases = {"bias_ih": (stacked,), "bias_hh": (stacked,)} if self.bias else {}
            peephole = dict.fromkeys(PEEPHOLES, (units,)) if self.peephole else {}
            groups = weights | biases, peephole, dict.fromkeys(GATE, (units,))
            names = Names(*(tuple(f"{name}{suffix}" for name in group) for group in groups))
            self._names.append(names)
            self._shapes |= {f"{name}{suffix}": shape for group in groups for name, shape in group.items()}
            for name in (*names.weights, *names.peephole):
                self.register_parameter(name, nn.Parameter(torch.empty(self._shapes[name], device=device, dtype=dtype)))
            for name, kind in zip(names.time_gate, GATE, strict=True):
                learn = learned[kind][layer]
                check.flag(f"learn_{name}", learn)
                value = torch.empty(units, device=device, dtype=torch.float64)  # as time is: docs/decisions.md
                self.register_parameter(name, nn.Parameter(value, requires_grad=bool(learn)))

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _suffixes(self) -> list[tuple[int, str]]:
        """Each layer and direction with the end of its parameters' names, in the order of the states."""
        ends = ("", "_reverse")[: self._directions]
        return [(layer, f"_l{layer}{end}") for layer in range(self.num_layers) for end in ends]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights; the gates' parameters are float64 in any layer."""
        return self._current("weight_ih_l0").dtype

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return self._current("weight_ih_l0").device

    def reset_parameters(self) -> None:
        """Draw every parameter anew: the weights as torch.nn.LSTM does, the gates from their laws."""
        bound = self.hidden_size**-0.5
        self._watch()
        with torch.no_grad():
            for (layer, _), names in zip(self._suffixes(), self._names, strict=True):
                for name, value in zip(names.time_gate, self._draw_gate(layer), strict=True):
                    self._set(name, value)
            for names in self._names:
                for name in (*names.weights, *names.peephole):
                    self._set(name, nn.init.uniform_(torch.empty_like(self._current(name)), -bound, bound))

    def _draw_gate(self, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        """Period, shift and ratio_on of a layer's units; by default shifts are uniform over each unit's own period."""
        period_law, shift_law, ratio_law = (self._gate_starts[name][layer] for name in GATE)
        period = init.draw(period_law, self.hidden_size, "period")
        check.periods(period)
        whole_period = shift_law is None
        shift = init.draw(init.Uniform(0.0, 1.0) if whole_period else shift_law, self.hidden_size, "shift")
        ratio_on = init.draw(ratio_law, self.hidden_size, "ratio_on")
        check.ratios(ratio_on)
        return period, shift.to(period.device) * period if whole_period else shift, ratio_on

    def _set(self, name: str, value: Tensor) -> None:
        """Set a parameter; one that is computed from others is set through them."""
        own = self._parameters.get(name)
        if own is None:  # pruned
            own = self._parameters.get(f"{name}_orig")
        if own is not None:
            own.copy_(value)
        elif is_parametrized(self, name):
            setattr(self, name, value.to(self._current(name)))  # by the parametrisation's right_inverse
        else:
            self._value(name).copy_(value)  # a plain tensor, as remove_parametrizations may leave it

    def set_shift(self, index: int, value: Tensor) -> None:
        """Set the shifts of the units of one layer and direction."""
        with torch.no_grad():
            self._set(self._names[index].time_gate[GATE.index("shift")], value)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move and convert like any module, except that parameters of time stay float64."""
        timed = [tensor for name, tensor in (*self.named_parameters(), *self.named_buffers()) if is_of_time(name)]
        gradients = [tensor.grad for tensor in timed if tensor.grad is not None]
        exact = {id(tensor) for tensor in (*timed, *gradients)}

        def convert(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            if id(tensor) not in exact or moved.dtype == tensor.dtype:
                return moved
            return tensor.to(moved.device, torch.float64)

        return super()._apply(convert, recurse)  # type: ignore[no-untyped-call, no-any-return]

    def gates(self) -> list[TimeGate]:
        """The time gates in force, one for each layer and direction: with the leak in training, without in eval."""
        self._renew()
        return [gate.bounded() for gate in self._operands().gates]

    def weights(self) -> list[Weights]:
        """The weights, one set for each layer and direction."""
        self._renew()
        return self._operands().weights

    def shortest_open_time(self) -> float:
        """The shortest open time of all units, period * ratio_on."""
        with torch.no_grad():
            return min(float((gate.period * gate.ratio_on).min()) for gate in self.gates())

    def _operands(self) -> Operands:
        """The gates and the weights of each layer and direction; parameters that do not fit raise.

        load_state_dict(assign=True), functional_call and `.data = ...` replace parameters without a check.
        """
        shapes = self._shapes
        like = self._value("weight_ih_l0")
        dtype, device = like.dtype, like.device
        if not dtype.is_floating_point:
            check.floating("weight_ih_l0", dtype)

        def operand(name: str, of_time: bool = False) -> Tensor:
            value = like if name == "weight_ih_l0" else self._value(name)  # a parametrisation is computed once
            if value.shape != shapes[name] or value.device != device or (value.dtype is not dtype and not of_time):
                check.parameter(name, value, shapes[name], like, of_time=of_time)
            return value.to(torch.float64) if of_time and value.dtype is not torch.float64 else value

        leak = self.leak if self.training else 0.0
        gates, sets = [], []
        for names in self._names:
            peephole = [torch.stack([operand(name) for name in names.peephole])] if names.peephole else []
            sets.append(Weights.from_present([*[operand(name) for name in names.weights], *peephole]))
            period, shift, ratio_on = [operand(name, of_time=True) for name in names.time_gate]
            gates.append(TimeGate(period, shift, ratio_on, leak, self.gate))
        return Operands(gates, sets)

    def _value(self, name: str) -> Tensor:
        """A parameter, or what a parametrisation computes in its place; get_parameter is slow and finds parameters only."""
        found = self._parameters.get(name)
        return getattr(self, name) if found is None else found

    def _current(self, name: str) -> Tensor:
        self._renew()
        return self._value(name)

    def _renew(self) -> None:
        """Recompute pruned parameters: torch does so before a forward pass, and an optimiser may have taken a step since."""
        for hook in self._pruning().values():
            hook(self, None)

    def _pruning(self) -> dict[str, Any]:
        """The hooks that prune a parameter, by its name."""
        hooks = self._forward_pre_hooks.values()
        return {hook._tensor_name: hook for hook in hooks if isinstance(hook, BasePruningMethod)}

    def __getstate__(self) -> dict[str, Any]:
        """Without pruned parameters, which torch computes anew and does not copy; and without the last calls."""
        computed = {*self._pruning(), "_calls"}
        return {name: value for name, value in self.__dict__.items() if name not in computed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "backend": ops.renamed(state["backend"])})  # type: ignore[no-untyped-call]
        self._renew()

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Record the settings in the state_dict's metadata, beside torch's own version number: see docs/decisions.md."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        metadata = getattr(destination, "_metadata", {}).get(prefix[:-1])
        if metadata is not None:
            metadata["settings"] = {name: getattr(self, name) for name in SAVED_SETTINGS}

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *more: Any) -> None:
        """Load nothing if settings differ or a parameter of time is not finite; those assigned become float64."""
        error_msgs: list[str] = more[-1]
        saved = local_metadata.get("settings") or {}  # files of earlier versions and of torch's own layers have none
        own = {name: getattr(self, name) for name in SAVED_SETTINGS}
        differ = [name for name in SAVED_SETTINGS if saved.get(name, own[name]) != own[name]]
        error_msgs += [
            f"{prefix}{name} must be {saved[name]!r}, as in the layer that was saved, got {own[name]!r}. Build the layer with "
            f"{name}={saved[name]!r}, or pass dict(state_dict) to load the parameters without their settings."
            for name in differ
        ]
        if differ:
            return
        try:  # their range is free: training may leave it, and layers then use its bounds
            for name in [prefix + name for name, _ in self.named_parameters() if is_of_time(name)]:
                check.finite(name, torch.as_tensor(state_dict.get(name, 0.0)))
        except ValueError as error:
            error_msgs.append(str(error))
            return
        self._watch()
        if local_metadata.get("assign_to_params_buffers", False):
            for name in self._parameters:
                value = state_dict.get(prefix + name)
                if is_of_time(name) and isinstance(value, Tensor) and value.dtype != torch.float64:
                    state_dict[prefix + name] = value.detach().to(torch.float64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *more)

    def save(self, file: str | PathLike[str]) -> None:
        """Write the layer to a file: its parameters, and every setting that decides what it computes.

        The file is safetensors, with the settings in its metadata: sizes, gate shape, leak, `batch_first`, dropout, which
        parameters are learned, and whether the layer is in training. It is written whole or not at all. The backend and the laws
        that the gates were drawn from are not part of it.

        Args:
            file: Path of the file, by convention with the ending `.safetensors`. A file that exists is replaced. Links are
                followed, and a device or FIFO is opened and written.

        Raises:
            ValueError: The layer has parametrised, pruned or additional parameters, or parameters on the meta device; a gate is
                not finite; or the name is empty.
            OSError: The file cannot be written, or is a folder, a socket or a link to nothing.

        Example:
            >>> import tempfile
            >>> from phased import PhasedLSTM
            >>> rnn = PhasedLSTM(3, 8, gate="square", batch_first=True).eval()
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     rnn.save(f"{folder}/layer.safetensors")
            ...     PhasedLSTM.load(f"{folder}/layer.safetensors").gate
            'square'
        """
        from phased import files, saving  # not with every layer

        files.check_output(files.named(file))  # before any work
        state = self.state_dict()
        for name in sorted(state.keys() ^ self._shapes.keys()):
            raise ValueError(
                f"A layer to save must have the parameters of its class alone; '{name}' is "
                f"{'not one of them' if name in state else 'missing'}. Undo parametrisations and pruning first "
                f"(torch.nn.utils.parametrize.remove_parametrizations, prune.remove), or save the state_dict."
            )
        if any(value.is_meta for value in state.values()):
            raise ValueError("A layer to save must have values, got parameters on the meta device. Load or draw them first.")
        tensors = {name: value.detach().to("cpu", copy=True).contiguous() for name, value in state.items()}
        for name, value in tensors.items():
            if is_of_time(name):  # which `load` refuses
                check.finite(name, value)
        frozen = [name for name, value in self.named_parameters() if not value.requires_grad]
        about = {"class": type(self).__name__, "training": self.training, "frozen": frozen}
        saving.write(file, about | {name: of(getattr(self, name)) for name, of in SETTINGS.items()}, tensors)

    @classmethod
    def load(cls, file: str | PathLike[str], *, device: torch.device | str | None = None, backend: str = "auto") -> Self:
        """Read a layer that `save` wrote: it has the same parameters, settings and mode, so it computes the same.

        `reset_parameters()` draws new weights for the loaded layer; the gates then start from the values in the file.

        Args:
            file: Path of the file.
            device: Device of the layer. Default: torch's default device.
            backend: Backend of the layer, of which a file says nothing.

        Returns:
            A new layer, in training mode or not, as the saved one was.

        Raises:
            ValueError: The file is cut off, damaged or changed; it is no layer, one of another class, or one of another version
                of the format; or there is no such backend.
            OSError: The file cannot be read.
            RuntimeError: The backend cannot run here.

        Example:
            >>> import tempfile, torch
            >>> from phased import PhasedGRU
            >>> rnn = PhasedGRU(3, 8)
            >>> x, time = torch.randn(50, 3), torch.arange(50.0)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     rnn.save(f"{folder}/layer.safetensors")
            ...     again = PhasedGRU.load(f"{folder}/layer.safetensors")
            >>> torch.equal(again(x, time)[0], rnn(x, time)[0])
            True
        """
        from phased import saving

        about, tensors = saving.read(file, cls.__name__)
        # Constant gates, and weights on meta: nothing is drawn, so torch's generator stays where it is.
        settings = {name: about[name] for name in SETTINGS} | dict.fromkeys(GATE, 1.0)
        layer = cls(**settings, backend=backend, device="meta", dtype=tensors["weight_ih_l0"].dtype)
        layer.load_state_dict(tensors, assign=True)
        for name, value in layer.named_parameters():
            value.requires_grad_(name not in about["frozen"])
        gates = layer.gates()[:: layer._directions]
        layer._gate_starts = {kind: [getattr(gate, kind).detach().clone() for gate in gates] for kind in GATE}
        return layer.train(about["training"]).to(torch.get_default_device() if device is None else device)

    def extra_repr(self) -> str:
        """Sizes, options that differ from their defaults, and the range of the gates' parameters."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        defaults: dict[str, Any] = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False}
        defaults |= {"peephole": False, "gate": "triangle", "backend": "auto"}
        parts += [f"{name}={getattr(self, name)!r}" for name, default in defaults.items() if getattr(self, name) != default]
        for kind, names in zip(GATE, zip(*(names.time_gate for names in self._names), strict=True), strict=True):
            with torch.enable_grad():  # a value computed without it has requires_grad=False
                values = [self._current(name) for name in names]
            parts.append(f"{kind}={spread(values)}{' learned' if any(v.requires_grad for v in values) else ''}")
        return ", ".join([*parts, f"leak={self.leak:g}"])


def check_layer(rnn: Any) -> None:
    """A PhasedLSTM or a PhasedGRU."""
    if not isinstance(rnn, GatedModule):
        raise TypeError(f"rnn must be a PhasedLSTM or PhasedGRU, got {check.kind(rnn)}.")


def is_of_time(name: str) -> bool:
    """Whether a parameter or buffer is a period, shift or open ratio, or one that such a value is computed from."""
    return name.removeprefix("parametrizations.").startswith(tuple(f"{kind}_l" for kind in GATE))


def tensors(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Parameters and buffers by name; not a `state_dict`, which may also have settings."""
    return [*model.named_parameters(), *model.named_buffers()]


def clamped_gates(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A network's tensors by name, with periods and open ratios moved into their bounds, as the layers use them.

    Training may move them out.
    """
    found = dict(state)
    for name, value in state.items():
        own, exact = name.rpartition(".")[2], value.detach().double()  # the longest period is beyond float32
        if own.startswith("period_l"):
            found[name] = exact.clamp(SHORTEST_PERIOD, LONGEST_PERIOD).to(value.dtype)
        elif own.startswith("ratio_on_l"):
            found[name] = exact.clamp(SMALLEST_RATIO, 1.0).to(value.dtype)
    return found


def spread(values: Sequence[Tensor]) -> str:
    """A value, or the range of several; "?" for tensors without values."""
    if not all(tracing.readable(v) for v in values):
        return "?"
    low, high = min(v.min().item() for v in values), max(v.max().item() for v in values)
    return f"{low:.3g}" if low == high else f"{low:.3g}..{high:.3g}"
