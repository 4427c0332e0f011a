"""The tables of peers and of what is on its way to and from them; a part of `schema`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, DateTime, Double, Identity, Index, Integer, MetaData, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_name)s_key",
        "fk": "%(table_name)s_%(column_0_name)s_fkey",
    }
)

_NOW = text("now()")
_JUDGED = ("created_at", "judged_from")

peer = Table(
    "peer",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    *(Column(name, Text, nullable=False) for name in ("url", "cloud", "secret")),
    *(Column(name, Text) for name in ("paused_because", "paused_by")),
    Column("paused_at", DateTime(timezone=True)),
    Column("quota", JSONB, nullable=False, server_default="{}"),
    *(Column(name, DateTime(timezone=True), nullable=False, server_default=_NOW) for name in _JUDGED),
    Column("objects_url", Text),
    Column("link_mbit_s", Double),
)

# An object of a job on its way: `in` to this host, `seal` an output of a job here, `out` back to this origin, and
# `sent` what a host told of the inputs of a job of this cloud.
transfer = Table(
    "transfer",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("cloud_id", Integer, nullable=False),
    *(Column(name, Text, nullable=False) for name in ("direction", "peer", "job")),
    Column("attempt", Integer, nullable=False),
    Column("key", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    *(Column(name, Text) for name in ("sha256", "url")),
    Column("state", Text, nullable=False, server_default="waiting"),
    Column("done_bytes", BigInteger, nullable=False, server_default="0"),
    Column("faults", Integer, nullable=False, server_default="0"),
    Column("fault", Text),
    Column("not_before", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Index("transfer_object", "cloud_id", "direction", "peer", "job", "attempt", "key", unique=True),
)

# An object that came from a peer, and how long it took; the newest of each way of a peer.
link_sample = Table(
    "link_sample",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("peer", "direction")),
    *(Column(name, BigInteger, nullable=False) for name in ("bytes", "took_us")),
    Column("at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Index("link_sample_newest", "peer", "direction", "id"),
)
