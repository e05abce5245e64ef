"""Where the clips of GRID and their alignments are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from phased.data import places

FORMAT = 1  # changes with anything that changes a prepared clip
VIDEO = (".mpg", ".mpeg", ".mkv", ".mp4", ".avi", ".mov", ".webm")
ALIGNMENTS = ("align", "alignments")  # names of folders that are no speakers
FOLDERS = ("grid", "GRID", "")
GRID = (
    "GRID: <speaker>/<sentence>.mpg and align/<speaker>/<sentence>.align",
    "Download it from https://zenodo.org/records/3625687",
)


@dataclass(frozen=True)
class Source:
    """A clip to prepare: its name, `<speaker>/<sentence>`, its video file and its alignment, which may be missing."""

    name: str
    video: Path
    alignment: Path

    @property
    def key(self) -> str:
        """Differs if a file was changed, or the preparation was."""
        facts: list[object] = [FORMAT, self.name]
        for path in (self.video, self.alignment):
            try:
                about = path.stat()
            except OSError:
                facts.append(None)
            else:
                facts.append((about.st_size, about.st_mtime_ns))
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def find_grid(folder: Path | str | None = None) -> Path:
    """The folder with GRID's clips, `<speaker>/<sentence>.mpg`, and its alignments, `align/<speaker>/<sentence>.align`.

    Args:
        folder: it, or one with `grid` or `GRID` in it; by default PHASED_DATA or, if that is not set, the cache.

    Returns:
        The folder, for `prepare`.

    Raises:
        FileNotFoundError: no folder has clips.

    Example:
        >>> from tempfile import mkdtemp
        >>> data = Path(mkdtemp())
        >>> (data / "grid" / "s1").mkdir(parents=True)
        >>> _ = (data / "grid" / "s1" / "bbaf2n.mpg").write_bytes(b"")
        >>> find_grid(data).name
        'grid'
    """
    clips = [f"*/**/*{each}" for suffix in VIDEO for each in (suffix, suffix.upper())]
    return places.find(*GRID, FOLDERS, clips, folder)


def sources(folder: Path, speakers: Iterable[str] | None = None) -> list[Source]:
    """The clips of some speakers, by default of all, sorted by speaker and sentence."""
    found = {path.name: videos for path in _folders(folder) if (videos := _videos(path))}
    chosen = list(found) if speakers is None else list(dict.fromkeys(speakers))
    missing = [speaker for speaker in chosen if speaker not in found]
    if missing or not chosen:
        raise FileNotFoundError(
            f"expected clips in '{folder / (missing[0] if missing else '<speaker>')}', got none; speakers with clips there: "
            f"{', '.join(found) or 'none'}. Name one of them, or copy the clips there."
        )
    return [_source(folder, speaker, stem, path) for speaker in chosen for stem, path in found[speaker].items()]


def _source(folder: Path, speaker: str, stem: str, video: Path) -> Source:
    """The clip with the first alignment that exists: archives of GRID differ in where they put them."""
    places = [*(folder / name / speaker for name in ALIGNMENTS), *(folder / speaker / name for name in ALIGNMENTS), video.parent]
    candidates = [place / f"{stem}.align" for place in places]
    return Source(f"{speaker}/{stem}", video, next((path for path in candidates if path.exists()), candidates[0]))


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name not in ALIGNMENTS)


def _videos(speaker: Path) -> dict[str, Path]:
    """The video files in a speaker's folder or below it, by sentence; the first one if a sentence has several."""
    videos: dict[str, Path] = {}
    for path in sorted(speaker.rglob("*")):
        if path.suffix.lower() in VIDEO and not path.name.startswith(".") and path.is_file():
            videos.setdefault(path.stem, path)
    return dict(sorted(videos.items()))
