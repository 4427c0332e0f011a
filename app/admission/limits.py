"""The limits of what a cloud's state may hold, and the starts that must be known as new before a limit refuses them."""

from __future__ import annotations

from collections.abc import Sequence

from app.admission.bounds import is_out_of_bounds
from app.admission.outcomes import Change
from app.domain.requests import Operation, StartRequest
from app.domain.values import Clock, Guarantee, Market
from app.engine.cloud import Cloud

MOST_NODES = 20_000
"""The limit of nodes in a cloud."""
MOST_FLAVORS = 300
"""The limit of flavors in a cloud. Each has curves of its own in every table."""
MOST_CLASSES = 100
"""The limit of promised probabilities in a cloud. Callers choose them freely, and the state keeps each for ever."""
MOST_RUNNING = 250_000
"""The limit of running machines in a cloud: instances, and members of groups. All of its state is kept in memory."""

MOST_OWNERS = 20_000
"""The limit of owners with an account in a cloud. Controllers name any project, and the state keeps each for weeks."""


def ids_to_look_up(cloud: Cloud, steps: Sequence[object], *, every_start: bool) -> list[str]:
    """Return the instance ids of which the log may know more than the state.

    The log's unique index catches a start whose id was used before but does not run. So `every_start` is needed only
    after that has happened, and on an external clock, where a repeated start brings a time in the past. Ids that a
    change keeps for later it does not catch, since nothing starts under them yet. A start must also be known as new
    before it is refused for its SLA class, its owner, the number of running instances, or the bounds of the policy; the
    steps before it may change each.
    """
    ids, before = set(), len(steps) - 1
    machines = sum(step.count for step in steps if isinstance(step, StartRequest))
    every_id = every_start or cloud.policy.clock is Clock.EXTERNAL
    every_start = every_id or is_full(cloud, machines) or any(not isinstance(step, Operation) for step in steps)
    for step in steps:
        if isinstance(step, Change):
            ids |= {name for name in step.starts if every_id or name in cloud.running} | {*step.keeps}
        if not isinstance(step, Operation):
            continue
        if not isinstance(step, StartRequest):
            if step.instance_id not in cloud.running:
                ids.add(step.instance_id)
        elif (
            every_start
            or step.instance_id in cloud.running
            or is_out_of_bounds(cloud.policy, step)
            or is_class_too_many(cloud, step, before)
            or is_owner_too_many(cloud, step, before)
        ):
            ids.add(step.instance_id)
    return sorted(ids)


def is_full(cloud: Cloud, more: int) -> bool:
    """Return True if so many more machines may not run."""
    return cloud.machine_count + more > MOST_RUNNING


def is_class_too_many(cloud: Cloud, request: StartRequest, more: int = 0) -> bool:
    """Return True if the start would add an SLA class beyond the cloud's limit once `more` have been added."""
    promised, policy = request.eviction_probability, cloud.policy
    if promised is None or policy.guarantee is Guarantee.NONE or len(cloud.classes) + more < MOST_CLASSES:
        return False
    return request.market is Market.SPOT and promised not in {policy.eviction_probability, *cloud.classes}


def is_owner_too_many(cloud: Cloud, request: StartRequest, more: int = 0) -> bool:
    """Return True if the start would add an owner beyond the cloud's limit once `more` have been added."""
    if len(cloud.owners) + more < MOST_OWNERS or request.market is Market.ON_DEMAND:
        return False
    return request.account is not None and request.account not in cloud.owners
