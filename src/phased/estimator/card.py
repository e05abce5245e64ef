"""The model card, `README.md`, of a model's folder; made from its configuration alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phased.model_folder import filled

if TYPE_CHECKING:
    from phased.estimator.store import Config


NAMES = {
    "auroc": "area under the ROC curve",
    "auprc": "area under the precision-recall curve",
    "accuracy": "share of correct classes",
    "log_loss": "log loss",
    "r2": "coefficient of determination",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
}


def card(config: Config) -> str:
    """What the model is, what it reads, how it was trained, its scores, and how to use it, in Markdown."""
    unit, parameters, report = config.unit or "no unit given", config.parameters, config.report
    classes = None if config.classes is None else config.classes.values
    answer = "a number" if classes is None else f"one of {len(classes)} classes: {named(map(str, classes))}"
    when = "at each step" if config.every_step else "for each sequence"
    what = (
        f"A model that gives {answer}, {when} of measurements at uneven times: one layer of {parameters['units']} units "
        f"({parameters['cell']}), and a linear layer on its last, mean and highest states and on summaries of the inputs."
    )
    reads = (
        f"Variables over time: {named(config.variables)}. Known once a sequence: {named(config.statics)}. Times are in "
        f"{unit}; the training sequences have a median gap of {report.gap:.4g} and a median span of {report.span:.4g}, at most "
        f"{config.longest:.4g}."
    )
    texts = [f"- {name}: {named(levels)}" for name, levels in config.table.levels.items()]
    trained = f"{report.train:,} sequences; {report.held_out:,} others were held out for early stopping. "
    trained += (
        f"Epoch {report.best} of {len(report.curve)} was best; the model was then trained on all of them for as many. The scores "
        "below are those of the network that had not seen the sequences held out."
        if report.refitted
        else f"The weights are those of epoch {report.best} of {len(report.curve)}."
    )
    trained += " The training was interrupted." if report.interrupted else ""
    updates = f" An event updates {report.updates:.1%} of the units on average." if report.periods else ""
    versions = ", ".join(f"{name} {version}" for name, version in config.versions.items())
    scores = [f"| {NAMES.get(name, name)} | {value:.4f} |" for name, value in report.scores.items()]
    usage = f"""```python
from phased.estimator import Events, Phased{config.kind.capitalize()}

model = Phased{config.kind.capitalize()}.load("FOLDER")
X = Events.read("table.csv", like=model.table_)
answer = model.{"predict" if classes is None else "predict_proba"}(X)
```"""
    parts = [
        f"# Phased {config.kind}",
        filled(what),
        "## Input",
        filled(reads),
        *(["Each level of a text variable is an input of 0 and 1, called name=level:"] if texts else []),
        *(["\n".join(filled(line, "  ") for line in texts)] if texts else []),
        "## Training",
        filled(trained + updates),
        *([f"```\n{config.command}\n```"] if config.command else []),
        filled(f"{versions}."),
        "## Scores on the held-out sequences",
        "\n".join(["| score | value |", "|---|---|", *scores]),
        filled("These sequences chose the epoch, so scores on new ones may be a little lower."),
        "## Use",
        usage,
        "## Limits",
        "\n".join(
            filled(f"- {line}", "  ")
            for line in (
                "It answers for any sequence, also for one unlike those of the training.",
                "Values outside the range of the training count as its ends.",
                "Sequences much longer than those of the training give a warning: the scores do not hold for them.",
            )
        ),
    ]
    return "\n\n".join(parts) + "\n"


def named(names: Any) -> str:
    """Names in a row."""
    return ", ".join(names) or "none"
