"""The service's settings, read once from the environment (prefix TENURE_), frozen, and passed to their users."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

LogLevel = Literal["debug", "info", "warning", "error", "critical"]


def _absolute(path: Path) -> Path:
    """Return the absolute path, so that a change of the working directory does not matter."""
    return path.expanduser().absolute()


def _lowered(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


class Settings(BaseSettings):
    """The settings. Every one has a default that works; see docs/operations.md."""

    model_config = SettingsConfigDict(
        env_prefix="TENURE_", frozen=True, extra="ignore", env_ignore_empty=True, hide_input_in_errors=True
    )

    database_url: str | None = Field(None, description="PostgreSQL to use; without it the service runs its own.")
    data_dir: Annotated[Path, AfterValidator(_absolute)] = Field(
        Path(".tenure"), description="Where the service's own PostgreSQL keeps its data."
    )
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on.")
    admin_token: SecretStr | None = Field(
        None,
        min_length=12,
        description="The admin token, at least 12 characters; without it one is made at first start.",
    )
    max_body_bytes: int = Field(1 << 20, ge=1024, description="Largest request body taken.")
    request_timeout_s: float = Field(
        30.0, gt=0, description="A request not there whole, or an answer not taken, after one to two times this ends."
    )
    max_connections: int = Field(1000, ge=1, description="Connections that one process takes at a time.")
    max_connections_per_address: int = Field(
        800, ge=1, description="Connections of one address (of IPv6 one network); all that a proxy brings count as its."
    )
    token_requests_per_s: int = Field(5000, ge=1, description="Requests of one token that a process takes in a second.")
    address_requests_per_min: int = Field(
        1200, ge=1, description="Requests without a valid token that a process takes from one address in a minute."
    )
    database_timeout_s: float = Field(10.0, gt=0, description="Bound on one call or transaction, waiting for a connection included.")
    database_pool_size: int = Field(
        10,
        ge=2,
        description="Database connections of one process for statements; those that listen or hold locks come on top.",
    )
    queue_limit: int = Field(20_000, ge=1, description="Operations that may wait for one cloud's log.")
    batch_limit: int = Field(1_000, ge=1, description="Operations decided in one transaction.")
    table_wait_s: float = Field(120.0, ge=0, description="How long an external clock waits for the table of its epoch.")
    forecast_threads: int = Field(0, ge=0, description="Threads of a recomputation; 0 takes all cores.")
    dask_scheduler: str | None = Field(
        None, description="Dask cluster whose workers recompute, as `tcp://host:port`; without it threads do."
    )
    stream_limit: int = Field(200, ge=0, description="Event streams that one process serves at once.")
    stream_limit_per_token: int = Field(20, ge=1, description="Event streams of one token in one process.")
    stream_heartbeat_s: float = Field(15.0, gt=0, description="A stream without events says so this often.")
    stream_max_s: float = Field(3600.0, gt=0, description="A stream ends after this time; its reader resumes.")
    webhook_limit: int = Field(20, ge=0, description="Webhooks that one cloud may have.")
    webhook_timeout_s: float = Field(10.0, gt=0, description="How long a receiver may take to answer.")
    webhook_attempts: int = Field(15, ge=1, description="Tries of one event before it is a dead letter.")
    webhook_retry_s: float = Field(5.0, gt=0, description="Pause after a first failure; it doubles, up to an hour.")
    webhook_max_bytes: int = Field(262_144, ge=1024, description="Larger messages are sent without their data.")
    webhook_allow_private: bool = Field(default=False, description="Whether webhooks may lead to private addresses.")
    snapshot_every: int = Field(10_000, ge=1, description="Events after which the worker takes a new snapshot.")
    metrics_access: Literal["token", "open"] = Field(
        "token", description="Who may read the metrics: `token`, who has a reader's token; `open`, anyone."
    )
    worker_port: int | None = Field(
        None, ge=0, le=65535, description="Port on which a worker tells its health and metrics; without it on none."
    )
    log_level: Annotated[LogLevel, BeforeValidator(_lowered)] = Field(
        "info", description="Level of the service's own log."
    )
    log_format: Literal["console", "json"] = Field("console", description="Lines for people, or as JSON.")
    log_requests: bool = Field(default=True, description="A line for each request, at level info.")
