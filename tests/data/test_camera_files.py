"""Files of event cameras: what faery writes is read, and damaged files are errors, never a crash or a hang."""

import struct
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from damaged import damaged, outcome
from phased.data import BadRecording, Recording, Sensor, read

faery = pytest.importorskip("faery")

SENSOR = Sensor(40, 30)
KINDS = {
    "es": ("a.es", {}),
    "aedat4": ("plain.aedat4", {"compression": None}),
    "aedat4 lz4": ("lz4.aedat4", {"compression": ("lz4", 1)}),
    "aedat4 zstd": ("zstd.aedat4", {"compression": ("zstd", 3)}),
    "evt2": ("evt2.raw", {"version": "evt2"}),
    "evt3": ("evt3.raw", {"version": "evt3"}),
    "dat1": ("dat1.dat", {"version": "dat1"}),
    "dat2": ("dat2.dat", {"version": "dat2"}),
}
kinds = pytest.mark.parametrize("kind", KINDS)


def write(path, recording, **options):
    events = np.empty(len(recording), faery.EVENTS_DTYPE)
    events["x"], events["y"], events["t"], events["on"] = recording.x, recording.y, recording.time, recording.polarity
    faery.events_stream_from_array(events, tuple(recording.sensor)).to_file(path, **options)
    return path


@pytest.fixture
def written(tmp_path, recorded):
    """The writer of a file of one kind with a random recording: the file, and the recording."""

    def make(kind, events=300, start=1_000_000):
        name, options = KINDS[kind]
        recording = recorded(events, sensor=SENSOR, start=start)
        return write(tmp_path / name, recording, **options), recording

    return make


@kinds
def test_what_was_written_is_read(written, kind):
    path, before = written(kind)
    after = read(path)
    assert after.sensor == SENSOR
    for name in ("x", "y", "polarity"):
        assert np.array_equal(getattr(after, name), getattr(before, name))
    assert np.array_equal(after.from_start().time, before.from_start().time)


@kinds
def test_times_are_those_of_the_file(written, kind):
    path, before = written(kind)
    first = 0 if kind == "es" else before.time[0]  # faery writes .es files from 0
    assert read(path).time[0] == first


@kinds
@pytest.mark.parametrize("content", [b"", b"\0", b"garbage\n" * 50, bytes(1000), b"\xff" * 1000], ids=range(5))
def test_garbage_is_an_error_that_names_the_file(tmp_path, kind, content):
    path = tmp_path / KINDS[kind][0]
    path.write_bytes(content)
    with pytest.raises(BadRecording) as caught:
        read(path)
    assert str(caught.value).startswith(f"'{path}'")


@kinds
def test_a_missing_file_and_a_folder_are_errors(tmp_path, kind):
    path = tmp_path / KINDS[kind][0]
    with pytest.raises(BadRecording, match="No such file"):
        read(path)
    path.mkdir()
    with pytest.raises(BadRecording, match="got a folder"):
        read(path)


@kinds
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_gives_a_recording_or_an_error(written, kind, data):
    path, _ = written(kind, events=40)
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    found = outcome(lambda: read(path))
    if isinstance(found, Recording):
        assert (found.x < found.sensor.width).all()
        assert (found.y < found.sensor.height).all()
        assert (np.diff(found.time) >= 0).all()
    else:
        assert found.path == str(path)


@pytest.mark.parametrize("kind", ["es", "evt2", "evt3", "dat1", "dat2"])
def test_a_file_that_ends_within_an_event_names_the_byte(written, kind):
    path, _ = written(kind)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(BadRecording, match="copy or record it again") as caught:
        read(path)
    assert caught.value.byte in range(len(whole) - 8, len(whole))


def test_a_packet_that_is_cut_off_names_the_byte_of_its_size(written):
    path, _ = written("aedat4")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadRecording, match=r"the packet must have \d+ bytes, got \d+") as caught:
        read(path)
    assert struct.unpack_from("<I", whole, caught.value.byte)[0] > len(whole) // 2


def test_a_size_of_gigabytes_in_a_damaged_file_is_not_allocated(written):
    path, _ = written("aedat4 lz4")
    content = bytearray(path.read_bytes())
    size = 14 + 4 + struct.unpack_from("<I", content, 14)[0] + 4
    content[size : size + 4] = b"\xff" * 4
    path.write_bytes(content)
    with pytest.raises(BadRecording, match="the packet must have 4294967295 bytes") as caught:
        read(path)
    assert caught.value.byte == size


def test_a_description_that_is_not_text_is_an_error_before_the_decoder_sees_it(written):
    """It aborts the process."""
    path, _ = written("aedat4")
    content = path.read_bytes().replace(b"outInfo", b"o\xc1tInfo", 1)
    path.write_bytes(content)
    with pytest.raises(BadRecording, match=r"the header must be a FlatBuffer with a description, got another: .*utf-8"):
        read(path)


@pytest.mark.parametrize("kind", ["es", "evt2", "evt3", "dat1", "dat2"])
def test_a_pixel_outside_the_sensor_names_its_byte(tmp_path, recorded, kind):
    name, options = KINDS[kind]
    recording = recorded(100, sensor=SENSOR)
    path = write(tmp_path / name, recording, **options)
    smaller = {
        "es": (struct.pack("<HH", 40, 30), struct.pack("<HH", 40, 20)),
        "evt2": (b"height=30\n% geometry 40x30", b"height=20\n% geometry 40x20"),
        "evt3": (b"height=30\n% geometry 40x30", b"height=20\n% geometry 40x20"),
        "dat1": (b"Height 30", b"Height 20"),
        "dat2": (b"Height 30", b"Height 20"),
    }[kind]
    content = path.read_bytes().replace(*smaller, 1)
    path.write_bytes(content)
    rows = SENSOR.height - 1 - recording.y if kind == "es" else recording.y  # .es files count from the bottom
    value = int(rows[rows >= 20][0])
    with pytest.raises(BadRecording, match=rf"y must be from 0 to 19 on a sensor of 40 x 20 pixels, got {value}") as caught:
        read(path)
    assert caught.value.byte is not None
    place = content[caught.value.byte :]
    found = {
        "es": lambda: struct.unpack("<H", place[:2])[0],
        "evt2": lambda: struct.unpack("<I", place[:4])[0] & 0x7FF,
        "evt3": lambda: struct.unpack("<H", place[:2])[0] & 0x7FF,
        "dat1": lambda: struct.unpack("<I", place[4:8])[0] >> 9 & 0xFF,
        "dat2": lambda: struct.unpack("<I", place[4:8])[0] >> 14 & 0x3FFF,
    }[kind]
    assert found() == value


def test_times_of_a_dat_file_that_go_back_name_the_byte(written):
    path, recording = written("dat2")
    content = bytearray(path.read_bytes())
    at = len(content) - 8
    content[at : at + 4] = bytes(4)
    path.write_bytes(content)
    with pytest.raises(BadRecording, match="event 299: time must not go back, got 0 us after") as caught:
        read(path)
    assert caught.value.byte == at
    assert len(recording) == 300


def test_a_clock_of_32_bits_that_wraps_around_goes_on(tmp_path, recorded):
    path = write(tmp_path / "a.dat", recorded(100, sensor=SENSOR, start=2**32 - 150_000), zero_t0=False)
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


def test_a_format_that_faery_cannot_decode_is_named(written):
    path, _ = written("evt2")
    path.write_bytes(path.read_bytes().replace(b"EVT2", b"EVT2.1").replace(b"evt 2.0", b"evt 2.1"))
    with pytest.raises(BadRecording, match=r"the format must be EVT2 or EVT3, got evt2.1. Convert it"):
        read(path)


@pytest.mark.parametrize("content", [b"\x93N", bytes(1000)])
def test_words_without_a_header_are_not_taken_for_events(tmp_path, content):
    (tmp_path / "a.raw").write_bytes(content)
    with pytest.raises(BadRecording, match=r"a.raw', byte 0: it must start with a header, lines that begin with %, got none"):
        read(tmp_path / "a.raw", sensor=(2048, 2048))


def test_a_file_without_events_is_an_error(tmp_path, recorded):
    path = tmp_path / "header.raw"
    path.write_bytes(b"% evt 3.0\n% geometry 40x30\n")
    with pytest.raises(BadRecording, match="a recording must have events, got none"):
        read(path)


def test_events_with_exposures_are_read_without_them(tmp_path):
    dtype = [("t", "=u8"), ("x", "=u2"), ("y", "=u2"), ("exposure", "?"), ("polarity", "?")]
    events = np.array([(1, 2, 3, False, True), (2, 5, 6, True, False), (900, 7, 8, False, False)], dtype)
    with faery.es.Encoder(tmp_path / "atis.es", "atis", False, tuple(SENSOR)) as encoder:
        encoder.write(events)
    recording = read(tmp_path / "atis.es")
    assert recording.x.tolist() == [2, 7]
    assert recording.time.tolist() == [1, 900]
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
