"""Tokens over HTTP and on the command line: made, shown once, listed, used, expired, revoked; and never told."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any

import httpx2
import pytest
from api_service import Service
from servers import run_sql
from typer.testing import CliRunner

from app.cli import command_line
from app.domain.errors import LogUnavailable
from app.domain.values import Caller, Role
from app.platform.http import auth
from app.platform.http.auth import Authenticator, may
from app.platform.http.errors import Unauthenticated

AS_TENURE = CliRunner()


@pytest.fixture(scope="module", autouse=True)
def clouds(service: Service) -> None:
    for name in ("north", "south"):
        service.client.post("/v1/clouds", json={"name": name}).raise_for_status()


@pytest.fixture(autouse=True)
def environment(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands work on the service's database. Processes remember tokens for a moment only."""
    monkeypatch.setenv("TENURE_DATABASE_URL", service.settings.database_url)
    monkeypatch.setattr(auth, "CACHED_S", 0.1)


def create(service: Service, **body: Any) -> dict[str, Any]:
    answer = service.client.post("/v1/tokens", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def status(service: Service, token: str) -> int:
    return service.client.get("/v1/clouds", headers={"X-Auth-Token": token}).status_code


def tenure(*arguments: str) -> str:
    done = AS_TENURE.invoke(command_line(), ["token", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def known(service: Service, name: str) -> dict[str, Any]:
    tokens = service.client.get("/v1/tokens").json()["tokens"]
    return next(token for token in tokens if token["name"] == name)


def test_a_token_is_shown_once_and_only_its_hash_is_kept(service: Service, database_url: str) -> None:
    answer = service.client.post("/v1/tokens", json={"name": "shown", "role": "member"})
    made = answer.json()
    assert made["token"].startswith("tnr_")
    assert len(made["token"]) == 47
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Location"] == f"/v1/tokens/{made['id']}"
    shown = service.client.get(answer.headers["Location"]).json()
    assert shown == {name: value for name, value in made.items() if name != "token"}
    assert made["token"] not in service.client.get("/v1/tokens").text
    dumped = asyncio.run(dump(service))
    assert "shown" in dumped
    assert made["token"] not in dumped


async def dump(service: Service) -> str:
    """The table of tokens as text."""
    from app.platform.database.database import Database  # noqa: PLC0415

    database = Database(service.settings.database_url)
    rows = await database.execute("SELECT token::text FROM token")
    await database.close()
    return "\n".join(row[0] for row in rows)


def test_tokens_differ(service: Service) -> None:
    made = [create(service, name=f"differs-{number}", role="reader")["token"] for number in range(5)]
    assert len(set(made)) == 5


def test_its_use_is_noted_but_not_every_time(service: Service) -> None:
    token = create(service, name="used", role="reader")["token"]
    assert known(service, "used")["last_used_at"] is None
    assert status(service, token) == 200
    first = known(service, "used")["last_used_at"]
    assert first is not None
    time.sleep(0.15)
    assert status(service, token) == 200
    assert known(service, "used")["last_used_at"] == first


def test_an_expired_token_is_refused_and_its_name_is_free_again(service: Service) -> None:
    made = create(service, name="short", role="reader", expires_in_s=2)
    assert made["expires_at"] > made["created_at"]
    assert status(service, made["token"]) == 200
    time.sleep(2.1)
    assert status(service, made["token"]) == 401
    assert known(service, "short")["status"] == "expired"
    again = create(service, name="short", role="reader")
    assert status(service, again["token"]) == 200
    assert service.client.get(made["links"][0]["href"]).json()["status"] == "revoked"


def test_a_revoked_token_is_refused(service: Service) -> None:
    made = create(service, name="revoked", role="reader")
    assert status(service, made["token"]) == 200
    path = made["links"][0]["href"]
    assert [service.client.delete(path).status_code for _ in range(2)] == [204, 204]
    first = service.client.get(path).json()["revoked_at"]
    time.sleep(0.15)
    assert status(service, made["token"]) == 401
    assert known(service, "revoked")["status"] == "revoked"
    assert service.client.get(path).json()["revoked_at"] == first


def test_the_list_comes_in_pages_newest_first(service: Service) -> None:
    for number in range(3):
        create(service, name=f"paged-{number}", role="peer")
    everything = [token["id"] for token in service.client.get("/v1/tokens").json()["tokens"]]
    assert everything == sorted(everything, key=int, reverse=True)
    found, path = [], "/v1/tokens?limit=2"
    while path:
        page = service.client.get(path).json()
        found += [token["id"] for token in page["tokens"]]
        path = next((link["href"] for link in page["links"]), "")
    assert found == everything


def test_the_commands_need_no_token(service: Service) -> None:
    secret = tenure("create", "by-command", "--role", "service", "--cloud", "north", "--expires", "90d").strip()
    assert status(service, secret) == 200
    assert service.client.get("/v1/clouds/south", headers={"X-Auth-Token": secret}).status_code == 404
    listed = json.loads(tenure("list", "--json"))["tokens"]
    assert listed[0].keys() == known(service, "by-command").keys() - {"links"}
    assert {**listed[0], "links": 0} == {**known(service, "by-command"), "links": 0}
    assert secret not in tenure("list")
    assert "by-command" in tenure("list")
    tenure("revoke", "by-command")
    time.sleep(0.15)
    assert status(service, secret) == 401


def test_a_command_can_give_json(service: Service) -> None:
    made = json.loads(tenure("create", "as-json", "--role", "reader", "--json"))
    assert status(service, made["token"]) == 200
    assert (made["name"], made["role"], made["cloud"], made["expires_at"]) == ("as-json", "reader", None, None)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["create", "as json", "--role", "reader"], "not a name"),
        (["create", "fine", "--role", "reader", "--expires", "0s"], "longer than nothing"),
        (["create", "fine", "--role", "reader", "--expires", "soon"], "not a duration"),
        (["create", "fine", "--role", "reader", "--cloud", "none"], "no cloud 'none'"),
        (["create", "admin", "--role", "reader"], "there is a token 'admin'"),
        (["revoke", "nobody"], "no valid token 'nobody'"),
    ],
)
def test_commands_say_what_is_wrong(arguments: list[str], why: str) -> None:
    done = AS_TENURE.invoke(command_line(), ["token", *arguments])
    assert done.exit_code != 0
    assert why in str(done.exception)


def test_readiness_tells_of_the_clouds_that_the_token_may_read(service: Service) -> None:
    def clouds(token: str | None) -> list[str]:
        headers = {"X-Auth-Token": token} if token else {}
        answer = httpx2.get(f"{service.url}/readiness", headers=headers)
        assert answer.status_code == 200
        return [cloud["name"] for cloud in answer.json()["clouds"]]

    assert clouds(None) == []
    assert clouds(create(service, name="looks", role="reader")["token"]) == ["north", "south"]
    assert clouds(create(service, name="looks-south", role="reader", cloud="south")["token"]) == ["south"]
    assert clouds(create(service, name="looks-peer", role="peer")["token"]) == []
    assert httpx2.get(f"{service.url}/readiness", headers={"X-Auth-Token": "wrong"}).status_code == 401


def test_no_token_is_in_any_log_or_error_or_trace(
    service: Service, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Not the token of a caller, not a wrong one, not one just made; not when the service fails either."""
    caplog.set_level(logging.DEBUG)
    client, wrong, secrets = service.client, "tnr_nobody-has-this-one-either", []
    told = []
    secrets.append(create(service, name="untold", role="admin")["token"])
    for headers in ({"X-Auth-Token": secrets[0]}, {"Authorization": f"Bearer {secrets[0]}"}, {"X-Auth-Token": wrong}):
        for method, path in (("GET", "/v1/clouds"), ("GET", "/nowhere"), ("PUT", "/v1/clouds"), ("POST", "/v1/tokens")):
            told.append(client.request(method, path, headers=headers).text)
    run_sql(database_url, "ALTER TABLE token RENAME TO mislaid")
    run_sql(database_url, "CREATE VIEW token AS SELECT * FROM mislaid WHERE 1 / 0 > 0")
    try:
        time.sleep(0.15)
        told += [client.get("/v1/clouds", headers={"X-Auth-Token": token}).text for token in (wrong, secrets[0])]
    finally:
        run_sql(database_url, "DROP VIEW token")
        run_sql(database_url, "ALTER TABLE mislaid RENAME TO token")
    assert "failed" in caplog.text
    secrets += [tenure("create", "untold-either", "--role", "reader").strip(), client.headers["X-Auth-Token"], wrong]
    for secret in secrets:
        assert secret not in "".join(told)
        assert secret not in caplog.text
        assert secret not in repr(service.settings)


class Own:
    """The part that all stores here have in common: they ask no other service."""

    def is_foreign(self, _: bytes) -> bool:
        return False


@pytest.mark.anyio
async def test_callers_are_remembered_without_their_tokens() -> None:
    known = Caller(7, "bob", Role.MEMBER, "north")

    class Store(Own):
        def __init__(self) -> None:
            self.asked: list[bytes] = []

        async def find(self, token: bytes) -> Caller | None:
            self.asked.append(token)
            return known if len(self.asked) == 1 else None

    store = Store()
    authenticator = Authenticator(lambda: store)
    assert [await authenticator.caller(b"tnr_secret") for _ in range(3)] == [known] * 3
    assert len(store.asked) == 1
    assert "tnr_secret" not in repr(vars(authenticator))
    with pytest.raises(Unauthenticated):
        await authenticator.caller(b"tnr_other")


class Slow(Own):
    """A store that answers when it is told to, and knows one token."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.answers = asyncio.Event()

    async def find(self, token: bytes) -> Caller | None:
        self.asked.append(token)
        await self.answers.wait()
        return Caller(7, "bob", Role.MEMBER, None) if token == b"tnr_good" else None


@pytest.mark.anyio
async def test_a_token_that_many_show_at_once_is_looked_up_once() -> None:
    store = Slow()
    authenticator = Authenticator(lambda: store)
    callers = [asyncio.ensure_future(authenticator.caller(b"tnr_good")) for _ in range(50)]
    await asyncio.sleep(0.01)
    callers[0].cancel()  # the others do not depend on who asked first
    store.answers.set()
    assert {caller.id for caller in await asyncio.gather(*callers[1:])} == {7}
    assert len(store.asked) == 1


class Held(Own):
    """A store whose first answer is held up on its way. The token is revoked once that answer is under way."""

    def __init__(self) -> None:
        self.valid, self.held, self.arrives = True, True, asyncio.Event()

    async def find(self, _: bytes) -> Caller | None:
        found = Caller(7, "bob", Role.MEMBER, None) if self.valid else None
        if self.held:
            self.held = False
            await self.arrives.wait()
        return found


@pytest.mark.anyio
async def test_an_answer_that_was_held_up_is_asked_for_again() -> None:
    store = Held()
    authenticator = Authenticator(lambda: store)
    waiting = asyncio.ensure_future(authenticator.caller(b"tnr_good"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    store.valid = False
    await asyncio.sleep(auth.CACHED_S * 2)
    with pytest.raises(Unauthenticated):  # it does not join the look-up from before the revocation
        await asyncio.wait_for(authenticator.caller(b"tnr_good"), 10)
    store.arrives.set()
    with pytest.raises(Unauthenticated):
        await waiting
    with pytest.raises(Unauthenticated):
        await authenticator.caller(b"tnr_good")


@pytest.mark.anyio
async def test_a_token_is_remembered_from_the_moment_of_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "CACHED_S", 2.0)
    store = Held()
    authenticator = Authenticator(lambda: store)
    waiting = asyncio.ensure_future(authenticator.caller(b"tnr_good"))
    await asyncio.sleep(1.2)
    store.valid = False
    store.arrives.set()
    assert (await waiting).id == 7
    await asyncio.sleep(1.2)
    with pytest.raises(Unauthenticated):
        await authenticator.caller(b"tnr_good")


@pytest.mark.anyio
async def test_a_database_that_is_always_too_slow_is_no_proof_of_a_token() -> None:
    class Late(Own):
        async def find(self, _: bytes) -> Caller | None:
            await asyncio.sleep(auth.CACHED_S * 2)
            return Caller(7, "bob", Role.MEMBER, None)

    with pytest.raises(LogUnavailable):
        await Authenticator(Late).caller(b"tnr_good")


@pytest.mark.anyio
async def test_guesses_leave_the_database_to_known_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Slow()
    store.answers.set()
    authenticator = Authenticator(lambda: store)
    await authenticator.caller(b"tnr_good")
    await asyncio.sleep(auth.CACHED_S * 2)
    store.asked.clear()
    store.answers.clear()
    guesses = [asyncio.ensure_future(authenticator.caller(b"tnr_guess%d" % number)) for number in range(50)]
    await asyncio.sleep(0.01)
    assert len(store.asked) <= 3
    known = asyncio.ensure_future(authenticator.caller(b"tnr_good"))
    await asyncio.sleep(0.01)
    assert b"tnr_good" in store.asked
    store.answers.set()
    assert (await known).id == 7
    refused = await asyncio.gather(*guesses, return_exceptions=True)
    assert {type(error) for error in refused} == {Unauthenticated}


def test_what_a_caller_may() -> None:
    of_one, of_all = Caller(1, "a", Role.MEMBER, "north"), Caller(2, "b", Role.MEMBER, None)
    assert may(of_one, Role.READER, "north")
    assert may(of_all, Role.MEMBER, "south")
    assert may(of_all, Role.READER)
    assert not may(of_one, Role.READER, "south")
    assert not may(of_one, Role.READER)
    assert not may(of_all, Role.ADMIN, "south")
