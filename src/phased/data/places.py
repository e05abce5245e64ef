"""Where data and its index lie."""

from __future__ import annotations

import os
from pathlib import Path

from phased.files import cache_folder, expanded

NMNIST_FOLDERS = ("", "nmnist", "N-MNIST", "NMNIST")
MNIST_FOLDERS = ("", "mnist", "MNIST/raw", "raw")
NMNIST_FILES = ("Train", "Test", "Train.zip", "Test.zip", "train.zip", "test.zip")
MNIST_FILES = ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte")


def find_nmnist(folder: Path | str | None = None) -> Path:
    """The folder with N-MNIST's `Train` and `Test`, or with its archives `Train.zip` and `Test.zip`.

    Args:
        folder: it, or one with `nmnist`, `N-MNIST` or `NMNIST` in it; by default PHASED_DATA or, if that is not set, the cache.

    Returns:
        The folder, for `open_recordings`. One of the two parts may be missing.

    Raises:
        FileNotFoundError: neither part is there.
    """
    return _find(
        folder,
        NMNIST_FOLDERS,
        NMNIST_FILES,
        "N-MNIST: folders Train/<digit>/<number>.bin and Test/..., or Train.zip and Test.zip",
        "Download them from https://www.garrickorchard.com/datasets/n-mnist",
    )


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
    return _find(
        folder,
        MNIST_FOLDERS,
        tuple(name + suffix for name in MNIST_FILES for suffix in ("", ".gz")),
        "MNIST: train-images-idx3-ubyte.gz and the three other files",
        "Download them, for example with torchvision.datasets.MNIST(folder, download=True)",
    )


def _find(folder: Path | str | None, inside: tuple[str, ...], files: tuple[str, ...], what: str, source: str) -> Path:
    named = os.environ.get("PHASED_DATA")
    base = expanded(folder) if folder is not None else expanded(named) if named else cache_folder()
    for place in (base / name for name in inside):
        if any((place / file).exists() for file in files):
            return place
    origin = "the folder given" if folder is not None else "PHASED_DATA" if named else "the cache; PHASED_DATA is not set"
    names = ", ".join(repr(name) for name in inside if name)
    raise FileNotFoundError(
        f"expected {what}, in '{base}' ({origin}) or in one of its folders {names}; got none of them. {source}, and pass their "
        f"folder (--data) or set PHASED_DATA to it."
    )
