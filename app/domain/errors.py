"""The tree of all errors that a request can meet. `platform/http/errors.py` maps each leaf to its status and code."""

from __future__ import annotations


class TenureError(Exception):
    """The root of the tree. Its message is the detail that a caller reads."""


class NotFound(TenureError):
    """Something that the request names does not exist."""


class CloudNotFound(NotFound):
    """No cloud of that name."""

    @classmethod
    def named(cls, name: str) -> CloudNotFound:
        """Return the error of a cloud that does not exist or is hidden from the caller; both read the same."""
        return cls(f"there is no cloud {name!r}")


class NodeNotFound(NotFound):
    """No node of that name in the cloud."""


class FlavorNotFound(NotFound):
    """No flavor of that name in the cloud."""


class InstanceNotFound(NotFound):
    """No start with that instance id was ever decided in the cloud."""


class TableNotFound(NotFound):
    """The cloud has no quantile table of that epoch, or none yet."""


class RunNotFound(NotFound):
    """No recomputation of that id in the cloud."""


class TokenNotFound(NotFound):
    """There is no token of that id, or no valid one of that name."""


class OwnerNotFound(NotFound):
    """No owner can have that name: it is what tokens' names have up to their first dot."""


class WebhookNotFound(NotFound):
    """No webhook of that id in the cloud."""


class VenueNotFound(NotFound):
    """No venue of that name."""


class PoolNotFound(NotFound):
    """The venue has no such pool."""


class ClusterNotFound(NotFound):
    """No cluster of that name."""


class PlanNotFound(NotFound):
    """No plan of that id."""


class PlannedJobNotFound(NotFound):
    """No job of that id in the plan."""


class HandoverNotFound(NotFound):
    """No eviction of that instance was ever decided in the cloud."""


class PeerNotFound(NotFound):
    """No peer of that name."""


class OfferNotFound(NotFound):
    """No such attempt was offered by the peer whose token is shown."""


class NotAPeer(NotFound):
    """The token is of the role peer, and no peer is entered here by its name."""


class JobNotFound(NotFound):
    """No job of that id was submitted to the cloud."""


class Conflict(TenureError):
    """The request contradicts the present state."""


class CloudExists(Conflict):
    """A cloud of that name exists."""


class NodeExists(Conflict):
    """A node of that name exists with another capacity."""


class FlavorExists(Conflict):
    """A flavor of that name exists with another resource vector."""


class InstanceConflict(Conflict):
    """The instance id was used before with another body, or is kept for a job of a peer."""


class PeerExists(Conflict):
    """A peer of that name exists, or there are as many as may be."""


class OfferConflict(Conflict):
    """The attempt was offered or awarded before with another body, or has not ended yet."""


class DataUnavailable(Conflict):
    """The job's inputs are not in the cloud's object store as they were declared, or there is no such store."""


class JobConflict(Conflict):
    """The job's id was used before with another body."""


class NodeNotEmpty(Conflict):
    """On-demand instances run on the node, so it cannot be removed."""


class ExtensionOfOnDemand(Conflict):
    """On-demand instances are never evicted, so there is no promise to extend."""


class ExtensionOfEnded(Conflict):
    """The instance does not run: it was rejected, or it has ended."""


class ExtensionTooLate(Conflict):
    """The instance has run past its declared lifetime, or is held room: there is no promise that could be extended."""


class ExtensionNotLonger(Conflict):
    """The lifetime is not longer than the one that the instance has."""


class PricesStale(Conflict):
    """The newest price is too old to quote from."""


class HistoryTooShort(Conflict):
    """There are no prices as old as the request needs."""


class PlanConflict(Conflict):
    """The plan's id was used before with another body."""


class PlanInfeasible(Conflict):
    """No plan meets a deadline, or keeps within the budget."""


class OutcomeConflict(Conflict):
    """Another outcome was told of the job before."""


class TokenExists(Conflict):
    """A token of that name is in use."""


class DrillImpossible(Conflict):
    """There is no such running spot instance to evict in a drill."""


class AdviceImpossible(Conflict):
    """No eviction is forecast for the instance: it is not a running spot instance within its declared lifetime."""


class MoveOfEnded(Conflict):
    """The instance does not run, so it runs on no other node either."""


class MoveOfGroup(Conflict):
    """The members of a group are placed as a whole, and none of them moves by itself."""


class MoveToDrained(Conflict):
    """The node takes no more placements."""


class MoveWithoutRoom(Conflict):
    """The node has no room for the instance."""


class ObservedSpot(Conflict):
    """The instance is a spot instance, or was one; only on-demand instances are observed."""


class NodeTooSmall(Conflict):
    """The on-demand instances on the node use more than the capacity that it is to have."""


class TooManyWebhooks(Conflict):
    """The cloud has the largest number of webhooks allowed."""


class TooManyClasses(Conflict):
    """The cloud has promised the largest number of distinct eviction probabilities allowed; ask for one of those."""


class TooManyInstances(Conflict):
    """The cloud runs the largest number of instances allowed; stop some."""


class TooManyJobs(Conflict):
    """The jobs of the cloud that have not ended are as many, or have as much data, as may be; cancel some."""


class TooManyEvictions(Conflict):
    """One request would evict too many instances, or too many evictions are unconfirmed; stop or confirm some."""


class TooManyOwners(Conflict):
    """The cloud has the largest number of owners allowed; one is forgotten weeks after its last spot instance ended."""


class TooManyQuotas(Conflict):
    """The largest number of owners of the cloud have quotas of their own."""


class TooManyClusters(Conflict):
    """The service keeps the largest number of clusters allowed; delete some."""


class TooManyNodes(Conflict):
    """The cloud has the largest number of nodes allowed."""


class TooManyFlavors(Conflict):
    """The cloud has the largest number of flavors allowed."""


class TooManyPools(Conflict):
    """The venue has the largest number of pools allowed."""


class FormatNotInForce(Conflict):
    """The change needs a log format that older programs cannot read, and the upgrade is not finished."""


class LogPutBack(Conflict):
    """The cloud's log does not hold an event that the caller knows: it was put back to an earlier end."""

    @classmethod
    def beyond(cls, seq: int, last_seq: int) -> LogPutBack:
        """Return the error of a caller whose seq is after the log's end."""
        return cls(f"event {seq} is after the end of the log, {last_seq}: it was put back or is another; begin anew")


class Invalid(TenureError):
    """The request is well-formed but makes no sense for this cloud."""


class TimeMissing(Invalid):
    """The cloud has an external clock, so a request about an instance must carry its time."""


class TimeUnexpected(Invalid):
    """The cloud runs on the system clock, so a request must not carry a time."""


class TimeBackwards(Invalid):
    """The request's time lies before the last event of the cloud's log, and there is something to change."""


class TimeAhead(Invalid):
    """The time is in the future, or further ahead of the cloud's log than one request may move an external clock."""


class DeadlinePassed(Invalid):
    """A job's deadline is not after the time for which the plan is made."""


class PlanInvalid(Invalid):
    """The jobs, the places and the times of a plan, or a job's outcome and its plan, do not fit each other."""


class IdNotOwn(Invalid):
    """Ids are not shared in this cloud: a caller's ids begin with the token's name up to its first dot, and a dot."""


class LifetimeMissing(Invalid):
    """A spot start must declare its lifetime."""


class LifetimeOutOfBounds(Invalid):
    """The declared lifetime is shorter or longer than the cloud's policy allows."""


class ProbabilityOutOfBounds(Invalid):
    """The eviction probability asked for is lower or higher than the cloud's policy allows."""


class ProbabilityUnexpected(Invalid):
    """An on-demand start carries no eviction probability: it is never evicted."""


class GroupOnDemand(Invalid):
    """Only spot instances are placed in groups: an on-demand start has a count of 1."""


class AdviceTermsInvalid(Invalid):
    """The times of the job's checkpoints make no sense together, or for the instance."""


class PolicyInvalid(Invalid):
    """The policy's values contradict each other."""


class MarkerInvalid(Invalid):
    """The paging marker does not name an item of this list."""


class PeerRefused(Invalid):
    """Nothing may be sent to that URL of a peer."""


class ClockExternal(Invalid):
    """Jobs of other clouds need clouds on the system clock: leases end by real time."""


class WebhookRefused(Invalid):
    """Webhooks must not send to that URL."""


class TimeRangeInvalid(Invalid):
    """The end of the time range is not after its beginning."""


class Unavailable(TenureError):
    """The service cannot answer now; the same request may be sent again."""


class LogUnavailable(Unavailable):
    """The event log could not be read or written. A write may have succeeded; repeating the request tells."""


class IdentityUnavailable(Unavailable):
    """Keystone, which knows whose the token is, cannot be asked now. The token may be valid."""


class TaskFailing(Unavailable):
    """A background task of this process keeps failing, so what the process tells may be old. Its log says why."""


class LogContended(Unavailable):
    """Other writers were faster too many times in a row."""


class EpochsCrossed(Unavailable):
    """The batch needs a table that is not there. What comes before is decided, nothing from here on: send it again."""


class LogNewer(Unavailable):
    """The database, or the cloud's log in it, was written by a newer version of this service."""


class LogBroken(Unavailable):
    """Events are missing within the cloud's log. An operator must restore a backup or cut the log off there."""

    @classmethod
    def between(cls, cloud_id: int, before: int, after: int) -> LogBroken:
        """Return the error of a log that lacks the events between two seqs."""
        missing = f"events {before + 1} to {after - 1} are missing in the log of cloud number {cloud_id}"
        advice = "put a backup back, or cut the log off before the gap (docs/operations.md, When a log has a gap)"
        return cls(f"{missing}: {advice}")


class Overloaded(Unavailable):
    """Too many requests are waiting for this cloud's log, or for its tables."""


class VenueBusy(Unavailable):
    """Prices of venues are being written, and what the request changes waits for nobody. Send it again."""


class ObjectsUnavailable(Unavailable):
    """The service's object store does not answer, so nobody knows whether a job's inputs are there. Send it again."""


class ServiceStopping(Unavailable):
    """This process is stopping, and nothing was written. Send the request again, to another process or later."""


class TooManyStreams(Unavailable):
    """This process, or this token, has the largest number of event streams open that is allowed."""
