"""The README's table of the paper's claims: `python -m phased_lab.paper.claims results`."""

from __future__ import annotations

import sys
from pathlib import Path

from phased_lab.report.groups import Group, groups, spread
from phased_lab.runs.folder import read
from phased_lab.tables import Table


def claims(folder: Path) -> str:
    """Return a Markdown table with one row per claim: the paper's number, and the result of the runs at the paper's scale."""
    found = {
        (group.study, group.data, group.condition, group.model, group.variant): group
        for group in groups(read(folder).records)
        if group.scale == "paper"
    }

    def frequency(
        condition: str, data: str = "", study: str = "frequency", model: str = "phased", variant: str = "leak 0"
    ) -> str:
        return percent(found[study, data, condition, model, variant].test.mean)

    def lstm(condition: str, data: str = "") -> str:
        return frequency(condition, data, model="lstm", variant="")

    def adding(condition: str, variant: str) -> float:
        return found["adding", "", condition, "phased", variant].test.mean

    def helps(variant: str) -> str:
        short, long = (adding(condition, variant) for condition in ("exp(0,2)", "exp(6,8)"))
        return f"{'yes' if long < short else 'no'} with `leak={variant.removeprefix('leak ')}` (MSE {long:.2g})"

    def words(study: str, variant: str) -> str:
        return tested(found[study, "", "high", "phased", variant], "video")

    authors, authors_lstm = frequency("asynchronous", "authors"), lstm("asynchronous", "authors")
    first_weights = frequency("asynchronous", "authors", "weights", "lstm", "initial weights N(0, 0.1)")
    superimposed = found["superimposed", "", "superimposed", "phased", "leak 0"]
    digits = found["nmnist", "", "simulated", "phased", "r_on 0.05"]
    scores = [record.evaluations["rho 0.75"] for record in digits.records]
    updates = spread(score.steps * (score.updates or 1.0) for score in scores).mean
    read_words, normalised = words("lipreading", "r_on learned from 1"), words("lipreading-normalised", NORMALISED)
    sparse_words = words("lipreading-paper", "clips unchanged, r_on 0.05")
    rows = (
        ("Fig. 3, regular timestamps", "99.1 % (89 %)", f"{frequency('standard')} ({lstm('standard')})"),
        ("Fig. 3, irregular timestamps", "98 % (69 %)", f"{frequency('asynchronous')} ({lstm('asynchronous')})"),
        (
            "Fig. 3, waves of the authors' code",
            "98 % (69 %)",
            f"{authors} ({authors_lstm}, {first_weights} with their initial weights)",
        ),
        ("Fig. 4a, two superimposed waves", "93 to 94 %", percent(superimposed.test.mean)),
        ("Fig. 4b, longer periods learn adding better", "yes", ", ".join(map(helps, ("leak 0", "leak 0.001")))),
        (
            "Table 1, N-MNIST, 75 % of the events",
            "97.3 %",
            f"{tested(digits, 'rho 0.75')} simulated, {tested(digits, 'all real, rho 1')} of 950 real recordings (all events)",
        ),
        ("Table 1, updates per unit", "159 of 3,153 events", f"{updates:.0f} of {scores[0].steps:,.0f} events"),
        (
            "Fig. 6, words by video",
            "81.2 % (30 speakers)",
            f"{read_words} (2 speakers), {normalised} with normalised inputs, {sparse_words} at `ratio_on=0.05`",
        ),
    )
    return Table(("Claim", "Paper", "Ours"), rows).markdown()


NORMALISED = "inputs normalised, r_on learned from 1"


def tested(group: Group, evaluation: str) -> str:
    """Return the mean accuracy in a further test."""
    return percent(spread(record.evaluations[evaluation].test for record in group.records).mean)


def percent(accuracy: float) -> str:
    """Return an accuracy in percent."""
    return f"{100 * accuracy:.1f} %"


if __name__ == "__main__":
    print(claims(Path(sys.argv[1])))
