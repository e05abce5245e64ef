import pytest

from phased.learn.device import make_fabric


@pytest.fixture(scope="module")
def fabric():
    return make_fabric("cpu")
