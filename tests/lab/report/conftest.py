"""The made-up results of every line and bar, and their report, for all tests of the report."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from phased_lab.report.seeds import Group
from records import everything, grouped, put, reported


@pytest.fixture(scope="session")
def all_lines() -> list[dict]:
    return everything()


@pytest.fixture(scope="session")
def found(all_lines) -> list[Group]:
    return grouped(*all_lines)


@pytest.fixture(scope="session")
def full_folder(tmp_path_factory, all_lines) -> Path:
    return put(tmp_path_factory.mktemp("results"), *all_lines)


@pytest.fixture(scope="session")
def report(tmp_path_factory, full_folder) -> SimpleNamespace:
    """The files of the report about the full folder, with small pictures, and the text of its page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("phased_lab.report.theme.SCALE", 0.2)
        page, *pictures = reported(full_folder, tmp_path_factory.mktemp("report"))
    return SimpleNamespace(page=page, pictures=pictures, text=page.read_text())
