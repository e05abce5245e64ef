"""JSON values as dataclasses and back. The types of the fields, and rules beside them, say which values are allowed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import Tensor

FLAT = "flat"
"""Beside the type of a field that is a record itself: its fields stand among those of the record that it is in."""


class Malformed(ValueError):
    """A configuration is not one; the message says why."""


class Between(NamedTuple):
    """The rule that a number, or every number of a tuple, is from `low` to `high`."""

    low: float
    high: float

    def check(self, name: str, value: Any) -> None:
        """Raise `Malformed` if a number is outside."""
        for number in value if isinstance(value, tuple) else (value,):
            if not self.low <= number <= self.high:
                raise Malformed(f"its '{name}' must be from {self.low:.15g} to {self.high:.15g}, got {number}")


class OneOf(NamedTuple):
    """The rule that a value is one of these."""

    values: tuple[Any, ...]

    def check(self, name: str, value: Any) -> None:
        """Raise `Malformed` for another value."""
        if value not in self.values:
            raise Malformed(f"its '{name}' must be {' or '.join(map(repr, self.values))}, got {value!r}")


def decode(kind: Any, value: Any, name: str = "") -> Any:
    """Return a JSON value as an object of a type.

    Args:
        kind: A dataclass, NamedTuple, tuple, list, dict, Literal, array of float64, Tensor of float32, int, float, str, bool or
            Any, or one of them or None. `Annotated` adds rules, such as `Annotated[int, Between(1, 9)]`.
        value: The JSON value.
        name: Name of the value, for the messages.

    Returns:
        The object. A field that has a default may be missing; unknown fields are ignored.

    Raises:
        Malformed: The value is not of the type, or a rule refuses it.
    """
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is Annotated:
        found = decode(args[0], value, name)
        for rule in args[1:]:
            if rule is not FLAT:
                rule.check(name, found)
        return found
    if origin in (Union, UnionType):
        return None if value is None else decode(next(one for one in args if one is not NoneType), value, name)
    if origin is Literal:
        OneOf(args).check(name, value)
        return value
    if origin is tuple or origin is list:
        values = expected(list, value, name)
        kinds = args if origin is tuple and args[-1] is not ... else args[:1] * len(values)
        if len(values) != len(kinds):
            raise Malformed(f"its '{name}' must have {len(kinds)} entries, got {len(values)}")
        return origin(decode(each, one, name) for each, one in zip(kinds, values, strict=True))
    if origin is dict or origin is Mapping:
        return {str(key): decode(args[1], one, name) for key, one in expected(dict, value, name).items()}
    if origin is np.ndarray:
        return np.array(decode(tuple[float, ...], value, name))
    if kind is Tensor:
        return torch.tensor(decode(tuple[float, ...], value, name))
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        return decoded_record(kind, value, name)
    if kind is float:
        number = value if isinstance(value, int) else expected(float, value, name)
        if isinstance(value, bool) or not abs(number) <= sys.float_info.max:
            raise Malformed(f"its '{name}' must be a finite number, got {value!r}")
        return float(number)
    return expected(kind, value, name)


def decoded_record(kind: Any, value: Any, name: str) -> Any:
    """Return a JSON object, or for a NamedTuple also a list, as a dataclass or NamedTuple."""
    hints = hints_of(kind)
    if isinstance(value, list) and hasattr(kind, "_fields"):
        value = dict(zip(hints, value, strict=False))
    found, parameters = expected(dict, value, name), signature(kind).parameters
    made = {}
    for field, hint in hints.items():
        if is_flat(hint):
            made[field] = decode(hint, found, field)
        elif field in found:
            made[field] = decode(hint, found[field], field)
        elif parameters[field].default is Parameter.empty:
            raise Malformed(f"it must have a '{field}', and has none")
    return kind(**made)


def encode(value: Any) -> Any:
    """Return the JSON value that `decode` takes: a dataclass is an object, a NamedTuple a list of its values."""
    if is_dataclass(value) and not isinstance(value, type):
        return object_of(value)
    if isinstance(value, Mapping):
        return {name: encode(one) for name, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(one) for one in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic, Tensor)) else value


def object_of(record: Any) -> dict[str, Any]:
    """Return the JSON object of a dataclass or NamedTuple, with the fields of its flat fields among its own."""
    found: dict[str, Any] = {}
    for name, hint in hints_of(type(record)).items():
        value = getattr(record, name)
        found |= object_of(value) if is_flat(hint) else {name: encode(value)}
    return found


def expected(kind: Any, value: Any, name: str) -> Any:
    """Return a value of this type; a bool is no int."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Malformed(f"its '{name}' must be of type {kind.__name__}, got {type(value).__name__}")
    return value


def hints_of(kind: Any) -> dict[str, Any]:
    """Return the types of the fields of a record, in order."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in signature(kind).parameters}


def is_flat(hint: Any) -> bool:
    """Return whether a field's fields stand among those of its record."""
    return get_origin(hint) is Annotated and FLAT in get_args(hint)[1:]
