"""Periods, shifts and open ratios from the data's own times, and how many updates they lead to."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from phased.cost import updates
from phased.estimator.batches import Indices, Sequences, in_batches
from phased.estimator.network import Network
from phased.estimator.ragged import gather
from phased.gate import SMALLEST_RATIO
from phased.init import LogUniform
from phased.layer import PhasedRNN

Opening = Literal["sparse", "open"]
"""Initial gates: open for a part of the time, or always open. Training with open gates adds an openness cost later."""
PRICE, FREE = 1.0, 0.4
"""Openness cost of gates that begin open, and the part of the training before the cost applies."""
RATIO_ON = 0.2
OPEN_GAPS = 16.0
"""Median gaps of a sequence during which a unit is open, at least: where there are few samples, a unit needs most of them."""
SHORT = 8.0
"""Median spans below this many gaps."""
LEAST_BUDGET = 10 * SMALLEST_RATIO
"""Smallest share of updates: a unit is open for at least SMALLEST_RATIO of the time."""


def openings(cell: str, span: float, budget: float | None) -> list[Opening]:
    """Return the openings to try, by rising cost. Only one is left without gates, with a budget, or for short spans."""
    if not cell.startswith("phased"):
        return ["open"]
    if budget is not None:
        return ["sparse"]
    return ["sparse", "open"] if sparse_ratio(span) < 1 else ["open"]


def sparse_ratio(span: float) -> float:
    """Return the initial open ratio of sparse gates, for sequences with this median span in median gaps."""
    return min(1.0, max(RATIO_ON, OPEN_GAPS / span))


def settings(span: float, budget: float | None, opening: Opening) -> dict[str, Any]:
    """Return the settings of gates for sequences with this median span, in median gaps.

    Periods range from two gaps to the span, so that a unit opens several times in a sequence, but not at every step. Short
    sequences use the two octaves below the span.
    """
    low = 2.0 if span >= SHORT else span / 4
    ratio_on = 1.0 if opening == "open" else sparse_ratio(span)
    return {"period": LogUniform(low, max(low, span)), "ratio_on": ratio_on if budget is None else min(ratio_on, budget)}


def count(network: Network, data: Sequences, chosen: Indices) -> Tensor:
    """Updates of each unit over these sequences, (H,) int64; none for a layer without gates."""
    if not isinstance(network.rnn, PhasedRNN):
        return torch.zeros(0, dtype=torch.int64)
    total = torch.zeros(network.rnn.hidden_size, dtype=torch.int64, device=data.time.device)
    for some in in_batches(data, chosen):
        time, lengths = data.clock(some)
        total += updates(network.rnn, time, lengths).sum((0, 1))
    return total


def share(network: Network, data: Sequences, chosen: Indices) -> float:
    """Updates of all units over these sequences, as a share of those of units that are always open."""
    possible = int(data.lengths[chosen].sum()) * network.rnn.hidden_size
    return float(count(network, data, chosen).sum()) / max(1, possible)


def periods(network: Network, gap: float) -> tuple[float, ...]:
    """The shortest, the median and the longest period, from those in median gaps; () for a layer without gates."""
    if not isinstance(network.rnn, PhasedRNN):
        return ()
    found = network.rnn.gates()[0].period * gap
    return tuple(float(found.quantile(part)) for part in (0.0, 0.5, 1.0))


def rarest(data: Sequences, chosen: Indices) -> tuple[Tensor, int]:
    """The times since the first step that the fewest steps of these sequences have, and the number of these steps."""
    times, counts = np.unique(data.time.numpy()[gather(data.offset, chosen)[0]], return_counts=True)
    return torch.from_numpy(times[counts == counts.min()]), int(counts.min())


def check_budget(data: Sequences, chosen: Indices, units: int, budget: float | None) -> None:
    """A ValueError for a share of updates with which no unit can open at any step of these sequences."""
    steps = int(data.lengths[chosen].sum())
    if budget is None or not steps:
        return
    least = max(rarest(data, chosen)[1] / (steps * units), LEAST_BUDGET)
    least = min(1.0, float(f"{1.01 * least:.3g}"))  # as it is printed, rounded up
    if budget < least:
        raise ValueError(
            f"updates must be at least {least:.3g}, one update of one unit in the {steps} steps of the training, got {budget:g}. "
            f"Choose a larger share."
        )


@torch.no_grad()
def keep_budget(network: Network, data: Sequences, chosen: Indices, budget: float | None) -> float:
    """Scale open ratios until the share of updates over these sequences is at most the budget; returns that share."""
    if not isinstance(network.rnn, PhasedRNN):
        return 1.0
    ratio_on, found = network.rnn.get_parameter("ratio_on_l0"), share(network, data, chosen)
    while budget is not None and found > budget and bool((ratio_on > SMALLEST_RATIO).any()):
        ratio_on.mul_(min(0.995, budget / found))
        found = share(network, data, chosen)
    return found if found or budget is None else open_some(network, data, chosen, budget)


@torch.no_grad()
def open_some(network: Network, data: Sequences, chosen: Indices, budget: float) -> float:
    """Open units within the budget, each at one of the times that the fewest steps have; returns the share of updates."""
    steps = int(data.lengths[chosen].sum())
    if not isinstance(network.rnn, PhasedRNN) or not steps:
        return 0.0
    period, shift, ratio_on = (network.rnn.get_parameter(f"{name}_l0") for name in ("period", "shift", "ratio_on"))
    before, times, units = shift.clone(), rarest(data, chosen)[0], len(shift)
    ratio_on.fill_(SMALLEST_RATIO)
    for attempt in range(32):  # a unit may open at other times by chance
        drawn = times[(torch.arange(units) * len(times) // units + attempt) % len(times)]
        shift.copy_(torch.remainder(drawn - SMALLEST_RATIO * period / 2, period))
        found, order = count(network, data, chosen).sort()
        beyond = order[found.cumsum(0) > budget * steps * units]
        shift[beyond] = before[beyond]
        if len(beyond) < units:
            break
    return share(network, data, chosen)


@torch.no_grad()
def open_all(network: Network, data: Sequences, chosen: Indices) -> None:
    """Shift units that open at no step of these sequences, so that each is fully open at one of them, drawn at random.

    Not the same as `phased.wake`, which moves a shift by the least time: all sequences start at 0 here, so the nearest step is
    often the last one of the longest sequence, and the unit would stay closed in all others.
    """
    if not isinstance(network.rnn, PhasedRNN) or not int(data.lengths[chosen].sum()):
        return
    closed = (count(network, data, chosen) == 0).nonzero().flatten()
    if len(closed):
        period, shift, ratio_on = (network.rnn.get_parameter(f"{name}_l0") for name in ("period", "shift", "ratio_on"))
        some = chosen[data.lengths[chosen] > 0]
        sequence = some[torch.randint(len(some), (len(closed),)).numpy()]
        step = (torch.rand(len(closed)).numpy() * data.lengths[sequence]).astype(int)
        drawn = data.time[torch.from_numpy(data.offset[sequence] + step)]
        shift[closed] = torch.remainder(drawn - ratio_on[closed] * period[closed] / 2, period[closed])
