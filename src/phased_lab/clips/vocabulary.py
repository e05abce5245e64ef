"""The 51 words of GRID, and the sentence that a clip's name spells."""

from __future__ import annotations

from collections.abc import Iterable

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
DIGITS = dict(zip("z123456789", SLOTS[4], strict=True))


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
    if len(name) != len(SLOTS):
        return None
    words = []
    for place, (letter, slot) in enumerate(zip(name.lower(), SLOTS, strict=True)):
        found = [DIGITS[letter]] if place == 4 and letter in DIGITS else [word for word in slot if word[0] == letter]
        if len(found) != 1:
            return None
        words += found
    return tuple(words)


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
