"""Plain tables on the console."""

from __future__ import annotations

from rich.table import Table


def table(title: str, *columns: str) -> Table:
    """A plain table; all columns except the first are right-aligned."""
    made = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="bold")
    for i, column in enumerate(columns):
        made.add_column(column, justify="right" if i else "left", overflow="fold")
    return made
