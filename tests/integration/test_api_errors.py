"""Bad input, and a service in trouble: each error of the table for real, and a log that has not moved."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from api_service import Service, running_service
from servers import run_sql

from app.admission import decide, limits
from app.domain import errors
from app.domain.errors import TenureError
from app.domain.events.formats import LOG_FORMAT
from app.federation.rules import homeside
from app.platform.background import background
from app.platform.http import errors as api_errors
from app.platform.http.errors import PROBLEMS, RequestError
from app.platform.http.openapi import errors_of
from app.processes.endpoints import ENDPOINTS
from app.scheduling import owners, scheduler

CLOUD = "/v1/clouds/system"
EXTERNAL = "/v1/clouds/external"
START = {"id": "new", "market": "on_demand", "flavor": "c1"}
SPOT = {"id": "new", "market": "spot", "flavor": "c1", "lifetime_s": 60}
NOON, EARLIER = "1970-01-01T12:00:00Z", "1970-01-01T11:59:59.999999Z"
CLOUDS = ("system", "external", "bounds")
FAR = "9999-12-31T00:00:00Z"


@dataclass(frozen=True)
class Bad:
    """A request, and what is wrong with it."""

    error: type[Exception]
    method: str
    path: str
    json: Any = None
    content: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    more: str = ""

    def __str__(self) -> str:
        what = self.more or (str(self.json) if self.json is not None else "")
        return f"{PROBLEMS[self.error].code}-{self.method} {self.path} {what}"[:100]


def start(error: type[Exception], body: Any, path: str = CLOUD) -> Bad:
    return Bad(error, "POST", f"{path}/instances", json=body)


INVALID, UNKNOWN, MISSING = api_errors.FieldInvalid, api_errors.FieldUnknown, api_errors.FieldMissing
AS_JSON = {"Content-Type": "application/json"}

NAMED = [
    Bad(errors.CloudNotFound, "GET", "/v1/clouds/none"),
    Bad(errors.CloudNotFound, "GET", "/v1/clouds/none/instances"),
    Bad(errors.CloudNotFound, "GET", "/v1/clouds/none/instances/running"),
    Bad(errors.CloudNotFound, "GET", "/v1/clouds/none/events"),
    Bad(errors.CloudNotFound, "GET", "/v1/clouds/none/decisions"),
    Bad(errors.CloudNotFound, "GET", "/v1/clouds/none/instances/running/explanation"),
    Bad(errors.CloudNotFound, "GET", "/v1/clouds/none/events/stream"),
    Bad(errors.CloudNotFound, "GET", "/v1/clouds/none/tables"),
    Bad(errors.CloudNotFound, "GET", "/v1/clouds/none/quotes"),
    Bad(errors.CloudNotFound, "POST", "/v1/clouds/none/tables"),
    Bad(errors.CloudNotFound, "DELETE", "/v1/clouds/none/instances/running"),
    Bad(errors.CloudNotFound, "POST", "/v1/clouds/none/batch", json={"operations": [{"stop": {"id": "running"}}]}),
    start(errors.CloudNotFound, START, "/v1/clouds/none"),
    start(errors.CloudNotFound, START, "/v1/clouds/%ff%fe"),
    Bad(errors.NodeNotFound, "GET", f"{CLOUD}/nodes/none"),
    Bad(errors.NodeNotFound, "POST", f"{CLOUD}/nodes/none/drain"),
    Bad(errors.NodeNotFound, "POST", f"{CLOUD}/nodes/none/open"),
    Bad(errors.NodeNotFound, "DELETE", f"{CLOUD}/nodes/none"),
    Bad(errors.FlavorNotFound, "GET", f"{CLOUD}/flavors/none"),
    start(errors.FlavorNotFound, {**START, "flavor": "none"}),
    Bad(errors.InstanceNotFound, "GET", f"{CLOUD}/instances/none"),
    Bad(errors.InstanceNotFound, "DELETE", f"{CLOUD}/instances/none"),
    Bad(errors.InstanceNotFound, "GET", f"{CLOUD}/instances/none/explanation"),
    Bad(errors.TableNotFound, "GET", f"{CLOUD}/tables/newest"),
    Bad(errors.TableNotFound, "GET", f"{CLOUD}/tables/7"),
    Bad(errors.TableNotFound, "GET", f"{CLOUD}/tables/x"),
    Bad(errors.TableNotFound, "GET", f"{CLOUD}/quotes"),
    Bad(errors.RunNotFound, "GET", f"{CLOUD}/runs/7"),
    Bad(errors.HandoverNotFound, "POST", f"{CLOUD}/handovers/none/confirm"),
    Bad(errors.HandoverNotFound, "POST", f"{CLOUD}/handovers/running/confirm"),
    Bad(errors.MarkerInvalid, "GET", f"{CLOUD}/handovers?marker=none"),
    Bad(errors.WebhookNotFound, "GET", f"{CLOUD}/webhooks/7"),
    Bad(errors.WebhookNotFound, "GET", f"{CLOUD}/webhooks/x"),
    Bad(errors.WebhookNotFound, "DELETE", f"{CLOUD}/webhooks/7"),
    Bad(errors.WebhookNotFound, "GET", f"{CLOUD}/webhooks/7/dead"),
    *(Bad(errors.WebhookNotFound, "POST", f"{CLOUD}/webhooks/7/{what}") for what in ("pause", "resume", "test")),
    Bad(errors.WebhookNotFound, "POST", f"{CLOUD}/webhooks/7/replay", json={}),
    Bad(errors.CloudNotFound, "POST", "/v1/clouds/none/webhooks", json={"url": "https://example.org/"}),
    Bad(errors.CloudNotFound, "GET", "/v1/clouds/none/webhooks"),
    Bad(errors.RunNotFound, "GET", f"{CLOUD}/runs/99999999999999999999"),
    Bad(errors.TokenNotFound, "GET", "/v1/tokens/999"),
    Bad(errors.TokenNotFound, "GET", "/v1/tokens/x"),
    Bad(errors.TokenNotFound, "DELETE", "/v1/tokens/99999999999"),
    Bad(errors.CloudNotFound, "POST", "/v1/tokens", json={"name": "new", "role": "reader", "cloud": "none"}),
    Bad(errors.MarkerInvalid, "GET", f"{CLOUD}/instances?marker=none"),
    Bad(errors.MarkerInvalid, "GET", f"{CLOUD}/nodes?marker=none"),
    Bad(errors.MarkerInvalid, "GET", f"{CLOUD}/flavors?marker=none"),
    Bad(errors.MarkerInvalid, "GET", "/v1/clouds?marker=none"),
    Bad(errors.NodeNotFound, "GET", f"{CLOUD}/utilisation?node=none"),
    Bad(errors.TimeRangeInvalid, "GET", f"{CLOUD}/utilisation?begin_at={NOON}&end_at={EARLIER}"),
]

ONCE = b'"id": "twice", "market": "on_demand", "flavor": "c1"'
TWICE = {
    f"{CLOUD}/instances": b'{%b, "id": "other"}' % ONCE,
    f"{CLOUD}/nodes": b'{"name": "twice", "cores": 1, "cores": 2}',
    f"{CLOUD}/flavors": b'{"name": "twice", "cores": 1, "\\u006eame": "other"}',
    "/v1/clouds": b'{"name": "twice", "policy": {"seed": 1, "seed": 2}}',
    "/v1/tokens": b'{"name": "twice", "role": "reader", "role": "admin"}',
    f"{CLOUD}/batch": b'{"operations": [{"start": {%b}}, {"start": {%b, "id": "other"}}]}' % (ONCE, ONCE),
    f"{CLOUD}/batch?": b'{"operations": [{"start": {%b}}], "operations": [{"stop": {"id": "x"}}]}' % ONCE,
}
REPEATED = [
    Bad(INVALID, "POST", path, content=content, headers=AS_JSON, more="twice") for path, content in TWICE.items()
]

CONFLICTING = [
    Bad(errors.CloudExists, "POST", "/v1/clouds", json={"name": "system"}),
    Bad(errors.LogPutBack, "GET", f"{CLOUD}/events?after_seq=99999"),
    Bad(errors.LogPutBack, "GET", f"{CLOUD}/events/stream?after_seq=99999"),
    Bad(errors.LogPutBack, "POST", f"{CLOUD}/webhooks", json={"url": "https://example.org/", "after_seq": 99999}),
    Bad(errors.TokenExists, "POST", "/v1/tokens", json={"name": "admin", "role": "reader"}),
    Bad(errors.NodeExists, "POST", f"{CLOUD}/nodes", json={"name": "node-0", "cores": 5}),
    Bad(errors.FlavorExists, "POST", f"{CLOUD}/flavors", json={"name": "c1", "cores": 2}),
    Bad(errors.NodeNotEmpty, "DELETE", f"{CLOUD}/nodes/node-0"),
    Bad(errors.DrillImpossible, "POST", f"{CLOUD}/drill", json={}),
    Bad(errors.DrillImpossible, "POST", f"{CLOUD}/drill", json={"instance": "running"}),
    Bad(errors.DrillImpossible, "POST", f"{CLOUD}/drill", json={"instance": "none"}),
    Bad(errors.DrillImpossible, "GET", f"{CLOUD}/drill"),
    Bad(errors.DrillImpossible, "GET", f"{CLOUD}/drill?instance=running"),
    Bad(errors.TimeUnexpected, "POST", f"{CLOUD}/drill", json={"at": NOON}),
    Bad(errors.ExtensionOfOnDemand, "POST", f"{CLOUD}/instances/running/extend", json={"lifetime_s": 5}),
    Bad(errors.ExtensionOfOnDemand, "GET", f"{CLOUD}/instances/running/extend?lifetime_s=5"),
    Bad(errors.InstanceNotFound, "POST", f"{CLOUD}/instances/none/extend", json={"lifetime_s": 5}),
    Bad(errors.InstanceNotFound, "POST", f"{CLOUD}/instances/none/move", json={"node": "node"}),
    Bad(errors.NodeNotFound, "POST", f"{CLOUD}/instances/running/move", json={"node": "none"}),
    Bad(INVALID, "POST", f"{CLOUD}/instances/running/move", json={"node": "a b"}),
    Bad(INVALID, "POST", f"{CLOUD}/batch", json={"operations": [{"move": {"id": "running", "node": 1}}]}),
    Bad(errors.TimeMissing, "POST", "/v1/clouds/external/instances/running/extend", json={"lifetime_s": 5}),
    start(errors.InstanceConflict, {**START, "id": "running", "flavor": "c4"}),
    start(errors.InstanceConflict, {**SPOT, "id": "running"}),
    start(errors.InstanceConflict, {**START, "id": "running", "lifetime_s": 5}),
    start(errors.TimeUnexpected, {**START, "at": NOON}),
    Bad(errors.TimeUnexpected, "DELETE", f"{CLOUD}/instances/running?at={NOON}"),
    Bad(errors.TimeUnexpected, "POST", "/v1/clouds", json={"name": "other", "at": NOON}),
    start(errors.TimeMissing, START, EXTERNAL),
    Bad(errors.TimeMissing, "DELETE", f"{EXTERNAL}/instances/running"),
    start(errors.TimeBackwards, {**START, "at": EARLIER}, EXTERNAL),
    Bad(errors.TimeBackwards, "DELETE", f"{EXTERNAL}/instances/running?at={EARLIER}"),
    Bad(errors.TimeBackwards, "POST", f"{EXTERNAL}/nodes", json={"name": "n", "cores": 1, "at": EARLIER}),
    start(errors.TimeAhead, {**START, "at": FAR}, EXTERNAL),
    start(errors.TimeAhead, {**SPOT, "at": FAR}, EXTERNAL),
    Bad(errors.TimeAhead, "DELETE", f"{EXTERNAL}/instances/running?at={FAR}"),
    Bad(errors.TimeAhead, "POST", f"{EXTERNAL}/nodes", json={"name": "n", "cores": 1, "at": FAR}),
    Bad(errors.TimeAhead, "PATCH", EXTERNAL, json={"policy": {"seed": 3}, "at": FAR}),
    Bad(errors.TimeAhead, "PATCH", EXTERNAL, json={"policy": {}, "at": FAR, "jump": True}, more="3660 days"),
    start(errors.LifetimeMissing, {"id": "new", "market": "spot", "flavor": "c1"}),
    Bad(errors.OwnerNotFound, "POST", f"{CLOUD}/owners/a.b/quota", json={"cores": 1}),
    Bad(errors.OwnerNotFound, "DELETE", f"{CLOUD}/owners/-a/quota"),
    Bad(INVALID, "POST", f"{CLOUD}/owners/a/quota", json={"share": 0}),
    Bad(INVALID, "POST", f"{CLOUD}/owners/a/quota", json={}),
    Bad(INVALID, "POST", f"{CLOUD}/owners/a/quota", json={"cores": -1}),
    Bad(INVALID, "POST", f"{CLOUD}/owners/a/quota", json={"cores": 0.5}),
    start(errors.LifetimeOutOfBounds, {**SPOT, "lifetime_s": 1.499999}, "/v1/clouds/bounds"),
    start(errors.LifetimeOutOfBounds, {**SPOT, "lifetime_s": 86400.5}, "/v1/clouds/bounds"),
    start(errors.ProbabilityOutOfBounds, {**SPOT, "eviction_probability": 0.999}, "/v1/clouds/bounds"),
    Bad(errors.PolicyInvalid, "PATCH", "/v1/clouds/bounds", json={"policy": {"longest_lifetime_s": 1}}),
    Bad(errors.PolicyInvalid, "PATCH", "/v1/clouds/bounds", json={"policy": {"eviction_probability": 0.7}}),
    start(errors.ProbabilityUnexpected, {**START, "eviction_probability": 0.1}),
    start(errors.GroupOnDemand, {**START, "count": 2}),
    Bad(errors.PolicyInvalid, "PATCH", CLOUD, json={"policy": {"clock": "external"}}),
    Bad(errors.PolicyInvalid, "PATCH", CLOUD, json={"policy": {"table_max_age_s": 5}}),
    Bad(errors.PolicyInvalid, "POST", "/v1/clouds", json={"name": "other", "policy": {"table_max_age_s": 5}}),
]

ABSURD = [
    start(INVALID, {**START, **changed})
    for changed in (
        {"id": ""},
        {"id": "-a"},
        {"id": "a" * 256},
        {"id": "a\0b"},
        {"id": "a\n"},
        {"id": "ä"},
        {"id": 7},
        {"market": "SPOT"},
        {"market": 1},
        {"flavor": None},
        {"lifetime_s": -1},
        {"lifetime_s": "3"},
        {"lifetime_s": True},
        {"lifetime_s": 1e300},
        {"lifetime_s": 10**400},
        {"lifetime_s": 0.0000001},
        {"lifetime_s": [1]},
        {"eviction_probability": 0},
        {"eviction_probability": 1},
        {"eviction_probability": -0.5},
        {"eviction_probability": "0.5"},
        {"eviction_probability": True},
        {"at": 0},
        {"at": "yesterday"},
        {"at": "1970-01-01"},
        {"at": "1970-01-01T00:00:00"},
        {"at": "1970-02-30T00:00:00Z"},
        {"at": "1970-01-01T00:00:00.0000001Z"},
        {"at": "1969-12-31T23:59:59Z"},
        {"at": "9999-12-31T23:59:59-23:59"},
    )
] + [
    Bad(INVALID, "POST", f"{CLOUD}/nodes", json={"name": "n", "cores": 0}),
    Bad(INVALID, "POST", f"{CLOUD}/nodes", json={"name": "n", "cores": -4}),
    Bad(INVALID, "POST", f"{CLOUD}/nodes", json={"name": "n", "cores": 65537}),
    Bad(INVALID, "POST", f"{CLOUD}/nodes", json={"name": "n", "cores": 1.5}),
    Bad(INVALID, "POST", f"{CLOUD}/nodes", json={"name": "n", "cores": 1, "memory_mib": 2**63}),
    Bad(INVALID, "POST", f"{CLOUD}/flavors", json={"name": "a/b", "cores": 1}),
    Bad(INVALID, "POST", "/v1/clouds", json={"name": ".."}),
    Bad(INVALID, "POST", "/v1/tokens", json={"name": "new", "role": "root"}),
    Bad(INVALID, "POST", "/v1/tokens", json={"name": "", "role": "reader"}),
    Bad(INVALID, "POST", "/v1/tokens", json={"name": "new", "role": "reader", "expires_in_s": 0}),
    Bad(INVALID, "POST", "/v1/clouds", json={"name": "n", "policy": {"sample_count": 0}}),
    Bad(INVALID, "POST", "/v1/clouds", json={"name": "n", "policy": {"recompute_every_s": 0}}),
    Bad(INVALID, "PATCH", CLOUD, json={"policy": {"guarantee": None}}),
    Bad(INVALID, "PATCH", CLOUD, json={"policy": {"seed": -1}}),
    Bad(INVALID, "POST", f"{CLOUD}/instances/running/extend", json={"lifetime_s": -1}),
    Bad(INVALID, "POST", f"{CLOUD}/instances/running/extend", json={"lifetime_s": 1e300}),
    Bad(INVALID, "GET", f"{CLOUD}/instances/running/extend?lifetime_s=x"),
    Bad(INVALID, "POST", f"{CLOUD}/batch", json={"operations": [{"extend": {"id": "a b", "lifetime_s": 1}}]}),
    Bad(INVALID, "POST", f"{CLOUD}/batch", json={"operations": []}),
    Bad(INVALID, "POST", f"{CLOUD}/batch", json={"operations": [{}]}),
    Bad(INVALID, "POST", f"{CLOUD}/batch", json={"operations": [{"start": None, "stop": {"id": "running"}}]}),
    Bad(INVALID, "POST", f"{CLOUD}/batch", json={"operations": [{"start": START, "stop": {"id": "new"}}]}),
    Bad(INVALID, "POST", f"{CLOUD}/batch", json={"operations": [{"start": START}, {"start": {**START, "id": 1}}]}),
    Bad(INVALID, "POST", f"{CLOUD}/batch", json={"operations": [{"stop": {"id": "a"}}] * 1001}, more="1001"),
    Bad(INVALID, "POST", f"{CLOUD}/instances", json=[START]),
    Bad(INVALID, "GET", f"{CLOUD}/instances?limit=0"),
    Bad(INVALID, "GET", f"{CLOUD}/instances?limit=1001"),
    Bad(INVALID, "GET", f"{CLOUD}/instances?limit=x"),
    Bad(INVALID, "GET", f"{CLOUD}/instances?limit=1&limit=2"),
    Bad(INVALID, "GET", f"{CLOUD}/instances?status=dead"),
    Bad(INVALID, "GET", f"{CLOUD}/instances?marker=%00"),
    Bad(INVALID, "GET", f"{CLOUD}/nodes?marker="),
    Bad(INVALID, "GET", f"{CLOUD}/quotes?lifetime_s=1e-7"),
    Bad(INVALID, "GET", f"{CLOUD}/events?after_seq=-1"),
    Bad(INVALID, "GET", f"{CLOUD}/events/stream?after_seq=-1"),
    Bad(INVALID, "GET", f"{CLOUD}/events/stream?limit=0"),
    Bad(INVALID, "GET", f"{CLOUD}/events/stream", headers={"Last-Event-ID": "two"}),
    Bad(INVALID, "GET", f"{CLOUD}/reliability?after_seq=x"),
    Bad(INVALID, "GET", f"{CLOUD}/decisions?before_seq=0"),
    Bad(INVALID, "GET", f"{CLOUD}/decisions?before_seq=9223372036854775808"),
    Bad(INVALID, "GET", f"{CLOUD}/decisions?outcome=running"),
    Bad(INVALID, "GET", f"{CLOUD}/decisions?market=free"),
    Bad(INVALID, "GET", f"{CLOUD}/decisions?limit=1001"),
    Bad(INVALID, "GET", f"{CLOUD}/quotes?eviction_probability=2"),
    Bad(INVALID, "GET", f"{CLOUD}/quotes?eviction_probability=nan"),
    Bad(INVALID, "GET", f"{CLOUD}/quotes?lifetime_s=-1"),
    Bad(INVALID, "GET", f"{CLOUD}/tables?marker=x"),
    Bad(INVALID, "DELETE", f"{CLOUD}/instances/running?at=now"),
]

REFUSED_URLS = [
    "ftp://example.org/",
    "example.org",
    "https://",
    "https://user:password@example.org/",
    "https://example.org/#part",
    "https://example.org:99999/",
    "https://127.0.0.1/",
    "http://10.0.0.1:8080/hook",
    "http://169.254.169.254/latest/meta-data",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://0.0.0.0/",
    "http://exa mple.org/",
]

MALFORMED = [
    *(Bad(errors.WebhookRefused, "POST", f"{CLOUD}/webhooks", json={"url": url}) for url in REFUSED_URLS),
    Bad(INVALID, "POST", f"{CLOUD}/webhooks", json={"url": "https://example.org/", "kinds": []}),
    Bad(INVALID, "POST", f"{CLOUD}/webhooks", json={"url": "https://example.org/", "kinds": ["instance_gone"]}),
    Bad(INVALID, "POST", f"{CLOUD}/webhooks", json={"url": "https://example.org/" + "a" * 2000}, more="long"),
    Bad(INVALID, "POST", f"{CLOUD}/webhooks", json={"url": "https://example.org/", "after_seq": -1}),
    start(UNKNOWN, {**START, "cores": 4}),
    Bad(UNKNOWN, "POST", "/v1/clouds", json={"name": "n", "policy": {"sla": 0.1}}),
    Bad(UNKNOWN, "GET", f"{CLOUD}?full=1"),
    Bad(UNKNOWN, "GET", f"{CLOUD}/instances/running/explanation?lang=en"),
    Bad(UNKNOWN, "GET", f"{CLOUD}/instances?state=running"),
    Bad(UNKNOWN, "POST", f"{CLOUD}/instances?at={NOON}", json=START),
    start(MISSING, {"id": "new"}),
    start(MISSING, {}),
    Bad(api_errors.BodyMalformed, "POST", f"{CLOUD}/instances", content=b'{"id": ', headers=AS_JSON),
    Bad(api_errors.BodyMalformed, "POST", f"{CLOUD}/instances", content=b"", headers=AS_JSON),
    Bad(api_errors.BodyMalformed, "POST", f"{CLOUD}/instances", content=b"\xff\xfe{", headers=AS_JSON),
    Bad(api_errors.BodyTooComplex, "POST", f"{CLOUD}/instances", content=b"[" * 9000, headers=AS_JSON, more="deep"),
    Bad(api_errors.ContentTypeUnsupported, "POST", f"{CLOUD}/instances", content=b"{}"),
    Bad(
        api_errors.ContentTypeUnsupported,
        "POST",
        f"{CLOUD}/instances",
        content=b"id=new",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    ),
    Bad(api_errors.BodyTooLarge, "POST", f"{CLOUD}/instances", content=b" " * (2 << 20), headers=AS_JSON, more="2 MiB"),
    Bad(api_errors.BodyTooLarge, "POST", "/nowhere", content=b" " * (2 << 20), headers=AS_JSON, more="2 MiB"),
    Bad(api_errors.PathUnknown, "GET", "/v2"),
    Bad(api_errors.PathUnknown, "GET", "/v1/clouds/system%00"),
    Bad(api_errors.PathUnknown, "DELETE", f"{CLOUD}/instances/running%00"),
    Bad(api_errors.PathUnknown, "GET", f"{CLOUD}/"),
    Bad(api_errors.MethodUnknown, "PUT", CLOUD),
    Bad(api_errors.VersionMalformed, "GET", CLOUD, headers={"OpenStack-API-Version": "preemptible one"}),
    Bad(api_errors.VersionMalformed, "GET", CLOUD, headers={"OpenStack-API-Version": "1.0"}),
    Bad(api_errors.VersionMalformed, "GET", CLOUD, headers={"OpenStack-API-Version": "who knows"}),
    Bad(api_errors.VersionMalformed, "GET", CLOUD, headers={"OpenStack-API-Version": ""}),
    Bad(api_errors.VersionUnsupported, "GET", CLOUD, headers={"OpenStack-API-Version": "preemptible 1.1"}),
    Bad(api_errors.VersionUnsupported, "GET", CLOUD, headers={"OpenStack-API-Version": "preemptible 0.9"}),
    Bad(api_errors.Unauthenticated, "GET", CLOUD, headers={"X-Auth-Token": "wrong"}),
    Bad(api_errors.Unauthenticated, "POST", "/v1/clouds", json={"name": "n"}, headers={"X-Auth-Token": ""}),
]

BAD = [*NAMED, *REPEATED, *CONFLICTING, *ABSURD, *MALFORMED]


@pytest.fixture(scope="module")
def world(service: Service) -> Service:
    """One cloud on each clock and one with bounds, with a node, two flavors and a running instance in each."""
    make_cloud(service.client, "system", {}, {})
    make_cloud(service.client, "external", {"clock": "external"}, {"at": NOON})
    bounds = {"shortest_lifetime_s": 1.5, "longest_lifetime_s": 86400, "highest_probability": 0.5}
    make_cloud(service.client, "bounds", bounds, {})
    return service


def make_cloud(client: httpx2.Client, name: str, policy: dict[str, object], at: dict[str, str]) -> None:
    path = f"/v1/clouds/{name}"
    created = [
        client.post("/v1/clouds", json={"name": name, "policy": policy}),
        client.post(f"{path}/nodes", json={"name": "node-0", "cores": 4}),
        client.post(f"{path}/flavors", json={"name": "c1", "cores": 1}),
        client.post(f"{path}/flavors", json={"name": "c4", "cores": 4}),
        client.post(f"{path}/instances", json={**START, "id": "running", **at}),
    ]
    assert [answer.status_code for answer in created] == [201] * 5


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_bad_input_has_its_documented_error_and_leaves_no_trace(bad: Bad, world: Service) -> None:
    before = [*map(world.last_seq, CLOUDS)], world.client.get("/v1/clouds").json()
    answer = world.client.request(bad.method, bad.path, json=bad.json, content=bad.content, headers=bad.headers)
    check(answer, bad.error)
    assert ([*map(world.last_seq, CLOUDS)], world.client.get("/v1/clouds").json()) == before


def check(answer: httpx2.Response, error: type[Exception]) -> None:
    """The answer is this error, in the one form, and says nothing of the inside."""
    problem = PROBLEMS[error]
    entries = answer.json()["errors"]
    assert (answer.status_code, entries[0]["code"]) == (problem.status, problem.code), answer.text
    for entry in entries:
        assert entry["status"] == problem.status
        assert entry["request_id"] == answer.headers["X-Openstack-Request-Id"]
        assert entry["title"]
        assert entry["detail"]
        assert entry["links"]
    assert "Traceback" not in answer.text
    if problem.status == 503:
        assert int(answer.headers["Retry-After"]) >= 1
    if problem.status == 401:
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_all_faults_of_a_body_are_told_at_once(client: httpx2.Client, world: Service) -> None:
    answer = client.post(f"{CLOUD}/instances", json={"id": 7, "market": "spt", "size": 1})
    found = {(entry["code"].rsplit(".")[-1], entry["detail"].split(":")[0]) for entry in answer.json()["errors"]}
    assert found == {("invalid", "id"), ("invalid", "market"), ("unknown", "size"), ("missing", "flavor")}


def test_a_rejected_batch_decides_nothing(client: httpx2.Client, world: Service) -> None:
    before = world.last_seq("system")
    body = {"operations": [{"start": START}, {"start": {**START, "id": "other", "lifetime_s": -1}}]}
    check(client.post(f"{CLOUD}/batch", json=body), INVALID)
    assert world.last_seq("system") == before


def test_a_body_without_a_length_is_stopped_while_it_comes_in(client: httpx2.Client, world: Service) -> None:
    sent = []

    def endless() -> Iterator[bytes]:
        for part in range(64):
            sent.append(part)
            yield b" " * (1 << 16)

    check(client.post(f"{CLOUD}/instances", content=endless(), headers=AS_JSON), api_errors.BodyTooLarge)


def test_what_is_not_there_is_told_as_it_was_asked_for(client: httpx2.Client) -> None:
    for run in ("zz1", "7"):
        answer = client.get(f"{CLOUD}/runs/{run}")
        check(answer, errors.RunNotFound)
        assert f"there is no run {run!r}" in answer.json()["errors"][0]["detail"]


def test_a_token_of_a_lesser_role_may_not_do_everything(world: Service, database_url: str) -> None:
    run_sql(
        database_url, "INSERT INTO token (name, role, hash) VALUES ('eve', 'reader', sha256('tnr_reader-of-the-tests'))"
    )
    headers = {"X-Auth-Token": "tnr_reader-of-the-tests"}
    assert world.client.get(CLOUD, headers=headers).status_code == 200
    check(world.client.post(f"{CLOUD}/instances", json=START, headers=headers), api_errors.Forbidden)
    check(world.client.patch(CLOUD, json={"policy": {}}, headers=headers), api_errors.Forbidden)


def test_a_token_of_one_cloud_may_not_do_what_concerns_all(world: Service) -> None:
    body = {"name": "scoped", "role": "admin", "cloud": "system"}
    headers = {"X-Auth-Token": world.client.post("/v1/tokens", json=body).json()["token"]}
    check(world.client.post("/v1/clouds", json={"name": "more"}, headers=headers), api_errors.ScopeInsufficient)


def test_what_older_programs_cannot_read_waits_for_the_end_of_the_upgrade(database_url: str) -> None:
    run_sql(database_url, "UPDATE agreement SET log_format = 1")
    try:
        with running_service(database_url) as upgraded:
            body = {"name": "apart", "policy": {"shared_ids": False}}
            check(upgraded.client.post("/v1/clouds", json=body), errors.FormatNotInForce)
    finally:
        run_sql(database_url, f"UPDATE agreement SET log_format = {LOG_FORMAT}")


def test_a_lost_database_is_an_error_and_not_the_end(world: Service, database_url: str, embedded_server: str) -> None:
    client, before = world.client, world.last_seq("system")
    with lost(database_url, embedded_server):
        check(client.post(f"{CLOUD}/instances", json={**START, "id": "lost"}), errors.LogUnavailable)
        check(client.get(f"{CLOUD}/events"), errors.LogUnavailable)
        assert client.get("/healthcheck").status_code == 503
        assert client.get("/readiness").json()["ready"] is False
    assert world.last_seq("system") == before
    assert client.get("/healthcheck").text == "OK"
    assert client.post(f"{CLOUD}/instances", json={**START, "id": "lost"}).status_code == 201


@pytest.mark.parametrize("harm", ["ALLOW_CONNECTIONS false", "SET default_transaction_read_only = on"])
def test_a_database_that_only_answers_old_connections_is_not_ready(
    world: Service, database_url: str, embedded_server: str, harm: str
) -> None:
    name = database_url.rsplit("/", 1)[-1].partition("?")[0]
    assert world.client.get("/readiness").status_code == 200
    run_sql(embedded_server, f"ALTER DATABASE {name} {harm}")
    try:
        time.sleep(1.2)  # the last answer is good for a second
        answer = world.client.get("/readiness")
        assert (answer.status_code, answer.json()["ready"]) == (503, False)
        assert answer.json()["database"] != "OK"
        assert world.client.get("/healthcheck").status_code == 503
    finally:
        run_sql(embedded_server, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        run_sql(embedded_server, f"ALTER DATABASE {name} RESET default_transaction_read_only")
    assert world.client.get("/readiness").status_code == 200


_FULL = """
CREATE FUNCTION refuse_writes() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER refuse_writes BEFORE INSERT ON event FOR EACH STATEMENT EXECUTE FUNCTION refuse_writes()
"""


def test_a_full_disk_is_not_ready_until_the_last_try_is_some_seconds_ago(world: Service, database_url: str) -> None:
    """A trigger raises what a full disk does; the server has no other disk that could be filled without root."""
    client = world.client
    run_sql(database_url, _FULL)
    try:
        assert client.get("/healthcheck").text == "OK", "nobody has tried to write"
        check(client.post(f"{CLOUD}/instances", json={**START, "id": "full"}), errors.LogUnavailable)
        answer = client.get("/healthcheck")
        assert (answer.status_code, answer.text) == (
            503,
            f"{PROBLEMS[errors.LogUnavailable].code}: the database takes no writes: its disk is full",
        )
        assert client.get("/readiness").json()["ready"] is False
        time.sleep(5.5)
        assert client.get("/healthcheck").text == "OK", "a balancer has to let somebody try again"
        check(client.post(f"{CLOUD}/instances", json={**START, "id": "full"}), errors.LogUnavailable)
        assert client.get("/healthcheck").status_code == 503
    finally:
        run_sql(database_url, "DROP FUNCTION refuse_writes CASCADE")
    assert client.post(f"{CLOUD}/instances", json={**START, "id": "full"}).status_code == 201


@contextmanager
def lost(database_url: str, server_url: str) -> Iterator[None]:
    """Nobody is let in, and whoever was in is thrown out."""
    name = database_url.rsplit("/", 1)[-1].partition("?")[0]
    run_sql(server_url, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    run_sql(server_url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    try:
        yield
    finally:
        run_sql(server_url, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


def test_a_log_with_a_gap_is_an_error_that_names_the_remedy(world: Service, database_url: str) -> None:
    world.client.post("/v1/clouds", json={"name": "gap"})
    for number in range(3):
        world.client.post("/v1/clouds/gap/nodes", json={"name": f"n-{number}", "cores": 1})
    of_cloud = "cloud_id = (SELECT id FROM cloud WHERE name = 'gap')"
    run_sql(database_url, f"DELETE FROM event WHERE {of_cloud} AND seq = 2")
    with running_service(database_url) as fresh:
        answer = fresh.client.post("/v1/clouds/gap/nodes", json={"name": "more", "cores": 1})
        check(answer, errors.LogBroken)
        assert "docs/operations.md" in answer.text
        check(fresh.client.get("/v1/clouds/gap"), errors.LogBroken)
        assert fresh.client.get("/healthcheck").status_code == 200, "the other clouds are to be served"
        assert fresh.client.get("/v1/clouds/system").status_code == 200
        assert 'tenure_cloud_answering{cloud="gap"} 0.0' in fresh.client.get("/metrics/clouds").text
        run_sql(database_url, f"DELETE FROM event WHERE {of_cloud} AND seq > 1")
        assert fresh.client.post("/v1/clouds/gap/nodes", json={"name": "more", "cores": 1}).status_code == 201
    assert world.client.get("/v1/clouds/gap").json()["seq"] == 2


def test_writers_that_are_always_first_are_an_error(world: Service, database_url: str) -> None:
    before = world.last_seq("system")
    with always_first(database_url):
        check(world.client.post(f"{CLOUD}/instances", json={**START, "id": "late"}), errors.LogContended)
    assert world.last_seq("system") == before
    assert world.client.post(f"{CLOUD}/instances", json={**START, "id": "late"}).status_code == 201


@contextmanager
def always_first(database_url: str) -> Iterator[None]:
    """Every append finds its seq taken, as if another writer had been faster."""
    run_sql(
        database_url,
        "CREATE FUNCTION taken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'taken' "
        "USING ERRCODE = 'unique_violation', CONSTRAINT = 'event_pkey', TABLE = 'event'; END $$",
    )
    run_sql(database_url, "CREATE TRIGGER taken BEFORE INSERT ON event EXECUTE FUNCTION taken()")
    try:
        yield
    finally:
        run_sql(database_url, "DROP TRIGGER taken ON event")


def test_an_event_that_a_newer_version_wrote_is_an_error(world: Service, database_url: str) -> None:
    newer = (
        "INSERT INTO event (cloud_id, seq, kind, version, data) SELECT cloud_id, max(seq) + 1, 'node_labelled', 1, "
        "jsonb_build_object('at_us', max(at_us)) FROM event WHERE cloud_id = "
        "(SELECT id FROM cloud WHERE name = 'system') GROUP BY cloud_id"
    )
    with running_service(database_url) as other:
        run_sql(database_url, newer)
        try:
            check(other.client.post(f"{CLOUD}/instances", json={**START, "id": "newer"}), errors.LogNewer)
            assert other.client.get("/readiness").json()["code"] == "preemptible.log.newer"
        finally:
            run_sql(database_url, "DELETE FROM event WHERE kind = 'node_labelled'")


def test_more_than_may_wait_is_an_error(world: Service, database_url: str) -> None:
    body = {"operations": [{"stop": {"id": "running"}}] * 11}
    before = world.last_seq("system")
    with running_service(database_url, queue_limit=10) as small:
        check(small.client.post(f"{CLOUD}/batch", json=body), errors.Overloaded)
    assert world.last_seq("system") == before


def test_a_batch_that_needs_the_tables_of_two_epochs_is_decided_up_to_the_second(database_url: str) -> None:
    policy = {"clock": "external", "warm_up_s": 0, "recompute_every_s": 3600, "table_max_age_s": 3600}
    starts = [{"start": {**SPOT, "id": f"s-{n}", "at": f"1970-01-01T0{n}:30:00Z"}} for n in (1, 2, 3)]
    with running_service(database_url, table_wait_s=0.1) as impatient:
        make_cloud(impatient.client, "crossing", policy, {"at": "1970-01-01T00:30:00Z"})
        path = "/v1/clouds/crossing"
        answer = impatient.client.post(f"{path}/batch", json={"operations": starts})
        results = answer.json()["results"]
        assert [result["status"] for result in results] == [201, 503, 503]
        assert results[1]["errors"][0]["code"] == code_of(errors.EpochsCrossed)
        assert impatient.client.get(path).json()["at"] == "1970-01-01T01:30:00Z"
        again = impatient.client.post(f"{path}/batch", json={"operations": starts}).json()["results"]
    assert [result["status"] for result in again] == [201, 201, 503]
    assert again[0] == results[0]


def code_of(error: type[Exception]) -> str:
    return PROBLEMS[error].code


def test_an_admin_who_says_so_moves_the_clock_by_years(world: Service) -> None:
    path, body = "/v1/clouds/jumping", {"policy": {}, "at": "1979-11-21T00:00:00Z"}
    make_cloud(world.client, "jumping", {"clock": "external"}, {"at": NOON})
    check(world.client.patch(path, json=body), errors.TimeAhead)
    seq = world.last_seq("jumping")
    moved = world.client.patch(path, json={**body, "jump": True})
    assert (moved.status_code, moved.json()["at"], moved.json()["seq"]) == (200, body["at"], seq + 1)
    again = world.client.patch(path, json={**body, "jump": True})
    assert (again.status_code, again.json()["seq"]) == (200, seq + 1)
    started = world.client.post(f"{path}/instances", json={**START, "at": "1979-11-21T23:00:00Z"})
    assert started.status_code == 201


def test_an_id_of_another_owner_is_refused_and_outlives_its_token(world: Service) -> None:
    make_cloud(world.client, "apart", {"guarantee": "none", "shared_ids": False}, {})
    path = "/v1/clouds/apart/instances"

    def token(name: str, role: str = "member") -> dict[str, str]:
        made = world.client.post("/v1/tokens", json={"name": name, "role": role})
        return {"X-Auth-Token": made.json()["token"]}

    first, second, other, service = token("left"), token("left.2"), token("right"), token("right.all", "service")
    body = {**START, "id": "left.1"}
    for squatter in (other, service):
        check(world.client.post(path, json=body, headers=squatter), errors.IdNotOwn)
    started = world.client.post(path, json=body, headers=first)
    assert started.status_code == 201
    for squatter in (other, service):
        check(world.client.post(path, json={**body, "flavor": "c4"}, headers=squatter), errors.IdNotOwn)
        check(world.client.delete(f"{path}/left.1", headers=squatter), errors.IdNotOwn)
    batch = {"operations": [{"stop": {"id": "left.1"}}, {"start": {**START, "id": "right.1"}}]}
    results = world.client.post("/v1/clouds/apart/batch", json=batch, headers=other).json()["results"]
    assert [result["status"] for result in results] == [403, 201]
    again = world.client.post(path, json=body, headers=second)
    assert (again.status_code, again.json()) == (201, started.json()), "a token that takes the place of the first"
    assert world.client.delete(f"{path}/left.1", headers=second).status_code == 204
    assert world.client.delete(f"{path}/right.1").status_code == 204, "an admin may stop anything"


def test_more_streams_than_there_may_be_are_an_error(world: Service, database_url: str) -> None:
    with running_service(database_url, stream_limit=0) as small:
        check(small.client.get(f"{CLOUD}/events/stream"), errors.TooManyStreams)


def test_more_webhooks_than_there_may_be_are_an_error(world: Service, database_url: str) -> None:
    with running_service(database_url, webhook_limit=0) as small:
        body = {"url": "https://example.org/"}
        check(small.client.post(f"{CLOUD}/webhooks", json=body), errors.TooManyWebhooks)


def test_more_classes_than_there_may_be_are_an_error(world: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    rejected = {**SPOT, "id": "earlier", "eviction_probability": 0.2}
    first = world.client.post(f"{CLOUD}/instances", json=rejected)
    before = world.last_seq("system")
    monkeypatch.setattr(limits, "MOST_CLASSES", 0)
    check(world.client.post(f"{CLOUD}/instances", json={**SPOT, "eviction_probability": 0.3}), errors.TooManyClasses)
    again = world.client.post(f"{CLOUD}/instances", json=rejected)
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert world.last_seq("system") == before
    assert world.client.post(f"{CLOUD}/instances", json={**SPOT, "id": "default"}).status_code == 201


def test_more_owners_than_there_may_be_are_an_error(world: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    token = world.client.post("/v1/tokens", json={"name": "newcomer.1", "role": "member"}).json()["token"]
    asked, headers = {**SPOT, "id": "newcomers"}, {"X-Auth-Token": token}
    before, most = world.last_seq("system"), limits.MOST_OWNERS
    monkeypatch.setattr(limits, "MOST_OWNERS", 0)
    check(world.client.post(f"{CLOUD}/instances", json=asked, headers=headers), errors.TooManyOwners)
    assert world.last_seq("system") == before
    monkeypatch.setattr(limits, "MOST_OWNERS", most)
    first = world.client.post(f"{CLOUD}/instances", json=asked, headers=headers)
    monkeypatch.setattr(limits, "MOST_OWNERS", 0)
    again = world.client.post(f"{CLOUD}/instances", json=asked, headers=headers)
    assert (first.status_code, again.json()) == (201, first.json()), "a start that was decided has its answer"


def test_more_instances_than_there_may_be_are_an_error(world: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = {**START, "id": "ended"}
    first = world.client.post(f"{CLOUD}/instances", json=ended)
    assert world.client.delete(f"{CLOUD}/instances/ended").status_code == 204
    before = world.last_seq("system")
    monkeypatch.setattr(limits, "MOST_RUNNING", 0)
    check(world.client.post(f"{CLOUD}/instances", json={**START, "id": "one-more"}), errors.TooManyInstances)
    again = world.client.post(f"{CLOUD}/instances", json=ended)
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert world.last_seq("system") == before


def test_more_open_jobs_than_there_may_be_are_an_error(world: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world.last_seq("system")
    monkeypatch.setattr(homeside, "MOST_OPEN", 0)
    body = {"id": "one-more", "flavor": "c1", "lifetime_s": 60}
    check(world.client.post(f"{CLOUD}/jobs", json=body), errors.TooManyJobs)
    assert world.last_seq("system") == before


def test_more_nodes_and_flavors_than_there_may_be_are_an_error(world: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world.last_seq("system")
    monkeypatch.setattr(scheduler, "MOST_NODES", 1)
    monkeypatch.setattr(scheduler, "MOST_FLAVORS", 1)
    check(world.client.post(f"{CLOUD}/nodes", json={"name": "one-more", "cores": 1}), errors.TooManyNodes)
    check(world.client.post(f"{CLOUD}/flavors", json={"name": "one-more", "cores": 1}), errors.TooManyFlavors)
    assert world.last_seq("system") == before


def test_more_quotas_than_there_may_be_are_an_error(world: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world.last_seq("system")
    monkeypatch.setattr(owners, "MOST_QUOTAS", 0)
    check(world.client.post(f"{CLOUD}/owners/a/quota", json={"cores": 1}), errors.TooManyQuotas)
    assert world.last_seq("system") == before


def test_more_evictions_than_there_may_be_are_an_error(world: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    make_cloud(world.client, "full", {"guarantee": "none", "grace_s": 60}, {})
    path = "/v1/clouds/full"
    assert world.client.post(f"{path}/nodes", json={"name": "full", "cores": 4}).status_code == 201
    assert world.client.post(f"{path}/instances", json={**SPOT, "id": "victim"}).status_code == 201
    before = world.last_seq("full")
    for limit in ("MOST_VICTIMS", "MOST_HANDOVERS"):
        with monkeypatch.context() as patch:
            patch.setattr(decide, limit, 0)
            check(world.client.post(f"{path}/drill", json={}), errors.TooManyEvictions)
    assert world.last_seq("full") == before
    assert world.client.post(f"{path}/drill", json={}).status_code == 200


def test_a_fault_of_the_service_shows_nothing_of_the_inside(
    world: Service, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_sql(database_url, "ALTER TABLE forecast_run RENAME TO mislaid")
    run_sql(database_url, "CREATE VIEW forecast_run AS SELECT * FROM mislaid WHERE 1 / 0 > 0")
    try:
        answer = world.client.get(f"{CLOUD}/runs")
    finally:
        run_sql(database_url, "DROP VIEW forecast_run")
        run_sql(database_url, "ALTER TABLE mislaid RENAME TO forecast_run")
    check(answer, api_errors.Unforeseen)
    assert "forecast_run" not in answer.text
    (record,) = [record for record in caplog.records if record.msg == "a request failed"]
    assert answer.headers["X-Openstack-Request-Id"] == record.request_id
    assert "forecast_run" in caplog.text


def test_a_background_task_that_keeps_failing_is_told_by_health(world: Service) -> None:
    async def fail() -> None:
        raise KeyError("n2")

    async def ask() -> tuple[httpx2.Response, httpx2.Response]:
        async with background(doomed=fail):
            await asyncio.sleep(2)  # three failures, with the pauses between them
            return await asyncio.to_thread(lambda: tuple(map(world.client.get, ("/healthcheck", "/readiness"))))

    health, readiness = asyncio.run(ask())
    assert (health.status_code, readiness.status_code) == (503, 503)
    assert health.text.startswith(code_of(errors.TaskFailing))
    assert readiness.json()["code"] == code_of(errors.TaskFailing)
    assert "doomed" in health.text


def test_the_table_of_errors_is_complete() -> None:
    assert set(PROBLEMS) == leaves(TenureError) | leaves(RequestError)
    assert len({problem.code for problem in PROBLEMS.values()}) == len(PROBLEMS)
    for problem in PROBLEMS.values():
        assert problem.code.startswith("preemptible.")
        assert problem.code.count(".") == 2


def leaves(root: type[Exception]) -> set[type[Exception]]:
    below = root.__subclasses__()
    return {leaf for child in below for leaf in leaves(child)} if below else {root}


def test_what_ended_what_overruns_and_what_is_not_longer_is_not_extended(service: Service) -> None:
    client, path = service.client, "/v1/clouds/extended"
    client.post("/v1/clouds", json={"name": "extended", "policy": {"guarantee": "none", "clock": "external"}})
    client.post(f"{path}/nodes", json={"name": "node", "cores": 4})
    client.post(f"{path}/flavors", json={"name": "c1", "cores": 1})
    for name in ("ended", "spot"):
        body = {"id": name, "market": "spot", "flavor": "c1", "lifetime_s": 60, "at": NOON}
        assert client.post(f"{path}/instances", json=body).json()["status"] == "accepted"
    client.delete(f"{path}/instances/ended?at={NOON}").raise_for_status()

    def extend(name: str, lifetime_s: float, at: str) -> httpx2.Response:
        return client.post(f"{path}/instances/{name}/extend", json={"lifetime_s": lifetime_s, "at": at})

    before = service.last_seq("extended")
    check(extend("ended", 600, NOON), errors.ExtensionOfEnded)
    check(extend("spot", 60, NOON), errors.ExtensionNotLonger)
    check(extend("spot", 600, NOON.replace("00:00Z", "01:01Z")), errors.ExtensionTooLate)
    assert service.last_seq("extended") == before


def test_what_ended_what_is_a_group_and_what_finds_no_place_is_not_moved(service: Service) -> None:
    client, path = service.client, "/v1/clouds/moved"
    client.post("/v1/clouds", json={"name": "moved", "policy": {"guarantee": "none"}})
    for node in ("a", "full", "shut"):
        client.post(f"{path}/nodes", json={"name": node, "cores": 4})
    client.post(f"{path}/flavors", json={"name": "c1", "cores": 1})
    client.post(f"{path}/flavors", json={"name": "c4", "cores": 4})
    for name, count in (("ended", 1), ("spot", 1), ("group", 2)):
        body = {"id": name, "market": "spot", "flavor": "c1", "lifetime_s": 600, "count": count}
        assert client.post(f"{path}/instances", json=body).json()["status"] == "accepted"
    client.post(f"{path}/instances", json={"id": "od", "market": "on_demand", "flavor": "c4"})
    client.delete(f"{path}/instances/ended").raise_for_status()
    client.post(f"{path}/nodes/shut/drain").raise_for_status()
    before = service.last_seq("moved")

    def move(name: str, node: str) -> httpx2.Response:
        return client.post(f"{path}/instances/{name}/move", json={"node": node})

    check(move("ended", "a"), errors.MoveOfEnded)
    check(move("group", "a"), errors.MoveOfGroup)
    check(move("spot", "shut"), errors.MoveToDrained)
    check(move("spot", "full"), errors.MoveWithoutRoom)
    body = {"node": "full", "flavor": "c1"}
    check(client.post(f"{path}/instances/spot/observe", json=body), errors.ObservedSpot)
    check(client.post(f"{path}/nodes/full/resize", json={"cores": 1}), errors.NodeTooSmall)
    assert service.last_seq("moved") == before


def test_jobs_that_are_refused(service: Service) -> None:
    client, path = service.client, "/v1/clouds/worked"
    client.post("/v1/clouds", json={"name": "worked"}).raise_for_status()
    client.post(f"{path}/flavors", json={"name": "c1", "cores": 1}).raise_for_status()
    job = {"id": "job", "flavor": "c1", "count": 2, "lifetime_s": 60}
    client.post(f"{path}/jobs", json=job).raise_for_status()
    before = service.last_seq("worked")
    check(client.post(f"{path}/jobs", json=job | {"count": 3}), errors.JobConflict)
    check(client.get(f"{path}/jobs/nobody"), errors.JobNotFound)
    check(client.post(f"{path}/jobs", json=job | {"id": "b", "federate": "only", "peers": ["no"]}), errors.PeerNotFound)
    assert service.last_seq("worked") == before


def test_peers_and_offers_that_are_refused(service: Service) -> None:
    client, path = service.client, "/v1/clouds/hosting"
    client.post("/v1/clouds", json={"name": "hosting", "policy": {"guarantee": "none"}}).raise_for_status()
    client.post(f"{path}/nodes", json={"name": "n", "cores": 40}).raise_for_status()
    client.post(f"{path}/flavors", json={"name": "c1", "cores": 1}).raise_for_status()
    clock = {"guarantee": "none", "clock": "external"}
    client.post("/v1/clouds", json={"name": "hosted-then", "policy": clock}).raise_for_status()
    peer = {"name": "origin", "url": "https://192.0.43.8", "cloud": "c", "token": "t"}
    client.post("/v1/peers", json=peer).raise_for_status()
    check(client.post("/v1/peers", json=peer), errors.PeerExists)
    check(client.post("/v1/peers", json=peer | {"name": "inside", "url": "https://10.0.0.1"}), errors.PeerRefused)
    token = client.post("/v1/tokens", json={"name": "origin.1", "role": "peer"}).json()["token"]
    asked = {"cores": 1, "count": 2, "lifetime_s": 60, "hold_s": 30}

    def offer(cloud: str, **more: object) -> httpx2.Response:
        headers = {"X-Auth-Token": token}
        return client.put(f"/v1/clouds/{cloud}/offers/job/1", json=asked | more, headers=headers)

    assert offer("hosting").json()["word"] == "held"
    before = service.last_seq("hosting")
    assert offer("hosting").json()["word"] == "held", "the same offer again has the same answer"
    check(offer("hosting", count=1), errors.OfferConflict)
    check(offer("hosted-then"), errors.ClockExternal)
    data = {"inputs": [{"key": "data/in", "bytes": 1, "sha256": "0" * 64}]}
    job = {"id": "data", "flavor": "c1", "lifetime_s": 60, "federate": "allowed"} | data
    check(client.post(f"{path}/jobs", json=job), errors.DataUnavailable)
    check(client.get(f"{path}/offers/job/2", headers={"X-Auth-Token": token}), errors.OfferNotFound)
    for name in ("-x", "%C3%A9", "a%0Ab", "%1b%5b31m", "%3Cscript%3E", "=HYPERLINK(1)", "x" * 256):
        answer = client.put(f"{path}/offers/{name}/1", json=asked, headers={"X-Auth-Token": token})
        check(answer, errors.OfferNotFound)
    stranger = client.post("/v1/tokens", json={"name": "not-entered", "role": "peer"}).json()["token"]
    check(client.get(f"{path}/offers/job/2", headers={"X-Auth-Token": stranger}), errors.NotAPeer)
    assert service.last_seq("hosting") == before


def test_every_error_of_the_table_is_provoked_here() -> None:
    """By a bad request, or by name in a test of its own."""
    provoked = {bad.error for bad in BAD}
    source = inspect.getsource(inspect.getmodule(check)) + "".join(
        Path(__file__).with_name(name).read_text()
        for name in (
            "test_api_limits.py",
            "test_api_bounds.py",
            "test_waiting_for_tables.py",
            "test_calibrated.py",
            "test_venues.py",
            "test_clusters.py",
            "test_plans.py",
            "test_keystone_away.py",
            "test_names_at_hosts.py",
        )
    )
    for error in set(PROBLEMS) - provoked:
        assert f"errors.{error.__name__})" in source


def test_every_error_of_the_table_is_documented() -> None:
    """But for those of paths and methods that there are not, of what never became a request, and of health alone."""
    documented = {error for operation in ENDPOINTS for error in errors_of(operation)}
    assert set(PROBLEMS) - documented == {
        errors.TaskFailing,
        api_errors.PathUnknown,
        api_errors.MethodUnknown,
        api_errors.RequestMalformed,
        api_errors.RequestTooSlow,
        api_errors.HeadTooLarge,
        api_errors.TargetTooLong,
        api_errors.FormInvalid,
        api_errors.ConnectionsExhausted,
    }


def test_a_cloud_without_a_table_says_until_when(client: httpx2.Client) -> None:
    def told(name: str, warm_up_s: int) -> str:
        client.post("/v1/clouds", json={"name": name, "policy": {"warm_up_s": warm_up_s}}).raise_for_status()
        client.post(f"/v1/clouds/{name}/flavors", json={"name": "small", "cores": 1}).raise_for_status()
        by_quotes, by_curves = (
            client.get(f"/v1/clouds/{name}/{place}").json()["errors"][0]["detail"]
            for place in ("quotes", "curves?flavor=small")
        )
        assert by_quotes == by_curves
        return by_quotes

    assert re.search(
        r"published yet: the cloud warms up until 2\d{3}-\d\d-\d\d .*tenure import", told("warming", 86400)
    )
    assert re.search(r"the first is due at 2\d{3}-.*; POST /v1/clouds/warm/tables asks for one", told("warm", 0))


def test_a_request_with_several_calls_has_one_bound(database_url: str) -> None:
    """Its token is read late, and its events would be read never."""
    with running_service(database_url, database_timeout_s=6) as slow, psycopg.connect(database_url) as first:
        slow.client.post("/v1/clouds", json={"name": "bounded"}).raise_for_status()
        token = slow.client.post("/v1/tokens", json={"name": "bounded", "role": "reader"}).json()["token"]
        with psycopg.connect(database_url) as second:
            first.execute("LOCK TABLE token IN ACCESS EXCLUSIVE MODE")
            second.execute("LOCK TABLE event IN ACCESS EXCLUSIVE MODE")
            threading.Timer(4.5, first.rollback).start()
            began = time.monotonic()
            answer = slow.client.get("/v1/clouds/bounded/events", headers={"X-Auth-Token": token})
            took_s = time.monotonic() - began
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (503, "preemptible.log.unavailable")
    assert 4.5 < took_s < 9, "two bounds would be at least ten seconds"
