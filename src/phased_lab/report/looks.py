"""Labels, colours and dashes of groups, the same in every figure, and notes about groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from phased.pictures.style import shades
from phased_lab.report.seeds import Group
from phased_lab.runs.record import Record

# Lengths of dashes and gaps in pixels, a solid line first.
DASHES: tuple[tuple[float, ...], ...] = ((1, 0), (6, 2), (2, 2), (8, 2, 2, 2))


class Look(NamedTuple):
    """A name, a colour and a dash."""

    label: str
    colour: str
    dash: tuple[float, ...]


def looks(groups: Sequence[Group], of_conditions: bool = False) -> list[Look]:
    """One look per group: a shade of its model's colour, and a dash, for each variant.

    With `of_conditions`, for one panel with several conditions, shades and labels are by condition instead.
    """
    several = len({group.model for group in groups}) > 1
    found = []
    for group in groups:
        about, same = group.experiment, [other for other in groups if other.model == group.model]
        variants = sorted({other.variant for other in same})
        conditions = list(dict.fromkeys(other.condition for other in same))
        tones = shades(group.kind.colour, len(conditions if of_conditions else variants))
        tone = tones[conditions.index(group.condition) if of_conditions else variants.index(group.variant)]
        words = (group.kind.label if several else "", about.condition(group.condition, short=True), group.variant)
        label = ", ".join(filter(None, words)) if of_conditions else group.label
        found.append(Look(label, tone, DASHES[variants.index(group.variant) % len(DASHES)]))
    return found


def seeds_note(groups: Sequence[Group]) -> str:
    """Describe the number of seeds, its exceptions per group, and diverged runs."""
    counts = [len(group.records) for group in groups]
    usual = max(set(counts), key=counts.count)
    odd = [f"{full_name(group, groups)}: {len(group.records)}" for group in groups if len(group.records) != usual]
    words = [counted(usual, "seed") + (" each" if len(groups) > 1 else "") + (f", except {'; '.join(odd)}" if odd else "")]
    lost = [group for group in groups if group.test.lost]
    words += [f"{group.test.lost} of {len(group.records)} of {full_name(group, groups)} diverged, in no mean" for group in lost]
    return "; ".join(words)


def tests_words(groups: Sequence[Group]) -> str:
    """Describe the tests that a result averages (`Record.last`)."""
    counts = {record.last for group in groups for record in group.records}
    return "the test after the last epoch" if counts == {1} else f"the tests of the last {max(counts)} epochs"


def machines_note(records: Sequence[Record]) -> str:
    """The devices and versions of the records."""
    devices = dict.fromkeys(record.device for record in records)
    versions = dict.fromkeys(
        f"phased {record.versions.get('phased', '?')}, torch {record.versions.get('torch', '?')}" for record in records
    )
    return f"{', '.join(devices)}; {' and '.join(versions)}"


def full_name(group: Group, among: Sequence[Group]) -> str:
    """Model, variant, and the condition if the groups have several."""
    several = len({other.condition for other in among}) > 1
    return ", ".join(filter(None, (group.label, group.experiment.condition(group.condition, short=True) if several else "")))


def counted(count: int, word: str) -> str:
    """'1 seed', '5 seeds'."""
    return f"{count} {word}{'' if count == 1 else 's'}"
