"""Words and times of an alignment, and damaged ones."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased_lab.clips import WORDS, BadClip, contradiction, read_alignment


def test_a_thousand_units_are_one_frame_of_40_ms(tmp_path):
    path = tmp_path / "bbaf2n.align"
    path.write_text(
        "0 23750 sil\n23750 29500 bin\n29500 34000 blue\n34000 35500 at\n35500 41000 f\n41000 47250 two\n47250 53000 now\n"
    )
    words, spans = read_alignment(path)
    assert [WORDS[word] for word in words] == ["bin", "blue", "at", "f", "two", "now"]
    assert spans[0].tolist() == [950, 1180]
    assert spans[-1].tolist() == [1890, 2120]


def test_pauses_between_words_are_left_out(tmp_path):
    path = tmp_path / "pause.align"
    path.write_text("0 100 bin\n100 200 blue\n200 250 sp\n250 300 at\n300 400 f\n400 500 two\n500 600 now\n")
    assert read_alignment(path).spans[2].tolist() == [10, 12]


@pytest.mark.parametrize(
    "text, what",
    [
        ("", "got ''"),
        ("0 100 bin\n", "got 'bin'"),
        ("0 100 bin blue\n", "line 1 must be 'start end word'"),
        ("0 1e3 bin\n", "line 1 must be"),
        ("100 100 bin\n", "end after that"),
        ("0 100 bin\n50 200 blue\n", "line 2 must begin at 100"),
        ("0 1 blue\n1 2 bin\n2 3 at\n3 4 f\n4 5 two\n5 6 now\n", "command, colour, preposition"),
        ("0 1 bin\n1 2 blue\n2 3 at\n3 4 w\n4 5 two\n5 6 now\n", "got 'bin blue at w two now'"),
    ],
)
def test_damage_is_named_with_file_and_line(tmp_path, text, what):
    path = tmp_path / "bad.align"
    path.write_text(text)
    with pytest.raises(BadClip, match=r"bad\.align") as caught:
        read_alignment(path)
    assert what in str(caught.value)


def test_missing_and_binary_files_are_named(tmp_path):
    with pytest.raises(BadClip, match=r"none.align.*No such file"):
        read_alignment(tmp_path / "none.align")
    (tmp_path / "binary.align").write_bytes(b"\x80\xff")
    with pytest.raises(BadClip, match="ASCII"):
        read_alignment(tmp_path / "binary.align")
    os.mkfifo(tmp_path / "pipe.align")
    for path, what in ((tmp_path, "a folder"), (tmp_path / "pipe.align", "a pipe")):
        with pytest.raises(BadClip, match=f"must be a regular file, got {what}"):
            read_alignment(path)


@given(content=st.binary(max_size=60))
def test_any_bytes_are_a_sentence_or_a_named_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.align"
    path.write_bytes(content)
    with pytest.raises(BadClip, match=r"any\.align"):
        read_alignment(path)


def test_real_alignments_have_the_words_that_the_names_spell(grid):
    paths = sorted((grid / "align").glob("s*/*.align"))[::20]
    assert len(paths) >= 10
    for path in paths:
        words, spans = read_alignment(path)
        assert contradiction(path.stem, [WORDS[word] for word in words]) is None
        assert (spans[:, 1] > spans[:, 0]).all()
        assert spans[-1, 1] <= 3000
