"""Evaluations and their baselines side by side, platform by platform."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.domain.inputs import platform_text
from app.domain.values import Guarantee, Policy
from app.workbench.baselines import Baseline, without_promise
from app.workbench.matrix import Evaluated
from app.workbench.tally import Scenario, WorkloadTally, rules_of


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """The outcome of a promise or a baseline on a platform; `best_core_us` is what the clairvoyant completed there."""

    platform: str
    victims: str
    rule: str
    tally: WorkloadTally
    best_core_us: int

    def lost_core_us(self) -> int:
        """Return the core-microseconds of instances that were evicted within their declared lifetimes."""
        return self.tally.total().lost_core_us

    def core_us(self) -> int:
        """Return the core-microseconds of the admitted instances."""
        return self.tally.total().core_us


def standings(found: Sequence[Evaluated]) -> list[RuleOutcome]:
    """Return the evaluations of each platform, and then its baselines; all must have been run with baselines."""
    return [standing for one in dict.fromkeys(map(_bare, found)) for standing in _of_place(one, found)]


def _bare(one: Evaluated) -> Scenario:
    return without_promise(one.outcome.scenario)


def _of_place(place: Scenario, found: Sequence[Evaluated]) -> Iterator[RuleOutcome]:
    there = [one for one in found if _bare(one) == place]
    platform, victims = platform_text(place.nodes), rules_of(place.policy)
    baselines = there[0].baselines
    assert baselines is not None
    best_us = baselines[Baseline.CLAIRVOYANT].completed_core_us
    rows = [(_promise(one.outcome.scenario.policy), one.outcome.tally) for one in there]
    rows += [(str(baseline), tally) for baseline, tally in baselines.items()]
    for rule, tally in rows:
        yield RuleOutcome(platform, victims, rule.replace("_", "-"), tally, best_us)


def _promise(policy: Policy) -> str:
    return "no SLA" if policy.guarantee is Guarantee.NONE else f"{policy.guarantee} {policy.eviction_probability:g}"
