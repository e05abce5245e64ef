"""The tables of times in docs, from the files of `phased bench`: `python -m phased_lab.bench.tables results/bench`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phased_lab.bench.cpu import USUAL_RATIO
from phased_lab.tables import Table

Row = Mapping[str, Any]
FASTER = "speed-up of the first row"


def work(row: Row) -> str:
    """The size of the problem: batch, steps, features, units; and the open ratio, where it is not the usual one."""
    size = row["work"]
    ratio = "" if size["ratio_on"] == USUAL_RATIO else f" r_on {size['ratio_on']:g}"
    return f"B{size['B']} T{size['T']:,} D{size['D']} H{size['H']}{ratio}"


def ms(row: Row, who: str, digits: int = 1) -> str:
    """The median of a contestant."""
    return f"{1e3 * row[who]['median']:.{digits}f} ms"


def times(row: Row, peer: str, own: str) -> str:
    """How many times faster than the peer."""
    return f"{row[peer]['median'] / row[own]['median']:.1f}x"


def memory(row: Row, own: str) -> tuple[str, str, str, str]:
    """The cells of a row: the problem, our memory, nn.LSTM's, and the ratio."""
    used = row["bytes"]
    return (
        f"peak memory of a training step, {work(row)}",
        f"{used[own] / 1e6:.0f} MB",
        f"{used['nn.LSTM'] / 1e6:,.0f} MB",
        f"{used['nn.LSTM'] / used[own]:.1f}x less",
    )


def cpu(result: Row) -> str:
    """Training and inference on a CPU."""
    rows = [
        [
            f"training step, {work(row)}",
            ms(row, "sparse"),
            *(ms(row, who, 0) for who in ("leak", "nn.LSTM")),
            *(times(row, "nn.LSTM", who) for who in ("sparse", "leak")),
        ]
        for row in result["train"]
    ]
    rows += [
        [f"inference, {work(row)}", ms(row, "sparse"), "", ms(row, "nn.LSTM", 0), times(row, "nn.LSTM", "sparse"), ""]
        for row in result["infer"]
    ]
    what, own, peer, share = memory(result["memory"], "sparse")
    head = ("work", "`leak=0`", "`leak=0.001`", "nn.LSTM", "speed-up, `leak=0`", "speed-up, `leak=0.001`")
    return Table(head, [*rows, [what, own, "", peer, share, ""]]).markdown()


def stream(result: Row) -> str:
    """Time per event of a stream."""
    events = {name: timing["median"] for name, timing in result["H110"].items() if timing}
    rows = [
        [name, f"{1e6 * event:.2f}", *over(events, name, "Stream.run", "Stream.push, numpy")] for name, event in events.items()
    ]
    return Table(("an event, H110 D41, one core", "us", "speed-up of `Stream.run`", "speed-up of `Stream.push`"), rows).markdown()


def over(events: Mapping[str, float], name: str, whole: str, step: str) -> tuple[str, str]:
    """Return the speed-up over a baseline, of calls with many events or of calls with one: whichever the baseline does."""
    if name in (whole, step):
        return "", ""
    if name.startswith("Stream.run") or "whole" in name:
        return f"{events[name] / events[whole]:.1f}x", ""
    return "", f"{events[name] / events[step]:.1f}x"


def nmnist(result: Row) -> str:
    """Time per event of the classifier, and its speed-up."""
    events = {name: timing["median"] for name, timing in result["event"].items()}
    rows = [
        [name, f"{1e6 * event:.2f}", f"{1 / event:,.0f}", *over(events, name, "Classifier, whole recording", "Stream.push")]
        for name, event in events.items()
    ]
    heads = ("an event of a recording, one core", "us", "events per second")
    return Table((*heads, "speed-up of `Classifier`", "speed-up of `Stream.push`"), rows).markdown()


def cuda(result: Row) -> str:
    """Training and inference on a GPU."""
    rows = [
        [
            f"training step, leak {leak}, {work(row)}",
            ms(row, "ours"),
            f"{1e3 * row['gpu']:.1f} ms",
            ms(row, "nn.LSTM"),
            times(row, "nn.LSTM", "ours"),
        ]
        for leak, key in (("0", "train"), ("0.001", "leak"))
        for row in result[key]
    ]
    rows += [
        [
            f"training step, leak 0.001, {work(row)}; both in {name}",
            ms(row, "ours" + added),
            "",
            ms(row, "nn.LSTM" + added),
            times(row, "nn.LSTM" + added, "ours" + added),
        ]
        for row in result.get("precision", [])
        for name, added in (("float32", ""), ("TF32", " TF32"))
    ]
    rows += [
        [
            f"training step, leak 0, {work(row)}; {how}nn.LSTM in float16",
            ms(row, own, 2),
            f"{1e3 * row['gpu'][own]:.2f} ms",
            ms(row, half),
            times(row, half, own),
        ]
        for half in ("nn.LSTM float16",)
        for row in result["half"]
        for how, own in (("", "ours"), ("ours under autocast to bfloat16, ", "ours bfloat16"))
    ]
    rows += [
        [f"inference, {work(row)}", ms(row, "ours", 2), "", ms(row, "nn.LSTM", 2), times(row, "nn.LSTM", "ours")]
        for row in result["infer"]
    ]
    said = {"train": "training step, leak 0", "infer": "inference"}
    rows += [
        [
            f"{said[row['what']]}, {work(row)}; {row['how']}",
            ms(row, "ours"),
            "",
            ms(row, "nn.LSTM"),
            times(row, "nn.LSTM", "ours"),
        ]
        for row in result["otherwise"]
    ]
    for row in result["memory"]:
        what, own, peer, share = memory(row, "ours")
        rows.append([what, own, "", peer, share])
        what, own, peer, share = memory(row, "ours bfloat16")
        rows.append([f"{what}; ours under autocast to bfloat16", own, "", peer, share])
    return Table(("work", "PhasedLSTM", "GPU time", "nn.LSTM (cuDNN)", "speed-up"), rows).markdown()


def cuda_without_threads(result: Row) -> str:
    """Training on a GPU without autograd's threads."""
    found = [(work(row), row["unthreaded"]) for row in result["train"]]
    rows = [[name, ms(row, "ours"), ms(row, "nn.LSTM"), times(row, "nn.LSTM", "ours")] for name, row in found]
    return Table(
        ("training step, leak 0, without autograd's threads", "PhasedLSTM", "nn.LSTM (cuDNN)", "speed-up"), rows
    ).markdown()


def tasks(result: Row) -> str:
    """A training step of each of the paper's tasks, and a whole run."""

    def cell(row: Row, name: str) -> str:
        seconds = row["step"][name]["median"]
        return f"{1e3 * seconds:.1f} ms, {seconds * row['steps'] / 60:.1f} min"

    rows = []
    for row in result["tasks"]:
        first, *learned = [name for name in row["step"] if name.startswith("leak 0, ")]
        at = f"{cell(row, learned[0])} ({learned[0].rpartition(' ')[2]})" if learned else "stays"
        rows.append([row["task"], cell(row, first), at, *(cell(row, name) for name in ("leak 0.001", "nn.LSTM", "plain loop"))])
    return Table(("task", "leak 0, r_on 0.05", "leak 0, r_on as learned", "leak 0.001", "nn.LSTM", "plain loop"), rows).markdown()


def recorded_tasks(result: Row) -> str:
    """The same steps replayed as CUDA graphs, and how many times faster each is than nn.LSTM's as usual."""
    rows = []
    for row in result["tasks"]:
        usual = row["step"]["nn.LSTM"]["median"]
        step = {name: f"{1e3 * t['median']:.2f} ms, {usual / t['median']:.1f}x" for name, t in row["recorded"].items()}
        first, *learned = [text for name, text in step.items() if name.startswith("leak 0, ")]
        rows.append([row["task"], first, *(learned or ["stays"]), step["leak 0.001"], step["nn.LSTM"], f"{1e3 * usual:.2f} ms"])
    heads = ("task, steps recorded", "leak 0, r_on 0.05", "leak 0, r_on as learned", "leak 0.001", "nn.LSTM")
    return Table((*heads, "nn.LSTM, not recorded"), rows).markdown()


def epoch(result: Row) -> str:
    """An epoch of training on recordings, and how many times faster the first network is than the others."""
    seconds = {name: timing["median"] for name, timing in result["epoch"].items()}
    first = next(iter(seconds))
    rows = [[name, f"{s:.1f} s", "" if name == first else f"{s / seconds[first]:.1f}x"] for name, s in seconds.items()]
    return Table((f"an epoch of {result['recordings']:,} recordings", "time", FASTER), rows).markdown()


def lipreading(result: Row) -> str:
    """A training step of lip reading, by resolution, and how many times faster the first network is."""
    rows = []
    for resolution in dict.fromkeys(row["resolution"] for row in result["networks"]):
        found = [row for row in result["networks"] if row["resolution"] == resolution]
        for row in found:
            ratio = "" if row is found[0] else f"{row['step']['median'] / found[0]['step']['median']:.1f}x"
            rows.append([resolution, row["network"], ms(row, "step", 0), ratio, f"{100 * row['updates']:.0f} %"])
    return Table(("resolution", f"a training step of {result['clips']} clips", "time", FASTER, "updates"), rows).markdown()


def physionet(result: Row) -> str:
    """Accuracy of the estimators on PhysioNet 2012, and the time of an epoch."""
    own = result["cells"][0]
    rows = [
        [
            row["cell"],
            f"{row['auroc_mean']:.4f} ± {row['auroc_spread']:.4f}",
            f"{row['auroc_together']:.4f}",
            f"{sum(row['auprc']) / len(row['auprc']):.3f}",
            "" if row is own else f"{row['difference']:+.4f} ± {row['difference_error']:.4f}",
            f"{row['seconds_per_epoch']:.2f}",
            "" if row is own else f"{row['seconds_per_epoch'] / own['seconds_per_epoch']:.1f}x",
        ]
        for row in result["cells"]
    ]
    head = ("cell", "AUROC", "all seeds together", "AUPRC", "difference to the first row", "s per epoch", FASTER)
    return Table(head, rows).markdown()


def online(result: Row) -> str:
    """Time of an event of an online sequence."""
    events = {name: timing["median"] for name, timing in result["event"].items()}
    own = events["push"]
    rows = [[name, f"{1e6 * event:.1f}", "" if event is own else f"{event / own:,.0f}x"] for name, event in events.items()]
    return Table(("an event of an online sequence, one core", "us", "speed-up of `push`"), rows).markdown()


def reading(result: Row) -> str:
    """Rows a second of tables."""
    rows = [[name, f"{seconds:.2f}", f"{result['rows'] / seconds:,.0f}"] for name, seconds in result["seconds"].items()]
    return Table((f"a long table of {result['rows']:,} rows, one core", "s", "rows per second"), rows).markdown()


def estimators(result: Row) -> str:
    """Scores of the estimators on made-up tasks, means over seeds with the range."""
    fits = result["fits"]
    cells = list(dict.fromkeys(fit["cell"] for fit in fits))
    rows = []
    for task, known in result["references"].items():
        row = [task]
        for cell in cells:
            scores = [fit["score"] for fit in fits if fit["task"] == task and fit["cell"] == cell]
            row.append(f"{sum(scores) / len(scores):.3f} ({min(scores):.3f} to {max(scores):.3f})")
        rows.append([*row, ", ".join(f"{name}: {value:.3f}" for name, value in known.items())])
    return Table(("task", *cells, "to compare with"), rows).markdown()


def widths(result: Row) -> str:
    """An epoch of the estimators at several widths."""
    rows = []
    for width, cells in result["seconds"].items():
        own, *peers = [timing["median"] for timing in cells.values()]
        rows.append([f"{width} units", f"{own:.2f} s", *(f"{peer:.2f} s, {peer / own:.1f}x" for peer in peers)])
    return Table((result["title"], *next(iter(result["seconds"].values()))), rows).markdown()


TABLES = {
    "estimators": estimators,
    "widths": widths,
    "physionet": physionet,
    "online": online,
    "reading": reading,
    "cpu": cpu,
    "cpu-avx2": cpu,
    "stream": stream,
    "stream-avx2": stream,
    "nmnist": nmnist,
    "cuda": cuda,
    "cuda without threads": cuda_without_threads,
    "tasks-cpu": tasks,
    "tasks-cuda": tasks,
    "tasks-cuda recorded": recorded_tasks,
    "epoch-cuda": epoch,
    "lipreading-cpu": lipreading,
    "lipreading-cuda": lipreading,
}


def read(folder: Path) -> dict[str, str]:
    """Return every table by its name. A table's file has the first word of the name."""
    return {name: make(json.loads((folder / f"{name.split()[0]}.json").read_text())) for name, make in TABLES.items()}


if __name__ == "__main__":
    print("\n\n".join(read(Path(sys.argv[1])).values()))
