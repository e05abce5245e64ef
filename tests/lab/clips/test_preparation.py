"""Clips are prepared once, whatever is interrupted, missing or bad."""

import os
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from disk import room_for
from examples import run_page
from phased.data import cache_folder
from phased_lab import clips
from phased_lab.clips import BadClip, find_grid, load_clips, preparation, prepare, prepared, store
from phased_lab.clips.clip import prepare_clip
from videos import write_alignment, write_video

COUNT = 5
GUIDE = Path(__file__).parents[3] / "docs" / "clips.md"


class Watched:
    """Counts the clips that are prepared, and can stop at one."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        self.stop_at, self.error = -1, KeyboardInterrupt()

    def __call__(self, path, alignment):
        if self.made.total() == self.stop_at:
            raise self.error
        self.made[Path(path).stem] += 1
        return prepare_clip(path, alignment)


@pytest.fixture
def watched(monkeypatch) -> Watched:
    watch = Watched()
    monkeypatch.setattr(preparation, "prepare_clip", watch)
    return watch


def test_a_clip_is_one_file_and_a_second_call_prepares_nothing(folder, watched):
    assert prepared(folder) is None
    with pytest.raises(FileNotFoundError, match=r"s7', got none; speakers with clips there: s1, s2"):
        prepare(folder, workers=1, speakers=["s7"])
    assert prepare(folder.parent, workers=1, speakers=["s2"]).names == ("s2/bbaf3s",)
    assert watched.made.total() == 1
    assert prepared(folder) is None, "not all of them"
    made = prepare(folder, workers=1)
    assert (len(made.names), made.skipped, made.contradictions, made.damaged) == (COUNT, (), (), ())
    assert prepare(folder, workers=1) == made
    assert watched.made.total() == COUNT
    (place,) = cache_folder().iterdir()
    assert place == made.folder == prepared(folder) == prepared(folder.parent)
    assert tuple(sorted(str(path.relative_to(place).with_suffix("")) for path in place.glob("*/*"))) == made.names


def test_clips_are_found_and_counted_without_being_prepared(folder, watched, tmp_path, monkeypatch):
    made = prepare(folder, workers=1)
    for place in (folder, made.folder):
        monkeypatch.setenv("PHASED_DATA", str(place))
        assert prepared() == made.folder
    monkeypatch.delenv("PHASED_DATA")
    monkeypatch.chdir(made.folder)
    with pytest.raises(FileNotFoundError, match=r"expected GRID.*\(the cache; PHASED_DATA is not set\)"):
        prepared()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "model.safetensors").touch()
    with pytest.raises(FileNotFoundError, match="expected GRID"):
        prepared(tmp_path / "data")
    (folder / "s1" / "swwb1a.mkv").unlink()
    assert prepared(folder) is None
    (made.folder / "clips.json").write_text("damaged")
    assert prepared(folder) is None
    assert watched.made.total() == COUNT


def test_an_interrupted_call_is_continued_by_the_next(folder, watched, tmp_path):
    watched.stop_at = 3
    with pytest.raises(KeyboardInterrupt):
        prepare(folder, tmp_path / "out", workers=1)
    watched.stop_at = -1
    found: list[tuple[int, int]] = []
    made = prepare(folder, tmp_path / "out", workers=1, progress=lambda *done: found.append(done))
    assert found == [(done, COUNT) for done in range(3, COUNT + 1)]
    assert set(watched.made.values()) == {1}, "no clip is prepared twice"
    assert watched.made.total() == COUNT
    assert load_clips(made.folder).names == made.names


def test_new_changed_removed_and_damaged_clips_alone_are_prepared_again(folder, watched, tmp_path):
    prepare(folder, tmp_path / "out", workers=1)
    watched.made.clear()
    changed = folder / "s1" / "bbaf2n.mkv"
    os.utime(changed, ns=(0, changed.stat().st_mtime_ns + 10**9))
    write_video(folder / "s1" / "bgaa1n.mkv")
    write_alignment(folder / "align" / "s1" / "bgaa1n.align", "bin green at a one now")
    (folder / "s1" / "swwb1a.mkv").unlink()
    damaged = tmp_path / "out" / "s2" / "bbaf3s.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    made = prepare(folder, tmp_path / "out", workers=1)
    assert watched.made == Counter({"bbaf2n": 1, "bgaa1n": 1, "bbaf3s": 1})
    assert "s1/bgaa1n" in made.names
    assert "s1/swwb1a" not in made.names
    assert load_clips(made.folder).names == made.names


def test_bad_clips_are_named_and_left_out(folder, tmp_path):
    (folder / "align" / "s1" / "bbaf2n.align").unlink()
    (folder / "s1" / "lgbx9s.mkv").write_text("a letter")
    whole = (folder / "s1" / "prizzp.mkv").read_bytes()
    (folder / "s1" / "prizzp.mkv").write_bytes(whole[: len(whole) // 2])
    write_video(folder / "s2" / "bbaf3s.mkv", sound=None)
    made = prepare(folder, tmp_path / "out", workers=1)
    assert made.names == load_clips(made.folder).names == ("s1/swwb1a",)
    reasons = {Path(error.path).name: str(error) for error in made.skipped}
    assert set(reasons) == {"bbaf2n.align", "lgbx9s.mkv", "prizzp.mkv", "bbaf3s.mkv"}
    assert "No such file" in reasons["bbaf2n.align"]
    assert "must be a video file" in reasons["lgbx9s.mkv"]
    assert "until the last word ends, at 700 ms" in reasons["prizzp.mkv"]
    assert "must have sound" in reasons["bbaf3s.mkv"]
    with pytest.raises(BadClip, match=r"bbaf2n\.align"):
        prepare(folder, tmp_path / "strict", workers=1, skip_bad=False)


def test_an_unexpected_error_costs_one_clip_and_a_full_disk_ends_the_call(folder, watched, tmp_path):
    watched.stop_at, watched.error = 4, ZeroDivisionError("of a frame")
    made = prepare(folder, tmp_path / "out", workers=1)
    assert len(made.names) == COUNT - 1
    assert "ZeroDivisionError: of a frame" in str(made.skipped[0])
    watched.stop_at = -1
    with room_for(1000), pytest.raises(OSError, match=r"cannot write .*\.safetensors.*Make room"):
        prepare(folder, tmp_path / "another", workers=1)


def test_only_bad_clips_and_no_clips_are_errors(folder, tmp_path):
    for path in folder.glob("align/*/*.align"):
        path.unlink()
    (folder / "align" / "s1").rmdir()
    with pytest.raises(BadClip, match=r"bbaf2n\.align.*All 5 clips are bad; this is the first"):
        prepare(folder, tmp_path / "out", workers=1)
    for place in [tmp_path / "none"] * 2:
        for call in (lambda place: prepare(place, tmp_path / "out"), prepared):
            with pytest.raises(FileNotFoundError, match=rf"expected GRID.*'{place}' \(the folder given\).*Download it"):
                call(place)
        place.mkdir(exist_ok=True)


def test_other_layouts_of_grid_are_found_and_doubtful_clips_are_kept_and_reported(folder, tmp_path, monkeypatch):
    (folder / "align" / "s2").rename(folder / "s2" / "align")
    inner = folder / "s2" / "video" / "mpg_6000"
    inner.mkdir(parents=True)
    (folder / "s2" / "bbaf3s.mkv").rename(inner / "bbaf3s.MKV")
    (folder / "s1" / "notes.txt").write_text("not a clip")
    monkeypatch.setenv("PHASED_DATA", str(folder.parent))
    assert find_grid() == find_grid(folder) == folder
    write_alignment(folder / "align" / "s1" / "bbaf2n.align", "bin red at f two now")
    monkeypatch.setattr(preparation, "DAMAGED", 0.5)  # gray levels: less than frames of made-up clips differ by
    made = prepare(find_grid(), tmp_path / "out", workers=1)
    assert len(made.names) == len(made.damaged) == COUNT
    assert made.damaged[0].startswith("s1/bbaf2n: two frames in a row differ by 1 gray level")
    assert made.contradictions == ("s1/bbaf2n: its name spells 'blue', its alignment has 'red'.",)


def test_two_calls_at_once_prepare_each_clip_once(folder, watched, tmp_path):
    with ThreadPoolExecutor(3) as pool:
        first, *others = pool.map(lambda _: prepare(folder, tmp_path / "out", workers=1), range(3))
    assert others == [first] * 2
    assert set(watched.made.values()) == {1}


def test_threads_prepare_real_clips(grid, tmp_path):
    for name in ("bbaf2n", "bbaf4p"):
        place = tmp_path / "s1" / f"{name}.mkv"
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(grid / "s1" / f"{name}.mkv")
    (tmp_path / "align").symlink_to(grid / "align")
    made = prepare(tmp_path, tmp_path / "out", workers=2)
    assert (made.names, made.skipped) == (("s1/bbaf2n", "s1/bbaf4p"), ())
    assert all(path.stat().st_size < 40_000 for path in made.folder.glob("s1/*"))
    assert load_clips(made.folder).video.arrays["x"].shape == (150, 48, 48)
    assert store.read(made.folder, made.names[0]).jump < 5


def test_the_code_of_the_guide_runs(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_page(GUIDE, {"path/to/data": str(folder.parent)} | ({} if torch.cuda.is_available() else {'"cuda"': '"cpu"'}))
    printed = capsys.readouterr().out
    assert all(text in printed for text in ("5 of 5", "5 clips\n", "torch.Size([96, 48, 48])"))  # the last: of four clips
    assert all(hasattr(clips, name) for name in re.findall(r"`(\w+)\(", GUIDE.read_text(encoding="utf-8")))
