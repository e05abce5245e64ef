"""Files of users: reading a damaged file gives a possible result or an error with its name, never a crash or a hang."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from damaged import damaged, outcome
from event_files import KINDS, SENSOR, write
from phased.data import BadFile, Recording, encode, read
from phased_lab.clips.decoding import Decoded, decode
from phased_lab.clips.words import Sentence, read_alignment
from recordings import recording
from videos import FRAMES, write_alignment, write_video


class Kind(NamedTuple):
    """A kind of file: its name, functions that write and read it, and whether a result can come from these bytes."""

    name: str
    write: Callable[[Path], Any]
    read: Callable[[Path], Any]
    possible: Callable[[Any, bytes], bool]


def right_recording(found: Recording, content: bytes) -> bool:
    inside = (found.x < found.sensor.width).all() and (found.y < found.sensor.height).all()
    return bool(inside and (np.diff(found.time) >= 0).all())


def events(kind: str) -> Kind:
    name, options = KINDS[kind]
    made = recording(40, sensor=SENSOR, start=1_000_000)
    return Kind(name, lambda path: write(path, made, **options), lambda path: read(path, SENSOR), right_recording)


def right_clip(found: Decoded, content: bytes) -> bool:
    return bool((np.diff(found.time) > 0).all()) and 2 <= len(found.frames) <= 2 * FRAMES


def right_sentence(found: Sentence, content: bytes) -> bool:
    return len(found.words) == 6 and bool((np.diff(found.spans.ravel()) >= 0).all())


FILES = {kind: events(kind) for kind in KINDS} | {
    "bin": events("bin")._replace(possible=lambda found, content: encode(found) == content),
    "clip": Kind("a.mkv", write_video, decode, right_clip),
    "alignment": Kind("a.align", write_alignment, read_alignment, right_sentence),
}
GARBAGE = (b"", b"\0", b"garbage\n" * 50, b"\xff" * 1000)


@pytest.fixture(params=FILES)
def kind(request: pytest.FixtureRequest) -> Kind:
    """One of the kinds, if it can be read here."""
    if request.param not in ("bin", "npy", "alignment"):
        pytest.importorskip("av" if request.param == "clip" else "faery")
    return FILES[request.param]


def test_what_is_not_a_file_is_an_error_and_does_not_block(tmp_path, kind):
    path = tmp_path / kind.name
    for make, message in ((lambda _: None, "No such file"), (os.mkdir, "got a folder"), (os.mkfifo, "got a pipe")):
        make(path)
        with pytest.raises(BadFile, match=message) as caught:
            kind.read(path)
        assert caught.value.path == str(path)
        if path.is_dir():
            path.rmdir()


def test_garbage_is_an_error_that_names_the_file(tmp_path, kind):
    path = tmp_path / kind.name
    for content in GARBAGE:
        path.write_bytes(content)
        with pytest.raises(BadFile) as caught:
            kind.read(path)
        assert str(caught.value).startswith(f"'{path}'")


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_gives_what_it_may_have_had_or_an_error(tmp_path, kind, data):
    path, whole = tmp_path / kind.name, tmp_path / f"whole{kind.name}"
    if not whole.exists():
        kind.write(whole)
    content = data.draw(damaged(whole.read_bytes()))
    path.write_bytes(content)
    found = outcome(lambda: kind.read(path))
    if isinstance(found, BadFile):
        assert found.path == str(path)
    else:
        assert kind.possible(found, content)
