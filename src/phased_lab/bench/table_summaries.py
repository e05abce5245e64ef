"""Tables of numbers from sequences, for models of tables and of series: of each sequence, of each step, and at even places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from phased_lab.bench.table_models import Numbers, Sequences

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


def of_sequences(data: Sequences) -> Numbers:
    """Summarise each sequence: each variable, number of steps, span, mean gap, and static variables.

    A variable has its count, first, last, mean, deviation, lowest and highest value, quantiles, the mean step (without its sign),
    the mean gap, and the slope over time. It is NaN for too few values.
    """
    known = np.nonzero(~np.isnan(data.value))
    step, variable = known
    key = [pd.Series(data.sequence[step]), pd.Series(variable)]
    table = pd.DataFrame({"value": data.value[known], "time": data.since[step]})
    groups = table.groupby(key)
    apart = table[["value", "time"]] - groups[["value", "time"]].transform("mean")
    table["step"], table["gap"] = groups["value"].diff().abs(), groups["time"].diff()
    table["product"], table["square"] = apart["value"] * apart["time"], apart["time"] ** 2
    groups = table.groupby(key)
    found = groups["value"].agg(["count", "first", "last", "mean", "std", "min", "max"])
    found[[*QUANTILES]] = groups["value"].quantile([*QUANTILES]).unstack()
    found[["step", "gap"]] = groups[["step", "gap"]].mean()
    moments = groups[["product", "square"]].sum()
    found["slope"] = moments["product"] / moments["square"].where(moments["square"] > 0)
    columns = pd.MultiIndex.from_product([found.columns, range(data.value.shape[1])])
    wide = found.unstack().reindex(index=range(len(data.static)), columns=columns)
    steps, span = np.bincount(data.sequence, minlength=len(wide)), np.zeros(len(wide))
    span[data.sequence] = data.since  # of several steps the last is kept
    return np.column_stack([wide, steps, span, span / np.where(steps > 1, steps - 1, np.nan), data.static])


def of_steps(data: Sequences) -> NDArray[np.float32]:
    """Summarise at each step the steps up to it: each variable, times, the number of steps, and static variables.

    A variable has its last value, age, mean, deviation, count, lowest and highest value, and the difference of its last two
    values. It is NaN for too few values.
    """
    sequence, since = data.sequence, data.since

    def groups(of: Any) -> Any:
        return pd.DataFrame(of).groupby(sequence)

    value = pd.DataFrame(data.value)
    known, last = value.notna(), groups(value).ffill()
    count = groups(known).cumsum().where(lambda so_far: so_far > 0)
    measured = groups(known.mul(since, axis=0).where(known)).ffill()
    first = groups(value).transform("first")  # deviations are taken from it, for precision
    apart = (value - first).fillna(0.0)
    mean = groups(apart).cumsum() / count
    square = groups(apart**2).cumsum() / count
    change = groups(value - groups(last).shift()).ffill()
    lowest, highest = (groups(each).ffill() for each in (groups(value).cummin(), groups(value).cummax()))
    of_variables = [last, -measured.sub(since, axis=0), mean + first, (square - mean**2).clip(lower=0.0) ** 0.5, count]
    gap = np.diff(since, prepend=0.0).clip(0.0)  # 0 at the first step of a sequence
    clocks = [data.time, since, gap, groups(since).cumcount()]
    return np.column_stack([*of_variables, lowest, highest, change, *clocks, data.static[sequence]]).astype(np.float32)


def resampled(data: Sequences, length: int, by_time: bool) -> Numbers:
    """Interpolate each variable, and the logarithm of gaps, at places that are even in time or in the number of the step.

    Returns:
        (n, length, width + 1), constant before the first and after the last value of a variable, and NaN without a value.
    """
    made = np.full((len(data.static), data.value.shape[1] + 1, length), np.nan)
    since, ends = data.since, np.searchsorted(data.sequence, np.arange(len(made) + 1))
    for series, start, end in zip(made, ends[:-1], ends[1:], strict=True):
        time = since[start:end]
        place = time if by_time else np.arange(end - start, dtype=np.float64)
        gaps = np.log1p(np.diff(time, prepend=0.0))
        for channel, column in zip(series, [*data.value[start:end].T, gaps], strict=True):
            known = ~np.isnan(column)
            if known.any():
                channel[:] = np.interp(np.linspace(0.0, place[-1], length), place[known], column[known])
    return made.swapaxes(1, 2)
