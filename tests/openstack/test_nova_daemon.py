"""The daemon on a real cloud: bursts of evictions, drift of every kind, and each part away or killed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lab_of_tests import lab_of_tests
from lab_processes import until
from nova_daemon import NovaDaemon, audit, differences, in_nova, running
from nova_lab import CLOUD, NovaLab
from nova_storm import Storm
from openstack.exceptions import HttpException
from second_cell import SecondCell

from app.nova.rules.marks import DEADLINE, EVICT_AT, EVICTING

pytestmark = [pytest.mark.real_parts, pytest.mark.timeout(1200)]  # on a busy machine
COMPUTES = 3
SMALL = 2
SOON_S = 15.0
"""Agreement with notifications; section 7 of the specification gives so long."""


@pytest.fixture(scope="module")
def lab() -> Iterator[NovaLab]:
    with lab_of_tests(COMPUTES) as found:
        yield found


@pytest.fixture(scope="module")
def daemon(lab: NovaLab) -> Iterator[NovaDaemon]:
    found = NovaDaemon(lab, TENURE_NOVA_UNPROMISED_AFTER_S="5")
    found.start()
    found.wait_until_it_works()
    yield found
    found.kill()


@pytest.fixture(autouse=True)
def empty(lab: NovaLab, daemon: NovaDaemon, tmp_path: Path) -> Iterator[None]:
    """Each test begins and ends with an empty cloud; in between the log breaks no rule."""
    yield
    clear(lab)
    daemon.agrees(SOON_S)
    assert "no rule is broken" in audit(lab, tmp_path)


def clear(lab: NovaLab) -> None:
    until(lambda: are_deleted(lab), 60, lambda: "Nova refuses a deletion")
    until(lambda: not in_nova(lab), 60, lambda: str(in_nova(lab)))
    until(lambda: not [*lab.cloud.compute.servers(all_projects=True)], 60, lambda: "servers are left")


def are_deleted(lab: NovaLab) -> bool:
    """Delete all servers. Nova answers 500 to the deletion of one whose resize is just being confirmed."""
    is_done = True
    for server in lab.cloud.compute.servers(all_projects=True):
        try:
            lab.cloud.compute.delete_server(server, force=server.status == "SOFT_DELETED")
        except HttpException as error:
            if error.status_code is None or error.status_code < 500:
                raise
            is_done = False
    return is_done


def many(lab: NovaLab, name: str, flavor: str, count: int, **hints: str) -> list[Any]:
    """Ask for servers one after the other, and wait until each is built or failed."""
    asked = [lab.create(f"{name}-{number}", flavor, **hints) for number in range(count)]
    return [lab.wait_for(server.id) for server in asked]


def spot(lab: NovaLab, count: int, flavor: str = "spot.small") -> list[Any]:
    return many(lab, "spot", flavor, count, tenure__lifetime="7200")


def fill(lab: NovaLab) -> list[Any]:
    """Fill the cloud with spot servers."""
    return spot(lab, sum(node.free.cores // SMALL for node in lab.tenure.nodes(CLOUD)))


def gone_s(lab: NovaLab, servers: list[str], within_s: float) -> dict[str, float]:
    """Wait until these servers hold nothing in Nova; return for each after how many seconds that was seen."""
    began_s, found = time.monotonic(), {}
    while len(found) < len(servers):
        assert time.monotonic() < began_s + within_s, [one for one in servers if one not in found]
        there = in_nova(lab)
        found |= {one: time.monotonic() - began_s for one in servers if one not in there and one not in found}
        time.sleep(0.2)
    return found


def insist(lab: NovaLab, servers: list[str]) -> None:
    """Delete servers for which Nova has lost the message: it ignores another one until an admin resets them."""
    deadline_s = time.monotonic() + 20
    while in_nova(lab).keys() & {*servers} and time.monotonic() < deadline_s:
        time.sleep(0.5)
    for server in in_nova(lab).keys() & {*servers}:
        lab.cloud.compute.reset_server_state(server, "active")
        lab.cloud.compute.delete_server(server)
    gone_s(lab, servers, 60)


def built_at_last(lab: NovaLab, server: str) -> Any:
    """Wait until a server is built. Nova never builds one whose message its broker has lost: then ask for another."""
    deadline_s = time.monotonic() + 60
    while (found := lab.cloud.compute.get_server(server)).task_state == "scheduling":
        if time.monotonic() > deadline_s:
            lab.cloud.compute.delete_server(server)
            return lab.wait_for(lab.create("another", "small").id)
        time.sleep(0.5)
    return lab.wait_for(found.id)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def test_a_burst_of_on_demand_servers_on_a_cloud_full_of_spot(
    lab: NovaLab, daemon: NovaDaemon, record_property: Callable[[str, object], None]
) -> None:
    full = fill(lab)
    assert {server.status for server in full} == {"ACTIVE"}
    daemon.agrees(SOON_S)
    began_s = time.monotonic()
    burst = many(lab, "burst", "small", 8)
    record_property("burst_s", time.monotonic() - began_s)
    assert [server.status for server in burst] == ["ACTIVE"] * 8
    evicted = [one for one in lab.tenure.instances(CLOUD, status="evicted") if one.id in {server.id for server in full}]
    assert len(evicted) == 8
    gone_s(lab, [one.id for one in evicted], 10)
    daemon.agrees(SOON_S)


def test_a_promise_is_seen_and_a_notice_comes_before_the_end(lab: NovaLab, daemon: NovaDaemon) -> None:
    grace_s = 12
    lab.tenure.change_policy(CLOUD, {"grace_s": grace_s})
    try:
        full = fill(lab)
        told = lab.tenure.instance(CLOUD, full[0].id)
        until(lambda: DEADLINE in lab.cloud.compute.get_server(full[0].id).metadata, SOON_S, daemon.output)
        deadline = moment(lab.cloud.compute.get_server(full[0].id).metadata[DEADLINE])
        assert abs((deadline - told.at).total_seconds() - 7200) < 1
        asked = lab.create("needs room", "small")
        until(lambda: [*lab.tenure.handovers(CLOUD)], 30, lambda: "nobody is evicted")
        (leaving,) = lab.tenure.handovers(CLOUD)
        until(lambda: EVICT_AT in lab.cloud.compute.get_server(leaving.id).metadata, grace_s, daemon.output)
        until(lambda: EVICTING in lab.cloud.compute.get_server(leaving.id).tags, grace_s, daemon.output)
        noticed = lab.cloud.compute.get_server(leaving.id)
        assert noticed.status == "ACTIVE"
        assert abs((moment(noticed.metadata[EVICT_AT]) - leaving.deadline).total_seconds()) <= 1
        until(lambda: not [*lab.tenure.handovers(CLOUD)], grace_s + 15, daemon.output)
        assert leaving.id not in in_nova(lab)
        assert (datetime.now(UTC) - leaving.deadline).total_seconds() < 10
        assert lab.wait_for(asked.id).status == "ACTIVE"
    finally:
        lab.tenure.change_policy(CLOUD, {"grace_s": 0})


def test_servers_that_end_are_stopped(lab: NovaLab, daemon: NovaDaemon) -> None:
    first, second = spot(lab, 1)[0], many(lab, "web", "small", 1)[0]
    for server in (first, second):
        lab.cloud.compute.delete_server(server.id)
    gone_s(lab, [first.id, second.id], SOON_S)
    daemon.agrees(SOON_S)
    assert {lab.tenure.instance(CLOUD, one.id).status for one in (first, second)} == {"stopped"}
    assert not lab.tenure.instance(CLOUD, first.id).aborted


def test_servers_that_nobody_asked_for(lab: NovaLab, daemon: NovaDaemon) -> None:
    """An admin forces them onto a host, past the filter: on-demand is observed, spot has no promise and goes."""
    forced = {"availability_zone": "nova:compute-2"}
    asked = [
        lab.cloud.compute.create_server(
            name=flavor, image_id=lab._image_id, flavor_id=lab.flavor_id(flavor), networks="none", **forced
        )
        for flavor in ("small", "spot.small")
    ]
    web, stray = (lab.wait_for(server.id) for server in asked)
    assert (web.status, stray.status) == ("ACTIVE", "ACTIVE")
    until(lambda: web.id in running(lab), SOON_S, daemon.output)
    known = lab.tenure.instance(CLOUD, web.id)
    assert (known.node, known.observed, known.flavor) == ("compute-2", True, "small")
    gone_s(lab, [stray.id], 30)
    daemon.agrees(SOON_S)


def test_a_migration_is_followed(lab: NovaLab, daemon: NovaDaemon) -> None:
    servers = [spot(lab, 1)[0], many(lab, "web", "small", 1)[0]]
    for server in servers:
        there = in_nova(lab)[server.id]
        host = next(f"compute-{number}" for number in (1, 2, 3) if f"compute-{number}" != there)
        lab.cloud.compute.live_migrate_server(server, host=host, force=False, block_migration="auto")
        until(lambda one=server, to=host: in_nova(lab).get(one.id) == to, 60, lambda: str(in_nova(lab)))
        daemon.agrees(SOON_S)
        assert lab.tenure.instance(CLOUD, server.id).node == host
    assert lab.tenure.instance(CLOUD, servers[0].id).status == "running"


def test_a_resize_is_followed(lab: NovaLab, daemon: NovaDaemon) -> None:
    server = many(lab, "web", "small", 1)[0]
    daemon.agrees(SOON_S)
    lab.cloud.compute.resize_server(server, lab.flavor_id("medium"))
    lab.wait_for(server.id, "VERIFY_RESIZE")
    until(lambda: lab.tenure.instance(CLOUD, server.id).flavor == "medium", SOON_S, daemon.output)
    lab.cloud.compute.confirm_server_resize(server)
    daemon.agrees(SOON_S)


def test_a_shelved_server_begins_another_life(lab: NovaLab, daemon: NovaDaemon) -> None:
    servers = [spot(lab, 1)[0], many(lab, "web", "small", 1)[0]]
    daemon.agrees(SOON_S)
    for server in servers:
        lab.cloud.compute.shelve_server(server)
        lab.wait_for(server.id, "SHELVED_OFFLOADED")
    daemon.agrees(SOON_S)
    for server in servers:
        assert lab.tenure.instance(CLOUD, server.id).status == "stopped"
        lab.cloud.compute.unshelve_server(server)
        lab.wait_for(server.id, "ACTIVE")
    daemon.agrees(SOON_S)
    assert {lab.tenure.instance(CLOUD, f"{server.id}.2").status for server in servers} == {"running"}


def test_a_spot_server_unshelved_before_the_daemon_looked_begins_another_life(lab: NovaLab, daemon: NovaDaemon) -> None:
    """Its old life still runs in Tenure when Nova's scheduler asks: it must not be taken for this one's promise."""
    (server,) = spot(lab, 1)
    daemon.agrees(SOON_S)
    lives = 4
    for _ in range(1, lives):
        lab.cloud.compute.shelve_server(server)
        lab.wait_for(server.id, "SHELVED_OFFLOADED")
        lab.cloud.compute.unshelve_server(server)
        lab.wait_for(server.id, "ACTIVE")
    daemon.agrees(SOON_S)
    told = [
        lab.tenure.instance(CLOUD, server.id if life == 1 else f"{server.id}.{life}") for life in range(1, lives + 1)
    ]
    assert [one.status for one in told] == ["stopped"] * (lives - 1) + ["running"]


def test_a_node_is_drained_with_its_service_and_opened_again(lab: NovaLab, daemon: NovaDaemon) -> None:
    (service,) = [one for one in lab.cloud.compute.services() if one.host == "compute-3"]
    for change, status in ((lab.cloud.compute.disable_service, "drained"), (lab.cloud.compute.enable_service, "open")):
        change(service)
        until(lambda wanted=status: lab.tenure.node(CLOUD, "compute-3").status == wanted, 60, daemon.output)


def test_the_broker_goes_and_comes_back_without_its_queues(lab: NovaLab, daemon: NovaDaemon) -> None:
    kept, doomed = many(lab, "kept", "small", 2), [*spot(lab, 2), *many(lab, "doomed", "small", 2)]
    daemon.agrees(SOON_S)
    with ThreadPoolExecutor(len(doomed) + 1) as asking:  # Nova's API answers when it reaches the broker again
        lab.processes.kill("rabbit")
        for server in doomed:
            asking.submit(lab.cloud.compute.delete_server, server.id)
        new = asking.submit(lab.create, "meanwhile", "small")
        time.sleep(5)
        lab.start_broker()
    insist(lab, [server.id for server in doomed])
    assert built_at_last(lab, new.result().id).status == "ACTIVE"
    daemon.agrees(90)
    assert {server.id for server in kept} <= in_nova(lab).keys()


SELDOM = {"TENURE_NOVA_POLL_EVERY_S": "3600", "TENURE_NOVA_COMPARE_EVERY_S": "3600"}
"""A daemon that is told of nothing finds nothing for an hour."""


def test_the_brokers_of_all_cells_are_heard(lab: NovaLab, daemon: NovaDaemon) -> None:
    """One that is away keeps nobody from hearing the others."""
    cell = SecondCell(lab)
    cell.start()
    daemon.kill()
    away = "rabbit://lab:lab@127.0.0.1:9/"
    try:
        deaf = NovaDaemon(lab, "daemon-2", **SELDOM, TENURE_NOVA_BROKERS=f"{away} {cell.url}")
        server = many(lab, "web", "small", 1)[0]
        deaf.start()
        deaf.wait_until_it_works()
        until(lambda: server.id in running(lab), SOON_S, deaf.output)
        lab.cloud.compute.delete_server(server.id)
        gone_s(lab, [server.id], SOON_S)
        time.sleep(3)
        assert server.id in running(lab), "the broker of its own cell is not heard"
        cell.publish(server.id)
        until(lambda: server.id not in running(lab), SOON_S, deaf.output)
        deaf.kill()
        both = NovaDaemon(lab, "daemon-2", **SELDOM, TENURE_NOVA_BROKERS=f"{cell.url} {lab.broker_url}")
        server = many(lab, "web", "small", 1)[0]
        both.start()
        both.wait_until_it_works()
        lab.cloud.compute.delete_server(server.id)
        until(lambda: server.id not in running(lab), SOON_S, both.output)
        heard = both.figure("tenure_nova_notifications_total")
        cell.publish(server.id)
        until(lambda: both.figure("tenure_nova_notifications_total") > heard, SOON_S, both.output)
        both.kill()
    finally:
        lab.processes.kill("daemon-2")
        cell.kill()
        daemon.start()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill -9", "SIGTERM"])
def test_a_daemon_that_was_away_finds_everything(lab: NovaLab, daemon: NovaDaemon, number: int) -> None:
    full = fill(lab)
    daemon.agrees(SOON_S)
    lab.processes.kill("daemon", number)
    lab.cloud.compute.delete_server(full[0].id)
    burst = many(lab, "burst", "small", 3)
    assert [server.status for server in burst] == ["ACTIVE"] * 3
    daemon.start()
    daemon.agrees(30)
    evicted = [one.id for one in lab.tenure.instances(CLOUD, status="evicted")]
    assert len(evicted) == len({*evicted})


def test_tenure_is_away(lab: NovaLab, daemon: NovaDaemon) -> None:
    fill(lab)
    daemon.agrees(SOON_S)
    for name in ("tenure_1", "tenure_2"):
        lab.processes.kill(name)
    refused = lab.wait_for(lab.create("refused", "spot.small", tenure__lifetime="3600").id)
    assert refused.status == "ERROR"
    assert "Tenure cannot be reached" in refused.fault["message"]
    web = many(lab, "web", "small", 4)
    assert [server.status for server in web] == ["ACTIVE"] * 4
    lab.start_tenure("tenure_1", "tenure_2")
    until(lab._tenure_answers, 240, daemon.output)
    began_s = time.monotonic()
    until(lambda: {server.id for server in web} <= running(lab).keys(), 30, daemon.output)
    daemon.agrees(max(30 - (time.monotonic() - began_s), 1))
    assert all(node.free.cores >= 0 for node in lab.tenure.nodes(CLOUD))


def test_parts_are_killed_at_random_moments(lab: NovaLab, daemon: NovaDaemon, tmp_path: Path) -> None:
    found = Storm(lab, daemon, seed=2).run(operations=20, kills=5, folder=tmp_path)
    assert sum(found.killed.values()) == 5
    assert found.late_s <= 60  # the command's bar is 15 s, on a machine that is less busy


def test_two_daemons_do_no_harm(lab: NovaLab, daemon: NovaDaemon) -> None:
    other = NovaDaemon(lab, "daemon-2", TENURE_NOVA_UNPROMISED_AFTER_S="5", TENURE_NOVA_PORT="0")
    other.start()
    try:
        fill(lab)
        burst = many(lab, "burst", "small", 4)
        assert [server.status for server in burst] == ["ACTIVE"] * 4
        daemon.agrees(SOON_S)
        lab.cloud.compute.delete_server(burst[0].id)
        gone_s(lab, [burst[0].id], SOON_S)
        daemon.agrees(SOON_S)
        clear(lab)
        daemon.agrees(SOON_S)
        time.sleep(2 * SOON_S)  # each of them compares everything, once more
    finally:
        other.kill()
    assert differences(lab) == []
    ghosts = [one.id for server in burst for one in lab.tenure.instances(CLOUD) if one.id.startswith(f"{server.id}.")]
    assert ghosts == []
