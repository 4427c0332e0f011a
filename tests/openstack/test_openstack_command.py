"""A whole cloud seen by its users: `openstack tenure server create`; and the past of a real Nova in Tenure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from command_schemas import SCHEMAS, checked, key_of
from lab_command import install_command
from lab_processes import until
from nova_lab import CLOUD, TOKEN, NovaLab
from quoted_cloud import NAME, PATH, make_quoted

WITHIN_S = 120
pytestmark = [pytest.mark.real_parts, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def lab() -> Iterator[NovaLab]:
    with tempfile.TemporaryDirectory(prefix="tenure-lab-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        lab = NovaLab(Path(folder) / "lab", tenure={"TENURE_WEBHOOK_ALLOW_PRIVATE": "true"})
        try:
            lab.up(2)
            install_command(lab)
            yield lab
        finally:
            lab.down()


def openstack(lab: NovaLab, *words: str, cloud: str = CLOUD) -> subprocess.CompletedProcess[str]:
    own = {"PYTHONWARNINGS": "ignore", "TENURE_CLOUD": cloud}
    login = {name: value for name, value in lab.variables().items() if name.startswith("OS_")}
    command = [str(install_command(lab) / "openstack"), "tenure", *words]
    return subprocess.run(command, env=os.environ | own | login, capture_output=True, text=True, check=False)


def told(lab: NovaLab, *words: str, cloud: str = CLOUD) -> Any:
    """Return what a command prints with `-f json`, which has to be in its schema."""
    done = openstack(lab, *words, "-f", "json", cloud=cloud)
    assert done.returncode == 0, (words, done.stderr)
    return checked(words, done.stdout)


def tenure(*words: str, **variables: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "app.cli", *words]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def rules(report: dict[str, Any]) -> dict[str, int]:
    return {rule["rule"]: rule["count"] for rule in report["rules"]}


def test_a_server_is_created_with_a_promise_or_refused_and_deleted(lab: NovaLab) -> None:
    common = ("server", "create", "--flavor", "spot.small", "--image", "tiny", "--network", "none", "-f", "json")
    made = openstack(lab, *common, "--lifetime", "2h", "job-1")
    assert made.returncode == 0, made.stderr
    promise = json.loads(made.stdout)
    assert (promise["status"], promise["market"], promise["lifetime_s"]) == ("running", "spot", 7200)
    assert promise["node"].startswith("compute-")
    (held,) = (row for row in told(lab, "server", "list") if row["id"] == promise["id"])
    assert held["eviction_probability"] == promise["eviction_probability"]
    paying = openstack(lab, *common[:2], "--flavor", "small", *common[4:], "--lifetime", "2h", "job-0")
    assert paying.returncode == 1
    assert "small is no spot flavor; its spot twin is spot.small" in paying.stderr
    assert not list(lab.cloud.compute.servers(name="job-0"))
    explained = openstack(lab, "server", "explain", "job-1", "-f", "json")
    assert json.loads(explained.stdout)["id"] == promise["id"]
    quoted = openstack(lab, "server", "list", "--status", "running", "-f", "json")
    assert promise["id"] in [row["id"] for row in json.loads(quoted.stdout)]
    refused = openstack(lab, *common, "job-2")
    assert refused.returncode == 1
    assert "was refused, it is deleted again" in refused.stderr
    assert "lifetime" in refused.stderr
    assert "It is explained by" not in refused.stderr, "Tenure has nothing to explain"
    until(lambda: not list(lab.cloud.compute.servers(name="job-2")), WITHIN_S, lambda: "job-2 is still there")
    never = openstack(lab, "server", "explain", "job-2")
    assert "Tenure was never asked for this server" in never.stderr, "without a lifetime the filter refuses by itself"


def test_a_deleted_server_is_found_by_its_name(lab: NovaLab) -> None:
    common = ("--flavor", "spot.small", "--image", "tiny", "--network", "none", "--lifetime", "2h")
    made = told(lab, "server", "create", *common, "gone-1")
    lab.cloud.compute.delete_server(made["id"])
    until(lambda: not list(lab.cloud.compute.servers(name="gone-1")), WITHIN_S, lambda: "gone-1 is still there")
    assert told(lab, "server", "show", "gone-1")["id"] == made["id"]
    assert told(lab, "server", "explain", "gone-1")["id"] == made["id"]


class Asking:
    """Asks commands, and keeps which of the schemas were used."""

    def __init__(self, lab: NovaLab) -> None:
        self.lab, self.used = lab, set[str]()

    def __call__(self, *words: str, cloud: str = CLOUD) -> Any:
        self.used.add(key_of(words))
        return told(self.lab, *words, cloud=cloud)

    def quietly(self, *words: str) -> None:
        """Ask a command that prints nothing."""
        done = openstack(self.lab, *words)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_every_command_against_the_cloud(lab: NovaLab) -> None:
    """They are asked as the admin of the cloud, with a token and the catalogue of Keystone."""
    ask = Asking(lab)
    assert ask("policy", "set", "grace_s=600")["grace_s"] == 600
    common = ("--flavor", "spot.small", "--image", "tiny", "--network", "none", "--lifetime", "2h")
    made = ask("server", "create", *common, "every-1")
    assert {row["name"] for row in ask("cloud", "list")} == {CLOUD}
    assert ask("policy", "show")["grace_s"] == 600
    assert ask("server", "show", "every-1") == made
    assert made["id"] in [row["id"] for row in ask("server", "list")]
    assert made["node"] in ask("server", "explain", "every-1")["explanation"]
    assert {row["name"] for row in ask("node", "list")} == {"compute-1", "compute-2"}
    assert ask("node", "drain", "compute-2")["status"] == "drained"
    assert ask("node", "open", "compute-2")["status"] == "open"
    status = ask("status")
    assert (status["name"], status["nodes"], status["cores"]) == (CLOUD, 2, 20)
    assert ask("decision", "list")[0]["id"] == made["id"]
    kinds = {row["kind"] for row in ask("event", "list")}
    assert {"cloud_created", "instance_started", "node_drained", "node_opened", "policy_changed"} <= kinds
    for words in (("sla", "show"), ("reliability",)):
        assert isinstance(ask(*words), list)
    evict(ask, made["id"])
    hook(ask)
    quote(ask)
    lab.cloud.compute.delete_server(made["id"])
    assert ask.used == SCHEMAS.keys()


def evict(ask: Asking, server: str) -> None:
    assert ask("drill")["id"] == server
    assert ask("drill", "--yes")["id"] == server
    (leaving,) = ask("eviction", "list")
    assert leaving["id"] == server
    ask.quietly("eviction", "confirm", server, "--yes")
    assert ask("eviction", "list") == []


def quote(ask: Asking) -> None:
    """Ask for quotes of another cloud: that of the servers has had no day to learn from."""
    refused = openstack(ask.lab, "quote")
    assert (refused.returncode, "preemptible.table.not_found" in refused.stderr) == (1, True)
    with httpx2.Client(base_url=ask.lab.url("tenure_1"), headers={"X-Auth-Token": TOKEN}, timeout=60) as client:
        make_quoted(client)
        until(lambda: client.get(f"{PATH}/quotes").is_success, WITHIN_S, lambda: client.get(f"{PATH}/quotes").text)
    (row,) = ask("quote", "--lifetime", "30m", cloud=NAME)
    assert (row["flavor"], row["asked_lifetime_s"]) == ("small", 1800)
    assert row["lifetime_s"] > 0


def hook(ask: Asking) -> None:
    made = ask("webhook", "create", "http://127.0.0.1:9/x", "--kind", "instance_evicted")
    assert [row["id"] for row in ask("webhook", "list")] == [made["id"]]
    assert ask("webhook", "test", made["id"])["taken"] is False
    ask.quietly("webhook", "delete", made["id"])
    assert ask("webhook", "list") == []


def test_the_past_of_a_real_nova(lab: NovaLab) -> None:
    compute = lab.cloud.compute
    resized = lab.wait_for(lab.create("resized", "small").id)
    compute.resize_server(resized.id, lab.flavor_id("medium"))
    lab.wait_for(resized.id, "VERIFY_RESIZE")
    compute.confirm_server_resize(resized.id)
    lab.wait_for(resized.id, "ACTIVE")
    shelved = lab.wait_for(lab.create("shelved", "small").id)
    compute.shelve_server(shelved.id)
    lab.wait_for(shelved.id, "SHELVED_OFFLOADED")
    compute.unshelve_server(shelved.id)
    lab.wait_for(shelved.id, "ACTIVE")
    compute.delete_server(shelved.id)
    until(lambda: not list(compute.servers(name="shelved")), WITHIN_S, lambda: "it is still there")
    unmet = [lab.wait_for(lab.create(f"large-{number}", "large").id) for number in range(6)]
    failed = sum(server.status == "ERROR" for server in unmet)
    assert failed > 0
    databases = {"TENURE_NOVA_DATABASE": lab.database_url("nova"), "TENURE_NOVA_CELLS": lab.database_url("nova_cell0")}
    common = ("import", "past", "--dry-run", "--json", "--since", "2020-01-01")
    report = tenure(*common, "--from", "nova", **databases)
    found = rules(report)
    assert (found["resized"], found["shelved"]) == (1, 1)
    assert found["unmet_demand"] == report["record"]["unmet_demand"]["servers"] >= failed
    assert "size_of_later" not in found
    assert report["nodes"] == 2
    assert {"small", "medium", "large"} <= set(report["flavors"])
    login = {name: value for name, value in lab.variables().items() if name.startswith("OS_")}
    told = tenure(*common, "--from", "openstack", **login)
    assert told["record"]["unmet_demand"] == report["record"]["unmet_demand"]
    assert (told["nodes"], told["cores"]) == (2, 20)
    assert told["running"] == report["running"]
