"""The page of a cloud tells its present time, and apart from it the time of its last event."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from api_service import TOKEN, Service

from app.observing.pages import cloud as page

LATER = datetime(2100, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(("clock", "present"), [("system", "2100-01-02 03:04:05"), ("external", "1970-01-01 05:00:00")])
def test_the_present_time_is_that_of_the_glossary(
    service: Service, monkeypatch: pytest.MonkeyPatch, clock: str, present: str
) -> None:
    path, at = f"/v1/clouds/{clock}", {"at": "1970-01-01T05:00:00Z"} if clock == "external" else {}
    policy = {"clock": clock, "guarantee": "none"}
    service.client.post("/v1/clouds", json={"name": clock, "policy": policy, **at}).raise_for_status()
    service.client.post(f"{path}/nodes", json={"name": "n", "cores": 4, **at}).raise_for_status()
    monkeypatch.setattr(page, "server_time", lambda _: LATER)
    shown = service.client.get(f"/ui/clouds/{clock}", headers={"Cookie": f"tenure_token={TOKEN}"}).text
    last = service.client.get(path).json()["at"][:19].replace("T", " ")
    assert f"<dt>Present time</dt><dd>{present}<small>last event, 2, at {last}</small>" in shown
