"""A real Nova whose scheduler asks a real Tenure: what users and operators see of it, without the daemon."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from lab_processes import listens
from nova_lab import CLOUD, NovaLab
from openstack.exceptions import BadRequestException

pytestmark = [pytest.mark.real_parts, pytest.mark.timeout(1200)]  # on a busy machine
COMPUTES = 2
MOST_MEMORY = 4 << 30
LONGEST = 255
LEAVING = 4
"""On-demand servers that may wait for victims at a time, as the filter has it if nothing else is said."""


@pytest.fixture(scope="module")
def lab() -> Iterator[NovaLab]:
    with tempfile.TemporaryDirectory(prefix="tenure-lab-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        lab = NovaLab(Path(folder) / "lab")
        try:
            lab.up(COMPUTES)
            yield lab
        finally:
            lab.down()
        assert not (Path(folder) / "lab").exists()
        assert [name for name, port in lab.ports.items() if listens(port)] == []
        assert [one.info["cmdline"] for one in psutil.process_iter(["cmdline"]) if folder in str(one.info)] == []


@pytest.fixture
def cloud(lab: NovaLab) -> Iterator[NovaLab]:
    """The cloud, with nothing in it before and after: Nova's servers are deleted, and Tenure is told."""
    yield lab
    for server in lab.cloud.compute.servers(details=False):
        lab.cloud.compute.delete_server(server.id)
    deadline = time.monotonic() + 120
    while list(lab.cloud.compute.servers(details=False)):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    for one in lab.tenure.instances(CLOUD, status="running"):
        lab.tenure.stop(CLOUD, one.id)


def booted(lab: NovaLab, name: str, flavor: str, **hints: str) -> Any:
    return lab.wait_for(lab.create(name, flavor, **hints).id)


def spot(lab: NovaLab, name: str, flavor: str = "spot.small") -> Any:
    return booted(lab, name, flavor, tenure__lifetime="7200")


def test_the_cloud_fits_into_four_gibibytes(cloud: NovaLab) -> None:
    """Line 1, with two computes; eight more take 150 MiB each."""
    resident = cloud.processes.resident()
    assert sum(resident.values()) + 8 * (160 << 20) < MOST_MEMORY, resident


def test_a_spot_server_runs_where_tenure_says(cloud: NovaLab) -> None:
    """Line 2."""
    server = spot(cloud, "spot")
    known = cloud.tenure.instance(CLOUD, server.id)
    assert (server.status, server.hypervisor_hostname) == ("ACTIVE", known.node)
    assert (known.market, known.flavor, known.lifetime_s) == ("spot", "small", 7200)
    assert known.project == cloud.projects["admin"]
    log = (cloud.folder / "log/nova-scheduler.log").read_text()
    assert re.search(rf"{server.id} may use \['{known.node}'\] after \d+\.\d ms", log)


def test_people_of_a_project_see_their_own(cloud: NovaLab) -> None:
    member = cloud.connect("demo-member", "demo")
    server = cloud.wait_for(cloud.create("theirs", "spot.tiny", member, tenure__lifetime="600").id)
    spot(cloud, "other", "spot.tiny")
    token = member.session.get_token()
    answer = member.session.get(f"{cloud.url('tenure_2')}/v1/clouds/{CLOUD}/instances", headers={"X-Auth-Token": token})
    seen = [one["id"] for one in answer.json()["instances"] if one["status"] == "running"]
    assert seen == [server.id]


def test_on_demand_takes_the_room_of_the_youngest_spot(cloud: NovaLab) -> None:
    """Line 4 in small. Without the daemon nobody deletes the victim in Nova, and the test does."""
    spots = [spot(cloud, f"spot-{number}") for number in range(5 * COMPUTES)]
    asked = cloud.create("on-demand", "small").id
    ids = {one.id for one in spots}
    (victim,) = within(60, lambda: [one for one in cloud.tenure.instances(CLOUD, status="evicted") if one.id in ids])
    cloud.cloud.compute.delete_server(victim.id)
    server = cloud.wait_for(asked)
    states = {one.id: cloud.tenure.instance(CLOUD, one.id) for one in spots}
    evicted = [known for known in states.values() if known.status == "evicted"]
    here = [known for known in states.values() if known.node == server.hypervisor_hostname]
    assert server.status == "ACTIVE"
    assert [one.id for one in evicted] == [max(here, key=lambda known: known.seq).id]


def test_several_servers_of_one_request_are_spread_as_tenure_says(cloud: NovaLab) -> None:
    hints = {"tenure:lifetime": "600"}
    cloud.cloud.compute.create_server(
        name="many",
        image_id=cloud._image_id,
        flavor_id=cloud.flavor_id("spot.medium"),
        networks="none",
        min_count=3,
        max_count=3,
        scheduler_hints=hints,
    )
    servers = [cloud.wait_for(one.id) for one in cloud.cloud.compute.servers(details=False)]
    assert [one.status for one in servers] == ["ACTIVE"] * 3
    nodes = {one.id: one.hypervisor_hostname for one in servers}
    assert nodes == {one.id: one.node for one in cloud.tenure.instances(CLOUD, status="running")}


def test_a_refused_spot_server_says_why(cloud: NovaLab) -> None:
    """Line 3, the user's side; the reasons that need a past are in test_filter.py."""
    faults = [booted(cloud, "silent", "spot.small").fault]
    for number in range(COMPUTES):
        booted(cloud, f"large-{number}", "large")
    faults.append(spot(cloud, "late", "spot.medium").fault)
    told = [fault["message"] for fault in faults]
    assert "--hint tenure:lifetime=SECONDS" in told[0]
    assert "no host has room for a spot server of medium now" in told[1]
    assert max(map(len, told)) <= LONGEST


def test_on_demand_without_room_is_refused_by_placement_and_nobody_is_evicted(cloud: NovaLab) -> None:
    """Line 5."""
    for number in range(COMPUTES):
        booted(cloud, f"large-{number}", "large")
    spots = [spot(cloud, f"spot-{number}", "spot.small") for number in range(COMPUTES)]
    seq = cloud.tenure.cloud(CLOUD).seq
    refused = booted(cloud, "too-much", "medium")
    assert (refused.status, "Tenure" in refused.fault["message"]) == ("ERROR", False)
    assert cloud.tenure.cloud(CLOUD).seq == seq
    assert {cloud.wait_for(one.id).status for one in spots} == {"ACTIVE"}


def test_servers_wait_until_their_victims_are_gone_a_few_at_a_time(cloud: NovaLab) -> None:
    spots = {spot(cloud, f"spot-{number}").id for number in range(5 * COMPUTES)}
    asked = [cloud.create(f"on-demand-{number}", "small").id for number in range(LEAVING + 2)]
    gone: set[str] = set()

    def evicted() -> list[str]:
        known = {one.id for one in cloud.tenure.instances(CLOUD, status="evicted")}
        return sorted(known & spots - gone)

    within(60, lambda: len(evicted()) == LEAVING)
    time.sleep(3)
    assert len(evicted()) == LEAVING
    assert {cloud.cloud.compute.get_server(one).status for one in asked} == {"BUILD"}
    while len(gone) < len(asked):
        for victim in within(60, evicted):
            cloud.cloud.compute.delete_server(victim)
            gone.add(victim)
    assert {cloud.wait_for(one).status for one in asked} == {"ACTIVE"}


def test_without_tenure_on_demand_goes_on_and_spot_is_refused(cloud: NovaLab) -> None:
    """Line 10, the scheduler's part. It asks the first of two processes."""
    cloud.processes.kill("tenure_1")
    try:
        servers = [booted(cloud, f"on-demand-{number}", "small") for number in range(5)]
        refused = spot(cloud, "spot")
    finally:
        cloud.start_tenure("tenure_1")
        cloud.wait_for_port("tenure_1")
    assert [one.status for one in servers] == ["ACTIVE"] * 5
    assert "Tenure cannot be reached, so no spot server is admitted" in refused.fault["message"]
    time.sleep(11)  # the pause in which it is not asked
    assert within(60, lambda: spot(cloud, "again").status == "ACTIVE")


def test_a_spot_server_moves_where_room_is_and_keeps_its_flavor(cloud: NovaLab) -> None:
    server = spot(cloud, "spot")
    before = server.hypervisor_hostname
    cloud.cloud.compute.resize_server(server, cloud.flavor_id("spot.medium"))
    within(60, lambda: failed_action(cloud, server.id, "resize"))
    stays = cloud.wait_for(server.id)
    assert (stays.hypervisor_hostname, stays.flavor.name) == (before, "spot.small")
    log = (cloud.folder / "log/nova-scheduler.log").read_text()
    assert f"{server.id} is refused: No valid host was found. Tenure: a spot server keeps its flavor" in log
    cloud.cloud.compute.migrate_server(server)
    moved = cloud.wait_for(server.id, "VERIFY_RESIZE")
    assert moved.hypervisor_hostname != before
    cloud.cloud.compute.confirm_server_resize(server)
    cloud.wait_for(server.id, "ACTIVE")


def test_a_server_that_is_unshelved_is_a_new_start(cloud: NovaLab) -> None:
    server = spot(cloud, "spot")
    cloud.cloud.compute.shelve_server(server)
    cloud.wait_for(server.id, "SHELVED_OFFLOADED")
    cloud.tenure.stop(CLOUD, server.id)  # the daemon's part
    cloud.cloud.compute.unshelve_server(server)
    again = cloud.wait_for(server.id, "ACTIVE")
    known = cloud.tenure.instance(CLOUD, f"{server.id}.2")
    assert (known.status, known.node) == ("running", again.hypervisor_hostname)


def test_novas_api_refuses_mistyped_extra_specs(cloud: NovaLab) -> None:
    flavor = cloud.cloud.compute.find_flavor("spot.large")
    for specs in ({"tenure:market": "sport"}, {"tenure:lifetme": "60"}, {"tenure:probability": "2"}):
        with pytest.raises(BadRequestException, match="Validation failed"):
            cloud.cloud.compute.create_flavor_extra_specs(flavor, specs)


def test_twins_are_made_once(cloud: NovaLab, tmp_path: Path) -> None:
    sizes = {"vcpus": 3, "ram": 1536, "disk": 2, "ephemeral": 1, "swap": 512}
    made = cloud.cloud.compute.create_flavor(name="odd", **sizes)
    pinned = cloud.cloud.compute.create_flavor(name="pinned", vcpus=2, ram=512, disk=1)
    cloud.cloud.compute.create_flavor_extra_specs(pinned, {"hw:cpu_policy": "dedicated"})
    words = ("nova", "enable", "--cloud", CLOUD, "--lifetime", "2h", "--json")
    first = json.loads(cloud.run_tenure(*words, "--write", str(tmp_path)).stdout)
    twin = cloud.cloud.compute.find_flavor("spot.odd", get_extra_specs=True)
    again = json.loads(cloud.run_tenure(*words).stdout)
    for name in ("odd", "pinned", "spot.odd"):
        cloud.cloud.compute.delete_flavor(cloud.cloud.compute.find_flavor(name))
    assert {one["name"] for one in first["twins"] if one["made"]} == {"spot.odd"}
    assert [one["name"] for one in first["without"]] == ["pinned"]
    assert {name: getattr(twin, name) for name in sizes} == sizes
    assert twin.extra_specs["tenure:lifetime"] == "2h"
    assert again["twins"] == []
    known = {one.name: (one.cores, one.memory_mib, one.disk_gib) for one in cloud.tenure.flavors(CLOUD)}
    assert known[made.name] == (3, 1536, 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nova-tenure.conf", "tenure.yaml"]


# `tenure nova check` (line 15).


@pytest.mark.parametrize(
    "login",
    [{"OS_PASSWORD": "wrong"}, {"OS_USERNAME": "demo-member", "OS_PROJECT_NAME": "demo"}],
    ids=["wrong password", "no admin"],
)
def test_a_daemon_that_is_not_let_in_ends_at_once(cloud: NovaLab, login: dict[str, str]) -> None:
    command = [sys.executable, "-m", "app.cli", "nova", "run", "--cloud", CLOUD]
    environment = cloud.tenure_environment() | cloud.variables() | login
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "OpenStack does not do what is asked of it" in done.stderr


def test_an_import_by_somebody_who_is_no_admin_says_so(cloud: NovaLab) -> None:
    command = [sys.executable, "-m", "app.cli", "import", "past", "--from", "openstack", "--dry-run"]
    login = {"OS_USERNAME": "demo-member", "OS_PROJECT_NAME": "demo"}
    environment = cloud.tenure_environment() | cloud.variables() | login
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "OpenStack does not do what is asked of it" in done.stderr


def checked(lab: NovaLab, conf: Path) -> list[str]:
    """Return the checks that find something wrong; the exit code must agree."""
    done = lab.run_tenure("nova", "check", "--nova-conf", str(conf), "--json")
    found = json.loads(done.stdout)
    wrong = [one["check"] for one in found["findings"] if one["ok"] is False]
    assert done.returncode == (1 if wrong else 0), done.stderr
    assert all(one["todo"] for one in found["findings"] if one["ok"] is False)
    return wrong


def conf_with(lab: NovaLab, tmp_path: Path, *changes: tuple[str, str]) -> Path:
    """A copy of Nova's configuration with something in it replaced."""
    text = (lab.folder / "etc/nova/nova.conf").read_text()
    for old, new in changes:
        assert re.search(old, text, re.MULTILINE), old
        text = re.sub(old, new, text, flags=re.MULTILINE)
    path = tmp_path / "nova.conf"
    path.write_text(text)
    return path


def test_a_cloud_that_is_set_up_is_found_in_order(cloud: NovaLab, tmp_path: Path) -> None:
    assert checked(cloud, conf_with(cloud, tmp_path)) == []


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        ("filter", r",TenureFilter$", ""),
        ("filter", r"^available_filters = tenure_nova_filter.TenureFilter$", ""),
        ("filter_last", r"^(enabled_filters = )(.*),TenureFilter$", r"\1TenureFilter,\2"),
        ("providers", r"^(provider_config_location = ).*$", r"\1/var/empty"),
        ("topic", r"^(versioned_notifications_topics = versioned_notifications),tenure$", r"\1"),
        ("topic", r"^notification_format = versioned$", ""),
        ("allocation_ratio", r"^initial_cpu_allocation_ratio = 1.0$", ""),
        ("credentials", r"(^username = tenure\npassword = ).*$", r"\1wrong"),
        ("credentials", r"^cloud = lab$", "cloud = elsewhere"),
    ],
    ids=[
        "the filter is missing",
        "the filter is not available",
        "the filter is not the last",
        "the file of providers is missing",
        "the topic is missing",
        "notifications have no versions",
        "the allocation ratio is unset",
        "the credentials are wrong",
        "the cloud is another",
    ],
)
def test_each_misconfiguration_of_nova_is_found(cloud: NovaLab, tmp_path: Path, check: str, old: str, new: str) -> None:
    assert checked(cloud, conf_with(cloud, tmp_path, (old, new))) == [check]


def test_a_controller_does_not_say_what_computes_have(cloud: NovaLab, tmp_path: Path) -> None:
    """Neither provider files nor ratios stand on it; Placement tells both."""
    bare = (
        (r"^compute_driver = .*$", ""),
        (r"^(provider_config_location = ).*$", r"\1/var/empty"),
        (r"^initial_cpu_allocation_ratio = 1.0$", ""),
    )
    assert checked(cloud, conf_with(cloud, tmp_path, *bare)) == []
    (tmp_path / "other.yaml").write_text("meta: {schema_version: '1.0'}")
    here = (r"^(provider_config_location = ).*$", rf"\1{tmp_path}")
    assert checked(cloud, conf_with(cloud, tmp_path, here)) == ["providers"]


def test_a_twin_without_zeros_is_found_and_mended(cloud: NovaLab, tmp_path: Path) -> None:
    conf = conf_with(cloud, tmp_path)
    twin = cloud.cloud.compute.find_flavor("spot.medium")
    cloud.cloud.compute.delete_flavor_extra_specs_property(twin, "resources:VCPU")
    assert checked(cloud, conf) == ["twins"]
    assert cloud.run_tenure("nova", "enable", "--cloud", CLOUD).returncode == 0
    assert checked(cloud, conf) == []


def test_hosts_without_the_trait_are_found(cloud: NovaLab, tmp_path: Path) -> None:
    placement = cloud.cloud.placement
    found = placement.get("/resource_providers?required=CUSTOM_TENURE", microversion="1.29").json()
    kept = {}
    for one in found["resource_providers"]:
        path = f"/resource_providers/{one['uuid']}/traits"
        kept[path] = placement.get(path, microversion="1.29").json()
        rest = [name for name in kept[path]["traits"] if name != "CUSTOM_TENURE"]
        body = {"resource_provider_generation": kept[path]["resource_provider_generation"], "traits": rest}
        assert placement.put(path, json=body, microversion="1.29").ok
    try:
        assert len(kept) == COMPUTES
        assert checked(cloud, conf_with(cloud, tmp_path)) == ["trait"]
    finally:
        for path, before in kept.items():
            now = placement.get(path, microversion="1.29").json()["resource_provider_generation"]
            body = {"resource_provider_generation": now, "traits": before["traits"]}
            placement.put(path, json=body, microversion="1.29")


def failed_action(lab: NovaLab, server: str, name: str) -> str | None:
    """The reason why an action on a server failed, as its user sees it."""
    for action in lab.cloud.compute.server_actions(server):
        if action.action == name:
            whole = lab.cloud.compute.get_server_action(action.request_id, server)
            return next((one["details"] for one in whole.events if one.get("details")), None)
    return None


def within(seconds: float, look: Callable[[], Any]) -> Any:
    """Look until something is there."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.3)
    return found
