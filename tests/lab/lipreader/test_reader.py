"""The lip reader: a folder that is written, read and refused, and the words of a clip."""

import json

import numpy as np
import pytest
import safetensors.torch
import torch

from phased_lab.clips import SLOTS, WORDS
from phased_lab.lipreader import About, BadModel, Config, LipReader, Scaling, Spoken, Timing
from phased_lab.lipreader.card import card
from phased_lab.lipreader.network import phased_network
from phased_lab.lipreader.store import SHIPPED
from speaking import made_up, shortened

UNITS = (6, 7, 8)
TESTED = ("s1/bbaf2n", "s3/lgbx9s")


@pytest.fixture(scope="module")
def reader() -> LipReader:
    """An untrained network, with parameters as they are stored."""
    spans = np.stack([made_up(seed).sentence.spans for seed in range(3)])
    about = About(
        "phased run lipreading", "Made-up clips.", {"words, video alone": 0.5}, {"phased": "0.1.0"}, "2026-11-16", TESTED
    )
    config = Config(UNITS, 2, True, 100, Scaling(torch.zeros(39), torch.ones(39)), Timing.of(spans), about)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = phased_network(UNITS, 2, len(WORDS), normalised=True)
    return LipReader.of(config, network.state_dict())


def test_a_lip_reader_written_and_read_gives_the_same_words_and_numbers(reader, tmp_path):
    reader.save(tmp_path)
    again, clip = LipReader.load(tmp_path), made_up(5)
    for one, other in zip(reader.follow(clip), again.follow(clip), strict=True):
        assert np.array_equal(one, other)
    assert again.config.fields() == reader.config.fields()
    assert reader.read(clip).words == again.read(clip).words
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "config.json", "model.safetensors"]


def test_gates_that_training_moved_out_of_their_bounds_are_written_as_they_are_used(reader, tmp_path):
    state = {name: value.clone() for name, value in reader.network.state_dict().items()}
    state["fusion.merged.ratio_on_l0"][:] = 1.4
    state["fusion.merged.period_l1"][0] = -3.0
    moved, clip = LipReader.of(reader.config, state), made_up(5)
    moved.save(tmp_path)
    assert np.array_equal(LipReader.load(tmp_path).follow(clip).outputs, moved.follow(clip).outputs)


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("sense", ["video", "audio", "both"])
def test_six_words_in_the_order_of_the_grammar_with_their_times(reader, sense, aligned):
    clip = made_up(6)
    spoken = reader.read(clip if aligned else clip._replace(sentence=None), sense)
    assert all(WORDS[word] in slot for word, slot in zip(spoken.words, SLOTS, strict=True))
    assert spoken.spans.shape == (6, 2)
    assert np.all(spoken.spans[:, 0] < spoken.spans[:, 1])
    assert all(0 < each <= 1 for each in spoken.confidence)
    if aligned:
        assert np.array_equal(spoken.spans, clip.sentence.spans)


def test_what_is_not_sensed_changes_nothing(reader):
    one, other = made_up(7), made_up(8)
    mixed = one._replace(mfcc=other.mfcc)
    assert np.array_equal(reader.follow(one, "video").outputs, reader.follow(mixed, "video").outputs)
    assert not np.array_equal(reader.follow(one).outputs, reader.follow(mixed).outputs)
    with pytest.raises(ValueError, match="sense must be"):
        reader.follow(one, "smell")


def test_a_clip_too_short_for_six_words_is_doubted_in_the_senses_that_are_used(reader):
    clip = made_up(9)._replace(sentence=None)
    silent = clip._replace(mfcc=shortened(clip, 8).mfcc)
    assert reader.doubt(clip) is None
    assert reader.doubt(silent, "video") is None
    assert "got 320 ms of sound" in reader.doubt(silent)
    assert "got 320 ms of sound" in reader.doubt(silent, "audio")
    assert "got 320 ms of frames" in reader.doubt(shortened(clip, 8), "video")
    assert reader.doubt(silent._replace(mfcc={100: clip.mfcc[100]._replace(values=clip.mfcc[100].values[:0])}), "audio")


def test_words_too_short_to_be_words_are_doubted_unless_their_times_are_known(reader):
    clip = made_up(9)
    begins = np.array([500.0, 700, 900, 1100, 1300, 1310])
    spoken = Spoken((0,) * 6, np.stack([begins, np.append(begins[1:], 1700)], 1), (0.9,) * 6)
    assert "words last at least 40 ms, got one of 10 ms: the sentence may be cut off" in reader.doubt(
        clip._replace(sentence=None), "both", spoken
    )
    assert reader.doubt(clip, "both", spoken) is None
    begins[-1] = 1340
    whole = Spoken((0,) * 6, np.stack([begins, np.append(begins[1:], 1700)], 1), (0.9,) * 6)
    assert reader.doubt(clip._replace(sentence=None), "both", whole) is None


def test_the_card_names_command_data_and_scores(reader, tmp_path):
    reader.save(tmp_path)
    card = (tmp_path / "README.md").read_text()
    assert all(part in card for part in ("phased run lipreading", "Made-up clips.", "| words, video alone | 50.0 % |", "0.1.0"))
    assert max(map(len, card.splitlines())) <= 140
    assert "On 2 clips that were not used in training; `tested` in `config.json` has their names:" in card
    assert LipReader.load(tmp_path).config.about.tested == ("s1/bbaf2n", "s3/lgbx9s")


def broken(folder, name: str, change) -> None:
    path = folder / name
    path.write_bytes(change(path.read_bytes()))


def edited(**entries):
    return lambda data: json.dumps(json.loads(data) | entries).encode()


FAULTS = {
    "a truncated file of parameters": ("model.safetensors", lambda data: data[:-100], "cut off, damaged"),
    "another parameter": ("model.safetensors", lambda data: data[:-4] + b"\0\0\0\1", "SHA-256"),
    "no JSON": ("config.json", lambda data: data[:50], "must be JSON"),
    "JSON without an end": ("config.json", lambda data: b"[" * 100_000, "must be JSON"),
    "another version": ("config.json", edited(version=2), "'version' must be 1, got 2"),
    "another kind of model": ("config.json", edited(format="phased event classifier"), "'format' must be 'phased lip reader'"),
    "other sizes": ("config.json", edited(units=[6, 7, 9]), r"of shape \(36, 13\), got .* \(32, 13\)"),
    "sizes of 70 GB": ("config.json", edited(units=[6, 7, 65_536]), "of shape"),
    "sizes beyond any network": ("config.json", edited(units=[6, 7, 10**9]), "from 1 to 65536"),
    "an unknown rate": ("config.json", edited(rate=50), "'rate' must be 100 or 25, got 50"),
    "other times of words": ("config.json", edited(silence=-9.0), "SHA-256"),
    "a deviation of zero": ("config.json", edited(begin=[300.0, 0.0]), "standard deviation must be positive"),
}


@pytest.mark.parametrize("name, change, message", FAULTS.values(), ids=FAULTS.keys())
def test_a_changed_folder_is_refused(reader, tmp_path, name, change, message):
    reader.save(tmp_path)
    broken(tmp_path, name, change)
    with pytest.raises(BadModel, match=message):
        LipReader.load(tmp_path)


def test_a_missing_file_is_named(reader, tmp_path):
    reader.save(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(BadModel, match=r"model\.safetensors"):
        LipReader.load(tmp_path)


def test_weights_are_stored_in_half_precision_and_gates_are_not(reader, tmp_path):
    state = reader.network.state_dict()
    weight = state["fusion.merged.weight_hh_l0"]
    assert torch.equal(weight, weight.half().float())
    assert state["fusion.merged.period_l0"].dtype == torch.float64
    reader.save(tmp_path)
    stored = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert stored["fusion.merged.weight_hh_l0"].dtype == torch.float16
    assert torch.equal(stored["fusion.merged.period_l0"], state["fusion.merged.period_l0"])


def test_the_model_that_comes_with_the_package_is_small_and_has_its_card():
    shipped = LipReader.load()
    assert (SHIPPED / "model.safetensors").stat().st_size < 3e6
    assert (SHIPPED / "README.md").read_text() == card(shipped.config)
    assert shipped.config.about.scores["words, video alone, times of words known"] > 0.85
    spoken = shipped.read(made_up(6))
    assert all(WORDS[word] in slot for word, slot in zip(spoken.words, SLOTS, strict=True))
