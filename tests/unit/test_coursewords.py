"""Sentences on how an accepted instance went on: in the order of time, and of a promise only where there is one."""

from __future__ import annotations

import pytest

from app.domain.budgets import AdmittedBy, Book
from app.domain.events import (
    EvictionRisk,
    InstanceExtended,
    InstanceMoved,
    InstanceStarted,
    PromiseEnding,
    Recorded,
)
from app.domain.times import HOUR_US
from app.domain.values import Basis, Market, Policy, Resources, RiskLevel
from app.explaining.rules.explanations import Explanation, PromiseStatus
from app.explaining.rules.sentences import explain_in_words
from app.scheduling.rules.instances import Instance


def story(
    basis: Basis | None, promise: PromiseStatus = PromiseStatus.NONE, *, total: float | None = None, grows: bool = True
) -> list[str]:
    """Return the sentences on an instance that was at risk, moved, extended, moved, and whose promise ends."""
    start = InstanceStarted(
        at_us=0, instance_id="s", market=Market.SPOT, flavor="c1", node="a", lifetime_us=HOUR_US, basis=basis
    )
    risk = EvictionRisk(
        at_us=1, instance_id="s", level=RiskLevel.RAISED, probability=0.5, threshold=0.25, epoch=3, slots=4
    )
    moves = [InstanceMoved(at_us=at, instance_id="s", node=to, former_node="a") for at, to in ((2, "b"), (4, "c"))]
    longer = InstanceExtended(
        at_us=3,
        instance_id="s",
        lifetime_us=2 * HOUR_US,
        former_lifetime_us=HOUR_US,
        deadline_us=2 * HOUR_US,
        basis=Basis(1) if basis is None else basis,
        total_risk=total,
    )
    ending = PromiseEnding(at_us=5, instance_id="s", lifetime_us=2 * HOUR_US, deadline_us=2 * HOUR_US)
    explanation = Explanation(
        instance=Instance(start, 2, None, longer if grows else None, moves[-1]),
        required=Resources(1),
        policy=Policy(),
        created_us=0,
        as_of_us=HOUR_US,
        ground=None,
        promise=promise,
        acceptable=None,
        eviction=None,
        notices=(Recorded(3, risk), Recorded(7, ending)),
        extensions=(Recorded(5, longer),),
        grace=None,
        moves=(Recorded(4, moves[0]), Recorded(6, moves[1])),
    )
    return [*explain_in_words(explanation)]


def test_what_happened_is_told_in_the_order_of_time() -> None:
    told = " ".join(story(Basis(1, 3, 0.1, 2 * HOUR_US, 0.05)))
    places = [
        told.index(words)
        for words in (
            "was asked for",
            "risk that it is evicted",
            "from a to b",
            "Extended",
            "from a to c",
            "it overruns",
        )
    ]
    assert places == sorted(places)
    assert told.count("its promise stayed") == 2


def test_no_promise_is_said_to_stay_where_nothing_was_promised() -> None:
    told = " ".join(story(None))
    assert "so nothing was promised" in told
    assert "moved it from a to b." in told
    assert "promise stayed" not in told


@pytest.mark.parametrize(
    ("grows", "until", "risk"), [(False, "01:00:00", "54 %"), (True, "02:00:00", "58 %")], ids=["start", "longer"]
)
def test_who_risks_more_than_was_promised_reads_that_all_are_promised_that_together(
    grows: bool, until: str, risk: str
) -> None:
    """ "Its risk was 54 % at a promise of 20 %" ended with "the promise, at most 20 %, holds"."""
    book = Book(0, 8 * HOUR_US, 3.0, 0, 0.0, 0, AdmittedBy.PAID)
    told = story(Basis(1, 3, 0.2, 60_000_000, 0.54, book=book), PromiseStatus.OPEN, total=0.58, grows=grows)
    assert told[-1] == (
        f"The promise holds until 1970-01-01 {until} UTC. It is made to all starts with this promise (lifetimes below "
        f"8 h) together: at most 20 % of them are evicted. For this one alone {risk} is expected."
    )
    assert any("allowed it; the promise is to all starts of that book together." in one for one in told)


def test_who_risks_no_more_than_was_promised_reads_the_promise_alone() -> None:
    book = Book(0, None, 3.0, 0, 0.0, 0, AdmittedBy.WITHIN)
    told = story(Basis(1, 3, 0.2, 60_000_000, 0.2, book=book), PromiseStatus.OPEN, total=0.2)
    assert told[-1] == "The promise, an eviction probability of at most 20 %, holds until 1970-01-01 02:00:00 UTC."
    assert "together" not in " ".join(told)
