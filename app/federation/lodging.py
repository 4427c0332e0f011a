"""The host's part in data: inputs that an origin gives with its award, and outputs that it fetches at a job's end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.domain.errors import OfferConflict, PeerRefused
from app.domain.events import RoomHeld
from app.domain.jobs import AttemptKey, DataFault, DataObject, OutputObject, Word
from app.federation.rules.data import Direction, Transfer, WantedObject, data_bytes, is_under, output_place
from app.federation.rules.peers import Peer
from app.federation.store import Transfers
from app.platform.outbound.objects import ObjectStore

OUTPUT_LINK_S = 3600
"""The time for which a link to an output is good; whoever is slower asks again."""


class GivenInput(NamedTuple):
    """An input with a link to read it."""

    object: DataObject
    url: str


class GivenData(NamedTuple):
    """The data of an award: inputs with links, and the outputs that the job is to leave behind."""

    inputs: Sequence[GivenInput] = ()
    outputs: Sequence[OutputObject] = ()


class Staged(NamedTuple):
    """The inputs of an attempt that have come, in bytes, and why the others did not the last time."""

    bytes: int = 0
    fault: str | None = None


class MadeOutput(NamedTuple):
    """An output of a job, with a link to read it."""

    object: DataObject
    url: str


class MadeOutputs(NamedTuple):
    """The outputs of an attempt: `sealing`, `ready` with all of them, or `lost` for a reason."""

    state: str
    reason: str | None = None
    outputs: Sequence[MadeOutput] = ()


class Lodging:
    """The data of peers' jobs here. `objects`: this service's store, if it has one."""

    def __init__(self, transfers: Transfers, objects: ObjectStore | None) -> None:
        self._transfers, self._objects = transfers, objects

    def takes_from(self, peer: Peer | None) -> bool:
        """Return True if data can come from a peer and go back to it."""
        return self._objects is not None and peer is not None and peer.objects_url is not None

    async def take(self, cloud_id: int, key: AttemptKey, room: RoomHeld, peer: Peer, given: GivenData) -> None:
        """Enter the data of an award, once; the same again brings new links.

        Raises OfferConflict for more or other data than was offered, PeerRefused for a link to somewhere else.
        """
        if any(not is_under(one.url, peer.objects_url) for one in given.inputs):
            raise PeerRefused("a link must lead to the object store that was entered for this peer")
        inputs = [one.object for one in given.inputs]
        if bool(inputs) != bool(room.stage_us) or data_bytes(inputs, given.outputs) > room.data_bytes:
            raise OfferConflict("the award brings other data than was offered")
        if any(len({one.key for one in group}) < len(group) for group in (inputs, given.outputs)):
            raise OfferConflict("the award names an object twice")
        known = await self._transfers.of_attempt(cloud_id, key)
        if not _holds(given, known):
            raise OfferConflict("the attempt was awarded before with other data")
        links = [WantedObject(one.object.key, one.object.bytes, one.object.sha256, one.url) for one in given.inputs]
        await self._transfers.enter(cloud_id, Direction.IN, key, links)
        sealed = {one.key for one in known if one.direction == Direction.SEAL}
        outputs = [WantedObject(one.key, one.bytes) for one in given.outputs if one.key not in sealed]
        await self._transfers.enter(cloud_id, Direction.SEAL, key, outputs)

    async def staged(self, cloud_id: int, key: AttemptKey) -> Staged:
        """Return what has come of an attempt's inputs."""
        inputs = [one for one in await self._transfers.of_attempt(cloud_id, key) if one.direction == Direction.IN]
        fault = next((one.fault for one in inputs if one.fault is not None), None)
        return Staged(sum(one.done_bytes for one in inputs), fault)

    async def outputs(self, cloud_id: int, cloud_name: str, key: AttemptKey, word: Word) -> MadeOutputs:
        """Return the outputs of an attempt that finished, with links."""
        known = await self._transfers.of_attempt(cloud_id, key)
        made = [one for one in known if one.direction == Direction.SEAL and one.state != "over"]
        if word is not Word.FINISHED or not made or self._objects is None:
            return MadeOutputs("lost", DataFault.GONE)
        failed = next((one.fault for one in made if one.state == "failed"), None)
        if failed is not None:
            return MadeOutputs("lost", failed)
        if any(one.state != "stored" for one in made):
            return MadeOutputs("sealing")
        found = [
            MadeOutput(
                DataObject(one.key, one.bytes, one.sha256 or ""),
                await self._objects.link(output_place(cloud_name, key, one.key), OUTPUT_LINK_S),
            )
            for one in made
        ]
        return MadeOutputs("ready", outputs=found)

    async def release(self, cloud_id: int, key: AttemptKey) -> None:
        """Let the outputs of an attempt go: its origin has them, or wants none."""
        await self._transfers.release(cloud_id, key)


def _holds(given: GivenData, known: Sequence[Transfer]) -> bool:
    """Return True if an award brings all that was entered for its attempt before, perhaps by an award that broke off.

    Nothing of the attempt has run yet.
    """
    inputs = {(one.object.key, one.object.bytes, one.object.sha256) for one in given.inputs}
    outputs = {(one.key, one.bytes) for one in given.outputs}
    came = {(one.key, one.bytes, one.sha256) for one in known if one.direction == Direction.IN}
    return came <= inputs and {(one.key, one.bytes) for one in known if one.direction == Direction.SEAL} <= outputs
