"""Cures of errors as options of commands: messages of `phased.estimator` name the arguments of its functions."""

from __future__ import annotations

import re
import shlex

OPTIONS = ("unit", "static", "missing", "merge", "drop", "target", "id", "time", "variable", "value")
QUOTED = r"'[^']*'|\"[^\"]*\""
WORDS = {
    "Use `X, y = X.labelled(...)` to keep the sequences that have both.": "Add --labelled to keep the sequences that have both.",
    "Use PhasedRegressor.": "Use --task numbers.",
    "Use PhasedClassifier for classes.": "Use --task classes.",
    "Convert the classes with y.astype(str).": "Convert the column of targets to text.",
    "Read it with like= and unit=.": "Convert the times.",
    "Read X with like=, the Events of the training.": "Leave the others out with --drop.",
    "larger budget (updates)": "larger --updates",
    "y must ": "targets must ",
    "X must ": "the table must ",
    "Leave out such sequences.": "Leave them out of the labels, with --labelled.",
}
"""Cures that name Python objects, and the same in the words of the commands."""
OF_A_MODEL = {
    ", or name the variable in static= if it is known from the start.": ".",
    " Use PhasedClassifier for classes.": " The model predicts numbers.",
    "got one for each sequence.": "got one for each sequence. Name their column of times: --labels-time.",
    "got one for each step.": "got one for each step. Leave out --labels-time.",
}
"""Cures that `phased predict` and `score` do not have, and others in their place."""


def of_a_model(message: str) -> str:
    """The message for a command that reads a table as the model's training did."""
    for words, replaced in OF_A_MODEL.items():
        message = message.replace(words, replaced)
    return as_options(re.sub(r"Leave [^.]*? out of static=, or pass", "Pass", message))


def as_options(message: str) -> str:
    """The message with `--drop NAME` for `drop=['NAME']`, and so on."""
    for words, replaced in WORDS.items():
        message = message.replace(words, replaced)
    message = re.sub(r"Events\.read\(\.\.\., (.*?)\)", r"\1", message)
    message = re.sub(r"\bmissing=\{(.*?): (.*?)\}", lambda m: f"--missing {named(m[1])}={named(m[2])}", message)
    message = re.sub(r"\b(drop|static)=\[(.*?)\]", lambda m: repeated(m[1], m[2]), message)
    message = re.sub(r"\bmerge='(\w+)'", r"--merge \1", message)
    message = re.sub(r"(?<=one target per event, pass )time=\.\.\.", "--labels-time", message)
    argument = rf"{QUOTED}|(?<![\w-])({'|'.join(OPTIONS)})=(\.\.\.)?(?!\w)"
    return re.sub(argument, lambda m: f"--{m[1]}" if m[1] else m[0], message)


def of_labels(message: str) -> str:
    """The message of a table of labels, with `--labels-id` for `id=`, and so on."""
    return re.sub(rf"{QUOTED}|(?<![\w-])(id|time)=(\.\.\.)?(?!\w)", lambda m: f"--labels-{m[1]}" if m[1] else m[0], message)


def repeated(option: str, names: str) -> str:
    """An option for each of the quoted names."""
    found = [quoted[1:-1] for quoted in re.findall(QUOTED, names)]
    return " ".join(f"--{option} {shlex.quote(name)}" for name in found) or f"--{option}"


def named(text: str) -> str:
    """A quoted name or a number as it is; a word that stands for any name or number in capitals, as in the help of commands."""
    return shlex.quote(text[1:-1]) if re.fullmatch(QUOTED, text) else text.upper()
