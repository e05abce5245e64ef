"""How sums over events are laid out on a GPU: blocks of units or columns, splits of the rows, and what is in shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

import torch

from phased.ops.cuda import driver
from phased.ops.cuda.constants import (
    GATE_SUMS,
    LANES,
    PRODUCTS,
    SEEN_BYTES,
    SORTING_WARPS,
    SUM_COLUMNS,
    SUM_UNIT_BYTES,
    SUM_WARPS,
    UNIT_WARPS,
    struct_bytes,
)

SORTED_FROM = 512  # units, from which the events are sorted before they are summed
FEW = 0.08  # share of open units below which a block's events are sorted by unit: faster on an H200
LEAST_SORTED, MOST_SORTED = 4096, (1 << 16) - 1  # events that a block sorts by unit at a time; its counts have 16 bits


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
    limit, processors = driver.shared_memory(device), torch.cuda.get_device_properties(device).multi_processor_count
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
    limit, processors = driver.shared_memory(device), torch.cuda.get_device_properties(device).multi_processor_count
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
