"""A quote tells what the decision would do where no slot is free but overrunning instances would make room."""

from __future__ import annotations

import sys
from typing import Any

import httpx2
import pytest
from api_service import TOKEN, Service

from app.cli import main


def moment(hours: float) -> str:
    minutes = round(hours * 60)
    return f"1970-01-{1 + minutes // 1440:02}T{minutes // 60 % 24:02}:{minutes % 60:02}:00Z"


def sent(client: httpx2.Client, path: str, body: dict[str, Any]) -> Any:
    answer = client.post(path, json=body)
    assert answer.is_success, answer.text
    return answer.json()


def filled(service: Service, name: str, **policy: Any) -> str:
    """Make a cloud of four cores with a day behind it: three are taken, and an instance overruns on the fourth."""
    client, path = service.client, f"/v1/clouds/{name}"
    given = {"clock": "external", "warm_up_s": 0, "sample_count": 100, "guarantee": "per_instance"}
    sent(client, "/v1/clouds", {"name": name, "policy": given | {"eviction_probability": 0.2} | policy})
    sent(client, f"{path}/nodes", {"name": "n", "cores": 4})
    sent(client, f"{path}/flavors", {"name": "c1", "cores": 1})
    sent(client, f"{path}/flavors", {"name": "c2", "cores": 2})
    for hour in range(24):
        sent(client, f"{path}/instances", {"id": f"o{hour}", "market": "on_demand", "flavor": "c1", "at": moment(hour)})
        assert client.delete(f"{path}/instances/o{hour}", params={"at": moment(hour + 0.5)}).status_code == 204
    assert client.post(f"{path}/tables").status_code == 202
    service.compute_tables()
    service.wait_for_epoch(name, 1)
    late = {"id": "late", "market": "spot", "flavor": "c1", "lifetime_s": 1, "at": moment(23.6)}
    assert sent(client, f"{path}/instances", late)["status"] == "accepted"
    for number in range(3):
        body = {"id": f"full{number}", "market": "on_demand", "flavor": "c1", "at": moment(23.7)}
        sent(client, f"{path}/instances", body)
    return path


def quotes_of(client: httpx2.Client, path: str) -> dict[str, Any]:
    found = client.get(f"{path}/quotes", params={"lifetime_s": 1}).json()["quotes"]
    return {one["flavor"]: one for one in found}


@pytest.mark.parametrize("forecast", ["calibrated", "replay"])
def test_a_quote_takes_the_room_that_the_start_takes(service: Service, forecast: str) -> None:
    path = filled(service, f"taken-{forecast}", forecast=forecast)
    told = quotes_of(service.client, path)
    small, large = told["c1"], told["c2"]
    assert (small["slots"], small["displaced_count"]) == (1, 1)
    assert (large["slots"], large["displaced_count"]) == (0, 0), "one core is not room for two"
    body = {"id": "new", "market": "spot", "flavor": "c1", "lifetime_s": 1, "at": moment(23.7)}
    started = sent(service.client, f"{path}/instances", body)
    assert [victim["id"] for victim in started["victims"]] == ["late"]
    for name in ("slots", "lifetime_s", "estimated_eviction_probability"):
        assert started["quote"][name] == small[name], name


def test_a_quote_takes_no_room_that_the_policy_or_the_question_leaves(service: Service) -> None:
    path = filled(service, "left", displaces_overrunning=False)
    small = quotes_of(service.client, path)["c1"]
    assert (small["slots"], small["displaced_count"]) == (0, 0)
    service.client.patch(path, json={"policy": {"displaces_overrunning": True}}).raise_for_status()
    assert quotes_of(service.client, path)["c1"]["displaced_count"] == 1
    asked = service.client.get(f"{path}/quotes", params={"flavor": "c1", "slots": 0}).json()["quotes"][0]
    assert (asked["slots"], asked["displaced_count"]) == (0, 0)


def test_the_page_says_whose_room_a_start_takes(service: Service) -> None:
    path = filled(service, "shown")
    shown = service.client.get(f"/ui{path[3:]}/quotes", headers={"Cookie": f"tenure_token={TOKEN}"}).text
    small, large = shown.split('id="quote-c1"')[1].split('id="quote-c2"')
    assert "no slot is free" in small
    assert "A start would take the room of 1 overrunning instance, and evict it." in small
    assert "How long at" in small
    assert "There is no room for one more." not in small
    assert "There is no room for one more." in large


@pytest.mark.parametrize(("flavor", "code"), [("c1", 0), ("c2", 1)])
def test_the_command_says_whose_room_a_start_takes(
    service: Service, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, flavor: str, code: int
) -> None:
    path = filled(service, f"told-{flavor}")
    asked = ["--cloud", path.rpartition("/")[2], "--flavor", flavor, "--lifetime", "1s"]
    monkeypatch.setattr(sys, "argv", ["tenure", "quote", "--url", service.url, "--token", TOKEN, *asked])
    with pytest.raises(SystemExit) as caught:
        main()
    assert int(caught.value.code or 0) == code
    told = capsys.readouterr().out
    assert ("c1: no slot is free; a start would take the room of an overrunning instance" in told) == (flavor == "c1")
    assert ("guaranteed for 1 s: c1" in told) == (flavor == "c1")
    assert ("no room" in told) == (flavor == "c2")
