"""Readers for event files, and many recordings in flat arrays."""

from phased.data.errors import BadFile, BadRecording
from phased.data.native import decode, encode, read_native
from phased.data.read import read
from phased.data.recording import NMNIST, Recording, Sensor
from phased.data.recordings import Recordings

__all__ = ["NMNIST", "BadFile", "BadRecording", "Recording", "Recordings", "Sensor", "decode", "encode", "read", "read_native"]
