"""Made-up tables of measurements, and the comparison of Events."""

from typing import Any

import numpy as np
import polars as pl
from hypothesis import strategies as st

from phased.estimator import Events

NAMES = ("GCS", "HR", "Temp")  # sorted, as the variables of a long table are
Row = tuple[int, float, str, float]


@st.composite
def measurements(draw: st.DrawFn) -> list[Row]:
    """Rows of a long table: id, time, variable, value; each id, time and variable once; in the order of ids and times."""
    stamps = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 12), st.sampled_from(NAMES)), min_size=1, unique=True))
    value = st.floats(-1e6, 1e6)
    return [(number, time / 4, name, draw(value)) for number, time, name in sorted(stamps)]


def long(rows: list[Row]) -> dict[str, list[Any]]:
    """A long table as a dictionary of columns."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    return dict(zip(("id", "time", "variable", "value"), columns, strict=True))


def wide(rows: list[Row]) -> pl.DataFrame:
    """The same measurements with a column per variable."""
    frame = pl.DataFrame(long(rows)).pivot("variable", index=["id", "time"], values="value")
    missing = [pl.lit(None, pl.Float64).alias(name) for name in NAMES if name not in frame.columns]
    return frame.with_columns(missing).select("id", "time", *NAMES)


def arrays(rows: list[Row]) -> Events:
    """The same measurements from arrays."""
    ids = sorted({row[0] for row in rows})
    times = [sorted({row[1] for row in rows if row[0] == number}) for number in ids]
    values = [np.full((len(time), len(NAMES)), np.nan) for time in times]
    for number, time, name, value in rows:
        place = ids.index(number)
        values[place][times[place].index(time), NAMES.index(name)] = value
    return Events.of(times, values, ids=ids, variables=NAMES, unit="h")


def assert_same(one: Events, other: Events) -> None:
    """Two Events have the same sequences."""
    assert (one.variables, one.statics, one.unit) == (other.variables, other.statics, other.unit)
    for name in ("ids", "offset", "time", "entry", "variable", "value", "static"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
