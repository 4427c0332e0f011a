"""Looks at instances that want a longer lifetime, where requests bring the time.

On an external clock the looks that fall between the last event and a request are taken before the request is decided,
at their own times. So what they decide depends on the log and the table alone. On a system clock a worker takes them.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.admission.longest import decide_look
from app.admission.moments import is_ahead, is_external
from app.admission.quote import Quotes
from app.domain.events import Recorded
from app.domain.requests import ObserveRequest, Operation, StartRequest
from app.engine.cloud import Cloud

MOST_LOOKS = 256
"""The number of looks that one request waits for at most. What is left over comes with the next looks."""


def looks_before(
    cloud: Cloud, request: Operation, known: Mapping[str, Recorded], quotes: Quotes | None
) -> list[Recorded]:
    """Apply and return what comes of the looks that are due before a request, if it is one that moves the time."""
    at_us = request.at_us
    if not cloud.wants or at_us is None or not is_external(cloud) or at_us < cloud.at_us or is_ahead(cloud, at_us):
        return []
    return take_looks(cloud, at_us, quotes) if _moves(cloud, request, known) else []


def _moves(cloud: Cloud, request: Operation, known: Mapping[str, Recorded]) -> bool:
    """Return True if what a request asks for can be done, so that its time becomes the cloud's."""
    is_running = request.instance_id in cloud.running
    if isinstance(request, StartRequest):
        return request.instance_id not in known and request.flavor in cloud.flavors
    if isinstance(request, ObserveRequest) and not is_running:
        is_new, is_there = request.instance_id not in known, request.node in cloud.nodes
        return is_new and is_there and request.flavor in cloud.flavors
    return is_running


def are_looks_due(cloud: Cloud, at_us: int) -> bool:
    """Return True if looks are due before a change that brings this time."""
    return bool(cloud.wants) and is_external(cloud) and bool(cloud.looks_due(cloud.at_us, at_us))


def take_looks(cloud: Cloud, until_us: int, quotes: Quotes | None) -> list[Recorded]:
    """Apply and return what comes of the looks that are due until a time, in their order."""
    recorded: list[Recorded] = []
    after_us, taken = cloud.at_us, 0
    while taken < MOST_LOOKS and (due := cloud.looks_due(after_us, until_us)[: MOST_LOOKS - taken]):
        for look_us, want in due:
            event = decide_look(cloud, want, max(look_us, cloud.at_us), quotes)
            if event is not None:
                recorded.append(cloud.apply(event))
        taken += len(due)
        after_us = max(after_us, due[-1][0])
    return recorded
