"""Questions to Nova about servers that it does not list any more."""

from __future__ import annotations

import json
import random
import time
import uuid
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from app.nova.cloud import NovaCloud
from app.nova.session import OpenStackSession

UUID, OTHER = "3f0a6c54-f8f9-4b0e-9f6f-3a0d4a0f2c11", "00000000-0000-4000-8000-000000000001"


def row(server: str, moment: str = "2026-11-23T12:00:00Z") -> dict[str, Any]:
    flavor = {"original_name": "small", "vcpus": 1, "ram": 512, "disk": 1, "ephemeral": 0, "swap": 0, "extra_specs": {}}
    return {"id": server, "status": "DELETED", "flavor": flavor, "created": moment, "updated": moment}


def answered(told: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(status_code=200, content=json.dumps(told).encode(), json=lambda: told)


class Nova:
    """A compute service that has no server, and these rows of deleted ones."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.rows, self.asked = rows, list[str]()

    def get(self, path: str, **_: object) -> SimpleNamespace:
        self.asked.append(path)
        if path.startswith("/servers/detail?"):
            return answered({"servers": self.rows})
        if path.startswith("/servers?"):
            assert "status=BUILD" in path
            return answered({"servers": [{"id": UUID, "name": "web"}]})
        return SimpleNamespace(status_code=404, reason="Not Found", json=lambda: {"itemNotFound": {"message": "no"}})


class LongNova:
    """A compute service with servers of few moments. It answers late, and in two orders: ids of one moment always rise,
    or they turn round with the moments.
    """

    def __init__(self, count: int, drawn: random.Random, *, turns: bool) -> None:
        self.drawn, self.turns, self.asked = drawn, turns, list[str]()
        self.rows = [
            row(str(uuid.UUID(int=drawn.getrandbits(128), version=4)), f"2026-11-23T12:00:0{drawn.randrange(4)}Z")
            for _ in range(count)
        ]

    def get(self, path: str, **_: object) -> SimpleNamespace:
        self.asked.append(path)
        query = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
        is_turned = query["sort_dir"] == "desc"
        assert query["sort_key"] == "created_at"
        ordered = sorted(self.rows, key=lambda one: one["id"], reverse=is_turned and self.turns)
        ordered.sort(key=lambda one: one["created"], reverse=is_turned)
        ids = [one["id"] for one in ordered]
        first = ids.index(query["marker"]) + 1 if "marker" in query else 0
        page = ordered[first : first + int(query["limit"])]
        time.sleep(self.drawn.choice((0.0, 0.001, 0.003)))
        links = {"servers_links": [{"rel": "next"}]} if len(page) == int(query["limit"]) else {}
        return answered({"servers": page, **links})


class ActingNova:
    """A compute service that tells the actions of its one server, with the events of each; none: it tells no events."""

    def __init__(self, *actions: tuple[str, list[dict[str, Any]] | None], refuses: int = 0) -> None:
        self.actions, self.refuses = actions, refuses

    def get(self, path: str, **_: object) -> SimpleNamespace:
        if self.refuses:
            return SimpleNamespace(status_code=self.refuses, reason="no", json=dict)
        place = f"/servers/{UUID}/os-instance-actions"
        assert path.startswith(place)
        rows = [{"action": name, "request_id": f"req-{at}"} for at, (name, _) in enumerate(self.actions)]
        if path.startswith(f"{place}?"):
            return answered({"instanceActions": rows})
        at = int(path.removeprefix(f"{place}/req-"))
        events = self.actions[at][1]
        told = {} if events is None else {"events": events}
        return answered({"instanceAction": rows[at] | told})


def cloud_of(nova: Nova | LongNova | ActingNova, monkeypatch: pytest.MonkeyPatch) -> NovaCloud:
    def connect(self: Any) -> None:
        self._asked, self._failures = lambda: None, (RuntimeError,)
        self._connection = SimpleNamespace(compute=nova)

    monkeypatch.setattr(OpenStackSession, "__init__", connect)
    return NovaCloud()


def test_a_deleted_server_is_found_as_long_as_nova_keeps_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cloud_of(nova := Nova(row(UUID)), monkeypatch).server(UUID)
    assert found is not None
    assert (found.id, found.status, found.launched_at) == (UUID, "DELETED", None)
    assert f"deleted=True&uuid={UUID}" in nova.asked[1]


@pytest.mark.parametrize("rows", [[], [row(OTHER)]])
def test_a_server_that_was_in_no_cell_is_none(rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nova tells another server if a policy keeps the filter away."""
    assert cloud_of(Nova(*rows), monkeypatch).server(UUID) is None


def test_servers_that_are_being_built_are_known_by_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cloud_of(Nova(), monkeypatch).building() == {UUID}


@pytest.mark.parametrize("turns", [True, False])
def test_a_list_is_read_from_both_ends_and_nothing_is_left_out(turns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.nova.session.PAGE", 4)
    monkeypatch.setattr("app.nova.cloud.PAGE", 4)
    for seed in range(100):
        drawn = random.Random(seed)
        count, expected = drawn.randrange(40), drawn.choice((0, 5, 40))
        found = cloud_of(nova := LongNova(count, drawn, turns=turns), monkeypatch).servers(expected)
        assert sorted(one.id for one in found) == sorted(one["id"] for one in nova.rows), (seed, nova.asked)
        if expected <= 4:
            assert not any("sort_dir=asc" in path for path in nova.asked)
        elif turns:
            assert len(nova.asked) <= count // 4 + 3, (seed, nova.asked)


BEGUN = {"event": "compute_terminate_instance", "finish_time": None}
ENDED = BEGUN | {"finish_time": "2026-11-23T12:00:00.000000"}


@pytest.mark.parametrize(
    ("nova", "is_at_it"),
    [
        (ActingNova(("delete", [BEGUN]), ("create", [])), True),
        (ActingNova(("delete", []), ("delete", [ENDED, BEGUN])), True),
        (ActingNova(("delete", None)), True),
        (ActingNova(refuses=403), True),
        (ActingNova(("delete", []), ("create", [BEGUN])), False),
        (ActingNova(("delete", [ENDED])), False),
        (ActingNova(("reboot", None)), False),
        (ActingNova(), False),
    ],
)
def test_a_node_is_at_a_deletion_once_it_has_begun_and_until_it_has_ended(
    nova: ActingNova, is_at_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cloud_of(nova, monkeypatch).is_at_deletion(UUID) is is_at_it
