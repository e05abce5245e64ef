"""Numbers that a kernel reports to the CPU: they are there, late, or gone, and never those of another kernel."""

import ctypes
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from phased.ops.cuda import counting
from phased.ops.cuda.counting import BITS, MARKS, SLOTS, Ring


def report(ticket, *numbers):
    """What a kernel does."""
    memory = (ctypes.c_int64 * 2).from_address(ticket.slot)
    for place, number in enumerate(numbers):
        memory[place] = ticket.mark | number


def test_what_was_reported_is_read_with_its_own_ticket():
    ring = Ring()
    tickets = [ring.ticket() for _ in range(SLOTS)]
    assert len({ticket.slot for ticket in tickets}) == SLOTS
    for ticket in tickets:
        report(ticket, ticket.number, 2 * ticket.number)
    assert all(ring.wait(ticket) == (ticket.number, 2 * ticket.number) for ticket in tickets)
    assert ring.wait(tickets[0]) == (1, 2)  # as often as one likes


def test_large_numbers_and_late_tickets_keep_their_bits():
    ring = Ring()
    for ring._last in (0, MARKS - 2, MARKS - 1, 5 * MARKS):
        ticket = ring.ticket()
        assert 0 < ticket.mark < 2**63
        report(ticket, 2**BITS - 1, 0)
        assert ring.wait(ticket) == (2**BITS - 1, 0)


def test_a_number_that_is_seen_before_the_other_is_not_taken(monkeypatch):
    monkeypatch.setattr(counting, "PATIENCE", 0.01)
    ring = Ring()
    old = ring.ticket()
    report(old, 1, 2)
    ring._last += SLOTS - 1
    new = ring.ticket()
    assert new.slot == old.slot
    for place in (0, 1):
        (ctypes.c_int64 * 2).from_address(new.slot)[place] = new.mark | 9
        assert (ring.wait(new) is None) == (place == 0)
    assert ring.wait(new) == (9, 9)


def test_a_short_wait_yields_and_does_not_sleep(monkeypatch):
    ring = Ring()
    ticket = ring.ticket()
    monkeypatch.setattr(counting, "BRIEFLY", 60.0)
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("slept"))
    monkeypatch.setattr(os, "sched_yield", lambda: report(ticket, 3, 4), raising=False)
    assert ring.wait(ticket, 60.0) == (3, 4)


@pytest.mark.parametrize("reason", ["a long wait", "no such function, as on Windows"])
def test_other_waits_sleep(monkeypatch, reason):
    ring = Ring()
    ticket = ring.ticket()
    if reason == "a long wait":
        monkeypatch.setattr(counting, "BRIEFLY", 0.0)
        monkeypatch.setattr(os, "sched_yield", lambda: pytest.fail("yielded"), raising=False)
    else:
        monkeypatch.delattr(os, "sched_yield", raising=False)
    monkeypatch.setattr(time, "sleep", lambda seconds: report(ticket, 3, 4))
    assert ring.wait(ticket, 60.0) == (3, 4)


def test_a_reader_that_comes_early_waits():
    ring = Ring()
    ticket = ring.ticket()
    later = threading.Timer(0.02, report, (ticket, 3, 4))
    later.start()
    assert ring.wait(ticket, 60.0) == (3, 4)
    later.join()


def test_numbers_that_never_come_are_given_up():
    ring = Ring()
    begin = time.perf_counter()
    assert ring.wait(ring.ticket(), 0.01) is None
    assert time.perf_counter() - begin < 5


def test_a_slot_that_another_ticket_has_gives_nothing():
    ring = Ring()
    first = ring.ticket()
    report(first, 1, 1)
    for _ in range(SLOTS - 1):
        ring.ticket()
    assert ring.wait(first) == (1, 1)
    last = ring.ticket()
    assert last.slot == first.slot
    assert ring.wait(first) == (1, 1)  # nothing was written there yet
    report(last, 7, 8)
    assert ring.wait(first) is None
    assert ring.wait(last) == (7, 8)


def test_all_threads_have_the_same_ring(monkeypatch):
    class Slow(Ring):
        def __init__(self):
            time.sleep(0.05)
            super().__init__()

    monkeypatch.setattr(counting, "Ring", Slow)
    monkeypatch.setattr(counting, "_RINGS", {})
    with ThreadPoolExecutor(8) as threads:
        rings = list(threads.map(counting.ring, [3] * 8))
        tickets = list(threads.map(lambda _: rings[0].ticket().number, range(4 * SLOTS)))
    assert len({id(ring) for ring in rings}) == 1
    assert sorted(tickets) == list(range(1, 4 * SLOTS + 1))


def test_a_default_device_is_not_for_the_ring():
    with torch.device("meta"):
        ring = Ring()
    ticket = ring.ticket()
    report(ticket, 5, 6)
    assert ring.wait(ticket) == (5, 6)
