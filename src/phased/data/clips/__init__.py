"""Clips of people who speak (GRID): faces, MFCCs and words, prepared once and loaded into flat arrays."""

from phased.data.clips.alignment import Sentence, read_alignment
from phased.data.clips.cepstrum import COARSE, FINE, Mfcc, Resolution, differences, mfcc
from phased.data.clips.clip import Clip, prepare_clip
from phased.data.clips.decoding import Decoded, decode
from phased.data.clips.errors import BadClip
from phased.data.clips.face import Box, cropped, find_face
from phased.data.clips.flat import Clips, load_clips
from phased.data.clips.layout import find_grid
from phased.data.clips.preparation import Prepared, prepare
from phased.data.clips.splits import Split, split
from phased.data.clips.vocabulary import SLOTS, WORDS, contradiction, spelled

__all__ = [
    "COARSE",
    "FINE",
    "SLOTS",
    "WORDS",
    "BadClip",
    "Box",
    "Clip",
    "Clips",
    "Decoded",
    "Mfcc",
    "Prepared",
    "Resolution",
    "Sentence",
    "Split",
    "contradiction",
    "cropped",
    "decode",
    "differences",
    "find_face",
    "find_grid",
    "load_clips",
    "mfcc",
    "prepare",
    "prepare_clip",
    "read_alignment",
    "spelled",
    "split",
]
