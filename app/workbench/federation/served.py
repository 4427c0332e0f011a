"""The line of a cloud in a running service: operations go there by HTTP, and its log tells what they led to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from app.domain.events import CloudCreated, Event, FlavorAdded, NodeAdded
from app.domain.events.wire import value_to_wire
from app.domain.inputs import InputError
from app.domain.requests import StartRequest, StopRequest
from app.engine.cloud import Cloud
from app.workbench.drive import form_of
from app.workbench.evaluate import EventSink
from app.workbench.export import recorded_of
from tenure_client import ClientError, Conflict, NotFound, PolicyChange, Resources, TenureClient

_IS_THERE = "there is a cloud of that name already: a drive begins with a new one"


def check_is_new(client: TenureClient, name: str) -> None:
    """Ask a service whether a cloud can be made there. Raises InputError if it has one of that name."""
    try:
        client.cloud(name)
    except NotFound:
        return
    except ClientError as error:
        error.add_note(f"this is the service of --url {name}; no cloud was made")
        raise
    raise InputError(f"--url {name}: {_IS_THERE}")


class ServedLine:
    """A line in a service. `cloud` is the fold of its log, as far as it was read; nothing is decided here."""

    def __init__(self, client: TenureClient, name: str, opened: Sequence[Event], log: EventSink | None) -> None:
        self.cloud = Cloud()
        self._client, self._name, self._log = client, name, log
        self._open(opened)
        if [*self._new_events()] != [*opened]:
            raise InputError(f"cloud {name!r} does not begin as it should: something else changed it")

    def decide(self, operations: Sequence[StartRequest | StopRequest]) -> Sequence[Event]:
        """Have the service decide, and return the events that its log has got. Raises the error of an operation."""
        for result in self._client.batch(self._name, [form_of(one) for one in operations]).results:
            if result.error is not None:
                raise result.error
        return self._new_events()

    def _open(self, opened: Sequence[Event]) -> None:
        """Make the cloud as these events tell. Raises InputError if the service has one of that name."""
        for event in opened:
            match event:
                case CloudCreated():
                    try:
                        self._client.create_cloud(self._name, cast("PolicyChange", value_to_wire(event.policy)))
                    except Conflict:
                        raise InputError(f"--url {self._name}: {_IS_THERE}") from None
                case NodeAdded():
                    self._client.add_node(self._name, event.node, Resources(*event.capacity))
                case FlavorAdded():
                    self._client.add_flavor(self._name, event.flavor, Resources(*event.demand))

    def _new_events(self) -> Sequence[Event]:
        """Fold and return the events that the log has got since it was read last."""
        recorded = [recorded_of(one.fields) for one in self._client.events(self._name, after_seq=self.cloud.seq)]
        self.cloud.apply_recorded(recorded)
        if self._log is not None:
            for one in recorded:
                self._log.write(one)
        return [one.event for one in recorded]
