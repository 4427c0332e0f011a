"""Every page refuses every wrong role and no right one, as `test_api_roles` has it of every operation; and there is
nothing else that the service answers.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from api_service import Service, running_service
from starlette.routing import Mount, Route

from app.platform.pages.guard import COOKIE
from app.processes.endpoints import ENDPOINTS
from app.processes.pages import _routes

PUBLIC = {"/ui/sign-in", "/ui/sign-out"}
FILES = {"/ui/static", "/docs/assets"}
DOCUMENTS = {"/docs", "/openapi.json"}
READERS = {"reader": True, "member": True, "service": True, "admin": True, "peer": False}
"""Roles that may see the pages."""

PAGES = sorted(route.path for route in _routes() if isinstance(route, Route) and route.path not in PUBLIC)
OF_A_CLOUD = [path for path in PAGES if "{cloud}" in path]
OF_NO_CLOUD = ("/ui/venues", "/ui/plans", "/ui/clusters", "/ui/federation", "/ui/peers")
OWN, OTHER, NONE = "own", "other", "none"


@pytest.fixture(scope="module")
def tokens(service: Service) -> dict[tuple[str, str | None], str]:
    for cloud in (OWN, OTHER):
        service.client.post("/v1/clouds", json={"name": cloud}).raise_for_status()
    made = {}
    for role in READERS:
        for cloud in (None, OWN):
            body = {"name": f"{role}-{cloud}", "role": role, **({"cloud": cloud} if cloud else {})}
            made[role, cloud] = service.client.post("/v1/tokens", json=body).json()["token"]
    return made


@pytest.fixture(scope="module")
def anyone(service: Service) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=service.url) as client:
        yield client


def see(anyone: httpx2.Client, path: str, token: str | None, cloud: str) -> httpx2.Response:
    """The page's answer; of a live one only its beginning."""
    path = (
        path.replace("{cloud}", cloud)
        .replace("{path:path}", "nowhere")
        .replace("{instance}", "none")
        .replace("{venue}", "none")
        .replace("{pool}", "1")
        .replace("{peer}", "none")
        .replace("{cluster}", "none")
        .replace("{job}", "none")
        .replace("{plan}", "none")
    )
    headers = {"Cookie": f"{COOKIE}={token}"} if token else {}
    with anyone.stream("GET", path, headers=headers, follow_redirects=False) as answer:
        if not answer.headers.get("Content-Type", "").startswith("text/event-stream"):
            answer.read()
    return answer


def test_the_service_answers_nothing_else(service: Service) -> None:
    """A path that is neither an operation nor a page must be entered here, and be for everybody."""
    there = {route.path for route in service.server.config.app.routes if isinstance(route, Route | Mount)}
    operations = {operation.path for operation in ENDPOINTS}
    assert there | operations == operations | set(PAGES) | PUBLIC | FILES | DOCUMENTS


@pytest.mark.parametrize("cloud", [None, OWN], ids=["all-clouds", "one-cloud"])
@pytest.mark.parametrize("role", READERS)
@pytest.mark.parametrize("path", PAGES)
def test_pages_are_for_readers(anyone, tokens, path, role, cloud) -> None:
    answer = see(anyone, path, tokens[role, cloud], OWN)
    if READERS[role] and not (cloud and path.startswith(OF_NO_CLOUD)):
        assert answer.status_code in ({404} if "none" in answer.url.path or "nowhere" in answer.url.path else {200})
    else:
        assert answer.status_code == 403


@pytest.mark.parametrize("path", OF_A_CLOUD)
def test_to_a_token_of_one_cloud_others_have_no_pages(anyone, tokens, path) -> None:
    for role, may_read in READERS.items():
        told = [see(anyone, path, tokens[role, OWN], cloud) for cloud in (OTHER, NONE)]
        assert {answer.status_code for answer in told} == {404 if may_read else 403}


def test_pages_of_all_clouds_show_a_token_of_one_only_that(anyone, tokens) -> None:
    page = see(anyone, "/ui", tokens["admin", OWN], OWN).text
    assert f"/ui/clouds/{OWN}" in page
    assert f"/ui/clouds/{OTHER}" not in page
    with anyone.stream("GET", "/ui/live", headers={"Cookie": f"{COOKIE}={tokens['reader', OWN]}"}) as live:
        first = next(line for line in live.iter_lines() if line.startswith("data:"))
    assert OWN in first
    assert OTHER not in first


@pytest.mark.parametrize("token", [None, "tnr_guess"])
@pytest.mark.parametrize("path", PAGES)
def test_without_a_valid_token_there_is_only_the_door(anyone, tokens, path, token) -> None:
    answer = see(anyone, path, token, OWN)
    assert answer.status_code == 303
    assert answer.headers["Location"].startswith("/ui/sign-in?next=")


def test_a_cookie_opens_pages_and_nothing_else(anyone, tokens) -> None:
    """So a page of another site that makes a browser call the interface gets nothing for it."""
    for operation in ENDPOINTS:
        if operation.role is not None:
            path = operation.path.replace("{cloud}", OWN)
            headers = {"Cookie": f"{COOKIE}={tokens['admin', None]}"}
            assert anyone.request(operation.method, path, headers=headers).status_code == 401, operation.name


def test_guessing_at_the_door_is_limited(database_url: str) -> None:
    with running_service(database_url, address_requests_per_min=3) as service:
        form = {"token": "tnr_guess", "next": "/ui"}
        with httpx2.Client(base_url=service.url, headers={"Sec-Fetch-Site": "same-origin"}) as browser:
            statuses = [browser.post("/ui/sign-in", data=form).status_code for _ in range(4)]
            page = browser.post("/ui/sign-in", data=form)
    assert statuses == [400, 400, 400, 429]
    assert int(page.headers["Retry-After"]) > 0
    assert "Too many requests" in page.text


def test_whose_token_opens_no_page_is_not_shown_as_signed_in(
    service: Service, anyone: httpx2.Client, tokens: dict[tuple[str, str | None], str]
) -> None:
    form, sent = {"token": tokens["peer", None]}, {"Origin": service.url}
    answer = anyone.post("/ui/sign-in", data=form, headers=sent)
    assert (answer.status_code, "set-cookie" in answer.headers) == (400, False)
    assert "need the role reader" in answer.text
    assert "Sign out" not in answer.text
