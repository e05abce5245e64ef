"""All clips of a folder, found and prepared once: in parallel, interruptible, resumed where it stopped."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from phased import check, files
from phased.data import places, ragged
from phased.data.ragged import Progress
from phased.files import cache_folder
from phased.machine import cores
from phased_lab.clips import store
from phased_lab.clips.clip import DAMAGED, prepare_clip
from phased_lab.clips.decoding import BadClip
from phased_lab.clips.words import WORDS, contradiction

FORMAT = 1  # changes with anything that changes a prepared clip
VIDEO = (".mpg", ".mpeg", ".mkv", ".mp4", ".avi", ".mov", ".webm")
ALIGNMENT = ".align"
ALIGNMENTS = ("align", "alignments")  # names of folders that are no speakers
FOLDERS = ("grid", "GRID", "")
GRID = (
    "GRID: <speaker>/<sentence>.mpg and align/<speaker>/<sentence>.align",
    "Download it from https://zenodo.org/records/3625687",
)


class Source(NamedTuple):
    """A clip to prepare: its name, `<speaker>/<sentence>`, its video file and its alignment, which may be missing."""

    name: str
    video: Path
    alignment: Path

    @property
    def key(self) -> str:
        """Differs if a file was changed, or the preparation was."""
        facts = [FORMAT, self.name, ragged.version(self.video), ragged.version(self.alignment)]
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def find_grid(folder: Path | str | None = None) -> Path:
    """The folder with GRID's clips, `<speaker>/<sentence>.mpg`, and its alignments, `align/<speaker>/<sentence>.align`.

    Args:
        folder: it, or one with `grid` or `GRID` in it; by default PHASED_DATA or, if that is not set, the cache.

    Returns:
        The folder, for `prepare`.

    Raises:
        FileNotFoundError: no folder has clips.
    """
    clips = [f"*/**/*{each}" for suffix in VIDEO for each in (suffix, suffix.upper())]
    return places.find(*GRID, FOLDERS, clips, folder)


def sources(folder: Path, speakers: Iterable[str] | None = None) -> list[Source]:
    """The clips of some speakers, by default of all, sorted by speaker and sentence."""
    found: dict[str, dict[str, Path]] = {}  # by speaker and sentence, which may have several files
    for path in sorted(path for path in folder.glob("*/**/*") if path.suffix.lower() in VIDEO and path.is_file()):
        speaker = path.relative_to(folder).parts[0]
        if speaker not in ALIGNMENTS and not path.name.startswith("."):
            found.setdefault(speaker, {}).setdefault(path.stem, path)
    chosen = list(found) if speakers is None else list(dict.fromkeys(speakers))
    missing = [speaker for speaker in chosen if speaker not in found]
    if missing or not chosen:
        raise FileNotFoundError(
            f"expected clips in '{folder / (missing[0] if missing else '<speaker>')}', got none; speakers with clips there: "
            f"{', '.join(found) or 'none'}. Name one of them, or copy the clips there."
        )
    return [_source(folder, speaker, stem, path) for speaker in chosen for stem, path in sorted(found[speaker].items())]


def alignments(folder: Path, stem: str, speakers: Sequence[str]) -> list[Path]:
    """Return the possible files of the alignment of a sentence, in the order of the speakers. Archives of GRID differ."""
    pairs = ((speaker, inner) for speaker in speakers for inner in ("", *ALIGNMENTS))
    places = (folder / one / other for pair in pairs for one, other in (pair, pair[::-1]))
    return [place / f"{stem}{ALIGNMENT}" for place in dict.fromkeys(places)]


def _source(folder: Path, speaker: str, stem: str, video: Path) -> Source:
    """The clip with the first alignment that exists."""
    usual = folder / ALIGNMENTS[0] / speaker / f"{stem}{ALIGNMENT}"
    candidates = [usual, *alignments(folder, stem, [speaker]), video.with_suffix(ALIGNMENT)]
    return Source(f"{speaker}/{stem}", video, next((path for path in candidates if path.exists()), usual))


class Prepared(NamedTuple):
    """What `prepare` made."""

    folder: Path  # where the clips are, for `load_clips`
    names: tuple[str, ...]  # of all prepared clips, `<speaker>/<sentence>`, sorted
    skipped: tuple[BadClip, ...]  # the errors of the clips that were left out
    # A line for each clip with other words in its alignment than in its name. These clips are kept with the alignment's words.
    contradictions: tuple[str, ...]
    damaged: tuple[str, ...]  # a line for each clip with damaged pictures. These clips are kept, and `Clips.jump` finds them


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
        workers: threads; by default one per core.
        skip_bad: leave clips out that cannot be read, have no face or no alignment; otherwise the first of them is raised.
        progress: called with the number of clips that are done and the number of all.

    Returns:
        The folder, the names of the clips in it, and the clips that were left out.

    Raises:
        BadClip: all clips are bad or, without `skip_bad`, one is.
        FileNotFoundError: the folder has no clips, or none of a speaker.
        OSError: the disk is full; clips that are done remain.
        ModuleNotFoundError: av or opencv is not installed.
    """
    workers = cores() if workers is None else workers
    check.positive_int("workers", workers)
    found = find_grid(folder)
    clips = sources(found, speakers)
    place = Path(out) if out is not None else _place(found)
    files.writable(place)
    with FileLock(place / ".lock"):
        waiting = [source for source in clips if _stored(place, source) is None]
        skipped: list[BadClip] = []
        report = progress or (lambda done, total: None)
        report(len(clips) - len(waiting), len(clips))
        pool = ThreadPoolExecutor(workers)
        try:
            for done, error in enumerate(pool.map(partial(_prepare, place), waiting), len(clips) - len(waiting) + 1):
                if error is not None:
                    if not skip_bad:
                        raise error
                    skipped.append(error)
                report(done, len(clips))
        finally:
            pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C no further clip is begun
        stored = {source.name: each for source in clips if (each := _stored(place, source)) is not None}
        if not stored:
            first = skipped[0]
            raise BadClip(first.path, f"{first.what} All {len(skipped)} clips are bad; this is the first.", first.byte)
        jump = {name: stored[name].about["jump"] for name in sorted(stored)}
        store.write_list(place, jump, _key(clips))
    told = (contradiction(name, [WORDS[word] for word in each.arrays["words"]]) for name, each in stored.items())
    damaged = (
        f"{name}: two frames in a row differ by {change:.0f} gray levels on average."
        for name, change in jump.items()
        if change > DAMAGED
    )
    return Prepared(place, tuple(jump), tuple(skipped), tuple(filter(None, told)), tuple(damaged))


def prepared(folder: Path | str | None = None) -> Path | None:
    """Find prepared clips; nothing is prepared.

    Args:
        folder: prepared clips, GRID, or a folder with one of them in `grid`; by default PHASED_DATA or, if that is not set, the
            cache.

    Returns:
        The folder for `load_clips`; None if there is GRID, and its clips are not all prepared, or others than there are now.

    Raises:
        FileNotFoundError: there is neither.
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


def _stored(place: Path, source: Source) -> ragged.Stored | None:
    return ragged.load(store.file_of(place, source.name), source.key)


def _place(grid: Path) -> Path:
    """Where the clips of a folder are prepared by default."""
    return cache_folder() / f"clips-{hashlib.sha256(os.fsencode(grid.absolute())).hexdigest()[:16]}"


def _key(clips: Sequence[Source]) -> str:
    """Differs for other clips."""
    return hashlib.sha256("".join(source.key for source in clips).encode()).hexdigest()[:32]
