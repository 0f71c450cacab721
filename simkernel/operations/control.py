"""Whoever runs the fleet: acts between events of the compiled loop, at times of his own.

Plain Python over the same arrays. Each request that a failure displaces is sent on once, by the
router's own policy, so that recovery takes as many moves as there were requests in the house.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

import numpy as np

from simkernel.columns import Floats
from simkernel.errors import BadStudy
from simkernel.operations import removal
from simkernel.operations.autoscaler import Autoscaler
from simkernel.operations.outages import (
    DRAIN,
    FAILURE,
    LOSE,
    NEVER_S,
    Operations,
    Outage,
)
from simkernel.replay import engine
from simkernel.replay.dispatch import pick_replica
from simkernel.replay.results import LOST, STRANDED
from simkernel.replay.state import DEAF, FIRST_HELD, HELD, OPEN, ROUTED, SHUT, House


class Control:
    """What is still to happen to a fleet, and the doors of its replicas.

    Parameters
    ----------
    house : the replay; its arrays are changed
    operations : what happens

    Raises
    ------
    BadStudy : a replica that the fleet does not have
    """

    def __init__(self, house: House, operations: Operations) -> None:
        self.house, self.operations = house, operations
        self._due: list[tuple[float, int, Callable[[float], None]]] = []
        self._serial = count()
        replicas = len(house.books)
        self._down: list[set[int]] = [set() for _ in range(replicas)]
        self._deaf: list[set[int]] = [set() for _ in range(replicas)]
        for number, outage in enumerate(operations.outages):
            self._plan(number, outage)
        self.scaler = None
        if operations.scaling is not None:
            self.scaler = Autoscaler(house, operations.scaling)
            self._at(operations.scaling.every_s, self._scale)
            self._set_doors(0.0)

    @property
    def next_s(self) -> float:
        """When it acts next."""
        return self._due[0][0] if self._due else NEVER_S

    @property
    def is_over(self) -> bool:
        """Nobody waits for it, once the loop has nothing to do."""
        return self.house.counters[HELD] == 0 and not any(
            self._deaf[i] and self.house.lists[i].waiting_count > 0 for i in range(len(self._deaf))
        )

    def act(self) -> None:
        """Everything that is due next."""
        if not self._due:
            self._strand()
            return
        now_s, _, do = heapq.heappop(self._due)
        do(now_s)

    def powered_s(self) -> Floats:
        """How long each replica was on."""
        horizon_s = float(np.max(self.house.books.end_s))
        if self.scaler is None:
            return np.full(len(self.house.books), horizon_s)
        return self.scaler.powered_s(horizon_s)

    def _at(self, time_s: float, do: Callable[[float], None]) -> None:
        heapq.heappush(self._due, (time_s, next(self._serial), do))

    def _plan(self, number: int, outage: Outage) -> None:
        """The moments of one outage."""
        copies, replicas = self.house.rules.copies, len(self.house.books)
        if any(not 0 <= replica < replicas for replica in outage.replicas):
            raise BadStudy(
                f"outage of replicas {outage.replicas}; the fleet has 0 to {replicas - 1}"
            )
        rows = sorted({one - one % copies + i for one in outage.replicas for i in range(copies)})
        if outage.way == FAILURE:
            self._at(outage.from_s, lambda now_s: self._fail(number, rows, now_s))
            noticed_s = outage.from_s + outage.noticed_s
            if noticed_s < outage.until_s:
                self._at(noticed_s, lambda now_s: self._notice(number, rows, now_s))
        elif outage.way == DRAIN:
            self._at(outage.from_s, lambda now_s: self._shut(number, rows, now_s))
            if outage.from_s + outage.grace_s < outage.until_s:
                self._at(outage.from_s + outage.grace_s, lambda now_s: self._empty(rows, now_s))
        else:
            self._at(outage.from_s, lambda _: self._slow(rows, outage.times))
            if outage.until_s < NEVER_S:
                self._at(outage.until_s, lambda _: self._slow(rows, 1.0 / outage.times))
            return
        if outage.until_s < NEVER_S:
            self._at(outage.until_s, lambda now_s: self._come_back(number, rows, now_s))

    def _fail(self, number: int, rows: list[int], now_s: float) -> None:
        for row in rows:
            self._deaf[row].add(number)
            removal.stop(row, now_s, self.house)
        self._set_doors(now_s)

    def _notice(self, number: int, rows: list[int], now_s: float) -> None:
        for row in rows:
            self._deaf[row].discard(number)
        self._shut(number, rows, now_s)
        self._empty(rows, now_s)

    def _shut(self, number: int, rows: list[int], now_s: float) -> None:
        for row in rows:
            self._down[row].add(number)
        self._set_doors(now_s)

    def _empty(self, rows: list[int], now_s: float) -> None:
        """Whoever is left in these replicas finds another."""
        for row in rows:
            removal.stop(row, now_s, self.house)
        for row in rows:
            for request in removal.taken_out(row, now_s, self.house):
                self._send_on(request, now_s)

    def _come_back(self, number: int, rows: list[int], now_s: float) -> None:
        for row in rows:
            self._deaf[row].discard(number)
            self._down[row].discard(number)
        self._set_doors(now_s)

    def _slow(self, rows: list[int], times: float) -> None:
        for row in rows:
            self.house.books[row].pace_frac *= times

    def _scale(self, now_s: float) -> None:
        scaler = self.scaler
        if scaler is None:
            return
        ready_s = scaler.decide(now_s)
        if ready_s < NEVER_S:
            self._at(ready_s, self._set_doors)
        is_idle = self.house.counters[HELD] and not self._due
        if is_idle and ready_s == NEVER_S and engine.next_arrival_s(self.house) == NEVER_S:
            self._strand()  # nobody will ever open
        self._set_doors(now_s)
        self._at(now_s + scaler.scaling.every_s, self._scale)

    def _set_doors(self, now_s: float) -> None:
        """Doors as outages and the autoscaler have them; who waits at the router goes in."""
        books, copies = self.house.books, self.house.rules.copies
        for row in range(len(books)):
            is_off = self.scaler is not None and not self.scaler.is_ready(row, now_s)
            is_shut = bool(self._down[row]) or is_off
            books[row].door = SHUT if is_shut else DEAF if self._deaf[row] else OPEN
            first = row - row % copies
            has_work = self.house.lists[row].waiting_count + self.house.lists[row].running_count
            if has_work and not self._deaf[row] and books[first].clock_s == NEVER_S:
                books[first].clock_s = now_s
        self._let_held_in(now_s)

    def _let_held_in(self, now_s: float) -> None:
        counters, house = self.house.counters, self.house
        for _ in range(int(counters[HELD])):
            if not np.any(house.books.door != SHUT):
                return
            request = int(counters[FIRST_HELD])
            counters[FIRST_HELD] = house.jobs[request].behind
            counters[HELD] -= 1
            self._route(request, now_s)

    def _send_on(self, request: int, now_s: float) -> None:
        """A request without a replica: to another, or given up."""
        if self.operations.of_lost == LOSE:
            self._give_up(request, LOST, now_s)
            return
        removal.made_ready(request, self.house, of_lost=self.operations.of_lost)
        self._route(request, now_s)

    def _route(self, request: int, now_s: float) -> None:
        house = self.house
        seen = engine.look_around(request, house)
        if not len(seen.replicas):
            engine.hold(request, house)
            return
        asked = engine.asked_of(request, house)
        picked = pick_replica(house.rules.routing_code, asked, seen)
        house.counters[ROUTED] += 1
        engine.send(request, int(seen.replicas[picked]), now_s, house)

    def _strand(self) -> None:
        """No replica will ever open again, or notice: those who wait for one are given up."""
        house, now_s = self.house, float(np.max(self.house.books.end_s))
        while house.counters[HELD]:
            request = int(house.counters[FIRST_HELD])
            house.counters[FIRST_HELD] = house.jobs[request].behind
            house.counters[HELD] -= 1
            self._give_up(request, STRANDED, now_s)
        for row in range(len(house.books)):
            if self._deaf[row]:
                for request in removal.taken_out(row, now_s, house):
                    self._give_up(request, LOST, now_s)

    def _give_up(self, request: int, reason: int, now_s: float) -> None:
        times = self.house.times[request]
        times.refusal_code = reason
        times.first_token_s = times.finish_s = np.nan
        engine.let_next_come(now_s, self.house)
