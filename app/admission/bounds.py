"""The bounds that a cloud's policy sets to what a spot start may declare and ask for.

A request out of bounds is no decision: it is answered with an error, and nothing is recorded.
"""

from __future__ import annotations

from app.domain.errors import LifetimeOutOfBounds, PolicyInvalid, ProbabilityOutOfBounds
from app.domain.requests import StartRequest
from app.domain.times import seconds_text
from app.domain.values import Market, Policy
from app.domain.wanted import Wanted


def check_lifetime(policy: Policy, lifetime_us: int) -> None:
    """Raise LifetimeOutOfBounds if a spot instance may not have this lifetime."""
    shortest_us, longest_us = policy.shortest_lifetime_us, policy.longest_lifetime_us
    if lifetime_us < shortest_us:
        least = f"declare {seconds_text(shortest_us)} s at least"
        raise LifetimeOutOfBounds(f"a lifetime of {seconds_text(lifetime_us)} s is too short here: {least}")
    if longest_us is not None and lifetime_us > longest_us:
        most = f"declare {seconds_text(longest_us)} s at most"
        raise LifetimeOutOfBounds(f"a lifetime of {seconds_text(lifetime_us)} s is too long here: {most}")


def check_probability(policy: Policy, probability: float | None) -> None:
    """Raise ProbabilityOutOfBounds if a spot start may not ask for this eviction probability; None asks for none."""
    least, highest = policy.least_probability, policy.highest_probability
    if probability is not None and least is not None and probability < least:
        raise ProbabilityOutOfBounds(
            f"an eviction probability of {probability} is too low here: ask for {least} at least"
        )
    if probability is not None and highest is not None and probability > highest:
        raise ProbabilityOutOfBounds(
            f"an eviction probability of {probability} is too high here: ask for {highest} at most"
        )


def check_wanted(policy: Policy, wanted: Wanted) -> None:
    """Raise LifetimeOutOfBounds if a spot instance may not have what it wants, or not the least that it takes."""
    for lifetime_us in (wanted.lifetime_us, wanted.min_lifetime_us):
        if lifetime_us is not None:
            check_lifetime(policy, max(lifetime_us, policy.shortest_lifetime_us))


def is_out_of_bounds(policy: Policy, request: StartRequest) -> bool:
    """Return True if the policy's bounds refuse the start."""
    try:
        if request.market is Market.SPOT and request.wanted is not None:
            check_wanted(policy, request.wanted)
            check_probability(policy, request.eviction_probability)
        elif request.market is Market.SPOT and request.lifetime_us is not None:
            check_lifetime(policy, request.lifetime_us)
            check_probability(policy, request.eviction_probability)
    except (LifetimeOutOfBounds, ProbabilityOutOfBounds):
        return True
    return False


def check_bounds(policy: Policy) -> None:
    """Raise PolicyInvalid if the bounds leave nothing between them, or the policy's own promise is outside of them."""
    longest_us = policy.longest_lifetime_us
    if longest_us is not None and longest_us < policy.shortest_lifetime_us:
        raise PolicyInvalid("longest_lifetime_s is below shortest_lifetime_s: no spot start could declare a lifetime")
    try:
        check_probability(policy, policy.eviction_probability)
    except ProbabilityOutOfBounds as error:
        raise PolicyInvalid(f"eviction_probability is out of its own bounds: {error}") from None
