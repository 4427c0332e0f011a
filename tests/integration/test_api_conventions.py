"""Tests of the rules for every answer: request ids, versions, methods, tokens (OpenStack API guidelines)."""

from __future__ import annotations

import logging
import re
import time
from base64 import b64encode
from hashlib import sha256

import httpx2
import pytest
from api_service import TOKEN, Service, recorded_requests
from servers import run_sql

from app.domain.values import Policy
from app.platform.http import auth
from app.platform.http.auth import GRANTS, Role
from app.processes.endpoints import ENDPOINTS
from app.scheduling.wire.clouds import PolicyBody
from tenure_client.forms.clouds import PolicyAnswer

REQUEST_ID = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
VERSION = "OpenStack-API-Version"


@pytest.fixture
def anyone(service: Service) -> httpx2.Client:
    """A client without a token."""
    with httpx2.Client(base_url=service.url) as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/healthcheck", "/v1/clouds", "/v1/clouds/none", "/none", "/docs"])
def test_every_answer_has_a_request_id_and_the_version(client: httpx2.Client, path: str) -> None:
    first, second = client.get(path), client.get(path)
    assert REQUEST_ID.fullmatch(first.headers["X-Openstack-Request-Id"])
    assert first.headers["X-Openstack-Request-Id"] != second.headers["X-Openstack-Request-Id"]
    assert first.headers[VERSION] == "preemptible 1.0"
    assert VERSION in first.headers["Vary"]


def test_the_callers_own_request_id_is_logged_beside_ours(client: httpx2.Client) -> None:
    given = "req-12345678-1234-1234-1234-123456789abc"
    with recorded_requests() as lines:
        ours = client.get("/v1/clouds", headers={"X-Openstack-Request-Id": given}).headers["X-Openstack-Request-Id"]
        client.get("/v1/clouds", headers={"X-Openstack-Request-Id": "forged, line"})
    assert ours != given
    assert [line["callers_request_id"] for line in lines] == [given, "req-unreadable"]
    assert lines[0]["request_id"] == ours


def test_a_request_is_one_line_with_what_it_was_and_who_sent_it(client: httpx2.Client) -> None:
    with recorded_requests() as lines:
        assert client.get("/v1/clouds/some%0Aname%1B/nodes?limit=1").status_code == 404
        assert client.head("/nowhere%0A", headers={"X-Auth-Token": "tnr_wrong"}).status_code == 404
        assert client.get("/v1/clouds", headers={"X-Auth-Token": "tnr_wrong"}).status_code == 401
        client.get("/healthcheck")
    assert all(line.pop("duration_s") > 0 and line.pop("address") == "127.0.0.1" for line in lines)
    ids = [line.pop("request_id") for line in lines]
    assert len({*ids}) == 4
    assert lines == [
        {
            "level": "info", "event": "request", "operation": "list_nodes", "cloud": "some%0Aname%1B",
            "caller": "admin", "method": "GET", "path": "/v1/clouds/some%0Aname%1B/nodes", "status": 404,
        },
        {"level": "info", "event": "request", "method": "HEAD", "path": "/nowhere%0A", "status": 404},
        {
            "level": "info", "event": "request", "operation": "list_clouds", "method": "GET", "path": "/v1/clouds",
            "status": 401,
        },
        {
            "level": "debug", "event": "request", "operation": "check_health", "method": "GET", "path": "/healthcheck",
            "status": 200,
        },
    ]  # fmt: skip


@pytest.mark.parametrize(
    "asked",
    ["preemptible 1.0", "preemptible latest", "compute 2.90", "compute 2.1, preemptible 1.0", "placement latest"],
)
def test_versions_that_there_are(client: httpx2.Client, asked: str) -> None:
    answer = client.get("/v1/clouds", headers={VERSION: asked})
    assert (answer.status_code, answer.headers[VERSION]) == (200, "preemptible 1.0")


def test_a_version_out_of_range_is_told_the_range(client: httpx2.Client) -> None:
    answer = client.get("/v1/clouds", headers={VERSION: "preemptible 2.0"})
    (entry,) = answer.json()["errors"]
    assert (answer.status_code, entry["min_version"], entry["max_version"]) == (406, "1.0", "1.0")


def test_discovery_needs_no_token(anyone: httpx2.Client) -> None:
    (version,) = anyone.get("/").json()["versions"]
    assert (version["id"], version["status"]) == ("v1", "CURRENT")
    assert (version["min_version"], version["max_version"]) == ("1.0", "1.0")
    assert version["links"]
    assert anyone.get("/healthcheck").text == "OK"
    assert anyone.get("/readiness").json()["ready"] is True
    assert anyone.get("/openapi.json").status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-Auth-Token": TOKEN}, 200),
        ({"Authorization": f"Bearer {TOKEN}"}, 200),
        ({"Authorization": f"bearer {TOKEN}"}, 200),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"X-Auth-Token": TOKEN + "x"}, 401),
        ({"X-Auth-Token": "ä".encode()}, 401),
        ({}, 401),
    ],
)
def test_tokens(anyone: httpx2.Client, headers: dict[str, str], status: int) -> None:
    assert anyone.get("/v1/clouds", headers=headers).status_code == status


def test_everything_but_the_service_itself_needs_a_token(anyone: httpx2.Client) -> None:
    for operation in ENDPOINTS:
        if operation.path.startswith("/v1"):
            assert operation.role is not None
            answer = anyone.request(operation.method, operation.path)
            assert answer.status_code == 401, operation.name


def test_a_revoked_token_is_refused_within_seconds(
    anyone: httpx2.Client, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "CACHED_S", 0.2)
    run_sql(database_url, "INSERT INTO token (name, role, hash) VALUES ('bob', 'reader', sha256('tnr_bob'))")
    headers = {"X-Auth-Token": "tnr_bob"}
    assert anyone.get("/v1/clouds", headers=headers).status_code == 200
    run_sql(database_url, "UPDATE token SET revoked_at = now() WHERE name = 'bob'")
    time.sleep(0.3)
    assert anyone.get("/v1/clouds", headers=headers).status_code == 401


def test_no_token_is_logged(client: httpx2.Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), recorded_requests() as lines:
        client.get("/v1/clouds", headers={"X-Openstack-Request-Id": f"req-{TOKEN}"})
    assert len(lines) == 1
    assert TOKEN not in repr(lines)
    assert TOKEN not in "".join(line for line in caplog.messages if "req-" in line)


def test_what_an_open_page_asks_by_itself_is_no_news(client: httpx2.Client) -> None:
    page, renewed = "/ui/sign-in", {"X-Tenure-Live": "1"}
    with recorded_requests() as lines:
        client.get(page)
        client.get(page, headers=renewed)
        client.get("/ui/static/pages.css")
        client.get("/ui/static/none.css")
        client.post(page, headers=renewed, data={"token": "tnr_wrong"})
        client.get("/v1/clouds", headers=renewed)
    told = [(line["level"], line["path"]) for line in lines]
    assert told == [
        ("info", page),
        ("debug", page),
        ("debug", "/ui/static/pages.css"),
        ("info", "/ui/static/none.css"),
        ("info", page),
        ("info", "/v1/clouds"),
    ]


def test_roles_grow() -> None:
    assert GRANTS[Role.READER] < GRANTS[Role.MEMBER] < GRANTS[Role.SERVICE] < GRANTS[Role.ADMIN]
    assert set(GRANTS) == set(Role)
    assert all(role in granted for role, granted in GRANTS.items())


def test_head_is_get_without_the_body(client: httpx2.Client) -> None:
    for path, status in (("/v1/clouds", 200), ("/", 200), ("/v1/clouds/none", 404), ("/none", 404)):
        got, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (status, b"")
        assert head.headers["Content-Length"] == got.headers["Content-Length"]
        assert head.headers["Content-Type"] == got.headers["Content-Type"]


def test_options_and_wrong_methods_tell_the_methods(anyone: httpx2.Client) -> None:
    allowed = {
        "/v1/clouds": "GET, HEAD, OPTIONS, POST",
        "/v1/clouds/a": "GET, HEAD, OPTIONS, PATCH",
        "/v1/clouds/a/instances/b": "DELETE, GET, HEAD, OPTIONS",
        "/v1/clouds/a/batch": "OPTIONS, POST",
    }
    for path, methods in allowed.items():
        options, wrong = anyone.options(path), anyone.put(path)
        assert (options.status_code, options.headers["Allow"]) == (204, methods)
        assert (wrong.status_code, wrong.headers["Allow"]) == (405, methods)
    assert anyone.options("/none").status_code == 404


def test_the_body_may_name_its_charset(client: httpx2.Client) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    answer = client.post("/v1/clouds", content=b'{"name": "charset"}', headers=headers)
    assert answer.status_code == 201


def test_the_wires_policy_is_the_domains() -> None:
    fields = set(Policy.__dataclass_fields__)
    assert set(PolicyBody.model_fields) == fields
    assert PolicyBody().over(Policy()) == Policy()
    assert {field.replace("_us", "_s") for field in fields} == set(PolicyAnswer.__struct_fields__)


@pytest.mark.parametrize(
    "path", ["/", "/docs", "/docs/assets/swagger-ui.css", "/openapi.json", "/nowhere", "/v1/tokens/x"]
)
def test_browsers_make_no_more_of_an_answer_than_it_is(client: httpx2.Client, path: str) -> None:
    headers = client.get(path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


def test_the_documentation_runs_its_own_script_alone(client: httpx2.Client) -> None:
    answer = client.get("/docs")
    (inline,) = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    hashed = b64encode(sha256(inline.encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{hashed}'; " in answer.headers["Content-Security-Policy"]
