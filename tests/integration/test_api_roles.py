"""Every operation refuses every wrong role and no right one; a token of one cloud finds no other cloud there.

What a role may do is written down here once more, by hand: a mistake in the table of URLs or in GRANTS must show.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from api_service import Service

from app.domain.values import Role
from app.platform.http.auth import GRANTS
from app.platform.http.serving import Served
from app.processes.endpoints import ENDPOINTS

PUBLIC = {"discover", "check_health", "check_readiness"}
LEAST = {
    "start_instance": "project_member",
    "stop_instance": "project_member",
    "extend_instance": "project_member",
    "move_instance": "service",
    "observe_instance": "service",
    "abort_instance": "service",
    "quote_extension": "project_reader",
    "advise_checkpoint": "project_reader",
    "advise_flavor_checkpoint": "project_reader",
    "run_batch": "member",
    "run_drill": "admin",
    "show_drill_victim": "reader",
    "offer_job": "peer",
    "promise_peer": "peer",
    "award_job": "peer",
    "show_offer": "peer",
    "show_outputs": "peer",
    "release_outputs": "peer",
    "withdraw_offer": "peer",
    "add_peer": "admin",
    "list_peers": "admin",
    "show_peer": "admin",
    "change_peer": "admin",
    "pause_peer": "admin",
    "resume_peer": "admin",
    "test_peer": "admin",
    "remove_peer": "admin",
    "read_standing": "reader",
    "read_peer_metrics": "reader",
    "submit_job": "member",
    "list_jobs": "reader",
    "show_job": "reader",
    "list_attempts": "reader",
    "cancel_job": "member",
    "explain_instance": "project_reader",
    "list_decisions": "reader",
    "list_instances": "project_reader",
    "show_instance": "project_reader",
    "read_curves": "project_reader",
    "read_quotes": "project_reader",
    "list_events": "reader",
    "stream_events": "reader",
    "create_cloud": "admin",
    "list_clouds": "project_reader",
    "list_venues": "reader",
    "show_venue": "reader",
    "observe_machines": "service",
    "remove_venue": "admin",
    "list_pools": "reader",
    "read_pool_survival": "reader",
    "read_venue_quotes": "reader",
    "list_prices": "reader",
    "advise_venue_checkpoint": "reader",
    "put_cluster": "service",
    "show_cluster": "reader",
    "list_clusters": "reader",
    "delete_cluster": "admin",
    "report_cluster_events": "service",
    "list_cluster_events": "reader",
    "list_cluster_nodes": "reader",
    "list_cluster_jobs": "reader",
    "list_cluster_checkpoints": "reader",
    "read_cluster_cost": "reader",
    "read_cluster_metrics": "reader",
    "read_venue_reliability": "reader",
    "read_peer_reliability": "reader",
    "make_plan": "service",
    "list_plans": "reader",
    "show_plan": "reader",
    "read_next_move": "reader",
    "tell_outcome": "service",
    "show_cloud": "project_reader",
    "change_cloud": "admin",
    "add_node": "admin",
    "list_nodes": "reader",
    "show_node": "reader",
    "remove_node": "admin",
    "resize_node": "admin",
    "drain_node": "admin",
    "open_node": "admin",
    "add_flavor": "admin",
    "list_flavors": "project_reader",
    "list_owners": "reader",
    "set_owner_quota": "admin",
    "remove_owner_quota": "admin",
    "show_flavor": "project_reader",
    "request_table": "admin",
    "list_tables": "reader",
    "show_newest_table": "reader",
    "show_table": "reader",
    "list_runs": "reader",
    "show_run": "reader",
    "read_reliability": "project_reader",
    "read_utilisation": "reader",
    "read_sla": "project_reader",
    "list_handovers": "project_reader",
    "list_proposals": "reader",
    "confirm_handover": "service",
    "create_webhook": "admin",
    "list_webhooks": "admin",
    "show_webhook": "admin",
    "pause_webhook": "admin",
    "resume_webhook": "admin",
    "test_webhook": "admin",
    "list_dead_letters": "admin",
    "replay_dead_letters": "admin",
    "delete_webhook": "admin",
    "create_token": "admin",
    "list_tokens": "admin",
    "show_token": "admin",
    "revoke_token": "admin",
    "read_process_metrics": "reader",
    "read_cloud_metrics": "reader",
}
"""The least role of every operation that needs a token. A new operation must be entered here."""
COUNTS_AS = {
    "project_reader": {"project_reader"},
    "project_member": {"project_reader", "project_member"},
    "reader": {"project_reader", "reader"},
    "member": {"project_reader", "project_member", "reader", "member"},
    "service": {"project_reader", "project_member", "reader", "member", "service"},
    "admin": {"project_reader", "project_member", "reader", "member", "service", "admin"},
    "peer": {"peer"},
}
FOR_SCOPED = {"list_clouds"}
"""Operations that a token of one cloud may use outside its cloud's paths."""

OWN, OTHER, NONE = "own", "other", "none"
GUARDED = [operation for operation in ENDPOINTS if operation.name not in PUBLIC]
UNDER_A_CLOUD = [operation for operation in GUARDED if "{cloud}" in operation.path]


@pytest.fixture(scope="module")
def anyone(service: Service) -> Iterator[httpx2.Client]:
    """A client that sends no token of its own."""
    with httpx2.Client(base_url=service.url) as client:
        yield client


@pytest.fixture(scope="module")
def tokens(service: Service) -> dict[tuple[str, str | None], str]:
    """A token of every role, for all clouds and for one; there are two clouds."""
    for cloud in (OWN, OTHER):
        service.client.post("/v1/clouds", json={"name": cloud}).raise_for_status()
    return {(role, cloud): make_token(service, role, cloud) for role in COUNTS_AS for cloud in (None, OWN)}


def make_token(service: Service, role: str, cloud: str | None) -> str:
    body = {"name": f"{role}-{cloud or 'all'}", "role": role, **({"cloud": cloud} if cloud else {})}
    answer = service.client.post("/v1/tokens", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


def ask(anyone: httpx2.Client, operation: Served, token: str | None, cloud: str) -> httpx2.Response:
    """The answer to a request that names nothing that there is, beyond the cloud, so that it changes nothing.

    Of a stream only the beginning is read.
    """
    path = operation.path.replace("{cloud}", cloud).replace("{owner}", "-")
    path = "/".join("none" if part.startswith("{") else part for part in path.split("/"))
    body = {} if operation.body is not None else None
    headers = {"X-Auth-Token": token} if token else {}
    with anyone.stream(operation.method, path, json=body, headers=headers) as answer:
        if not answer.headers.get("Content-Type", "").startswith("text/event-stream"):
            answer.read()
    return answer


def code(answer: httpx2.Response) -> str:
    return str(answer.json()["errors"][0]["code"])


def test_every_operation_is_in_the_table() -> None:
    assert {operation.name for operation in ENDPOINTS} == LEAST.keys() | PUBLIC
    assert {operation.name for operation in ENDPOINTS if operation.role is None} == PUBLIC
    assert {role.value for role in Role} == COUNTS_AS.keys()
    assert {role.value: {counted.value for counted in counted_as} for role, counted_as in GRANTS.items()} == COUNTS_AS


@pytest.mark.parametrize("cloud", [None, OWN], ids=["all-clouds", "one-cloud"])
@pytest.mark.parametrize("role", COUNTS_AS)
@pytest.mark.parametrize("operation", GUARDED, ids=lambda operation: operation.name)
def test_a_role_may_do_what_it_is_for_and_nothing_else(anyone, tokens, operation, role, cloud) -> None:
    answer = ask(anyone, operation, tokens[role, cloud], OWN)
    if LEAST[operation.name] not in COUNTS_AS[role]:
        assert (answer.status_code, code(answer)) == (403, "preemptible.role.insufficient")
    elif cloud is not None and operation not in UNDER_A_CLOUD and operation.name not in FOR_SCOPED:
        assert (answer.status_code, code(answer)) == (403, "preemptible.scope.insufficient")
    else:
        assert answer.status_code not in {401, 403}, answer.text


@pytest.mark.parametrize("operation", UNDER_A_CLOUD, ids=lambda operation: operation.name)
def test_to_a_token_of_one_cloud_others_are_not_there(anyone, tokens, operation) -> None:
    """The answer does not tell if there is such a cloud."""
    refusals = {}
    for role in ("reader", "member", "service", "admin"):
        for cloud in (OTHER, NONE):
            answer = ask(anyone, operation, tokens[role, OWN], cloud)
            allowed = LEAST[operation.name] in COUNTS_AS[role]
            assert answer.status_code == (404 if allowed else 403)
            (entry,) = answer.json()["errors"]
            refusals[role, cloud] = {**entry, "request_id": "", "detail": entry["detail"].replace(cloud, "X")}
        assert refusals[role, OTHER] == refusals[role, NONE]
        assert refusals[role, OTHER]["code"] in {"preemptible.cloud.not_found", "preemptible.role.insufficient"}


@pytest.mark.parametrize("token", [None, "", "tnr_guess"])
@pytest.mark.parametrize("operation", GUARDED, ids=lambda operation: operation.name)
def test_without_a_valid_token_nothing_is_done(anyone, tokens, operation, token) -> None:
    answer = ask(anyone, operation, token, OWN)
    assert (answer.status_code, code(answer)) == (401, "preemptible.token.invalid")


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_what_is_public_needs_no_token(anyone, name) -> None:
    (operation,) = (operation for operation in ENDPOINTS if operation.name == name)
    assert ask(anyone, operation, None, NONE).status_code == 200


def test_a_token_of_one_cloud_lists_that_one(service, tokens) -> None:
    headers = {"X-Auth-Token": tokens["reader", OWN]}
    own = service.client.get("/v1/clouds", headers=headers).json()
    assert [cloud["name"] for cloud in own["clouds"]] == [OWN]
    everything = service.client.get("/v1/clouds").json()
    assert [cloud["name"] for cloud in everything["clouds"]] == [OTHER, OWN]


def test_nothing_of_this_left_a_trace(service, tokens) -> None:
    """Neither what was refused nor what was let through, since it named nothing that there is."""
    for cloud in (OWN, OTHER):
        assert service.last_seq(cloud) == 1
    assert len(service.client.get("/v1/tokens").json()["tokens"]) == 1 + len(tokens)
