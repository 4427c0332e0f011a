"""Sentences on how an accepted instance went on: in the order of time, and of a promise only where there is one."""

from __future__ import annotations

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


def story(basis: Basis | None) -> list[str]:
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
    )
    ending = PromiseEnding(at_us=5, instance_id="s", lifetime_us=2 * HOUR_US, deadline_us=2 * HOUR_US)
    explanation = Explanation(
        instance=Instance(start, 2, None, longer, moves[-1]),
        required=Resources(1),
        policy=Policy(),
        created_us=0,
        as_of_us=HOUR_US,
        ground=None,
        promise=PromiseStatus.NONE,
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
