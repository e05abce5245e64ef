"""Readers for event files, and many recordings in flat arrays."""

from typing import TYPE_CHECKING

from phased.data.read import read  # the module has its name
from phased.files import cache_folder
from phased.lazy import exports

if TYPE_CHECKING:
    from phased.data.errors import BadFile, BadRecording
    from phased.data.mnist import Mnist, read_mnist
    from phased.data.nmnist import Opened, open_recordings
    from phased.data.nmnist_file import decode, encode, read_native
    from phased.data.places import find_mnist, find_nmnist
    from phased.data.recording import NMNIST, Recording, Sensor
    from phased.data.recordings import Recordings
    from phased.data.simulated import simulated_recordings

__all__ = [
    "NMNIST",
    "BadFile",
    "BadRecording",
    "Mnist",
    "Opened",
    "Recording",
    "Recordings",
    "Sensor",
    "cache_folder",
    "decode",
    "encode",
    "find_mnist",
    "find_nmnist",
    "open_recordings",
    "read",
    "read_mnist",
    "read_native",
    "simulated_recordings",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "errors": ("BadFile", "BadRecording"),
        "mnist": ("Mnist", "read_mnist"),
        "nmnist_file": ("decode", "encode", "read_native"),
        "nmnist": ("Opened", "open_recordings"),
        "places": ("find_mnist", "find_nmnist"),
        "recording": ("NMNIST", "Recording", "Sensor"),
        "recordings": ("Recordings",),
        "simulated": ("simulated_recordings",),
    },
)
