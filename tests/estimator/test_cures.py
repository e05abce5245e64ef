"""Cures of messages, in the words of the commands."""

import pytest

from phased.cli.cures import as_options


@pytest.mark.parametrize(
    "message, worded",
    [
        ("Leave them out: drop=['A', 'b c'].", "Leave them out: --drop A --drop 'b c'."),
        ("Leave it out of them: Events.read(..., drop=['A']).", "Leave it out of them: --drop A."),
        ("Pass merge='mean', 'sum' or 'max'.", "Pass --merge mean, 'sum' or 'max'."),
        (
            "Read the table with missing={name: value} to leave them out.",
            "Read the table with --missing NAME=VALUE to leave them out.",
        ),
        ("pass missing={'Height': -1}.", "pass --missing Height=-1."),
        ("one of 'a', 'b'. Pass target=...", "one of 'a', 'b'. Pass --target"),
        ("must have the column 'x' (time=), got 'y'.", "must have the column 'x' (--time), got 'y'."),
        ("If there is one target per event, pass time=...", "If there is one target per event, pass --labels-time"),
        ("Pass unit=, so that new data", "Pass --unit, so that new data"),
        (
            "Use `X, y = X.labelled(...)` to keep the sequences that have both.",
            "Add --labelled to keep the sequences that have both.",
        ),
        ("must have the column 'id=' (value=), got \"it's time=\".", "must have the column 'id=' (--value), got \"it's time=\"."),
        ('leave it out: drop=["it\'s"].', "leave it out: --drop 'it'\"'\"'s'."),
        ("got fractions such as 0.5. Use PhasedRegressor.", "got fractions such as 0.5. Use --task numbers."),
        ("got 'drop=3' at time=5, --missing HR=-1", "got 'drop=3' at time=5, --missing HR=-1"),
    ],
)
def test_arguments_become_options(message, worded):
    assert as_options(message) == worded
