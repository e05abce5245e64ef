"""MNIST's files, packed or not; what is wrong with them is said."""

import gzip
import struct

import numpy as np
import pytest

from phased.data import BadFile, open_recordings, read_mnist

IMAGES = np.arange(3 * 28 * 28).astype(np.uint8).reshape(3, 28, 28)
LABELS = np.array([5, 0, 9], np.uint8)
NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")


def idx(array, magic=None):
    return struct.pack(f">{1 + array.ndim}I", magic or 0x800 + array.ndim, *array.shape) + array.tobytes()


def write(folder, images=None, labels=None, packed=True):
    for name, content in zip(NAMES, (images or idx(IMAGES), labels or idx(LABELS)), strict=True):
        (folder / (name + ".gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)
    return folder


@pytest.mark.parametrize("packed", [True, False])
def test_images_and_labels_are_those_of_the_files(tmp_path, packed):
    images, labels = read_mnist(write(tmp_path, packed=packed), "train")
    assert np.array_equal(images, IMAGES)
    assert np.array_equal(labels, LABELS)
    images[:] = 0  # arrays that can be written to


@pytest.mark.parametrize(
    "images, labels, message",
    [
        (idx(IMAGES, 0x801), None, r"images-idx3-ubyte.gz': .* header 0x0803 and then N x 28 x 28 bytes, got 0x0801 and 2368"),
        (idx(IMAGES)[:-1], None, "got 0x0803 and 2367 bytes in all. It is cut off"),
        (b"\0\0\x08\x03", None, "got 0x0803 and 4 bytes"),
        (idx(IMAGES[:, :27]), None, "N x 28 x 28"),
        (None, idx(LABELS[:2]), "each image must have a label, got 3 images and 2 labels"),
        (struct.pack(">4I", 0x803, *[2**32 - 1] * 3), None, "it must have the header"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, images, labels, message):
    with pytest.raises(BadFile, match=message):
        read_mnist(write(tmp_path, images, labels), "train")


def test_a_gzip_file_that_is_cut_off_is_named(tmp_path):
    path = write(tmp_path) / f"{NAMES[0]}.gz"
    for content in (path.read_bytes()[:-20], b"no gzip", b""):
        path.write_bytes(content)
        with pytest.raises(BadFile, match=r"idx3-ubyte.gz': it must (be a whole gzip file|have the header)"):
            read_mnist(tmp_path, "train")


def test_a_missing_file_and_a_wrong_split_are_errors(tmp_path):
    with pytest.raises(BadFile, match="t10k-images-idx3-ubyte': cannot read it: No such file"):
        read_mnist(tmp_path, "test")
    with pytest.raises(ValueError, match="split must be 'train' or 'test', got 'val'"):
        read_mnist(tmp_path, "val")


@pytest.mark.parametrize("split, count", [("train", 60_000), ("test", 10_000)])
def test_all_of_mnist_is_read_and_numbers_of_recordings_are_its_numbers(mnist, nmnist, split, count):
    images, labels = read_mnist(mnist, split)
    assert images.shape == (count, 28, 28)
    assert images.mean() == pytest.approx(33.3, abs=0.6)
    recordings = open_recordings(nmnist, split).recordings
    assert labels[recordings.number.numpy() - 1].tolist() == recordings.label.tolist()
