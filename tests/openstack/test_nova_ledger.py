"""The fold of a log that judges evictions on a real cloud: it must find what it is there for."""

from __future__ import annotations

import pytest
from nova_ledger import Ledger

from tenure_client.forms.events import EventAnswer, event_of

AT = "2026-11-23T12:00:00Z"
NODE = {"kind": "node_added", "node": "n", "capacity": {"cores": 4, "memory_mib": 4096, "disk_gib": 0}}
FLAVOR = {"kind": "flavor_added", "flavor": "small", "demand": {"cores": 2, "memory_mib": 1024, "disk_gib": 1}}


def events(*told: dict[str, object]) -> list[EventAnswer]:
    return [event_of({"seq": number, "at": AT, **one}) for number, one in enumerate(told, 1)]


def started(name: str, market: str) -> dict[str, object]:
    return {"kind": "instance_started", "id": name, "market": market, "flavor": "small", "node": "n", "allowed": []}


def evicted(name: str, cause: int) -> dict[str, object]:
    return {"kind": "instance_evicted", "id": name, "reason": "on_demand_start", "cause_seq": cause}


@pytest.mark.parametrize(("victim", "faults"), [("younger", 0), ("older", 1)])
def test_the_ledger_knows_the_youngest(victim: str, faults: int) -> None:
    full = [NODE, FLAVOR, started("older", "spot"), started("younger", "spot")]
    found = Ledger().read(events(*full, evicted(victim, 6), started("paying", "on_demand")))
    assert len(found.faults) == faults
    assert [one.server for one in found.departures] == [victim]


def test_the_ledger_knows_who_leaves_in_vain() -> None:
    half = [NODE, FLAVOR, started("spot", "spot")]
    found = Ledger().read(events(*half, evicted("spot", 5), started("paying", "on_demand")))
    assert len(found.faults) == 2
    assert Ledger().read(events(NODE, FLAVOR, started("paying", "on_demand"), evicted("paying", 5))).faults != []


def test_after_a_drill_there_is_room() -> None:
    log = [NODE, FLAVOR, started("spot", "spot"), evicted("spot", 4)]
    found = Ledger().read(events(*log, started("paying", "on_demand"), started("too", "on_demand")))
    assert (found.faults, found.free("n")[0]) == ([], 0)
