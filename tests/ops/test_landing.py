"""Numbers that a kernel tells the CPU: they are there, late, or gone, and never somebody else's."""

import ctypes
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch

from phased.ops import landing
from phased.ops.landing import PLACES, Landing


def tell(place, ticket, *numbers):
    """What a kernel does."""
    memory = (ctypes.c_int64 * 3).from_address(place)
    memory[0], memory[1] = numbers
    memory[2] = ticket


def test_what_was_told_is_read_with_its_own_ticket():
    ring = Landing()
    tickets = [ring.ticket() for _ in range(PLACES)]
    assert len({place for _, place in tickets}) == PLACES
    for ticket, place in tickets:
        tell(place, ticket, ticket, 2 * ticket)
    assert all(ring.wait(ticket) == (ticket, 2 * ticket) for ticket, _ in tickets)
    assert ring.wait(tickets[0][0]) == (1, 2)  # as often as one likes


def test_who_comes_early_waits(monkeypatch):
    monkeypatch.setattr(landing, "PATIENCE", 60.0)
    ring = Landing()
    ticket, place = ring.ticket()
    later = threading.Timer(0.02, tell, (place, ticket, 3, 4))
    later.start()
    assert ring.wait(ticket) == (3, 4)
    later.join()


def test_numbers_that_never_come_are_given_up(monkeypatch):
    monkeypatch.setattr(landing, "PATIENCE", 0.01)
    ring = Landing()
    begin = time.perf_counter()
    assert ring.wait(ring.ticket()[0]) is None
    assert time.perf_counter() - begin < 5


def test_a_place_that_another_ticket_may_have_tells_nothing():
    ring = Landing()
    first, place = ring.ticket()
    tell(place, first, 1, 1)
    for _ in range(PLACES - 1):
        ring.ticket()
    assert ring.wait(first) == (1, 1)
    last, same = ring.ticket()
    assert same == place
    memory = (ctypes.c_int64 * 2).from_address(place)
    memory[0], memory[1] = 7, 8  # a kernel is at it: its ticket is not there yet
    assert ring.wait(first) is None
    tell(same, last, 7, 8)
    assert ring.wait(first) is None
    assert ring.wait(last) == (7, 8)


def test_all_threads_have_the_same_ring(monkeypatch):
    class Slow(Landing):
        def __init__(self):
            time.sleep(0.05)
            super().__init__()

    monkeypatch.setattr(landing, "Landing", Slow)
    monkeypatch.setattr(landing, "_LANDINGS", {})
    with ThreadPoolExecutor(8) as threads:
        rings = list(threads.map(landing.landing, [3] * 8))
        tickets = list(threads.map(lambda _: rings[0].ticket()[0], range(4 * PLACES)))
    assert len({id(ring) for ring in rings}) == 1
    assert sorted(tickets) == list(range(1, 4 * PLACES + 1))


def test_a_default_device_is_not_for_the_ring():
    with torch.device("meta"):
        ring = Landing()
    ticket, place = ring.ticket()
    tell(place, ticket, 5, 6)
    assert ring.wait(ticket) == (5, 6)
