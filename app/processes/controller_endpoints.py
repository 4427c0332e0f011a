"""The endpoints by which controllers tell what became of instances, with their handlers."""

from __future__ import annotations

from app.domain import errors
from app.domain.values import Role
from app.platform.http.serving import Served
from app.scheduling.http import instances
from app.scheduling.wire import moves as move_wire
from app.scheduling.wire import observed as observed_wire
from tenure_client import endpoints

_OWN_TIME = (errors.TimeUnexpected, errors.TimeBackwards, errors.TimeAhead, errors.TimeMissing)
_WRITE = (errors.LogContended, errors.Overloaded)

CONTROLLERS = (
    Served(
        endpoints.MOVE,
        instances.move_instance,
        role=Role.SERVICE,
        body=move_wire.MovedBody,
        errors=(
            *_OWN_TIME,
            *_WRITE,
            errors.NodeNotFound,
            errors.MoveOfEnded,
            errors.MoveOfGroup,
            errors.MoveToDrained,
            errors.MoveWithoutRoom,
            errors.FormatNotInForce,
        ),
        example={"node": "node-1"},
    ),
    Served(
        endpoints.OBSERVE_INSTANCE,
        instances.observe_instance,
        role=Role.SERVICE,
        body=observed_wire.ObservedBody,
        errors=(
            *_OWN_TIME,
            *_WRITE,
            errors.NodeNotFound,
            errors.FlavorNotFound,
            errors.InstanceConflict,
            errors.ObservedSpot,
            errors.TooManyInstances,
            errors.TooManyEvictions,
            errors.FormatNotInForce,
        ),
        example={"node": "node-1", "flavor": "small"},
    ),
    Served(
        endpoints.ABORT_INSTANCE,
        instances.abort_instance,
        role=Role.SERVICE,
        body=observed_wire.AbortedBody,
        errors=(*_OWN_TIME, *_WRITE, errors.FormatNotInForce),
        example={},
    ),
)
