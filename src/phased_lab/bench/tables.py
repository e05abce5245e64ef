"""The tables of times in README and docs, from the files of `phased bench`: `python -m phased_lab.bench.tables results/bench`."""

from __future__ import annotations

import sys
from pathlib import Path

from phased_lab.bench import cpu, cuda, stream
from phased_lab.bench.benchmark import Cases, Row, load, read
from phased_lab.bench.work import LEAKY, OURS
from phased_lab.tables import Table

SHOWN = {
    "estimators": 1,
    "widths": 1,
    "physionet": 1,
    "online": 1,
    "reading": 1,
    "startup": 1,
    "cpu": 1,
    "cpu-avx2": 1,
    "stream": 1,
    "stream-avx2": 1,
    "nmnist": 1,
    "cuda": 2,
    "tasks-cpu": 1,
    "tasks-cuda": 2,
    "epoch-cuda": 1,
    "lipreading-cpu": 1,
    "lipreading-cuda": 1,
}
"""Number of tables of a file in README and docs."""


def shown(folder: Path, name: str) -> list[str]:
    """The tables of a file in Markdown. A file begins with the name of its benchmark."""
    tables = load(name.partition("-")[0]).tables(read(folder / f"{name}.json"))
    return [table.markdown() for table in tables[: SHOWN[name]]]


def summary(folder: Path) -> str:
    """The README's five rows, the last of which is slower than nn.LSTM."""
    on_cpu, on_gpu, of_stream = (read(folder / f"{name}.json")["cases"] for name in ("cpu", "cuda", "stream"))
    used = found(on_cpu, cpu.PEAK, str(cpu.MEMORY))
    pushed = found(of_stream, "an event", "H110 D41")
    rows = (
        (
            "Training step, 2 CPU cores: 32 sequences, 1,000 steps, 110 units",
            *compared(found(on_cpu, cpu.TRAINING, "B32 T1,000 D1 H110"), OURS, "nn.LSTM", 0),
        ),
        (
            "Training step, H200: 512 sequences, 1,000 steps, 110 units",
            *compared(found(on_gpu, cuda.TRAINING, "B512 T1,000 D1 H110"), OURS, "cuDNN", 1),
        ),
        (
            "Peak memory of a training step, CPU: 8 sequences, 100,000 steps",
            f"{used.median(OURS) / 1e9:.2f} GB",
            f"nn.LSTM, {used.median('nn.LSTM') / 1e9:.1f} GB",
            used.speed_up(OURS),
        ),
        (
            "One event pushed from Python, one core: 110 units, 41 features",
            f"{1e6 * pushed.median(stream.PUSH):.1f} us",
            f"nn.LSTMCell, {1e6 * pushed.median(CELL):.1f} us",
            speed_up(pushed, stream.PUSH, CELL),
        ),
        (
            "Training step, H200, `leak=0.001`: 512 sequences, 500 steps, 1,024 units",
            *compared(found(on_gpu, cuda.SIZES, "B512 T500 D8 H1024, leak 0.001"), LEAKY, "cuDNN", 0),
        ),
    )
    return Table(("Task", "PhasedLSTM", "Baseline", "Speed-up"), rows).markdown()


CELL = "nn.LSTMCell, step"


def found(cases: Cases, part: str, name: str) -> Row:
    """The finished case of this name."""
    return next(Row(case, name) for case in cases if (case["part"], case["case"]) == (part, name))


def compared(row: Row, own: str, name: str, digits: int) -> tuple[str, str, str]:
    """Our time, the time of nn.LSTM under the name of its implementation, and the speed-up."""
    digits_of_ours = 1 if row.median(own) < 0.1 else 0
    return row.value(own, digits_of_ours), f"{name}, {row.value('nn.LSTM', digits)}", speed_up(row, own, "nn.LSTM")


def speed_up(row: Row, own: str, peer: str) -> str:
    """Divide the time of the baseline by the time of phased. A loss has one decimal."""
    return row.speed_up(own, peer, 0 if row.median(peer) >= 2 * row.median(own) else 1)


def read_all(folder: Path) -> dict[str, list[str]]:
    """Return every table in README and docs, keyed by file. `summary` is the table of the README."""
    return {name: shown(folder, name) for name in SHOWN if (folder / f"{name}.json").exists()} | {"summary": [summary(folder)]}


if __name__ == "__main__":
    print("\n\n".join(table for tables in read_all(Path(sys.argv[1])).values() for table in tables))
