"""Replicas switched on and off as a policy wants, with the time that a start takes."""

from __future__ import annotations

import numpy as np

from simkernel import plugins
from simkernel.columns import Floats
from simkernel.errors import BadStudy
from simkernel.operations.outages import NEVER_S, Scaling, Watched
from simkernel.replay.state import HELD, NEXT, House


class Autoscaler:
    """Which replicas are on, and since when.

    The first ones stay on longest; whoever is switched off finishes what it has. Fewer are on only
    when the policy has wanted no more for `hold_s`.
    """

    def __init__(self, house: House, scaling: Scaling) -> None:
        self.house, self.scaling = house, scaling
        units, rest = divmod(len(house.books), scaling.unit)
        if rest or scaling.first > units or scaling.unit % house.rules.copies:
            raise BadStudy(
                f"{len(house.books)} replicas in units of {scaling.unit}, {scaling.first} on "
                "at the start; give a fleet of whole units that has as many"
            )
        self.units = units
        self.working = scaling.first
        self._ready_s = np.where(np.arange(units) < scaling.first, 0.0, NEVER_S)
        self._on_s = self._ready_s.copy()
        self._off_s = np.full(units, NEVER_S)
        self._powered_s = np.zeros(units)
        self._wishes: list[tuple[float, int]] = []
        self._last_s, self._last_next = 0.0, 0
        self._last_busy_s = np.zeros(len(house.books))

    def is_ready(self, row: int, now_s: float) -> bool:
        """Whether the replica of a row takes requests."""
        unit = row // self.scaling.unit
        return bool(unit < self.working and self._ready_s[unit] <= now_s)

    def decide(self, now_s: float) -> float:
        """Asks the policy, switches on and off; when the last that was switched on is ready."""
        policy = plugins.find("autoscaling", self.scaling.policy)
        wish = policy.wanted(self._watched(now_s), self.scaling.target)
        wish = min(max(int(wish), self.scaling.least), self.units)
        self._wishes = [(s, w) for s, w in self._wishes if s > now_s - self.scaling.hold_s]
        self._wishes.append((now_s, wish))
        before = self.working
        if wish > before:
            for unit in range(before, wish):
                self._switch_on(unit, now_s)
            self.working = wish
            return now_s + self.scaling.start_s
        wish = max(w for _, w in self._wishes)
        for unit in range(min(wish, before), before):
            self._off_s[unit] = now_s
        self.working = min(wish, before)
        return NEVER_S

    def powered_s(self, horizon_s: float) -> Floats:
        """How long each row was on until the end of the replay."""
        total_s = [
            self._powered_s[unit] + self._span_s(unit, horizon_s) for unit in range(self.units)
        ]
        return np.repeat(np.array(total_s), self.scaling.unit)

    def _switch_on(self, unit: int, now_s: float) -> None:
        self._powered_s[unit] += self._span_s(unit, now_s)
        self._on_s[unit], self._off_s[unit] = now_s, NEVER_S
        self._ready_s[unit] = now_s + self.scaling.start_s

    def _span_s(self, unit: int, until_s: float) -> float:
        """Of the last time it was on: until it was switched off and had ended what it had."""
        rows = slice(unit * self.scaling.unit, (unit + 1) * self.scaling.unit)
        ended_s = max(self._off_s[unit], float(np.max(self.house.books.end_s[rows])))
        return float(max(min(ended_s, until_s) - self._on_s[unit], 0.0))

    def _watched(self, now_s: float) -> Watched:
        house, past_s = self.house, max(now_s - self._last_s, 1e-9)
        busy_s = np.array(house.books.busy_s)
        rows = self.working * self.scaling.unit
        busy = float(np.mean((busy_s - self._last_busy_s)[:rows])) / past_s
        come = int(house.counters[NEXT]) - self._last_next
        self._last_s, self._last_next, self._last_busy_s = now_s, self._last_next + come, busy_s
        return Watched(
            now_s=now_s,
            working=self.working,
            waiting=int(np.sum(house.lists.waiting_count)) + int(house.counters[HELD]),
            running=int(np.sum(house.lists.running_count)),
            busy_frac=min(busy, 1.0),
            requests_per_s=come / past_s,
        )
