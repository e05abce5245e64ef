"""`phased lipread`: words of clips, as lines, as JSON, as a picture, and errors."""

import json
import re
from pathlib import Path

import pytest

from phased_lab.cli import lipread as command
from phased_lab.clips import SLOTS, BadClip, Clip
from phased_lab.clips.decoding import Sense
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


@pytest.fixture
def read(call, clips, model):
    """Calls the command with clips of the folder `s1`, or other paths. Returns its code, output and errors in one line."""

    def called(*files: str | Path, options: tuple[object, ...] = ()) -> tuple[int, str, str]:
        result = call("lipread", *(clips / "s1" / file for file in files), "--model", model, *options)
        return result.exit_code, result.stdout, result.stderr.replace("\n", " ")

    return called


@pytest.mark.parametrize("options", [(), ("--video-only",), ("--audio-only",)])
@pytest.mark.parametrize("aligned", [True, False])
def test_json_has_a_line_per_clip_with_file_six_words_and_confidence(clips, read, options, aligned):
    align = ("--align", clips / "align") if aligned else ()
    code, out, _ = read("bbaf2n.mpg", "lgbx9s.mpg", options=("--json", *options, *align))
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [line["file"] for line in lines] == [str(clips / "s1" / file) for file in ("bbaf2n.mpg", "lgbx9s.mpg")]
    for line in lines:
        assert all(word in slot for word, slot in zip(line["words"], SLOTS, strict=True))
        assert 0 < line["confidence"] <= 1
        assert len(line["confidences"]) == len(line["times"]) == 6


def test_lines_show_words_and_the_share_of_right_ones(read):
    code, out, _ = read("bbaf2n.mpg")
    words, total = out.splitlines()
    assert code == 0
    assert words.startswith("bbaf2n.mpg")
    assert "%" in words
    assert total.startswith("1 clip, ")
    assert total.endswith("%.")


def test_bad_clips_of_a_folder_are_an_error_or_skipped_and_counted(read):
    code, _, error = read("")
    assert code == 1
    assert "swwb1a.mpg" in error
    code, out, error = read("", options=("--skip-bad",))
    assert code == 0
    assert re.search(r"2 clips, .*, 1 skipped\.$", out)
    assert "swwb1a.mpg" in error


@pytest.mark.parametrize("align", ["align", "s1", "."])
def test_the_speaker_may_be_a_folder_further_up_and_alignments_in_a_folder_of_their_own(clips, read, align):
    deep = clips / "s1" / "video" / "mpg_6000"
    deep.mkdir(parents=True)
    (clips / "s1" / "bbaf2n.mpg").rename(deep / "bbaf2n.mpg")
    if align != "align":
        (clips / "s1" / "align").mkdir()
        (clips / "align" / "s1" / "bbaf2n.align").rename(clips / "s1" / "align" / "bbaf2n.align")
    code, out, error = read(deep / "bbaf2n.mpg", options=("--align", clips / align, "--json"))
    assert code == 0, error
    assert len(out.splitlines()) == 1


def test_an_alignment_with_other_words_than_the_name_of_its_clip_is_warned_of(clips, read):
    align = clips / "align" / "s1" / "bbaf2n.align"
    code, out, error = read("bbaf2n.mpg", options=("--align", align, "--json"))
    assert (code, len(out.splitlines())) == (0, 1)
    assert "bbaf2n: its name spells" in error
    assert f"The alignment '{align}' is taken for the truth." in error
    assert "its name spells" not in read("bbaf2n.mpg")[2]


def test_the_alignment_of_another_speaker_is_not_taken(clips, read, monkeypatch):
    (clips / "s9").mkdir()
    (clips / "s9" / "bbaf2n.mpg").write_text("")
    code, _, error = read(clips / "s9" / "bbaf2n.mpg", options=("--align", clips / "align"))
    assert code == 1
    assert str(clips / "align" / "s9" / "bbaf2n.align") in error
    monkeypatch.chdir(clips / "s1")
    assert read(Path("bbaf2n.mpg"), options=("--align", "../align"))[0] == 0


def test_a_sense_that_is_not_used_is_not_needed(read):
    assert read("silent.mpg", options=("--audio-only",))[0] == 1
    assert read("silent.mpg", options=("--video-only",))[0] == 0


def cut_off(monkeypatch: pytest.MonkeyPatch, frames: int) -> None:
    """Clips whose name begins with b have a few frames."""
    whole = command.prepare_clip
    monkeypatch.setattr(
        command, "prepare_clip", lambda path, *rest: shortened(whole(path, *rest), frames if path.stem[0] == "b" else 25)
    )


def test_a_clip_with_fewer_steps_than_words_is_named_and_can_be_skipped(read, monkeypatch):
    cut_off(monkeypatch, 4)
    code, out, error = read("bbaf2n.mpg", "lgbx9s.mpg", options=("--skip-bad",))
    assert code == 0
    assert out.splitlines()[-1].endswith("1 skipped.")
    assert "bbaf2n.mpg': a clip must have at least 6 steps" in error


def test_a_clip_too_short_for_six_words_is_warned_of(read, monkeypatch):
    cut_off(monkeypatch, 10)
    code, out, error = read("bbaf2n.mpg", "lgbx9s.mpg", options=("--json",))
    assert code == 0
    assert ["doubt" in json.loads(line) for line in out.splitlines()] == [True, False]
    assert "bbaf2n.mpg': six words last at least" in error
    assert "lgbx9s" not in error


@pytest.mark.parametrize("sense, warned", [((), True), (("--video-only",), True), (("--audio-only",), False)])
def test_damaged_pictures_are_warned_of_where_they_are_used(read, monkeypatch, sense, warned):
    whole = command.prepare_clip
    monkeypatch.setattr(command, "prepare_clip", lambda *given: whole(*given)._replace(jump=44.4))
    code, out, error = read("bbaf2n.mpg", options=("--json", *sense))
    assert (code, len(out.splitlines())) == (0, 1)
    assert ("bbaf2n.mpg': two frames in a row differ by 44 gray levels" in error) == warned
    assert json.loads(out).get("doubt", "").startswith("two frames") == warned


def test_a_picture_of_one_clip_is_drawn(clips, read, tmp_path):
    assert read("bbaf2n.mpg", options=("--align", clips / "align", "--picture", tmp_path / "clip.png"))[0] == 0
    assert (tmp_path / "clip.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "files, options, says",
    [
        ("bbaf2n.mpg", "--video-only --audio-only", "exclude each other"),
        ("bbaf2n.mpg", "--model {0}/nothing", "there is no folder"),
        ("bbaf2n.mpg", "--align {0}/align/s2", "--align must be a file or a folder, and '{0}/align/s2' does not exist."),
        ("bbaf2n.mpg", "--align {0}/empty", "its alignment must be '{0}/empty/s1/bbaf2n.align'"),
        (
            "../s1",
            "--align {0}/align/s1/bbaf2n.align --skip-bad",
            "--align must be a folder for several clips, got '{0}/align/s1/bbaf2n.align' for 3 clips.",
        ),
        ("../s1", "--picture {0}/clip.png", "--picture takes one clip"),
    ],
)
def test_mistakes_are_told(clips, read, files, options, says):
    (clips / "empty").mkdir()
    code, out, error = read(*files.split(), options=tuple(options.format(clips).split()))
    assert (code, out) == (2 if "exclude" in says else 1, "")
    assert says.format(clips) in error
