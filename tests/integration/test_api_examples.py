"""The documentation is true: every example works, and every answer has the form that is documented for it."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from api_service import Service
from jsonschema import Draft202012Validator
from test_plans import compile_the_planner

from app.platform.http.openapi import PLACES
from app.processes.endpoints import ENDPOINTS

STORY = [
    "discover", "check_health", "check_readiness", "create_cloud", "list_clouds", "show_cloud", "change_cloud",
    "add_node", "list_nodes", "show_node", "add_flavor", "list_flavors", "show_flavor", "start_instance",
    "set_owner_quota", "list_owners", "remove_owner_quota",
    "show_instance", "move_instance", "observe_instance", "resize_node", "list_proposals",
    "explain_instance", "list_instances", "run_batch", "show_drill_victim", "run_drill",
    "list_handovers", "confirm_handover", "quote_extension", "extend_instance", "abort_instance", "stop_instance",
    "request_table",
    "advise_checkpoint", "advise_flavor_checkpoint",
    "list_runs", "show_run", "list_tables", "show_newest_table", "show_table", "read_quotes", "read_curves",
    "read_reliability", "read_sla", "read_utilisation", "list_events", "stream_events", "list_decisions",
    "drain_node", "open_node", "remove_node",
    "add_peer", "list_peers", "show_peer", "change_peer", "test_peer", "pause_peer", "resume_peer", "read_standing",
    "promise_peer", "offer_job", "award_job", "show_offer", "show_outputs", "release_outputs", "withdraw_offer",
    "read_peer_reliability", "remove_peer",
    "submit_job", "list_jobs", "show_job", "list_attempts", "cancel_job",
    "read_process_metrics", "read_cloud_metrics", "read_peer_metrics",
    "create_webhook", "list_webhooks", "show_webhook", "pause_webhook", "test_webhook", "list_dead_letters",
    "replay_dead_letters", "resume_webhook", "delete_webhook",
    "list_venues", "show_venue", "list_pools", "read_pool_survival", "observe_machines", "list_prices",
    "read_venue_quotes", "advise_venue_checkpoint", "read_venue_reliability",
    "make_plan", "list_plans", "show_plan", "read_next_move", "tell_outcome", "remove_venue",
    "put_cluster", "list_clusters", "show_cluster", "report_cluster_events", "list_cluster_events",
    "list_cluster_nodes", "list_cluster_jobs", "list_cluster_checkpoints",
    "read_cluster_cost", "read_cluster_metrics", "delete_cluster",
    "create_token", "list_tokens", "show_token", "revoke_token",
]  # fmt: skip
"""The documented operations in an order in which each finds what its example names."""
OF_PEERS = {"promise_peer", "offer_job", "award_job", "show_offer", "show_outputs", "release_outputs", "withdraw_offer"}
"""Operations that the role `peer` alone may use."""


@pytest.fixture(scope="module")
def document(service: Service) -> dict[str, Any]:
    return service.client.get("/openapi.json").json()


@pytest.fixture(scope="module")
def answers(service: Service, document: dict[str, Any]) -> dict[str, httpx2.Response]:
    """The answer to each operation's documented example, asked in the order of the story."""
    operations = {
        operation["operationId"]: (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    found = {}
    for name in STORY:
        if name == "show_drill_victim":
            run_spot(service.client, "i-drill")
        if name == "list_venues":
            service.import_prices("aws-east", recent_prices())
        if name == "make_plan":
            compile_the_planner()
        if name == "quote_extension":
            run_spot(service.client, "i-spot")
        if name == "promise_peer":
            body = {"name": "north-b", "role": "peer"}
            token = service.client.post("/v1/tokens", json=body).json()["token"]
        headers = {"X-Auth-Token": token} if name in OF_PEERS else {}
        found[name] = ask(service.client, *operations[name], headers=headers)
        if name == "request_table":
            service.compute_tables()
            service.wait_for_epoch("north", 1)
    return found


def run_spot(client: httpx2.Client, name: str) -> None:
    """A running spot instance, which a cloud that is still learning would not admit."""
    cloud, policy = "/v1/clouds/north", {"guarantee": "none"}
    before = client.get(cloud).json()["policy"]["guarantee"]
    client.patch(cloud, json={"policy": policy}).raise_for_status()
    body = {"id": name, "market": "spot", "flavor": "small", "lifetime_s": 3600}
    assert client.post(f"{cloud}/instances", json=body).json()["status"] == "accepted"
    client.patch(cloud, json={"policy": {"guarantee": before}}).raise_for_status()


def recent_prices() -> list[str]:
    """Lines of a pool whose price moves each hour, up to now."""
    now = datetime.now(UTC).replace(microsecond=0)
    times = [(now - timedelta(hours=hour)).isoformat() for hour in range(72)]
    pool = "aws,us-east-1,us-east-1a,c3.xlarge,Linux/UNIX"
    return [f"{pool},{at},0.0{3 + number % 4},USD" for number, at in enumerate(times)]


def ask(
    client: httpx2.Client, method: str, path: str, operation: dict[str, Any], headers: dict[str, str] | None = None
) -> httpx2.Response:
    """Send the example as it is documented."""
    query = {}
    for parameter in operation.get("parameters", []):
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", parameter["example"])
        elif parameter["in"] == "query" and "example" in parameter:
            query[parameter["name"]] = parameter["example"]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
    return client.request(method, path, params=query or None, json=body, headers=headers)


def test_the_story_tells_of_every_operation(document: dict[str, Any]) -> None:
    documented = {operation["operationId"] for methods in document["paths"].values() for operation in methods.values()}
    assert documented == set(STORY) == {operation.name for operation in ENDPOINTS}


@pytest.mark.parametrize("operation", ENDPOINTS, ids=lambda operation: operation.name)
def test_each_example_has_its_documented_answer(operation, answers, document) -> None:
    answer = answers[operation.name]
    assert answer.status_code == operation.endpoint.status, answer.text
    documented = document["paths"][operation.path][operation.method.lower()]["responses"][
        str(operation.endpoint.status)
    ]
    if operation.streams:
        assert "data: {" in answer.text
    elif operation.answer is None:
        assert answer.content in {b"", b"OK"} or answer.text.startswith("# HELP ")
    else:
        check_form(answer.json(), documented, document)


def test_a_stream_has_its_documented_answer(answers, document) -> None:
    documented = document["paths"]["/v1/clouds/{cloud}/events/stream"]["get"]["responses"]["200"]
    assert list(documented["content"]) == ["text/event-stream"]
    assert answers["stream_events"].headers["Content-Type"].startswith("text/event-stream")
    assert answers["stream_events"].text.count("id: 1\n") == 1


def check_form(body: object, response: dict[str, Any], document: dict[str, Any]) -> None:
    """The body has the documented schema, and no field that is not in it."""
    schema = copy.deepcopy(response["content"]["application/json"]["schema"])
    components = copy.deepcopy(document["components"])
    for part in components["schemas"].values():
        if part.get("type") == "object" and "properties" in part:
            part.setdefault("additionalProperties", False)
    Draft202012Validator({**schema, "components": components}).validate(body)


def test_every_operation_is_described(document: dict[str, Any]) -> None:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (method, path)
            assert operation["description"], (method, path)
            assert operation["tags"], (method, path)


def test_every_operation_with_a_body_has_an_example() -> None:
    assert all(operation.example is not None for operation in ENDPOINTS if operation.body is not None)
    assert {name for operation in ENDPOINTS for name in PLACES if f"{{{name}}}" in operation.path} == set(PLACES)


def test_every_default_could_be_sent(document: dict[str, Any]) -> None:
    """Defaults stand in the document as they are on the wire, within their bounds."""
    fields = [
        (field, schema["properties"][field])
        for schema in document["components"]["schemas"].values()
        for field in schema.get("properties", {})
    ]
    fields += [
        (parameter["name"], parameter["schema"])
        for methods in document["paths"].values()
        for operation in methods.values()
        for parameter in operation.get("parameters", [])
    ]
    told = [(field, schema) for field, schema in fields if schema.get("default") is not None]
    assert len(told) > 20
    for field, schema in told:
        found = Draft202012Validator({**schema, "components": document["components"]}).iter_errors(schema["default"])
        assert [(field, error.message) for error in found] == []


SAY_NO = {"check_health", "check_readiness"}
"""Endpoints that answer 503 in the form of their answer."""


def test_every_error_is_documented_in_the_one_form(document: dict[str, Any]) -> None:
    for methods in document["paths"].values():
        for operation in methods.values():
            statuses = {status for status in operation["responses"] if int(status) >= 400}
            assert {"400", "406", "413", "500"} <= statuses
            for status in statuses - ({"503"} if operation["operationId"] in SAY_NO else set()):
                schema = operation["responses"][status]["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ErrorsAnswer"}


def test_the_document_refers_to_nothing_that_is_not_there(document: dict[str, Any]) -> None:
    text = json.dumps(document)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in document["components"]["schemas"]


def test_the_page_loads_nothing_from_elsewhere(client: httpx2.Client) -> None:
    page = client.get("/docs").text
    assert "//" not in page.replace("<!--", "").replace("// ", "")
    for asset in ("swagger-ui-bundle.js", "swagger-ui.css", "favicon.png"):
        assert f"/docs/assets/{asset}" in page
        assert client.get(f"/docs/assets/{asset}").status_code == 200
