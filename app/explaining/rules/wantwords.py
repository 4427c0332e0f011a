"""Sentences for people about starts that take the longest lifetime that can be promised."""

from __future__ import annotations

from collections.abc import Iterator

from app.domain.events import InstanceStarted, PromiseEnding, StartDecision
from app.domain.times import at_least_text, time_text
from app.domain.values import Rejection
from app.domain.wanted import Wanted

_LIMITS = {
    Rejection.SLA_UNATTAINABLE: "no longer one was quoted at its eviction probability",
    Rejection.BUDGET_EXHAUSTED: "no longer one was within what its promise allows",
    Rejection.NO_HISTORY: "there was no forecast yet",
    Rejection.QUOTES_STALE: "the quotes were too old",
    Rejection.QUOTA_EXCEEDED: "no longer one was within its owner's quota",
    Rejection.TOO_FEW_WINDOWS: "no estimate for a longer one rested on as many windows as the policy asks for",
    Rejection.OVERRUNNING: "too much of what its owner ran had overrun",
    Rejection.NO_CAPACITY: "there was room for no other one",
}


def lifetime_in_words(decision: StartDecision) -> str:
    """Return for how long a start asked, as the end of a sentence."""
    if decision.wanted is not None:
        return f", {wanted_in_words(decision.wanted)}"
    return "" if decision.lifetime_us is None else f", for at most {at_least_text(decision.lifetime_us)}"


def wanted_in_words(wanted: Wanted) -> str:
    """Return the lifetimes that a start takes: `for as long as possible, at least 1 h`."""
    most = "as long as possible" if wanted.lifetime_us is None else f"up to {at_least_text(wanted.lifetime_us)}"
    least = "" if wanted.min_lifetime_us is None else f", at least {at_least_text(wanted.min_lifetime_us)}"
    return f"for {most}{least}"


def given_in_words(decision: InstanceStarted, *, is_running: bool) -> Iterator[str]:
    """Tell what was promised to a start that takes what it can get, and why not more."""
    if decision.wanted is None or decision.lifetime_us is None:
        return
    given = at_least_text(decision.lifetime_us)
    if not decision.wanted.exceeds(decision.lifetime_us):
        yield f"It got {given}, all that it wanted."
        return
    later = "It is extended while that is possible." if is_running else "While it ran, it was extended where possible."
    yield f"It got {given}: {limit_in_words(decision.limited_by)}. {later}"


def limit_in_words(reason: Rejection | None) -> str:
    """Return why a promise is not longer, as half a sentence."""
    return "nothing is promised further ahead" if reason is None else _LIMITS.get(reason, reason.value)


def ending_in_words(event: PromiseEnding) -> str:
    """Tell when a promise ends, why it is not longer, and what becomes of the instance then."""
    return (
        f"At {time_text(event.at_us)}: its promise ends at {time_text(event.deadline_us)}, after "
        f"{at_least_text(event.lifetime_us)}; {limit_in_words(event.reason)}. If it runs on it overruns, and is "
        "evicted before all that have a promise."
    )
