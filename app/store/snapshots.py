"""Snapshots of a cloud's state, so that starting up need not fold the whole log.

A snapshot is never trusted further than its digest: one that this version cannot read, or that does not give the state
it was taken of, counts as none, and the log is folded from its start.
"""

from __future__ import annotations

import logging
import zlib

import msgspec

from app.domain.events import CloudCreated, FlavorAdded, NodeAdded, NodeDrained, NodeRemoved
from app.domain.values import NodeStatus, Policy, Resources
from app.engine.cloud import ClassCounts, Cloud, Counts, Handover, Node, Running
from app.store.codec import LOG_FORMAT
from app.store.database import Database

logger = logging.getLogger(__name__)

_SHAPE = 3
_FORMATS = 100
_VERSION = LOG_FORMAT * _FORMATS + _SHAPE
"""With the log's format: what a newer program has folded, an older one must not take for what it would have."""
_SAVE = """
INSERT INTO snapshot (cloud_id, seq, version, digest, data)
VALUES (%(cloud_id)s, %(seq)s, %(version)s, %(digest)s, %(data)s)
ON CONFLICT (cloud_id) DO UPDATE
SET seq = EXCLUDED.seq, version = EXCLUDED.version, digest = EXCLUDED.digest, data = EXCLUDED.data, taken_at = now()
WHERE snapshot.seq <= EXCLUDED.seq
"""


class _Snapshot(msgspec.Struct, array_like=True):
    """The facts that a state is rebuilt from; `nodes` by name, `node_order` as `Cloud.node_order`."""

    seq: int
    at_us: int
    created_us: int
    policy: Policy
    counts: Counts
    classes: list[tuple[float, ClassCounts]]
    on_demand_peak: Resources
    node_order: tuple[str, ...]
    nodes: dict[str, Node]
    flavors: list[tuple[str, Resources]]
    running: list[Running]
    handovers: list[Handover]
    at_risk: list[str]


_DECODER = msgspec.msgpack.Decoder(_Snapshot)


class Snapshots:
    """The newest snapshot of each cloud."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, cloud_id: int, cloud: Cloud) -> None:
        """Keep the state as it is now, unless a newer snapshot is there."""
        parameters = {
            "cloud_id": cloud_id,
            "seq": cloud.seq,
            "version": _VERSION,
            "digest": cloud.digest(),
            "data": encode_cloud(cloud),
        }
        await self._database.execute(_SAVE, parameters)

    async def load(self, cloud_id: int) -> Cloud | None:
        """The state of the newest snapshot, or None where there is none that can be used."""
        rows = await self._database.execute(
            "SELECT version, digest, data FROM snapshot WHERE cloud_id = %(cloud_id)s", {"cloud_id": cloud_id}
        )
        if not rows or not _is_known(rows[0].version):
            return None
        cloud = decode_cloud(rows[0].data)
        if cloud is None or cloud.digest() != rows[0].digest:
            logger.warning(
                "the snapshot is not what was saved; the log is folded from its start", extra={"cloud_id": cloud_id}
            )
            return None
        return cloud

    async def forget(self, cloud_id: int) -> None:
        """Remove the cloud's snapshot: it is of another log than the one that is there."""
        await self._database.execute("DELETE FROM snapshot WHERE cloud_id = %(cloud_id)s", {"cloud_id": cloud_id})

    async def newest_seq(self, cloud_id: int) -> int | None:
        """The log position of the newest snapshot that this version can read, or None."""
        rows = await self._database.execute(
            "SELECT seq, version FROM snapshot WHERE cloud_id = %(cloud_id)s", {"cloud_id": cloud_id}
        )
        return int(rows[0].seq) if rows and _is_known(rows[0].version) else None


def _is_known(version: int) -> bool:
    log_format, shape = divmod(version, _FORMATS)
    return log_format <= LOG_FORMAT and shape == _SHAPE


def encode_cloud(cloud: Cloud) -> bytes:
    """The state's facts, compressed. What was applied but not committed must not be in it."""
    snapshot = _Snapshot(
        cloud.seq,
        cloud.at_us,
        cloud.created_us,
        cloud.policy,
        cloud.counts,
        sorted(cloud.classes.items()),
        cloud.on_demand_peak,
        cloud.node_order(),
        cloud.nodes,
        [(flavor.name, flavor.resources) for flavor in cloud.flavors.values()],
        sorted(cloud.running.values(), key=lambda running: running.seq),
        cloud.known_handovers(),
        sorted(cloud.at_risk),
    )
    return zlib.compress(msgspec.msgpack.encode(snapshot), 1)


def decode_cloud(data: bytes) -> Cloud | None:
    """The state of `encode_cloud`, or None where the bytes are no such state."""
    try:
        snapshot = _DECODER.decode(zlib.decompress(data))
    except (zlib.error, msgspec.DecodeError):
        return None
    return _rebuilt(snapshot)


def _rebuilt(snapshot: _Snapshot) -> Cloud:
    cloud = Cloud()
    at_us = snapshot.created_us
    cloud.apply(CloudCreated(at_us=at_us, policy=snapshot.policy))
    for name, resources in snapshot.flavors:
        cloud.apply(FlavorAdded(at_us=at_us, flavor=name, demand=resources))
    for index, name in enumerate(snapshot.node_order):
        _add_node(cloud, index, snapshot.nodes[name], at_us)
    for running in snapshot.running:
        cloud.restore_running(running)
    cloud.seq, cloud.at_us, cloud.counts = snapshot.seq, snapshot.at_us, snapshot.counts
    cloud.classes, cloud.on_demand_peak = dict(snapshot.classes), snapshot.on_demand_peak
    cloud.handovers = {handover.instance_id: handover for handover in snapshot.handovers}
    cloud.at_risk, cloud.last = set(snapshot.at_risk), None
    cloud.commit()
    return cloud


def _add_node(cloud: Cloud, index: int, node: Node, at_us: int) -> None:
    """Enter what stands at this place in node order: the node, or an earlier one of its name that was removed."""
    status = node.status if node.index == index else NodeStatus.REMOVED
    cloud.apply(NodeAdded(at_us=at_us, node=node.name, capacity=node.capacity))
    if status is NodeStatus.DRAINED:
        cloud.apply(NodeDrained(at_us=at_us, node=node.name))
    elif status is NodeStatus.REMOVED:
        cloud.apply(NodeRemoved(at_us=at_us, node=node.name))
