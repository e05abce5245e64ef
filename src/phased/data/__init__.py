"""Readers for event files, and many recordings in flat arrays."""

from phased.data.recordings import Recording, Recordings

__all__ = ["Recording", "Recordings"]
