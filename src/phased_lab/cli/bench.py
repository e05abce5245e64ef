"""`phased bench`: measures, prints tables of ratios, and writes the measurements."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from phased.files import write_whole
from phased_lab.bench import cpu, cuda, epoch, lipreading, nmnist, stream, tasks
from phased_lab.bench.measure import Timing, machine, same_terms
from phased_lab.cli.table import table


def write(path: Path, result: dict[str, Any]) -> None:
    """Write the result as JSON, atomically."""
    write_whole(path, (json.dumps(result, indent=1) + "\n").encode())


def milliseconds(timing: Timing | None) -> str:
    """The median; the quartiles are in the file."""
    return "-" if timing is None else f"{1e3 * timing.median:.2f}"


def ratio(peer: Timing | None, own: Timing) -> str:
    """How many times faster than a peer, as text."""
    return "-" if peer is None else f"{peer.median / own.median:.1f}x"


@same_terms()
def bench_cpu(console: Console, quick: bool) -> dict[str, Any]:
    """Training, inference, memory, growth and break-even on this CPU."""
    rounds = 3 if quick else 15
    works = cpu.TABLE[:2] if quick else cpu.TABLE
    result: dict[str, Any] = {"machine": machine(), "rounds": rounds, "train": [], "infer": []}

    rows = table(
        "training step, ms; r_on 0.05", "work", "leak 0", "leak 0.001", "nn.LSTM", "reference", "LSTM/leak 0", "LSTM/leak 0.001"
    )
    for work in works:
        with console.status(f"training, {work}"):
            timings = cpu.training(work, rounds, reference=work.T <= 1000 and not quick)
        reference = timings.get("reference")
        sparse, leak, lstm = timings["sparse"], timings["leak"], timings["nn.LSTM"]
        rows.add_row(str(work), *map(milliseconds, (sparse, leak, lstm, reference)), ratio(lstm, sparse), ratio(lstm, leak))
        result["train"].append({"work": asdict(work)} | {name: asdict(timing) for name, timing in timings.items()})
    console.print(rows, "")

    rows = table("inference, ms; r_on 0.05", "work", "ours", "nn.LSTM", "ratio")
    for work in works:
        with console.status(f"inference, {work}"):
            timings = cpu.inference(work, rounds)
        rows.add_row(str(work), *map(milliseconds, timings.values()), ratio(timings["nn.LSTM"], timings["sparse"]))
        result["infer"].append({"work": asdict(work)} | {name: asdict(timing) for name, timing in timings.items()})
    console.print(rows, "")

    if not quick:
        with console.status(f"peak memory, {cpu.MEMORY}"):
            memory = {model: cpu.peak_memory(cpu.MEMORY, model) for model in ("sparse", "nn.LSTM")}
        result["memory"] = {"work": asdict(cpu.MEMORY), "bytes": memory}
        share = memory["nn.LSTM"] / memory["sparse"]
        console.print(
            f"peak memory of a training step, {cpu.MEMORY}: {memory['sparse'] / 1e6:.0f} MB, "
            f"nn.LSTM {memory['nn.LSTM'] / 1e6:.0f} MB, 1/{share:.1f}\n"
        )
        result["break_even"] = []
        rows = table("leak 0 by open units and by whole products, ms; B32 T300 D8 H110", "ratio_on", "open units", "products")
        with console.status("break-even"):
            result["break_even"] = cpu.break_even(rounds)
        for row in result["break_even"]:
            rows.add_row(f"{row['ratio_on']:g}", f"{1e3 * row['sparse']:.2f}", f"{1e3 * row['dense']:.2f}")
        console.print(rows, "")

        rows = table("growth of a training step, ms", "axis", "work", "r_on", "ours", "nn.LSTM", "ours, us/step")
        result["growth"] = []
        with console.status("growth"):
            for axis, work, own, peer in cpu.growth(5):
                result["growth"].append(
                    {"axis": axis, "work": asdict(work), "sparse": own, "nn.LSTM": None if peer != peer else peer}
                )
                each = 1e6 * own / (work.B * work.T)
                other = "-" if peer != peer else f"{1e3 * peer:.2f}"
                rows.add_row(axis, str(work), f"{work.ratio_on:g}", f"{1e3 * own:.2f}", other, f"{each:.3f}")
        console.print(rows)
    return result


@same_terms(threads=1)
def bench_stream(console: Console, quick: bool) -> dict[str, Any]:
    """Time per event of a stream, on one core."""
    rounds = 3 if quick else 11
    count = 2_000 if quick else 20_000
    result: dict[str, Any] = {"machine": machine(), "rounds": rounds, "events": count}

    with console.status("H110 D41"):
        few = count // 10
        own = stream.ours(110, count, rounds)
        timings: dict[str, Timing | None] = {
            "Stream.run": own,
            "Stream.run, looked up": stream.looked_up(110, count, rounds),
            "Stream.push, numpy": stream.pushed(110, count, rounds),
            "Stream.run, every unit open": stream.ours(110, count, rounds, dense=True),
            "nn.LSTM, whole sequence": stream.lstm_sequence(110, count, rounds),
            "onnxruntime LSTM, step": stream.onnx_step(110, few, rounds),
            "nn.LSTMCell, step": stream.lstm_cell(110, few, rounds),
        }
    rows = table("an event, us (quartiles); H110 D41 r_on 0.05, one core", "way", "us", "against Stream.run")
    for name, timing in timings.items():
        if timing is None:
            rows.add_row(name, "not installed", "-")
            continue
        spread = f"{1e6 * timing.median:.3f} ({1e6 * timing.low:.3f}-{1e6 * timing.high:.3f})"
        rows.add_row(name, spread, ratio(timing, own))
    console.print(rows, "")
    result["H110"] = {name: None if timing is None else asdict(timing) for name, timing in timings.items()}

    rows = table(
        "an event, us; D41 r_on 0.05, one core", "H", "Stream.run", "every unit open", "nn.LSTM, sequence", "dense / sparse"
    )
    result["sizes"] = []
    for units in (512, 1024) if quick else (512, 1024, 2048):
        with console.status(f"H{units}"):
            sparse = stream.ours(units, count // 10, rounds)
            dense = stream.ours(units, max(100, count // 100), rounds, dense=True)
            lstm = stream.lstm_sequence(units, max(100, count // 100), rounds)
        rows.add_row(str(units), *(f"{1e6 * x.median:.1f}" for x in (sparse, dense, lstm)), ratio(dense, sparse))
        result["sizes"].append({"H": units, "sparse": asdict(sparse), "dense": asdict(dense), "nn.LSTM": asdict(lstm)})
    console.print(rows, "")

    if not quick:
        rows = table("time an event takes in longer streams; H110 D41", "events", "us")
        result["flatness"] = []
        for events, seconds in stream.flatness():
            rows.add_row(f"{events:,}", f"{1e6 * seconds:.3f}")
            result["flatness"].append({"events": events, "seconds": seconds})
        console.print(rows)
    return result


@same_terms(threads=1)
def bench_nmnist(console: Console, quick: bool) -> dict[str, Any]:
    """Time per event of the classifier and of others, on one core, over a made-up recording like those of N-MNIST."""
    rounds = 3 if quick else 11
    events = nmnist.recording()
    with console.status("42-110-10"):
        timings = nmnist.measure(events, rounds)
    own = next(iter(timings.values()))
    rows = table(f"an event of a recording of {len(events):,}, us (quartiles); one core", "way", "us", "events/s", "the first is")
    for name, timing in timings.items():
        spread = f"{1e6 * timing.median:.3f} ({1e6 * timing.low:.3f}-{1e6 * timing.high:.3f})"
        rows.add_row(name, spread, f"{1 / timing.median:,.0f}", "" if timing is own else ratio(timing, own))
    console.print(rows)
    if not any("onnxruntime" in name for name in timings):
        console.print("onnxruntime is not installed, so it was not measured. Install it with: pip install 'phased[lab]'")
    event = {name: asdict(timing) for name, timing in timings.items()}
    return {"machine": machine(), "rounds": rounds, "events": len(events), "event": event}


def bench_reading(console: Console, quick: bool) -> dict[str, Any]:
    """Rows a second of `Events.read` on one core."""
    from phased_lab.bench import reading

    rows, rounds = (200_000, 1) if quick else (4_000_000, 3)
    with console.status("reading"):
        seconds = reading.measure(rows, rounds)
    shown = table(f"a long table of {rows:,} rows in no order, one core", "from", "s", "rows/s")
    for name, value in seconds.items():
        shown.add_row(name, f"{value:.2f}", f"{rows / value:,.0f}")
    console.print(shown)
    return {"machine": machine() | {"threads": 1}, "rows": rows, "rounds": rounds, "seconds": seconds}


@same_terms(threads=1)
def bench_online(console: Console, quick: bool) -> dict[str, Any]:
    """Time of an event of an estimator's online sequence, on one core."""
    from phased_lab.bench import online

    rounds = 3 if quick else 11
    with console.status("one sequence"):
        timings = online.measure(rounds)
    own = timings["push"]
    rows = table(
        f"an event, us (quartiles); {online.VARIABLES} variables, {online.STEPS} events, one core", "way", "us", "push is"
    )
    for name, timing in timings.items():
        spread = f"{1e6 * timing.median:.2f} ({1e6 * timing.low:.2f}-{1e6 * timing.high:.2f})"
        rows.add_row(name, spread, "" if timing is own else ratio(timing, own))
    console.print(rows)
    return {"machine": machine(), "rounds": rounds, "event": {name: asdict(timing) for name, timing in timings.items()}}


@same_terms(threads=1)
def bench_widths(console: Console, quick: bool) -> dict[str, Any]:
    """Seconds of a training epoch of the estimator at several widths, on one core."""
    from phased_lab.bench import widths

    rounds, epochs, sequences = (1, 2, 200) if quick else (3, 5, widths.SEQUENCES)
    with console.status("") as status:
        found = widths.measure(rounds, epochs, sequences, lambda width, cell: status.update(f"{width} units, {cell}"))
    rows = table(widths.title(sequences), "units", "cell", "s", "the first is")
    for width, cells in found.items():
        own = next(iter(cells.values()))
        for cell, timing in cells.items():
            rows.add_row(str(width), cell, f"{timing.median:.2f}", "" if timing is own else ratio(timing, own))
    console.print(rows)
    seconds = {str(width): {cell: asdict(timing) for cell, timing in cells.items()} for width, cells in found.items()}
    return {"machine": machine(), "rounds": rounds, "sequences": sequences, "title": widths.title(sequences), "seconds": seconds}


def bench_cuda(console: Console, quick: bool, keep: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Training, inference, memory and growth on this GPU. After each of its tables `keep` is given what is measured so far."""
    rounds = 2 if quick else 7
    result: dict[str, Any] = {"machine": machine() | cuda.gpu(), "rounds": rounds}

    headers = ("work", "ours", "of it GPU", "nn.LSTM", "reference", "ratio", "without autograd's threads")
    rows = table("training step, ms; leak 0", *headers)
    result["train"] = []
    for work in (*cuda.SPARSE, *cuda.WIDER, *cuda.COMMON, *cuda.OPENER, *cuda.LARGE):
        with console.status(f"training, {work}"):
            timings = cuda.training(work, 0.0, rounds, reference=work is cuda.SPARSE[0] and not quick)
            kernels = cuda.kernel_times(work, 0.0)
            with torch.autograd.set_multithreading_enabled(False):
                unthreaded = cuda.training(work, 0.0, rounds)
        ours, lstm, busy = timings["ours"], timings["nn.LSTM"], sum(kernels.values())
        cells = (milliseconds(ours), f"{1e3 * busy:.2f}", milliseconds(lstm), milliseconds(timings.get("reference")))
        rows.add_row(str(work), *cells, ratio(lstm, ours), ratio(unthreaded["nn.LSTM"], unthreaded["ours"]))
        more = {"gpu": busy, "kernels": kernels, "floor": cuda.floor(work)}
        result["train"].append(cuda.row(work, timings, unthreaded=cuda.row(work, unthreaded), **more))
    console.print(rows, "")
    keep(result)

    rows = table("training step, ms; leak 0.001", "work", "ours", "of it GPU", "nn.LSTM", "ratio")
    result["leak"] = []
    for work in cuda.LEAKY:
        with console.status(f"training with a leak, {work}"):
            timings = cuda.training(work, 1e-3, rounds)
            kernels = cuda.kernel_times(work, 1e-3)
        ours, lstm, busy = timings["ours"], timings["nn.LSTM"], sum(kernels.values())
        rows.add_row(str(work), milliseconds(ours), f"{1e3 * busy:.2f}", milliseconds(lstm), ratio(lstm, ours))
        result["leak"].append(cuda.row(work, timings, gpu=busy, kernels=kernels))
    console.print(rows, "")
    keep(result)

    rows = table("training step, ms; leak 0.001; the same precision", "work", "precision", "ours", "nn.LSTM", "ratio")
    result["precision"] = []
    for work in cuda.PRECISE:
        with console.status(f"the same precision, {work}"):
            timings = cuda.precision(work, 1e-3, rounds)
        for name, added in (("float32", ""), ("TF32", " TF32")):
            ours, lstm = timings["ours" + added], timings["nn.LSTM" + added]
            rows.add_row(str(work), name, milliseconds(ours), milliseconds(lstm), ratio(lstm, ours))
        result["precision"].append(cuda.row(work, timings))
    console.print(rows, "")
    keep(result)

    names = ("work", "ours, float32", "of it GPU", "ours, autocast", "of it GPU", "nn.LSTM", "ratio")
    rows = table("training step, ms; leak 0; nn.LSTM in float16, its fastest", *names)
    result["half"] = []
    for work in cuda.HALF:
        with console.status(f"against float16, {work}"):
            timings = cuda.half(work, rounds)
            on_gpu = {name: sum(cuda.kernel_times(work, 0.0, low).values()) for name, low in cuda.OURS.items()}
        both = [cell for name in cuda.OURS for cell in (milliseconds(timings[name]), f"{1e3 * on_gpu[name]:.3f}")]
        lstm = timings["nn.LSTM float16"]
        rows.add_row(str(work), *both, milliseconds(lstm), ratio(lstm, timings["ours"]))
        result["half"].append(cuda.row(work, timings, gpu=on_gpu))
    console.print(rows, "")
    keep(result)

    rows = table("inference, ms; r_on 0.05", "work", "ours", "nn.LSTM", "ratio")
    result["infer"] = []
    for work in cuda.SPARSE:
        with console.status(f"inference, {work}"):
            timings = cuda.inference(work, rounds)
        rows.add_row(str(work), *map(milliseconds, timings.values()), ratio(timings["nn.LSTM"], timings["ours"]))
        result["infer"].append(cuda.row(work, timings))
    console.print(rows, "")
    keep(result)

    rows = table("in other ways, ms", "work", "", "ours", "nn.LSTM", "ratio")
    result["otherwise"] = []
    first = cuda.SPARSE[0]
    with console.status(f"in other ways, {first}"):
        waited = "one call, waited for"
        compared = [("train", waited, cuda.training(first, 0.0, rounds, alone=True))]
        compared += [("infer", waited, cuda.inference(first, rounds, alone=True))]
    for what, how, timings in compared:
        rows.add_row(f"{what} {first}", how, *map(milliseconds, timings.values()), ratio(timings["nn.LSTM"], timings["ours"]))
        result["otherwise"].append(cuda.row(first, timings, what=what, how=how))
    console.print(rows, "")
    keep(result)

    rows = table("peak memory of a training step, MB", "work", "ours", "ours, autocast", "nn.LSTM", "ours is")
    result["memory"] = []
    for work in cuda.MEMORY:
        with console.status(f"peak memory, {work}"):
            memory = {model: cuda.peak_memory(work, model) for model in ("ours", "ours bfloat16", "nn.LSTM")}
        megabytes = [f"{used / 1e6:.0f}" for used in memory.values()]
        rows.add_row(str(work), *megabytes, f"1/{memory['nn.LSTM'] / memory['ours']:.1f}")
        result["memory"].append({"work": asdict(work), "bytes": memory})
    console.print(rows, "")
    keep(result)
    if not quick:
        rows = table("training step, ms", "work", "leak", "ours", "nn.LSTM", "ratio", "nn.LSTM in float32", "ratio")
        result["grid"] = []
        with console.status("units and sequences"):
            for work, leak, timings in cuda.grid(3):
                ours, *peers = timings.values()
                against = [cell for peer in peers for cell in (milliseconds(peer), ratio(peer, ours))]
                rows.add_row(str(work), f"{leak:g}", milliseconds(ours), *against)
                result["grid"].append(cuda.row(work, timings, leak=leak))
        console.print(rows, "")
        keep(result)

        rows = table("longer and longer sequences; leak 0", "work", "ms", "us/step", "peak, MB")
        result["longest"] = []
        with console.status("longer sequences"):
            for work, seconds, peak in cuda.longest():
                rows.add_row(str(work), f"{1e3 * seconds:.1f}", f"{1e6 * seconds / work.T:.3f}", f"{peak / 1e6:.0f}")
                result["longest"].append({"work": asdict(work), "seconds": seconds, "bytes": peak})
        console.print(rows)
    return result


@same_terms()
def bench_tasks(console: Console, quick: bool) -> dict[str, Any]:
    """A training step of each of the paper's synthetic tasks, and the time of a whole run."""
    rounds = 2 if quick else 9
    on_gpu = torch.cuda.is_available()
    result: dict[str, Any] = {"machine": machine() | (cuda.gpu() if on_gpu else {}), "rounds": rounds, "tasks": []}
    rows = table("a training step of 32 sequences, ms; and a whole run", "task", "network", "ms", "a run", "against leak 0")
    for figure in tasks.FIGURES[2:3] if quick else tasks.FIGURES:
        with console.status(figure.name):
            networks = tasks.contestants(figure)
            timings = {who.name: tasks.step(figure, who, "auto", rounds) for who in networks}
            fast = [who for who in networks if on_gpu and not who.plain]
            recorded = {who.name: tasks.step(figure, who, "auto", rounds, recorded=True) for who in fast}
        own = next(iter(timings.values()))
        for name, timing in (*timings.items(), *((f"{name}, recorded", timing) for name, timing in recorded.items())):
            run = f"{timing.median * figure.steps / 60:.1f} min"
            rows.add_row(figure.name, name, milliseconds(timing), run, f"{timing.median / own.median:.1f}x")
        steps, replayed = ({name: asdict(timing) for name, timing in each.items()} for each in (timings, recorded))
        result["tasks"].append(
            {"task": figure.name, "steps": figure.steps, "step": steps} | ({"recorded": replayed} if fast else {})
        )
    console.print(rows)
    return result


@same_terms()
def bench_epoch(console: Console, quick: bool) -> dict[str, Any]:
    """An epoch of training on recordings of digits; on a CPU, or quick, on a thirtieth of them."""
    on_gpu = torch.cuda.is_available()
    recordings, rounds = (60_000, 2) if on_gpu and not quick else (2_000, 1)
    with console.status(f"epochs of {recordings:,} recordings"):
        timings = epoch.measure(recordings, rounds, "auto")
    own = next(iter(timings.values()))
    rows = table(f"an epoch of {recordings:,} recordings, s", "network", "s", "the first is")
    for name, timing in timings.items():
        rows.add_row(name, f"{timing.median:.2f}", "" if timing is own else ratio(timing, own))
    console.print(rows)
    seconds = {name: asdict(timing) for name, timing in timings.items()}
    where = machine() | (cuda.gpu() if on_gpu else {})
    return {"machine": where, "rounds": rounds, "recordings": recordings, "batch": epoch.PAPER.training.batch, "epoch": seconds}


@same_terms()
def bench_lipreading(console: Console, quick: bool) -> dict[str, Any]:
    """A training step of lip reading on made-up clips: 64 of them on a GPU, 4 on a CPU."""
    on_gpu = torch.cuda.is_available()
    clips, rounds = 64 if on_gpu else 4, 2 if quick else 9
    where = machine() | (cuda.gpu() if on_gpu else {})
    result: dict[str, Any] = {"machine": where, "rounds": rounds, "clips": clips, "networks": []}
    rows = table(f"a training step of {clips} clips", "resolution", "network", "ms", "the first is", "updates")
    own: dict[str, Timing] = {}
    for contestant in lipreading.contestants():
        with console.status(f"{contestant.name}, {contestant.resolution} resolution"):
            found = lipreading.measure(contestant, clips, "auto", rounds)
        first = own.setdefault(contestant.resolution, found.step)
        times = "" if found.step is first else ratio(found.step, first)
        rows.add_row(contestant.resolution, contestant.name, milliseconds(found.step), times, f"{found.updates:.0%}")
        result["networks"].append(
            {
                "resolution": contestant.resolution,
                "network": contestant.name,
                "step": asdict(found.step),
                "updates": found.updates,
            }
        )
    console.print(rows)
    return result
