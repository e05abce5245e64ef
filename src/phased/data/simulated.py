"""Simulated recordings of MNIST. On a CPU they are simulated once, by all cores, and memory-mapped from then on."""

from __future__ import annotations

import hashlib
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from phased import check, files
from phased.data import store
from phased.data.camera import Camera, identity, simulate
from phased.data.index import Index, Progress
from phased.data.mnist import Mnist, read_mnist
from phased.data.recordings import Recordings
from phased.files import cache_folder
from phased.lock import locked
from phased.machine import cores

FORMAT = 1  # changes with the seeds of chunks
CHUNK = 128  # images that share random numbers: as many as a core simulates at once
LOCK, PARTS, SUFFIX = "lock", "parts", ".events"

T = TypeVar("T")


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
    more, in the cache too, and an interrupted call is continued by the next one.

    Args:
        images_folder: the folder with MNIST's files; `find_mnist` finds it.
        split: "train" or "test".
        images: how many images, from the first; by default all.
        device: where the recordings are made and remain.
        progress: called with the number of recordings that are done and the number of all, while they are simulated.
        camera: the camera; by default the one of N-MNIST.
        seed: the same seed gives the same recordings on the same device and version of torch.
        cache: the folder for the recordings on a CPU; by default PHASED_CACHE or the user's cache. If it cannot be written to,
            they are kept in memory, with a warning.
        workers: threads on a CPU, which do not change the recordings; by default one per core.

    Returns:
        The recordings, in the order of the images.

    Raises:
        BadFile: a file of MNIST is missing or damaged.
        ValueError: MNIST has fewer images.
        OSError: the disk of the cache is full; what is in it remains.

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
    digits = read_mnist(images_folder, split)
    count = len(digits.images) if images is None else images
    check.size("images", count)
    if count > len(digits.images):
        raise ValueError(
            f"images must be at most {len(digits.images)}, the images of MNIST's {split} set in '{images_folder}', got {count}."
        )
    scene = Scene(digits, camera or Camera(), seed)
    if torch.device(device).type != "cpu":
        return scene.recorded(slice(count), seed, device, progress and (lambda done: progress(done, count)))
    kept = Path(cache) if cache is not None else cache_folder()
    made = Cached(scene, kept / f"simulated-{split}-{scene.key[:16]}", workers or cores(), progress).get(count)
    end = int(made.offset[count])
    return Recordings(made.address[:end], made.time[:end], made.offset[: count + 1], made.label[:count], made.number[:count])


@dataclass(frozen=True, eq=False)
class Scene:
    """The digits, the camera that records them, and the seed of its random numbers."""

    digits: Mnist
    camera: Camera
    seed: int

    def recorded(
        self, part: slice, seed: int, device: torch.device | str = "cpu", progress: Callable[[int], None] | None = None
    ) -> Recordings:
        """The recordings of a part of the digits."""
        images, labels = (torch.from_numpy(each[part]) for each in self.digits)
        return simulate(images.to(device), labels.long(), seed, self.camera, progress)

    def chunk(self, n: int) -> Recordings:
        """The recordings of chunk n, which depend on no other chunk."""
        begin = n * CHUNK
        drawn = np.random.SeedSequence([self.seed, n]).generate_state(1, np.uint64)[0]
        made = self.recorded(slice(begin, begin + CHUNK), int(drawn >> np.uint64(1)))
        return replace(made, number=made.number + begin)

    @cached_property
    def key(self) -> str:
        """Differs for recordings that differ. The recording of the first digit stands for the camera's code."""
        first = self.recorded(slice(1), self.seed)
        key = hashlib.sha256(repr((FORMAT, torch.__version__, identity(self.camera), self.seed)).encode())
        for values in (*self.digits, first.address.numpy(), first.time.numpy()):
            key.update(np.ascontiguousarray(values).data)
        return key.hexdigest()


@dataclass(frozen=True, eq=False)
class Cached:
    """The recordings of a scene in a folder: in one file and, while that is being made, a file for each chunk that is done."""

    scene: Scene
    folder: Path
    workers: int
    progress: Progress | None

    def get(self, count: int) -> Recordings:
        """At least the first `count` recordings, simulated if they are not there."""
        found = self.found()
        if found is not None and len(found) >= count:
            return found
        try:
            files.writable(self.folder)
        except OSError as error:
            warnings.warn(
                f"the recordings are simulated in memory, and again next time: {error} Set PHASED_CACHE to it.", stacklevel=3
            )
            return Recordings.concatenate(self.simulated(self.scene.chunk, 0, count))
        try:
            with locked(self.folder / LOCK, wait=True):
                return self.extended(count)
        except OSError as error:
            raise OSError(
                f"{error} It is for simulated recordings, of which none is lost; PHASED_CACHE sets its folder."
            ) from error

    def found(self) -> Recordings | None:
        """The recordings in the folder; None if there are none."""
        opened = [store.load(path, self.scene.key) for path in self.folder.glob(f"*{SUFFIX}")]
        return max((each[0] for each in opened if each is not None), key=len, default=None)

    def extended(self, count: int) -> Recordings:
        """The recordings in the folder, followed by those that are simulated until there are `count`. Needs the lock."""
        found = self.found()
        if found is not None and len(found) >= count:  # another process has made them
            return found
        begin = 0 if found is None else len(found)  # whole chunks: otherwise there would be no further image
        files.writable(self.folder / PARTS)
        self.simulated(self.keep, begin, count)

        def parts() -> Iterator[Recordings]:
            """One after another, so that few files are open."""
            yield from () if found is None else (found,)
            yield from map(self.part, chunks(begin, count))

        whole = self.folder / f"{count:05}{SUFFIX}"
        save(whole, parts, self.scene.key)
        made = self.found() or Recordings.concatenate(list(parts()))  # a file system may have no memory maps
        self.tidy(whole)
        return made

    def tidy(self, whole: Path) -> None:
        """Remove what `whole` contains, and temporary files of processes that were killed. Needs the lock."""
        for path in self.folder.glob(f"*{SUFFIX}"):
            with suppress(OSError):  # Windows cannot remove a file that is mapped
                if path != whole:
                    path.unlink()
        shutil.rmtree(self.folder / PARTS, ignore_errors=True)
        files.remove_parts(self.folder)

    def keep(self, n: int) -> None:
        """Simulate chunk n into the folder, unless it is there."""
        self.part(n)

    def part(self, n: int) -> Recordings:
        """The recordings of chunk n, simulated if they are not in the folder."""
        path = self.folder / PARTS / f"{n:05}{SUFFIX}"
        opened = store.load(path, self.scene.key)
        if opened is not None:
            return opened[0]
        made = self.scene.chunk(n)
        save(path, lambda: [made], self.scene.key)
        return made

    def simulated(self, work: Callable[[int], T], begin: int, count: int) -> list[T]:
        """The results for all chunks of the recordings from `begin` to `count`, in parallel."""

        def report(done: int) -> None:
            if self.progress is not None:
                self.progress(min(begin + done * CHUNK, count), count)

        return in_threads(work, chunks(begin, count), self.workers, report)


def chunks(begin: int, end: int) -> range:
    """The numbers of the chunks that have recordings from `begin` to `end`."""
    return range(begin // CHUNK, -(-end // CHUNK))


def in_threads(work: Callable[[int], T], numbers: Sequence[int], workers: int, report: Callable[[int], None]) -> list[T]:
    """The results of `work` in the order of the numbers; `report` is called with how many are done.

    Threads suffice, as torch computes without the lock of the interpreter. Each uses one core.
    """
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        futures = [pool.submit(work, number) for number in numbers]
        report(0)
        for done, future in enumerate(as_completed(futures), 1):
            future.result()
            report(done)
        return [future.result() for future in futures]
    finally:
        pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C, only work that has begun is finished
        torch.set_num_threads(threads)


def save(path: Path, parts: Callable[[], Iterable[Recordings]], key: str) -> None:
    """Write recordings to one file; each call of `parts` returns all of them."""
    capacity = sum(len(part.address) for part in parts())
    at, lengths, labels, numbers = 0, [np.zeros(1, np.int64)], [], []
    with files.replacing(path) as file:
        writer = store.Writer(file, store.Regions(capacity))
        for part in parts():
            writer.put(at, part.address.numpy(), part.time.numpy())
            at += len(part.address)
            lengths.append(part.offset.diff().numpy())
            labels.append(part.label.numpy())
            numbers.append(part.number.numpy())
        writer.finish(Index(np.concatenate(lengths).cumsum(), np.concatenate(labels), np.concatenate(numbers)), key)
