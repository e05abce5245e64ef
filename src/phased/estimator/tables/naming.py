"""Errors about rows of a table: they name id, time, variable and row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from phased.estimator.tables.source import Table

PRINTABLE = {"ms": 2**47, "us": 2**57, "D": 2**21}  # from 1970 to years of four digits


@dataclass(frozen=True)
class Rows:
    """A table's columns of ids, times and, if it is long, variables, as they stand in it."""

    table: Table
    id: str
    time: str | None = None
    variable: str | None = None

    def cell(self, column: str, row: int) -> Any:
        """A cell, for a message: text without quotes, whole numbers without a fraction."""
        cells = self.table.frame[column]
        unit = getattr(cells.dtype, "time_unit", "D" if cells.dtype == pl.Date else None)
        if unit in PRINTABLE and abs(cells.to_physical()[row] or 0) > PRINTABLE[unit]:
            return f"{cells.to_physical()[row]} {unit}"  # polars panics
        value = cells[row]
        return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value

    def where(self, row: int, variable: str | None = None) -> str:
        """id, time, variable and row of a row."""
        parts = [f"id {self.cell(self.id, row)!r}"]
        if self.time is not None:
            parts.append(f"time {self.cell(self.time, row)}")
        if variable is None and self.variable is not None:
            variable = self.cell(self.variable, row)
        if variable is not None:
            parts.append(f"variable {variable!r}")
        return f"{', '.join(parts)} ({self.table.row(row)})"

    def ids(self) -> pl.Series:
        """The column of ids."""
        return self.table.frame[self.id]
