"""`phased bench physionet`: the estimator's accuracy on PhysioNet 2012, as a table; an interrupted run continues."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from phased_lab.bench import physionet
from phased_lab.bench.measure import machine, same_terms
from phased_lab.cli.table import table


def plan(quick: bool, seeds: int, folds: int) -> physionet.Plan:
    """What is fitted; quick, one seed with few epochs."""
    return physionet.Plan(seeds=1, folds=folds, epochs=2) if quick else physionet.Plan(seeds=seeds, folds=folds)


@same_terms(threads=1)
def bench_physionet(console: Console, data: Path, plan: physionet.Plan, parts: Path | None) -> dict[str, Any]:
    """Accuracy and seconds an epoch of the estimator with several cells, by cross-validation on PhysioNet 2012."""
    with console.status("reading"):
        events, y = physionet.read(data)
    folder = None if parts is None else parts / physionet.identity(events, y, plan)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as bar:
        shown = bar.add_task("", total=len(plan.fits()), completed=-1)
        fits = physionet.run(events, y, plan, folder, lambda fit: bar.update(shown, advance=1, description=str(fit)))
    found = physionet.summary(y, plan, fits)
    rows = table(
        f"{len(y):,} stays, {plan.folds} folds, {plan.seeds} seeds, {plan.units} units, one thread",
        *("cell", "AUROC", "seeds together", "AUPRC", "against the first", "s/epoch"),
    )
    for row in found:
        spread = "" if row["auroc_spread"] is None else f" +- {row['auroc_spread']:.4f}"
        less = "" if row is found[0] else f"{row['difference']:+.4f} +- {row['difference_error']:.4f}"
        auprc = f"{sum(row['auprc']) / len(row['auprc']):.4f}"
        cells = f"{row['auroc_mean']:.4f}{spread}", f"{row['auroc_together']:.4f}", auprc, less
        rows.add_row(row["cell"], *cells, f"{row['seconds_per_epoch']:.2f}")
    console.print(rows)
    return {"machine": machine(), "plan": asdict(plan), "stays": len(y), "deaths": int(y.sum()), "cells": found}
