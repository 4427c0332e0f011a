"""A whole cloud seen by its users: `openstack tenure server create`; and the past of a real Nova in Tenure."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_processes import until
from nova_lab import PROGRAMS, NovaLab

PLUGIN = Path(__file__).parents[2] / "clients/python-tenureclient"
WITHIN_S = 120
pytestmark = [pytest.mark.real_parts, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def lab() -> Iterator[NovaLab]:
    with tempfile.TemporaryDirectory(prefix="tenure-lab-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        lab = NovaLab(Path(folder) / "lab")
        try:
            lab.up(2)
            source = lab.folder / "plugin-source"
            shutil.copytree(PLUGIN, source)
            pip = [PROGRAMS / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
            words = [*pip, "--no-build-isolation", "--no-index", "--target", lab.folder / "plugin", source]
            subprocess.run([str(word) for word in words], check=True)
            yield lab
        finally:
            lab.down()


def openstack(lab: NovaLab, *words: str) -> subprocess.CompletedProcess[str]:
    own = {"PYTHONPATH": str(lab.folder / "plugin"), "PYTHONWARNINGS": "ignore"}
    login = {name: value for name, value in lab.variables().items() if name.startswith("OS_")}
    command = [str(PROGRAMS / "openstack"), "tenure", *words]
    return subprocess.run(command, env=os.environ | own | login, capture_output=True, text=True, check=False)


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
    explained = openstack(lab, "server", "explain", "job-1", "-f", "json")
    assert json.loads(explained.stdout)["id"] == promise["id"]
    quoted = openstack(lab, "server", "list", "--status", "running", "-f", "json")
    assert promise["id"] in [row["id"] for row in json.loads(quoted.stdout)]
    refused = openstack(lab, *common, "job-2")
    assert refused.returncode == 1
    assert "was refused, it is deleted again" in refused.stderr
    assert "lifetime" in refused.stderr
    until(lambda: not list(lab.cloud.compute.servers(name="job-2")), WITHIN_S, lambda: "job-2 is still there")


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
