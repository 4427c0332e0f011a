"""The walk through a log: each line, or group of lines, is given to the check of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from app.domain.values import EvictionPolicy, Resources
from app.workbench.audit.evictions import check_evictions, check_stopped
from app.workbench.audit.extensions import check_extended, check_refused
from app.workbench.audit.findings import Audit, Broken, Rule, fail
from app.workbench.audit.jobs import KINDS as JOB_KINDS
from app.workbench.audit.moves import check_moved
from app.workbench.audit.nodes import (
    check_flavor,
    check_node_added,
    check_node_drained,
    check_node_opened,
    check_node_removed,
    check_node_resized,
    check_policy,
)
from app.workbench.audit.notices import check_confirmed, check_overdue, check_risk, check_scheduled
from app.workbench.audit.quotas import check_quota_change
from app.workbench.audit.starts import check_rejected, check_started
from app.workbench.audit.totals import totals_of
from app.workbench.audit.wanted import check_ending
from app.workbench.audit.world import World, add_node, check_order
from app.workbench.logcsv import LogRow


def audit(
    rows: Iterable[LogRow], nodes: Sequence[tuple[str, Resources]], policy: EvictionPolicy | None = None
) -> Audit:
    """Check a log, up to the first event that breaks a rule.

    `nodes` are present from the beginning, in node order; nodes that the log adds come after them. `policy` is the rule
    by which victims are chosen; None takes it from the log's own column, or `yjf` if it has none.
    """
    lines = list(rows)
    world = World()
    for name, capacity in nodes:
        add_node(world, name, capacity)
    if policy is not None:
        world.policy, world.policy_is_fixed = policy, True
    at = 0
    try:
        while at < len(lines):
            at += _check_step(world, lines, at)
    except Broken as broken:
        return Audit(len(lines), broken.finding)
    return Audit(len(lines), None, totals_of(world, lines))


_CHECKS: dict[str, Callable[[World, LogRow], None]] = {
    "cloud_created": check_policy,
    "policy_changed": check_policy,
    "node_added": check_node_added,
    "node_drained": check_node_drained,
    "node_opened": check_node_opened,
    "node_removed": check_node_removed,
    "node_resized": check_node_resized,
    "flavor_added": check_flavor,
    "instance_started": check_started,
    "instance_rejected": check_rejected,
    "instance_stopped": check_stopped,
    "instance_extended": check_extended,
    "extension_rejected": check_refused,
    "instance_moved": check_moved,
    "quota_set": check_quota_change,
    "quota_removed": check_quota_change,
    "eviction_confirmed": check_confirmed,
    "eviction_overdue": check_overdue,
    "eviction_risk": check_risk,
    "promise_ending": check_ending,
}


def _check_step(world: World, lines: list[LogRow], at: int) -> int:
    """Check the next event with the evictions directly before it; return the number of lines."""
    row = lines[at]
    if row.kind == "instance_evicted":
        return check_evictions(world, lines, at)
    if row.kind == "eviction_scheduled":
        return check_scheduled(world, lines, at)
    if row.kind in JOB_KINDS:
        check_order(world, row)
        return 1
    check = _CHECKS.get(row.kind)
    if check is None:
        fail(row, Rule.FOLD, f"the kind {row.kind!r} is unknown")
    check_order(world, row)
    check(world, row)
    return 1
