"""The tables as the newest migration leaves them; a test compares the two.

Names of constraints are part of the code: stores turn a broken one into the error that it stands for.
"""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    Computed,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from app.platform.database.schema_peers import metadata

__all__ = ["event", "metadata"]

_NOW = text("now()")
_MADE = ("created_at", "changed_at")
_STARTS = text("kind IN ('instance_started', 'instance_rejected')")
_OF_PROJECTS = text("kind IN ('instance_started', 'instance_rejected') AND data->>'project' IS NOT NULL")
_POLICIES = text("kind IN ('cloud_created', 'policy_changed')")
_ENDS = text("kind IN ('instance_stopped', 'instance_evicted')")
_EXTENSIONS = text("kind IN ('instance_extended', 'extension_rejected')")
_MOVES = text("kind IN ('instance_moved')")
_NOTICES = text("kind IN ('eviction_scheduled', 'eviction_confirmed', 'eviction_overdue', 'eviction_risk')")
_ENDINGS = text("kind IN ('promise_ending')")
_OF_JOB = "'job_requested', 'job_admitted', 'job_offered', 'job_declined', 'job_awarded', 'job_cancelled', 'job_ended'"
_OF_JOB += ", 'job_collected', 'job_outputs_lost'"
_JOBS = text(f"kind IN ({_OF_JOB})")

agreement = Table(
    "agreement",
    metadata,
    Column("one", Boolean, primary_key=True, server_default=text("true")),
    Column("runs_from", Text, nullable=False),
    Column("log_format", SmallInteger, nullable=False),
)

cloud = Table(
    "cloud",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("importing", Boolean, nullable=False, server_default=text("false")),
)

# No foreign key to cloud: it would run a trigger for every event, and clouds are never deleted.
event = Table(
    "event",
    metadata,
    Column("cloud_id", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("version", SmallInteger, nullable=False),
    Column("data", JSONB, nullable=False),
    Column("at_us", BigInteger, Computed("(data->>'at_us')::bigint", persisted=True), nullable=False),
    Column("instance_id", Text, Computed("data->>'instance_id'", persisted=True)),
)
Index("event_one_start", event.c.cloud_id, event.c.instance_id, unique=True, postgresql_where=_STARTS)
Index("event_one_end", event.c.cloud_id, event.c.instance_id, unique=True, postgresql_where=_ENDS)
# Searches by kind look for rare events; the frequent ones, accepted starts and stops, are in no such index.
Index("event_rejected", event.c.cloud_id, event.c.seq, postgresql_where=text("kind = 'instance_rejected'"))
Index("event_evicted", event.c.cloud_id, event.c.seq, postgresql_where=text("kind = 'instance_evicted'"))
Index("event_policy", event.c.cloud_id, event.c.seq, postgresql_where=_POLICIES)
Index("event_notice", event.c.cloud_id, event.c.instance_id, event.c.seq, postgresql_where=_NOTICES)
Index("event_promise_ending", event.c.cloud_id, event.c.instance_id, event.c.seq, postgresql_where=_ENDINGS)
Index("event_move", event.c.cloud_id, event.c.instance_id, event.c.seq, postgresql_where=_MOVES)
Index("event_extension", event.c.cloud_id, event.c.instance_id, event.c.seq, postgresql_where=_EXTENSIONS)
_ASKED = (event.c.cloud_id, event.c.instance_id, event.c.kind, text("((data->>'lifetime_us')::bigint)"), event.c.at_us)
Index("event_extension_asked", *_ASKED, postgresql_where=_EXTENSIONS)
Index("event_job", event.c.cloud_id, text("(data->>'job')"), event.c.seq, postgresql_where=_JOBS)
Index("event_of_project", event.c.cloud_id, text("(data->>'project')"), event.c.seq, postgresql_where=_OF_PROJECTS)
Index("event_flavor", event.c.cloud_id, text("(data->>'flavor')"), postgresql_where=text("kind = 'flavor_added'"))

snapshot = Table(
    "snapshot",
    metadata,
    Column("cloud_id", Integer, ForeignKey("cloud.id"), primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("version", SmallInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("taken_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
)

quantile_table = Table(
    "quantile_table",
    metadata,
    Column("cloud_id", Integer, ForeignKey("cloud.id"), primary_key=True, autoincrement=False),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("epoch_us", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("computed_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("wall_s", Double, nullable=False),
)

forecast_run = Table(
    "forecast_run",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("cloud_id", Integer, ForeignKey("cloud.id"), nullable=False),
    Column("cause", Text, nullable=False),
    Column("due_us", BigInteger),
    Column("status", Text, nullable=False, server_default="pending"),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("error", Text),
    Column("epoch", Integer),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("started_at", DateTime(timezone=True)),
    Column("finished_at", DateTime(timezone=True)),
    Column("retry_at", DateTime(timezone=True)),
    Column("number", BigInteger, nullable=False),
)
Index("forecast_run_number", forecast_run.c.cloud_id, forecast_run.c.number, unique=True)
Index("forecast_run_cloud", forecast_run.c.cloud_id, forecast_run.c.id)
Index(
    "forecast_run_one_pending",
    forecast_run.c.cloud_id,
    text("coalesce(due_us, -1)"),
    unique=True,
    postgresql_where=text("status = 'pending'"),
)
Index("forecast_run_open", forecast_run.c.id, postgresql_where=text("status <> 'succeeded'"))

token = Table(
    "token",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("expires_at", DateTime(timezone=True)),
    Column("revoked_at", DateTime(timezone=True)),
    Column("cloud_id", Integer, ForeignKey("cloud.id")),
    Column("last_used_at", DateTime(timezone=True)),
)
Index("token_one_name", token.c.name, unique=True, postgresql_where=text("revoked_at IS NULL"))

webhook = Table(
    "webhook",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("cloud_id", Integer, ForeignKey("cloud.id"), nullable=False),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("kinds", ARRAY(Text)),
    Column("paused_because", Text),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("delivered_count", BigInteger, nullable=False, server_default="0"),
    Column("delivered_at", DateTime(timezone=True)),
    Column("last_error", Text),
    Column("urgent_seq", BigInteger, nullable=False),
    Column("urgent_attempts", Integer, nullable=False, server_default="0"),
    Column("urgent_retry_at", DateTime(timezone=True)),
    Column("ordinary_seq", BigInteger, nullable=False),
    Column("ordinary_attempts", Integer, nullable=False, server_default="0"),
    Column("ordinary_retry_at", DateTime(timezone=True)),
)
Index("webhook_cloud", webhook.c.cloud_id, webhook.c.id)

webhook_dead = Table(
    "webhook_dead",
    metadata,
    Column("webhook_id", BigInteger, ForeignKey("webhook.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("died_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("replay_asked_at", DateTime(timezone=True)),
)

webhook_trial = Table(
    "webhook_trial",
    metadata,
    Column("webhook_id", BigInteger, ForeignKey("webhook.id", ondelete="CASCADE"), primary_key=True),
    Column("asked_at", DateTime(timezone=True), nullable=False),
    Column("answered_at", DateTime(timezone=True)),
    Column("status", Integer),
    Column("error", Text),
)

utilisation = Table(
    "utilisation",
    metadata,
    Column("cloud_id", Integer, ForeignKey("cloud.id"), primary_key=True),
    Column("node", Text, primary_key=True),
    Column("width_s", Integer, primary_key=True),
    Column("bucket", BigInteger, primary_key=True),
    Column("last_us", BigInteger, nullable=False),
    *(Column(f"{name}_area", Numeric, nullable=False) for name in ("on_demand", "spot", "total")),
    *(Column(f"{name}_peak", Integer, nullable=False) for name in ("on_demand", "spot", "used")),
    *(Column(f"{name}_end", Integer, nullable=False) for name in ("on_demand", "spot", "total")),
    *(Column(f"on_demand_{name}", Integer, nullable=False) for name in ("admitted", "rejected")),
    *(Column(f"spot_{name}", Integer, nullable=False) for name in ("admitted", "rejected")),
    Column("evicted", Integer, nullable=False),
)

utilisation_level = Table(
    "utilisation_level",
    metadata,
    Column("cloud_id", Integer, ForeignKey("cloud.id"), primary_key=True),
    Column("node", Text, primary_key=True),
    *(Column(name, Integer, nullable=False) for name in ("on_demand", "spot", "total")),
    Column("last_us", BigInteger, nullable=False),
)

utilisation_progress = Table(
    "utilisation_progress",
    metadata,
    Column("cloud_id", Integer, ForeignKey("cloud.id"), primary_key=True, autoincrement=False),
    *(Column(name, BigInteger, nullable=False) for name in ("seq", "at_us", "begin_us")),
)

venue = Table(
    "venue",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("currency", Text, nullable=False),
    *(Column(name, DateTime(timezone=True), nullable=False, server_default=_NOW) for name in _MADE),
    Column("version", BigInteger, nullable=False, server_default="0"),
    Column("pool_count", Integer, nullable=False, server_default="0"),
    Column("price_count", BigInteger, nullable=False, server_default="0"),
    *(Column(name, BigInteger) for name in ("first_us", "last_us")),
    Column("revoked_by", Text, nullable=False, server_default="price"),
    Column("observed_us", BigInteger),
)

machine_type = Table(
    "machine_type",
    metadata,
    Column("venue_id", Integer, ForeignKey("venue.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("instance_type", Text, primary_key=True),
    *(Column(name, Double, nullable=False) for name in ("compute_units", "memory_gib", "on_demand")),
)

pool = Table(
    "pool",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("venue_id", Integer, ForeignKey("venue.id", ondelete="CASCADE"), nullable=False),
    *(Column(name, Text, nullable=False) for name in ("provider", "region", "zone", "instance_type", "product")),
)
_WORDS = (pool.c.provider, pool.c.region, pool.c.zone, pool.c.instance_type, pool.c.product)
Index("pool_words", pool.c.venue_id, *_WORDS, unique=True)

# A row for each pool and day of UTC: times that rise, and the price at each in millionths of the currency an hour.
price_day = Table(
    "price_day",
    metadata,
    Column("pool_id", Integer, ForeignKey("pool.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("day", Integer, primary_key=True, autoincrement=False),
    *(Column(name, ARRAY(BigInteger), nullable=False) for name in ("at_us", "micro")),
)

# `request` is what was asked, `answer` the plan as it was told; see app/planning.
plan = Table(
    "plan",
    metadata,
    Column("id", Text, primary_key=True),
    Column("number", BigInteger, Identity(always=True), nullable=False, unique=True),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    *(Column(name, JSONB, nullable=False) for name in ("request", "answer")),
)

# What was said of a job and what came of it. A job that began on demand has no venue and no peer.
plan_outcome = Table(
    "plan_outcome",
    metadata,
    Column("plan_id", Text, ForeignKey("plan.id", ondelete="CASCADE"), primary_key=True),
    Column("job", Text, primary_key=True),
    Column("told_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    *(Column(name, Text) for name in ("venue", "zone", "instance_type", "peer")),
    *(Column(name, Double, nullable=False) for name in ("promised", "said_cost")),
    Column("outcome", JSONB, nullable=False),
    *(Index(f"plan_outcome_{name}", name) for name in ("venue", "peer")),
)

price_gap = Table(
    "price_gap",
    metadata,
    Column("venue_id", Integer, ForeignKey("venue.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("from_us", BigInteger, primary_key=True, autoincrement=False),
    Column("to_us", BigInteger, nullable=False),
)

cluster = Table(
    "cluster",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("spec", JSONB, nullable=False),
    Column("version", Integer, nullable=False, server_default="1"),
    *(Column(name, DateTime(timezone=True), nullable=False, server_default=_NOW) for name in _MADE),
    Column("last_seq", BigInteger, nullable=False, server_default="0"),
    Column("reported_at", DateTime(timezone=True)),
    Column("loop_s", Double),
    Column("orphan_count", Integer),
)

cluster_event = Table(
    "cluster_event",
    metadata,
    Column("cluster_id", Integer, ForeignKey("cluster.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at_us", BigInteger, nullable=False),
    *(Column(name, Text, nullable=False) for name in ("kind", "key")),
    Column("facts", JSONB, nullable=False),
)
Index("cluster_event_key", cluster_event.c.cluster_id, cluster_event.c.key, unique=True)

# What a provider tells of machines that it took back. The region as a zone stands for all of its zones.
provider_rate = Table(
    "provider_rate",
    metadata,
    Column("venue_id", Integer, primary_key=True, autoincrement=False),
    *(Column(name, Text, primary_key=True) for name in ("region", "zone", "instance_type", "product")),
    Column("at_us", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("share", Double, nullable=False),
)

pool_observation = Table(
    "pool_observation",
    metadata,
    Column("pool_id", Integer, primary_key=True, autoincrement=False),
    Column("instance", Text, primary_key=True),
    Column("at_us", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, primary_key=True),
)

venue_model = Table(
    "venue_model",
    metadata,
    Column("venue_id", Integer, primary_key=True, autoincrement=False),
    Column("trained_us", BigInteger, nullable=False),
    Column("body", JSONB, nullable=False),
    Column("fitted_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
)

venue_refit = Table(
    "venue_refit",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("venue_id", Integer, nullable=False),
    Column("until_us", BigInteger, nullable=False),
    Column("status", Text, nullable=False, server_default="pending"),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("error", Text),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    *(Column(name, DateTime(timezone=True)) for name in ("started_at", "finished_at", "retry_at")),
)
Index("venue_refit_until", venue_refit.c.venue_id, venue_refit.c.until_us, unique=True)

venue_feed = Table(
    "venue_feed",
    metadata,
    Column("venue_id", Integer, primary_key=True, autoincrement=False),
    *(Column(name, Text, nullable=False) for name in ("provider", "region")),
    *(Column(name, DateTime(timezone=True)) for name in ("polled_at", "succeeded_at")),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("error", Text),
)
