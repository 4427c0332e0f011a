"""Verdicts on attacks that were measured."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from hostile.honest import Measured
from hostile.target import Attack

GOOD_P99_S = 0.25
TIMES_UNLOADED = 5
MOST_MEMORY_MIB = 600
OFFERS_LOSE_S = 0.1
"""The most that a peer's attack may add to the p99 of another peer's offers."""
_GOOD = frozenset({"start 201", "stop 204", "probe 200", "offer 201", "withdrawal 200", "look 200"})
_TAIL_LINES = 20


@dataclass
class Trial:
    """An attack, and what was measured of it. `memory_mib` is the most that the API process took meanwhile."""

    attack: Attack
    before: Measured
    during: Measured
    memory_mib: float
    counts: Counter[str]
    wrong: list[str] = field(default_factory=list)

    @property
    def bound_s(self) -> float:
        """The p99 that the honest caller must not exceed."""
        return _bound_s(self.before.starts)

    def violations(self) -> list[str]:
        """Return what the attack brought about and must not, in words; nothing where the service held."""
        found = [*self.wrong]
        if p99(self.during.starts) > self.bound_s:
            found.append(f"honest p99 {p99(self.during.starts):.3f} s is above {self.bound_s:.3f} s")
        if p99(self.during.probes) > max(1.0, self.bound_s):
            found.append(f"probes took {p99(self.during.probes):.3f} s")
        if p99(self.during.looks) > (bound_s := _bound_s(self.before.looks)):
            found.append(f"an honest reader's p99 {p99(self.during.looks):.3f} s is above {bound_s:.3f} s")
        lost = p99(self.during.offers) - p99(self.before.offers)
        if self.attack.who == "peer" and lost > OFFERS_LOSE_S:
            found.append(f"an honest peer's offers lost {lost:.3f} s at p99")
        if self.memory_mib > MOST_MEMORY_MIB:
            found.append(f"{self.memory_mib:.0f} MiB are above {MOST_MEMORY_MIB}")
        found += [f"the honest caller got {told} x{n}" for told, n in self.during.statuses.items() if told not in _GOOD]
        found += [f"the attacker got {told} x{n}" for told, n in self.counts.items() if self._is_fault(told)]
        if not self.counts:
            found.append("the attack did nothing")
        return found

    def _is_fault(self, told: str) -> bool:
        status, _, code = told.partition(" ")
        return status.startswith("5") and not (status == "503" and code in self.attack.promised)


def _bound_s(before: Sequence[float]) -> float:
    return max(GOOD_P99_S, TIMES_UNLOADED * p99(before))


def p99(times: Sequence[float]) -> float:
    """The time that one in a hundred exceeds; of few, the longest."""
    return sorted(times)[math.ceil(len(times) * 0.99) - 1] if times else 0.0
