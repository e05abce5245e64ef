"""Lip reading: batches of clips, labels of steps, and what is changed in training."""

import math
from dataclasses import replace

import pytest
import torch

from phased.fusion import Timeline
from phased_lab.lipreader.network import standardised
from phased_lab.paper.lipreading import LIPREADING, counted, data
from phased_lab.paper.lipreading.task import Changes, Sentences, labels, pictures_of
from phased_lab.runs.sweep import runs_of

CPU = torch.device("cpu")


@pytest.fixture
def task(clips) -> Sentences:
    return Sentences(clips=(21, 2), folder=str(clips))


def test_damaged_clips_are_in_neither_part_and_sound_is_standardised_over_the_training_clips(clips):
    loaded = data.load(clips)
    assert len(loaded.clips) == 23
    assert loaded.clips.names == (*loaded.parts.train, *loaded.parts.test)
    assert "s2/clip03" not in (*loaded.parts.train, *loaded.parts.test)
    assert data.there(str(clips)) == loaded.parts
    audio = loaded.scaling(loaded.clips.sound.rows(torch.arange(len(loaded.parts.train))).arrays["x"])
    torch.testing.assert_close(audio.mean(0), torch.zeros(39), atol=1e-4, rtol=0)
    torch.testing.assert_close(audio.std(0), torch.ones(39), atol=1e-4, rtol=0)
    few = data.load(clips, most=5).clips.names
    assert sorted(few) == ["s1/clip00", "s1/clip01", "s1/clip02", "s2/clip00", "s2/clip01"], "the first of every speaker"


def test_a_step_belongs_to_the_word_that_began_before_it_and_has_not_ended():
    time = torch.tensor([[0.0], [10.0], [20.0], [30.0], [40.0], [50.0], [0.0]])
    spans = torch.tensor([[[10.0, 30.0], [30.0, 40.0], [60.0, 70.0], [70.0, 80.0], [80.0, 90.0], [90.0, 95.0]]])
    words = torch.tensor([[3, 7, 11, 20, 40, 49]])
    y, mask, segment = labels(Timeline(time, torch.tensor([6]), {}), words, spans)
    assert mask.flatten().tolist() == [False, False, True, True, True, False, False]
    assert y[mask].tolist() == [3, 3, 7]
    assert segment[mask].tolist() == [0, 0, 1]


@pytest.mark.parametrize("resolution, step, steps", [("high", 10.0, 99), ("low", 40.0, 25)])
def test_the_timeline_has_a_step_at_every_frame_and_every_row_of_sound_and_labels_are_the_words_spoken_then(
    task, resolution, step, steps
):
    batch = replace(task, resolution=resolution).batch(0, "test", 1, 0, 2)
    video, audio = batch.streams["video"], batch.streams["audio"]
    assert video.x.shape == (25, 2, 1, 48, 48)
    assert video.time[:, 0].diff().unique().tolist() == [40.0]
    assert audio.time[:, 0].diff().unique().tolist() == [step]
    assert len(batch.y) == steps
    # Six words of 120 ms.
    assert batch.mask.sum(0).tolist() == [6 * 120 / step] * 2
    assert all(batch.segment[batch.mask[:, b], b].unique().tolist() == list(range(6)) for b in range(2))

    loaded = task.load()
    for place, words in enumerate(loaded.clips.words[-2:]):
        mine = batch.mask[:, place]
        assert torch.equal(batch.y[mine, place], words[batch.segment[mine, place]])


def test_an_epoch_visits_every_training_clip_once_in_an_order_of_its_own(task):
    placed, seen = task.to(CPU, 8), []
    for epoch in (1, 2):
        batches = [placed.batch(0, "train", epoch, index, size) for index, size in enumerate((8, 8, 5))]
        seen.append(torch.cat([batch.y.sum(0) for batch in batches]))
    assert not torch.equal(*seen)
    assert torch.equal(*(sums.sort().values for sums in seen))
    with pytest.raises(ValueError, match="an epoch must have at most 21 sequences"):
        placed.batch(0, "train", 1, 2, 8)


def test_batches_are_functions_of_their_arguments_and_all_frames_of_a_clip_are_changed_alike(task):
    task = replace(task, flip=True, shift=3.0, zoom=0.1, light=0.3)
    one, other = (task.batch(3, "train", 5, 1, 4) for _ in range(2))
    assert all(torch.equal(one.streams[name].x, other.streams[name].x) for name in ("video", "audio"))
    video = one.streams["video"].x
    assert not torch.equal(video, task.batch(4, "train", 5, 1, 4).streams["video"].x)
    # The made-up clips begin with five equal frames.
    assert torch.equal(video[:5], video[:1].expand(5, -1, -1, -1, -1))


def test_further_tests_have_the_sense_they_name_and_zeros_for_the_other_or_both(task):
    for sense, test in task.evaluations().items():
        batch = test.task.batch(0, "test", 1, 0, test.sequences)
        absent = {name for name, samples in batch.streams.items() if not samples.x.any()}
        assert absent == {"video": {"audio"}, "audio": {"video"}, "both": set()}[sense]
    assert list(task.evaluations()) == ["video", "audio", "both"]
    assert task.sense == "video"


def test_no_training_clip_lacks_both_senses_and_the_shares_are_as_set(clips):
    placed = Sentences(clips=(21, 2), folder=str(clips), silent=0.5, blind=0.25).to(CPU, 21)
    drawn = [placed.changes(21) for _ in range(60)]
    heard, seen = (torch.cat([getattr(changes, name) for changes in drawn]) for name in ("heard", "seen"))
    assert bool((heard | seen).all())
    # 1260 draws: three standard deviations.
    assert math.isclose(float((~heard).float().mean()), 0.5, abs_tol=0.045)
    assert math.isclose(float((~seen).float().mean()), 0.25, abs_tol=0.04)


def test_a_mirrored_picture_is_mirrored_and_an_unchanged_one_is_the_same():
    frames = torch.randint(256, (3, 2, 48, 48), dtype=torch.uint8)
    mirror = torch.tensor([[[1.0, 0, 0], [0, 1, 0]], [[-1.0, 0, 0], [0, 1, 0]]])
    made = pictures_of(frames, Changes(placed=mirror))
    plain = standardised(frames)
    torch.testing.assert_close(made[:, 0, 0], plain[:, 0], atol=1e-4, rtol=0)
    torch.testing.assert_close(made[:, 1, 0], plain[:, 1].flip(-1), atol=1e-4, rtol=0)


def test_a_clip_that_begins_later_is_the_same_clip_later(task):
    plain, late = (each.batch(3, "train", 2, 0, 5) for each in (task, replace(task, begin=3000.0)))
    begin = late.streams["video"].time[0] - plain.streams["video"].time[0]
    assert (begin >= 0).all()
    assert (begin < 3000).all()
    assert len(set(begin.tolist())) == 5
    for name, samples in plain.streams.items():
        moved = late.streams[name]
        assert torch.equal(moved.x, samples.x)
        assert torch.equal(moved.lengths, samples.lengths)
        for row, length in enumerate(samples.lengths.tolist()):
            torch.testing.assert_close(moved.time[:length, row], samples.time[:length, row].double() + begin[row])
            assert not moved.time[length:, row].any()
    for part in ("y", "mask", "segment"):
        assert torch.equal(getattr(late, part)[plain.mask], getattr(plain, part)[plain.mask])
    assert torch.equal(late.mask, plain.mask)
    assert torch.equal(replace(task, begin=3000.0).batch(0, "test", 1, 0, 2).y, task.batch(0, "test", 1, 0, 2).y)


def test_noise_is_added_to_sound_that_is_heard_and_only_in_training(clips):
    plain, noisy = (Sentences(clips=(21, 2), folder=str(clips), silent=0.5, blind=0.0, noise=noise) for noise in (0.0, 0.25))
    before, after = (each.batch(0, "train", 1, 0, 20).streams["audio"].x for each in (plain, noisy))
    silent = ~before.any(-1).any(0)
    assert silent.any()
    assert not after[:, silent].any()
    assert abs(float((after - before)[:, ~silent].std()) - 0.25) < 0.01
    assert torch.equal(*(each.batch(0, "test", 1, 0, 2).streams["audio"].x for each in (plain, noisy)))


def test_a_list_of_runs_prepares_no_clip_and_has_the_number_of_those_that_there_are(clips, tmp_path, monkeypatch):
    monkeypatch.setenv("PHASED_DATA", str(tmp_path))
    monkeypatch.setattr(data, "prepare", lambda *_, **__: pytest.fail("clips were prepared"))

    def listed(folder="", study="lipreading"):
        return runs_of(study, "paper", range(2), options={"data": str(folder)} if folder else {})

    made = listed()
    assert [run.name for run in made][:2] == ["lipreading-high-phased-seed0", "lipreading-high-bn-lstm-seed0"]
    with pytest.raises(FileNotFoundError, match="expected GRID"):
        made[0].task.batch(0, "train", 1, 0, 1)
    with pytest.raises(FileNotFoundError, match="expected GRID"):
        listed(tmp_path)  # a folder that is named
    (tmp_path / "grid" / "s1").mkdir(parents=True)
    (tmp_path / "grid" / "s1" / "bbaf2n.mpg").touch()
    for folder in ("", tmp_path):
        assert {run.task.clips for run in listed(folder)} == {(1603, 178)}
    made = listed(clips)
    assert {(run.task.clips, run.training.train, run.training.test) for run in made} == {((21, 2), 21, 2)}
    assert all(str(clips) not in run.command for run in made)
    assert len({run.name for run in made + listed(clips, "lipreading-paper")}) == 24
    monkeypatch.setenv("PHASED_DATA", str(clips))
    LIPREADING.prepare({})
    assert {run.task.clips for run in listed()} == {(21, 2)}


def test_results_of_other_clips_are_not_taken_for_those_of_a_run(clips):
    whole, again = (counted(Sentences(folder=str(clips))) for _ in range(2))
    other = counted(Sentences(folder=str(clips), split=1))  # as many clips, other ones for the test
    assert whole.names == again.names != other.names
    assert whole.load().parts == again.load().parts
    with pytest.raises(ValueError, match="expected the clips of the run, by their names, got as many others"):
        replace(whole, names=other.names).load()
    with pytest.raises(ValueError, match=r"expected 30 clips for training and 3 for testing, .* got 21 and 2"):
        replace(whole, clips=(30, 3)).load()
