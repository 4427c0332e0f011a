"""The questions of `tenure nova enable`, and all that it brings: a real service beside a Nova of recorded answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from api_service import TOKEN, Service, running_service
from keystoneauth1.exceptions import ClientException, Unauthorized
from typer.testing import CliRunner

from app.cli import command_line
from app.commands.exits import exit_of
from app.commands.nova_daemon import _check_books
from app.domain.inputs import InputError
from app.domain.values import Resources
from app.nova.cloud import Provider
from app.nova.session import OpenStackFailed, OpenStackForbidden, OpenStackRefused, _Translating
from tenure_client import Forbidden, NotFound, TenureClient, Unauthenticated

_names = count(1)
PLAIN = {"vcpus": 2, "ram": 1024, "disk": 1, "OS-FLV-EXT-DATA:ephemeral": 0, "swap": ""}


class RecordedNova:
    """Nova and Placement with one flavor and one node. `refuses` names what fails, with an error of OpenStack's."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses, self.made = refuses, dict[str, Mapping[str, str]]()

    def log_in(self) -> None:
        with _Translating("logging in", (ClientException,)):
            raise Unauthorized

    def flavors(self) -> Iterator[dict[str, Any]]:
        if self.refuses == "flavors":
            raise OpenStackFailed("logging in: Unauthorized: The request you have made requires authentication.")
        public = {"os-flavor-access:is_public": True}
        yield {"id": "1", "name": "small", "extra_specs": {}, **public, **PLAIN}
        for name, specs in self.made.items():
            yield {"id": name, "name": name, "extra_specs": specs, **public, **PLAIN}

    def make_flavor(self, body: Mapping[str, Any]) -> str:
        self.made[body["name"]] = {}
        return str(body["name"])

    def specify(self, flavor: str, specs: Mapping[str, str]) -> None:
        self.made[flavor] = specs

    def hypervisors(self) -> dict[str, bool]:
        if self.refuses == "hypervisors" or (self.refuses == "hypervisors later" and self.made):
            raise OpenStackRefused(403, "GET /os-hypervisors/detail: Policy does not allow it")
        return {"host-1": True}

    def providers(self, _trait: str) -> list[Provider]:
        return [Provider("uuid-1", "host-1", 1)]

    def capacity(self, _provider: Provider) -> Resources:
        return Resources(8, 8192, 100)


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[Service]:
    with running_service(database_url) as found:
        yield found


@pytest.fixture
def client(service: Service) -> Iterator[TenureClient]:
    with TenureClient(service.url, TOKEN) as found:
        yield found


@pytest.fixture
def cloud() -> str:
    return f"enabled-{next(_names)}"


@pytest.fixture
def nova(monkeypatch: pytest.MonkeyPatch) -> RecordedNova:
    found = RecordedNova()
    monkeypatch.setattr("app.nova.cloud.NovaCloud", lambda *_: found)
    return found


def enable(service: Service, cloud: str, *more: str, token: str = TOKEN) -> Any:
    words = ["nova", "enable", "--cloud", cloud, "--url", service.url, "--token", token, *more]
    return CliRunner().invoke(command_line(words), words)


def test_a_dry_run_tells_all_and_changes_nothing(
    service: Service, client: TenureClient, cloud: str, nova: RecordedNova, tmp_path: Path
) -> None:
    told = enable(service, cloud, "--dry-run", "--write", str(tmp_path / "files"))
    assert told.exit_code == 0, told.output
    said = told.output.replace("\n", " ")
    for part in (
        "spot.small: would be made",
        f"would make the cloud {cloud} in Tenure, which cannot be removed or imported into later",
        "the node host-1: would be added",
        "the flavor small: would be added",
        "nova-tenure.conf",
    ):
        assert part in said
    assert nova.made == {}
    assert not (tmp_path / "files").exists()
    with pytest.raises(NotFound):
        client.cloud(cloud)


def test_the_run_tells_what_it_made_and_a_second_one_makes_nothing(
    service: Service, client: TenureClient, cloud: str, nova: RecordedNova
) -> None:
    told = enable(service, cloud)
    assert told.exit_code == 0, told.output
    for part in ("spot.small: made", f"the cloud {cloud}: made", "the node host-1: added", "the flavor small: added"):
        assert part in told.output
    assert [one.name for one in client.nodes(cloud)] == ["host-1"]
    assert [one.name for one in client.flavors(cloud)] == ["small"]
    assert nova.made.keys() == {"spot.small"}
    assert enable(service, cloud).output == "the twins are as they should be\n"
    more = ("--lifetime", "2h")
    assert enable(service, cloud, *more, "--dry-run").output == "spot.small: would be given tenure:lifetime=2h\n"
    assert enable(service, cloud, *more).output == "spot.small: given tenure:lifetime=2h\n"


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
@pytest.mark.parametrize("name", ["", "a b/c", "-x", "ü", "x" * 256])
def test_what_is_no_name_of_a_cloud_is_refused_before_anything_is_asked(
    service: Service, nova: RecordedNova, name: str, more: list[str]
) -> None:
    error = enable(service, name, *more).exception
    assert isinstance(error, InputError)
    assert "--cloud or TENURE_CLOUD" in str(error)
    assert nova.made == {}
    assert isinstance(enable(service, "north", "--lifetime", "0s", *more).exception, InputError)


@pytest.fixture(autouse=True)
def own_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of the tests stays theirs."""
    monkeypatch.setattr("app.commands.nova_daemon._start_log", lambda *_: None)


def run_daemon(service: Service, *more: str, token: str = TOKEN) -> Any:
    words = ["nova", "run", "--url", service.url, "--token", token, *more]
    return CliRunner().invoke(command_line(words), words)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--brokers", "banana"), "--brokers"),
        (("--brokers", "banana://u:geheim@h/"), "--brokers"),
        (("--brokers", "rabbit://u:geheim/x@h:5672/"), "--brokers"),
        (("--brokers", "rabbit:/geheim"), "--brokers"),
        (("--brokers", "rabbit://h/", "--messaging-file", "/nowhere/messaging.conf"), "--messaging-file"),
    ],
)
def test_a_daemon_that_can_hear_no_broker_ends_at_once(
    service: Service, nova: RecordedNova, more: tuple[str, ...], told: str
) -> None:
    error = run_daemon(service, "--cloud", "north", *more).exception
    assert isinstance(error, InputError)
    assert told in str(error)
    assert "geheim" not in str(error)
    ending = exit_of(error)
    assert ending is not None
    assert ending.code == 2


def test_a_daemon_without_its_cloud_ends_at_once(
    service: Service, client: TenureClient, nova: RecordedNova, cloud: str
) -> None:
    error = run_daemon(service, "--cloud", "nosuch").exception
    assert isinstance(error, NotFound)
    assert error.code == "preemptible.cloud.not_found"
    ending = exit_of(error)
    assert ending is not None
    assert ending.code == 1
    client.create_cloud(cloud)
    service_token = client.create_token(cloud, "service").token
    assert isinstance(run_daemon(service, "--cloud", cloud, token=service_token).exception, Forbidden)
    assert isinstance(run_daemon(service, "--cloud", cloud, token="tnr_no").exception, Unauthenticated)


def test_a_daemon_waits_for_a_tenure_that_is_away(client: TenureClient, caplog: pytest.LogCaptureFixture) -> None:
    with TenureClient("http://127.0.0.1:9", "x", retry_s=0) as away:
        _check_books(away, "north")
    assert "Tenure does not answer yet" in caplog.text


@pytest.mark.parametrize("refuses", ["flavors", "hypervisors"])
def test_an_openstack_that_refuses_leaves_both_sides_as_they_were(
    service: Service, client: TenureClient, cloud: str, nova: RecordedNova, refuses: str
) -> None:
    nova.refuses = refuses
    assert isinstance(enable(service, cloud).exception, OpenStackFailed)
    assert nova.made == {}
    with pytest.raises(NotFound):
        client.cloud(cloud)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_token_that_may_not_leaves_nova_as_it_was(
    service: Service, client: TenureClient, cloud: str, nova: RecordedNova, *, is_there: bool
) -> None:
    if is_there:
        client.create_cloud(cloud)
    token = client.create_token(cloud, "service").token
    for more in ([], ["--dry-run"]):
        assert isinstance(enable(service, cloud, *more, token=token).exception, Forbidden)
    assert nova.made == {}


def test_a_run_that_fails_tells_what_it_had_made(service: Service, cloud: str, nova: RecordedNova) -> None:
    nova.refuses = "hypervisors later"
    error = enable(service, cloud).exception
    [note] = error.__notes__
    assert "spot.small: made" in note
    assert f"the cloud {cloud}: made" in note


def test_a_daemon_that_openstack_does_not_let_in_ends_at_once(
    service: Service, client: TenureClient, nova: RecordedNova, cloud: str
) -> None:
    del nova
    client.create_cloud(cloud)
    error = run_daemon(service, "--cloud", cloud).exception
    assert isinstance(error, OpenStackForbidden)
    ending = exit_of(error)
    assert ending is not None
    assert ending.code == 1
