"""What is shipped, and what `import phased` gives and costs."""

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
from typer.testing import CliRunner

import phased
from phased import lazy
from phased.cli.app import LABORATORY, app

ROOT = Path(__file__).parent.parent


def test_a_missing_module_that_an_installed_one_needs_is_named(monkeypatch, tmp_path):
    (tmp_path / "installed.py").write_text("import missing.part")
    monkeypatch.syspath_prepend(tmp_path)
    for name, missing in (("installed", "missing"), ("missing.part", "missing")):
        with pytest.raises(ModuleNotFoundError, match=rf"fit needs {missing}, which is not installed.*'phased\[extra\]'"):
            lazy.module(name, "fit", "extra")


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
    assert settings["wheel"] == {"packages": ["src/phased", "src/phased_lab"], "exclude": ["phased/kernels/cpu/**"]}
    folders = {path.name for path in (ROOT / "src" / "phased" / "kernels").iterdir()}
    assert folders == {"cpu", "cuda", "shared"}


def test_the_names_that_users_need_are_imported_from_the_package_itself():
    laws, costs = {"LogUniform", "Uniform", "Constant", "aligned", "fitted"}, {"updates", "openness_cost"}
    training = {"never_open", "wake", "parameter_groups"}
    fusion = {"Fusion", "FusionStream", "Timeline", "open_at_samples"}
    assert set(phased.__all__) == {"PhasedLSTM", "PhasedGRU", "Stream"} | laws | costs | training | fusion
    assert all(getattr(phased, name) is getattr(phased, name) for name in phased.__all__)
    assert set(phased.__all__) <= set(dir(phased))
    with pytest.raises(AttributeError, match="module 'phased' has no attribute 'PhasedRNM'"):
        _ = phased.PhasedRNM


def test_importing_the_package_imports_nothing_that_only_training_commands_or_figures_need():
    heavy = {"lightning", "joblib", "typer", "rich", "matplotlib", "altair", "jinja2", "onnx", "dask"}
    heavy |= {"phased.learn", "phased.cli", "phased_lab"}
    code = "import sys, phased; phased.PhasedLSTM; print(*sys.modules)\n"
    code += "from phased import classifier, estimator, learn; estimator.PhasedClassifier; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported, with_estimators = (line.split() for line in done.stdout.splitlines())
    assert "phased.layer" in imported
    assert heavy.isdisjoint(imported)
    assert {"phased.learn", "phased.estimator.classifier", "phased.classifier"} <= {*with_estimators}
    assert "lightning" not in with_estimators


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_of_the_command_import_no_torch(option):
    code = (
        "import sys; from phased.cli import main; sys.argv = ['phased', sys.argv[1]]\n"
        "assert 'phased.files' not in sys.modules, 'main imports, and ends at Ctrl-C'\n"
        "try: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, option], capture_output=True, text=True, check=True)
    assert done.stdout.strip()
    assert {"torch", "numpy", "sklearn", "polars", "phased_lab", "phased.layer"}.isdisjoint(done.stderr.split())


def test_the_list_of_commands_says_what_each_command_of_the_laboratory_says_of_itself():
    entries = entry_points(group="phased.commands")
    assert set(entries.names) == set(LABORATORY)
    for entry in entries:
        assert entry.load().help.split("\n\n")[0].split(". ")[0].rstrip(".") == LABORATORY[entry.name].rstrip("."), entry.name


@pytest.mark.parametrize(
    "found, said",
    [((), "'phased report' is not in this installation"), (("no_such_module:report",), "'phased report' needs no_such_module")],
)
def test_a_command_of_the_laboratory_that_cannot_be_imported_is_answered_with_what_to_install(monkeypatch, found, said):
    entries = [EntryPoint("report", value, "phased.commands") for value in found]
    monkeypatch.setattr("phased.cli.app.entry_points", lambda **_: entries)
    result = CliRunner().invoke(app, ["report"])
    assert result.exit_code == 1
    told = " ".join(result.output.split())
    assert said in told
    assert "pip install 'phased[lab]'" in told
