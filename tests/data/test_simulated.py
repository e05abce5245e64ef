"""Simulated recordings in the cache: the same whatever the workers, the number of images and the interruptions."""

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from digits import IMAGES, stand_in
from disk import room_for
from phased.data import BadFile, Recordings, cache_folder, camera, read_mnist, simulated, simulated_recordings
from phased.data.camera import Camera
from phased_lab.runs.progress import progress, shown

CHUNK, ALL = 4, IMAGES["train"]


@pytest.fixture(autouse=True)
def folder(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """MNIST with 24 images, in chunks of 4."""
    monkeypatch.setattr(simulated, "CHUNK", CHUNK)
    return data_folder / "mnist"


class Watched:
    """The stand-in for the camera. It counts chunks by their first image, and can be stopped at one."""

    def __init__(self) -> None:
        self.made: Counter[bytes] = Counter()
        self.stop_at: int | None = None
        self.lock = threading.Lock()

    def __call__(self, images: torch.Tensor, *rest: object) -> Recordings:
        if len(images) > 1:  # one image: the key of the cache
            with self.lock:
                self.made[images[0].cpu().numpy().tobytes()] += 1
                if self.stop_at is not None and len(self.made) > self.stop_at:
                    raise KeyboardInterrupt
        return stand_in(images, *rest)

    @property
    def chunks(self) -> int:
        return self.made.total()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Watched:
    camera = Watched()
    monkeypatch.setattr(simulated, "simulate", camera)
    return camera


def assert_same(one: Recordings, other: Recordings) -> None:
    for name in ("address", "time", "offset", "label", "number"):
        a, b = getattr(one, name), getattr(other, name)
        assert a.dtype == b.dtype
        assert a.tolist() == b.tolist()


def differs(one: Recordings, other: Recordings) -> bool:
    return one.time.tolist() != other.time.tolist()


def test_labels_and_numbers_are_those_of_the_images(folder):
    made = simulated_recordings(folder, "train")
    assert len(made) == ALL
    assert made.label.tolist() == read_mnist(folder, "train").labels.tolist()
    assert made.number.tolist() == list(range(1, ALL + 1))
    assert made.offset[-1] == len(made.address) == len(made.time)
    assert all(len(recording) >= 20 for recording in made)


def test_a_chunk_is_what_the_camera_records_with_a_seed_of_its_own(folder, monkeypatch):
    monkeypatch.setattr(simulated, "simulate", camera.simulate)
    monkeypatch.setattr(simulated, "CHUNK", 2)
    made = simulated_recordings(folder, "train", 4, seed=3, workers=2)
    images = torch.from_numpy(read_mnist(folder, "train").images)
    seed = int(np.random.SeedSequence([3, 1]).generate_state(1, np.uint64)[0] >> np.uint64(1))
    wanted = camera.simulate(images[2:4], seed=seed)
    assert made[2:].address.tolist() == wanted.address.tolist()
    assert made[2:].time.tolist() == wanted.time.tolist()
    assert differs(made[:1], simulated_recordings(folder, "train", 1, seed=4)), "another seed"


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("images", [1, CHUNK, CHUNK + 1, ALL - 1])
def test_neither_workers_nor_later_images_change_a_recording(folder, tmp_path, workers, images):
    everything = simulated_recordings(folder, "train", workers=1)
    made = simulated_recordings(folder, "train", images, workers=workers, cache=tmp_path)
    assert_same(made, everything[:images])


def test_recordings_are_simulated_once_and_then_mapped(folder, watched):
    first = simulated_recordings(folder, "train")
    assert watched.chunks == ALL // CHUNK
    again = simulated_recordings(folder, "train")
    assert watched.chunks == ALL // CHUNK
    assert_same(again, first)
    (place,) = cache_folder().iterdir()
    assert [path.suffix for path in place.iterdir()] == [".events"], "no lock, and no file of a chunk"
    assert place.name.startswith("simulated-train-")


def test_fewer_images_use_the_cache_of_more_and_more_images_extend_it(folder, watched, tmp_path):
    few = simulated_recordings(folder, "train", 6)
    assert watched.chunks == 2
    assert_same(simulated_recordings(folder, "train", 8), simulated_recordings(folder, "train", 8, cache=tmp_path))
    watched.made.clear()
    everything = simulated_recordings(folder, "train")
    assert watched.chunks == ALL // CHUNK - 2
    assert_same(everything[:6], few)
    assert_same(simulated_recordings(folder, "train", 6), few)
    assert watched.chunks == ALL // CHUNK - 2
    (place,) = cache_folder().iterdir()
    assert len(list(place.iterdir())) == 1


def test_the_cache_knows_what_recordings_depend_on(folder, watched, monkeypatch):
    plain = simulated_recordings(folder, "train")
    assert len(simulated_recordings(folder, "test")) == IMAGES["t10k"]
    assert differs(simulated_recordings(folder, "train", seed=1), plain)
    watched.made.clear()
    simulated_recordings(folder, "train", camera=replace(Camera(), noise=0.1))
    assert watched.chunks == ALL // CHUNK, "another camera"
    monkeypatch.setattr(simulated, "simulate", lambda images, label, seed, *rest: stand_in(images, label, seed + 1))
    assert differs(simulated_recordings(folder, "train"), plain), "the camera's code was changed"
    monkeypatch.setattr(simulated, "simulate", watched)
    assert_same(simulated_recordings(folder, "train"), plain)
    labels = folder / "train-labels-idx1-ubyte.gz"
    labels.unlink()
    header = np.array([0x801, ALL], ">i4").tobytes()
    labels.with_suffix("").write_bytes(header + bytes([5] * ALL))
    assert set(simulated_recordings(folder, "train").label.tolist()) == {5}, "other files of MNIST"


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("stop_at", [0, 1, 4])
def test_an_interrupted_call_is_continued_by_the_next(folder, watched, tmp_path, stop_at, workers):
    watched.stop_at = stop_at
    with pytest.raises(KeyboardInterrupt):
        simulated_recordings(folder, "train", workers=workers)
    kept = list(cache_folder().rglob("parts/*.events"))
    assert len(kept) == stop_at
    (place,) = cache_folder().iterdir()
    for leftover in (place, place / "parts"):  # as a process leaves them that is killed
        (leftover / ".phased-0123456789abcdef.part").write_bytes(b"some")
    watched.made.clear()
    watched.stop_at = None
    made = simulated_recordings(folder, "train", workers=workers)
    assert watched.chunks == ALL // CHUNK - stop_at
    assert_same(made, simulated_recordings(folder, "train", cache=tmp_path))
    assert [path.suffix for path in place.iterdir()] == [".events"]


def test_ctrl_c_waits_for_begun_chunks_alone(folder, watched):
    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulated_recordings(folder, "train", progress=stop, workers=1)
    assert 1 <= watched.chunks < ALL // CHUNK


def test_a_damaged_file_is_made_again(folder, watched):
    wanted = simulated_recordings(folder, "train").time.tolist()
    (file,) = cache_folder().rglob("*.events")
    data = file.read_bytes()
    for damaged in (b"", data[:-1], data[: len(data) // 2], data[:-200] + bytes(200)):
        file.unlink()  # not changed in place: it is mapped
        file.write_bytes(damaged)
        assert simulated_recordings(folder, "train").time.tolist() == wanted
    assert watched.chunks == 5 * ALL // CHUNK


def test_two_calls_at_once_simulate_once(folder, watched):
    made: list[Recordings] = []
    calls = [threading.Thread(target=lambda: made.append(simulated_recordings(folder, "train"))) for _ in range(4)]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    assert len(made) == 4
    for other in made[1:]:
        assert_same(other, made[0])
    assert set(watched.made.values()) == {1}


def test_a_full_disk_is_an_error_that_names_the_setting_and_keeps_what_is_done(folder, watched):
    simulated_recordings(folder, "train", 1)
    (chunk,) = cache_folder().rglob("*.events")
    watched.made.clear()
    # Room for the file of each chunk, and not for all of them in one.
    with (
        room_for(2 * chunk.stat().st_size),
        pytest.raises(OSError, match=r"cannot write .*File too large.*PHASED_CACHE sets its folder"),
    ):
        simulated_recordings(folder, "train")
    assert watched.chunks == ALL // CHUNK - 1
    assert len(simulated_recordings(folder, "train")) == ALL
    assert watched.chunks == ALL // CHUNK - 1


def test_a_cache_that_cannot_be_written_to_leaves_the_recordings_in_memory(folder, tmp_path):
    wanted = simulated_recordings(folder, "train", 10)
    (tmp_path / "file").write_text("not a folder")
    with pytest.warns(UserWarning, match=r"simulated in memory.*PHASED_CACHE"):
        assert_same(simulated_recordings(folder, "train", 10, cache=tmp_path / "file"), wanted)


def test_progress_counts_from_what_there_is_to_all(folder):
    def counted(images: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        simulated_recordings(folder, "train", images, progress=lambda done, total: found.append((done, total)))
        return found

    assert counted(6) == [(0, 6), (4, 6), (6, 6)]
    assert counted(6) == [], "they are in the cache"
    assert counted(14) == [(8, 14), (12, 14), (14, 14)]


def test_progress_reaches_a_command_that_shows_it():
    assert progress("reading") is None
    found = []
    with shown(lambda *news: found.append(news)):
        report = progress("reading")
        assert report is not None
        report(1, 2)
    assert found == [("reading", 1, 2)]
    assert progress("reading") is None


def test_the_number_of_threads_of_torch_stays(folder):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        simulated_recordings(folder, "train", workers=2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_what_is_wrong_is_named(folder, tmp_path):
    with pytest.raises(ValueError, match=rf"images must be at most {ALL}, .*train set in '{folder}', got {ALL + 1}"):
        simulated_recordings(folder, "train", ALL + 1)
    with pytest.raises(ValueError, match="images must be"):
        simulated_recordings(folder, "train", 0)
    with pytest.raises(BadFile, match="train-images"):
        simulated_recordings(tmp_path, "train")


@pytest.mark.gpu
def test_a_gpu_simulates_in_every_call_and_needs_no_cache(folder, watched):
    for _ in range(2):
        made = simulated_recordings(folder, "train", 10, "cuda")
        assert (made.address.device.type, len(made)) == ("cuda", 10)
    assert watched.chunks == 2
    assert not cache_folder().exists()
