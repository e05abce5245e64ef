"""Rows of a table and their gradient, which must be that of `torch.nn.functional.embedding`."""

import pytest
import torch
from torch.nn.functional import embedding

from phased.lookup import CHUNK, SortedLookUp, look_up, sum_by_index


def indices(rows: int, *shape: int, seed: int = 0) -> torch.Tensor:
    """Skewed, so that some rows have many indices and others none."""
    random = torch.Generator().manual_seed(seed)
    return (rows * torch.rand(shape, generator=random, dtype=torch.float64) ** 3).long()


@pytest.mark.parametrize("rows", [1, 2, 7, 100, 2312])
@pytest.mark.parametrize("count", [0, 1, CHUNK, CHUNK + 1, 5000, 40_000])
def test_sums_are_those_of_one_after_another(rows, count):
    index = indices(rows, count)
    values = torch.randint(-8, 9, (count, 3)).double()  # whole numbers: sums are exact in any order
    assert torch.equal(sum_by_index(values, index, rows), torch.zeros(rows, 3, dtype=torch.float64).index_add_(0, index, values))


@pytest.mark.parametrize("shape", [(0,), (3000,), (60, 50)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("looked_up", [look_up, SortedLookUp.apply], ids=["look_up", "sorted"])
def test_rows_and_gradient_are_those_of_embedding(shape, dtype, looked_up):
    table, index = torch.randn(23, 5, dtype=dtype), indices(23, *shape)
    weight = torch.randn(5, *shape, dtype=dtype).movedim(0, -1)  # its gradient is not contiguous
    found = []
    for function in (looked_up, lambda table, index: embedding(index, table)):
        own = table.clone().requires_grad_()
        rows = function(own, index)
        (rows * weight).sum().backward()
        found.append((rows.detach(), own.grad))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=0, atol=0)
    torch.testing.assert_close(found[0][1], found[1][1], **({"rtol": 0.1, "atol": 1.0} if dtype == torch.bfloat16 else {}))


def test_the_gradient_under_autocast_has_the_type_of_the_table():
    table = torch.randn(9, 4, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        loss = torch.nn.functional.linear(SortedLookUp.apply(table, indices(9, 500)), torch.randn(2, 4)).float().sum()
    loss.backward()
    assert table.grad.dtype == torch.float32
    assert table.grad.isfinite().all()


def test_a_second_derivative_is_refused():
    table = torch.randn(9, 4, requires_grad=True)
    (first,) = torch.autograd.grad(SortedLookUp.apply(table, indices(9, 50)).pow(2).sum(), table, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


@pytest.mark.gpu
def test_on_a_gpu_the_gradient_is_the_same_in_every_run_and_that_of_a_cpu():
    index, weight = indices(2312, 300_000), torch.randn(300_000, 41)
    found = []
    for device in ("cuda", "cuda", "cpu"):
        table = torch.zeros(2312, 41, device=device, requires_grad=True)
        (look_up(table, index.to(device)) * weight.to(device)).sum().backward()
        found.append(table.grad.cpu())
    assert torch.equal(found[0], found[1])
    torch.testing.assert_close(found[0], found[2], rtol=1e-4, atol=1e-2)
