"""The folder of an estimator, beyond what tests/test_model_folders.py has of all kinds."""

import json
import math
from pathlib import Path

import pytest

from damaged import resign
from disk import room_for
from patients import X, Y
from phased.estimator import BadModel, PhasedClassifier
from phased.estimator.folder import Config, configured
from phased.fields import Malformed, decode
from phased.model_folder import digest


@pytest.fixture
def folder(classifier, tmp_path):
    """The folder of a small classifier."""
    classifier.save(tmp_path / "model", command="phased fit table.csv")
    return tmp_path / "model"


def test_parameters_of_all_kinds_come_back_as_they_were_in_the_fit(tmp_path):
    given = {"class_weight": {0: 1.0, 1: 2.0}, "checkpoint": None, "random_state": 3, "updates": 0.5, "units": 4}
    model = PhasedClassifier(epochs=1, **given).fit(X, Y)
    model.set_params(units=99, cell="phased_lstm").save(tmp_path)
    loaded = PhasedClassifier.load(tmp_path)
    assert {name: loaded.get_params()[name] for name in given} == given
    assert loaded.cell == "phased_gru"
    assert (loaded.predict_proba(X) == model.predict_proba(X)).all()


def test_the_card_and_the_configuration_say_what_the_model_is(folder, classifier):
    text = (folder / "README.md").read_text()
    assert "phased fit table.csv" in text
    assert f"| area under the ROC curve | {classifier.report_.scores['auroc']:.4f} |" in text
    fields = json.loads((folder / "config.json").read_text())
    assert {"phased", "torch", "numpy", "scikit-learn", "python"} == fields["versions"].keys()
    assert (fields["gate"], fields["unit"], len(fields["scaling"]["values"]["center"])) == ("triangle", "h", 3)


@pytest.mark.parametrize("stopped_at", [1, 2, 3])
@pytest.mark.parametrize("before", ["nothing", "another", "older"])
def test_a_crash_between_the_files_leaves_one_whole_model_and_a_full_disk_the_one_before(
    classifier, of_three, tmp_path, monkeypatch, before, stopped_at
):
    if before != "nothing":
        of_three.save(tmp_path)
    if before == "older":
        resign(tmp_path)  # without metadata
    replace, calls = Path.replace, []

    def crash(part, path):
        calls.append(path)
        if len(calls) == stopped_at:
            raise KeyboardInterrupt
        return replace(part, path)

    with room_for(5000), pytest.raises(OSError, match=r"cannot write '.*model.safetensors': File too large; the"):
        classifier.save(tmp_path)
    monkeypatch.setattr(Path, "replace", crash)
    (tmp_path / "mine").touch()
    with pytest.raises(KeyboardInterrupt):
        classifier.save(tmp_path)
    if stopped_at > 1:
        assert PhasedClassifier.load(tmp_path).predict(X).tolist() == classifier.predict(X).tolist()
    elif before != "nothing":
        assert PhasedClassifier.load(tmp_path).predict(X).tolist() == of_three.predict(X).tolist()
    monkeypatch.undo()
    classifier.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "model.safetensors", "config.json", "README.md"}


UNUSABLE = [1e308, math.nan, math.inf]
JUNK = [None, True, -1, 0, 10**30, "x", "", [], {}, [1], {"a": 1}, [[1]], *UNUSABLE]


def entries(value, path=()):
    """The paths of all entries of a configuration; of a list only the first."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else list(enumerate(value))[:1] if isinstance(value, list) else ()
    for key, entry in inner:
        yield from entries(entry, (*path, key))


def replaced(value, path, entry):
    """A copy of a configuration with another entry at a path."""
    if not path:
        return entry
    changed = value.copy()
    changed[path[0]] = replaced(value[path[0]], path[1:], entry)
    return changed


@pytest.mark.filterwarnings("ignore:Sequence")
@pytest.mark.parametrize("name, junks", [("classifier", JUNK), ("regressor", UNUSABLE)])
def test_any_entry_of_another_kind_is_either_refused_or_harmless(request, name, junks, tmp_path):
    model = request.getfixturevalue(name)
    model.save(tmp_path)
    resign(tmp_path)  # the configuration is that of the file
    path, data = tmp_path / "config.json", (tmp_path / "model.safetensors").read_bytes()
    whole = json.loads(path.read_text())
    refused = 0
    for place in entries({name: value for name, value in whole.items() if name != "sha256"}):
        for junk in junks:
            fields = replaced(whole, place, junk)
            try:
                configured(decode(Config, fields), (type(model),))
                path.write_text(json.dumps(fields | {"sha256": digest(fields, data)}))
                loaded = type(model).load(tmp_path)
            except (BadModel, Malformed):
                refused += 1
                continue
            if junk in UNUSABLE:
                loaded.predict(X[:5])  # raises if an answer is not finite
    assert refused > 100


@pytest.mark.parametrize("taken", ["README.md", "config.json", "model.safetensors"])
def test_files_of_something_else_are_not_replaced(classifier, tmp_path, taken):
    (tmp_path / taken).write_text('{"mine": 1}')
    with pytest.raises(FileExistsError, match=f"must be a new folder or that of a model, got one with '{taken}'"):
        classifier.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [taken]
    assert (tmp_path / taken).read_text() == '{"mine": 1}'


def test_a_model_may_be_replaced_also_a_damaged_one(classifier, of_three, folder):
    (folder / "config.json").write_bytes((folder / "config.json").read_bytes()[:200])
    of_three.save(folder)
    assert PhasedClassifier.load(folder).classes_.tolist() == ["a", "b", "c"]
