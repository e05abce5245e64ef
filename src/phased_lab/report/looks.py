"""Label, colour and dash of a group of runs, the same in every figure and on the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from phased.pictures.style import OTHERS, shades
from phased_lab.report import names
from phased_lab.report.groups import Group, natural
from phased_lab.runs.record import Record

# Lengths of dashes and gaps, in points; the first is a solid line.
DASHES: tuple[tuple[float, ...], ...] = ((), (4.0, 1.6), (1.4, 1.4), (6.0, 1.6, 1.4, 1.6))


class Look(NamedTuple):
    """A name, a colour and a dash."""

    label: str
    colour: str
    dash: tuple[float, ...]


def colour(group: Group) -> str:
    """The colour of a group's model: the same in every figure; its variants are shades of it."""
    own = next((kind.colour for kind in group.experiment.models if kind.name == group.model), None)
    if own is not None:
        return own
    without = [kind.name for kind in group.experiment.models if kind.colour is None]
    place = without.index(group.model) if group.model in without else len(without)
    return OTHERS[place % len(OTHERS)]


def by_variant(groups: Sequence[Group]) -> list[Look]:
    """One look per group: its model's colour, with a shade and a dash for each variant; the same for all conditions."""
    found = []
    among = {
        model: sorted({group.variant for group in groups if group.model == model}, key=natural)
        for model in {group.model for group in groups}
    }
    for group in groups:
        variants = among[group.model]
        place = variants.index(group.variant)
        tones = shades(colour(group), len(variants))
        found.append(Look(group.label, tones[place], DASHES[place % len(DASHES)]))
    return found


def by_condition(groups: Sequence[Group]) -> list[Look]:
    """One look per group: a shade of its model's colour for each condition, a dash for each variant."""
    found = []
    several = len({group.model for group in groups}) > 1
    for group in groups:
        same = [other for other in groups if other.model == group.model]
        conditions, variants = (
            _distinct([other.condition for other in same]),
            sorted({other.variant for other in same}, key=natural),
        )
        tones = shades(colour(group), len(conditions))
        about = group.experiment
        words = (about.label(group.model) if several else "", about.condition(group.condition, short=True), group.variant)
        dash = DASHES[variants.index(group.variant) % len(DASHES)]
        found.append(Look(", ".join(filter(None, words)), tones[conditions.index(group.condition)], dash))
    return found


def seeds_note(groups: Sequence[Group]) -> str:
    """The number of seeds, per group where it differs, and the runs that diverged."""
    counts = [len(group.records) for group in groups]
    usual = max(set(counts), key=counts.count)
    odd = [f"{full_name(group, groups)}: {len(group.records)}" for group in groups if len(group.records) != usual]
    words = [names.counted(usual, "seed") + (" each" if len(groups) > 1 else "") + (f", except {'; '.join(odd)}" if odd else "")]
    lost = [group for group in groups if group.test.lost]
    words += [f"{group.test.lost} of {len(group.records)} of {full_name(group, groups)} diverged, in no mean" for group in lost]
    return "; ".join(words)


def tests_words(groups: Sequence[Group]) -> str:
    """The tests whose mean is a result (`Record.last`)."""
    counts = {record.last for group in groups for record in group.records}
    return "the test after the last epoch" if counts == {1} else f"the tests of the last {max(counts)} epochs"


def machines_note(records: Sequence[Record]) -> str:
    """The devices and versions of the records."""
    devices = _distinct([record.device for record in records])
    versions = _distinct(
        [f"phased {record.versions.get('phased', '?')}, torch {record.versions.get('torch', '?')}" for record in records]
    )
    return f"{', '.join(devices)}; {' and '.join(versions)}"


def full_name(group: Group, among: Sequence[Group]) -> str:
    """Model, variant, and the condition if the groups have several."""
    several = len({other.condition for other in among}) > 1
    return ", ".join(filter(None, (group.label, group.experiment.condition(group.condition, short=True) if several else "")))


def label(group: Group) -> str:
    """The variant for networks with time gates, model and variant for others."""
    return group.variant or group.label if group.gated else group.label


def _distinct(items: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(items))
