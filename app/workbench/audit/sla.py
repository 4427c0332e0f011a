"""Rule 5: admissions and rejections agree with the quote and the budget that they record."""

from __future__ import annotations

from app.domain.budgets import Budget
from app.domain.values import Guarantee
from app.workbench.audit.books import Entered, check_book, hours_of, span_at
from app.workbench.audit.findings import Rule, require
from app.workbench.audit.world import World, booked, booked_with, class_counts, class_hours, count_slots
from app.workbench.logcsv import LogRow


def check_quote(world: World, row: LogRow) -> None:
    """Check that a spot decision records its slots and, under an SLA, the promise and the quote."""
    found = sum(count_slots(node.free, row.demand) for _, node in world.open_nodes())
    slots = max(found - row.machine_count + 1, 0)  # what the last of a group's machines finds
    require(row, Rule.SLA, row.slots == slots, f"it records {row.slots} slots, but there were {slots}")
    require(row, Rule.SLA, row.lifetime_us is not None and row.lifetime_us >= 0, "it declares no lifetime")
    promised = row.probability is not None
    if world.sla is None:
        world.sla = promised
    require(row, Rule.SLA, promised == world.sla, "whether an SLA is in force does not agree with what it records")
    if row.probability is not None:
        require(row, Rule.SLA, 0 < row.probability < 1, f"the probability {row.probability} is not one")
    if row.quoted_lifetime_us is not None or row.epoch is not None:
        require(row, Rule.SLA, promised, "it records a quote, but no probability")
    if row.quoted_lifetime_us is not None:
        require(row, Rule.SLA, row.epoch is not None, "it records a quote, but not of which epoch")
    if row.budget is not None and row.probability is not None:
        _check_budget(world, row, row.probability, row.budget)
    if row.book is not None and row.probability is not None:
        running = booked(world)
        span = None if world.strata_us is None else span_at(world.strata_us, row.lifetime_us or 0)
        entered, asked = world.entered.setdefault(row.probability, Entered()), hours_of(row, row.lifetime_us)
        others = [one for promise, one in world.entered.items() if promise != row.probability]
        check_book(row, row.book, entered, running, span, asked, others)
    if promised and row.kind == "instance_started":
        check_account(world, row)
        check_windows(world, row)
        require(row, Rule.SLA, row.quoted_lifetime_us is not None, "it is admitted under an SLA without a quote")


def check_account(world: World, row: LogRow) -> None:
    """Check that what is promised, or refused by its risk, records this risk, and the account that the guarantee has.

    A log without policies does not say which one that is: a budget, a book or none.
    """
    if not world.promises or row.probability is None:
        return
    require(row, Rule.SLA, row.estimated_probability is not None, "it is decided by a risk that it does not record")
    for name, figures, guarantee in (
        ("budget", row.budget, Guarantee.POOLED),
        ("book", row.book, Guarantee.STRATIFIED),
    ):
        has_it = world.guarantee is guarantee
        told = f"it is decided under {world.guarantee} {'without' if has_it else 'with'} a {name}"
        require(row, Rule.SLA, (figures is not None) == has_it, told)


def check_windows(world: World, row: LogRow) -> None:
    """Check that what is promised, to a start or for longer, rests on as many windows as the floor in force."""
    if world.promises and row.probability is not None and world.min_windows:
        require(row, Rule.SLA, row.windows is not None, "it is admitted without its windows, of which a floor is set")
    few = row.windows is not None and world.min_windows is not None and row.windows < world.min_windows
    require(row, Rule.SLA, not few, f"it is admitted on {row.windows} windows, of {world.min_windows} asked for")


def check_floor(world: World, row: LogRow) -> None:
    """Check that a refusal for too few windows tells the floor in force, and windows that are below it."""
    floor, windows = row.floor, row.windows
    is_below = floor is not None and windows is not None and windows < floor.min_windows
    require(row, Rule.SLA, is_below, "refused for too few windows, but there were enough")
    in_force = world.min_windows is None or (floor is not None and floor.min_windows == world.min_windows)
    require(row, Rule.SLA, in_force, f"refused by a floor that is not the {world.min_windows} in force")


def _check_budget(world: World, row: LogRow, probability: float, budget: Budget) -> None:
    """Check that the recorded budget follows from the lines so far."""
    admitted, evicted = class_counts(world, probability)
    require(row, Rule.SLA, budget.evicted == evicted, f"it records {budget.evicted} evicted, but there were {evicted}")
    earned, most = probability * (admitted + 1), 1.0
    if budget.evicted_core_hours is not None:
        (declared, lost), most = class_hours(world, probability), hours_of(row, row.lifetime_us)
        told = budget.core_hours, budget.mean_core_hours, budget.evicted_core_hours
        due = most, declared / admitted if admitted else 0.0, lost
        require(row, Rule.SLA, told == due, f"its budget records {told} core-hours, but they are {due}")
        earned = probability * (declared + most)
    require(row, Rule.SLA, budget.earned == earned, f"it records {budget.earned} earned, but it is {earned}")
    by_hours = budget.evicted_core_hours is not None
    running = sum(hours if by_hours else 1 for _, hours in booked_with(world, probability))
    bounds = 0 <= budget.committed <= running * (1 + 1e-9) and 0 <= budget.charge <= most
    require(
        row, Rule.SLA, bounds, f"{budget.committed} and {budget.charge} are no charges of {running} and 1 instances"
    )
    require(row, Rule.SLA, budget.risk >= (row.estimated_probability or 0), "its risk is below the table's")


def shortfall(row: LogRow) -> str:
    return "the budget cannot afford it" if row.budget or row.book else "the quote is not above its lifetime"


def is_owed_rejection(row: LogRow) -> bool:
    """Return True if a rejection is owed: no line of its book admits the start, the pooled budget cannot afford it, or
    the quote is not greater than the declared lifetime (the paper on spot SLAs, II).
    """
    if row.book is not None:
        return row.book.admitted_by is None
    if row.budget is not None and row.probability is not None:
        return not _affords(row.budget, row.probability)
    if row.probability is None or row.quoted_lifetime_us is None or row.lifetime_us is None:
        return False
    return row.quoted_lifetime_us <= row.lifetime_us


def _affords(budget: Budget, probability: float) -> bool:
    """Apply the rule of docs/forecast.md, *The pooled guarantee*."""
    hours = 1.0 if budget.core_hours is None else budget.core_hours
    spent = float(budget.evicted) if budget.evicted_core_hours is None else budget.evicted_core_hours
    needed = 2 * budget.risk if spent > budget.earned or is_heavy(budget) else budget.risk
    if needed <= probability:
        return True
    usable = budget.earned if budget.charge < hours else 0.8 * budget.earned
    return budget.charge <= usable - spent - budget.committed


def is_heavy(budget: Budget) -> bool:
    """Return True if a start declares more than two usual ones, and more core-hours than the budget has left."""
    hours, spent = budget.core_hours, budget.evicted_core_hours
    if hours is None or spent is None:
        return False
    return hours > max(2 * (budget.mean_core_hours or hours), budget.earned - spent - budget.committed)
