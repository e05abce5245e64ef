"""All clips of a folder, prepared once: in parallel, interruptible, resumed where it stopped."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from phased import check, files
from phased.data.index import Progress
from phased.files import cache_folder
from phased.lock import locked
from phased.machine import cores
from phased_lab.clips import store
from phased_lab.clips.clip import DAMAGED, prepare_clip
from phased_lab.clips.errors import BadClip
from phased_lab.clips.layout import Source, find_grid, sources
from phased_lab.clips.vocabulary import WORDS, contradiction
from phased_lab.clips.workers import check_guarded, in_processes


class Prepared(NamedTuple):
    """What `prepare` made.

    Attributes:
        files: one file a speaker, for `load_clips`.
        names: of all prepared clips, `<speaker>/<sentence>`, sorted.
        skipped: the errors of the clips that were left out.
        contradictions: clips whose alignment has other words than their name spells. They are kept: the alignment says what was
            spoken.
        damaged: clips in which some pictures are damaged, though they decode. They are kept; `Clips.jump` finds them.
    """

    files: tuple[Path, ...]
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

    Each clip is stored when it is done. An interrupted call is continued by the next one, and later calls prepare new and changed
    clips alone. The clips of a speaker are one file of about 30 KB a clip, `<speaker>.safetensors`. Of two calls at once, one
    waits for the other.

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
        The files, the names of the clips in them, and the clips that were left out.

    Raises:
        BadClip: all clips are bad or, without `skip_bad`, one is.
        FileNotFoundError: the folder has no clips, or none of a speaker.
        OSError: the disk is full; clips that are done remain.
        ModuleNotFoundError: av or opencv is not installed.
        RuntimeError: several processes, and no `if __name__ == "__main__":`.

    Example:
        >>> prepare("no such folder")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: expected GRID: <speaker>/<sentence>.mpg and align/<speaker>/<sentence>.align, in 'no such folder' ...
    """
    workers = cores() if workers is None else workers
    check.size("workers", workers)
    check_guarded()
    found = find_grid(folder)
    clips = sources(found, speakers)
    place = Path(out) if out is not None else cache_folder() / f"clips-{_digest(found)}"
    files.writable(place)
    count = Count(sum(map(len, clips.values())), progress)
    skipped: list[BadClip] = []
    made: list[tuple[Path, store.Shelf]] = []
    for speaker, each in clips.items():
        with locked(place / f"{speaker}.lock", wait=True):
            work = Speaker(place / f"{speaker}{store.SUFFIX}", place / f"{speaker}.parts", each)
            whole = work.prepared(workers, skip_bad, skipped, count)
        if whole is not None:
            made.append((work.file, whole))
    if not made:
        first = skipped[0]
        raise BadClip(first.path, f"{first.what} All {len(skipped)} clips are bad; this is the first.", first.byte)
    named = [(name, words) for _, whole in made for name, words in zip(whole.names, whole.arrays["words"], strict=True)]
    differing = (contradiction(name, [WORDS[word] for word in words]) for name, words in named)
    return Prepared(
        tuple(path for path, _ in made),
        tuple(sorted(name for name, _ in named)),
        tuple(skipped),
        tuple(text for text in differing if text is not None),
        tuple(
            f"{name}: two frames in a row differ by {jump:.0f} gray levels on average."
            for _, whole in made
            for name, jump in zip(whole.names, whole.arrays["jump"], strict=True)
            if jump > DAMAGED
        ),
    )


@dataclass(eq=False)
class Count:
    """How many clips are done, of all speakers."""

    total: int
    progress: Progress | None
    done: int = 0

    def add(self, clips: int) -> None:
        """Report further clips."""
        self.done += clips
        if self.progress is not None:
            self.progress(self.done, self.total)


@dataclass(frozen=True)
class Speaker:
    """The clips of a speaker: the file of all and, until that is written, a folder with a file for each clip that is done."""

    file: Path
    parts: Path
    sources: list[Source]

    def prepared(self, workers: int, skip_bad: bool, skipped: list[BadClip], count: Count) -> store.Shelf | None:
        """All clips in one file; None if all are bad. Needs the lock."""
        keys = {source.name: source.key for source in self.sources}
        before = _read(self.file)
        fresh = [] if before is None else [row for row, name in enumerate(before.names) if keys.get(name) == before.keys[row]]
        kept = None if before is None or not fresh else before.subset(fresh)
        have = set() if kept is None else set(kept.names)
        left = [source for source in self.sources if source.name not in have]
        count.add(len(have))
        if left:
            files.writable(self.parts)
            files.remove_parts(self.parts)
        done: list[store.Shelf] = []
        waiting = []
        for source in left:
            part = _read(self.part(source))
            if part is not None and part.keys == (keys[source.name],):
                done.append(part)
            else:
                waiting.append(source)
        if done:
            count.add(len(done))
        with closing(in_processes(Work(self.parts), waiting, workers, _lost)) as results:
            for source, error in results:
                if error is not None and not skip_bad:
                    raise error
                if error is None:
                    done.append(store.read(self.part(source)))
                else:
                    skipped.append(error)
                count.add(1)
        return self.stored(before, kept, done)

    def part(self, source: Source) -> Path:
        """The file of one clip."""
        return _part(self.parts, source)

    def stored(self, before: store.Shelf | None, kept: store.Shelf | None, done: list[store.Shelf]) -> store.Shelf | None:
        """Write the clips of the file that are still valid and those that are new into one file, and remove the others."""
        shelves = [*([] if kept is None else [kept]), *done]
        if not shelves:
            return None
        whole = store.Shelf.joined(shelves)
        if done or before is None or len(before) != len(whole):
            # Written in the speaker's own folder: another call may be writing the file of another speaker beside this one.
            files.writable(self.parts)
            written = self.parts / self.file.name
            whole.write(written)
            written.replace(self.file)
            files.sync_folder(self.file.parent)
        shutil.rmtree(self.parts, ignore_errors=True)
        return whole


@dataclass(frozen=True)
class Work:
    """Prepares one clip into the folder of a speaker; it is sent to the processes."""

    parts: Path

    def __call__(self, source: Source) -> tuple[Source, BadClip | None]:
        """The clip, and why it is bad."""
        try:
            clip = prepare_clip(source.video, source.alignment)
        except BadClip as error:
            return source, error
        except (ImportError, OSError):
            raise
        except Exception as error:  # one clip of thousands must not end the work on all others
            what = f"it must be a clip that can be prepared, got {type(error).__name__}: {error}. Leave it out, and report it."
            return source, BadClip(source.video, what)
        store.Shelf.of(source.name, source.key, clip).write(_part(self.parts, source))
        return source, None


def _lost(source: Source) -> tuple[Source, BadClip | None]:
    return source, BadClip(
        source.video, "a clip must not end the process that decodes it, and did. Copy it again, or leave it out."
    )


def _part(parts: Path, source: Source) -> Path:
    return parts / f"{source.name.rpartition('/')[2]}{store.SUFFIX}"


def _read(path: Path) -> store.Shelf | None:
    """The clips in a file; None if there is none, or a damaged one, which is made again."""
    try:
        return store.read(path)
    except (FileNotFoundError, BadClip):
        return None


def _digest(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:16]
