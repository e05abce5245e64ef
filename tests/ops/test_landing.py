"""Numbers that a kernel tells the CPU: they are there, late, or gone, and never somebody else's."""

import ctypes
import threading
import time

import pytest

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


def test_who_comes_early_waits():
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


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_place_that_another_ticket_has_taken_tells_nothing(rounds):
    ring = Landing()
    first, place = ring.ticket()
    tell(place, first, 1, 1)
    others = [ring.ticket() for _ in range(rounds * PLACES)]
    last, same = others[-1]
    assert same == place
    tell(same, last, 7, 8)
    assert ring.wait(first) is None
    assert ring.wait(last) == (7, 8)
