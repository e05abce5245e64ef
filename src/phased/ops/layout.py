"""How a recurrence is laid out on a GPU: warps a sequence, sequences a block, and what lies in shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from phased.ops import compiler

# Constants of the kernels: numbers an event leaves on the tape, rows of a gradient asked for ahead (with weights streamed, and
# with weights held), units a warp takes at once.
RECORD, AHEAD, HELD_AHEAD, ROUNDS = 8, 5, 6, 8
HELD = 127  # units that the kernels with weights in shared memory can have at most: the last of 128 places is nobody's


@dataclass(frozen=True)
class Plan:
    """How the recurrence is laid out: blocks of a few teams, each with a sequence; weights in shared memory or streamed."""

    name: str
    grid: int
    warps: int  # of a team
    helpers: int  # and those that fetch and carry for them
    teams: int
    ring: int  # events of a team in shared memory
    most: int  # events of a step there is room for
    shared: int  # bytes of a block

    @property
    def block(self) -> int:
        """Threads of a block."""
        return self.teams * (self.warps + self.helpers) * 32

    @property
    def source(self) -> str:
        """The file that has the kernel."""
        return "dense.cu" if "dense" in self.name else f"{self.name}.cu"


@cache
def plan(name: str, units: int, batch: int, busy: int, most: int, size: int, device: int) -> Plan:
    """The layout of the kernel `name` for numbers of `size` bytes; `busy` units are open at a step, never more than `most`."""
    limit, processors = compiler.shared_memory(device), torch.cuda.get_device_properties(device).multi_processor_count
    # Several sequences share a block, and its weights, where there are more of them than processors.
    teams = max(1, min(-(-batch // processors), 4))
    if not name.startswith("dense"):
        for fewer in range(teams, 0, -1):
            held = _held(name, units, batch, busy, most, size, fewer, limit)
            if held is not None:
                return held
    return _by_units(name, units, batch, busy, most, size, teams, limit)


def _held(name: str, units: int, batch: int, busy: int, most: int, size: int, teams: int, limit: int) -> Plan | None:
    """With all weights in shared memory, and one warp for a sequence's steps (held.h); or None, if they do not fit."""
    words, room, many = -(-units // 32), -(-max(1, most) // 32) * 32, teams > 1
    if units > HELD:
        return None
    if name == "forward":
        dots = 2 if many else next((w for w in (4, 8, 12) if w >= 1.5 * busy), 12)
        warps, helpers = dots + 2, 1 if many else words
        fixed, of_event = 5 * 128 * size + (4 * 32 + 8) * 4, 4 * size + (8 if size == 4 else 16)
        steps, more = (3 if room == 32 else 4), dots
    else:
        warps, helpers = 2, min(2, words) if many else words
        fixed, of_event = (2 + HELD_AHEAD) * 128 * size + (4 * 32 + 8) * 4 + 8 * room * size, RECORD * size + 4
        steps, more = (2 if room == 32 else 4), 0
    weights = units * (units | 1) * 4 * size

    def bytes_of(ring: int) -> int:
        return weights + teams * (fixed + ring * of_event)

    ring = max(32, -(-(steps * most + more) * 8 // 56) * 8)  # events of some steps, one a warp, an eighth in between; a lane each
    if bytes_of(ring) > limit:
        return None
    while ring < 256 and bytes_of(ring + 8) <= limit:
        ring += 8
    return Plan(f"held_{name}", -(-batch // teams), warps, helpers, teams, ring, room, bytes_of(ring))


def _by_units(name: str, units: int, batch: int, busy: int, most: int, size: int, teams: int, limit: int) -> Plan:
    """With a warp for each open unit. Dense layers have their weights in shared memory if they fit."""
    pitch = padded(units)
    columns = 128 * min(4, blocks(units))
    state = (2 * (-(-pitch // columns) * columns) + pitch) * size
    weights = units * 4 * pitch * size

    def ring_of(warps: int) -> int:
        return max(-(-(2 * most + warps) // 14) * 16, ROUNDS * warps)  # two steps' events, one a warp, an eighth in between

    def bytes_of(warps: int, ring: int) -> int:
        gradients = (2 + warps + AHEAD) * pitch * size
        sizes: dict[str, int] = {
            "forward": state + ring * arrival(size),
            "backward": gradients + ring * (RECORD * size + 8),
            "dense_forward": state + 2 * units * arrival(size),
            "dense_backward": gradients + (4 * ROUNDS * warps + 2 * units * RECORD) * size,
        }
        return sizes[name]

    helpers = min(4, -(-units // 32))
    limit_of_warps = 16 if blocks(units) == 1 else 12  # so that all their registers are there
    warps = next((w for w in (4, 8, 12) if w >= 1.3 * busy and w <= limit_of_warps), limit_of_warps)
    while warps > 1 and bytes_of(warps, ring_of(warps)) > limit:
        warps //= 2
    least = bytes_of(warps, ring_of(warps))
    if least > limit:
        raise ValueError(
            f"hidden_size={units} needs {least} bytes of a GPU's shared memory where {most} units are open at once, "
            f'this one has {limit}. Use fewer units, a smaller ratio_on, or backend="adjoint".'
        )
    held = name.startswith("dense") and weights + least <= limit
    room = limit - (weights if held else 0)
    if teams > 1:
        helpers = min(2, helpers)
    while teams > 1 and (teams * bytes_of(warps, ring_of(warps)) > room or teams * (warps + helpers) > 24):
        if warps > 4:
            warps -= 4
        else:
            teams -= 1
    ring = ring_of(warps)
    while ring < 256 and teams * bytes_of(warps, ring + 16) <= room:
        ring += 16
    shared = teams * bytes_of(warps, ring) + (weights if held else 0)
    return Plan(f"{'held' if held else 'streamed'}_{name}", -(-batch // teams), warps, helpers, teams, ring, units, shared)


def arrival(size: int) -> int:
    """Bytes of what an event brings: unit, row and openness, and four numbers."""
    return 16 + 4 * size


def blocks(units: int) -> int:
    """Blocks of 128 columns in a row of weights, a power of two up to eight."""
    return 1 << (min(8, -(-padded(units) // 128)) - 1).bit_length()


def padded(units: int) -> int:
    """Columns of a row of weights: whole fours."""
    return -(-units // 4) * 4
