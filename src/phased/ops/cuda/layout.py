"""How a recurrence is laid out on a GPU: warps a sequence, sequences a block, and what is in shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import torch

from phased.ops.cuda import driver
from phased.ops.cuda.constants import (
    AHEAD,
    BLOCKS_AT_ONCE,
    COLUMNS,
    EVENTS,
    GROUPED,
    HELD,
    HELD_FOURS,
    LANES,
    OPEN_SEQUENCE_BYTES,
    OPEN_SUM_WARPS,
    PARTS,
    PASS,
    PRODUCTS,
    RECORD,
    ROUNDS,
    SMALL,
    SPREAD,
    SPREAD_UNITS,
    SPREAD_WARPS,
    struct_bytes,
)
from phased.ops.cuda.sum_layout import gate_sums_plan
from phased.tracing import constant

Structs = Mapping[str, int]  # bytes of the kernels' structs, by name

# Groups of sequences (grouped.h).
CROWDED = 12  # a step with at least this many open units is crowded
MOST_TEAMS = 8  # sequences of a group
MOST_WARPS = 32  # of a block
WARPS = {"forward": (2, 4, 8), "backward": (1, 2, 4)}  # of a sequence, beside a helper
WARPS_OF_GROUP = 8  # of all its sequences together, forwards, if their number allows it
SPREAD_FROM = 257  # units, from which they are spread over the multiprocessors (spread.h), for up to so many sequences:
SPREAD_BATCH = 64
SPREAD_ALWAYS = 1000  # units, from which they are spread for any number of sequences
STEPS_FROM = {8: 1100, 32: 1500}  # units, from which up to so many sequences have launches for every step (open_steps.py)
HELD_SHARE = 0.75  # of a group's weights, at least, that are in shared memory


@dataclass(frozen=True)
class Plan:
    """How the recurrence is laid out: blocks of a few teams, each with a sequence; weights in shared memory or streamed.

    With weights in registers a block is one team for `ring` sequences. Where sequences are grouped, the first `ring` units have
    their weights in shared memory. Where units are spread over the multiprocessors, `ring` blocks compute the same sequences.
    """

    name: str
    grid: int
    warps: int  # of a team
    helpers: int  # warps of a team that move data; in groups, backwards, the one that computes cells
    teams: int
    ring: int  # events of a team in shared memory
    most: int  # events of a step, at most
    shared: int  # bytes of a block
    blocks: int = 0  # of 16 columns in a row of weights, where sequences are grouped
    beyond: int = 0  # units whose weights are not in shared memory there

    @property
    def block(self) -> int:
        """Threads of a block."""
        return self.teams * (self.warps + self.helpers) * LANES

    @property
    def together(self) -> bool:
        """Whether blocks wait for each other, so that all have to run at once."""
        return self.name.startswith("spread")

    @property
    def source(self) -> str:
        """The file that has the kernel."""
        if self.name.startswith("small"):
            return "small.cu"
        return "dense.cu" if "dense" in self.name else f"{self.name}.cu"


@cache
def plan(
    name: str,
    units: int,
    batch: int,
    busy: int,
    most: int,
    size: int,
    device: int,
    tape_dtype: torch.dtype | None = None,
    crowded: bool = False,
) -> Plan:
    """The layout of the kernel `name` for numbers of `size` bytes; `busy` units are open at a step, never more than `most`.

    `tape_dtype`: what numbers on the tape are rounded to, or None. `crowded`: whether the kernel is that for crowded steps, which
    sums in another order; a forward pass that may be repeated with another capacity must not use it.
    """
    structs = struct_bytes(size, tape_dtype)
    limit, processors = driver.shared_memory(device), torch.cuda.get_device_properties(device).multi_processor_count
    # Several sequences share a block, and its weights, where there are more of them than processors.
    teams = max(1, min(-(-batch // processors), 4))
    if name.startswith("dense") and units <= SMALL and size == 4:
        small = _small(name, units, batch, size, teams)
        if small.shared <= limit:
            return small
    if not name.startswith("dense"):
        fits = _held("forward", units, 1, units, -(-units // 8) * 8, size, structs, 1, limit) is not None
        alone = batch <= processors and not crowded  # a multiprocessor for each sequence, and few open units
        # A forward pass may be repeated with another capacity and has to give the same bits, so it is held with any or with none.
        holds = fits or name == "backward"
        held = _held(name, units, batch, busy, most, size, structs, 1, limit) if alone and holds else None
        if size == 4 and held is None and _is_grouped(name, units, fits, -(-batch // processors), crowded):
            grouped = _grouped(name, units, batch, structs, limit, processors)
            if grouped is not None:
                return grouped
        spread = _spread(name, units, batch, structs, limit, processors) if size == 4 else None
        if spread is not None:
            return spread
        for fewer in range(teams if holds else 0, 0, -1):
            held = _held(name, units, batch, busy, most, size, structs, fewer, limit)
            if held is not None:
                return held
    return _by_units(name, units, batch, busy, most, size, structs, teams, limit)


@constant
def too_large(units: int, peephole: bool, index: int | None) -> bool:
    """Whether a layer has too many units for the kernels of open ones, so that it computes every unit."""
    # A traced size is made a number.
    return _too_large(int(units), peephole, torch.cuda.current_device() if index is None else index)


@cache
def _too_large(units: int, peephole: bool, device: int) -> bool:
    """The sums of its gates have to fit into shared memory."""
    return gate_sums_plan(1, units, int(peephole), device).shared > driver.shared_memory(device)


@cache
def streamable(units: int, size: int, device: int) -> bool:
    """Whether there are kernels that compute all steps of a sequence in one launch, with all units of the layer open at once."""
    try:
        for name in ("forward", "backward"):
            plan(name, units, 1, units, -(-units // 8) * 8, size, device)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class StepPlan:
    """How `open_step_sums` is laid out: warps of a block, blocks, and bytes of shared memory of a block."""

    warps: int
    grid: tuple[int, int, int]  # of columns, splits of the units, and groups of sequences
    shared: int


@cache
def step_plan(units: int, batch: int, size: int, device: int) -> StepPlan | None:
    """The layout of a step of open units where one launch cannot compute all steps, or is slower; None where it is not."""
    if streamable(units, size, device) and not _is_stepped(units, batch):
        return None
    limit, processors = driver.shared_memory(device), torch.cuda.get_device_properties(device).multi_processor_count
    of_warp, warps = struct_bytes(size)["open_sums"], OPEN_SUM_WARPS
    while warps * of_warp > limit:
        warps //= 2
    columns, groups = -(-units // COLUMNS), max(1, -(-batch // (OPEN_SEQUENCE_BYTES // size)))
    splits = max(1, min(processors // (columns * groups), -(-units // (LANES * warps))))
    return StepPlan(warps, (columns, splits, groups), warps * of_warp)


def _is_stepped(units: int, batch: int) -> bool:
    """Whether launches for every step were faster on an H200 than one for all."""
    return any(batch <= sequences and units >= least for sequences, least in STEPS_FROM.items())


def _small(name: str, units: int, batch: int, size: int, sequences: int) -> Plan:
    """With all weights in registers and shared memory, and four threads for a unit (small.cu)."""
    warps = -(-PRODUCTS * units // LANES)
    fours = max(0, -(-units // 16) * 4 - HELD_FOURS) * warps * LANES  # of weights, beyond those in registers
    # Two steps of every sequence: h, or the gradients to the products in rows that begin on different banks.
    numbers = 2 * sequences * (SMALL if name == "dense_forward" else PRODUCTS * (SMALL + 8))
    shared = fours * struct_bytes(size)["four"] + numbers * size
    return Plan(f"small_{name}", -(-batch // sequences), warps, 0, 1, sequences, units, shared)


def _held(
    name: str, units: int, batch: int, busy: int, most: int, size: int, structs: Structs, teams: int, limit: int
) -> Plan | None:
    """With all weights in shared memory, and two warps that take turns with the steps (held.h); or None, if they do not fit."""
    capacity, many = -(-max(1, most) // LANES) * LANES, teams > 1
    if units > HELD:
        return None
    if name == "forward":
        dots = 2 if many else next((w for w in (4, 8, 12) if w >= 1.5 * busy), 12)
        warps, helpers = dots + 3, 1 if many else PARTS
        fixed, of_event = structs["held_forward_memory"], structs["four"] + structs["held_head"]
        steps, more = (3 if capacity == LANES else 4), dots
    else:
        warps, helpers = 4, 2 if many else PARTS
        # The products' gradients of two steps; and an event's record, which is not rounded there, and unit.
        fixed, of_event = structs["held_backward_memory"] + 2 * capacity * structs["four"], RECORD * size + 4
        steps, more = (2 if capacity == LANES else 4), 0
    weights = units * (units | 1) * structs["four"]

    def bytes_of(ring: int) -> int:
        return weights + teams * (fixed + ring * of_event)

    # Events of some steps and one for each warp, while an eighth of the ring is fetched; and a slot for every lane.
    ring = max(LANES, -(-(steps * most + more) * 8 // 56) * 8)
    if bytes_of(ring) > limit:
        return None
    while ring < 256 and bytes_of(ring + 8) <= limit:
        ring += 8
    return Plan(f"held_{name}", -(-batch // teams), warps, helpers, teams, ring, capacity, bytes_of(ring))


def _is_grouped(name: str, units: int, fits: bool, sequences: int, crowded: bool) -> bool:
    """Whether sequences that are not held are computed in groups: where that was faster on an H200.

    `fits`: whether all weights fit into shared memory. `sequences`: of a multiprocessor.
    """
    if units > GROUPED or name == "backward":
        return units <= GROUPED
    return sequences > 1 or crowded if fits else sequences > 2 or (sequences > 1 and crowded)


def _grouped(name: str, units: int, batch: int, structs: Structs, limit: int, processors: int) -> Plan | None:
    """With a few warps for a sequence, and weights of as many units as fit in shared memory (grouped.h); None if too few do."""
    of_row = _row_bytes(name, units, structs)
    for teams in range(max(1, min(-(-batch // processors), MOST_TEAMS)), 0, -1):
        warps = _warps(name, units, teams)
        of_teams = teams * _team_bytes(name, warps, structs)
        rows = min(units, (limit - of_teams) // of_row)
        if rows >= HELD_SHARE * units:
            shared, columns = of_teams + rows * of_row, -(-units // 16)
            return Plan(f"grouped_{name}", -(-batch // teams), warps, 1, teams, rows, units, shared, columns, units - rows)
    return None


def _warps(name: str, units: int, teams: int) -> int:
    """Warps of a sequence beside its helper: backwards, one for 32 columns, if a block has enough threads for all sequences."""
    if name == "forward":
        return next((w for w in WARPS[name] if teams * w >= WARPS_OF_GROUP), WARPS[name][-1])
    possible = [w for w in WARPS[name] if teams * (w + 1) <= MOST_WARPS]
    return next((w for w in possible if w * LANES >= units), possible[-1])


def _spread(name: str, units: int, batch: int, structs: Structs, limit: int, processors: int) -> Plan | None:
    """With the units spread over the multiprocessors (spread.h); None if not all blocks would run at once.

    None, too, where it was not faster on an H200: for few units, or for many sequences, each of which otherwise has a
    multiprocessor of its own.
    """
    if not SPREAD_FROM <= units <= SPREAD or (batch > SPREAD_BATCH and units < SPREAD_ALWAYS):
        return None
    of_group, shared = -(-units // SPREAD_UNITS), padded(units) * structs["spread_row"]
    if of_group > processors or shared > limit:
        return None
    groups = max(1, min(processors // of_group, batch))
    sequences = min(SPREAD_WARPS, -(-batch // groups))
    return Plan(f"spread_{name}", groups * of_group, 1, 0, sequences, of_group, units, shared)


def _team_bytes(name: str, warps: int, structs: Structs) -> int:
    """Shared memory of a sequence in a group; forwards with many warps there are twice as many events."""
    if name == "forward":
        of_events = PASS * structs["four"] + EVENTS * structs["arrival"]
        return structs["grouped_forward"] + (1 if warps < 8 else 2) * of_events
    return structs["grouped_backward"] + EVENTS * (structs["record"] + 4)


def _row_bytes(name: str, units: int, structs: Structs) -> int:
    """A unit's weights in the shared memory of a group: forwards, pairs of columns."""
    return (-(-units // 2) * 2 if name == "forward" else units) * structs["four"]


def _by_units(
    name: str, units: int, batch: int, busy: int, most: int, size: int, structs: Structs, teams: int, limit: int
) -> Plan:
    """With a warp for each open unit. Dense layers have their weights in shared memory if they fit."""
    pitch = padded(units)
    columns = COLUMNS * min(BLOCKS_AT_ONCE, blocks(units))
    state = (2 * (-(-pitch // columns) * columns) + pitch) * size
    weights = units * PRODUCTS * pitch * size

    def ring_of(warps: int) -> int:
        return max(-(-(2 * most + warps) // 14) * 16, ROUNDS * warps)  # two steps' events, one a warp, an eighth in flight

    def bytes_of(warps: int, ring: int) -> int:
        gradients = (2 + warps + AHEAD) * pitch * size
        sizes: dict[str, int] = {
            "forward": state + ring * structs["arrival"],
            "backward": gradients + ring * (structs["record"] + structs["unit_row"]),
            "dense_forward": state + 2 * units * structs["arrival"],
            "dense_backward": gradients + ROUNDS * warps * structs["four"] + 2 * units * structs["record"],
        }
        return sizes[name]

    helpers = min(4, -(-units // LANES))
    limit_of_warps = 16 if blocks(units) == 1 else 12  # so that there are enough registers for all
    warps = next((w for w in (4, 8, 12) if w >= 1.3 * busy and w <= limit_of_warps), limit_of_warps)
    while warps > 1 and bytes_of(warps, ring_of(warps)) > limit:
        warps //= 2
    least = bytes_of(warps, ring_of(warps))
    if least > limit:
        raise ValueError(
            f"hidden_size={units} needs {least} bytes of a GPU's shared memory where {most} units are open at once, "
            f'this one has {limit}. Use fewer units, a smaller ratio_on, or backend="eager".'
        )
    held = name.startswith("dense") and weights + least <= limit
    available = limit - (weights if held else 0)
    if teams > 1:
        helpers = min(2, helpers)
    while teams > 1 and (teams * bytes_of(warps, ring_of(warps)) > available or teams * (warps + helpers) > 24):
        if warps > 4:
            warps -= 4
        else:
            teams -= 1
    ring = ring_of(warps)
    while ring < 256 and teams * bytes_of(warps, ring + 16) <= available:
        ring += 16
    shared = teams * bytes_of(warps, ring) + (weights if held else 0)
    return Plan(f"{'held' if held else 'streamed'}_{name}", -(-batch // teams), warps, helpers, teams, ring, units, shared)


def blocks(units: int) -> int:
    """Blocks of 128 columns in a row of weights, a power of two up to eight."""
    return 1 << (min(8, -(-padded(units) // COLUMNS)) - 1).bit_length()


def padded(units: int) -> int:
    """Columns of a row of weights: whole fours."""
    return -(-units // 4) * 4
