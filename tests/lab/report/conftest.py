"""Folders of made-up records for the tests of the report."""

from pathlib import Path

import pytest

from records import everything, write


@pytest.fixture(scope="session")
def all_lines() -> list[dict]:
    return everything()


@pytest.fixture(scope="session")
def full_folder(tmp_path_factory, all_lines) -> Path:
    return write(tmp_path_factory.mktemp("results"), *all_lines)
