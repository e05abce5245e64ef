"""Numbers that a kernel reports to the CPU: they are there, late, or gone, and never those of another kernel."""

import ctypes
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch

from phased.ops.cuda import pinned
from phased.ops.cuda.pinned import SLOTS, Ring


def report(slot, ticket, *numbers):
    """What a kernel does."""
    memory = (ctypes.c_int64 * 3).from_address(slot)
    memory[0], memory[1] = numbers
    memory[2] = ticket


def test_what_was_reported_is_read_with_its_own_ticket():
    ring = Ring()
    tickets = [ring.ticket() for _ in range(SLOTS)]
    assert len({slot for _, slot in tickets}) == SLOTS
    for ticket, slot in tickets:
        report(slot, ticket, ticket, 2 * ticket)
    assert all(ring.wait(ticket) == (ticket, 2 * ticket) for ticket, _ in tickets)
    assert ring.wait(tickets[0][0]) == (1, 2)  # as often as one likes


def test_a_reader_that_comes_early_waits(monkeypatch):
    monkeypatch.setattr(pinned, "PATIENCE", 60.0)
    ring = Ring()
    ticket, slot = ring.ticket()
    later = threading.Timer(0.02, report, (slot, ticket, 3, 4))
    later.start()
    assert ring.wait(ticket) == (3, 4)
    later.join()


def test_numbers_that_never_come_are_given_up(monkeypatch):
    monkeypatch.setattr(pinned, "PATIENCE", 0.01)
    ring = Ring()
    begin = time.perf_counter()
    assert ring.wait(ring.ticket()[0]) is None
    assert time.perf_counter() - begin < 5


def test_a_slot_that_another_ticket_may_have_gives_nothing():
    ring = Ring()
    first, slot = ring.ticket()
    report(slot, first, 1, 1)
    for _ in range(SLOTS - 1):
        ring.ticket()
    assert ring.wait(first) == (1, 1)
    last, same = ring.ticket()
    assert same == slot
    memory = (ctypes.c_int64 * 2).from_address(slot)
    memory[0], memory[1] = 7, 8  # a kernel is at it: its ticket is not there yet
    assert ring.wait(first) is None
    report(same, last, 7, 8)
    assert ring.wait(first) is None
    assert ring.wait(last) == (7, 8)


def test_all_threads_have_the_same_ring(monkeypatch):
    class Slow(Ring):
        def __init__(self):
            time.sleep(0.05)
            super().__init__()

    monkeypatch.setattr(pinned, "Ring", Slow)
    monkeypatch.setattr(pinned, "_RINGS", {})
    with ThreadPoolExecutor(8) as threads:
        rings = list(threads.map(pinned.ring, [3] * 8))
        tickets = list(threads.map(lambda _: rings[0].ticket()[0], range(4 * SLOTS)))
    assert len({id(ring) for ring in rings}) == 1
    assert sorted(tickets) == list(range(1, 4 * SLOTS + 1))


def test_a_default_device_is_not_for_the_ring():
    with torch.device("meta"):
        ring = Ring()
    ticket, slot = ring.ticket()
    report(slot, ticket, 5, 6)
    assert ring.wait(ticket) == (5, 6)
