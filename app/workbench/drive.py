"""Drives a workload through a running service, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import cast

from app.domain.events.wire import value_of_wire, value_to_wire
from app.domain.inputs import InputError
from app.domain.names import node_name
from app.domain.progress import Progress
from app.domain.requests import StartRequest
from app.domain.times import seconds, to_datetime
from app.domain.values import Policy
from app.workbench.tally import DrivenScenario, Scenario, WorkloadTally
from app.workbench.workload import WorkloadStep, flavors, operations
from tenure_client import NotFound, PolicyChange, Resources, Start, Stop, TenureClient, json_of
from tenure_client.endpoints import EPOCHS_CROSSED
from tenure_client.forms.instances import BatchResult, StartAnswer


def drive(
    client: TenureClient, cloud: str, scenario: Scenario, batch: int, *, progress: Progress | None = None
) -> DrivenScenario:
    """Prepare the cloud, send every operation in order, count the answers.

    Each request carries `batch` operations; 1 sends each by itself. Starts and stops may be repeated, so a drive that
    was cut off can be run again: decisions that were made are answered as before.
    """
    began = perf_counter()
    _prepare(client, cloud, scenario)
    tally = WorkloadTally.of(scenario)
    steps = operations(scenario.workload)
    for done, (operation, decision) in enumerate(_answers(client, cloud, steps, batch)):
        _count(tally, operation, decision)
        if progress is not None:
            progress(done + 1, len(steps))
    return DrivenScenario(scenario, tally, None, perf_counter() - began)


def _prepare(client: TenureClient, cloud: str, scenario: Scenario) -> None:
    """Create the cloud with its nodes and flavors. Raises InputError if another cloud has its name."""
    try:
        there = client.cloud(cloud)
    except NotFound:
        there = client.create_cloud(cloud, cast(PolicyChange, value_to_wire(scenario.policy)))
    if value_of_wire(Policy, json_of(there.policy)) != scenario.policy:
        raise InputError(f"cloud {cloud!r} exists with another policy; give another name with --cloud")
    nodes = [(node_name(index), Resources(*capacity)) for index, capacity in enumerate(scenario.nodes)]
    for name, capacity in nodes:
        client.add_node(cloud, name, capacity)
    if [(node.name, Resources(**json_of(node.capacity))) for node in client.nodes(cloud)] != nodes:
        raise InputError(f"cloud {cloud!r} exists with other nodes; give another name with --cloud")
    for flavor, demand in flavors(scenario.workload).items():
        client.add_flavor(cloud, flavor, Resources(*demand))


def _answers(
    client: TenureClient, cloud: str, steps: Sequence[WorkloadStep], batch: int
) -> Iterator[tuple[WorkloadStep, StartAnswer | None]]:
    """Yield each operation with its answer."""
    if batch == 1:
        for step in steps:
            yield step, _answer(client, cloud, step)
        return
    for at in range(0, len(steps), batch):
        part = steps[at : at + batch]
        while part:
            decided = _decided(client.batch(cloud, [form_of(step) for step in part]).results)
            yield from zip(part, decided, strict=False)
            part = part[len(decided) :]


def _decided(results: Sequence[BatchResult]) -> list[StartAnswer | None]:
    """Return the answers up to the first operation that waits for another table; raise its error if it is the first."""
    decided: list[StartAnswer | None] = []
    for result in results:
        if result.error is not None:
            if decided and result.error.code == EPOCHS_CROSSED:
                break
            raise result.error
        decided.append(result.decision)
    return decided


def _answer(client: TenureClient, cloud: str, step: WorkloadStep) -> StartAnswer | None:
    form = form_of(step)
    if isinstance(form, Stop):
        client.stop(cloud, form.id, at=form.at)
        return None
    return client.start(
        cloud,
        form.id,
        form.market,
        form.flavor,
        lifetime_s=form.lifetime_s,
        eviction_probability=form.eviction_probability,
        at=form.at,
    )


def form_of(step: WorkloadStep) -> Start | Stop:
    """Return the operation in its wire form."""
    at = None if step.at_us is None else to_datetime(step.at_us)
    if not isinstance(step, StartRequest):
        return Stop(step.instance_id, at)
    lifetime_s = None if step.lifetime_us is None else seconds(step.lifetime_us)
    return Start(
        step.instance_id, step.market, step.flavor, lifetime_s, step.eviction_probability, at, count=step.count
    )


def _count(tally: WorkloadTally, operation: WorkloadStep, decision: StartAnswer | None) -> None:
    if isinstance(operation, StartRequest):
        assert decision is not None
        tally.started(operation, accepted=decision.accepted, victims=decision.victim_ids, epoch=decision.epoch)
    else:
        tally.stopped(operation.instance_id)
