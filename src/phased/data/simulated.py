"""Simulated recordings of MNIST. On a CPU they are simulated once, by all cores, and memory-mapped from then on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from phased import check
from phased.data import ragged
from phased.data.camera import Camera, identity, simulate
from phased.data.mnist import read_mnist
from phased.data.ragged import Progress
from phased.data.recordings import Recordings
from phased.machine import cores, using_threads

FORMAT = 1  # changes with the seeds of chunks
CHUNK = 128  # images that share random numbers: as many as a core simulates at once


def simulated_recordings(
    images_folder: Path | str,
    split: str = "train",
    images: int | None = None,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    *,
    camera: Camera | None = None,
    seed: int = 0,
    cache: Path | str | None = None,
    workers: int | None = None,
) -> Recordings:
    """Recordings of MNIST's images by the event camera in software.

    On a GPU they are simulated in every call, which takes seconds. On a CPU they are simulated by all cores into the cache, 6
    bytes an event, and mapped into memory. Every 128 images have random numbers of their own: fewer images are the first ones of
    more, in the cache too.

    Args:
        images_folder: the folder with MNIST's files; `find_mnist` finds it.
        split: "train" or "test".
        images: how many images, from the first; by default all.
        device: where the recordings are made and remain.
        progress: called with the number of recordings that are done and the number of all, while they are simulated.
        camera: the camera; by default the one of N-MNIST.
        seed: the same seed gives the same recordings on the same device and version of torch.
        cache: the folder for the recordings on a CPU; by default PHASED_CACHE or the user's cache.
        workers: threads on a CPU, which do not change the recordings; by default one per core.

    Returns:
        The recordings, in the order of the images.

    Raises:
        BadFile: a file of MNIST is missing or damaged.
        ValueError: MNIST has fewer images.
        OSError: the cache cannot be written to.

    Example:
        >>> from tempfile import mkdtemp
        >>> data = Path(mkdtemp())
        >>> images = np.array([0x803, 2, 28, 28], ">i4").tobytes() + bytes(range(196)) * 8
        >>> labels = np.array([0x801, 2], ">i4").tobytes() + bytes([7, 2])
        >>> for name, content in (("images-idx3", images), ("labels-idx1", labels)):
        ...     np.frombuffer(content, np.uint8).tofile(data / f"t10k-{name}-ubyte")
        >>> recordings = simulated_recordings(data, "test", cache=data)
        >>> recordings.label, len(recordings[0]) > 1000
        (tensor([7, 2]), True)
    """
    digits, camera = read_mnist(images_folder, split), camera or Camera()
    count = len(digits.images) if images is None else images
    check.positive_int("images", count)
    if count > len(digits.images):
        raise ValueError(
            f"images must be at most {len(digits.images)}, the images of MNIST's {split} set in '{images_folder}', got {count}."
        )
    pictures, labels = torch.from_numpy(digits.images), torch.from_numpy(digits.labels).long()
    if torch.device(device).type != "cpu":
        recorded = pictures[:count].to(device), labels[:count]
        return simulate(*recorded, seed, camera, progress and (lambda done: progress(done, count)))

    def chunk(begin: int) -> Recordings:
        """The recordings of the chunk that begins at an image. They depend on no other chunk."""
        drawn = np.random.SeedSequence([seed, begin // CHUNK]).generate_state(1, np.uint64)[0]
        part = slice(begin, begin + CHUNK)
        made = simulate(pictures[part], labels[part], int(drawn >> np.uint64(1)), camera)
        return replace(made, number=made.number + begin)

    key = hashlib.sha256(repr((FORMAT, torch.__version__, identity(camera), seed)).encode())
    first = simulate(pictures[:1], labels[:1], seed, camera)  # stands for the camera's code
    for values in (*digits, first.address.numpy(), first.time.numpy()):
        key.update(np.ascontiguousarray(values).data)
    stored = ragged.cached(
        cache,
        f"simulated-{split}-{key.hexdigest()[:16]}",
        key.hexdigest(),
        lambda: ragged.Stored(in_threads(chunk, count, workers or cores(), progress).arrays, None),
        lambda stored: len(stored.arrays["label"]) >= count,
    )
    found = Recordings(**stored.arrays)
    end = int(found.offset[count])
    return Recordings(found.address[:end], found.time[:end], found.offset[: count + 1], found.label[:count], found.number[:count])


def in_threads(chunk: Callable[[int], Recordings], count: int, workers: int, progress: Progress | None) -> Recordings:
    """The first `count` recordings, and the others of their last chunk.

    Threads suffice, as torch computes without the lock of the interpreter. Each uses one core.
    """
    report, made = progress or (lambda done, count: None), []
    with using_threads(1), ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            report(0, count)
            for part in pool.map(chunk, range(0, count, CHUNK)):
                made.append(part)
                report(min(len(made) * CHUNK, count), count)
        finally:  # after an error or Ctrl-C, only work that has begun is finished
            pool.shutdown(cancel_futures=True)
    return Recordings.concatenate(made)
