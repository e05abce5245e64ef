"""Eight public tables are read by the first command that a user would type; the small ones train, predict and are scored.

Published targets that are later values of a variable are also made from the table itself.
"""

import os
import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from phased.cli.estimator import Labels, with_targets
from phased.estimator import Events

TABLES = Path(os.environ.get("PHASED_DATA", "nowhere")) / "tables"
pytestmark = pytest.mark.skipif(not TABLES.is_dir(), reason="PHASED_DATA has no tables")

OPTIONS = {  # of `phased fit`
    "stars/*.parquet": "--id star --time hjd --unit d --labels-id star --target class",
    "mouse/*.parquet": "--id piece --time 'record timestamp' --unit s --labels-id piece --target user",
    "sepsis/*.parquet": "--id patient --time ICULOS --unit h --labels-id patient --labels-time ICULOS --target SepsisLabel",
    "badges/*.csv.xz": "--id user --time date --unit d --labels-id user --labels-time date --target next_badge",
    "vowels/*.parquet": "--id utterance --time frame --unit s --labels-id utterance --target speaker",
    "eros/*.parquet": "--unit d --target type",
    "pbc/*.parquet": "--time year --unit y --labels-time year --target event_in_2_years",
    "storms/*.csv.xz": "--unit h --labels-time time --target wind_in_24h --task numbers",
}


def read(name):
    """The sequences and the targets of a table."""
    words = shlex.split(OPTIONS[name])
    given = {option[2:].replace("-", "_"): value for option, value in zip(words[::2], words[1::2], strict=True)}
    own = {option: value for option, value in given.items() if option in ("id", "time", "unit")}
    of_labels = {option: value for option, value in given.items() if option[:6] in ("labels", "target")}
    source, labels = (TABLES / name.replace("*", part) for part in ("train", "train_labels"))
    return with_targets(Labels(labels, **of_labels), Events.read(source, **own))


@pytest.mark.parametrize("name", OPTIONS)
def test_a_public_table_is_read_and_a_small_one_goes_all_the_way(name, works, tmp_path):
    """Every row of a wide table is a step."""
    events, y = read(name)
    assert len(y) == (len(events.time) if "--labels-time" in OPTIONS[name] else len(events))
    if name == "storms/*.csv.xz":
        np.testing.assert_array_equal(events.future("wind", "24h"), y)
    if name == "badges/*.csv.xz":
        following = np.where(np.isin(y, events.settings.levels["badge"]), y, "other").astype(object)
        following[events.offset[1:] - 1] = None  # the last badge of a user is published as a target alone
        assert events.future("badge").tolist() == following.tolist()
    if name in ("eros/*.parquet", "badges/*.csv.xz"):  # a long table, and dates
        assert len(events) == {"eros": 1800, "badges": 1900}[name.partition("/")[0]]
    elif name.endswith("parquet"):
        frame = pl.read_parquet(TABLES / name.replace("*", "train"))
        assert len(events.time) == len(frame)
        assert len(events) == frame[shlex.split(OPTIONS[name])[1] if "--id" in OPTIONS[name] else "id"].n_unique()
    if name in ("vowels/*.parquet", "pbc/*.parquet", "storms/*.csv.xz"):
        table, labels = (TABLES / name.replace("*", part) for part in ("train", "train_labels"))
        model, out = tmp_path / "model", tmp_path / "predictions.csv"
        works("fit", table, "--labels", labels, *shlex.split(OPTIONS[name]), "--out", model, "--epochs", 1)
        works("predict", model, table, "--out", out)
        found = pl.read_csv(out)
        assert len(found) == len(y)
        assert all(found[column].is_finite().all() for column in found.columns[2:])
        assert f'"sequences": {len(events)}' in works("score", model, table, "--labels", labels, "--json").stdout
