"""What every test runs under."""

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

# pytest's importlib mode leaves sys.path alone; shared test material lies beside this file.
sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile("phased", deadline=None, max_examples=50)
settings.load_profile("phased")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `gpu` are skipped where there is no CUDA device."""
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.fixture(autouse=True)
def _instruction_set(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test about the backend "cpu" runs with the instruction set that its parameter names."""
    from instructions import CoreOn, using  # beside this file

    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    backend = parameters.get("backend")
    with using(backend.instructions if isinstance(backend, CoreOn) else ""):
        yield


@pytest.fixture(autouse=True, scope="session")
def _one_thread_per_worker() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _same_draws_every_time() -> None:
    torch.manual_seed(20161029)


@pytest.fixture
def unsynchronised() -> Any:
    """A context in which a synchronisation of the GPU with the CPU raises."""

    @contextmanager
    def raising() -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Synchronization debug mode is a prototype")
            torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")

    return raising


@pytest.fixture(scope="session")
def one_worker() -> Iterator[Any]:
    """A dask client whose cluster is one thread of this process."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, memory_limit=0, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def in_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps run in this process, one run after the other on one core, and no process is started."""
    monkeypatch.setattr("phased_lab.runs.sweep.connected", lambda *_: nullcontext(request.getfixturevalue("one_worker")))
    monkeypatch.setattr("phased_lab.runs.sweep.cores", lambda: 1)


@pytest.fixture(scope="session")
def call() -> Any:
    """Call the command `phased` on a wide terminal. No message is wrapped."""
    from typer.testing import CliRunner  # not for all tests

    from phased.cli.app import app

    runner = CliRunner(env={"COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"})
    return lambda *arguments: runner.invoke(app, [str(each) for each in arguments])


@pytest.fixture
def refused(call: Any) -> Any:
    """Call the command, and expect a message and a failure without a traceback."""

    def check(says: str, *arguments: object, code: int = 1) -> Any:
        result = call(*arguments)
        assert (result.exit_code, type(result.exception)) == (code, SystemExit), result.output
        assert says in result.output
        return result

    return check


@pytest.fixture
def data_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny data folder that PHASED_DATA names, and a camera that takes no time."""
    from digits import stand_in, write_data  # beside this file

    folder = write_data(tmp_path_factory.mktemp("data"))
    monkeypatch.setenv("PHASED_DATA", str(folder))
    monkeypatch.setenv("PHASED_CACHE", str(folder / "cache"))
    monkeypatch.setattr("phased.data.simulated.simulate", stand_in)
    return folder


def _real(find: Callable[[], Path]) -> Path:
    """A folder in PHASED_DATA; the test is skipped if it is not there."""
    if not os.environ.get("PHASED_DATA"):
        pytest.skip("PHASED_DATA is not set: no real data")
    try:
        return find()
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def nmnist() -> Path:
    """The folder with real recordings."""
    from phased.data import find_nmnist

    return _real(find_nmnist)


@pytest.fixture(scope="session")
def mnist() -> Path:
    """The folder with MNIST."""
    from phased.data import find_mnist

    return _real(find_mnist)


@pytest.fixture(scope="session")
def grid() -> Path:
    """The folder with real clips, which need PyAV and OpenCV."""
    for name in ("av", "cv2"):
        pytest.importorskip(name)
    from phased_lab.clips import find_grid

    return _real(find_grid)
