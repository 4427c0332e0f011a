"""Rule 5 for longer lifetimes: what is promised or refused agrees with the quote and the budget that it records."""

from __future__ import annotations

from app.domain.budgets import Budget
from app.domain.values import Market, Rejection
from app.workbench.audit.books import Entered, borne_by, check_book, earning, earning_of, hours_of, of_earned, span_at
from app.workbench.audit.findings import Rule, fail, require
from app.workbench.audit.quotas import check_extension_quota
from app.workbench.audit.sla import check_account, check_floor, check_windows, is_heavy
from app.workbench.audit.wanted import check_automatic
from app.workbench.audit.world import (
    AuditedInstance,
    World,
    booked,
    booked_with,
    class_counts,
    class_hours,
    count_core_us,
    count_slots,
    freed,
)
from app.workbench.logcsv import LogRow


def check_extended(world: World, row: LogRow) -> None:
    """Check that the longer lifetime could be promised; the instance has it from here on."""
    instance, rest_us = _check_asked(world, row)
    start = instance.row
    deadline_us = start.at_us + (row.lifetime_us or 0)
    require(row, Rule.FOLD, row.deadline_us == deadline_us, "its deadline is not the end of its new lifetime")
    if row.probability is not None and (row.epoch is not None or world.promises):
        require(row, Rule.SLA, row.quoted_lifetime_us is not None, "it is extended without a quote")
    check_account(world, row)
    require(row, Rule.SLA, not _is_owed_refusal(row, rest_us), f"it is extended, but {_shortfall(row)}")
    check_windows(world, row)
    check_automatic(world, row)
    count_core_us(world, start, (row.lifetime_us or 0) - (row.former_lifetime_us or 0))
    world.running[row.instance_id or ""] = AuditedInstance(
        start._replace(lifetime_us=row.lifetime_us), _booked(world, row, instance.in_book, rest_us)
    )


def _booked(world: World, row: LogRow, before: LogRow, rest_us: int) -> LogRow:
    """Let the book of its first stratum earn by the whole risk; return what it bears there from now on."""
    former, estimate = earning_of(before), row.estimated_probability
    after = before._replace(deadline_us=row.deadline_us)
    if former is None or estimate is None or row.total_risk is None or row.probability is None:
        return after
    share = estimate * max(before.lifetime_us or 0, 1) / rest_us
    after = after._replace(estimated_probability=share, total_risk=row.total_risk)
    earned, hours = earning(after, row.total_risk), hours_of(before, row.lifetime_us)
    former_hours = hours_of(before, row.former_lifetime_us)
    by_hours, was_by_hours = (hours * new - former_hours * old for new, old in zip(earned, former, strict=True))
    longer = of_earned(earned.minus(former), 0.0)._replace(
        core_hours=hours - former_hours,
        earned_core_hours=by_hours,
        as_borne_core_hours=by_hours,
        run_core_hours=hours - former_hours,
        was_earned_core_hours=was_by_hours,
    )
    world.entered.setdefault(row.probability, Entered()).enter(before.lifetime_us or 0, longer)
    return after


def check_refused(world: World, row: LogRow) -> None:
    """Check that the longer lifetime could not be promised, for the reason given."""
    instance, rest_us = _check_asked(world, row)
    kept_us = instance.row.at_us + (instance.row.lifetime_us or 0)
    require(row, Rule.FOLD, row.deadline_us == kept_us, "its deadline is not the end of the lifetime that it keeps")
    require(row, Rule.SLA, row.probability is not None, "it is refused, but nothing was promised")
    if row.reason in {Rejection.BUDGET_EXHAUSTED, Rejection.SLA_UNATTAINABLE}:
        check_account(world, row)
        has_budget = row.reason == Rejection.BUDGET_EXHAUSTED
        rests_on_one = row.budget is not None or row.book is not None
        require(row, Rule.SLA, rests_on_one == has_budget, f"refused as {row.reason} on another ground")
        require(row, Rule.SLA, _is_owed_refusal(row, rest_us), f"refused as {row.reason}, which it could have")
    elif row.reason == Rejection.TOO_FEW_WINDOWS:
        check_floor(world, row)
    elif row.reason == Rejection.QUOTA_EXCEEDED:  # a log without policies
        exceeds = row.quota is not None and row.quota.used + row.quota.asked > row.quota.allowed
        require(row, Rule.SLA, exceeds, "refused by a quota that it does not exceed")
    elif row.reason == Rejection.NO_HISTORY:
        require(row, Rule.SLA, row.quoted_lifetime_us is None, "refused for want of history, but there is a quote")
    else:
        require(row, Rule.SLA, row.reason == Rejection.QUOTES_STALE, f"the reason {row.reason!r} is unknown")
        require(row, Rule.SLA, row.epoch is not None, "refused because the table is too old, but there is none")


def _check_asked(world: World, row: LogRow) -> tuple[AuditedInstance, int]:
    """Check what both decisions say; return the instance and the rest of the lifetime asked for."""
    instance = world.running.get(row.instance_id or "")
    if instance is None or instance.row.market != Market.SPOT:
        fail(row, Rule.FOLD, f"{row.instance_id} is no running spot instance")
    start, former_us = instance.row, instance.row.lifetime_us or 0
    told, expected = ((r.market, r.demand, r.node, r.nodes) for r in (row, start))
    same = told == expected
    require(row, Rule.FOLD, same, f"it does not repeat what the start of {row.instance_id} says (event {start.seq})")
    require(row, Rule.FOLD, row.former_lifetime_us == former_us, f"its lifetime was {former_us / 1e6:g} s before")
    require(row, Rule.FOLD, (row.lifetime_us or 0) > former_us, "its lifetime does not become longer")
    require(row, Rule.SLA, row.at_us <= start.at_us + former_us, "its lifetime was over")
    require(row, Rule.SLA, row.probability == start.probability, "it is not promised what its start was")
    slots = _slots_seen(world, instance, row.at_us)
    require(row, Rule.SLA, row.slots == slots, f"it records {row.slots} slots, but it saw {slots}")
    _check_risk(row, instance.in_book)
    if row.budget is not None and row.probability is not None:
        _check_budget(world, row, row.probability, row.budget)
    if row.book is not None and row.probability is not None:
        lifetime_us = instance.in_book.lifetime_us or 0
        running = booked(world)
        span = None if world.strata_us is None else span_at(world.strata_us, lifetime_us)
        entered = world.entered.setdefault(row.probability, Entered())
        asked = hours_of(start, row.lifetime_us)
        others = [one for promise, one in world.entered.items() if promise != row.probability]
        check_book(row._replace(lifetime_us=lifetime_us), row.book, entered, running, span, asked, others)
    check_extension_quota(world, row, instance)
    return instance, start.at_us + (row.lifetime_us or 0) - row.at_us


def _slots_seen(world: World, instance: AuditedInstance, now_us: int) -> int:
    """Count the slots with everything gone that would be evicted before the instance, and itself."""
    slots = 0
    for name, node in world.open_nodes():
        room = node.free
        for other in world.spot_on(name, now_us):
            if other is instance or other.youth(now_us) > instance.youth(now_us):
                room = freed(room, other, name)
        slots += count_slots(room, instance.row.demand)
    return max(slots - instance.row.machine_count + 1, 1)


def _check_risk(row: LogRow, booked: LogRow) -> None:
    """Check that the whole risk is what the instance has borne, in equal parts over its time, and the rest's."""
    if row.estimated_probability is None:
        require(row, Rule.SLA, row.total_risk is None, "it records a whole risk without an estimate")
        return
    total = min(borne_by(booked, row.at_us) + row.estimated_probability, 1.0)
    require(row, Rule.SLA, row.total_risk == total, f"it records a whole risk of {row.total_risk}, but it is {total}")


def _check_budget(world: World, row: LogRow, probability: float, budget: Budget) -> None:
    admitted, evicted = class_counts(world, probability)
    require(row, Rule.SLA, budget.evicted == evicted, f"it records {budget.evicted} evicted, but there were {evicted}")
    earned, most, by_hours = probability * admitted, 1.0, budget.evicted_core_hours is not None
    if by_hours:
        start = world.running[row.instance_id or ""].row
        (declared, lost), most = class_hours(world, probability), hours_of(start, row.lifetime_us)
        told = budget.core_hours, budget.mean_core_hours, budget.evicted_core_hours
        due = most, declared / admitted, lost
        require(row, Rule.SLA, told == due, f"its budget records {told} core-hours, but they are {due}")
        earned = probability * (declared + most - hours_of(start, row.former_lifetime_us))
    require(row, Rule.SLA, budget.earned == earned, f"it records {budget.earned} earned, but it is {earned}")
    running = sum(hours if by_hours else 1 for _, hours in booked_with(world, probability))
    bounds = 0 <= budget.committed <= running * (1 + 1e-9) and 0 <= budget.charge <= most
    require(row, Rule.SLA, bounds, f"{budget.committed} and {budget.charge} are no charges of {running} instances")
    require(row, Rule.SLA, budget.risk >= (row.estimated_probability or 0), "its risk is below the table's")


def _is_owed_refusal(row: LogRow, rest_us: int) -> bool:
    """Return True if no line of its book admits it, the budget can neither bear the risk nor pay the rise of the
    charge, or the quote is not longer than the rest.
    """
    if row.book is not None:
        return row.book.admitted_by is None
    if row.budget is not None:
        budget = row.budget
        spent = float(budget.evicted) if budget.evicted_core_hours is None else budget.evicted_core_hours
        needed = 2 * budget.risk if spent > budget.earned or is_heavy(budget) else budget.risk
        if needed <= (row.probability or 0.0):
            return False
        usable = budget.earned if budget.charge else 0.8 * budget.earned
        return budget.charge > usable - (spent + budget.committed)
    return row.quoted_lifetime_us is not None and row.quoted_lifetime_us <= rest_us


def _shortfall(row: LogRow) -> str:
    return "the budget cannot afford it" if row.budget or row.book else "the quote is not above the rest of it"
