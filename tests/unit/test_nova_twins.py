"""Twins of flavors, the texts of `tenure nova enable`, the findings of `tenure nova check`, and all variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from app.cli import command_line
from app.commands.configuring import OF_NOVA
from app.commands.exits import exit_of
from app.domain.inputs import InputError
from app.nova.configured import provider_files
from app.nova.enabling import SCHEDULER_FILE, scheduler_text, write_texts
from app.nova.rules import findings
from app.nova.rules.twins import Untwinned, faults_of_twins, plan_twins, twin_specs
from app.nova.session import OpenStackFailed, refused

GOOD = {
    "filter_scheduler": {
        "available_filters": ["nova.scheduler.filters.all_filters", "tenure_nova_filter.TenureFilter"],
        "enabled_filters": ["ComputeFilter, ImagePropertiesFilter, TenureFilter"],
    },
    "oslo_messaging_notifications": {"driver": ["messagingv2"]},
    "notifications": {
        "notification_format": ["both"],
        "versioned_notifications_topics": ["versioned_notifications,tenure"],
    },
    "DEFAULT": {"cpu_allocation_ratio": ["2.0"]},
}


def flavor(name: str, **changed: Any) -> dict[str, Any]:
    sizes = {"vcpus": 2, "ram": 1024, "disk": 1, "OS-FLV-EXT-DATA:ephemeral": 0, "swap": ""}
    return {"id": f"id-{name}", "name": name, "os-flavor-access:is_public": True, "extra_specs": {}, **sizes, **changed}


def test_a_twin_has_the_size_and_the_marks() -> None:
    own = flavor("small", extra_specs={"aggregate_instance_extra_specs:ssd": "true"})
    [step], left = plan_twins([own], frozenset(), "2h")
    assert left == []
    assert step.body["name"] == "spot.small"
    assert (step.body["vcpus"], step.body["ram"], step.body["swap"]) == (2, 1024, 0)
    assert step.specs == {
        "aggregate_instance_extra_specs:ssd": "true",
        "resources:VCPU": "0",
        "resources:MEMORY_MB": "0",
        "resources:DISK_GB": "0",
        "resources:CUSTOM_TENURE_SPOT": "1",
        "trait:CUSTOM_TENURE": "required",
        "tenure:market": "spot",
        "tenure:flavor": "small",
        "tenure:lifetime": "2h",
    }


def test_a_second_time_changes_nothing_and_a_half_made_twin_is_completed() -> None:
    own = flavor("small")
    whole = flavor("spot.small", extra_specs=twin_specs(own))
    assert plan_twins([own, whole], frozenset(), None) == ([], [])
    [step], _ = plan_twins([own, flavor("spot.small")], frozenset(), None)
    assert (step.flavor, step.body, step.specs) == ("id-spot.small", {}, twin_specs(own))


@pytest.mark.parametrize(
    ("own", "more", "why"),
    [
        ({"extra_specs": {"hw:cpu_policy": "dedicated"}}, [], "before it is built"),
        ({"extra_specs": {"resources:VGPU": "1"}}, [], "before it is built"),
        ({"vcpus": 100_000}, [], "Tenure has no flavor of this size"),
        ({}, [flavor("spot.small", ram=2048, extra_specs={"tenure:market": "spot"})], "another size"),
        ({}, [flavor("spot.small", extra_specs={"hw:cpu_policy": "shared"})], "is no spot flavor"),
    ],
)
def test_what_cannot_have_a_twin_is_told(own: dict[str, Any], more: list[dict[str, Any]], why: str) -> None:
    steps, [left] = plan_twins([flavor("small", **own), *more], frozenset({"small"}), None)
    assert steps == []
    assert why in left.why


def test_a_flavor_that_is_not_there_is_told() -> None:
    assert plan_twins([flavor("small")], frozenset({"huge"}), None) == (
        [],
        [Untwinned("huge", "Nova has no such flavor")],
    )


@pytest.mark.parametrize("lacks", ["resources:VCPU", "resources:CUSTOM_TENURE_SPOT", "trait:CUSTOM_TENURE"])
def test_faults_of_a_twin_are_found(lacks: str) -> None:
    own = flavor("small")
    specs = twin_specs(own)
    assert faults_of_twins([own, flavor("spot.small", extra_specs=specs)]) == []
    wrong = {name: value for name, value in specs.items() if name != lacks}
    [fault] = faults_of_twins([own, flavor("spot.small", extra_specs=wrong)])
    assert lacks in fault
    assert faults_of_twins([own]) == ["there is no spot flavor"]
    assert "no such flavor" in faults_of_twins([flavor("spot.small", extra_specs=specs)])[0]
    assert "another size" in faults_of_twins([flavor("small", vcpus=1), flavor("spot.small", extra_specs=specs)])[0]


def changed(group: str, option: str, *values: str) -> findings.Configured:
    return {**GOOD, group: {**GOOD[group], option: list(values)}}


def verdicts(configured: findings.Configured) -> dict[str, bool | None]:
    found = [*findings.judge_filters(configured), findings.judge_topic(configured, has_pool=False)]
    return {one.check: one.ok for one in found}


def test_a_configuration_in_order_has_no_findings() -> None:
    assert set(verdicts(GOOD).values()) == {True}


@pytest.mark.parametrize(
    ("configured", "check"),
    [
        (changed("filter_scheduler", "available_filters", "nova.scheduler.filters.all_filters"), "filter"),
        (changed("filter_scheduler", "enabled_filters", "ComputeFilter"), "filter"),
        (changed("filter_scheduler", "enabled_filters", "TenureFilter,ComputeFilter"), "filter_last"),
        (changed("oslo_messaging_notifications", "driver", "noop"), "topic"),
        (changed("notifications", "notification_format", "unversioned"), "topic"),
        (changed("notifications", "versioned_notifications_topics", "versioned_notifications"), "topic"),
    ],
)
def test_each_fault_of_a_configuration_is_found(configured: findings.Configured, check: str) -> None:
    assert [name for name, ok in verdicts(configured).items() if ok is False] == [check]


def test_a_pool_needs_no_topic() -> None:
    without = changed("notifications", "versioned_notifications_topics", "versioned_notifications")
    assert findings.judge_topic(without, has_pool=True).ok


@pytest.mark.parametrize(
    ("ratios", "is_said", "ok", "told"),
    [
        ([1.0, 1.0, 2.5], False, True, "Placement sells a core as 1 on 2 hosts, 2.5 on 1 hosts"),
        ([4.0], True, True, "4 on 1 hosts"),
        ([4.0, 1.0], False, None, "4 is Nova's own"),
        ([], True, None, "no host with the trait"),
    ],
)
def test_cores_are_sold_as_placement_says(ratios: list[float], is_said: bool, ok: bool | None, told: str) -> None:
    """A controller's nova.conf says nothing of what computes do, nor does that of a compute of another one."""
    configured = GOOD if is_said else changed("DEFAULT", "cpu_allocation_ratio")
    hosts = {f"cmp-{number}": {"VCPU": ratio} for number, ratio in enumerate(ratios)}
    ratios_by_host = {**hosts, "no-cores": {"CUSTOM_TENURE_SPOT": 1.0}}
    found = findings.judge_ratio(configured, ratios_by_host)
    assert found.ok is ok
    assert told in found.told
    compute = {**configured, "DEFAULT": {**configured["DEFAULT"], "compute_driver": ["libvirt.LibvirtDriver"]}}
    assert findings.judge_ratio(compute, ratios_by_host).ok is (ok if is_said else False)


def test_a_controller_has_no_provider_files(tmp_path: Path) -> None:
    folder = tmp_path / "provider_config"

    def verdict(*, is_compute: bool = False) -> bool | None:
        configured = {"compute": {"provider_config_location": [str(folder)]}}
        return findings.judge_providers(*provider_files(configured), is_compute=is_compute).ok

    assert (verdict(), verdict(is_compute=True)) == (None, False)
    folder.mkdir()
    (folder / "README").write_text("CUSTOM_TENURE CUSTOM_TENURE_SPOT")
    assert (verdict(), verdict(is_compute=True)) == (None, False)
    (folder / "other.yaml").write_text("meta: {}")
    assert (verdict(), verdict(is_compute=True)) == (False, False)
    (folder / "tenure.yaml").write_text("CUSTOM_TENURE CUSTOM_TENURE_SPOT")
    assert (verdict(), verdict(is_compute=True)) == (True, True)
    (folder / "broken.yaml").mkdir()
    assert (verdict(), verdict(is_compute=True)) == (None, False)


def test_hosts_need_trait_and_resource() -> None:
    assert findings.judge_trait({}).ok is False
    assert findings.judge_trait({"a": frozenset({"VCPU"})}).ok is False
    assert findings.judge_trait({"a": frozenset({"VCPU", "CUSTOM_TENURE_SPOT"})}).ok


def test_files_that_say_something_else_are_kept_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / SCHEDULER_FILE).write_text("of the operator\n")
    with pytest.raises(InputError, match="says something else"):
        write_texts(tmp_path, "north", "http://tenure.example")
    assert [path.name for path in tmp_path.iterdir()] == [SCHEDULER_FILE]
    (tmp_path / SCHEDULER_FILE).unlink()
    written = write_texts(tmp_path, "north", "http://tenure.example")
    assert write_texts(tmp_path, "north", "http://tenure.example") == written
    assert "cloud = north\n" in (tmp_path / SCHEDULER_FILE).read_text()


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://localhost:8080", "http://[::1]:8080"])
def test_an_address_of_this_machine_is_none_for_schedulers(url: str) -> None:
    assert "endpoint_override = TENURE\n" in scheduler_text("north", url)
    text = scheduler_text("north", "https://tenure.example")
    assert "endpoint_override = https://tenure.example\n" in text
    assert text.splitlines()[0] == "# Replace the words in capitals: KEYSTONE, SECRET."


@pytest.mark.parametrize(
    ("error", "code"), [(OpenStackFailed("GET /x: no"), 3), (refused(503, "GET /x: no"), 3), (refused(403, "no"), 1)]
)
def test_an_openstack_that_refuses_ends_a_command_with_a_sentence(error: Exception, code: int) -> None:
    error.add_note("done before: nothing")
    ending = exit_of(error)
    assert ending is not None
    assert ending.code == code
    assert str(error) in ending.sentence
    assert "OS_CLOUD" in ending.sentence
    assert ending.sentence.endswith("; done before: nothing")


def test_every_variable_of_nova_is_known_to_all_commands() -> None:
    """Each command warns of variables that nobody reads."""
    commands: Any = get_command(command_line()).commands  # type: ignore[attr-defined]
    options = [one for command in (commands["import"], *commands["nova"].commands.values()) for one in command.params]
    named = {one.envvar for one in options if str(one.envvar).startswith("TENURE_NOVA_")}
    assert named == set(OF_NOVA)
