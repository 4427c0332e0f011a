"""Questions to Nova about servers that it does not list any more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.nova.cloud import NovaCloud
from app.nova.session import OpenStackSession

UUID, OTHER = "3f0a6c54-f8f9-4b0e-9f6f-3a0d4a0f2c11", "00000000-0000-4000-8000-000000000001"


def row(server: str) -> dict[str, Any]:
    flavor = {"original_name": "small", "vcpus": 1, "ram": 512, "disk": 1, "ephemeral": 0, "swap": 0, "extra_specs": {}}
    moment = "2026-11-23T12:00:00Z"
    return {"id": server, "status": "DELETED", "flavor": flavor, "created": moment, "updated": moment}


class Nova:
    """A compute service that has no server, and these rows of deleted ones."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.rows, self.asked = rows, list[str]()

    def get(self, path: str, **_: object) -> SimpleNamespace:
        self.asked.append(path)
        if path.startswith("/servers/detail?"):
            return SimpleNamespace(status_code=200, json=lambda: {"servers": self.rows})
        if path.startswith("/servers?"):
            assert "status=BUILD" in path
            return SimpleNamespace(status_code=200, json=lambda: {"servers": [{"id": UUID, "name": "web"}]})
        return SimpleNamespace(status_code=404, reason="Not Found", json=lambda: {"itemNotFound": {"message": "no"}})


def cloud_of(nova: Nova, monkeypatch: pytest.MonkeyPatch) -> NovaCloud:
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
