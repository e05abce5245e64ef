"""Simulated recordings in the cache: the same whatever the workers and the number of images."""

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from digits import IMAGES, stand_in
from phased.data import BadFile, Recordings, cache_folder, camera, read_mnist, simulated, simulated_recordings
from phased.data.camera import Camera

CHUNK, ALL = 4, IMAGES["train"]


@pytest.fixture(autouse=True)
def folder(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """MNIST with 24 images, in chunks of 4."""
    monkeypatch.setattr(simulated, "CHUNK", CHUNK)
    return data_folder / "mnist"


class Watched:
    """The stand-in for the camera. It counts chunks, and waits for `go` after the first one."""

    def __init__(self) -> None:
        self.chunks = 0
        self.lock, self.go = threading.Lock(), threading.Event()
        self.go.set()

    def __call__(self, images: torch.Tensor, *rest: object) -> Recordings:
        with self.lock:
            self.chunks += len(images) > 1  # one image: the key of the cache
            waits = self.chunks > 1
        if waits:
            assert self.go.wait(60)
        return stand_in(images, *rest)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Watched:
    camera = Watched()
    monkeypatch.setattr(simulated, "simulate", camera)
    return camera


def assert_same(one: Recordings, other: Recordings) -> None:
    for name, array in one.arrays.items():
        torch.testing.assert_close(other.arrays[name], array, rtol=0, atol=0)


def differs(one: Recordings, other: Recordings) -> bool:
    return one.time.tolist() != other.time.tolist()


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


def test_neither_workers_nor_later_images_change_a_recording(folder, tmp_path):
    everything = simulated_recordings(folder, "train", workers=1)
    assert everything.label.tolist() == read_mnist(folder, "train").labels.tolist()
    assert everything.number.tolist() == list(range(1, ALL + 1))
    for images, workers in ((1, 5), (CHUNK, 2), (CHUNK + 1, 1), (CHUNK + 1, 2), (ALL - 1, 5)):
        made = simulated_recordings(folder, "train", images, workers=workers, cache=tmp_path / f"{images}-{workers}")
        assert_same(made, everything[:images])


def test_recordings_are_simulated_once_and_fewer_are_the_first_ones(folder, watched):
    few = simulated_recordings(folder, "train", 6)
    assert watched.chunks == 2
    everything = simulated_recordings(folder, "train")
    assert watched.chunks == 2 + ALL // CHUNK
    assert_same(everything[:6], few)
    assert_same(simulated_recordings(folder, "train", 6), few)
    assert_same(simulated_recordings(folder, "train"), everything)
    assert watched.chunks == 2 + ALL // CHUNK
    (file,) = cache_folder().glob("*.safetensors")
    assert file.name.startswith("simulated-train-")


def test_the_cache_knows_what_recordings_depend_on(folder, watched, monkeypatch):
    plain = simulated_recordings(folder, "train")
    assert len(simulated_recordings(folder, "test")) == IMAGES["t10k"]
    assert differs(simulated_recordings(folder, "train", seed=1), plain)
    before = watched.chunks
    simulated_recordings(folder, "train", camera=replace(Camera(), noise=0.1))
    assert watched.chunks == before + ALL // CHUNK, "another camera"
    monkeypatch.setattr(simulated, "simulate", lambda images, label, seed, *rest: stand_in(images, label, seed + 1))
    assert differs(simulated_recordings(folder, "train"), plain), "the camera's code was changed"
    monkeypatch.setattr(simulated, "simulate", watched)
    assert_same(simulated_recordings(folder, "train"), plain)
    labels = folder / "train-labels-idx1-ubyte.gz"
    labels.unlink()
    header = np.array([0x801, ALL], ">i4").tobytes()
    labels.with_suffix("").write_bytes(header + bytes([5] * ALL))
    assert set(simulated_recordings(folder, "train").label.tolist()) == {5}, "other files of MNIST"


def test_ctrl_c_waits_for_begun_chunks_alone(folder, watched):
    def stop(done: int, total: int) -> None:
        if done:
            watched.go.set()
            raise KeyboardInterrupt

    watched.go.clear()
    with pytest.raises(KeyboardInterrupt):
        simulated_recordings(folder, "train", progress=stop, workers=1)
    assert 1 <= watched.chunks < ALL // CHUNK


def test_progress_counts_to_all_and_the_number_of_threads_of_torch_stays(folder):
    found: list[tuple[int, int]] = []
    torch.set_num_threads(2)
    try:
        for _ in range(2):  # the second time they are in the cache
            simulated_recordings(folder, "train", 6, progress=lambda done, total: found.append((done, total)), workers=2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert found == [(0, 6), (4, 6), (6, 6)]


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
