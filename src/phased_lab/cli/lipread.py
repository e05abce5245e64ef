"""`phased lipread`: recognises the words of clips, and prints them with the confidence in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os.path import normpath
from pathlib import Path
from typing import Any

from rich.text import Text

from phased.cli.answers import Answers, counted
from phased.files import printable
from phased_lab.clips import WORDS, BadClip, contradiction, prepare_clip, spelled
from phased_lab.clips.decoding import Sense
from phased_lab.clips.preparation import ALIGNMENT, VIDEO, alignments
from phased_lab.lipreader import LipReader, Spoken

DEEPEST = 4  # folders above a clip among which the speaker's is searched


@dataclass
class Lips(Answers):
    """Reads the words of clips. The truth is the sentence of the alignment or of the name of the clip."""

    sense: Sense = "both"  # the senses to use
    align: Path | None = None  # where the times of words are

    model: LipReader
    suffixes = sorted(VIDEO)
    one, many = "clip", "clips"

    def __str__(self) -> str:
        parts = [counted(self.answered, "clip")]
        if self.known:
            parts.append(f"{self.right:,} of {self.known:,} words right: {self.right / self.known:.1%}")
        if self.skipped:
            parts.append(f"{self.skipped:,} skipped")
        return ", ".join(parts) + "."

    def found(self, paths: Sequence[Path]) -> list[Path]:
        """Return all clips of the paths. A file of an alignment must exist, and is for one clip."""
        clips, align = super().found(paths), self.align
        if align is not None and not align.exists():
            raise ValueError(
                f"--align must be a file or a folder, and '{align}' does not exist. Check the path, or leave --align out."
            )
        if align is not None and not align.is_dir() and len(clips) > 1:
            raise ValueError(
                f"--align must be a folder for several clips, got '{align}' for {len(clips):,} clips. Name a folder with "
                f"<speaker>/<sentence>{ALIGNMENT} or <sentence>{ALIGNMENT}, or one clip."
            )
        return clips

    def answer(self, file: Path) -> tuple[dict[str, Any], Text]:
        """The words of a clip; errors name the file."""
        alignment = alignment_of(file, self.align)
        clip = prepare_clip(file, alignment, self.sense)
        try:
            spoken = self.model.read(clip, self.sense)
        except ValueError as error:
            raise BadClip(file, str(error)) from error
        aligned = clip.sentence and tuple(WORDS[word] for word in clip.sentence.words)
        truth = aligned or spelled(file.stem)
        if truth is not None and (differing := contradiction(file.stem, truth)) is not None:
            told = f"{differing} The alignment '{alignment}' is taken for the truth."
            self.warn(f"{told} Name another one if it is not that of the clip.")
        doubt = self.model.doubt(clip, self.sense, spoken)
        if doubt is not None:
            self.warn(f"'{file}': {doubt}")
        self.compare([WORDS[word] for word in spoken.words], truth)
        return as_json(file, spoken, doubt), line(file, spoken, truth)

    def draw(self, file: Path) -> Any:
        """Draw faces, sound, gates and words of a clip."""
        from phased_lab.lipreader.picture import draw_clip

        clip = prepare_clip(file, alignment_of(file, self.align), self.sense)
        return draw_clip(self.model, clip, self.model.read(clip, self.sense), file.name, self.sense)


def alignment_of(file: Path, align: Path | None) -> Path | None:
    """The alignment of a clip: the file that was named, or the one of its sentence in the folder that was named."""
    if align is None or not align.is_dir():
        return align
    # The folder of the speaker may be above the folder of the clip: archives of GRID have s1/video/mpg_6000/bbaf2n.mpg too.
    # Links are not followed, since their names may be the names of speakers.
    above = [folder.name for folder in list(Path(normpath(file.absolute())).parents)[:DEEPEST] if folder.name]
    places = alignments(align, file.stem, [*above, ""])
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise BadClip(
            file,
            f"its alignment must be '{places[0]}' or '{align / places[0].name}', and neither exists. Copy it there, or leave "
            f"--align out.",
        )
    return found


def as_json(file: Path, spoken: Spoken, doubt: str | None) -> dict[str, Any]:
    """Return the fields for one clip. `confidence` is the mean over its words."""
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
