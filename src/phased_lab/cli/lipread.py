"""`phased lipread`: recognises the words of clips, and prints them with the confidence in each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from os.path import normpath
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from phased.cli import answers
from phased.cli.answers import files_in, save_picture, skipping, warn
from phased.files import printable
from phased_lab.clips import WORDS, BadClip, Clip, contradiction, prepare_clip, spelled
from phased_lab.clips.decoding import Sense
from phased_lab.clips.preparation import ALIGNMENT, VIDEO, alignments
from phased_lab.lipreader import LipReader, Spoken
from phased_lab.lipreader.store import SHIPPED

DEEPEST = 4  # folders above a clip among which the speaker's is searched


@dataclass(frozen=True)
class Options:
    """What to print, which senses to use, and where the times of words are."""

    json: bool = False
    sense: Sense = "both"
    align: Path | None = None
    skip_bad: bool = False


@dataclass
class Total:
    """Sums over all clips that were read."""

    clips: int = 0
    skipped: int = 0
    known: int = 0  # words of clips whose sentence is known, from the alignment or the clip's name
    right: int = 0

    def add(self, truth: Sequence[str] | None, said: Sequence[str]) -> None:
        """Count one clip."""
        self.clips += 1
        if truth is not None:
            self.known += len(truth)
            self.right += sum(one == other for one, other in zip(truth, said, strict=True))

    def __str__(self) -> str:
        parts = [f"{self.clips:,} clip{'' if self.clips == 1 else 's'}"]
        if self.known:
            parts.append(f"{self.right:,} of {self.known:,} words right: {self.right / self.known:.1%}")
        if self.skipped:
            parts.append(f"{self.skipped:,} skipped")
        return ", ".join(parts) + "."


def lipread(console: Console, errors: Console, reader: LipReader, paths: Sequence[Path], options: Options) -> Total:
    """Read every clip, and print its words as soon as they are known."""
    total = Total()
    skip_bad = partial(skipping, errors, total, options.skip_bad)
    clips: list[Path] = []
    for path in paths:
        with skip_bad():
            clips += files_in(path, sorted(VIDEO), "clips")
    check_alignment(options.align, len(clips))
    for file in clips:
        with skip_bad():
            alignment = alignment_of(file, options.align)
            clip = prepare_clip(file, alignment, options.sense)
            spoken = answer_for(reader, file, clip, options.sense)
            truth, said = truth_of(file, clip), [WORDS[word] for word in spoken.words]
            if truth is not None and (found := contradiction(file.stem, truth)) is not None:
                told = f"{found} The alignment '{alignment}' is taken for the truth."
                warn(errors, f"{told} Name another one if it is not that of the clip.")
            doubt = reader.doubt(clip, options.sense, spoken)
            if doubt is not None:
                warn(errors, f"'{file}': {doubt}")
            total.add(truth, said)
            if options.json:
                print(json.dumps(as_json(file, spoken, doubt)), flush=True)
            else:
                console.print(line(file, spoken, truth), soft_wrap=True, highlight=False)
    return total


def answer_for(reader: LipReader, file: Path, clip: Clip, sense: Sense) -> Spoken:
    """The words of a clip; errors name the file."""
    try:
        return reader.read(clip, sense)
    except ValueError as error:
        raise BadClip(file, str(error)) from error


def check_alignment(align: Path | None, clips: int) -> None:
    """An error for an alignment that does not exist, or that would be the truth of several clips."""
    if align is not None and not align.exists():
        raise ValueError(
            f"--align must be a file or a folder, and '{align}' does not exist. Check the path, or leave --align out."
        )
    if align is not None and not align.is_dir() and clips > 1:
        raise ValueError(
            f"--align must be a folder for several clips, got '{align}' for {clips:,} clips. Name a folder with "
            f"<speaker>/<sentence>{ALIGNMENT} or <sentence>{ALIGNMENT}, or one clip."
        )


def alignment_of(file: Path, align: Path | None) -> Path | None:
    """The alignment of a clip: the file that was named, or the one of its sentence in the folder that was named."""
    if align is None or not align.is_dir():
        return align
    # The speaker's folder is that of the clip, or one above it: archives of GRID have s1/video/mpg_6000/bbaf2n.mpg too.
    places = alignments(align, file.stem, [*speaker_folders(file), ""])
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise BadClip(
            file,
            f"its alignment must be '{places[0]}' or '{align / places[0].name}', and neither exists. Copy it there, or leave --align out.",
        )
    return found


def speaker_folders(file: Path) -> list[str]:
    """The names of the folders above a clip, the nearest first."""
    above = Path(normpath(file.absolute())).parents  # links are not followed: their names may be those of speakers
    return [folder.name for folder in list(above)[:DEEPEST] if folder.name]


def truth_of(file: Path, clip: Clip) -> tuple[str, ...] | None:
    """What is said in a clip, by its alignment or its name; None if it is not known."""
    return spelled(file.stem) if clip.sentence is None else tuple(WORDS[word] for word in clip.sentence.words)


def as_json(file: Path, spoken: Spoken, doubt: str | None) -> dict[str, Any]:
    """The answer for one clip; `confidence` is the mean over its words, and `doubt` is there if there is one."""
    answer = {
        "file": str(file),
        "words": [WORDS[word] for word in spoken.words],
        "confidence": round(sum(spoken.confidence) / len(spoken.confidence), 4),
        "confidences": [round(each, 4) for each in spoken.confidence],
        "times": [[round(float(edge), 1) for edge in span] for span in spoken.spans],
    }
    return answer if doubt is None else {**answer, "doubt": doubt}


def line(file: Path, spoken: Spoken, truth: Sequence[str] | None) -> Text:
    """The words with their confidences; wrong ones are red, with the right word."""
    parts = Text(f"{printable(file.name)} ")
    for place, (word, confidence) in enumerate(zip(spoken.words, spoken.confidence, strict=True)):
        wrong = truth is not None and truth[place] != WORDS[word]
        parts.append(f" {WORDS[word]}", style="bold red" if wrong else "bold")
        parts.append(f" {confidence:.0%}" + (f" ({truth[place]})" if wrong and truth is not None else ""), style="dim")
    return parts


def check_picture(out: Path, paths: Sequence[Path], model: Path | None, options: Options) -> None:
    """Raise an error for a picture that could not be drawn or written, before anything is read."""
    alignment = alignment_of(paths[0], options.align)
    answers.check_picture(out, paths, "clip", [model or SHIPPED, *([alignment] if alignment else [])])


def picture(reader: LipReader, file: Path, options: Options, out: Path) -> None:
    """Draw faces, sound, gates and words of a clip; the suffix of `out` selects the format."""
    from phased_lab.lipreader.picture import draw_clip

    clip = prepare_clip(file, alignment_of(file, options.align), options.sense)
    spoken = reader.read(clip, options.sense)
    save_picture(lambda: draw_clip(reader, clip, spoken, file.name, options.sense), out)
