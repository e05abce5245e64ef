"""Every way to run a stream."""

from collections.abc import Iterator

import pytest

from instructions import SETS, using
from streams import chosen


@pytest.fixture(autouse=True, scope="module", params=["auto", "reference", *SETS[1:]])
def _every_way_to_run_a_stream(request: pytest.FixtureRequest) -> Iterator[None]:
    """A stream runs on the compiled core where there is one, and in plain PyTorch for a layer of backend "reference"."""
    on_core = request.param in SETS
    chosen["backend"] = "auto" if on_core else request.param
    with using(request.param if on_core else ""):
        yield
