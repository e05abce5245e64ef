"""Cures of errors as options of commands: messages of `phased.estimator` name the arguments of its functions."""

from __future__ import annotations

import re
import shlex

OPTIONS = ("unit", "static", "missing", "merge", "drop", "target", "id", "time", "variable", "value")
LABELLED = re.compile(r"Use `X, y = X\.labelled\(\.\.\.\)` to keep the sequences that have both\.")


def as_options(message: str) -> str:
    """The message with `--drop NAME` for `drop=['NAME']`, and so on."""
    message = LABELLED.sub("Add --labelled to keep the sequences that have both.", message)
    message = re.sub(r"Events\.read\(\.\.\., (.*?)\)", r"\1", message)
    message = re.sub(r"\bmissing=\{(.*?): (.*?)\}", lambda m: f"--missing {named(m[1])}={named(m[2])}", message)
    message = re.sub(r"\b(drop|static)=\[(.*?)\]", lambda m: repeated(m[1], m[2]), message)
    message = re.sub(r"\bmerge='(\w+)'", r"--merge \1", message)
    message = re.sub(r"(?<=one target per event, pass )time=\.\.\.", "--labels-time", message)
    return re.sub(rf"(?<![\w-])({'|'.join(OPTIONS)})=(\.\.\.)?(?!\w)", r"--\1", message)


def repeated(option: str, names: str) -> str:
    """An option for each of the quoted names."""
    return " ".join(f"--{option} {shlex.quote(name)}" for name in re.findall(r"'([^']*)'", names)) or f"--{option}"


def named(text: str) -> str:
    """A quoted name or a number as it is; a word that stands for any name or number in capitals, as in the help of commands."""
    quoted = re.fullmatch(r"'(.*)'", text)
    return quoted[1] if quoted else text.upper()
