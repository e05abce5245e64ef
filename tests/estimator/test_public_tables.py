"""Eight public tables are read by the first command that a user would type; the small ones train, predict and are scored.

Published targets that are later values of a variable are also made from the table itself.
"""

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from phased_lab.bench.table_sets import ERRORS, SETS, read

TABLES = Path(os.environ.get("PHASED_DATA", "nowhere")) / "tables"
pytestmark = pytest.mark.skipif(not TABLES.is_dir(), reason="PHASED_DATA has no tables")


PUBLIC = {name: known for name, known in SETS.items() if known.make is None and name != "physionet"}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_table_is_read_and_a_small_one_goes_all_the_way(name, works, tmp_path):
    """Every row of a wide table is a step."""
    known, problem = PUBLIC[name], read(name)
    events = problem.events
    assert len(problem.y) == (len(events.time) if known.every_step else len(events))
    if name == "storms":
        np.testing.assert_array_equal(events.future("wind", "24h"), problem.y)
    if name == "badges":
        published = problem.classes[problem.y.astype(int)]
        following = np.where(np.isin(published, events.settings.levels["badge"]), published, "other").astype(object)
        following[events.offset[1:] - 1] = None  # the last badge of a user is published as a target alone
        assert (events.future("badge") == following).all()  # pytest would compare the lists for minutes
    table, labels = (TABLES / name / file for file in known.files)
    if name in ("eros", "badges"):  # a long table, and dates
        assert len(events) == {"eros": 1800, "badges": 1900}[name]
    elif table.suffix == ".parquet":
        frame = pl.read_parquet(table)
        assert len(events.time) == len(frame)
        assert len(events) == frame[known.table.get("id", "id")].n_unique()
    if name in ("vowels", "pbc", "storms"):
        named = {role if role == "target" else f"labels-{role}": column for role, column in known.labels.items()}
        options = [word for role, column in {**known.table, **named}.items() for word in (f"--{role}", column)]
        if known.score in ERRORS:
            options += ["--task", "numbers"]
        model, out = tmp_path / "model", tmp_path / "predictions.csv"
        works("fit", table, "--labels", labels, *options, "--out", model, "--epochs", 1)
        works("predict", model, table, "--out", out)
        found = pl.read_csv(out)
        assert len(found) == len(problem.y)
        assert all(found[column].is_finite().all() for column in found.columns[2:])
        assert f'"sequences": {len(events)}' in works("score", model, table, "--labels", labels, "--json").stdout
