"""Tokens of a real Keystone: who is let in and as what, what a revoked one still opens, and what happens without it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import httpx2
import pytest
from api_service import Service, running_service
from keystone_lab import SECRET, Admin, KeystoneLab

from app.domain.values import Role
from app.platform.http.auth import granted_to
from app.platform.http.serving import Served
from app.platform.outbound import keystone
from app.processes.endpoints import ENDPOINTS

pytestmark = [pytest.mark.real_parts, pytest.mark.timeout(900)]  # on a busy machine Keystone takes minutes to begin
KEPT_S = 3.0
EXPECTED = {
    "system admin": Role.ADMIN,
    "system reader": Role.READER,
    "admin of an admin project": Role.ADMIN,
    "service": Role.SERVICE,
    "project admin": Role.PROJECT_MEMBER,
    "manager": Role.PROJECT_MEMBER,
    "member": Role.PROJECT_MEMBER,
    "reader": Role.PROJECT_READER,
    "credential of a member for reading": Role.PROJECT_READER,
    "member of another project": None,
}
"""The role here of every kind of token; None: none. Written by hand from docs/openstack.md."""
GUARDED = [row for row in ENDPOINTS if row.role is not None]


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    """Wait for longer than the service does: whole OpenStacks start beside these tests, and Keystone is late then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keystone, "_WITHIN_S", 25.0)
        yield


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeystoneLab]:
    lab = KeystoneLab(tmp_path_factory.mktemp("keystone"))
    lab.make()
    lab.start()
    yield lab
    lab.stop()


@pytest.fixture(scope="module")
def admin(lab: KeystoneLab) -> Iterator[Admin]:
    admin = Admin(lab)
    yield admin
    admin.close()


@pytest.fixture(scope="module")
def projects(admin: Admin) -> dict[str, str]:
    return {name: admin.project(name) for name in ("service", "demo", "operators", "strangers")}


@pytest.fixture(scope="module")
def service(lab: KeystoneLab, admin: Admin, projects: dict[str, str], database_url: str) -> Iterator[Service]:
    admin.user("tenure", "service", projects["service"])
    own = {"keystone_url": lab.url, "keystone_user": "tenure", "keystone_password": SECRET}
    trusted = {"keystone_projects": projects["demo"], "keystone_admin_projects": projects["operators"]}
    with running_service(database_url, **own, **trusted, keystone_cache_s=KEPT_S) as service:
        yield service


@pytest.fixture(scope="module")
def tokens(admin: Admin, projects: dict[str, str], service: Service) -> dict[str, str]:
    del service  # its user is the first
    places = {
        "system reader": ("reader", None),
        "admin of an admin project": ("admin", "operators"),
        "service": ("service", "service"),
        "project admin": ("admin", "demo"),
        "manager": ("manager", "demo"),
        "member": ("member", "demo"),
        "reader": ("reader", "demo"),
        "member of another project": ("member", "strangers"),
    }
    tokens, users = {"system admin": admin.token}, {}
    for kind, (role, place) in places.items():
        project = None if place is None else projects[place]
        users[kind] = admin.user(kind, role, project)
        scope = {"system": {"all": True}} if project is None else {"project": {"id": project}}
        tokens[kind] = admin.token_of(kind, scope=scope)
    member = users["member"], tokens["member"]
    reading = [{"name": "reader"}]
    rules = [{"path": "/v2.1/servers", "method": "GET", "service": "compute"}]
    tokens["credential of a member for reading"] = admin.credential_token(*member, roles=reading)
    tokens["credential with rules of its own"] = admin.credential_token(*member, roles=reading, access_rules=rules)
    return tokens


def ask(service: Service, row: Served, token: str) -> httpx2.Response:
    """Ask for what there is not, so that nothing changes. Of a stream only the beginning is read."""
    path = "/".join("none" if part.startswith("{") else part for part in row.path.replace("{owner}", "-").split("/"))
    body: dict[str, object] | None = {} if row.body is not None else None
    with httpx2.stream(
        row.method, f"{service.url}{path}", json=body, headers={"X-Auth-Token": token}, timeout=30
    ) as answer:
        if not answer.headers.get("Content-Type", "").startswith("text/event-stream"):
            answer.read()
    return answer


def status(service: Service, token: str) -> int:
    return httpx2.get(f"{service.url}/v1/clouds", headers={"X-Auth-Token": token}, timeout=30).status_code


@pytest.mark.parametrize("kind", EXPECTED)
def test_every_endpoint_takes_a_token_for_its_role(service: Service, tokens: dict[str, str], kind: str) -> None:
    role = EXPECTED[kind]
    for row in GUARDED:
        answer = ask(service, row, tokens[kind])
        may = role is not None and row.role in granted_to(role)
        assert answer.status_code != 401, row.name
        assert (answer.status_code == 403) == (not may), (row.name, answer.text)


def test_a_credential_with_rules_of_its_own_is_not_taken(service: Service, tokens: dict[str, str]) -> None:
    """Keystone tells of it only to services that apply such rules."""
    assert status(service, tokens["credential with rules of its own"]) == 401


@pytest.mark.parametrize("token", ["gAAAAA" + 180 * "x", "eyJ" + 180 * "x", "tnr_guess", "not a form of any token"])
def test_who_shows_no_token_is_sent_for_one(service: Service, lab: KeystoneLab, token: str) -> None:
    answer = httpx2.get(f"{service.url}/v1/clouds", headers={"X-Auth-Token": token}, timeout=30)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == f'Bearer realm="preemptible", Keystone uri="{lab.url}"'


def test_a_revoked_token_opens_nothing_after_the_time_it_is_kept(
    service: Service, admin: Admin, projects: dict[str, str]
) -> None:
    admin.user("leaver", "reader", projects["demo"])
    token = admin.token_of("leaver", scope={"project": {"id": projects["demo"]}})
    assert status(service, token) == 200
    admin.revoke(token)
    revoked_s = time.monotonic()
    while status(service, token) == 200:
        time.sleep(0.05)
    assert time.monotonic() - revoked_s < KEPT_S + 1 + 5  # the look itself may take Keystone's time
    assert status(service, token) == 401


def test_who_shares_an_address_with_a_guesser_is_let_in_with_a_token_that_is_new(
    database_url: str, lab: KeystoneLab, projects: dict[str, str], tokens: dict[str, str]
) -> None:
    """Behind a proxy everybody has one address, and the openstack command gets a new token for each call."""
    own = {"keystone_url": lab.url, "keystone_user": "tenure", "keystone_password": SECRET}
    with running_service(
        database_url, **own, keystone_projects=projects["demo"], address_requests_per_min=5
    ) as another:
        guesses = [status(another, f"gAAAAA{number:0180}") for number in range(7)]
        assert guesses == [401] * 5 + [429] * 2
        assert status(another, "tnr_guess") == 429
        assert status(another, tokens["member"]) == 200
        assert status(another, f"gAAAAA{8:0180}") == 429


def test_keystone_is_asked_once_for_many_requests(service: Service, lab: KeystoneLab, tokens: dict[str, str]) -> None:
    before, begun_s = lab.asked(), time.monotonic()
    with httpx2.Client(base_url=service.url, headers={"X-Auth-Token": tokens["reader"]}) as client:
        for _ in range(300):
            assert client.get("/v1/clouds").status_code == 200
    windows = (time.monotonic() - begun_s) / (KEPT_S - 2) + 1
    assert lab.asked() - before <= windows


def test_pages_are_signed_in_by_a_name_and_a_password(service: Service, tokens: dict[str, str]) -> None:
    del tokens  # they come with the users
    who = {"user": "admin of an admin project", "project": "operators"}
    form = {**who, "password": SECRET, "domain": "Default", "next": "/ui"}
    own = {"Origin": service.url}
    with httpx2.Client(base_url=service.url, timeout=30) as browser:
        assert "With Keystone" in browser.get("/ui/sign-in").text
        wrong = browser.post("/ui/sign-in", data={**form, "password": "wrong"}, headers=own)
        assert wrong.status_code == 400
        assert "Keystone knows no such user" in wrong.text
        assert wrong.text.index("Keystone knows no such user") > wrong.text.index("With Keystone")
        assert 'value="operators"' in wrong.text
        assert browser.post("/ui/sign-in", data=form, headers=own).status_code == 303
        assert browser.get("/ui").status_code == 200


def test_a_stranger_is_told_that_they_may_not(service: Service, tokens: dict[str, str]) -> None:
    del tokens
    form = {"user": "member of another project", "password": SECRET, "project": "strangers", "domain": "Default"}
    answer = httpx2.post(f"{service.url}/ui/sign-in", data=form, headers={"Origin": service.url}, timeout=30)
    assert answer.status_code == 400
    assert "need the role reader" in answer.text
    assert "Sign out" not in answer.text


def test_wrong_passwords_in_numbers_keep_no_token_out(
    service: Service, admin: Admin, projects: dict[str, str], tokens: dict[str, str]
) -> None:
    """Keystone takes long to prove a password, and is asked for new tokens at the same time."""
    form = {"user": "member of another project", "password": "wrong", "project": "strangers", "domain": "Default"}
    over, answers, demo = Event(), list[int](), {"project": {"id": projects["demo"]}}

    def guess() -> None:
        with httpx2.Client(base_url=service.url, timeout=60) as browser:
            while not over.is_set():
                answers.append(browser.post("/ui/sign-in", data=form, headers={"Origin": service.url}).status_code)

    with ThreadPoolExecutor(60) as pool:
        guessing = [pool.submit(guess) for _ in range(60)]
        try:
            seen = [status(service, admin.token_of("reader", scope=demo)) for _ in range(5)]
        finally:
            over.set()
        for one in guessing:
            one.result()
    assert status(service, tokens["reader"]) == 200
    assert seen == [200] * 5
    assert {*answers} <= {400, 429}
    assert 429 in answers


def test_without_keystone_its_tokens_wait_and_ours_work(
    service: Service, lab: KeystoneLab, tokens: dict[str, str]
) -> None:
    """Neither is a token refused that may be valid, nor is anyone kept out who does not need Keystone."""
    assert status(service, tokens["reader"]) == 200
    lab.stop()
    try:
        assert status(service, tokens["reader"]) == 200  # remembered
        time.sleep(KEPT_S + 1)
        answer = httpx2.get(f"{service.url}/v1/clouds", headers={"X-Auth-Token": tokens["reader"]}, timeout=30)
        assert answer.status_code == 503
        assert answer.json()["errors"][0]["code"] == "preemptible.identity.unavailable"
        assert answer.headers["Retry-After"]
        assert service.client.get("/v1/clouds").status_code == 200
    finally:
        lab.start()
    assert status(service, tokens["reader"]) == 200
