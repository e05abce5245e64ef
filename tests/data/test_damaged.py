"""Event files of every kind: a damaged one is a recording or an error that names it, never a crash or a hang."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from damaged import damaged, outcome
from event_files import CAMERA_FILES, KINDS, SENSOR
from phased.data import BadRecording, Recording, encode, read

kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_what_is_not_a_file_is_an_error_and_does_not_block(tmp_path, kind):
    path = tmp_path / KINDS[kind][0]
    for make, message in ((lambda _: None, "No such file"), (os.mkdir, "got a folder"), (os.mkfifo, "got a pipe")):
        make(path)
        with pytest.raises(BadRecording, match=message) as caught:
            read(path)
        assert caught.value.path == str(path)
        if path.is_dir():
            path.rmdir()


@kinds
@pytest.mark.parametrize("content", [b"", b"\0", b"garbage\n" * 50, b"\xff" * 1000], ids=range(4))
def test_garbage_is_an_error_that_names_the_file(tmp_path, kind, content):
    if kind in CAMERA_FILES:
        pytest.importorskip("faery")
    path = tmp_path / KINDS[kind][0]
    path.write_bytes(content)
    with pytest.raises(BadRecording) as caught:
        read(path)
    assert str(caught.value).startswith(f"'{path}'")


@kinds
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_gives_a_recording_or_an_error(written, kind, data):
    path, _ = written(kind, events=40)
    content = data.draw(damaged(path.read_bytes()))
    path.write_bytes(content)
    found = outcome(lambda: read(path, SENSOR))
    if isinstance(found, Recording):
        assert (found.x < found.sensor.width).all()
        assert (found.y < found.sensor.height).all()
        assert (np.diff(found.time) >= 0).all()
        assert kind != "bin" or encode(found) == content
    else:
        assert found.path == str(path)
        assert kind != "bin" or found.byte in range(0, len(content) + 1, 5)
