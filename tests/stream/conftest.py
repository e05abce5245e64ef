"""Every way to run a stream."""

import pytest

from streams import chosen


@pytest.fixture(autouse=True, scope="module", params=["auto", "reference"])
def _every_way_to_run_a_stream(request: pytest.FixtureRequest) -> None:
    """A stream runs on the compiled core where there is one, and in plain PyTorch for a layer of backend "reference"."""
    chosen["backend"] = request.param
