"""Clips of people who speak (GRID): faces, MFCCs and words, prepared once and loaded into flat arrays."""

from phased_lab.clips.clip import Clip, prepare_clip
from phased_lab.clips.decoding import BadClip
from phased_lab.clips.preparation import Prepared, find_grid, prepare, prepared
from phased_lab.clips.store import Clips, Split, load_clips, split
from phased_lab.clips.words import SLOTS, WORDS, contradiction, spelled

__all__ = [
    "SLOTS",
    "WORDS",
    "BadClip",
    "Clip",
    "Clips",
    "Prepared",
    "Split",
    "contradiction",
    "find_grid",
    "load_clips",
    "prepare",
    "prepare_clip",
    "prepared",
    "spelled",
    "split",
]
