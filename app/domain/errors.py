"""Everything that can go wrong with a request, as one tree.

    TenureError
    +-- NotFound: CloudNotFound, NodeNotFound, FlavorNotFound, InstanceNotFound, TableNotFound, RunNotFound,
    |             TokenNotFound, WebhookNotFound, HandoverNotFound
    +-- Conflict: CloudExists, NodeExists, FlavorExists, InstanceConflict, NodeNotEmpty, TokenExists,
    |             DrillImpossible, TooManyWebhooks, TooManyClasses, FormatNotInForce
    +-- Invalid: TimeMissing, TimeUnexpected, TimeBackwards, TimeAhead, LifetimeMissing, ProbabilityUnexpected,
    |            IdNotOwn, PolicyInvalid, MarkerInvalid, TimeRangeInvalid, WebhookRefused
    +-- Unavailable: LogUnavailable, LogContended, LogNewer, LogBroken, EpochsCrossed, Overloaded,
    |                TooManyStreams

`platform/http/errors.py` maps every leaf to its status and permanent code; a test keeps that table complete.
"""

from __future__ import annotations


class TenureError(Exception):
    """The root; its message is the detail that a caller reads."""


class NotFound(TenureError):
    """Something that the request names does not exist."""


class CloudNotFound(NotFound):
    """No cloud of that name."""

    @classmethod
    def named(cls, name: str) -> CloudNotFound:
        """Return the error of a cloud that is not there, or not for the caller: no answer tells which."""
        return cls(f"there is no cloud {name!r}")


class NodeNotFound(NotFound):
    """No node of that name in the cloud."""


class FlavorNotFound(NotFound):
    """No flavor of that name in the cloud."""


class InstanceNotFound(NotFound):
    """No start with that instance id was ever decided in the cloud."""


class TableNotFound(NotFound):
    """No quantile table of that epoch, or none yet."""


class RunNotFound(NotFound):
    """No recomputation of that id in the cloud."""


class TokenNotFound(NotFound):
    """No token of that id, or no live one of that name."""


class WebhookNotFound(NotFound):
    """No webhook of that id in the cloud."""


class HandoverNotFound(NotFound):
    """No eviction of that instance was ever decided in the cloud."""


class Conflict(TenureError):
    """The request contradicts what is already so."""


class CloudExists(Conflict):
    """A cloud of that name exists."""


class NodeExists(Conflict):
    """A node of that name exists with another capacity."""


class FlavorExists(Conflict):
    """A flavor of that name exists with another resource vector."""


class InstanceConflict(Conflict):
    """The instance id was used before with another body."""


class NodeNotEmpty(Conflict):
    """On-demand instances run on the node, so it cannot be removed."""


class TokenExists(Conflict):
    """A token of that name is in use."""


class DrillImpossible(Conflict):
    """There is no such running spot instance to evict in a drill."""


class TooManyWebhooks(Conflict):
    """The cloud has as many webhooks as it may have."""


class TooManyClasses(Conflict):
    """The cloud has promised as many eviction probabilities as it may; only those can be asked for."""


class FormatNotInForce(Conflict):
    """It would be written in a log format that older programs cannot read, and the upgrade is not finished."""


class Invalid(TenureError):
    """The request is well-formed but makes no sense for this cloud."""


class TimeMissing(Invalid):
    """The cloud has an external clock, so each request must carry its time."""


class TimeUnexpected(Invalid):
    """The cloud runs on the system clock, so a request may not carry a time."""


class TimeBackwards(Invalid):
    """The request's time lies before the last event of the cloud's log."""


class TimeAhead(Invalid):
    """The request's time lies further ahead of the cloud's log than one request may move an external clock."""


class IdNotOwn(Invalid):
    """Ids are not shared in this cloud: a caller's own begin with its token's name up to a dot, and a dot."""


class LifetimeMissing(Invalid):
    """A spot start must declare its lifetime."""


class ProbabilityUnexpected(Invalid):
    """An on-demand start carries no eviction probability: it is never evicted."""


class PolicyInvalid(Invalid):
    """The policy's values contradict each other."""


class MarkerInvalid(Invalid):
    """The paging marker names nothing in this list."""


class WebhookRefused(Invalid):
    """Nothing would be sent to that URL."""


class TimeRangeInvalid(Invalid):
    """The end of the time asked for is not after its begin."""


class Unavailable(TenureError):
    """The service cannot answer now; the same request may be sent again."""


class LogUnavailable(Unavailable):
    """The event log could not be read or written. A write may have been kept all the same: sent again, it tells."""


class LogContended(Unavailable):
    """Other writers were first too many times in a row."""


class EpochsCrossed(Unavailable):
    """The batch needs the tables of more than one epoch; from this operation on it was not decided. Send it again."""


class LogNewer(Unavailable):
    """The database, or the cloud's log in it, is for a newer version of this service."""


class LogBroken(Unavailable):
    """Events are missing within the cloud's log: an operator must put a backup back, or cut the log off."""


class Overloaded(Unavailable):
    """Too many requests wait for this cloud's log."""


class TooManyStreams(Unavailable):
    """As many event streams are open as this process, or this token, may have."""


class NoDatabase(Exception):
    """A command found no database of this service, or one of another version. No request meets it."""
