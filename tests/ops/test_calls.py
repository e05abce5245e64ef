"""Tensors that compiled code may read as it read earlier ones: found by torch's own comparison, or by Python's."""

import pytest
import torch
from torch import nn

from phased import tracing
from phased.ops import calls
from phased.ops.calls import by_python, by_torch

COMPARISONS = {"torch": by_torch, "Python": by_python}
each_comparison = pytest.mark.parametrize("compare", COMPARISONS.values(), ids=COMPARISONS)


class Own(torch.Tensor):
    pass


OTHERS = {
    "shape": torch.zeros(4, 3),
    "strides": torch.zeros(4, 3).T,
    "dtype": torch.zeros(3, 4, dtype=torch.float64),
    "device": torch.zeros(3, 4, device="meta"),
    "need of a gradient": torch.zeros(3, 4, requires_grad=True),
    "type": nn.Parameter(torch.zeros(3, 4), requires_grad=False),
    "subclass": torch.zeros(3, 4).as_subclass(Own),
    "a view that is negated on reading": torch._neg_view(torch.zeros(3, 4)),
    "dimensions": torch.zeros(1, 3, 4),
}


def earlier():
    return torch.zeros(3, 4), nn.Parameter(torch.zeros(5))


@each_comparison
def test_tensors_with_other_values_are_alike(compare):
    x, parameter = earlier()
    like = compare([x, parameter])
    assert like(x, parameter)
    assert like(torch.ones(3, 4), nn.Parameter(torch.ones(5)))
    with torch.no_grad():
        assert like(x, parameter)


@each_comparison
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_any_other_difference_is_found(compare, other):
    x, parameter = earlier()
    like = compare([x, parameter])
    assert not like(other, parameter)


@each_comparison
def test_memory_of_another_shape_in_the_same_parameter_is_found(compare):
    x, parameter = earlier()
    like = compare([x, parameter])
    parameter.data = parameter.data[:3]
    assert not like(x, parameter)


def test_python_compares_where_torch_does_not(monkeypatch):
    x, parameter = earlier()
    assert calls.alike([x, parameter]).__name__ == "check"
    monkeypatch.setattr(calls, "by_torch", lambda tensors: lambda *others: False)  # not even itself
    assert calls.alike([x, parameter])(x, parameter)
    monkeypatch.undo()
    for absent in (None, lambda *tensors, sizes, strides: None):  # or with other arguments in another version
        monkeypatch.setattr(tracing, "TensorGuards", absent)
        assert by_torch([x]) is None
        like = calls.alike([x, parameter])
        assert like(x, parameter)
        assert not like(x.T, parameter)


def test_the_same_parameter_may_be_used_twice():
    _, parameter = earlier()
    like = calls.alike([parameter, parameter])
    assert like(parameter, parameter)
    assert not like(parameter, parameter.detach())
