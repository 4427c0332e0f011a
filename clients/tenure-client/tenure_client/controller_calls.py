"""Calls of controllers, which move, stop and checkpoint instances, described like those in `calls`."""

from __future__ import annotations

from datetime import datetime

from tenure_client import endpoints
from tenure_client.calls import PAGE, seconds_text
from tenure_client.endpoints import Call, Listing
from tenure_client.forms.advice import CheckpointAdviceAnswer
from tenure_client.forms.answer import Json
from tenure_client.forms.instances import HandoverAnswer, MoveAnswer, ObservationAnswer, ProposalsAnswer
from tenure_client.forms.nodes import ResizeAnswer


def move(cloud: str, instance: str, node: str, *, at: datetime | None = None) -> Call[MoveAnswer]:
    """Say that a running instance, which is no group, runs on this node now. Repeating the call changes nothing."""
    return endpoints.MOVE.call(body={"node": node, "at": at}, cloud=cloud, instance=instance)


def observe_instance(
    cloud: str,
    instance: str,
    node: str,
    flavor: str,
    *,
    project: str | None = None,
    user: str | None = None,
    at: datetime | None = None,
) -> Call[ObservationAnswer]:
    """Say that an on-demand instance runs on this node with this flavor, whatever was known of it.

    It is started, moved or resized in the log. Spot instances on the node make room for it. What is known changes
    nothing.
    """
    body = {"node": node, "flavor": flavor, "project": project, "user": user, "at": at}
    return endpoints.OBSERVE_INSTANCE.call(body=body, cloud=cloud, instance=instance)


def abort_instance(cloud: str, instance: str, *, at: datetime | None = None) -> Call[None]:
    """Say that an instance which was accepted never ran, so it does not count as admitted."""
    return endpoints.ABORT_INSTANCE.call(body={"at": at}, cloud=cloud, instance=instance)


def resize_node(
    cloud: str,
    node: str,
    cores: int,
    memory_mib: int | None = None,
    disk_gib: int | None = None,
    *,
    at: datetime | None = None,
) -> Call[ResizeAnswer]:
    """Let a node have another capacity. None leaves memory or disk as it is, and 0 does not count it any more.

    Spot instances that do not fit in it are evicted.
    """
    body = {"cores": cores, "memory_mib": memory_mib, "disk_gib": disk_gib, "at": at}
    return endpoints.RESIZE_NODE.call(body=body, cloud=cloud, node=node)


def proposals(cloud: str) -> Call[ProposalsAnswer]:
    """Ask for moves after which the next on-demand starts would evict nobody. Nothing is changed."""
    return endpoints.PROPOSALS.call(cloud=cloud)


def handovers(cloud: str, *, limit: int = PAGE, marker: str | None = None) -> Listing[HandoverAnswer]:
    """List evictions that no controller has confirmed, by deadline."""
    query = {"limit": limit, "marker": marker}
    return Listing(endpoints.HANDOVERS.call(query=query, cloud=cloud), lambda page: page.handovers)


def confirm_handover(cloud: str, instance: str, *, at: datetime | None = None) -> Call[None]:
    """Confirm that an evicted instance is stopped. Repeating the call changes nothing."""
    return endpoints.CONFIRM_HANDOVER.call(query={"at": at}, cloud=cloud, handover=instance)


def checkpoint_advice(
    cloud: str,
    instance: str,
    pause_s: float,
    *,
    write_s: float | None = None,
    restore_s: float | None = None,
    at_risk_s: float | None = None,
    loss_every_s: float | None = None,
) -> Call[CheckpointAdviceAnswer]:
    """Ask when a job on a running spot instance should be checkpointed.

    A checkpoint stops the job for `pause_s` and counts after `write_s` (by default the same); loading it takes
    `restore_s`. `at_risk_s` is the work since the last checkpoint, by default all since the start. `loss_every_s` is
    the mean time between losses of a machine without notice, by default none.
    """
    query = _lengths(pause_s, write_s, restore_s, at_risk_s, loss_every_s)
    return endpoints.CHECKPOINT_ADVICE.call(query=query, cloud=cloud, spot=instance)


def flavor_checkpoint_advice(
    cloud: str,
    flavor: str,
    lifetime_s: float,
    pause_s: float,
    *,
    age_s: float = 0.0,
    write_s: float | None = None,
    restore_s: float | None = None,
    at_risk_s: float | None = None,
    loss_every_s: float | None = None,
) -> Call[CheckpointAdviceAnswer]:
    """Ask the same of a spot instance of a flavor that has run for `age_s` of its lifetime, whether or not one runs."""
    query = _lengths(pause_s, write_s, restore_s, at_risk_s, loss_every_s)
    query |= {"flavor": flavor, "lifetime_s": seconds_text(lifetime_s), "age_s": seconds_text(age_s)}
    return endpoints.FLAVOR_CHECKPOINT_ADVICE.call(query=query, cloud=cloud)


def _lengths(
    pause_s: float,
    write_s: float | None,
    restore_s: float | None,
    at_risk_s: float | None,
    loss_every_s: float | None,
) -> Json:
    lengths = {
        "pause_s": pause_s,
        "write_s": write_s,
        "restore_s": restore_s,
        "at_risk_s": at_risk_s,
        "loss_every_s": loss_every_s,
    }
    return {name: None if value is None else seconds_text(value) for name, value in lengths.items()}
