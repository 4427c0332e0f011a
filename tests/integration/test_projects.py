"""Callers of one project see its instances and no others: in records, lists, explanations and hand-overs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
import pytest
from api_service import Service, running_service

from app.notices import http as handovers
from app.scheduling.log_reads import LogReads

PATH = "/v1/clouds/shared"
NOVAS = "/v1/clouds/novas"
OURS, THEIRS = "ours", "theirs"


def post(client: httpx2.Client, path: str, body: dict[str, Any], status: int = 201) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[Service]:
    with running_service(database_url, nova_clouds=frozenset({"novas"})) as service:
        yield service


@pytest.fixture(scope="module")
def client(service: Service) -> httpx2.Client:
    """The admin: a full cloud, in which an on-demand instance of ours has evicted a spot instance of each."""
    client = service.client
    post(client, "/v1/clouds", {"name": "shared", "policy": {"guarantee": "none", "grace_s": 600}})
    post(client, f"{PATH}/nodes", {"name": "n", "cores": 4})
    for cores in (1, 2):
        post(client, f"{PATH}/flavors", {"name": f"c{cores}", "cores": cores})
    for name, project in (("o1", OURS), ("t1", THEIRS), ("t2", THEIRS), ("o2", OURS)):
        spot = {"id": name, "market": "spot", "flavor": "c1", "lifetime_s": 3600, "project": project}
        post(client, f"{PATH}/instances", spot)
    peak = {"id": "t3", "market": "on_demand", "flavor": "c2", "project": THEIRS}
    assert [one["id"] for one in post(client, f"{PATH}/instances", peak)["victims"]] == ["o2", "t2"]
    return client


@pytest.fixture(scope="module")
def ours(service: Service, client: httpx2.Client) -> dict[str, httpx2.Client]:
    """Clients of two people of our project, by role."""
    found = {}
    for role in ("project_reader", "project_member"):
        token = post(client, "/v1/tokens", {"name": f"{OURS}.{role}", "role": role})["token"]
        found[role] = httpx2.Client(base_url=service.url, headers={"X-Auth-Token": token})
    return found


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, str(answer.json()["errors"][0]["code"])


GONE = (404, "preemptible.instance.not_found")
REFUSED = (403, "preemptible.role.insufficient")


@pytest.mark.parametrize("role", ["project_reader", "project_member"])
def test_only_our_instances_are_listed_shown_and_explained(ours: dict[str, httpx2.Client], role: str) -> None:
    caller = ours[role]
    for query, expected in (({}, ["o1", "o2"]), ({"status": "running"}, ["o1"]), ({"project": OURS}, ["o1", "o2"])):
        listed = caller.get(f"{PATH}/instances", params=query).json()["instances"]
        assert [one["id"] for one in listed] == expected
    first = caller.get(f"{PATH}/instances", params={"limit": 1}).json()
    assert "t1" not in str(first)
    after = caller.get(first["links"][0]["href"]).json()
    assert [one["id"] for one in after["instances"]] == ["o2"]
    assert caller.get(f"{PATH}/instances", params={"marker": "t1"}).status_code == 400
    assert caller.get(f"{PATH}/instances/o1").json()["project"] == OURS
    for path in (
        "instances/t1",
        "instances/t1/explanation",
        "instances/t1/checkpoint-advice?pause_s=60",
        "instances/no",
    ):
        assert code(caller.get(f"{PATH}/{path}")) == GONE, path
    assert [one["id"] for one in caller.get(f"{PATH}/handovers").json()["handovers"]] == ["o2"]
    told = caller.get(f"{PATH}/instances/o2/explanation")
    assert told.status_code == 200
    assert not {name for name in ("t1", "t2", "t3", THEIRS) if f'"{name}"' in told.text or f" {name} " in told.text}
    assert "another-instance" in told.text


def test_hand_overs_of_a_project_are_looked_up_as_far_as_a_page_needs(
    client: httpx2.Client, ours: dict[str, httpx2.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/v1/clouds/many"
    post(client, "/v1/clouds", {"name": "many", "policy": {"guarantee": "none", "grace_s": 600}})
    post(client, f"{path}/nodes", {"name": "n", "cores": 8})
    for cores in (1, 8):
        post(client, f"{path}/flavors", {"name": f"c{cores}", "cores": cores})
    for number in range(8):
        spot = {"id": f"s{number}", "market": "spot", "flavor": "c1", "lifetime_s": 3600}
        post(client, f"{path}/instances", {**spot, "project": (OURS, THEIRS)[number % 2]})
    post(client, f"{path}/instances", {"id": "all", "market": "on_demand", "flavor": "c8"})
    asked, of_project = list[list[str]](), LogReads.of_project

    async def noted(self: LogReads, cloud: str, names: Sequence[str], project: str) -> set[str]:
        asked.append([*names])
        return await of_project(self, cloud, names, project)

    monkeypatch.setattr(LogReads, "of_project", noted)
    monkeypatch.setattr(handovers, "_LOOKED_UP", 2)
    page = ours["project_reader"].get(f"{path}/handovers", params={"limit": 1}).json()
    assert asked == [["s0", "s1"], ["s2", "s3"]]
    pages = [page["handovers"]]
    while page["links"]:
        page = ours["project_reader"].get(page["links"][0]["href"]).json()
        pages.append(page["handovers"])
    assert [[one["id"] for one in some] for some in pages] == [["s0"], ["s2"], ["s4"], ["s6"]]
    for marker in ("s1", "all", "no"):
        asking = ours["project_reader"].get(f"{path}/handovers", params={"marker": marker})
        assert code(asking) == (400, "preemptible.marker.invalid")


def test_a_refusal_names_the_role_that_its_caller_would_ask_for(
    service: Service, ours: dict[str, httpx2.Client]
) -> None:
    """A role of one project is named to people of one project alone."""
    spot = {"id": "never", "market": "spot", "flavor": "c1", "lifetime_s": 60}
    made = service.client.post("/v1/tokens", json={"name": "dashboard", "role": "reader"}).json()
    refused = service.client.post(f"{PATH}/instances", json=spot, headers={"X-Auth-Token": made["token"]})
    assert code(refused) == REFUSED
    assert refused.json()["errors"][0]["detail"] == "this needs the role member, and the token's is reader"
    refused = ours["project_reader"].post(f"{PATH}/instances", json=spot)
    assert (
        refused.json()["errors"][0]["detail"] == "this needs the role project_member, and the token's is project_reader"
    )


@pytest.mark.parametrize("role", ["project_reader", "project_member"])
def test_the_list_of_another_project_is_empty(ours: dict[str, httpx2.Client], role: str) -> None:
    """Its instances do not exist for them, whether there is such a project or not."""
    for project in (THEIRS, "nobodys"):
        for more in ({}, {"status": "running"}, {"market": "spot", "limit": 1}):
            answer = ours[role].get(f"{PATH}/instances", params={"project": project, **more})
            assert (answer.status_code, answer.json()["instances"], answer.json().get("links", [])) == (200, [], [])
        answer = ours[role].get(f"{PATH}/instances", params={"project": project, "marker": "t1"})
        assert code(answer) == (400, "preemptible.marker.invalid")
        answer = ours[role].get("/v1/clouds/none/instances", params={"project": project})
        assert code(answer) == (404, "preemptible.cloud.not_found")


def test_what_evicted_an_instance_is_named_to_its_own_project_alone(
    service: Service, client: httpx2.Client, ours: dict[str, httpx2.Client]
) -> None:
    path = "/v1/clouds/named"
    post(client, "/v1/clouds", {"name": "named", "policy": {"guarantee": "none"}})
    post(client, f"{path}/nodes", {"name": "n", "cores": 2})
    post(client, f"{path}/flavors", {"name": "c1", "cores": 1})
    for name, project in (("o10", OURS), ("o11", OURS)):
        spot = {"id": name, "market": "spot", "flavor": "c1", "lifetime_s": 60, "project": project}
        post(client, f"{path}/instances", spot)
    for name, project, victim, told in (("o12", OURS, "o11", "o12"), ("t12", THEIRS, "o10", "another-instance")):
        peak = {"id": name, "market": "on_demand", "flavor": "c1", "project": project, "user": "of-a-user"}
        assert [one["id"] for one in post(client, f"{path}/instances", peak)["victims"]] == [victim]
        answer = ours["project_reader"].get(f"{path}/instances/{victim}/explanation")
        explained = answer.json()
        assert explained["eviction"]["cause_id"] == told
        assert any(f"the on-demand instance {told}, " in one for one in explained["sentences"]), explained["sentences"]
        assert "t12" not in answer.text
        assert [one["id"] for one in explained["eviction"]["victims"]] == [victim]


def test_a_member_starts_and_ends_what_is_of_the_project(ours: dict[str, httpx2.Client]) -> None:
    member, reader = ours["project_member"], ours["project_reader"]
    spot = {"id": "o3", "market": "spot", "flavor": "c1", "lifetime_s": 60}
    assert code(reader.post(f"{PATH}/instances", json=spot)) == REFUSED
    assert code(member.post(f"{PATH}/instances", json=spot | {"project": THEIRS})) == REFUSED
    assert post(member, f"{PATH}/instances", spot)["status"] == "rejected", "the cloud is full"
    assert member.get(f"{PATH}/instances/o3").json()["project"] == OURS
    peak = {"id": "o4", "market": "on_demand", "flavor": "c1"}
    assert post(member, f"{PATH}/instances", peak)["victims"] == [], "whom it evicted is not ours to know"
    assert code(member.delete(f"{PATH}/instances/t3")) == GONE
    assert code(member.post(f"{PATH}/instances/t3/extend", json={"lifetime_s": 7200})) == GONE
    assert member.delete(f"{PATH}/instances/o4").status_code == 204


def test_where_instances_are_servers_of_nova_projects_start_and_stop_there(
    service: Service, ours: dict[str, httpx2.Client]
) -> None:
    post(service.client, "/v1/clouds", {"name": "novas", "policy": {"guarantee": "none"}})
    post(service.client, f"{NOVAS}/nodes", {"name": "n", "cores": 4})
    post(service.client, f"{NOVAS}/flavors", {"name": "c1", "cores": 1})
    spot = {"id": "o5", "market": "spot", "flavor": "c1", "lifetime_s": 60, "project": OURS}
    post(service.client, f"{NOVAS}/instances", spot)
    member, seq = ours["project_member"], service.last_seq("novas")
    for answer in (
        member.post(f"{NOVAS}/instances", json=spot | {"id": "o6"}),
        member.post(f"{NOVAS}/instances", json={"id": "o7", "market": "on_demand", "flavor": "c1"}),
        member.delete(f"{NOVAS}/instances/o5"),
    ):
        assert code(answer) == REFUSED
        assert "servers of Nova" in answer.json()["errors"][0]["detail"]
    assert service.last_seq("novas") == seq
    assert member.post(f"{NOVAS}/instances/o5/extend", json={"lifetime_s": 90}).json()["status"] == "accepted"


def test_what_tells_of_all_is_refused(client: httpx2.Client, ours: dict[str, httpx2.Client]) -> None:
    """The table of endpoints says of each what role it takes; here are those that name instances or projects."""
    member = ours["project_member"]
    for path in (
        "events",
        "events/stream",
        "decisions",
        "owners",
        "jobs",
        "drill",
        "proposals",
        "nodes",
        "utilisation",
    ):
        assert code(member.get(f"{PATH}/{path}")) == REFUSED, path
    batch = {"operations": [{"stop": {"id": "t3"}}]}
    assert code(member.post(f"{PATH}/batch", json=batch)) == REFUSED
    assert member.get("/metrics/clouds").status_code == 403
    for path in ("/v1/clouds", PATH, f"{PATH}/flavors", f"{PATH}/quotes", f"{PATH}/sla"):
        answer = member.get(path)
        assert answer.status_code in (200, 404), path
        assert not {name for name in ("t1", "t2", "t3") if f'"{name}"' in answer.text}
    assert client.get(f"{PATH}/instances/t3").json()["status"] == "running"


def test_pages_show_nothing(service: Service, ours: dict[str, httpx2.Client]) -> None:
    token = ours["project_reader"].headers["X-Auth-Token"]
    with httpx2.Client(base_url=service.url) as browser:
        answer = browser.post("/ui/sign-in", data={"token": token}, follow_redirects=True)
        assert "t1" not in answer.text
        assert browser.get("/ui/clouds/shared").status_code in (303, 401, 403)


def test_others_may_list_one_project(client: httpx2.Client) -> None:
    listed = client.get(f"{PATH}/instances", params={"project": THEIRS}).json()["instances"]
    assert {one["id"] for one in listed} == {"t1", "t2", "t3"}
