"""A GPU whose kernels run on the CPU."""

import pytest
import torch

from emulated_gpu import forget, replace_gpu
from phased.ops.cuda import replay


@pytest.fixture(autouse=True)
def _passes_are_listed_and_nothing_is_known_of_earlier_layers(monkeypatch):
    """Tests may change what is listed."""
    forget(monkeypatch)
    monkeypatch.setattr(replay, "LISTED_AFTER", 0)


@pytest.fixture(scope="module")
def an_emulated_gpu():
    with pytest.MonkeyPatch.context() as patch:
        replace_gpu(patch)
        yield


@pytest.fixture(params=[False, True], ids=["launched", "recorded"])
def capturing(request, monkeypatch):
    """Whether a graph is being recorded."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: request.param)
    return request.param
