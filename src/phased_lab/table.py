"""A table, for the console, for pages in Markdown and for the page in HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table as RichTable


class Table(NamedTuple):
    """Rows of text under a head. The first column names the row. Columns of numbers are right-aligned."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""
    grouped: bool = False  # whether the first column is a heading of the rows that follow each other with it

    def markdown(self, literally: bool = False) -> str:
        """Return the table in Markdown. `literally` escapes special characters of Markdown in the rows."""
        rows = [[*map(literal, row)] for row in self.rows] if literally else self.rows
        lines = ["".join(f"| {cell} " if cell else "| " for cell in cells) + "|" for cells in (self.head, *rows)]
        return "\n".join([lines[0], "|" + "---|" * len(self.head), *lines[1:]])

    def to_rich(self) -> RichTable:
        """For the console."""
        made = RichTable(title=self.title or None, title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="bold")
        for i, column in enumerate(self.head):
            numbers = any(letter.isdigit() for row in self.rows for letter in row[i][:2])
            made.add_column(column, justify="right" if i and numbers else "left", overflow="fold")
        for row in self.rows:
            made.add_row(*row)
        return made


def literal(cell: str) -> str:
    """The text of a cell of a Markdown table, with special characters escaped."""
    # An underscore between letters, as in r_on, has no special meaning.
    return re.sub(r"[\\`*~<>\[\]|]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\\g<0>", cell)
