"""The service's settings, read once from the environment (prefix TENURE_), frozen, and passed to their users."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.domain.values import Role

LogLevel = Literal["debug", "info", "warning", "error", "critical"]


def _absolute(path: Path) -> Path:
    """Return the absolute path, so that a change of the working directory does not matter."""
    return path.expanduser().absolute()


def _absolute_or_none(path: Path | None) -> Path | None:
    return None if path is None else _absolute(path)


def _lowered(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _fit_for_headers(token: SecretStr | None) -> SecretStr | None:
    """Return a token that a request's header can carry. Its value is not shown if it is refused."""
    if token is not None and not re.fullmatch("[!-~]*", token.get_secret_value()):
        raise PydanticCustomError("token", "must consist of ASCII letters, digits and signs, without spaces")
    return token


def _for_http(url: str | None) -> str | None:
    """Return a URL that requests can go to. Its value is not shown if it is refused: a password may be in it."""
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole or not re.fullmatch("[!-~]+", url):
        raise PydanticCustomError("url", "must be a URL that begins with https:// or http:// and names a host")
    return url


_HttpUrl = Annotated[str | None, AfterValidator(_for_http)]
_UpToDay = Annotated[float, Field(le=86_400, allow_inf_nan=False)]


def _words(value: object) -> object:
    return [word for word in re.split(r"[,\s]+", value) if word] if isinstance(value, str) else value


def _pairs(value: object) -> object:
    """Return what `name=role,...` names. Whatever else stands there stays, and is refused."""
    if not isinstance(value, str):
        return value
    return dict(pair.partition("=")[::2] for pair in cast("list[str]", _words(value)))


class Settings(BaseSettings):
    """The settings. Every one has a default that works; see docs/operations.md."""

    model_config = SettingsConfigDict(
        env_prefix="TENURE_", frozen=True, extra="ignore", env_ignore_empty=True, hide_input_in_errors=True
    )

    database_url: str | None = Field(
        None, description="The PostgreSQL database. Without it the service runs its own server."
    )
    data_dir: Annotated[Path, AfterValidator(_absolute)] = Field(
        Path(".tenure"), description="The folder in which the service's own PostgreSQL keeps its data."
    )
    host: str = Field("127.0.0.1", description="The address to listen on.")
    port: int = Field(8080, ge=0, le=65535, description="The port to listen on.")
    admin_token: Annotated[SecretStr | None, AfterValidator(_fit_for_headers)] = Field(
        None,
        min_length=12,
        description="The admin token, at least 12 characters of ASCII without spaces. Without it one is made.",
    )
    max_body_bytes: int = Field(1 << 20, ge=1024, description="The largest request body accepted.")
    request_timeout_s: _UpToDay = Field(
        30.0,
        gt=0,
        description="Requests that do not arrive in full, and answers not taken, end after one to two times this.",
    )
    max_connections: int = Field(1000, ge=1, description="Connections accepted by one process.")
    max_connections_per_address: int = Field(
        800, ge=1, description="Connections of one address (in IPv6 one network). A proxy counts as one address."
    )
    token_requests_per_s: int = Field(
        5000, ge=1, description="Requests of one token that a process accepts in a second; some count as several."
    )
    address_requests_per_min: int = Field(
        1200, ge=1, description="Requests without a valid token that a process accepts from one address in a minute."
    )
    database_timeout_s: _UpToDay = Field(
        10.0, gt=0, description="The limit for one call or transaction, with the wait for a connection."
    )
    database_pool_size: int = Field(
        10,
        ge=2,
        description="Connections of one process for statements. Those that listen or hold locks are additional. Half "
        "are for reads, two for the logs, the others for what else requests ask; one caller has two of each at a time.",
    )
    queue_limit: int = Field(20_000, ge=1, description="Operations that may wait for one cloud's log.")
    batch_limit: int = Field(1_000, ge=1, description="Operations decided in one transaction.")
    table_wait_s: _UpToDay = Field(
        120.0,
        ge=0,
        description="The time for which a spot start on an external clock waits for its table; nothing else does.",
    )
    forecast_threads: int = Field(0, ge=0, description="Threads of a recomputation; 0 means all cores.")
    dask_scheduler: str | None = Field(
        None, description="The Dask cluster whose workers recompute, as `tcp://host:port`. Without it threads do."
    )
    stream_limit: int = Field(200, ge=0, description="Event streams that one process serves at once.")
    stream_limit_per_token: int = Field(20, ge=1, description="Event streams of one token in one process.")
    stream_heartbeat_s: _UpToDay = Field(
        15.0, gt=0, description="The interval of the heartbeats in a stream without events."
    )
    stream_max_s: _UpToDay = Field(3600.0, gt=0, description="A stream ends after this time, and its reader resumes.")
    webhook_limit: int = Field(20, ge=0, description="Webhooks that one cloud may have.")
    webhook_timeout_s: _UpToDay = Field(10.0, gt=0, description="The time for which a receiver may delay its answer.")
    webhook_attempts: int = Field(
        15, ge=1, description="Attempts to deliver one event before it becomes a dead letter."
    )
    webhook_retry_s: _UpToDay = Field(
        5.0, gt=0, description="The pause after the first failure. It doubles after each, up to an hour."
    )
    webhook_max_bytes: int = Field(262_144, ge=1024, description="Larger messages are sent without their data.")
    webhook_allow_private: bool = Field(default=False, description="Allow webhooks to private addresses.")
    peer_allow_private: bool = Field(default=False, description="Allow peers at private addresses, and without TLS.")
    peer_answer_s: float = Field(5.0, gt=0, le=60, description="The time for which a peer may delay its answer.")
    hold_s: float = Field(30.0, gt=0, le=120, description="The time for which peers are to hold room for an offer.")
    peer_messages_per_s: int = Field(
        100, ge=1, description="Offers, awards and withdrawals of one peer that a process accepts in a second."
    )
    reclaim_margin_s: _UpToDay = Field(
        60.0, ge=0, description="The time after the end of a lease from which on a job is taken back from a peer."
    )
    objects_url: _HttpUrl = Field(
        None, description="The endpoint of this service's object store, which speaks S3. Without it no data is moved."
    )
    objects_peer_url: _HttpUrl = Field(
        None, description="The endpoint by which peers reach that store, if they do not by `TENURE_OBJECTS_URL`."
    )
    objects_bucket: str = Field("tenure", description="The bucket there.")
    objects_key_file: Annotated[Path | None, AfterValidator(_absolute_or_none)] = Field(
        None, description="A file with two lines: the name of the store's key, and its secret."
    )
    objects_region: str = Field("us-east-1", description="The region that the store's key is for.")
    spool_dir: Annotated[Path | None, AfterValidator(_absolute_or_none)] = Field(
        None, description="The folder of data that has not come in full; by default `spool` in `TENURE_DATA_DIR`."
    )
    spool_reserve_bytes: int = Field(
        1_000_000_000,
        ge=0,
        description="So much is left free on the disk of that folder, where the service's own database may be, too.",
    )
    transfers_at_once: int = Field(4, ge=1, le=64, description="Objects that a worker moves at once with one peer.")
    transfer_bytes_per_s: int = Field(
        0, ge=0, description="The most bytes a second that a worker pulls from peers; 0 means no bound."
    )
    link_bytes_per_s: int = Field(
        1_000_000,
        ge=1,
        description="The slowest rate of links to peers: inputs of our jobs that come more slowly come too late.",
    )
    link_s: int | None = Field(
        None, ge=1, description="The longest time for which a link to an input is good; by default the whole lease."
    )
    snapshot_every: int = Field(
        10_000, ge=1, description="The number of events after which the worker takes a new snapshot."
    )
    keystone_url: _HttpUrl = Field(
        None, description="OpenStack's identity service, as `https://host/v3`. Its tokens are accepted then, too."
    )
    keystone_user: str | None = Field(None, description="The name by which this service logs in to Keystone.")
    keystone_password: SecretStr | None = Field(None, description="The password of `TENURE_KEYSTONE_USER`.")
    keystone_project: str = Field("service", description="The name of that user's project.")
    keystone_domain: str = Field("Default", description="The name of the domain of that user and that project.")
    keystone_credential_id: str | None = Field(
        None, description="An application credential to log in to Keystone with, in place of a user."
    )
    keystone_credential_secret: SecretStr | None = Field(None, description="The secret of that credential.")
    keystone_admin_projects: Annotated[frozenset[str] | None, NoDecode, BeforeValidator(_words)] = Field(
        None, description="Ids of projects, with commas, whose admins are admins here."
    )
    keystone_projects: Annotated[frozenset[str] | None, NoDecode, BeforeValidator(_words)] = Field(
        None, description="Ids of projects, with commas, whose people are let in by their roles."
    )
    keystone_roles: Annotated[dict[str, Role] | None, NoDecode, BeforeValidator(_pairs)] = Field(
        None, description="Roles here by Keystone's, as `member=member,auditor=reader`, in place of the usual ones."
    )
    keystone_cache_s: float = Field(
        60.0,
        ge=3,
        le=300,
        description="How long a token that Keystone has revoked may still be accepted after an answer.",
    )
    nova_clouds: Annotated[frozenset[str] | None, NoDecode, BeforeValidator(_words)] = Field(
        None,
        description="Clouds, with commas, of Nova's servers: people of a project start and stop these through Nova.",
    )
    metrics_access: Literal["token", "open"] = Field(
        "token", description="Access to the metrics: `token` requires a reader's token, `open` requires none."
    )
    worker_port: int | None = Field(
        None, ge=0, le=65535, description="The port for a worker's health and metrics. Without it there is none."
    )
    log_level: Annotated[LogLevel, BeforeValidator(_lowered)] = Field(
        "info", description="The level of the service's own log."
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="The form of the log: lines for people, or JSON."
    )
    log_requests: bool = Field(default=True, description="Log a line for each request, at level info.")

    @model_validator(mode="after")
    def _opens_its_store(self) -> Self:
        """Refuse the endpoint of an object store without a key, and that of peers without the own one."""
        if self.objects_url is not None and self.objects_key_file is None:
            raise PydanticCustomError("objects", "TENURE_OBJECTS_URL needs TENURE_OBJECTS_KEY_FILE")
        if self.objects_peer_url is not None and self.objects_url is None:
            raise PydanticCustomError("objects", "TENURE_OBJECTS_PEER_URL needs TENURE_OBJECTS_URL")
        return self

    @model_validator(mode="after")
    def _can_log_in(self) -> Self:
        """Refuse the address of a Keystone without a name and a secret to log in with."""
        user = self.keystone_user is not None and self.keystone_password is not None
        credential = self.keystone_credential_id is not None and self.keystone_credential_secret is not None
        if self.keystone_url is not None and not (user or credential):
            raise PydanticCustomError(
                "keystone",
                "TENURE_KEYSTONE_URL needs TENURE_KEYSTONE_USER and TENURE_KEYSTONE_PASSWORD, "
                "or TENURE_KEYSTONE_CREDENTIAL_ID and TENURE_KEYSTONE_CREDENTIAL_SECRET",
            )
        return self

    @property
    def spool(self) -> Path:
        """The folder of data that has not come in full."""
        return self.spool_dir or self.data_dir / "spool"
