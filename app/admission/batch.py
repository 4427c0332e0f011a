"""Decides a batch of steps in order over a cloud's state. Pure, so it can be repeated after a conflict."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.admission.decide import accepted, decide_start, decide_stop
from app.admission.extend import (
    AskedBefore,
    decide_extension,
    decided_before,
    key_of,
)
from app.admission.kept import check_not_held, check_not_kept, is_kept, new_ids
from app.admission.limits import MOST_RUNNING, is_class_too_many, is_full, is_owner_too_many
from app.admission.looks import are_looks_due, looks_before, take_looks
from app.admission.moments import check_clock, is_ahead, is_external, time_of, time_of_change
from app.admission.move import check_runs, decide_move, is_there
from app.admission.observe import decide_abort, decide_observation, is_as_observed
from app.admission.outcomes import Change, Changed, Extended, Moved, Observed, Outcome, Started, Step, Stopped
from app.admission.plain import is_plain_start, runs_alone
from app.admission.quote import Quotes
from app.domain.errors import (
    ExtensionOfEnded,
    IdNotOwn,
    InstanceConflict,
    InstanceNotFound,
    TenureError,
    TimeBackwards,
    TooManyClasses,
    TooManyInstances,
    TooManyOwners,
)
from app.domain.events import (
    Event,
    ExtensionRejected,
    InstanceEvicted,
    InstanceExtended,
    InstanceMoved,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    Recorded,
    answers_request,
)
from app.domain.events.formats import LOG_FORMAT, in_format, is_whole_in, told_in
from app.domain.requests import (
    AbortRequest,
    ExtendRequest,
    MoveRequest,
    ObserveRequest,
    Operation,
    StartRequest,
    StopRequest,
)
from app.domain.values import Clock, Guarantee, Market
from app.engine.cloud import LEAST_RUN, LONGEST_RUN, Cloud

OWNERS_SINCE = 5
"""The log format that can say whose an instance is."""
EVENTS_AT_ONCE = 256
"""The number of events of one step that are applied together at most, so that other tasks get their turns."""
_RUN = (InstanceStarted, InstanceStopped)


@dataclass(slots=True)
class Batch:
    """The results so far: an outcome for each step, and the events for the log.

    `known` holds start decisions by id: those looked up (see `ids_to_look_up`) and those of this batch. `extended`
    holds the decisions on extensions (see `app.admission.extend`). No event may
    need a newer log format than `log_format`.
    """

    known: dict[str, Recorded]
    log_format: int = LOG_FORMAT
    extended: dict[AskedBefore, Recorded] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    recorded: list[Recorded] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    unapplied: deque[Event] = field(default_factory=deque)
    """The events of the step in hand that are decided but not applied: a step with very many is applied in slices."""
    outcome: Outcome | None = None
    """The outcome of the step in hand; None if its last event is."""
    reach: int = LONGEST_RUN
    """The number of steps that are worth trying to decide together. It is small where the cloud is full."""


def decide_batch(
    cloud: Cloud,
    steps: Sequence[Step],
    past: Mapping[str, Recorded],
    server_us: int,
    quotes: Quotes | None,
    waited_us: int = 0,
    extended: Mapping[AskedBefore, Recorded] | None = None,
) -> Batch:
    """Decide steps in order and apply their events, up to the first that needs a newer table than `quotes`."""
    batch = Batch(dict(past), extended=dict(extended or {}))
    while len(batch.outcomes) < len(steps) and decide_more(batch, cloud, steps, server_us, quotes, waited_us):
        pass
    return batch


def decide_more(
    batch: Batch, cloud: Cloud, steps: Sequence[Step], server_us: int, quotes: Quotes | None, waited_us: int = 0
) -> bool:
    """Decide the next of the steps, many together where they are plain, with the same outcomes as one by one.

    A step with very many events takes several calls. Return False, changing nothing, if the next one needs a newer
    table; see `decide_next`.
    """
    if batch.unapplied:
        _apply_some(batch, cloud)
        return True
    at = len(batch.outcomes)
    run = _plain_run(batch, cloud, steps[at : at + batch.reach]) if batch.reach >= LEAST_RUN else []
    if len(run) < LEAST_RUN:
        batch.reach += batch.reach < LEAST_RUN
        return decide_next(batch, cloud, steps[at], server_us, quotes, waited_us)
    done = _decide_run(batch, cloud, run, server_us)
    batch.reach = min(LONGEST_RUN, 2 * batch.reach) if done == len(run) else 0
    return done > 0 or decide_next(batch, cloud, steps[at], server_us, quotes, waited_us)


def _plain_run(batch: Batch, cloud: Cloud, steps: Sequence[Step]) -> list[Operation]:
    """Return the first steps that are all plain: on-demand starts of new instances, and stops of running ones.

    Nothing but the room decides on them. An instance occurs in a run with one start and one stop at most.
    """
    is_plain = not (cloud.handovers or is_external(cloud) or is_full(cloud, LONGEST_RUN))
    is_plain = is_plain and all(is_whole_in(one, batch.log_format) for one in _RUN)
    run: list[Operation] = []
    started: set[str] = set()
    stopped: set[str] = set()
    for step in steps if is_plain else ():
        if not isinstance(step, StartRequest | StopRequest) or step.at_us is not None or not _is_own(cloud, step):
            break
        name = step.instance_id
        if isinstance(step, StopRequest):
            if name in stopped or not (name in started or runs_alone(cloud, name)):
                break
            stopped.add(name)
        else:
            if name in started or name in batch.known or is_kept(cloud, name) or not is_plain_start(cloud, step):
                break
            started.add(name)
        run.append(step)
    return run


def _decide_run(batch: Batch, cloud: Cloud, run: Sequence[Operation], server_us: int) -> int:
    """Decide the run up to the first start that fits nowhere, apply its events, and return how many were decided."""
    at_us, nodes = time_of(cloud, None, server_us), cloud.place_run(run)
    if not nodes:
        return 0
    recorded = cloud.apply_run(
        [
            accepted(cloud, step, at_us, (node,), None, ())
            if isinstance(step, StartRequest)
            else InstanceStopped(at_us=at_us, instance_id=step.instance_id)
            for step, node in zip(run, nodes, strict=False)
        ]
    )
    batch.recorded += recorded
    for step, item in zip(run, recorded, strict=False):
        if isinstance(step, StartRequest):
            batch.outcomes.append(_started(item, batch.known))
        else:
            batch.ended.add(step.instance_id)
            batch.outcomes.append(Stopped(step.instance_id, changed=True))
    return len(recorded)


def decide_next(
    batch: Batch, cloud: Cloud, step: Step, server_us: int, quotes: Quotes | None, waited_us: int = 0
) -> bool:
    """Decide one more step and apply its events, or the first of them if they are very many.

    Return False, changing nothing, if it needs a newer table than `quotes`.
    A table due at `waited_us` or earlier is no longer waited for, because the caller has waited long enough. A step
    that is invalid gets an error as its outcome and changes nothing.
    """
    if not isinstance(step, Change) and not _is_own(cloud, step):
        batch.outcomes.append(IdNotOwn(f"ids are not shared in this cloud: yours begin with {step.owner!r} and a dot"))
        return True
    if isinstance(step, Change):
        batch.recorded += _looks_before_change(batch, cloud, step, server_us, quotes)
    else:
        batch.recorded += looks_before(cloud, step, batch.known, quotes)
    if _is_new(batch, cloud, step) and (due_table_us(cloud, step, quotes) or 0) > waited_us:
        return False
    if isinstance(step, StopRequest | AbortRequest) and step.instance_id in batch.ended:
        batch.outcomes.append(Stopped(step.instance_id, changed=False))
        return True
    try:
        outcome, decided = _decide(batch, cloud, step, server_us, quotes)
        events = [told_in(event, batch.log_format) for event in decided]
        for event in events:
            in_format(event, batch.log_format)
    except TenureError as error:
        batch.outcomes.append(error)
        return True
    batch.outcome, batch.unapplied = outcome, deque(events)
    _apply_some(batch, cloud)
    return True


def _apply_some(batch: Batch, cloud: Cloud) -> None:
    """Apply the next events of the step in hand, and enter its outcome after the last of them."""
    for _ in range(min(EVENTS_AT_ONCE, len(batch.unapplied))):
        event = batch.unapplied.popleft()
        batch.recorded.append(cloud.apply(event))
        if isinstance(event, InstanceEvicted | InstanceStopped):
            batch.ended.add(event.instance_id)
        elif isinstance(batch.outcome, Changed | Observed) and isinstance(event, InstanceStarted):
            batch.known[event.instance_id] = batch.recorded[-1]
    if not batch.unapplied:
        batch.outcomes.append(_outcome_of(batch, batch.recorded[-1]) if batch.outcome is None else batch.outcome)


def _is_new(batch: Batch, cloud: Cloud, step: Step) -> bool:
    """Return True for a start or an extension that has to be decided."""
    if isinstance(step, StartRequest):
        return step.instance_id not in batch.known
    if not isinstance(step, ExtendRequest) or decided_before(step, batch.extended) is not None:
        return False
    running = cloud.running.get(step.instance_id)
    return running is not None and running.probability is not None and step.lifetime_us > (running.lifetime_us or 0)


def _outcome_of(batch: Batch, recorded: Recorded) -> Outcome:
    """Return the answer to the start, the extension or the move that this event decides."""
    event = recorded.event
    if isinstance(event, InstanceExtended | ExtensionRejected):
        batch.extended[key_of(event)] = recorded
        return Extended(event, recorded.seq, repeated=False)
    if isinstance(event, InstanceMoved):
        return Moved(event.instance_id, event.node, (event, recorded.seq))
    return _started(recorded, batch.known)


def due_table_us(cloud: Cloud, step: Step, quotes: Quotes | None) -> int | None:
    """Return the due time of the table that a spot start or an extension waits for on an external clock, or None."""
    policy = cloud.policy
    reads_table = isinstance(step, ExtendRequest) or (isinstance(step, StartRequest) and step.market is Market.SPOT)
    if not reads_table or step.at_us is None:
        return None
    if policy.clock is not Clock.EXTERNAL or policy.guarantee is Guarantee.NONE:
        return None
    if step.at_us < max(cloud.at_us, cloud.created_us + policy.warm_up_us) or is_ahead(cloud, step.at_us):
        return None
    due_us = policy.due_epoch_us(step.at_us)
    return None if quotes is not None and quotes.epoch_us >= due_us else due_us


def _decide(
    batch: Batch, cloud: Cloud, step: Step, server_us: int, quotes: Quotes | None
) -> tuple[Outcome | None, Sequence[Event]]:
    """Return the step's events and its outcome; None if the last event is the outcome."""
    if isinstance(step, ExtendRequest):
        return _decide_extension(batch, cloud, step, server_us, quotes)
    if isinstance(step, MoveRequest):
        check_runs(cloud, step, ran=step.instance_id in batch.known or step.instance_id in batch.ended)
        if is_there(cloud, step):
            check_clock(cloud, step.at_us)
            return Moved(step.instance_id, step.node, None), ()
        return None, decide_move(cloud, step, time_of(cloud, step.at_us, server_us))
    if isinstance(step, ObserveRequest):
        return _decide_observation(batch, cloud, step, server_us)
    if isinstance(step, Change):
        return _decide_change(batch, cloud, step, server_us)
    if isinstance(step, AbortRequest):
        return _decide_abort(batch, cloud, step, server_us)
    known = batch.known
    if step.instance_id in known:
        return _decide_again(cloud, step, known[step.instance_id], server_us)
    at_us = time_of(cloud, step.at_us, server_us)
    if isinstance(step, StartRequest):
        check_not_kept(cloud, step.instance_id)
        if is_class_too_many(cloud, step):
            raise TooManyClasses(f"{len(cloud.classes)} eviction probabilities are promised here: ask for one of them")
        if is_full(cloud, step.count):
            raise _too_many(cloud)
        # An older format cannot say whose an instance is, so its owner has no quota.
        told = step if batch.log_format >= OWNERS_SINCE else replace(step, owner=None)
        if is_owner_too_many(cloud, told):
            raise TooManyOwners(f"{len(cloud.owners)} owners are counted here, as many as may be")
        return None, decide_start(cloud, told, at_us, quotes)
    if step.instance_id not in cloud.running:
        raise InstanceNotFound(f"there is no instance {step.instance_id!r}")
    check_not_held(cloud, step.instance_id)
    return Stopped(step.instance_id, changed=True), decide_stop(cloud, step.instance_id, at_us)


def _decide_change(batch: Batch, cloud: Cloud, step: Change, server_us: int) -> tuple[Outcome, Sequence[Event]]:
    if step.at_us is None and is_external(cloud):
        at_us = cloud.at_us
    else:
        try:
            at_us = time_of_change(cloud, step.at_us, server_us, jump=step.jump)
        except TimeBackwards:
            if step.decide(cloud, cloud.at_us):
                raise
            return Changed(()), ()  # nothing is to be written, as for a request that is repeated late
    events = tuple(step.decide(cloud, at_us))
    taken = next((name for name in new_ids(events) if name in batch.known), None)
    if taken is not None:
        raise InstanceConflict(f"instance {taken!r} was requested before")
    return Changed(events), events


def _looks_before_change(
    batch: Batch, cloud: Cloud, step: Change, server_us: int, quotes: Quotes | None
) -> list[Recorded]:
    """Apply and return what comes of the looks that are due before a change, if it is one that moves the time.

    A jump passes over none of them either.
    """
    if step.at_us is None or not are_looks_due(cloud, step.at_us):
        return []
    try:
        _, events = _decide_change(batch, cloud, step, server_us)
    except TenureError:
        return []
    return take_looks(cloud, step.at_us, quotes) if events else []


def _decide_observation(
    batch: Batch, cloud: Cloud, step: ObserveRequest, server_us: int
) -> tuple[Outcome, Sequence[Event]]:
    ran = step.instance_id in batch.known or step.instance_id in batch.ended
    if is_as_observed(cloud, step, ran=ran):
        check_clock(cloud, step.at_us)
        return Observed(step.instance_id), ()
    if is_full(cloud, 1):
        raise _too_many(cloud)
    events = tuple(decide_observation(cloud, step, time_of(cloud, step.at_us, server_us)))
    return Observed(step.instance_id, events, cloud.seq + len(events)), events


def _decide_abort(batch: Batch, cloud: Cloud, step: AbortRequest, server_us: int) -> tuple[Outcome, Sequence[Event]]:
    if step.instance_id not in cloud.running and step.instance_id not in batch.known:
        raise InstanceNotFound(f"there is no instance {step.instance_id!r}")
    if step.instance_id not in cloud.running:
        return Stopped(step.instance_id, changed=False), ()
    check_not_held(cloud, step.instance_id)
    at_us = time_of(cloud, step.at_us, server_us)
    return Stopped(step.instance_id, changed=True), decide_abort(cloud, step.instance_id, at_us)


def _too_many(cloud: Cloud) -> TooManyInstances:
    return TooManyInstances(f"{cloud.machine_count} instances run here, and {MOST_RUNNING} may: stop some")


def _decide_extension(
    batch: Batch, cloud: Cloud, step: ExtendRequest, server_us: int, quotes: Quotes | None
) -> tuple[Outcome | None, Sequence[Event]]:
    earlier = decided_before(step, batch.extended)
    if earlier is not None:
        assert isinstance(earlier.event, InstanceExtended | ExtensionRejected)
        return Extended(earlier.event, earlier.seq, repeated=True), ()
    if step.instance_id not in cloud.running:
        if step.instance_id in batch.known or step.instance_id in batch.ended:
            raise ExtensionOfEnded(f"instance {step.instance_id!r} does not run")
        raise InstanceNotFound(f"there is no instance {step.instance_id!r}")
    return None, decide_extension(cloud, step, time_of(cloud, step.at_us, server_us), quotes)


def _decide_again(
    cloud: Cloud, step: StartRequest | StopRequest, earlier: Recorded, server_us: int
) -> tuple[Outcome, Sequence[Event]]:
    """Decide a step on an instance whose start was decided before."""
    if isinstance(step, StartRequest):
        decision = earlier.event
        assert isinstance(decision, InstanceStarted | InstanceRejected)
        if not answers_request(decision, step, external=is_external(cloud)):
            raise InstanceConflict(f"instance {step.instance_id!r} was requested before with another body")
        return Started(decision, earlier.seq, repeated=True), ()
    if step.instance_id not in cloud.running:
        return Stopped(step.instance_id, changed=False), ()
    at_us = time_of(cloud, step.at_us, server_us)
    check_not_held(cloud, step.instance_id)
    return Stopped(step.instance_id, changed=True), decide_stop(cloud, step.instance_id, at_us)


def _started(recorded: Recorded, known: dict[str, Recorded]) -> Started:
    decision = recorded.event
    assert isinstance(decision, InstanceStarted | InstanceRejected)
    known[decision.instance_id] = recorded
    return Started(decision, recorded.seq, repeated=False)


def _is_own(cloud: Cloud, request: Operation) -> bool:
    """Return True if the caller may use this instance id."""
    owner = request.owner
    return owner is None or cloud.policy.shared_ids or request.instance_id.startswith(f"{owner}.")
