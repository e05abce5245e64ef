"""How a recurrence is laid out on a GPU: warps a sequence, sequences a block, and what lies in shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from phased.ops import compiler

# Constants of the kernels: numbers an event leaves on the tape, rows of a gradient asked for ahead, units a warp takes at once.
RECORD, AHEAD, ROUNDS = 8, 4, 8


@dataclass(frozen=True)
class Plan:
    """How the recurrence is laid out: blocks of a few teams, each with a sequence; weights in shared memory or streamed."""

    name: str
    grid: int
    warps: int  # of a team: one an open unit
    helpers: int  # and those that fetch and carry for them
    teams: int
    ring: int  # events of a team in shared memory
    shared: int  # bytes of a block

    @property
    def block(self) -> int:
        """Threads of a block."""
        return self.teams * (self.warps + self.helpers) * 32


def arrival(size: int) -> int:
    """Bytes of what an event brings: unit, row and openness, and four numbers."""
    return 16 + 4 * size


@cache
def plan(name: str, units: int, batch: int, busy: int, size: int, device: int) -> Plan:
    """The layout for `units` units, `busy` of which are open at a step, in numbers of `size` bytes, for the kernel `name`."""
    limit, processors = compiler.shared_memory(device), torch.cuda.get_device_properties(device).multi_processor_count
    pitch = padded(units)
    columns = 128 * min(4, blocks(units))
    state = (2 * (-(-pitch // columns) * columns) + pitch) * size
    weights = units * 4 * pitch * size

    def ring_of(warps: int) -> int:
        return max(-(-4 * (units + warps) // 48) * 16, ROUNDS * warps)

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
    most = 16 if blocks(units) == 1 else 12  # so that all their registers are there
    warps = next((w for w in (4, 8, 12) if w >= 1.3 * busy and w <= most), most)
    while warps > 1 and bytes_of(warps, ring_of(warps)) > limit:
        warps //= 2
    least = bytes_of(warps, ring_of(warps))
    if least > limit:
        raise ValueError(
            f"hidden_size={units} needs {least} bytes of a GPU's shared memory, this one has {limit}. "
            'Use fewer units, or backend="adjoint".'
        )
    held = weights + least <= limit
    room = limit - (weights if held else 0)
    # Several sequences share a block, and its weights, where there are more of them than processors.
    teams = max(1, min(-(-batch // processors), 4))
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
    return Plan(f"{name}_{'shared' if held else 'streamed'}", -(-batch // teams), warps, helpers, teams, ring, shared)


def blocks(units: int) -> int:
    """Blocks of 128 columns in a row of weights, a power of two up to eight."""
    return 1 << (min(8, -(-padded(units) // 128)) - 1).bit_length()


def padded(units: int) -> int:
    """Columns of a row of weights: whole fours."""
    return -(-units // 4) * 4
