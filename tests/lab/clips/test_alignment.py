"""Words and times of an alignment, and damaged ones."""

import pytest

from phased_lab.clips import WORDS, BadClip, contradiction, read_alignment


@pytest.fixture
def path(tmp_path):
    return tmp_path / "bbaf2n.align"


def test_a_thousand_units_are_one_frame_of_40_ms_and_pauses_are_left_out(path):
    lines = ["0 23750 sil", "23750 29500 bin", "29500 34000 blue", "34000 35000 sp", "35000 35500 at", "35500 41000 f"]
    path.write_text("\n".join([*lines, "41000 47250 two", "47250 53000 now\n"]))
    words, spans = read_alignment(path)
    assert [WORDS[word] for word in words] == ["bin", "blue", "at", "f", "two", "now"]
    assert spans.tolist() == [[950, 1180], [1180, 1360], [1400, 1420], [1420, 1640], [1640, 1890], [1890, 2120]]


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
        ("ä", "ASCII"),
    ],
)
def test_damage_is_named_with_file_and_line(path, text, what):
    path.write_text(text)
    with pytest.raises(BadClip, match=rf"bbaf2n\.align'.*{what}"):
        read_alignment(path)


def test_real_alignments_have_the_words_that_the_names_spell(grid):
    paths = sorted((grid / "align").glob("s*/*.align"))[::20]
    assert len(paths) >= 10
    for path in paths:
        words, spans = read_alignment(path)
        assert contradiction(path.stem, [WORDS[word] for word in words]) is None
        assert (spans[:, 1] > spans[:, 0]).all()
        assert spans[-1, 1] <= 3000
