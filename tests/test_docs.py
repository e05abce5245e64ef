"""What docs/paper.md names exists, and it leaves no equation, figure or table of the paper out; prose has a width."""

import ast
import re
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

ROOT = Path(__file__).parent.parent
PAPER = ROOT / "docs" / "paper.md"
TEXT = PAPER.read_text(encoding="utf-8")


@cache
def names_of(file: Path) -> set[str]:
    """The functions and classes that a Python or C++ file defines; in C++ those whose line is not indented."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return set(re.findall(r"^(?:struct|class|enum class|[\w<>:, *&]+) [*&]?(\w+)\s*[({:]", text, re.MULTILINE))


def importable(name: str) -> bool:
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_everything_that_is_named_exists():
    parts = set(re.findall(r"`([\w./]+)::(\w+)`", TEXT))
    names = set(re.findall(r"`(phased(?:_lab)?(?:\.\w+)+)`", TEXT))
    files = {ROOT / file for file in re.findall(r"`(\w+/[\w./]+\.\w+)`", TEXT)}
    links = {PAPER.parent / link for link in re.findall(r"\]\((?!http)([^)#]+)\)", TEXT)}
    assert parts
    assert names
    assert files
    missing = [f"{file}::{name}" for file, name in parts if not (ROOT / file).is_file() or name not in names_of(ROOT / file)]
    missing += [name for name in names if not importable(name)] + [str(file) for file in files | links if not file.is_file()]
    assert sorted(missing) == []


def test_no_name_is_spelt_so_that_it_is_not_checked():
    checked = r"[\w./]+::\w+|phased(?:_lab)?(?:\.\w+)+"
    assert [name for name in re.findall(r"`([^`]*(?:::|phased(?:_lab)?\.)[^`]*)`", TEXT) if not re.fullmatch(checked, name)] == []


def test_every_equation_figure_and_row_of_the_table_has_a_place():
    first_cells = "\n".join(re.findall(r"^\| ([^|]+) \|", TEXT, re.MULTILINE))
    for equation in range(1, 12):
        assert re.search(rf"^{equation}\b", first_cells, re.MULTILINE), f"Eq. {equation}"
    figures = TEXT.partition("## Figures")[2].partition("\n## ")[0]
    for figure in range(1, 7):
        assert re.search(rf"^\| {figure}[a-c]", figures, re.MULTILINE), f"Figure {figure}"
    assert "## Table 1" in TEXT


def test_prose_is_no_wider_than_140_columns():
    files = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]
    wide = []
    for file in files:
        text = re.sub(r"^```.*?^```$", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        prose = (line for line in text.splitlines() if not line.startswith(("|", "![")))
        wide += [f"{file.name}: {line}" for line in prose if len(line) > 140]
    assert wide == []
