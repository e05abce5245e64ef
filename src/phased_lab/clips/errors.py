"""Clips that cannot be prepared."""

from __future__ import annotations

from phased.data.errors import BadFile


class BadClip(BadFile):
    """A clip or an alignment that cannot be used: which file, what was expected, what came, and the cure.

    Example:
        >>> str(BadClip("s1/bbaf2n.mpg", "a clip must have sound, got none. Copy it again."))
        "'s1/bbaf2n.mpg': a clip must have sound, got none. Copy it again."
    """
