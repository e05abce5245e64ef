"""The words of GRID, and what names spell."""

import itertools

import pytest

from phased_lab.clips import SLOTS, WORDS, contradiction, spelled


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
