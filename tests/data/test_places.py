"""Where data is looked for, and what is said if it is not there."""

from itertools import product
from pathlib import Path
from unittest.mock import Mock

import pytest

from phased import files as module
from phased.data import cache_folder, find_mnist, find_nmnist


@pytest.fixture(autouse=True)
def _no_data(monkeypatch):
    monkeypatch.delenv("PHASED_DATA", raising=False)


PLACES = [*product([find_nmnist], ["", "nmnist", "N-MNIST", "NMNIST"], ["Train/", "Test/", "Train.zip", "Test.zip"])]
PLACES += product([find_mnist], ["", "mnist", "MNIST/raw"], ["train-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz"])


@pytest.mark.parametrize("find, name, content", PLACES)
def test_a_data_set_is_found_in_the_folder_and_where_it_usually_is_in_it(tmp_path, find, name, content):
    path = tmp_path / name / content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir() if content.endswith("/") else path.touch()
    assert find(tmp_path) == find(str(tmp_path)) == tmp_path / name


def test_an_explicit_folder_comes_before_the_variable_and_that_before_the_cache(tmp_path, monkeypatch):
    for name in ("explicit", "data", "cache"):
        (tmp_path / name / "nmnist" / "Train").mkdir(parents=True)
    monkeypatch.setenv("PHASED_CACHE", str(tmp_path / "cache"))
    assert find_nmnist() == tmp_path / "cache" / "nmnist"
    monkeypatch.setenv("PHASED_DATA", str(tmp_path / "data"))
    assert find_nmnist() == tmp_path / "data" / "nmnist"
    assert find_nmnist(tmp_path / "explicit") == tmp_path / "explicit" / "nmnist"


@pytest.mark.parametrize("find, what", [(find_nmnist, "Train/<digit>/<number>.bin"), (find_mnist, "train-images-idx3-ubyte.gz")])
def test_missing_data_is_an_error_with_what_where_and_the_cure(tmp_path, monkeypatch, find, what):
    for given, data, where in (
        (tmp_path, "", "the folder given"),
        (None, "", "the cache; .* not set"),
        (None, tmp_path, "PHASED_DATA"),
    ):
        monkeypatch.setenv("PHASED_DATA", str(data))
        with pytest.raises(FileNotFoundError, match=rf"expected .*{what}.*in '.*' \({where}\).*Download.*--data.*PHASED_DATA"):
            find(given)


@pytest.mark.parametrize(
    "platform, variables, expected",
    [
        ("linux", {}, "~/.cache/phased"),
        ("linux", {"XDG_CACHE_HOME": "/xdg"}, "/xdg/phased"),
        ("linux", {"XDG_CACHE_HOME": "/xdg", "PHASED_CACHE": "/mine"}, "/mine"),
        ("darwin", {}, "~/Library/Caches/phased"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/phased/cache"),
        ("win32", {}, "~/AppData/Local/phased/cache"),
    ],
)
def test_the_cache_is_where_the_system_has_caches(monkeypatch, platform, variables, expected):
    for name in ("PHASED_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(module.sys, "platform", platform)
    assert cache_folder() == Path(expected).expanduser()


@pytest.mark.parametrize("find", [cache_folder, find_nmnist, find_mnist])
def test_a_user_without_a_home_folder_is_an_error_with_the_cure(monkeypatch, find):
    for name in ("PHASED_CACHE", "PHASED_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module.Path, "expanduser", Mock(side_effect=RuntimeError))
    with pytest.raises(FileNotFoundError, match=r"there is no home folder for '~.*Set HOME, or PHASED_CACHE"):
        find()
