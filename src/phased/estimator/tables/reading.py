"""From a source to the fields of Events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from phased.estimator.settings import Settings
from phased.estimator.tables.columns import resolve
from phased.estimator.tables.long import read_long
from phased.estimator.tables.opened import open_table
from phased.estimator.tables.request import Request
from phased.estimator.tables.source import open_source
from phased.estimator.tables.wide import read_wide

LAYOUTS: dict[str, Any] = {"auto": None, "long": "long", "wide": "wide"}


def read_table(
    source: Any,
    wanted: Request,
    *,
    id: str | None,
    time: str | None,
    variable: str | Sequence[str] | None,
    value: str | None,
    layout: str,
) -> tuple[dict[str, Any], pl.Series]:
    """The fields of Events, from a table, and the time of each step as the table has it."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}.")
    opened = open_source(source)
    columns = resolve(
        opened.columns,
        opened.name,
        id=id,
        time=time,
        variable=variable,
        value=value,
        layout=LAYOUTS[layout],
        like=wanted.like or Settings(),
        drop=wanted.drop,
        files_are_sequences=opened.files_are_sequences,
    )
    before = () if wanted.like is None else (wanted.like.clock, wanted.like.levels)
    table = open_table(opened, columns, wanted.unit, *before)
    if wanted.like is not None and table.times.unit != wanted.like.unit:
        raise ValueError(
            f"times must be in the unit {wanted.like.unit!r}, as in the table read before, got {table.times.unit!r}."
        )
    made, levels = (read_wide if columns.wide else read_long)(table, wanted)
    fields = {
        "ids": table.ids,
        "variables": made.variables,
        "statics": made.statics,
        "unit": table.times.unit,
        **made.arrays,
        "static": made.static,
        "origin": made.origin,
        "settings": Settings(
            unit=table.times.unit,
            clock=table.times.clock,
            offset=table.times.offset,
            variables=made.variables,
            statics=made.statics,
            columns=columns.names,
            missing=wanted.missing,
            merge=wanted.merge,
            drop=(*wanted.drop, *(name for name, found in levels.items() if not found)),
            layout=columns.layout or (wanted.like.layout if wanted.like and layout == "auto" else None),
            selected=columns.selected or (wanted.like is not None and wanted.like.selected),
            levels={name: found for name, found in levels.items() if found},
            labels={} if wanted.like is None else wanted.like.labels,
        ),
        "counts": {name: count for name, count in made.counts.items() if count},
    }
    times = table.column("time")
    return fields, times.gather(pl.Series(made.row).replace(-1, None))
