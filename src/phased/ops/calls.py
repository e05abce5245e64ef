"""Calls that are like earlier ones: comparison of their tensors, and a cache of calls by this comparison."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from torch import Tensor

from phased import tracing

Alike = Callable[..., bool]
"""Whether as many tensors have the types, sizes, strides, dtypes, devices and need of a gradient of earlier ones."""


def alike(tensors: Sequence[Tensor]) -> Alike:
    """Compares other tensors with these. One call of torch's own comparison takes a tenth of the time of Python's."""
    found = by_torch(tensors)
    return found if found is not None and found(*tensors) else by_python(tensors)


def by_torch(tensors: Sequence[Tensor]) -> Alike | None:
    """The comparison by torch, or None in versions of torch without it. It also compares torch's own state (modes, autocast).

    It does not take the same tensor twice.
    """
    sizes, strides = [list(tensor.shape) for tensor in tensors], [list(tensor.stride()) for tensor in tensors]
    with suppress(TypeError, RuntimeError):
        check: Alike = tracing.TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
        return check
    return None


def by_python(tensors: Sequence[Tensor]) -> Alike:
    """The comparison in Python."""
    expected = [described(tensor) for tensor in tensors]
    return lambda *others: [described(other) for other in others] == expected


def described(tensor: Tensor) -> tuple[Any, ...]:
    """The properties of a tensor that are compared."""
    about = tensor.dtype, tensor.device, tensor.is_neg(), tensor.is_conj(), tensor.requires_grad
    return type(tensor), tensor.shape, tensor.stride(), *about


Known = TypeVar("Known")


class Calls(Generic[Known]):
    """Earlier calls by a key and by tensors: `most` keys, and for each of them `alike_each` kinds of tensors.

    The oldest key is forgotten first, and the oldest kind of tensors.
    """

    def __init__(self, most: int, alike_each: int = 1) -> None:
        self._most, self._alike_each = most, alike_each
        self._calls: dict[Hashable, list[tuple[Alike, Known]]] = {}

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._calls)

    def __contains__(self, key: Hashable) -> bool:
        """Whether any call with this key is known."""
        return key in self._calls

    def find(self, key: Hashable, tensors: Sequence[Tensor]) -> Known | None:
        """What is known of a call with this key and tensors like these."""
        for is_alike, known in self._calls.get(key, ()):
            if is_alike(*tensors):
                return known
        return None

    def add(self, key: Hashable, tensors: Sequence[Tensor], known: Known) -> None:
        """Remember a call."""
        if key not in self._calls and len(self._calls) >= self._most:
            del self._calls[next(iter(self._calls))]
        self._calls[key] = [(alike(tensors), known), *self._calls.get(key, [])[: self._alike_each - 1]]

    def clear(self) -> None:
        """Forget all calls."""
        self._calls.clear()
