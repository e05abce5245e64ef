"""Reading fields of untrusted JSON: a field of the wrong type or range raises an error with its name."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from phased.experiments import reader
from phased.files import printable

T = TypeVar("T")
NAN = float("nan")

LARGEST = 3.5e38  # magnitude of a number: the largest float32, so that sums and squares stay finite in float64
LONGEST_TEXT = 10_000  # characters
DEEPEST = 20  # levels of nested objects and lists
LARGEST_OBJECT = 100_000  # characters of JSON
MOST_OBJECTS = 1000  # of one field


class Malformed(ValueError):
    """The input is not of the expected form; the message says why."""


def load(text: bytes | str) -> dict[str, Any]:
    """A JSON object; NaN and Infinity are accepted, as Python writes them."""
    if len(text) > reader.LONGEST_LINE:
        raise Malformed(f"it is longer than {reader.LONGEST_LINE >> 20} MiB")
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Malformed("it is cut off or not JSON") from error
    except RecursionError as error:
        raise Malformed("it is nested too deeply to be read") from error
    except ValueError as error:  # Python limits the digits of an integer that it parses
        raise Malformed("it holds an integer too long to be read") from error
    if not isinstance(found, dict):
        raise Malformed(f"it holds {type(found).__name__}, expected an object")
    return found


def get(found: Mapping[str, Any], key: str, kind: type[T]) -> T:
    """A field of this type."""
    if key not in found:
        raise Malformed(f"it has no '{key}'")
    value = found[key]
    # In Python a bool is an int; here it is not a number.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Malformed(f"'{key}' must be of type {kind.__name__}, got {type(value).__name__}")
    return value


def text(found: Mapping[str, Any], key: str) -> str:
    """A string; characters that cannot be printed are escaped."""
    return _text(get(found, key, str), key)


def _text(value: str, key: str) -> str:
    if len(value) > LONGEST_TEXT:
        raise Malformed(f"'{key}' must have at most {LONGEST_TEXT} characters, got {len(value)}")
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Malformed(f"'{key}' must be Unicode text, got half of a surrogate pair")
    return printable(value)


def integer(found: Mapping[str, Any], key: str, low: int, high: int) -> int:
    """An integer from low to high."""
    value = get(found, key, int)
    if not low <= value <= high:
        raise Malformed(f"'{key}' must be from {low:.3g} to {high:.3g}, got {_short(value)}")
    return value


def number(found: Mapping[str, Any], key: str) -> float:
    """A number of magnitude at most LARGEST. null, which stands for a number that was not finite, NaN and Infinity give nan."""
    if key not in found:
        raise Malformed(f"it has no '{key}'")
    value = found[key]
    if value is None:
        return NAN
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Malformed(f"'{key}' must be a number, got {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        return NAN
    if abs(value) > LARGEST:
        raise Malformed(f"'{key}' must be at most {LARGEST:g} in size, got {_short(value)}")
    return float(value)


def share(found: Mapping[str, Any], key: str) -> float | None:
    """A number from 0 to 1; None if the field is missing or null."""
    if found.get(key) is None:
        return None
    value = number(found, key)
    if value < 0 or value > 1:
        raise Malformed(f"'{key}' must be from 0 to 1, got {value:g}")
    return value


def positive(found: Mapping[str, Any], key: str) -> float:
    """A number above zero."""
    value = number(found, key)
    if not value > 0:
        raise Malformed(f"'{key}' must be a number above 0, got {value:g}")
    return value


def numbers(value: Any, key: str) -> tuple[float, ...]:
    """A list of numbers; nan for those that are null, not finite or larger than LARGEST."""
    if not isinstance(value, list):
        raise Malformed(f"'{key}' must hold lists of numbers, got {type(value).__name__}")
    for each in value:
        if isinstance(each, bool) or not isinstance(each, int | float | None):
            raise Malformed(f"'{key}' must hold lists of numbers, got a list with {type(each).__name__}")
    return tuple(NAN if each is None or not abs(each) <= LARGEST else float(each) for each in value)


def objects(found: Mapping[str, Any], key: str) -> dict[str, dict[str, Any]]:
    """An object of objects by name, at most MOST_OBJECTS; empty if the field is missing."""
    inner = get(found, key, dict) if key in found else {}
    if len(inner) > MOST_OBJECTS:
        raise Malformed(f"'{key}' must hold at most {MOST_OBJECTS} objects, got {len(inner)}")
    return {_text(name, key): get(inner, name, dict) for name in inner}


def nested(found: Mapping[str, Any], key: str) -> dict[str, Any]:
    """An object with any fields, of bounded depth and size; characters that cannot be printed are escaped."""
    made: dict[str, Any] = _plain(get(found, key, dict), key, 1)
    size = len(json.dumps(made))
    if size > LARGEST_OBJECT:
        raise Malformed(f"'{key}' must have at most {LARGEST_OBJECT} characters, got {size}")
    return made


def _plain(value: Any, key: str, depth: int) -> Any:
    if depth > DEEPEST:
        raise Malformed(f"'{key}' must be nested at most {DEEPEST} deep")
    if isinstance(value, dict):
        return {_text(name, key): _plain(inner, key, depth + 1) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, key, depth + 1) for inner in value]
    if isinstance(value, str):
        return _text(value, key)
    if isinstance(value, int) and abs(value) > LARGEST:
        raise Malformed(f"'{key}' must hold numbers of at most {LARGEST:g}, got {_short(value)}")
    return value


def _short(value: float) -> str:
    """A number in a few characters, even an integer of thousands of digits."""
    return f"{value:g}" if abs(value) < 1e300 else f"a number of about 10^{len(str(abs(int(value)))) - 1}"
