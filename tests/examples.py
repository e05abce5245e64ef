"""Running the code of documents."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def run_page(page: Path, replaced: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """Run the Python blocks of a page in order, with some words replaced; returns the names that they define."""
    text, names = page.read_text(encoding="utf-8"), {"__name__": "__main__"}
    for word, other in replaced.items():
        text = text.replace(word, other)
    assert len(BLOCK.findall(text)) == text.count("```python") > 0
    for block in BLOCK.finditer(text):
        code = "\n" * text.count("\n", 0, block.start() + 1) + block.group(1)  # a traceback then names the page's own line
        exec(compile(code, str(page), "exec"), names)
    return names
