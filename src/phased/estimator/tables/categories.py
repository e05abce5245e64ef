"""Text variables: their levels, and a variable of 0 and 1 for each level."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from phased.estimator.settings import OTHER, indicator
from phased.estimator.tables.rows import Sequences
from phased.notice import warn

MOST = 50  # levels of a variable, besides OTHER
SEQUENCES = 10  # a level occurs in at least so many
NEW = 0.9  # text with more different values per row is no category

Levels = Mapping[str, tuple[str, ...]]


def with_levels(made: Sequences, texts: Mapping[str, Sequence[str]], known: Levels | None) -> tuple[Sequences, Levels]:
    """Replace each text variable by a variable of 0 and 1 for each of its levels.

    At a step with a text, the variable of its level is measured as 1 and that of the level before as 0. So the last-known values
    show the present level, and the ages show how long ago each level was there.

    Args:
        made: sequences in which the values of text variables are indices into their texts.
        texts: of each text variable.
        known: levels of the table read before, or None to choose them. Text without levels is left out, with a warning.

    Returns:
        The sequences, and the levels of each text variable: none if it was left out.
    """
    if not texts and not known:
        return made, {}
    steps, variable, value = made.steps, made.variable, made.value
    step = np.repeat(np.arange(len(steps.measured)), steps.measured)
    sequence = steps.sequence[step]
    number = {name: place for place, name in enumerate(made.variables) if name in texts or name in (known or {})}
    rows = {name: np.flatnonzero(variable == place) for name, place in number.items()}
    levels: dict[str, tuple[str, ...]] = dict(known or {})
    if known is None:
        for name, own in rows.items():
            levels[name] = choose(name, texts[name], value[own].astype(np.int64), sequence[own])
        for place, name in enumerate(made.statics):
            if name in texts:
                filled = np.flatnonzero(~np.isnan(made.static[:, place]))
                levels[name] = choose(name, texts[name], made.static[filled, place].astype(np.int64), filled)
    width = np.ones(len(made.variables), np.int64)
    width[list(number.values())] = [len(levels[name]) for name in number]
    start = np.cumsum(width) - width
    numeric = np.ones(len(value), np.bool_)
    parts = []
    for name, own in rows.items():
        numeric[own] = False
        level = places(texts.get(name, ()), levels[name])[value[own].astype(np.int64)]
        before = np.where(np.diff(sequence[own], prepend=-1) == 0, np.roll(level, 1), -1)
        for index, measured in ((level, 1.0), (np.where(before == level, -1, before), 0.0)):
            there = index >= 0
            parts.append((step[own[there]], start[number[name]] + index[there], np.full(there.sum(), measured)))
    parts.append((step[numeric], start[variable[numeric]], value[numeric]))
    step, variable, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.lexsort((variable, step))
    changed = replace(
        made,
        variables=names_of(made.variables, levels),
        statics=names_of(made.statics, levels),
        static=_static(made, texts, levels),
        steps=steps._replace(measured=np.bincount(step, minlength=len(steps.measured))),
        variable=variable[order],
        value=value[order],
    )
    return changed, levels


def choose(name: str, texts: Sequence[str], code: NDArray[np.int64], sequence: NDArray[np.int64]) -> tuple[str, ...]:
    """Return the levels of a text variable, sorted; none, with a warning, if it is no category.

    Args:
        name: of the variable.
        texts: its texts.
        code: the index of the text of each measurement.
        sequence: of each measurement.
    """
    pairs = np.unique(sequence * len(texts) + code)
    count = np.bincount(pairs % len(texts), minlength=len(texts))
    different = int((count > 0).sum())
    often = np.argsort(-count, kind="stable")[:MOST]
    kept = tuple(texts[place] for place in np.sort(often[count[often] >= SEQUENCES]))
    if different > NEW * len(code) or not kept:
        why = (
            f"has {different:,} different texts in {len(code):,} rows, and no level in {SEQUENCES} sequences" if not kept else ""
        )
        why = why or f"has {different:,} different texts in {len(code):,} rows"
        warn(f"{name!r} {why}, and is left out. Encode it as numbers to use it, or leave it out (drop: {name!r}).")
        return ()
    return kept if different == len(kept) or OTHER in kept else (*kept, OTHER)


def places(texts: Sequence[str], levels: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the index of the level of each text; -1 where it has none."""
    index = {level: place for place, level in enumerate(levels)}
    other = index.get(OTHER, -1)
    return np.array([index.get(text, other) for text in texts], np.int64)


def names_of(names: Collection[str], levels: Levels) -> tuple[str, ...]:
    """Return the names, with one for each level in place of a text variable."""
    several = ([indicator(name, level) for level in levels[name]] if name in levels else [name] for name in names)
    return tuple(name for part in several for name in part)


def _static(made: Sequences, texts: Mapping[str, Sequence[str]], levels: Levels) -> NDArray[np.float64]:
    """Return the static values, with a column of 0 and 1 for each level; NaN where unknown."""
    columns = []
    for name, column in zip(made.statics, made.static.T, strict=True):
        if name not in levels:
            columns.append(column)
            continue
        known = ~np.isnan(column)
        level = np.full(len(column), -1)
        level[known] = places(texts.get(name, ()), levels[name])[column[known].astype(np.int64)]
        columns += [np.where(known, level == place, np.nan) for place in range(len(levels[name]))]
    return np.stack(columns, 1) if columns else np.zeros((len(made.static), 0))
