"""A GPU whose kernels are in NumPy, for tests of what Python passes to them."""

import pytest
import torch

from numpy_gpu import forget, replace_gpu
from phased.ops.cuda import replay


@pytest.fixture(autouse=True)
def _passes_are_listed_and_nothing_is_known_of_earlier_layers(monkeypatch):
    """Tests may change what is listed."""
    forget(monkeypatch)
    monkeypatch.setattr(replay, "LISTED_AFTER", 0)


@pytest.fixture(scope="module")
def a_gpu_in_numpy():
    with pytest.MonkeyPatch.context() as patch:
        replace_gpu(patch)
        yield


@pytest.fixture(params=[False, True], ids=["launched", "recorded"])
def capturing(request, monkeypatch):
    """Whether a graph is being recorded."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: request.param)
    return request.param
