"""A request with its own time that is repeated late, once the cloud's time has gone on, changes nothing."""

from __future__ import annotations

from itertools import count
from typing import Any

import httpx2
import pytest

EARLY, LATE = "1970-01-01T00:05:00Z", "1970-01-01T02:00:00Z"
NUMBERS = count()
EARLY_QUERY = "?at=1970-01-01T00:05:00Z"


@pytest.fixture
def cloud(client: httpx2.Client) -> str:
    """A cloud on an external clock in which the hand-over of one eviction is awaited."""
    name = f"late-{next(NUMBERS)}"
    policy = {"guarantee": "none", "clock": "external", "grace_s": 600, "overrun_share": None}
    path = f"/v1/clouds/{name}"
    bodies = [
        ("/v1/clouds", {"name": name, "policy": policy}),
        (f"{path}/flavors", {"name": "s", "cores": 1}),
        *((f"{path}/nodes", {"name": node, "cores": 1}) for node in ("n0", "n1")),
        (f"{path}/instances", {"id": "d", "market": "on_demand", "flavor": "s", "at": "1970-01-01T00:00:01Z"}),
        *((f"{path}/instances", start) for start in (
            {"id": "v", "market": "spot", "flavor": "s", "lifetime_s": 3600, "at": "1970-01-01T00:00:02Z"},
            {"id": "e", "market": "on_demand", "flavor": "s", "at": "1970-01-01T00:00:03Z"},
        )),
    ]  # fmt: skip
    for where, body in bodies:
        answer = client.post(where, json=body)
        assert answer.is_success, answer.text
    return path


ASKED: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "confirm": ("POST", f"/handovers/v/confirm{EARLY_QUERY}", None),
    "set_quota": ("POST", "/owners/alice/quota", {"cores": 3, "at": EARLY}),
    "drain": ("POST", f"/nodes/n0/drain{EARLY_QUERY}", None),
    "add_node": ("POST", "/nodes", {"name": "n2", "cores": 4, "at": EARLY}),
    "resize": ("POST", "/nodes/n1/resize", {"cores": 2, "at": EARLY}),
    "policy": ("PATCH", "", {"policy": {"owner_cores": 7}, "at": EARLY}),
    "jump": ("PATCH", "", {"policy": {}, "at": EARLY, "jump": True}),
    "move": ("POST", "/instances/d/observe", {"node": "n0", "flavor": "s", "at": EARLY}),
}


def sent(client: httpx2.Client, path: str, asked: tuple[str, str, dict[str, Any] | None]) -> httpx2.Response:
    """Send a request to a cloud."""
    method, where, body = asked
    return client.request(method, f"{path}{where}", **({} if body is None else {"json": body}))


def last_seq_at(client: httpx2.Client, path: str) -> int:
    """Return the seq of a cloud's last event."""
    return int(client.get(path).json()["seq"])


def go_on(client: httpx2.Client, path: str) -> int:
    """Let the cloud's time go on, and return the seq of its last event."""
    moved = client.post(f"{path}/flavors", json={"name": "late", "cores": 1})
    late = client.patch(path, json={"policy": {"seed": 3}, "at": LATE, "jump": True})
    assert moved.is_success
    assert late.is_success, late.text
    return last_seq_at(client, path)


@pytest.mark.parametrize("kind", ASKED)
def test_a_change_that_is_repeated_late_is_no_error(client: httpx2.Client, cloud: str, kind: str) -> None:
    first = sent(client, cloud, ASKED[kind])
    assert first.is_success, first.text
    seq = go_on(client, cloud)
    again = sent(client, cloud, ASKED[kind])
    assert again.is_success, again.text
    assert last_seq_at(client, cloud) == seq


def test_a_removal_that_is_repeated_late_is_no_error(client: httpx2.Client, cloud: str) -> None:
    removal = ("DELETE", f"/owners/alice/quota{EARLY_QUERY}", None)
    assert sent(client, cloud, ASKED["set_quota"]).is_success
    assert sent(client, cloud, removal).status_code == 204
    seq = go_on(client, cloud)
    assert sent(client, cloud, removal).status_code == 204
    assert last_seq_at(client, cloud) == seq


@pytest.mark.parametrize("kind", sorted({*ASKED} - {"jump", "move"}))
def test_a_change_that_would_be_written_in_the_past_is_an_error(client: httpx2.Client, cloud: str, kind: str) -> None:
    seq = go_on(client, cloud)
    refused = sent(client, cloud, ASKED[kind])
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (400, "preemptible.time.backwards")
    assert last_seq_at(client, cloud) == seq


def test_an_observation_of_what_has_ended_says_so_whatever_its_time(client: httpx2.Client, cloud: str) -> None:
    assert client.delete(f"{cloud}/instances/d{EARLY_QUERY}").status_code == 204
    go_on(client, cloud)
    refused = sent(client, cloud, ASKED["move"])
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (409, "preemptible.instance.conflict")
