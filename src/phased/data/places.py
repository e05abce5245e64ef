"""Where data sets lie."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from phased.files import cache_folder, expanded

NMNIST = (
    "N-MNIST: folders Train/<digit>/<number>.bin and Test/..., or Train.zip and Test.zip",
    "Download them from https://www.garrickorchard.com/datasets/n-mnist",
)
MNIST = (
    "MNIST: train-images-idx3-ubyte.gz and the three other files",
    "Download them, for example with torchvision.datasets.MNIST(folder, download=True)",
)


def find_nmnist(folder: Path | str | None = None) -> Path:
    """The folder with N-MNIST's `Train` and `Test`, or with its archives `Train.zip` and `Test.zip`.

    Args:
        folder: it, or one with `nmnist`, `N-MNIST` or `NMNIST` in it; by default PHASED_DATA or, if that is not set, the cache.

    Returns:
        The folder, for `open_recordings`. One of the two parts may be missing.

    Raises:
        FileNotFoundError: neither part is there.
    """
    parts = ("Train", "Test", "Train.zip", "Test.zip", "train.zip", "test.zip")
    return find(*NMNIST, ("", "nmnist", "N-MNIST", "NMNIST"), parts, folder)


def find_mnist(folder: Path | str | None = None) -> Path:
    """The folder with MNIST's four files.

    Args:
        folder: it, or one with `mnist`, or torchvision's `MNIST/raw`, in it; by default PHASED_DATA or, if that is not set, the
            cache.

    Returns:
        The folder, for `read_mnist`.

    Raises:
        FileNotFoundError: the files are not there.
    """
    images = ("train-images-idx3-ubyte*", "t10k-images-idx3-ubyte*")
    return find(*MNIST, ("", "mnist", "MNIST/raw", "raw"), images, folder)


def find(what: str, source: str, inside: Iterable[str], files: Iterable[str], folder: Path | str | None = None) -> Path:
    """The first folder that has a file of a data set.

    Args:
        what: the data set and its files, for the error.
        source: how to get it, for the error.
        inside: folders in `folder` that may be it, "" for `folder` itself.
        files: patterns of names; one match is enough.
        folder: where to search; by default PHASED_DATA or, if that is not set, the cache.

    Raises:
        FileNotFoundError: no folder has one.
    """
    named = os.environ.get("PHASED_DATA")
    base = expanded(folder) if folder is not None else expanded(named) if named else cache_folder()
    for place in (base / name for name in inside):
        if any(next(place.glob(pattern), None) for pattern in files):
            return place
    origin = "the folder given" if folder is not None else "PHASED_DATA" if named else "the cache; PHASED_DATA is not set"
    names = ", ".join(repr(name) for name in inside if name)
    raise FileNotFoundError(
        f"expected {what}, in '{base}' ({origin}) or in one of its folders {names}; got none of them. {source}, and pass their "
        f"folder (--data) or set PHASED_DATA to it."
    )
