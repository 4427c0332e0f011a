"""Handlers for starts, stops, batches of both, and records of instances."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from app.admission.outcomes import Changed, Extended, Moved, Observed, Outcome, Started
from app.domain.errors import TenureError
from app.domain.events import InstanceRejected
from app.domain.requests import (
    AbortRequest,
    ExtendRequest,
    MoveRequest,
    ObserveRequest,
    Operation,
    StartRequest,
    StopRequest,
)
from app.domain.times import to_datetime
from app.domain.values import InstanceStatus, Role
from app.platform.http.auth import caller_of, granted_to, owner_of, project_of
from app.platform.http.bodies import read_body, read_query
from app.platform.http.errors import Forbidden, entries_of
from app.platform.http.long_lists import first_answers, marker_after
from app.platform.http.page_forms import next_link
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from app.platform.turns import Turns
from app.scheduling.elsewhere import Elsewhere
from app.scheduling.http.batches import FEW, read_batch
from app.scheduling.log_reads import LogReads
from app.scheduling.novas import NovaClouds
from app.scheduling.owners import is_owner_name
from app.scheduling.scheduler import Scheduler
from app.scheduling.wire.instances import (
    DrillBody,
    DrillQuery,
    ExtensionBody,
    ExtensionQuery,
    InstancesQuery,
    extension_answer,
    instance_answer,
    start_answer,
)
from app.scheduling.wire.moves import MovedBody, move_answer
from app.scheduling.wire.nodes import AtQuery
from app.scheduling.wire.observed import AbortedBody, ObservedBody, observation_answer
from app.scheduling.wire.single import SingleStartBody
from tenure_client.forms.instances import BatchAnswer, BatchResult, DrillAnswer, InstancesAnswer

_STOPPED = BatchResult(status=204)


async def start_instance(request: Request) -> Response:
    """Decide a start. A rejection is a decision too, and answered 201 like an acceptance.

    A rejected spot start that other clouds may run (`federate`) is submitted as a job of the same id, for peers only.

    Repeating the request with the same id and body returns the same answer; the same id with another body is a
    conflict.
    """
    body = await read_body(request, SingleStartBody)
    cloud, asked = request.path_params["cloud"], _of_project(request, body)
    elsewhere = reached(request, Elsewhere) if body.may_run_elsewhere else None
    if elsewhere is not None:
        await elsewhere.check(cloud)
    started = await reached(request, Scheduler).start(cloud, asked)
    is_refused = isinstance(started.decision, InstanceRejected)
    job = await elsewhere.ask(cloud, asked) if elsewhere is not None and is_refused else None
    location = f"/v1/clouds/{cloud}/instances/{body.instance_id}"
    answer = start_answer(started.decision, started.seq, job)
    if project_of(request) is not None:
        answer.victims = []
    return respond(answer, 201, {"Location": location})


def _of_project(request: Request, body: SingleStartBody) -> StartRequest:
    """Return the start; of a caller of one project it is for that one, and runs nowhere else.

    Raises Forbidden if it says otherwise.
    """
    project, asked = project_of(request), _counted(request, body.request(owner_of(request)))
    if project is None:
        return asked
    if asked.project not in (None, project):
        raise Forbidden(f"the token is for the project {project}, and the start for another one")
    if body.may_run_elsewhere:
        raise Forbidden("jobs are not of one project: this needs the role member")
    _check_not_novas(request)
    return replace(asked, project=project)


def _counted(request: Request, asked: StartRequest) -> StartRequest:
    """Return the start; what a controller asks for a project counts for that project, if an owner can have its name."""
    is_named = asked.project is not None and is_owner_name(asked.project)
    return replace(asked, for_project=True) if is_named and caller_of(request).role == Role.SERVICE else asked


async def stop_instance(request: Request) -> Response:
    """Stop an instance. Nothing happens if it has ended already."""
    at_us = read_query(request, AtQuery).at_us if request.scope["query_string"] else None
    path = request.path_params
    await check_own(request, path["instance"])
    _check_not_novas(request)
    await reached(request, Scheduler).stop(path["cloud"], StopRequest(path["instance"], at_us, owner_of(request)))
    return Response(status_code=204)


def _check_not_novas(request: Request) -> None:
    """Raise Forbidden where a caller of one project has to ask Nova for its servers instead."""
    cloud = request.path_params["cloud"]
    if project_of(request) is not None and cloud in reached(request, NovaClouds).names:
        raise Forbidden(f"instances of {cloud} are servers of Nova: create and delete them there")


async def extend_instance(request: Request) -> Response:
    """Promise a running spot instance a longer lifetime, counted from its start, or refuse and change nothing.

    The instance keeps the eviction probability of its start. The rest of the new lifetime is judged by what would be
    evicted before it. A refusal is a decision too, and answered like an acceptance. A repeated request for a lifetime
    that was accepted has the same answer; one that was refused is decided anew, unless it brings the same time.
    """
    body, path = await read_body(request, ExtensionBody), request.path_params
    await check_own(request, path["spot"])
    asked = ExtendRequest(path["spot"], body.lifetime_us, body.at_us, owner_of(request))
    extended = await reached(request, Scheduler).extend(path["cloud"], asked)
    return respond(extension_answer(extended.decision, extended.seq))


async def quote_extension(request: Request) -> Response:
    """Tell what an extension to this lifetime would be answered now. Nothing is reserved or recorded."""
    query, path = read_query(request, ExtensionQuery), request.path_params
    await check_own(request, path["spot"])
    asked = ExtendRequest(path["spot"], query.lifetime_us)
    return respond(extension_answer(await reached(request, Scheduler).extension_quote(path["cloud"], asked), None))


async def move_instance(request: Request) -> Response:
    """Record that a running instance runs on another node now: its controller has moved it.

    It keeps its promise, its age and its rank among those that may be evicted. Saying again where it runs changes
    nothing. A group does not move.
    """
    body, path = await read_body(request, MovedBody), request.path_params
    asked = MoveRequest(path["instance"], body.node, body.at_us)
    return respond(move_answer(await reached(request, Scheduler).move(path["cloud"], asked)))


async def observe_instance(request: Request) -> Response:
    """Record that an on-demand instance runs on a node, with a flavor, whatever was known of it.

    If it was not known, it is started there; if it ran elsewhere or was smaller or larger, it is so no more. Spot
    instances on that node make room for it, the youngest first. If they are not enough, the node's capacity is raised
    to what its on-demand instances use. What is known already changes nothing.
    """
    body, path = await read_body(request, ObservedBody), request.path_params
    asked = ObserveRequest(path["instance"], body.flavor, body.node, body.at_us, body.project, body.user)
    return respond(observation_answer(await reached(request, Scheduler).observe(path["cloud"], asked)))


async def abort_instance(request: Request) -> Response:
    """Record that an instance which was accepted never ran, so it does not count as admitted.

    Nothing happens if it has ended already. One that ran is stopped, not aborted.
    """
    body, path = await read_body(request, AbortedBody), request.path_params
    await reached(request, Scheduler).abort(path["cloud"], AbortRequest(path["instance"], body.at_us))
    return Response(status_code=204)


async def run_batch(request: Request) -> Response:
    """Decide up to 1000 starts, stops, extensions, moves, observations and aborts in order, in one transaction.

    Each has its own status.

    If they have more than 5000 events together, or take long while others wait, the rest follows in further
    transactions, whole operations in each, and what others asked for may be decided in between.

    If the body is invalid anywhere, nothing is decided. On an external clock a batch waits for a table only before it
    has written anything. If an operation after that needs one, this and all further ones are not decided and say so
    (`preemptible.batch.epochs_crossed`): send them again.
    """
    read = await read_batch(request, owner_of(request))
    operations = [_counted(request, one) if isinstance(one, StartRequest) and one.project else one for one in read]
    _check_may_tell(request, operations)
    outcomes = await reached(request, Scheduler).batch(request.path_params["cloud"], operations)
    request_id = request.scope["state"]["request_id"]
    with Turns() as turns:
        if len(outcomes) > FEW:
            await turns.give()
        results = []
        for outcome in outcomes:
            results.append(_result(request_id, outcome))
            if turns.is_due():
                await turns.give()
        return respond(BatchAnswer(results=results))


async def run_drill(request: Request) -> Response:
    """Evict one spot instance as a test of everything that follows an eviction.

    It is treated like every eviction and marked as a drill. The SLA counts it like a stop, and forecasts do not learn
    from it. Each request evicts another instance, unless it names one.
    """
    body = await read_body(request, DrillBody)
    evicted = await reached(request, Scheduler).drill(request.path_params["cloud"], body.instance_id, body.at_us)
    return respond(DrillAnswer(id=evicted.instance_id, seq=evicted.cause_seq, at=to_datetime(evicted.at_us)))


async def show_drill_victim(request: Request) -> Response:
    """Show the instance that a drill would evict now. Nothing is changed, so the answer may be outdated afterwards.

    Name its id in the drill to evict this instance and no other.
    """
    query, name = read_query(request, DrillQuery), request.path_params["cloud"]
    victim = await reached(request, Scheduler).drill_victim(name, query.instance_id)
    return respond(instance_answer(await reached(request, LogReads).instance(name, victim)))


async def list_instances(request: Request) -> Response:
    """List instances in the order of their starts, including rejected ones.

    To callers of one project the instances of others do not exist: their list of another project is empty.
    """
    query = read_query(request, InstancesQuery)
    name, project = request.path_params["cloud"], _listed_project(project_of(request), query.project)
    if query.status is InstanceStatus.RUNNING and project is None:
        state = partial(reached(request, Scheduler).state, name)
        page = await reached(request, LogReads).running(name, state, query.marker, query.limit, query.market)
    else:
        asked = query.marker, query.limit, query.market, query.status
        page = await reached(request, LogReads).instances(name, *asked, project)
    answers = await first_answers(page.items, instance_answer)
    marker = marker_after(page.items, len(answers), lambda record: record.decision.instance_id, page.marker)
    return respond(InstancesAnswer(instances=answers, links=next_link(request, marker)))


def _listed_project(own: str | None, asked: str | None) -> str | None:
    """Return the project whose instances are listed; None: all. No instance is for the one without a name."""
    if own is None:
        return asked
    return own if asked in (None, own) else ""


async def show_instance(request: Request) -> Response:
    """Show the decision on an instance's start, and its end."""
    path, project = request.path_params, project_of(request)
    return respond(instance_answer(await reached(request, LogReads).instance(path["cloud"], path["instance"], project)))


async def check_own(request: Request, instance: str) -> None:
    """Raise InstanceNotFound if the caller may only see instances of another project. No others cost a query."""
    project = project_of(request)
    if project is not None:
        await reached(request, LogReads).instance(request.path_params["cloud"], instance, project)


def _result(request_id: str, outcome: Outcome) -> BatchResult:
    if isinstance(outcome, TenureError):
        entries = entries_of(request_id, outcome)
        return BatchResult(status=entries[0].status, errors=entries)
    if isinstance(outcome, Started):
        return BatchResult(status=201, body=start_answer(outcome.decision, outcome.seq))
    if isinstance(outcome, Extended):
        return BatchResult(status=200, extension=extension_answer(outcome.decision, outcome.seq))
    if isinstance(outcome, Moved):
        return BatchResult(status=200, move=move_answer(outcome))
    if isinstance(outcome, Observed):
        return BatchResult(status=200, observation=observation_answer(outcome))
    assert not isinstance(outcome, Changed)
    return _STOPPED


def _check_may_tell(request: Request, operations: Iterable[Operation]) -> None:
    """Raise Forbidden if the caller may not say what became of instances, and does."""
    told = {type(one) for one in operations} & _TOLD.keys()
    if told and Role.SERVICE not in granted_to(caller_of(request).role):
        raise Forbidden(f"{_TOLD[told.pop()]} takes the role {Role.SERVICE.value}")


_TOLD = {MoveRequest: "a move", ObserveRequest: "an observation", AbortRequest: "an abort"}
"""The operations that controllers alone may send."""
