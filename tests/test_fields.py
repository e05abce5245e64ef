"""JSON values as dataclasses: what goes round, what is refused, and a new kind of model folder in one declaration."""

import json
import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from phased.fields import FLAT, Between, Malformed, OneOf, decode, encode
from phased.model_folder import BadModel, Kind


class Pair(NamedTuple):
    first: int
    second: float = 0.5


@dataclass(frozen=True)
class Inner:
    names: tuple[str, ...]
    by_name: dict[str, float]


@dataclass(frozen=True)
class Outer:
    size: Annotated[int, Between(1, 9)]
    shape: Literal["round", "square"]
    pair: Pair
    inner: Annotated[Inner, FLAT]
    sides: Annotated[tuple[float, float], Between(0, 1)]
    center: NDArray[np.float64]
    anything: Any = None
    rate: Annotated[float, OneOf((0.1, 0.2))] | None = None


OUTER = Outer(3, "round", Pair(1), Inner(("a", "b"), {"c": 2.0}), (0.0, 1.0), np.array([1.5, -2.0]), {"x": [1]}, 0.2)
FIELDS = {
    **{"size": 3, "shape": "round", "pair": [1, 0.5], "names": ["a", "b"], "by_name": {"c": 2.0}, "sides": [0.0, 1.0]},
    **{"center": [1.5, -2.0], "anything": {"x": [1]}, "rate": 0.2},
}


def test_a_record_becomes_json_and_comes_back():
    assert json.loads(json.dumps(encode(OUTER))) == FIELDS
    assert encode(decode(Outer, FIELDS)) == FIELDS
    short = decode(Outer, {name: value for name, value in FIELDS.items() if name not in ("anything", "rate")} | {"pair": [1]})
    assert (short.pair, short.anything, short.rate) == (Pair(1), None, None)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"size": 0}, "its 'size' must be from 1 to 9, got 0"),
        ({"size": True}, "its 'size' must be of type int, got bool"),
        ({"shape": "flat"}, "its 'shape' must be 'round' or 'square', got 'flat'"),
        ({"pair": []}, "it must have a 'first', and has none"),
        ({"names": "ab"}, "its 'names' must be of type list, got str"),
        ({"names": [1]}, "its 'names' must be of type str, got int"),
        ({"by_name": {"c": math.nan}}, "its 'by_name' must be a finite number, got nan"),
        ({"by_name": {"c": 10**400}}, "its 'by_name' must be a finite number"),
        ({"sides": [0.0]}, "its 'sides' must have 2 entries, got 1"),
        ({"sides": [0.0, 2]}, "its 'sides' must be from 0 to 1, got 2.0"),
        ({"center": ["1"]}, "its 'center' must be of type float, got str"),
        ({"rate": 0.3}, "its 'rate' must be 0.1 or 0.2, got 0.3"),
    ],
)
def test_another_value_is_refused_by_the_name_of_its_field(changes, message):
    with pytest.raises(Malformed, match=message):
        decode(Outer, FIELDS | changes)


@dataclass(frozen=True)
class Line:
    """The configuration of a toy model."""

    inputs: Annotated[int, Between(1, 100)]


LINE = Kind("phased line", 1, Line, card=lambda config: f"# {config.inputs} inputs")


def test_a_new_kind_of_model_folder_is_one_declaration(tmp_path):
    def build(config: Line) -> nn.Module:
        return nn.Linear(config.inputs, 1)

    model = build(Line(3))
    LINE.write(tmp_path, Line(3), model)
    config, again = LINE.read(tmp_path, build)
    assert config == Line(3)
    assert torch.equal(again(torch.ones(3)), model(torch.ones(3)))
    assert (tmp_path / "README.md").read_text() == "# 3 inputs"
    (tmp_path / "config.json").write_text((tmp_path / "config.json").read_text().replace('"inputs": 3', '"inputs": 0'))
    with pytest.raises(BadModel, match="its 'inputs' must be from 1 to 100, got 0"):
        LINE.read(tmp_path, build)
