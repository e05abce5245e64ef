"""The words of GRID: what names spell, alignments and damaged ones, and a random split that its seed repeats."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased_lab.clips import SLOTS, WORDS, BadClip, contradiction, spelled, split
from phased_lab.clips.words import read_alignment

NAMES = [f"s{number % 3}/{number:04}" for number in range(200)]


def test_the_vocabulary_has_51_words_in_the_order_of_the_grammar():
    assert [len(slot) for slot in SLOTS] == [4, 4, 4, 25, 10, 4]
    assert len(set(WORDS)) == len(WORDS) == 51
    assert "w" not in SLOTS[3]
    assert WORDS[:5] == ("bin", "lay", "place", "set", "blue")


def test_a_name_spells_one_sentence_for_each_sentence_of_the_grammar():
    digits = "z123456789"
    for words in itertools.islice(itertools.product(*SLOTS), 0, None, 997):
        name = "".join(digits[SLOTS[4].index(word)] if place == 4 else word[0] for place, word in enumerate(words))
        assert spelled(name) == words


@pytest.mark.parametrize("name", ["", "bbaf2", "bbaf2nn", "xbaf2n", "bbaw2n", "bbaf0n", "bbaftn"])
def test_other_names_spell_nothing(name):
    assert spelled(name) is None
    assert contradiction(name, ["bin"] * 6) is None


def test_a_contradiction_names_the_words_that_differ():
    assert contradiction("s1/bbaf2n", ["bin", "blue", "at", "f", "two", "now"]) is None
    text = contradiction("s1/bbaf2n", ["bin", "red", "at", "f", "three", "now"])
    assert text == "s1/bbaf2n: its name spells 'blue two', its alignment has 'red three'."


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
        ("ä", "line 1 must be"),
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


@given(count=st.integers(2, 200), seed=st.integers(0, 2**31), test=st.floats(0.01, 0.99))
def test_every_clip_is_in_one_part(count, seed, test):
    made = split(NAMES[:count], seed, test)
    assert sorted(made.train + made.test) == sorted(NAMES[:count])
    assert abs(len(made.test) - test * count) <= 1
    assert made.train
    assert made.test


def test_the_seed_and_not_the_order_of_names_decides():
    assert split(NAMES, 3) == split(reversed(NAMES), 3)
    assert split(NAMES, 3).test != split(NAMES, 4).test
    assert len(split(NAMES, 3).test) == 20


@pytest.mark.parametrize(
    "names, test, message", [("a", 0.1, "at least 2"), ("aa", 0.1, "1 of them different"), (NAMES, 1.5, "between 0 and 1")]
)
def test_what_cannot_be_split_is_refused(names, test, message):
    with pytest.raises(ValueError, match=message):
        split(names, 0, test)
