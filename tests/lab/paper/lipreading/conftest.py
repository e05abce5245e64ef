"""Prepared clips."""

from pathlib import Path

import pytest

from speaking import write_clips


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of prepared clips of two speakers: 23 whole ones and a damaged one."""
    return write_clips(tmp_path_factory.mktemp("clips"))
