"""How a recurrence is laid out on a GPU: warps a sequence, sequences a block, and what is in shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

import torch

from phased.ops.cuda import kernels
from phased.ops.cuda.constants import (
    AHEAD,
    BLOCKS_AT_ONCE,
    COLUMNS,
    EVENTS,
    GATE_SUMS,
    GROUPED,
    HELD_FOURS,
    LANES,
    PARTS,
    PASS,
    PRODUCTS,
    RECORD,
    ROUNDS,
    SEEN_BYTES,
    SMALL,
    SORTING_WARPS,
    SPREAD_UNITS,
    SUM_COLUMNS,
    SUM_UNIT_BYTES,
    SUM_WARPS,
    UNIT_WARPS,
    open_sequences,
    struct_bytes,
)
from phased.tracing import constant

Structs = Mapping[str, int]  # bytes of the kernels' structs, by name

HELD = PARTS * LANES - 1  # units whose weights are held in shared memory, at most: the last slot is for lanes without an event
# Groups of sequences (grouped.h).
CROWDED = 12  # a step with at least this many open units is crowded
MOST_TEAMS = 8  # sequences of a group
MOST_WARPS = 32  # of a block
WARPS = {"forward": (2, 4, 8), "backward": (1, 2, 4)}  # of a sequence, beside a helper
WARPS_OF_GROUP = 8  # of all its sequences together, forwards, if their number allows it
SPREAD_FROM = 257  # units, from which they are spread over the multiprocessors (spread.h), for up to so many sequences:
SPREAD_BATCH = 64
SPREAD = 1024  # units, up to which: a word of the mask for each lane of a warp
SPREAD_WARPS = 32  # of a block there, at most: each has a sequence
SPREAD_ALWAYS = 1000  # units, from which they are spread for any number of sequences
STEPS_FROM = {8: 1100, 32: 1500}  # units, from which up to so many sequences have launches for every step (`OpenSteps`)
OPEN_SUM_WARPS = 8  # of a block that sums what a step gives to gradients, at most
HELD_SHARE = 0.75  # of a group's weights, at least, that are in shared memory

# Sums over events.
SORTED_FROM = 512  # units, from which the events are sorted before they are summed
FEW = 0.08  # share of open units below which a block's events are sorted by unit: faster on an H200
LEAST_SORTED, MOST_SORTED = 4096, (1 << 16) - 1  # events that a block sorts by unit at a time; its counts have 16 bits


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
    limit, processors = kernels.shared_memory(device), torch.cuda.get_device_properties(device).multi_processor_count
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
    return gate_sums_plan(1, units, int(peephole), device).shared > kernels.shared_memory(device)


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
    faster = any(batch <= sequences and units >= least for sequences, least in STEPS_FROM.items())  # on an H200
    if streamable(units, size, device) and not faster:
        return None
    limit, processors = kernels.shared_memory(device), torch.cuda.get_device_properties(device).multi_processor_count
    of_warp, warps = struct_bytes(size)["open_sums"], OPEN_SUM_WARPS
    while warps * of_warp > limit:
        warps //= 2
    columns, groups = -(-units // COLUMNS), max(1, -(-batch // open_sequences(size)))
    splits = max(1, min(processors // (columns * groups), -(-units // (LANES * warps))))
    return StepPlan(warps, (columns, splits, groups), warps * of_warp)


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


@dataclass(frozen=True)
class SumPlan:
    """How sums over events are laid out: a kernel, its blocks and threads, and bytes of shared memory of a block.

    `ring`: tiles of rows in shared memory, or events that are sorted at a time. `gates`: whether it sums for the gates, too.
    """

    name: str
    grid: tuple[int, int, int]
    block: int
    shared: int
    ring: int = 0
    gates: bool = False


@lru_cache(maxsize=256)  # batches may differ in rows
def sums_plan(rows: int, units: int, features: int, size: int, device: int) -> SumPlan:
    """For the gradients to weights (EventSums in sums.cu): blocks of units, of columns, and splits of the rows."""
    limit, processors = kernels.shared_memory(device), torch.cuda.get_device_properties(device).multi_processor_count
    own, words = SUM_UNIT_BYTES // size, -(-units // LANES)
    of_lane, columns = sum_columns(units + features + 1)
    pitch = of_lane * LANES

    def bytes_of(warps: int, ring: int) -> int:  # tiles of LANES rows
        of_warp = own * LANES * struct_bytes(size)["four"]
        return ring * (LANES * pitch * size + warps * of_warp + (LANES + 1) * 8 + LANES * words * 4)

    most = SUM_WARPS
    while most > 1 and bytes_of(most, 2) > limit:
        most //= 2
    groups = -(-units // (own * most))
    warps = -(-units // (own * groups))
    ring = 3 if bytes_of(warps, 3) <= limit else 2
    shared = bytes_of(warps, ring)
    together = max(1, min(SUM_WARPS // warps, limit // shared))  # blocks of a processor
    tiles = -(-rows // LANES)
    splits = max(1, min(processors * together // (groups * columns), tiles // 4))
    name = "event_sums" if of_lane == SUM_COLUMNS else "wide_event_sums"
    return SumPlan(name, (groups, columns, splits), warps * LANES, shared, ring)


@lru_cache(maxsize=256)  # batches may differ in rows
def sorted_sums_plan(rows: int, units: int, features: int, size: int, device: int) -> SumPlan:
    """For the same where few units are open (SortedSums in sorted_sums.cu): blocks of columns, and splits of the rows."""
    limit, processors = kernels.shared_memory(device), torch.cuda.get_device_properties(device).multi_processor_count
    of_lane, columns = sum_columns(units + features + 1)

    def bytes_of(warps: int, events: int) -> int:
        return warps * LANES * SEEN_BYTES + 2 * events + 4 * (units + 2) + 2 * warps * units

    warps = SORTING_WARPS * 4 // size
    while warps > 1 and bytes_of(warps, LEAST_SORTED) > limit:
        warps //= 2
    splits = max(1, min(processors // columns, -(-rows // (4 * LANES))))
    # Enough for all events of a split, if all splits have the same share of open units. The rest of the memory is the L1 cache,
    # from which rows are read.
    wanted = int(FEW * -(-rows // splits) * units) + 1
    events = max(1, min(MOST_SORTED, (limit - bytes_of(warps, 0)) // 2, wanted))
    name = "sorted_sums" if of_lane == SUM_COLUMNS else "wide_sorted_sums"
    return SumPlan(name, (1, columns, splits), warps * LANES, bytes_of(warps, events), events, gates=True)


@cache
def unit_sums_plan(units: int, features: int) -> SumPlan:
    """For the same in layers with many units (unit_sums.cu): a warp for each unit, in each block of columns."""
    of_lane, columns = sum_columns(units + features + 1)
    name, shared = "unit_sums" if of_lane == SUM_COLUMNS else "wide_unit_sums", UNIT_WARPS * LANES * SEEN_BYTES
    return SumPlan(name, (-(-units // UNIT_WARPS), columns, 1), UNIT_WARPS * LANES, shared)


def sorted_before(units: int) -> bool:
    """Whether a layer has so many units that its events are sorted by one operation for all blocks that sum them."""
    return units >= SORTED_FROM


def sum_columns(columns: int) -> tuple[int, int]:
    """Columns of a lane that sums, and how many blocks of them there are.

    An event costs its multiply-adds, four for a column, and about twelve other instructions in each block of columns.
    """
    of_lane = min((SUM_COLUMNS, SUM_COLUMNS + 1), key=lambda c: -(-columns // (c * LANES)) * (PRODUCTS * c + 12))
    return of_lane, -(-columns // (of_lane * LANES))


@lru_cache(maxsize=256)  # batches may differ in rows
def gate_sums_plan(rows: int, units: int, peephole: int, device: int) -> SumPlan:
    """For the gradients to gates: the warps of a block have sums of their own in shared memory.

    The number of blocks determines the order of the sums, so it does not depend on how many units are open.
    """
    of_warp = (GATE_SUMS if peephole else 3) * units * 8
    warps = next((w for w in (8, 4, 2) if w * of_warp <= 2**15), 1)
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    wanted = -(-rows * units // (20 * 8 * LANES * warps))  # eight events for each thread, if a twentieth of the units is open
    return SumPlan("gate_sums", (max(1, min(wanted, processors * max(1, 32 // warps))), 1, 1), warps * LANES, warps * of_warp)
