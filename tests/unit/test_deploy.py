"""The deployment files, as far as they can be checked without an engine that runs them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml
from compose_spec import PyCompose

from app import __version__
from app.cli import command_line
from app.platform.settings import Settings
from app.processes.endpoints import ENDPOINTS, WORKERS

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
OLDEST_KUBERNETES = "1.32"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
MANIFESTS = {path.name: yaml.safe_load(path.read_text()) for path in sorted(KUBERNETES.glob("*.yaml"))}
OBJECTS = {name: manifest for name, manifest in MANIFESTS.items() if name != "kustomization.yaml"}
DEPLOYMENTS = {name: manifest for name, manifest in OBJECTS.items() if manifest["kind"] == "Deployment"}


def test_compose_file_keeps_to_the_specification() -> None:
    merged = yaml.safe_dump(COMPOSE)
    assert PyCompose.from_yaml(merged).service_names() == ["grafana", "postgres", "prometheus", "service", "worker"]
    watching = {name for name, service in COMPOSE["services"].items() if service.get("profiles") == ["watch"]}
    assert watching == {"prometheus", "grafana"}


def test_compose_starts_after_a_healthy_database_and_keeps_its_data() -> None:
    services = COMPOSE["services"]
    assert "healthcheck" in services["postgres"]
    assert services["postgres"]["volumes"] == ["database:/var/lib/postgresql/data"]
    assert "database" in COMPOSE["volumes"]
    for name in ("service", "worker"):
        assert services[name]["depends_on"] == {"postgres": {"condition": "service_healthy"}}


def test_secrets_come_from_outside() -> None:
    """Every password or token in the compose file is a variable without a default."""
    for service in COMPOSE["services"].values():
        for name, value in service.get("environment", {}).items():
            if name.endswith("__FILE"):
                assert Path(value).name in service["secrets"]
            elif "PASSWORD" in name or "TOKEN" in name:
                assert re.fullmatch(r"\$\{[A-Z_]+:\?[^}]+\}", value)
    assert all(secret.keys() == {"environment"} for secret in COMPOSE["secrets"].values())
    assert not re.search(r"^(ENV|ARG).*(TOKEN|PASSWORD|SECRET)", DOCKERFILE, re.MULTILINE)
    assert "secret.example.yaml" not in MANIFESTS["kustomization.yaml"]["resources"]


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_manifests_keep_to_the_schema(name: str) -> None:
    kubernetes_validate.validate(OBJECTS[name], OLDEST_KUBERNETES, strict=True)


def test_kustomization_lists_all_but_the_template() -> None:
    kustomization = MANIFESTS["kustomization.yaml"]
    assert set(kustomization["resources"]) == OBJECTS.keys() - {"secret.example.yaml"}
    assert kustomization["images"] == [{"name": "tenure", "newTag": __version__}]


@pytest.mark.parametrize("name", sorted(DEPLOYMENTS))
def test_pods_are_locked_down(name: str) -> None:
    pod = DEPLOYMENTS[name]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    for container in containers(pod):
        assert container["image"] == "tenure"
        assert container["resources"].keys() == {"requests", "limits"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted <= {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("name", sorted(DEPLOYMENTS))
def test_what_selects_a_deployment_exists(name: str) -> None:
    spec = DEPLOYMENTS[name]["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]


def test_service_and_budget_select_the_served_pods() -> None:
    labels = DEPLOYMENTS["serve.yaml"]["spec"]["template"]["metadata"]["labels"]
    assert OBJECTS["service.yaml"]["spec"]["selector"] == labels
    assert OBJECTS["disruption.yaml"]["spec"]["selector"]["matchLabels"] == labels


def test_probed_paths_need_no_token() -> None:
    (served,) = DEPLOYMENTS["serve.yaml"]["spec"]["template"]["spec"]["containers"]
    probed = {served[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    probed |= set(re.findall(r"http://127\.0\.0\.1:8080(/[^']*)", DOCKERFILE))
    assert probed == {"/", "/readiness", "/healthcheck"}
    assert probed <= {operation.path for operation in ENDPOINTS if operation.role is None}


def test_workers_are_probed_where_they_answer() -> None:
    (worker,) = DEPLOYMENTS["worker.yaml"]["spec"]["template"]["spec"]["containers"]
    environment = {variable["name"]: variable["value"] for variable in worker["env"]}
    assert worker["ports"] == [{"name": "http", "containerPort": int(environment["TENURE_WORKER_PORT"])}]
    answered = {operation.path for operation in WORKERS if operation.role is None}
    assert {worker[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe")} <= answered
    compose = COMPOSE["services"]["worker"]
    assert f":{compose['environment']['TENURE_WORKER_PORT']}/healthcheck" in compose["healthcheck"]["test"][-1]


def test_every_variable_is_a_setting() -> None:
    settings = {f"TENURE_{name.upper()}" for name in Settings.model_fields}
    files = [ROOT / "Dockerfile", ROOT / "docker-compose.yml", *KUBERNETES.glob("*.yaml")]
    wrong = {
        f"{path.name}: {name}"
        for path in files
        for name in re.findall(r"TENURE_[A-Z_]*[A-Z]", path.read_text())
        if name not in settings
    }
    assert wrong == set()


def test_every_command_exists() -> None:
    for command in commands():
        found: Any = typer.main.get_command(command_line())
        for word in command[1:]:
            assert word in getattr(found, "commands", {}), f"{command}: there is no {word}"
            found = found.commands[word]


def test_dockerfile_is_built_from_the_lock() -> None:
    for line in re.findall(r"pip install.*", DOCKERFILE):
        assert "--require-hashes" in line or "--no-deps --no-build-isolation" in line
    assert not re.search(r"^ADD |curl|wget|apt-get|sudo", DOCKERFILE, re.MULTILINE)


def test_dockerfile_runs_as_a_user_of_its_own() -> None:
    instructions = re.findall(r"^([A-Z]+) (.*)$", DOCKERFILE, re.MULTILINE)
    assert [value for name, value in instructions if name == "USER"] == ["10001:10001"]
    assert [name for name, _ in instructions if name in {"HEALTHCHECK", "CMD"}] == ["HEALTHCHECK", "CMD"]


def test_images_are_pinned_to_a_digest() -> None:
    (base,) = re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${BASE}", "${BASE}"]
    for image in (base, COMPOSE["services"]["postgres"]["image"]):
        assert re.fullmatch(r"[a-z]+(:\d+(\.\d+)*-[a-z-]+)?@sha256:[0-9a-f]{64}", image), f"{image} is not pinned"
    for name in ("prometheus", "grafana"):
        assert re.fullmatch(r"[a-z]+/[a-z]+:v?\d+\.\d+\.\d+", COMPOSE["services"][name]["image"])


def test_the_images_user_owns_no_code() -> None:
    """But for what is compiled: the compiler wants to write where it reads."""
    owned = re.findall(r"^COPY .*--chown=tenure:tenure (?:\S+) (\S+)$", DOCKERFILE, re.MULTILINE)
    assert owned == ["/opt/tenure/compiled"]
    assert re.findall(r"^COPY --from=build (\S+) \S+$", DOCKERFILE, re.MULTILINE) == ["/opt/tenure"]


@pytest.mark.parametrize("name", sorted(COMPOSE["services"]))
def test_composed_services_are_locked_down(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert "privileged" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "cpus", "pids_limit"} <= service.keys()
    assert "/tmp" in service["tmpfs"]


@pytest.mark.parametrize("name", sorted(DEPLOYMENTS))
def test_pods_reach_no_more_than_they_need(name: str) -> None:
    labels = DEPLOYMENTS[name]["spec"]["template"]["metadata"]["labels"]
    (policy,) = [
        one["spec"]
        for one in OBJECTS.values()
        if one["kind"] == "NetworkPolicy" and one["spec"]["podSelector"]["matchLabels"] == labels
    ]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    (served,) = [port["port"] for rule in policy["ingress"] for port in rule["ports"]]
    ports = {port["containerPort"] for port in DEPLOYMENTS[name]["spec"]["template"]["spec"]["containers"][0]["ports"]}
    assert ports == {served}
    anywhere = {port["port"] for rule in policy["egress"] if "to" not in rule for port in rule["ports"]}
    assert anywhere == {53, 5432}
    outside = [block["ipBlock"] for rule in policy["egress"] for block in rule.get("to", [])]
    assert bool(outside) == (name == "worker.yaml"), "only workers send to webhooks"
    assert all("169.254.0.0/16" in block["except"] for block in outside if "." in block["cidr"])


def test_nothing_but_what_the_image_needs_is_sent_to_the_build() -> None:
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    copied = {
        word.removeprefix("./")
        for line in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.M)
        for word in line.split()
    }
    assert allowed[0] == "*"
    assert {line.removeprefix("!") for line in allowed if line.startswith("!")} == copied


def containers(pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from pod["initContainers"]
    yield from pod["containers"]


def commands() -> list[list[str]]:
    """Every `tenure ...` that these files run."""
    started = [service["command"] for service in COMPOSE["services"].values() if "command" in service]
    for manifest in DEPLOYMENTS.values():
        started += [container["command"] for container in containers(manifest["spec"]["template"]["spec"])]
    started += [yaml.safe_load(line) for line in re.findall(r"^CMD (.*)$", DOCKERFILE, re.MULTILINE)]
    started += [words.split() for words in re.findall(r"/bin/(tenure(?: [a-z]+)+)", DOCKERFILE)]
    return [command for command in started if command[0] == "tenure"]
