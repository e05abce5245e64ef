"""Clips of people who speak (GRID): faces, MFCCs and words, prepared once and loaded into flat arrays."""

from phased_lab.clips.alignment import Sentence, read_alignment
from phased_lab.clips.cepstrum import COARSE, FINE, Mfcc, Resolution, differences, mfcc
from phased_lab.clips.clip import Clip, prepare_clip
from phased_lab.clips.decoding import BadClip, Decoded, decode
from phased_lab.clips.face import Box, cropped, find_face
from phased_lab.clips.preparation import Prepared, find_grid, prepare, prepared
from phased_lab.clips.store import Clips, Split, load_clips, split
from phased_lab.clips.vocabulary import SLOTS, WORDS, contradiction, spelled

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
    "prepared",
    "read_alignment",
    "spelled",
    "split",
]
