"""`phased lipread`: words of clips, as lines, as JSON, as a picture, and errors."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from phased.cli.app import app
from phased_lab.cli import lipread as command
from phased_lab.clips import SLOTS, BadClip, Clip
from phased_lab.lipreader.inputs import Sense
from speaking import made_up, shortened, untrained

pytest.importorskip("cv2", reason="opencv is not installed: pip install 'phased[video]'")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an untrained lip reader."""
    folder = tmp_path_factory.mktemp("model")
    untrained(25).save(folder)
    return folder


@pytest.fixture
def clips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three files whose names stand for made-up clips, with alignments; the third is damaged."""

    def prepared(path: Path, alignment: Path | None, sense: Sense) -> Clip:
        if path.stem.startswith("silent") and sense != "video":
            raise BadClip(path, "a clip must have sound, got a file without it. Copy or record it again.")
        if path.stem == "swwb1a":
            raise BadClip(path, "a clip must be a video, and is not. Copy it again.")
        clip = made_up(len(path.stem) + ord(path.stem[0]))
        return clip if alignment is not None else clip._replace(sentence=None)

    monkeypatch.setattr(command, "prepare_clip", prepared)
    for name in ("bbaf2n", "lgbx9s", "swwb1a"):
        for path in (tmp_path / "s1" / f"{name}.mpg", tmp_path / "align" / "s1" / f"{name}.align"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
    return tmp_path


def called(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["lipread", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("options", [(), ("--video-only",), ("--audio-only",)])
@pytest.mark.parametrize("aligned", [True, False])
def test_json_has_a_line_per_clip_with_file_six_words_and_confidence(clips, model, options, aligned):
    align = ("--align", clips / "align") if aligned else ()
    files = [clips / "s1" / "bbaf2n.mpg", clips / "s1" / "lgbx9s.mpg"]
    code, out, _ = called(*files, "--model", model, "--json", *options, *align)
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [line["file"] for line in lines] == [str(file) for file in files]
    for line in lines:
        assert all(word in slot for word, slot in zip(line["words"], SLOTS, strict=True))
        assert 0 < line["confidence"] <= 1
        assert len(line["confidences"]) == len(line["times"]) == 6


def test_lines_show_words_and_the_share_of_right_ones(clips, model):
    code, out, _ = called(clips / "s1" / "bbaf2n.mpg", "--model", model)
    assert code == 0
    words, total = out.splitlines()
    assert words.startswith("bbaf2n.mpg")
    assert "%" in words
    assert total.startswith("1 clip, ")
    assert total.endswith("%.")


def test_a_folder_is_searched_and_bad_clips_are_an_error_or_skipped_and_counted(clips, model):
    code, _, error = called(clips / "s1", "--model", model)
    assert code == 1
    assert "swwb1a.mpg" in error
    code, out, error = called(clips / "s1", "--model", model, "--skip-bad")
    assert code == 0
    assert out.splitlines()[-1].startswith("2 clips, ")
    assert out.splitlines()[-1].endswith("1 skipped.")
    assert "swwb1a.mpg" in error


def test_an_alignment_that_is_not_there_is_named(clips, model):
    (clips / "align" / "s1" / "bbaf2n.align").unlink()
    code, _, error = called(clips / "s1" / "bbaf2n.mpg", "--model", model, "--align", clips / "align")
    assert code == 1
    assert "bbaf2n.align" in error


@pytest.mark.parametrize("align", ["align", "s1", "."])
def test_the_speaker_may_be_a_folder_further_up_and_alignments_in_a_folder_of_their_own(clips, model, align):
    deep = clips / "s1" / "video" / "mpg_6000"
    deep.mkdir(parents=True)
    (clips / "s1" / "bbaf2n.mpg").rename(deep / "bbaf2n.mpg")
    if align != "align":
        (clips / "s1" / "align").mkdir()
        (clips / "align" / "s1" / "bbaf2n.align").rename(clips / "s1" / "align" / "bbaf2n.align")
    code, out, error = called(deep / "bbaf2n.mpg", "--model", model, "--align", clips / align, "--json")
    assert code == 0, error
    assert len(out.splitlines()) == 1


@pytest.mark.parametrize("files", [["bbaf2n.mpg"], ["bbaf2n.mpg", "lgbx9s.mpg"]])
def test_a_path_of_alignments_that_does_not_exist_is_named(clips, model, files):
    code, out, error = called(*(clips / "s1" / file for file in files), "--model", model, "--align", clips / "nothing")
    assert (code, out) == (1, "")
    assert f"--align must be a file or a folder, and '{clips / 'nothing'}' does not exist." in error.replace("\n", " ")


def test_hidden_files_are_no_clips(clips, model):
    (clips / "s1" / "._bbaf2n.mpg").write_text("")
    (clips / "s1" / "swwb1a.mpg").unlink()
    code, out, _ = called(clips / "s1", "--model", model)
    assert code == 0
    assert out.splitlines()[-1].startswith("2 clips, ")


def test_one_alignment_is_not_the_truth_of_several_clips(clips, model):
    align = clips / "align" / "s1" / "bbaf2n.align"
    code, out, error = called(clips / "s1", "--model", model, "--align", align, "--skip-bad")
    assert (code, out) == (1, "")
    assert f"--align must be a folder for several clips, got '{align}' for 3 clips." in error.replace("\n", " ")


def test_an_alignment_with_other_words_than_the_name_of_its_clip_is_warned_of(clips, model):
    file, align = clips / "s1" / "bbaf2n.mpg", clips / "align" / "s1" / "bbaf2n.align"
    code, out, error = called(file, "--model", model, "--align", align, "--json")
    assert code == 0
    assert len(out.splitlines()) == 1
    assert "bbaf2n: its name spells" in error
    assert f"The alignment '{align}' is taken for the truth." in error
    assert "its name spells" not in called(file, "--model", model)[2]


def test_the_alignment_of_another_speaker_is_not_taken(clips, model, monkeypatch):
    (clips / "s9").mkdir()
    (clips / "s9" / "bbaf2n.mpg").write_text("")
    code, _, error = called(clips / "s9" / "bbaf2n.mpg", "--model", model, "--align", clips / "align")
    assert code == 1
    assert str(clips / "align" / "s9" / "bbaf2n.align") in error
    monkeypatch.chdir(clips / "s1")
    assert called("bbaf2n.mpg", "--model", model, "--align", "../align")[0] == 0


def test_a_sense_that_is_not_used_is_not_needed(clips, model, tmp_path):
    file = clips / "s1" / "silent.mpg"
    assert called(file, "--model", model, "--audio-only")[0] == 1
    assert called(file, "--model", model, "--video-only", "--picture", tmp_path / "silent.png")[0] == 0
    assert (tmp_path / "silent.png").exists()


def cut_off(monkeypatch: pytest.MonkeyPatch, frames: int) -> None:
    """Clips whose name begins with b have a few frames."""
    whole = command.prepare_clip
    monkeypatch.setattr(
        command, "prepare_clip", lambda path, *rest: shortened(whole(path, *rest), frames if path.stem[0] == "b" else 25)
    )


def test_a_clip_with_fewer_steps_than_words_is_named_and_can_be_skipped(clips, model, monkeypatch):
    cut_off(monkeypatch, 4)
    files = [clips / "s1" / "bbaf2n.mpg", clips / "s1" / "lgbx9s.mpg"]
    code, _, error = called(*files, "--model", model)
    assert code == 1
    assert "bbaf2n.mpg': a clip must have at least 6 steps" in error
    code, out, error = called(*files, "--model", model, "--skip-bad")
    assert code == 0
    assert out.splitlines()[-1].endswith("1 skipped.")
    assert "bbaf2n.mpg" in error


def test_a_clip_too_short_for_six_words_is_warned_of(clips, model, monkeypatch):
    cut_off(monkeypatch, 10)
    code, out, error = called(clips / "s1" / "bbaf2n.mpg", clips / "s1" / "lgbx9s.mpg", "--model", model, "--json")
    assert code == 0
    assert len(out.splitlines()) == 2
    assert ["doubt" in json.loads(line) for line in out.splitlines()] == [True, False]
    assert "bbaf2n.mpg': six words last at least" in error
    assert "lgbx9s" not in error


@pytest.mark.parametrize("sense, warned", [((), True), (("--video-only",), True), (("--audio-only",), False)])
def test_damaged_pictures_are_warned_of_where_they_are_used(clips, model, monkeypatch, sense, warned):
    whole = command.prepare_clip
    monkeypatch.setattr(command, "prepare_clip", lambda *given: whole(*given)._replace(jump=44.4))
    code, out, error = called(clips / "s1" / "bbaf2n.mpg", "--model", model, "--json", *sense)
    assert (code, len(out.splitlines())) == (0, 1)
    assert ("bbaf2n.mpg': two frames in a row differ by 44 gray levels" in error) == warned
    assert json.loads(out).get("doubt", "").startswith("two frames") == warned


def test_a_picture_of_one_clip_is_drawn(clips, model, tmp_path):
    out = tmp_path / "clip.png"
    code, _, _ = called(clips / "s1" / "bbaf2n.mpg", "--model", model, "--align", clips / "align", "--picture", out)
    assert code == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    code, _, error = called(clips / "s1", "--model", model, "--picture", out)
    assert code == 1
    assert "--picture takes one clip" in error


def test_mistakes_are_told(clips, model, tmp_path):
    file = clips / "s1" / "bbaf2n.mpg"
    code, _, error = called(file, "--model", model, "--video-only", "--audio-only")
    assert code == 2
    assert "exclude each other" in error
    code, _, error = called(file, "--model", tmp_path / "nothing")
    assert code == 1
    assert "there is no folder" in error
    (tmp_path / "empty").mkdir()
    code, _, error = called(tmp_path / "empty", "--model", model)
    assert code == 1
    assert "there are no clips in" in error
