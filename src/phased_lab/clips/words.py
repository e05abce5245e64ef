"""The 51 words of GRID, the sentence that a clip's name spells, and alignments: which word is spoken when."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phased.data.errors import read_bytes
from phased_lab.clips.decoding import BadClip

SLOTS: tuple[tuple[str, ...], ...] = (
    ("bin", "lay", "place", "set"),
    ("blue", "green", "red", "white"),
    ("at", "by", "in", "with"),
    tuple("abcdefghijklmnopqrstuvxyz"),  # without w, the one letter of three syllables
    ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    ("again", "now", "please", "soon"),
)
"""The words of each place in a sentence: command, colour, preposition, letter, digit, adverb."""

WORDS: tuple[str, ...] = tuple(word for slot in SLOTS for word in slot)
"""The vocabulary in the order of the grammar: a word's id is its place here."""

WORD_ID = {word: number for number, word in enumerate(WORDS)}
LETTERS = [{word[0]: word for word in slot} for slot in SLOTS]  # the words of each place by their letters in names of clips
LETTERS[4] = dict(zip("z123456789", SLOTS[4], strict=True))
UNITS_PER_MS = 25  # a unit is 1/25000 s: a frame of 40 ms has 1000
PAUSES = {"sil", "sp"}


class Sentence(NamedTuple):
    """Ids of the six words, (6,) int64, and when each begins and ends, (6, 2) float32 in ms since the first frame."""

    words: NDArray[np.int64]
    spans: NDArray[np.float32]


def read_alignment(path: Path | str) -> Sentence:
    """Read the words of a sentence and their times.

    Args:
        path: a file with lines `start end word`, in 1/25000 s; the pauses `sil` and `sp` are left out.

    Returns:
        The six words and their times.

    Raises:
        BadClip: the file is missing or damaged, or the words are not a sentence of GRID's grammar.

    Example:
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "bbaf2n.align"
        >>> words = enumerate(["sil", "bin", "blue", "at", "f", "two", "now"])
        >>> _ = path.write_text("".join(f"{n * 5000} {n * 5000 + 5000} {word}\\n" for n, word in words))
        >>> sentence = read_alignment(path)
        >>> sentence.words, sentence.spans[0]
        (array([ 0,  4,  8, 17, 39, 48]), array([200., 400.], dtype=float32))
    """
    words: list[str] = []
    spans: list[tuple[int, int]] = []
    end = 0
    lines = read_bytes(Path(path), BadClip).decode("ascii", "replace").splitlines()
    for number, line in enumerate(filter(str.strip, lines), 1):
        try:
            first, last, word = line.split()
            span = int(first), int(last)
        except ValueError:
            raise BadClip(path, f"line {number} must be 'start end word', got {line[:60]!r}. Copy it again.") from None
        if not end <= span[0] < span[1]:
            raise BadClip(path, f"line {number} must begin at {end} or later and end after that, got {line!r}. Copy it again.")
        end = span[1]
        if word not in PAUSES:
            words.append(word)
            spans.append(span)
    if len(words) != len(SLOTS) or any(word not in slot for word, slot in zip(words, SLOTS, strict=True)):
        raise BadClip(
            path,
            f"a sentence must be command, colour, preposition, letter, digit, adverb, got '{' '.join(words)}'. Copy it again, or "
            f"leave the clip out.",
        )
    ids = np.array([WORD_ID[word] for word in words], np.int64)
    return Sentence(ids, np.array(spans, np.float32) / np.float32(UNITS_PER_MS))


def spelled(name: str) -> tuple[str, ...] | None:
    """The sentence that the name of a clip spells; None if it is not a name of GRID.

    Args:
        name: six characters, without folder and suffix: the first letters of the words, `z` for the digit zero.

    Returns:
        The six words, or None.

    Example:
        >>> spelled("bbaf2n")
        ('bin', 'blue', 'at', 'f', 'two', 'now')
        >>> spelled("holiday") is None
        True
    """
    words = [words[letter] for letter, words in zip(name.lower(), LETTERS, strict=False) if letter in words]
    return tuple(words) if len(words) == len(name) == len(SLOTS) else None


def contradiction(name: str, words: Iterable[str]) -> str | None:
    """How an alignment's words differ from those that the clip's name spells; None if they agree or the name spells none.

    Args:
        name: the name of the clip, with or without its speaker's folder.
        words: the words of the alignment.

    Returns:
        One sentence, or None.

    Example:
        >>> contradiction("s1/bbaf2n", ["bin", "blue", "at", "f", "two", "soon"])
        "s1/bbaf2n: its name spells 'now', its alignment has 'soon'."
    """
    expected = spelled(name.rpartition("/")[2])
    differing = [] if expected is None else [(one, other) for one, other in zip(expected, words, strict=True) if one != other]
    if not differing:
        return None
    named, aligned = (" ".join(part) for part in zip(*differing, strict=True))
    return f"{name}: its name spells '{named}', its alignment has '{aligned}'."
