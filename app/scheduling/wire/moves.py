"""Bodies and answers of moves."""

from __future__ import annotations

from pydantic import Field

from app.admission.outcomes import Moved
from app.domain.requests import MoveRequest
from app.domain.times import to_datetime
from app.platform.http.fields import AT, Body, Name, Time
from tenure_client.forms.instances import MoveAnswer


class MovedBody(Body):
    """The node that an instance runs on now."""

    node: Name = Field(description="Where it runs now: an open node with room for it.")
    at_us: Time | None = Field(None, description=AT)


class MoveBody(MovedBody):
    """A move in a batch, which takes the role `service`."""

    instance_id: Name

    def request(self, _owner: str | None) -> MoveRequest:
        return MoveRequest(self.instance_id, self.node, self.at_us)


def move_answer(moved: Moved) -> MoveAnswer:
    """Return the answer to a move."""
    if moved.changed is None:
        return MoveAnswer(id=moved.instance_id, node=moved.node, moved=False, former_node=None, seq=None, at=None)
    event, seq = moved.changed
    return MoveAnswer(
        id=moved.instance_id,
        node=moved.node,
        moved=True,
        former_node=event.former_node,
        seq=seq,
        at=to_datetime(event.at_us),
    )
