"""Games of a few requests: moves to and fro, and quotas that flicker, earn nothing and cost nobody anything.

Two clouds have the same past. The game is played in one of them; then both must decide and tell the same.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx2
import pytest
from api_service import TOKEN, Service, running_service

from app.domain.events.wire import of_wire
from app.workbench.audit import audit
from app.workbench.logcsv import LogWriter, read_rows

POLICY: dict[str, Any] = {
    "clock": "external", "eviction_probability": 0.2, "warm_up_s": 0, "sample_count": 100,
    "recompute_every_s": 864_000, "table_max_age_s": 864_000, "min_windows": None,
}  # fmt: skip
GAME_H = 48.0
TO_AND_FRO = 20
FLICKERS = 100
LATER_S = (60, 1800, 7200, 40_000, 200_000)
_numbers = count()


def at(hours: float) -> str:
    minutes = round(hours * 60)
    return f"1970-01-{1 + minutes // 1440:02}T{minutes // 60 % 24:02}:{minutes % 60:02}:00Z"


class Learned:
    """A cloud of three nodes whose on-demand load came and went for two days, with a table, and two tenants in it."""

    def __init__(self, service: Service, **policy: Any) -> None:
        self.service, self.client, self.name = service, service.client, f"small-game-{next(_numbers)}"
        self.path = f"/v1/clouds/{self.name}"
        self.send("POST", "/v1/clouds", {"name": self.name, "policy": POLICY | policy})
        for number in range(3):
            self.send("POST", f"{self.path}/nodes", {"name": f"n{number}", "cores": 4})
        for cores in (1, 4):
            self.send("POST", f"{self.path}/flavors", {"name": f"c{cores}", "cores": cores})
        self.tokens: dict[str | None, str] = {None: TOKEN}
        for owner in ("a", "b"):
            token = {"name": f"{self.name}-{owner}.1", "role": "member", "cloud": self.name}
            self.tokens[owner] = self.send("POST", "/v1/tokens", token)["token"]
        self.send("POST", f"{self.path}/batch", {"operations": [*self._past()]})
        self.send("POST", f"{self.path}/tables")
        service.compute_tables()
        service.wait_for_epoch(self.name, 1)

    @staticmethod
    def _past() -> Iterator[dict[str, Any]]:
        for hour in range(48):
            names = [f"od-{hour}-{number}" for number in range(1 + hour % 3)]
            for name in names:
                yield {"start": {"id": name, "market": "on_demand", "flavor": "c4", "at": at(hour)}}
            for name in names:
                yield {"stop": {"id": name, "at": at(hour + 0.5)}}

    def send(
        self, method: str, path: str, body: Any = None, owner: str | None = None, status: int | None = None
    ) -> Any:
        headers = {"X-Auth-Token": TOKEN if owner is None else self.tokens[owner]}
        answer = self.client.request(method, path, json=body, headers=headers)
        assert answer.status_code == status if status else answer.is_success, answer.text
        return answer.json() if answer.content else None

    def asked(self, name: str, hours: float, lifetime_s: float = 1800) -> dict[str, Any]:
        return {"id": name, "market": "spot", "flavor": "c1", "lifetime_s": lifetime_s, "at": at(hours)}

    def start(self, name: str, hours: float, owner: str, lifetime_s: float = 1800) -> dict[str, Any]:
        answer = self.send("POST", f"{self.path}/instances", self.asked(name, hours, lifetime_s), owner)
        return {field: value for field, value in answer.items() if field != "seq"}

    def books(self) -> list[dict[str, Any]]:
        return [book for one in self.send("GET", f"{self.path}/sla")["classes"] for book in one["books"]]

    def told(self) -> list[dict[str, Any]]:
        """The answers to later starts of all lifetimes, and the books and owners after them."""
        answers = [
            self.start(f"later-{owner}-{lifetime_s}", GAME_H + 0.5, owner, lifetime_s)
            for lifetime_s in LATER_S
            for owner in ("a", "b")
        ]
        owners = self.send("GET", f"{self.path}/owners")["owners"]
        return [*answers, *self.books(), *(one | {"name": one["name"] and one["name"][-1]} for one in owners)]

    def seq(self) -> int:
        return self.service.last_seq(self.name)

    def rows(self) -> list[Any]:
        found: list[dict[str, Any]] = []
        while more := self.send("GET", f"{self.path}/events?after_seq={len(found)}&limit=1000")["events"]:
            found += more
        file = io.StringIO()
        writer = LogWriter(file)
        for event in found:
            writer.write(of_wire(event))
        return [row for _, row in read_rows(io.StringIO(file.getvalue()), "log")]


@pytest.fixture(scope="module")
def twins(service: Service) -> Iterator[Learned]:
    """Yield clouds that are alike, as many as are asked for."""
    return (Learned(service) for _ in count())


def test_moves_to_and_fro_earn_nothing(twins: Iterator[Learned]) -> None:
    played, usual = next(twins), next(twins)
    for cloud in (played, usual):
        for owner in ("a", "b"):
            for number in range(2):
                assert cloud.start(f"{owner}{number}", GAME_H, owner)["status"] == "accepted"
    running = {
        one["id"]: one["node"] for one in played.send("GET", f"{played.path}/instances?status=running")["instances"]
    }
    free = [f"n{number}" for number in range(3) if f"n{number}" not in running.values()]
    before, books = played.seq(), played.books()
    for _ in range(TO_AND_FRO):
        for name, node in running.items():
            for to in (free[0], node):
                played.send("POST", f"{played.path}/instances/{name}/move", {"node": to, "at": at(GAME_H)})
    assert played.seq() == before + 2 * TO_AND_FRO * len(running)
    assert played.books() == books
    assert played.told() == usual.told()
    assert audit(played.rows(), []).finding is None


def test_no_tenant_moves_anything(twins: Iterator[Learned]) -> None:
    """Neither its own instance out of the way of an eviction, nor another's into it."""
    cloud = next(twins)
    for owner in ("a", "b"):
        cloud.start(owner, GAME_H, owner)
    before = cloud.seq()
    for owner in ("a", "b"):
        move = {"node": "n2", "at": at(GAME_H)}
        cloud.send("POST", f"{cloud.path}/instances/{owner}/move", move, "a", status=403)
        cloud.send("POST", f"{cloud.path}/batch", {"operations": [{"move": {"id": owner} | move}]}, "a", status=403)
    assert cloud.seq() == before


def _rounded(told: Any) -> Any:
    """Return what is told without the last digits of sums, which depend on the machine."""
    if isinstance(told, dict):
        return {name: _rounded(value) for name, value in told.items()}
    if isinstance(told, list):
        return [_rounded(value) for value in told]
    return round(told, 12) if isinstance(told, float) else told


def test_who_starts_and_stops_again_and_again_earns_nothing(twins: Iterator[Learned]) -> None:
    """Each start would bring the book what it may cost, and is over before it has borne any risk."""
    played, usual = next(twins), next(twins)
    for cloud in (played, usual):
        for lifetime_s in (1800, 7200):
            assert cloud.start(f"b-{lifetime_s}", GAME_H, "b", lifetime_s)["status"] == "accepted"
    books = played.books()
    for lifetime_s in (1800, 7200):
        operations: list[dict[str, Any]] = []
        for number in range(FLICKERS):
            asked = played.asked(f"flicker-{lifetime_s}-{number}", GAME_H, lifetime_s)
            operations += [{"start": asked}, {"stop": {"id": asked["id"], "at": at(GAME_H)}}]
        results = played.send("POST", f"{played.path}/batch", {"operations": operations}, "a")["results"]
        answered = [(one["status"], one.get("body", {}).get("status")) for one in results]
        assert answered == [(201, "accepted"), (204, None)] * FLICKERS, results[:2]
    assert _rounded(played.books()) == _rounded(books)
    answers = len(LATER_S) * 2
    assert _rounded(played.told()[:answers]) == _rounded(usual.told()[:answers])


def check_quota(rows: list[Any], usual: int) -> None:
    """Check at each position of the log that no more instances of the owner run than its quota allows."""
    limit, running = usual, set()
    for row in rows:
        if row.kind in {"quota_set", "quota_removed"}:
            limit = row.owner_cores or usual
        elif row.kind == "instance_started" and row.owner:
            running.add(row.instance_id)
            assert len(running) <= limit, row.seq
        elif row.kind == "instance_stopped":
            running.discard(row.instance_id)


def test_a_quota_that_flickers_is_never_exceeded(service: Service, database_url: str) -> None:
    """An admin sets and removes it while its owner starts and stops through two processes."""
    cloud = Learned(service, guarantee="none", owner_cores=2)
    quota, failed = f"{cloud.path}/owners/{cloud.name}-a/quota", []

    def flicker() -> None:
        for _ in range(30):
            cloud.send("POST", quota, {"cores": 4, "at": at(GAME_H)})
            cloud.send("DELETE", f"{quota}?at={at(GAME_H)}")

    def ask(client: httpx2.Client, mine: str) -> None:
        headers = {"X-Auth-Token": cloud.tokens["a"]}
        for number in range(30):
            asked = cloud.asked(f"{mine}{number}", GAME_H)
            answer = client.post(f"{cloud.path}/instances", json=asked, headers=headers)
            failed.extend([] if answer.is_success else [answer.text])
            if number % 3 == 2:
                path = f"{cloud.path}/instances/{mine}{number - 2}"
                client.delete(path, params={"at": at(GAME_H)}, headers=headers)

    with running_service(database_url) as other:
        asking = [threading.Thread(target=ask, args=(one.client, name)) for one, name in ((service, "x"), (other, "y"))]
        for thread in (flickering := threading.Thread(target=flicker), *asking):
            thread.start()
        for thread in (flickering, *asking):
            thread.join()
    assert failed == []
    rows = cloud.rows()
    check_quota(rows, 2)
    assert any(row.reason == "quota_exceeded" for row in rows)
    assert audit(rows, []).finding is None
    assert cloud.start("b", GAME_H, "b")["status"] == "accepted"
