"""A pass as a list of launches: made once for its sizes, with placeholders for its tensors, and repeated with their addresses.

The arguments of a pass's launches are the same at every call except for addresses. To compute them takes Python longer than it
takes the driver to launch the kernels, which is noticeable in a training step of a millisecond.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from phased import tracing
from phased.ops.contract import without_autocast
from phased.ops.cuda import kernels
from phased.ops.cuda.kernels import Kernels, argument_form, not_launched
from phased.ops.native import core

SPAN = 48  # bits of an offset
MOST = 1 << 12  # placeholders


class Placeholder:
    """Stands for a tensor while launches are listed: its sizes, and an address that is replaced in every call."""

    def __init__(
        self, launch_list: LaunchList, number: int, shape: Sequence[int], dtype: torch.dtype, strides: Sequence[int] | None = None
    ) -> None:
        self.launch_list, self.number = launch_list, number
        self.shape, self.dtype, self.device = torch.Size(shape), dtype, launch_list.device
        self._strides = contiguous_strides(shape) if strides is None else tuple(strides)

    def data_ptr(self) -> int:
        """An address that belongs to this placeholder alone; offsets may be added to it."""
        return (self.number + 1) << SPAN

    def stride(self, dim: int) -> int:
        """As of the tensors that it stands for."""
        return self._strides[dim]

    def element_size(self) -> int:
        """Bytes of a number."""
        return self.dtype.itemsize

    def is_neg(self) -> bool:
        """False: it stands for tensors whose memory holds their values."""
        return False

    def contiguous(self) -> Placeholder:
        """Itself: it stands for tensors that are contiguous already, where they have to be."""
        return self

    def new_empty(self, size: Sequence[int], dtype: torch.dtype | None = None) -> Placeholder:
        """A tensor that is allocated in every call."""
        return self.launch_list.allocate(size, dtype or self.dtype)


class Launch(NamedTuple):
    """A launch. `places`: which arguments are offsets from the address of which placeholder."""

    kernels: Kernels
    name: str
    grid: tuple[int, int, int]
    block: int
    arguments: tuple[float, ...]
    places: tuple[tuple[int, int], ...]
    shared: int

    def filled(self, addresses: Sequence[int]) -> list[float]:
        """The arguments with these addresses."""
        arguments = list(self.arguments)
        for argument, number in self.places:
            arguments[argument] += addresses[number]
        return arguments


class Allocation(NamedTuple):
    """A contiguous tensor that a call allocates."""

    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype

    @staticmethod
    def of(shape: Sequence[int], dtype: torch.dtype) -> Allocation:
        """With the strides of a contiguous tensor."""
        return Allocation(torch.Size(shape), contiguous_strides(shape), dtype)


def allocate(allocations: Sequence[Allocation], device: torch.device) -> list[Tensor]:
    """The tensors, by empty_strided, which takes half as long as `empty`."""
    empty = torch.empty_strided
    return [empty(shape, strides, dtype=dtype, device=device) for shape, strides, dtype in allocations]


class Product(NamedTuple):
    """A matrix product, out = left.T @ right, after so many launches: numbers of tensors that are allocated."""

    after: int
    left: int
    right: int
    out: int


class LaunchList:
    """Allocations, launches and matrix products in the order of a pass. What calls give comes first among the placeholders."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.given = 0
        self.allocations: list[Allocation] = []
        self.launches: list[Launch] = []
        self.products: list[Product] = []
        self._compiled: Any = None

    def tensor(self, shape: Sequence[int], dtype: torch.dtype, strides: Sequence[int] | None = None) -> Tensor:
        """Stands for a tensor that every call gives, contiguous unless it has strides."""
        return cast(Tensor, Placeholder(self, self._give(), shape, dtype, strides))

    def number(self) -> int:
        """Stands for a number that every call gives."""
        return (self._give() + 1) << SPAN

    def _give(self) -> int:
        assert not self.allocations, "what calls give comes before what they allocate"
        self.given += 1
        return self.given - 1

    def allocate(self, size: Sequence[int], dtype: torch.dtype) -> Placeholder:
        """Stands for a contiguous tensor that every call allocates."""
        self.allocations.append(Allocation.of(size, dtype))
        return Placeholder(self, self.given + len(self.allocations) - 1, size, dtype)

    def made(self, tensor: Any) -> int:
        """The number of this tensor among those that a call allocates."""
        assert isinstance(tensor, Placeholder)
        return tensor.number - self.given

    def add(
        self, kernels: Kernels, name: str, grid: int | tuple[int, int, int], block: int, given: Sequence[float], shared: int
    ) -> None:
        """List a launch instead of making it."""
        arguments, places = [], []
        for position, value in enumerate(given):
            number = value >> SPAN if isinstance(value, int) else 0
            if 0 < number <= MOST:
                places.append((position, number - 1))
                value -= number << SPAN
            arguments.append(value)
        size = (grid, 1, 1) if isinstance(grid, int) else grid
        self.launches.append(Launch(kernels, name, size, block, tuple(arguments), tuple(places), shared))

    def multiply(self, left: Tensor, right: Tensor, out: Tensor) -> None:
        """List out = left.T @ right."""
        self.products.append(Product(len(self.launches), self.made(left), self.made(right), self.made(out)))

    def replay(self, given: Sequence[int], early: Sequence[Tensor] = (), first: int = 0) -> list[Tensor]:
        """Allocate, launch everything with these addresses and numbers, and return what was allocated.

        `early`: what has been allocated before, from the tensor with the number `first` on.
        """
        before, after = self.allocations[:first], self.allocations[first + len(early) :]
        made = [*allocate(before, self.device), *early, *allocate(after, self.device)]
        addresses, done = [*given, *[tensor.data_ptr() for tensor in made]], 0
        for product in self.products:
            self._launch(addresses, done, product.after)
            multiply(made[product.left], made[product.right], made[product.out])
            done = product.after
        self._launch(addresses, done, len(self.launches))
        return made

    def _compile(self) -> Any:
        """The launches as the compiled core takes them; False without it."""
        if core is None or not all(isinstance(one.kernels, Kernels) for one in self.launches):
            return False
        compiled = core.Launches()
        for one in self.launches:
            handle = one.kernels.handle(one.name, self.device.index, one.shared > 0)
            packed = struct.pack(argument_form(one.arguments), *one.arguments)
            compiled.add(handle, one.grid, one.block, one.shared, packed, one.places)
        return compiled

    def _launch(self, addresses: Sequence[int], first: int, end: int) -> None:
        """Launches from one number to before another, by one call of the core if there is one."""
        if self._compiled is None:
            self._compiled = self._compile()
        index = self.device.index
        if not self._compiled:
            for one in self.launches[first:end]:
                one.kernels.launch(one.name, index, one.grid, one.block, one.filled(addresses), one.shared)
            return
        stream = tracing.current_raw_stream(index)
        done, status = self._compiled.run(kernels.functions(), stream, addresses, first, end)
        if status == kernels.NO_CONTEXT:
            kernels.attach(index)
            done, status = self._compiled.run(kernels.functions(), stream, addresses, done, end)
        if status:
            raise not_launched(self.launches[done].name, status)


def multiply(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Compute out = left.T @ right."""
    with without_autocast("cuda"):
        torch.mm(left.T, right, out=out)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    return torch.empty(shape, device="meta").stride()


def launch_list_of(tensor: Any) -> LaunchList | None:
    """The launch list of a placeholder; None for tensors."""
    return tensor.launch_list if isinstance(tensor, Placeholder) else None
