"""Files of event cameras: what faery writes is read, and damaged files are errors, never a crash or a hang."""

import re
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from event_files import CAMERA_FILES, SENSOR, write
from phased.data import BadRecording, read
from recordings import assert_equal, recording

faery = pytest.importorskip("faery")


@pytest.mark.parametrize("kind", CAMERA_FILES)
def test_what_was_written_is_read(written, kind):
    path, before = written(kind)
    after = read(path)
    assert_equal(after, before.from_start() if kind == "es" else before)  # faery writes .es files from 0


def packet_size_at(content: bytes) -> int:
    """The byte at which the size of the first packet of an .aedat4 file is."""
    return 14 + 4 + struct.unpack_from("<I", content, 14)[0] + 4


def swapped(content: bytes, at: int, new: bytes) -> bytes:
    return content[:at] + new + content[at + len(new) :]


DIES = -signal.SIGABRT
LARGE, PACKET = b"\xff" * 4, "the packet must have 4294967295 bytes, got"
HEADER, NO_HEADER = "the header must have 4294967295 bytes, got", "it must start with a header, lines that begin with %, got none"
NO_TEXT = "the header must be a FlatBuffer with a description, got another: 'utf-8' codec"
BACK = "event 299: time must not go back, got 0 us after"


class Damage(NamedTuple):
    """A damaged file that is refused before faery reads it, since faery alone ends the process or returns other events."""

    kind: str
    alone: int  # how many events faery alone reads, or how its process ends
    message: str
    at: Callable[[bytes], int]  # the byte that the error names
    damage: Callable[[bytes, int], bytes]

    @classmethod
    def cut(cls, kind: str, size: int) -> "Damage":
        message = f"each event must have {size} bytes, got {size - 1}. The file is damaged or truncated: copy or record it again"
        return cls(kind, 299, message, lambda content: len(content) - size, lambda content, at: content[:-1])


DAMAGES = [
    Damage("aedat4", DIES, NO_TEXT, lambda content: 18, lambda content, at: content.replace(b"string", b"str\x80ng", 1)),
    Damage("aedat4", DIES, PACKET, packet_size_at, lambda content, at: swapped(content, at, LARGE)),
    Damage("aedat4 lz4", DIES, PACKET, packet_size_at, lambda content, at: swapped(content, at, LARGE)),
    Damage("aedat4", DIES, HEADER, lambda content: 14, lambda content, at: swapped(content, at, LARGE)),
    *(Damage(kind, 7, NO_HEADER, lambda content: 0, lambda content, at: b"\x93N") for kind in ("evt2", "evt3")),
    *(Damage.cut(kind, size) for kind, size in (("es", 5), ("evt2", 4), ("evt3", 2), ("dat1", 8), ("dat2", 8))),
    *(  # faery alone repeats the time before
        Damage(kind, 300, BACK, lambda content: len(content) - 8, lambda content, at: swapped(content, at, bytes(4)))
        for kind in ("dat1", "dat2")
    ),
]
ALONE = """
import resource, sys
import faery
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
list(faery.events_stream_from_file(sys.argv[1]))
"""


@pytest.mark.parametrize("row", DAMAGES, ids=lambda row: f"{row.kind}: {row.message[:40]}")
def test_a_file_that_faery_alone_reads_wrongly_or_dies_of_is_an_error_with_its_byte(written, row):
    path, _ = written(row.kind)
    whole = path.read_bytes()
    path.write_bytes(row.damage(whole, row.at(whole)))
    if row.alone == DIES:
        assert subprocess.run([sys.executable, "-c", ALONE, path], capture_output=True, check=False).returncode == DIES
    else:
        assert sum(map(len, faery.events_stream_from_file(path, dimensions_fallback=(2048, 2048)))) == row.alone
    with pytest.raises(BadRecording, match=re.escape(row.message)) as caught:
        read(path, sensor=(2048, 2048))
    assert (caught.value.path, caught.value.byte) == (str(path), row.at(whole))


@pytest.mark.parametrize("kind", ["es", "evt2", "evt3", "dat1", "dat2"])
def test_a_pixel_outside_the_sensor_is_an_error_in_the_words_of_faery(written, kind):
    path, _ = written(kind)
    content = path.read_bytes()
    for size, smaller in (
        (struct.pack("<HH", 40, 30), struct.pack("<HH", 40, 20)),
        (b"height=30\n% geometry 40x30", b"height=20\n% geometry 40x20"),
        (b"Height 30", b"Height 20"),
    ):
        content = content.replace(size, smaller, 1)
    path.write_bytes(content)
    with pytest.raises(BadRecording, match=r"faery cannot decode: y overflow \(y=2\d must be strictly smaller than height=20\)"):
        read(path)


def test_a_clock_of_32_bits_that_wraps_around_goes_on(tmp_path):
    path = write(tmp_path / "a.dat", recording(100, sensor=SENSOR, start=2**32 - 150_000), zero_t0=False)
    time = read(path).time
    assert time[-1] > 2**32 > time[0]
    assert (np.diff(time) >= 0).all()


@pytest.mark.parametrize("kind", ["evt2", "evt3", "dat2"])
def test_the_size_of_the_sensor_is_needed_and_can_be_passed(written, kind):
    path, before = written(kind)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(line for line in lines if not line.startswith((b"% geom", b"% form", b"% Wid", b"% Hei"))))
    with pytest.raises(
        BadRecording, match=r"must have the size of the sensor, got none. Pass sensor=\(width, height\) or --sensor"
    ):
        read(path)
    after = read(path, sensor=SENSOR)
    assert after.sensor == SENSOR
    assert np.array_equal(after.y, before.y)


def test_another_format_and_a_file_without_events_are_errors(tmp_path):
    path = tmp_path / "header.raw"
    path.write_bytes(b"% evt 2.1\n% format EVT2.1\n% geometry 40x30\n" + bytes(8))
    with pytest.raises(BadRecording, match=r"faery cannot decode: not yet implemented: implement EVT2\.1"):
        read(path)
    path.write_bytes(b"% evt 3.0\n% geometry 40x30\n")
    with pytest.raises(BadRecording, match="a recording must have events, got none"):
        read(path)


def test_events_with_exposures_are_read_without_them(tmp_path):
    dtype = [("t", "=u8"), ("x", "=u2"), ("y", "=u2"), ("exposure", "?"), ("polarity", "?")]
    events = np.array([(1, 2, 3, False, True), (2, 5, 6, True, False), (900, 7, 8, False, False)], dtype)
    with faery.es.Encoder(tmp_path / "atis.es", "atis", False, tuple(SENSOR)) as encoder:
        encoder.write(events)
    found = read(tmp_path / "atis.es")
    assert found.x.tolist() == [2, 7]
    assert found.time.tolist() == [1, 900]
    content = (tmp_path / "atis.es").read_bytes()
    (tmp_path / "atis.es").write_bytes(content[:-2])
    with pytest.raises(BadRecording, match="each event must have 5 bytes, got 3") as caught:
        read(tmp_path / "atis.es")
    assert caught.value.byte == len(content) - 5


def test_panics_of_the_decoder_are_errors_and_interrupts_are_not(written, monkeypatch):
    panic = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})
    path, _ = written("es")
    for raised, expected in ((panic("index out of range"), BadRecording), (KeyboardInterrupt(), KeyboardInterrupt)):

        def fail(*_, raised=raised, **__):
            raise raised

        monkeypatch.setattr(faery, "events_stream_from_file", fail)
        with pytest.raises(expected):
            read(path)


def test_without_faery_the_error_says_how_to_install_it(written, monkeypatch):
    path, _ = written("es")
    monkeypatch.setitem(sys.modules, "faery", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs faery, .* Install it with: pip install 'phased\[events\]'"):
        read(path)
