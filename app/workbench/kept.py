"""The verdicts on the promise of a driven workload: to all, and to each stratum of declared lifetimes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.domain.values import Guarantee
from app.judging.verdicts import judge_promise
from app.workbench.tally import DrivenScenario, GroupTally


@dataclass(frozen=True, slots=True)
class PromiseVerdict:
    """The verdict on the promise to some instances; `is_above` if more of them were evicted than was promised."""

    of: str
    sentence: str
    is_above: bool


def kept_by_lifetime(outcome: DrivenScenario) -> Iterator[PromiseVerdict]:
    """Yield the verdict on all instances, then on each stratum that has some; nothing without a promise."""
    policy, tally = outcome.scenario.policy, outcome.tally
    if policy.guarantee is Guarantee.NONE:
        return
    groups = {"all": tally.total(), **tally.strata}
    for name, group in groups.items():
        if group.admitted:
            yield _judged(name, group, policy.eviction_probability)


def _judged(name: str, group: GroupTally, promised: float) -> PromiseVerdict:
    sentence = judge_promise(promised, group.evicted, group.admitted).sentence
    return PromiseVerdict(name, sentence, group.evicted > promised * group.admitted)
