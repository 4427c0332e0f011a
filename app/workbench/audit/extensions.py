"""Rule 5 for longer lifetimes: what is promised or refused agrees with the quote and the budget that it records."""

from __future__ import annotations

from dataclasses import replace

from app.domain.values import Budget, Market, Rejection
from app.workbench.audit.findings import Rule, fail, require
from app.workbench.audit.world import AuditedInstance, World, class_counts, count_slots, plus
from app.workbench.logcsv import LogRow


def check_extended(world: World, row: LogRow) -> None:
    """Check that the longer lifetime could be promised; the instance has it from here on."""
    instance, rest_us = _check_asked(world, row)
    start = instance.row
    deadline_us = start.at_us + (row.lifetime_us or 0)
    require(row, Rule.FOLD, row.deadline_us == deadline_us, "its deadline is not the end of its new lifetime")
    if row.probability is not None and row.epoch is not None:
        require(row, Rule.SLA, row.quoted_lifetime_us is not None, "it is extended without a quote")
    require(row, Rule.SLA, not _is_owed_refusal(row, rest_us), f"it is extended, but {_shortfall(row)}")
    world.running[row.instance_id or ""] = replace(instance, row=start._replace(lifetime_us=row.lifetime_us))


def check_refused(world: World, row: LogRow) -> None:
    """Check that the longer lifetime could not be promised, for the reason given."""
    instance, rest_us = _check_asked(world, row)
    kept_us = instance.row.at_us + (instance.row.lifetime_us or 0)
    require(row, Rule.FOLD, row.deadline_us == kept_us, "its deadline is not the end of the lifetime that it keeps")
    require(row, Rule.SLA, row.probability is not None, "it is refused, but nothing was promised")
    if row.reason in {Rejection.BUDGET_EXHAUSTED, Rejection.SLA_UNATTAINABLE}:
        has_budget = row.reason == Rejection.BUDGET_EXHAUSTED
        require(row, Rule.SLA, (row.budget is not None) == has_budget, f"refused as {row.reason} on another ground")
        require(row, Rule.SLA, _is_owed_refusal(row, rest_us), f"refused as {row.reason}, which it could have")
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
    same = (row.market, row.demand, row.node) == (start.market, start.demand, start.node)
    require(row, Rule.FOLD, same, f"it does not repeat what the start of {row.instance_id} says (event {start.seq})")
    require(row, Rule.FOLD, row.former_lifetime_us == former_us, f"its lifetime was {former_us / 1e6:g} s before")
    require(row, Rule.FOLD, (row.lifetime_us or 0) > former_us, "its lifetime does not become longer")
    require(row, Rule.SLA, row.at_us <= start.at_us + former_us, "its lifetime was over")
    require(row, Rule.SLA, row.probability == start.probability, "it is not promised what its start was")
    slots = _slots_seen(world, instance, row.at_us)
    require(row, Rule.SLA, row.slots == slots, f"it records {row.slots} slots, but it saw {slots}")
    if row.budget is not None and row.probability is not None:
        _check_budget(world, row, row.probability, row.budget)
    return instance, start.at_us + (row.lifetime_us or 0) - row.at_us


def _slots_seen(world: World, instance: AuditedInstance, now_us: int) -> int:
    """Count the slots with everything gone that would be evicted before the instance, and itself."""
    slots = 0
    for name, node in world.open_nodes():
        room = node.free
        for other in world.spot_on(name, now_us):
            if other is instance or other.youth(now_us) > instance.youth(now_us):
                room = plus(room, other.row.demand)
        slots += count_slots(room, instance.row.demand)
    return max(slots, 1)


def _check_budget(world: World, row: LogRow, probability: float, budget: Budget) -> None:
    admitted, evicted = class_counts(world, probability)
    require(row, Rule.SLA, budget.evicted == evicted, f"it records {budget.evicted} evicted, but there were {evicted}")
    earned = probability * admitted
    require(row, Rule.SLA, budget.earned == earned, f"it records {budget.earned} earned, but it is {earned}")
    running = sum(i.row.probability == probability for i in world.running.values())
    bounds = 0 <= budget.committed <= running and 0 <= budget.charge <= 1
    require(row, Rule.SLA, bounds, f"{budget.committed} and {budget.charge} are no charges of {running} instances")
    require(row, Rule.SLA, budget.risk >= (row.estimated_probability or 0), "its risk is below the table's")


def _is_owed_refusal(row: LogRow, rest_us: int) -> bool:
    """Return True if the budget cannot pay the rise of the charge, or the quote is not longer than the rest."""
    if row.budget is not None:
        usable = row.budget.earned if row.budget.charge else 0.8 * row.budget.earned
        return row.budget.charge > usable - row.budget.evicted - row.budget.committed
    return row.quoted_lifetime_us is not None and row.quoted_lifetime_us <= rest_us


def _shortfall(row: LogRow) -> str:
    return "the budget cannot afford it" if row.budget else "the quote is not above the rest of it"
