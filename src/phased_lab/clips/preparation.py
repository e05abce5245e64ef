"""All clips of a folder, prepared once: in parallel, interruptible, resumed where it stopped."""

from __future__ import annotations

import hashlib
import logging
import os
import signal
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from functools import partial
from multiprocessing import current_process
from pathlib import Path
from typing import NamedTuple, TypeVar

from filelock import FileLock

from phased import check, files
from phased.data import places, ragged
from phased.data.ragged import Progress
from phased.files import cache_folder
from phased.machine import cores
from phased.needs import module
from phased_lab.clips import store
from phased_lab.clips.clip import DAMAGED, prepare_clip
from phased_lab.clips.errors import BadClip
from phased_lab.clips.layout import FOLDERS, Source, find_grid, sources
from phased_lab.clips.vocabulary import WORDS, contradiction

T = TypeVar("T")
R = TypeVar("R")


class Prepared(NamedTuple):
    """What `prepare` made.

    Attributes:
        folder: where they are, for `load_clips`.
        names: of all prepared clips, `<speaker>/<sentence>`, sorted.
        skipped: the errors of the clips that were left out.
        contradictions: clips whose alignment has other words than their name spells. They are kept: the alignment says what was
            spoken.
        damaged: clips in which some pictures are damaged, though they decode. They are kept; `Clips.jump` finds them.
    """

    folder: Path
    names: tuple[str, ...]
    skipped: tuple[BadClip, ...]
    contradictions: tuple[str, ...]
    damaged: tuple[str, ...]


def prepare(
    folder: Path | str,
    out: Path | str | None = None,
    speakers: Iterable[str] | None = None,
    workers: int | None = None,
    skip_bad: bool = True,
    progress: Progress | None = None,
) -> Prepared:
    """Prepare the clips of GRID: faces, MFCCs, words and their times.

    Each clip is stored when it is done, in a file of about 30 KB, `<speaker>/<sentence>.safetensors`. An interrupted call is
    continued by the next one, and later calls prepare new and changed clips alone. Of two calls at once, one waits for the other.

    Args:
        folder: the folder with `<speaker>/<sentence>.mpg` or `.mkv` and `align/<speaker>/<sentence>.align`, or one with `grid`
            in it. Alignments in `<speaker>/align` are found too.
        out: the folder for the prepared clips; by default one in PHASED_CACHE or the user's cache.
        speakers: names of speakers' folders; by default all.
        workers: processes; by default one per core. With more than one, a script must start this under
            `if __name__ == "__main__":`.
        skip_bad: leave clips out that cannot be read, have no face or no alignment; otherwise the first of them is raised.
        progress: called with the number of clips that are done and the number of all.

    Returns:
        The folder, the names of the clips in it, and the clips that were left out.

    Raises:
        BadClip: all clips are bad or, without `skip_bad`, one is.
        FileNotFoundError: the folder has no clips, or none of a speaker.
        OSError: the disk is full; clips that are done remain.
        ModuleNotFoundError: av or opencv is not installed; distributed, for several processes.
        RuntimeError: several processes, and no `if __name__ == "__main__":`.

    Example:
        >>> prepare("no such folder")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: expected GRID: <speaker>/<sentence>.mpg and align/<speaker>/<sentence>.align, in 'no such folder' ...
    """
    workers = cores() if workers is None else workers
    check.positive_int("workers", workers)
    check_guarded()
    found = find_grid(folder)
    clips = sources(found, speakers)
    place = Path(out) if out is not None else _place(found)
    files.writable(place)
    with FileLock(place / ".lock"):
        waiting = [source for source in clips if _stored(place, source) is None]
        skipped: list[BadClip] = []
        report = progress or (lambda done, total: None)
        report(len(clips) - len(waiting), len(clips))
        with closing(in_processes(partial(_prepare, place), waiting, workers, _lost)) as results:
            for done, error in enumerate(results, len(clips) - len(waiting) + 1):
                if error is not None:
                    if not skip_bad:
                        raise error
                    skipped.append(error)
                report(done, len(clips))
        stored = {source.name: each for source in clips if (each := _stored(place, source)) is not None}
        if not stored:
            first = skipped[0]
            raise BadClip(first.path, f"{first.what} All {len(skipped)} clips are bad; this is the first.", first.byte)
        jump = store.write_list(place, {name: each.about["jump"] for name, each in stored.items()}, _key(clips)).jump
    differing = (contradiction(name, [WORDS[word] for word in each.arrays["words"]]) for name, each in stored.items())
    return Prepared(
        place,
        tuple(jump),
        tuple(skipped),
        tuple(text for text in differing if text is not None),
        tuple(
            f"{name}: two frames in a row differ by {change:.0f} gray levels on average."
            for name, change in jump.items()
            if change > DAMAGED
        ),
    )


def prepared(folder: Path | str | None = None) -> Path | None:
    """Find prepared clips; nothing is prepared.

    Args:
        folder: prepared clips, GRID, or a folder with one of them in `grid`; by default PHASED_DATA or, if that is not set, the
            cache.

    Returns:
        The folder for `load_clips`; None if there is GRID, and its clips are not all prepared, or others than there are now.

    Raises:
        FileNotFoundError: there is neither.

    Example:
        >>> prepared("no such folder")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: expected GRID: <speaker>/<sentence>.mpg and align/<speaker>/<sentence>.align, in 'no such folder' ...
    """
    try:
        return places.find("prepared clips", "Prepare them", FOLDERS, (store.LIST,), folder)
    except FileNotFoundError:
        found = find_grid(folder)
    try:
        listed = store.read_list(_place(found))
    except (FileNotFoundError, BadClip):
        return None
    return _place(found) if listed.key == _key(sources(found)) else None


def in_processes(work: Callable[[T], R], items: Sequence[T], workers: int, lost: Callable[[T], R]) -> Generator[R, None, None]:
    """Yield the results as they are done; that of an item whose process dies, as of a bug in a decoder, is `lost(item)`."""
    if workers == 1 or len(items) < 2:
        yield from map(work, items)
        return
    dask, distributed = (module(name, "using several processes", "lab") for name in ("dask", "distributed"))
    options = {"threads_per_worker": 1, "memory_limit": 0, "dashboard_address": None, "silence_logs": logging.CRITICAL}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=min(workers, len(items)), **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(_begin)
        futures = dict(zip(client.map(work, items, pure=False), items, strict=True))
        died = []
        for future in distributed.as_completed(futures):
            if isinstance(future.exception(), distributed.KilledWorker):
                died.append(futures[future])
            else:
                yield future.result()
        for item in died:  # one at a time: others may have waited for the process that died
            future = client.submit(work, item, pure=False)
            yield lost(item) if isinstance(future.exception(), distributed.KilledWorker) else future.result()


def check_guarded() -> None:
    """An error in a process that is being started, and for that executes the caller's script once more."""
    if getattr(current_process(), "_inheriting", False):
        raise RuntimeError(
            "several processes must be started by a script that can be imported, and this one cannot. Put the call under "
            "`if __name__ == '__main__':`, or use workers=1."
        )


def _prepare(place: Path, source: Source) -> BadClip | None:
    """Prepare and store one clip; why it is bad, if it is."""
    try:
        store.write(place, source.name, prepare_clip(source.video, source.alignment), source.key)
    except BadClip as error:
        return error
    except (ImportError, OSError):
        raise
    except Exception as error:  # one clip of thousands must not end the work on all others
        what = f"it must be a clip that can be prepared, got {type(error).__name__}: {error}. Leave it out, and report it."
        return BadClip(source.video, what)
    return None


def _begin() -> None:
    """Ctrl-C reaches all processes of a terminal, and only the first one handles it. OpenCV uses one core a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    module("cv2", "preparing clips", "video").setNumThreads(1)


def _lost(source: Source) -> BadClip:
    return BadClip(source.video, "a clip must not end the process that decodes it, and did. Copy it again, or leave it out.")


def _stored(place: Path, source: Source) -> ragged.Stored | None:
    return ragged.load(store.file_of(place, source.name), source.key)


def _place(grid: Path) -> Path:
    """Where the clips of a folder are prepared by default."""
    return cache_folder() / f"clips-{hashlib.sha256(os.fsencode(grid.absolute())).hexdigest()[:16]}"


def _key(clips: Sequence[Source]) -> str:
    """Differs for other clips."""
    return hashlib.sha256("".join(source.key for source in clips).encode()).hexdigest()[:32]
