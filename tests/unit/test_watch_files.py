"""The files for Prometheus and Grafana by themselves; tests/e2e/test_watching.py holds them against real processes."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from watch_files import ALERTS, DASHBOARD, DEPLOY, PANELS, PROGRAMS, PROMETHEUS, RULES, expressions, selected

from app.processes.endpoints import METRICS, WORKERS

CONFIGURATIONS = ("prometheus.yml", "kubernetes.yml")
needs_promtool = pytest.mark.skipif(not PROGRAMS, reason="Prometheus' own programs are not installed")


@pytest.mark.parametrize(("place", "expression"), expressions())
def test_every_expression_can_be_read_and_reads_something(place: str, expression: str) -> None:
    assert selected(expression)


def test_rules_have_what_an_operator_needs() -> None:
    assert RULES.keys() == {"groups"}
    for group in RULES["groups"]:
        assert group.keys() == {"name", "rules"}
    for rule in ALERTS:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"Tenure[A-Z]\w+", rule["alert"])
        assert re.fullmatch(r"\d+[mh]", rule.get("for", "1m"))
        assert rule["labels"].keys() == {"severity"}
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"].keys() == {"summary", "description"}
    names = [rule["alert"] for rule in ALERTS]
    assert len(names) == len({*names})


def test_every_alert_is_tested() -> None:
    tests = (PROMETHEUS / "rules_test.yml").read_text()
    assert {rule["alert"] for rule in ALERTS} == set(re.findall(r'alertname="(\w+)"', tests))


@needs_promtool
@pytest.mark.parametrize(
    "command",
    [
        ["check", "rules", "rules.yml"],
        ["test", "rules", "rules_test.yml"],
        ["check", "config", "--syntax-only", "prometheus.yml"],
    ],
    ids=" ".join,
)
def test_prometheus_own_tool_is_content(command: list[str]) -> None:
    done = subprocess.run(["promtool", *command], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_scrapes_are_of_paths_that_there_are(name: str) -> None:
    jobs = {job["job_name"]: job for job in yaml.safe_load((PROMETHEUS / name).read_text())["scrape_configs"]}
    paths = {job: jobs[job].get("metrics_path", "/metrics") for job in jobs}
    if name == "prometheus.yml":
        assert paths.pop("tenure-nova") == "/metrics"  # of the daemon's own server, which asks for no token
        assert "authorization" not in jobs.pop("tenure-nova")
    served = [operation.path for operation in METRICS]
    assert paths == dict(zip(("tenure", "tenure-clouds", "tenure-clusters", "tenure-peers"), served, strict=True)) | {
        "tenure-worker": served[0]
    }
    assert served[0] in {operation.path for operation in WORKERS}
    assert all("credentials_file" in job["authorization"] for job in jobs.values())


def test_the_scrapes_of_kubernetes_find_the_pods() -> None:
    """By hand: Debian's build of Prometheus' tool does not know Kubernetes."""
    jobs = {
        job["job_name"]: job for job in yaml.safe_load((PROMETHEUS / "kubernetes.yml").read_text())["scrape_configs"]
    }
    for job, name in (("tenure", "serve"), ("tenure-worker", "worker")):
        spec = yaml.safe_load((DEPLOY / "kubernetes" / f"{name}.yaml").read_text())["spec"]["template"]
        (container,) = spec["spec"]["containers"]
        (port,) = container["ports"]
        keep = jobs[job]["relabel_configs"][0]
        assert keep["action"] == "keep"
        assert keep["regex"] == f"{spec['metadata']['labels']['app.kubernetes.io/name']};{port['name']}"
    service = yaml.safe_load((DEPLOY / "kubernetes" / "service.yaml").read_text())
    target = f"{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    assert jobs["tenure-clouds"]["static_configs"] == [{"targets": [target]}]


def test_alerts_name_jobs_that_there_are() -> None:
    jobs = [job["job_name"] for job in yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["scrape_configs"]]
    for _, expression in expressions():
        for operator, value in re.findall(r'job(=~?)"([^"]+)"', expression):
            assert [job for job in jobs if re.fullmatch(value if operator == "=~" else re.escape(value), job)]


def test_what_a_panel_shows_in_seconds_is_seconds() -> None:
    for panel in PANELS:
        fields = panel["fieldConfig"]
        others = {one["matcher"]["options"] for one in fields.get("overrides", [])}
        for target in panel["targets"]:
            if fields["defaults"].get("unit") == "s" and target["refId"] not in others:
                assert "_seconds" in target["expr"] or "time()" in target["expr"], (panel["title"], target["expr"])


def test_the_dashboard_has_the_form_that_grafana_takes() -> None:
    """Read into Grafana's own types and written again, nothing of it is lost."""
    register_default_plugins()
    assert lost(DASHBOARD, json.loads(JSONEncoder().encode(Dashboard.from_json(DASHBOARD)))) == []


def lost(given: object, kept: object, place: str = "") -> list[str]:
    if isinstance(given, dict) and isinstance(kept, dict):
        return [
            part
            for key, value in given.items()
            for part in ([f"{place}.{key}"] if key not in kept else lost(value, kept[key], f"{place}.{key}"))
        ]
    if isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        pairs = enumerate(zip(given, kept, strict=True))
        return [part for index, (one, other) in pairs for part in lost(one, other, f"{place}[{index}]")]
    return [] if given == kept else [place]


def test_panels_stand_apart_and_say_what_they_show() -> None:
    everything = DASHBOARD["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    taken = set()
    for panel in everything:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    for panel in PANELS:
        assert panel["title"]
        assert all(target["legendFormat"] or panel["type"] == "stat" for target in panel["targets"])
        references = [target["refId"] for target in panel["targets"]]
        assert all(one < other for one, other in pairwise(references))


def test_grafana_finds_what_compose_mounts() -> None:
    services = yaml.safe_load((DEPLOY.parent / "docker-compose.yml").read_text())["services"]
    provider = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/tenure.yml").read_text())["providers"][0]
    mounts = dict(volume.split(":")[:2] for volume in services["grafana"]["volumes"])
    assert mounts["./deploy/grafana/dashboards"] == provider["options"]["path"]
    for mount in (*mounts, *(volume.split(":")[0] for volume in services["prometheus"]["volumes"])):
        assert not mount.startswith("./") or (DEPLOY.parent / mount).is_dir()
    source = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yml").read_text())["datasources"][0]
    assert source["url"] == "http://prometheus:9090"
    secret = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["scrape_configs"][0]["authorization"]
    assert Path(secret["credentials_file"]).name in services["prometheus"]["secrets"]
