"""What is shipped."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_committed_measurements_are_not_part_of_the_source_package():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["scikit-build"]
    assert "results/" in settings["sdist"]["exclude"]


def test_every_tool_of_the_tests_has_a_pinned_version():
    """`make test` then installs the same tools next year."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if "==" in line}
    named = {entry.partition(";")[0].partition(">")[0].strip() for entry in project["optional-dependencies"]["dev"]}
    assert {name for name in named if not name.startswith("phased[")} <= pinned


def test_a_wheel_has_the_sources_that_are_compiled_at_run_time_and_no_others():
    """NVRTC compiles the kernels and the headers they share with the core. The core is compiled when the wheel is built."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["scikit-build"]
    assert settings["wheel"] == {"packages": ["src/phased"], "exclude": ["phased/kernels/cpu/**"]}
    folders = {path.name for path in (ROOT / "src" / "phased" / "kernels").iterdir()}
    assert folders == {"cpu", "cuda", "shared"}
