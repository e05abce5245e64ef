"""Layers with many units, step by step: launches for the open units of a step, or matrix products and a kernel for all cells.

Where all units have events, a step's product has few rows, one for each sequence. So it is computed in parts, each a sum over
some of the columns, which keeps more of the GPU busy; the kernel adds them up. From the second run of a size on, CHUNK steps are
one recorded CUDA graph, so that Python does not launch every step.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from phased.ops.contract import without_autocast
from phased.ops.cuda import kernels
from phased.ops.cuda.constants import LANES, PLACE, PRODUCTS
from phased.ops.cuda.layout import StepPlan
from phased.ops.native import address

if TYPE_CHECKING:
    from phased.ops.cuda.launch import CudaCall

THREADS = 256
CHUNK = 32  # steps of a graph
KEPT = 8  # graphs of the last sizes
# Parts of a step's product. Forwards: 8 for up to 64 sequences, 4 for up to 256, 2 for more; backwards: 8. Fastest on an H200.
FORWARD_PARTS, FORWARD_PARTS_OF_MANY, BACKWARD_PARTS = {64: 8, 256: 4}, 2, 8
COLUMNS = 8  # of a part are a multiple of this, so that its rows are aligned
WHOLE_FROM = 2048  # units, from which a product is not computed in parts: at 4,096 it keeps an H200 busy by itself
OPEN_WARPS = 4  # of a block that computes a step of an open unit, forwards
MOST_ROWS = 65535  # of a grid's second dimension


class Place(NamedTuple):
    """The kernels' struct of this name: where the events of a run are, and the step that offsets count from."""

    first: int
    steps: int
    lengths: int
    arrivals: int = 0
    output: int = 0
    tape: int = 0
    to_output: int = 0
    output_step: int = 0
    output_batch: int = 0
    to_products: int = 0
    to_others: int = 0


class Memory(NamedTuple):
    """What the steps of a run work on.

    Args:
        place: (PLACE,) int64.
        weights: on h, (units * PRODUCTS, units).
        peephole: (3, units), or None.
        h, c: the state, or the gradient to it, (batch, units); the GRU has no c.
        products: of all units, in parts, (parts, batch, units * PRODUCTS); backwards the gradients to them, one part.
        through: backwards, what the gradients to the products add to the gradient to h, in parts, (parts, batch, units).
    """

    place: Tensor
    weights: Tensor
    peephole: Tensor | None
    h: Tensor
    c: Tensor | None
    products: Tensor
    through: Tensor | None = None


def parts_of(batch: int, units: int, forward: bool) -> int:
    """Parts of a step's product, which sums over the h of all units or, backwards, over the gradients to all their products."""
    columns = units if forward else PRODUCTS * units
    wanted = BACKWARD_PARTS
    if forward:
        wanted = next((parts for most, parts in FORWARD_PARTS.items() if batch <= most), FORWARD_PARTS_OF_MANY)
    if units >= WHOLE_FROM:
        return 1
    return next((parts for parts in (8, 4, 2) if parts <= wanted and columns % (COLUMNS * parts) == 0), 1)


class DenseSteps:
    """All steps of a call where all units have events, one after another."""

    def __init__(self, call: CudaCall) -> None:
        self.call = call
        self.kernels = kernels.recurrence(call.device, "stepwise.cu", call.build._replace(threads=THREADS))
        self.grid = -(-call.batch * call.units // THREADS)

    def forward(self, place: Place, state: Sequence[Tensor]) -> None:
        """From the initial state in `state`, which holds the final one afterwards."""
        self._run(place, state, self._step_forward, 1)

    def backward(self, place: Place, to_state: Sequence[Tensor]) -> None:
        """From the gradients to the final state in `to_state`, which holds those to the initial one afterwards."""
        self._run(place, to_state, self._step_backward, -1)

    def _step_forward(self, offset: int, at: Memory) -> None:
        parts, batch, _ = at.products.shape
        h, weights = at.h.view(batch, parts, -1), at.weights.view(len(at.weights), parts, -1)
        torch.bmm(h.transpose(0, 1), weights.permute(1, 2, 0), out=at.products)
        self._launch("step_forward", at, offset, parts, at.products, at.peephole, at.h, at.c)

    def _step_backward(self, offset: int, at: Memory) -> None:
        self._cells_backward(offset, at)
        assert at.through is not None
        parts, batch, units = at.through.shape
        shares, weights = at.products.view(batch, parts, -1), at.weights.view(parts, -1, units)
        torch.bmm(shares.transpose(0, 1), weights, out=at.through)

    def _cells_backward(self, offset: int, at: Memory) -> None:
        """A step without its product. Before the first step it only adds to h's gradient what the last one has given."""
        assert at.through is not None
        self._launch("step_backward", at, offset, len(at.through), at.through, at.peephole, at.h, at.c, at.products)

    def _run(self, place: Place, state: Sequence[Tensor], step: Callable[[int, Memory], None], direction: int) -> None:
        call = self.call
        if not (self.grid and call.steps):
            return
        h, c = state[0], state[1] if len(state) > 1 else None
        forward = direction > 0
        parts = parts_of(call.batch, call.units, forward)
        own = Memory(
            call.empty(PLACE, dtype=torch.int64),
            call.recurrent_weights().contiguous(),  # as in a graph: the layout may decide how they are multiplied
            call.peepholes,
            h,
            c,
            call.empty(parts if forward else 1, call.batch, PRODUCTS * call.units),
            None if forward else call.empty(parts, call.batch, call.units).zero_(),
        )
        with without_autocast("cuda"):
            precision = torch.backends.cuda.matmul.fp32_precision  # the recorded products keep that of their recording
            size = (call.device, call.build, call.batch, call.units, precision)
            recorded = GRAPHS.of((step.__name__, *size), own, step)
            if recorded is None:
                self._begin(own, place)
                for offset in range(call.steps):
                    step(offset, own)
                if not forward:
                    self._cells_backward(call.steps, own)
                return
            with recorded.lock:
                recorded.fill(own)
                for first in range(0, call.steps, CHUNK):  # steps beyond the last compute no cells
                    self._begin(recorded.memory, place._replace(first=place.first + direction * first))
                    recorded.graph.replay()
                if not forward:
                    self._cells_backward(CHUNK, recorded.memory)
                recorded.give_back(own)

    def _begin(self, at: Memory, place: Place) -> None:
        self.kernels.launch("place_steps", self.call.device, 1, 1, (address(at.place), *place))

    def _launch(self, name: str, at: Memory, offset: int, parts: int, *tensors: Tensor | None) -> None:
        call = self.call
        given = (address(at.place), offset, call.batch, call.units, parts, *map(address, tensors))
        self.kernels.launch(name, call.device, self.grid, THREADS, given)


class Recorded:
    """A graph of CHUNK steps, and the memory that it works on."""

    def __init__(self, like: Memory, step: Callable[[int, Memory], None]) -> None:
        with torch.inference_mode(False):  # a tensor made in inference mode could not be written to in a later training
            self.memory = Memory(*(None if tensor is None else torch.zeros_like(tensor) for tensor in like))  # type: ignore[arg-type]
        self.lock = threading.Lock()

        def work() -> None:
            for offset in range(CHUNK):
                step(offset, self.memory)

        self.graph = record(work)

    def fill(self, own: Memory) -> None:
        """Take over weights and state of a run."""
        copy(self.memory[1:5], own[1:5])
        if self.memory.through is not None:
            self.memory.through.zero_()  # no step has given anything yet

    def give_back(self, own: Memory) -> None:
        """Return the state."""
        copy(own[3:5], self.memory[3:5])


def copy(to: Sequence[Tensor | None], given: Sequence[Tensor | None]) -> None:
    """Copy the tensors that there are."""
    for own, value in zip(to, given, strict=True):
        if own is not None and value is not None:
            own.copy_(value)


def record(work: Callable[[], None]) -> Any:
    """The launches of `work` as a graph; nothing runs yet."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        work()
    return graph


class Graphs:
    """The graphs of the last sizes, by stream: two streams must not share memory."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[Any, ...], Recorded | None] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, size: tuple[Any, ...], like: Memory, step: Callable[[int, Memory], None]) -> Recorded | None:
        """The graph of a size; None in its first run, which also loads everything that must not be loaded while recording."""
        if torch.cuda.is_current_stream_capturing():  # the user records a graph, which takes in the single steps
            return None
        key = (*size, torch.cuda.current_stream(like.h.device).cuda_stream)
        with self._lock:
            if key not in self._found:
                self._found[key] = None
                while len(self._found) > KEPT:
                    self._found.popitem(last=False)
                return None
            self._found.move_to_end(key)
            if self._found[key] is None:
                self._found[key] = Recorded(like, step)
            return self._found[key]


GRAPHS = Graphs()


class OpenSteps:
    """All steps of a call over open events, one after another: a launch for each step forwards, two backwards."""

    def __init__(self, call: CudaCall, plan: StepPlan) -> None:
        self.call, self.plan = call, plan
        self.sizes = (call.batch, call.steps, call.units, call.pitch, address(call.lengths))

    def forward(self, given: Sequence[float]) -> None:
        """All steps; `given` is the kernels' struct Forward after its sizes, up to `ring`."""
        compiled, block = self._compiled("open_step_forward.cu", OPEN_WARPS), OPEN_WARPS * LANES
        for step in range(self.call.steps):
            arguments = (*self.sizes, *given, 0, self.call.units, step)
            compiled.launch("open_step_forward", self.call.device, self.call.units, block, arguments)

    def backward(self, given: Sequence[float], whole: bool) -> None:
        """All steps in reverse; `given` is struct Backward likewise, whose gradients to the state are those to the final one.

        With `whole` they are those to the initial state afterwards; else they are not used any more.
        """
        call, plan = self.call, self.plan
        compiled, block = self._compiled("open_step_backward.cu", plan.warps), plan.warps * LANES
        arguments = (*self.sizes, *given, 0, call.units)
        shares = call.empty(call.batch, call.units, PRODUCTS)
        given_by_step = call.empty(plan.grid[1], call.batch, call.units)
        cells = (-(-call.units // block), min(call.batch, MOST_ROWS), 1)
        before = 0  # what the step that was computed before gives; none for the first
        for step in range(call.steps - 1, -2 if whole else -1, -1):
            of_cells = (*arguments, step, before, plan.grid[1], address(shares))
            compiled.launch("open_step_cells", call.device, cells, block, of_cells)
            before = address(given_by_step)
            if step > 0 or (whole and step == 0):
                of_sums = (*arguments, step, address(shares), before)
                compiled.launch("open_step_sums", call.device, plan.grid, block, of_sums, plan.shared)

    def _compiled(self, source: str, warps: int) -> kernels.Kernels:
        call = self.call
        return kernels.recurrence(call.device, source, call.build._replace(warps=warps, helpers=0, threads=warps * LANES))
