"""Bodies and answers of what controllers observe: where on-demand instances run, what never ran, and sizes of nodes."""

from __future__ import annotations

from pydantic import Field

from app.admission.outcomes import Observed
from app.domain.events import EvictionScheduled, InstanceEvicted, InstanceMoved, InstanceStarted, NodeResized
from app.domain.requests import AbortRequest, ObserveRequest
from app.domain.times import to_datetime
from app.domain.values import Resources
from app.platform.http.fields import AT, AT_OR_NOW, Body, Cores, Name, Size, Time
from app.scheduling.wire.nodes import resources_answer
from tenure_client.forms.instances import ObservationAnswer
from tenure_client.forms.nodes import VictimAnswer


class ObservedBody(Body):
    """The place of an on-demand instance, and its flavor."""

    node: Name = Field(description="Where it runs, open or drained.")
    flavor: Name = Field(description="What it is now.")
    project: Name | None = Field(None, description="The project that it is for, if its start is not known.")
    user: Name | None = Field(None, description="The user who asked for it, if its start is not known.")
    at_us: Time | None = Field(None, description=AT)


class ObserveBody(ObservedBody):
    """An observation in a batch, which takes the role `service`."""

    instance_id: Name

    def request(self, _owner: str | None) -> ObserveRequest:
        return ObserveRequest(self.instance_id, self.flavor, self.node, self.at_us, self.project, self.user)


class AbortedBody(Body):
    """The time from which it was known that an instance never ran."""

    at_us: Time | None = Field(None, description=AT)


class AbortBody(AbortedBody):
    """An abort in a batch, which takes the role `service`."""

    instance_id: Name

    def request(self, _owner: str | None) -> AbortRequest:
        return AbortRequest(self.instance_id, self.at_us)


class ResizeBody(Body):
    """Another capacity of a node. Memory and disk that are left out stay as they are."""

    cores: Cores
    memory_mib: Size | None = Field(None, description="0: not counted on this node any more; null: as it is.")
    disk_gib: Size | None = Field(None, description="0: not counted on this node any more; null: as it is.")
    at_us: Time | None = Field(None, description=AT_OR_NOW)

    def over(self, capacity: Resources) -> Resources:
        """Return the capacity with the fields of this body in place of its own."""
        memory_mib = capacity.memory_mib if self.memory_mib is None else self.memory_mib
        disk_gib = capacity.disk_gib if self.disk_gib is None else self.disk_gib
        return Resources(self.cores, memory_mib, disk_gib)


def observation_answer(observed: Observed) -> ObservationAnswer:
    """Return the answer to an observation."""
    if not observed.events:
        return ObservationAnswer(id=observed.instance_id, changed=False)
    last = observed.events[-1]
    assert isinstance(last, InstanceStarted | InstanceMoved)
    deadlines = {one.instance_id: one.deadline_us for one in observed.events if isinstance(one, EvictionScheduled)}
    raised = next((one.capacity for one in observed.events if isinstance(one, NodeResized)), None)
    return ObservationAnswer(
        id=observed.instance_id,
        changed=True,
        former_node=last.former_node if isinstance(last, InstanceMoved) else None,
        seq=observed.seq,
        at=to_datetime(last.at_us),
        victims=[
            VictimAnswer(id=name, deadline=None if deadlines.get(name) is None else to_datetime(deadlines[name]))
            for one in observed.events
            if isinstance(one, InstanceEvicted) and (name := one.instance_id)
        ],
        capacity=None if raised is None else resources_answer(raised),
    )
