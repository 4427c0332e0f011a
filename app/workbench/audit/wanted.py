"""Rule 5 for what takes the longest lifetime that can be promised: its bounds, extensions, and the notice of its end.

The numbers are those of docs/forecast.md, written once more so that the audit does not rest on what it checks.
"""

from __future__ import annotations

from app.domain.times import SECOND_US
from app.domain.values import Market, Rejection
from app.workbench.audit.books import Entered, borne_by, earning, earning_of, hours_of, of_earned, unused_at
from app.workbench.audit.findings import Rule, require
from app.workbench.audit.world import World
from app.workbench.logcsv import LogRow

_MINUTE_US = 60 * SECOND_US
_LEAD_US = 10 * _MINUTE_US


def check_wanted(row: LogRow) -> None:
    """Check that a start that was accepted got a lifetime that it takes, and as long a one as was quoted.

    One that got no more than its minimum did not always say why.
    """
    if row.wanted is None:
        require(row, Rule.SLA, row.limited_by is None, "it declared its lifetime, but something is said to limit it")
        return
    lifetime_us, wanted_us = row.lifetime_us or 0, row.wanted.lifetime_us
    least_us = row.wanted.min_lifetime_us or 1
    require(row, Rule.SLA, row.market == Market.SPOT, "only a spot start takes what can be promised")
    require(row, Rule.SLA, lifetime_us >= least_us, "its lifetime is below the least that it takes")
    require(row, Rule.SLA, wanted_us is None or lifetime_us <= wanted_us, "its lifetime is longer than it wants")
    if wanted_us is not None:
        named = (row.limited_by is not None) == (lifetime_us < wanted_us)
        is_least = row.limited_by is None and lifetime_us == row.wanted.min_lifetime_us
        require(row, Rule.SLA, named or is_least, "it does not say why its lifetime is not what it wants")
    if row.limited_by == Rejection.SLA_UNATTAINABLE:
        longest = (row.quoted_lifetime_us or 0) <= lifetime_us + SECOND_US
        require(row, Rule.SLA, longest, "a longer lifetime was quoted than it was given")


def check_least(row: LogRow) -> None:
    """Check that a start that takes what it can be promised was refused its least lifetime."""
    if row.wanted is not None:
        least_us = row.wanted.min_lifetime_us or 1
        is_least = (row.lifetime_us or 0) >= least_us
        require(row, Rule.SLA, is_least, "it was refused a shorter lifetime than the least it takes")


def take_back(world: World, row: LogRow) -> None:
    """Take back what an instance that stops has earned for risk not borne, if it took what it could get.

    Of others the policy says it. A log without policies is right if all of them give back, or none.
    """
    instance = world.running.get(row.instance_id or "")
    if instance is None:
        return
    start, promised = instance.in_book, instance.row.probability
    earned, must = earning_of(start), instance.row.wanted is not None or world.gives_back
    if earned is not None and promised is not None and must is not False:
        more = earning(start, borne_by(start, row.at_us)).minus(earned)
        unused, hours = unused_at(instance.row, row.at_us), hours_of(start, instance.row.lifetime_us)
        all_more = of_earned(more, hours)._replace(run=-unused, run_core_hours=-unused * hours)
        world.entered.setdefault(promised, Entered()).enter(
            start.lifetime_us or 0,
            all_more
            if must
            else all_more._replace(earned=0.0, earned_core_hours=0.0, was_earned=0.0, was_earned_core_hours=0.0),
        )


def check_automatic(world: World, row: LogRow) -> None:
    """Check that an extension by the service was wanted, that nothing else was told, and that it gains enough."""
    name = row.instance_id or ""
    if row.automatic is not None:
        start, lifetime_us = world.running[name].row, row.lifetime_us or 0
        wanted, left_us = start.wanted, start.at_us + (row.former_lifetime_us or 0) - row.at_us
        require(row, Rule.SLA, wanted is not None, f"{name} did not ask to be extended")
        assert wanted is not None
        wanted_us = wanted.lifetime_us
        require(row, Rule.SLA, wanted_us is None or lifetime_us <= wanted_us, "it is extended beyond what it wants")
        require(row, Rule.SLA, name not in world.told, f"{name} was told that its promise ends")
        least_us = (row.former_lifetime_us or 0) + max(_LEAD_US, left_us // 2)
        gains = lifetime_us >= least_us or lifetime_us == wanted_us
        require(row, Rule.SLA, gains, "an extension by the service gains too little")
    world.told.discard(name)


def check_ending(world: World, row: LogRow) -> None:
    """Check that a notice tells the end of the promise, once, of one that wants more, and not long before."""
    name = row.instance_id or ""
    instance = world.running.get(name)
    require(row, Rule.FOLD, instance is not None and instance.is_spot, f"{name} is not a running spot instance")
    assert instance is not None
    start = instance.row
    wants = start.wanted is not None and start.wanted.exceeds(start.lifetime_us or 0)
    require(row, Rule.FOLD, wants, f"{name} wants no longer lifetime")
    require(row, Rule.FOLD, name not in world.told, f"{name} was told the same before")
    kept_us = start.at_us + (start.lifetime_us or 0)
    require(
        row, Rule.FOLD, (row.lifetime_us, row.deadline_us) == (start.lifetime_us, kept_us), "it has another promise"
    )
    early_us = max(_LEAD_US, world.grace_us or 0) + 2 * _MINUTE_US
    require(row, Rule.FOLD, row.at_us >= kept_us - early_us, "it is told too long before")
    world.told.add(name)
