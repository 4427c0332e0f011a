"""The notices of docs/notices.md: deadlines, confirmations, overdue hand-overs and risk."""

from __future__ import annotations

from app.domain.times import MAX_TIME_US
from app.domain.values import RiskLevel
from app.workbench.audit.findings import Rule, fail, require
from app.workbench.audit.world import World, check_order
from app.workbench.logcsv import LogRow


def check_scheduled(world: World, lines: list[LogRow], at: int) -> int:
    """Check deadlines of victims: their evictions follow at once, in the same order, for the same cause."""
    first = lines[at]
    rows = []
    for row in lines[at:]:
        if row.kind != "eviction_scheduled" or row.cause_seq != first.cause_seq:
            break
        rows.append(row)
    followers = lines[at + len(rows) : at + 2 * len(rows)]
    same = [(r.instance_id, r.cause_seq, r.at_us, r.reason) for r in rows]
    told = [(r.instance_id, r.cause_seq, r.at_us, r.reason) for r in followers if r.kind == "instance_evicted"]
    require(first, Rule.EVICTION, same == told, "the evictions that it announces do not follow at once")
    for row in rows:
        check_order(world, row)
        _check_deadline(world, row)
        world.scheduled[row.instance_id or ""] = row
    return len(rows)


def _check_deadline(world: World, row: LogRow) -> None:
    deadline_us = row.deadline_us
    if deadline_us is None:
        fail(row, Rule.FOLD, "it has no deadline")
    if world.grace_us is None:
        require(row, Rule.EVICTION, deadline_us > row.at_us, "its deadline is not after it")
    else:
        expected = min(row.at_us + world.grace_us, MAX_TIME_US)
        require(row, Rule.EVICTION, deadline_us == expected, "its deadline is not the end of the grace period")


def check_handed_over(world: World, row: LogRow) -> None:
    """Check that an eviction under a grace period was announced; it then awaits a confirmation."""
    notice = world.scheduled.pop(row.instance_id or "", None)
    if world.grace_us is not None:
        require(row, Rule.EVICTION, (notice is not None) == (world.grace_us > 0), "its announcement is not as agreed")
    if notice is not None:
        world.handovers[row.instance_id or ""] = notice


def check_confirmed(world: World, row: LogRow) -> None:
    """Check that somebody waits for this confirmation."""
    known = world.handovers.pop(row.instance_id or "", None)
    require(row, Rule.FOLD, known is not None, f"nobody waits for a word about {row.instance_id}")
    world.overdue.discard(row.instance_id or "")


def check_overdue(world: World, row: LogRow) -> None:
    """Check that a hand-over's deadline has passed without a word, and that this was not reported before."""
    name = row.instance_id or ""
    notice = world.handovers.get(name)
    if notice is None or name in world.overdue:
        fail(row, Rule.FOLD, f"nobody waits for a word about {name}, or it is overdue already")
    late = notice.deadline_us is not None and notice.deadline_us <= row.at_us
    require(row, Rule.FOLD, late and row.deadline_us == notice.deadline_us, "its deadline has not passed")
    world.overdue.add(name)


def _check_moves(world: World, row: LogRow) -> None:
    """Check that all who are to move are running spot instances alone, on the nodes that the moves say."""
    places: dict[str, str] = {}
    for move in row.moves or ():
        mover, target = world.running.get(move.instance_id), world.nodes.get(move.to)
        if mover is None or not mover.is_spot or mover.row.machine_count > 1:
            fail(row, Rule.FOLD, f"{move.instance_id} cannot move")
        at = places.get(move.instance_id, mover.row.node)
        require(row, Rule.FOLD, at == move.node != move.to, f"{move.instance_id} runs on {at}, not on {move.node}")
        require(row, Rule.FOLD, target is not None and target.is_open, f"{move.to} takes no placements")
        places[move.instance_id] = move.to


def check_risk(world: World, row: LogRow) -> None:
    """Check that the instance is at risk, or is not any more, as its probability and the threshold say.

    The same is told again only with moves that would spare it. These begin where the movers run.
    """
    name = row.instance_id or ""
    instance = world.running.get(name)
    require(row, Rule.FOLD, instance is not None and instance.is_spot, f"{name} is not a running spot instance")
    raised = row.reason == RiskLevel.RAISED
    require(row, Rule.FOLD, row.reason in set(RiskLevel), f"the level {row.reason!r} is unknown")
    again = raised == (name in world.at_risk)
    require(row, Rule.FOLD, not again or (raised and bool(row.moves)), f"{name} was told the same before")
    require(row, Rule.FOLD, raised or not row.moves, f"{name} needs no moves, as its risk is over")
    _check_moves(world, row)
    if row.risk is None or row.threshold is None:
        fail(row, Rule.FOLD, "it lacks the risk or the threshold")
    require(row, Rule.FOLD, raised == (row.risk > row.threshold), "its level is not what its probability says")
    (world.at_risk.add if raised else world.at_risk.discard)(name)
