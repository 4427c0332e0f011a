"""Answers to what was done, where another request undoes it before the answer is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest
from api_service import Service

from app.domain.events import Event, NodeRemoved, QuotaRemoved
from app.engine.cloud import Cloud
from app.scheduling.scheduler import Scheduler

CLOUD = "/v1/clouds/undone"
Undo = Callable[[Cloud, int], Sequence[Event]]


@pytest.fixture(scope="module")
def made(service: Service) -> Service:
    policy = {"guarantee": "none", "owner_cores": 9}
    assert service.client.post("/v1/clouds", json={"name": "undone", "policy": policy}).is_success
    return service


@pytest.fixture
def undo(monkeypatch: pytest.MonkeyPatch) -> Callable[[Undo], None]:
    """Return what has a change follow the next one, before that one is answered."""
    change = Scheduler.change

    def follow_with(decide: Undo) -> None:
        async def change_and_undo(scheduler: Scheduler, name: str, *rest: object) -> object:
            decided = change(scheduler, name, *rest)  # type: ignore[arg-type]
            assert isinstance(decided, Awaitable)
            answer = await decided
            monkeypatch.setattr(Scheduler, "change", change)
            await scheduler.change(name, decide, None)
            return answer

        monkeypatch.setattr(Scheduler, "change", change_and_undo)

    return follow_with


def remove(_: Cloud, at_us: int) -> Sequence[Event]:
    return [NodeRemoved(at_us=at_us, node="n")]


def test_a_node_is_told_as_it_was_added(made: Service, undo: Callable[[Undo], None]) -> None:
    undo(remove)
    added = made.client.post(f"{CLOUD}/nodes", json={"name": "n", "cores": 4})
    assert (added.status_code, added.json()["free"]["cores"], added.json()["status"]) == (201, 4, "open")
    assert made.client.get(f"{CLOUD}/nodes/n").status_code == 404


@pytest.mark.parametrize(("deed", "status"), [("drain", "drained"), ("open", "open")])
def test_a_node_is_told_as_it_was_drained_or_opened(
    made: Service, undo: Callable[[Undo], None], deed: str, status: str
) -> None:
    assert made.client.post(f"{CLOUD}/nodes", json={"name": "n", "cores": 4}).is_success
    undo(remove)
    answer = made.client.post(f"{CLOUD}/nodes/n/{deed}")
    assert (answer.status_code, answer.json().get("status")) == (200, status)


@pytest.mark.parametrize("ran", [False, True])
def test_a_quota_is_told_as_it_was_set(made: Service, undo: Callable[[Undo], None], *, ran: bool) -> None:
    owner = f"ran-{ran}".lower()
    if ran:
        first = {"name": f"{owner}.1", "role": "member", "cloud": "undone"}
        token = made.client.post("/v1/tokens", json=first).json()["token"]
        made.client.post(f"{CLOUD}/nodes", json={"name": "m", "cores": 4})
        made.client.post(f"{CLOUD}/flavors", json={"name": "c1", "cores": 1})
        start = {"id": f"{owner}.a", "market": "spot", "flavor": "c1", "lifetime_s": 600}
        assert made.client.post(f"{CLOUD}/instances", json=start, headers={"X-Auth-Token": token}).is_success
    undo(lambda _, at_us: [QuotaRemoved(at_us=at_us, owner=owner)])
    answer = made.client.post(f"{CLOUD}/owners/{owner}/quota", json={"cores": 3})
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["quota"]["cores"], told["quota"]["is_own"], told["running"]) == (3, True, int(ran))
    listed = {one["name"]: one for one in made.client.get(f"{CLOUD}/owners").json()["owners"]}
    assert owner not in listed or not listed[owner]["quota"]["is_own"]
