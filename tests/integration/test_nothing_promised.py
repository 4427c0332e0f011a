"""A cloud whose guarantee is none: what pages, refusals and commands say of promises that it does not give."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from api_service import TOKEN, Service, running_service
from quoted_cloud import NAME, PATH, make_quoted
from typer.testing import CliRunner

from app.cli import command_line


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[Service]:
    with running_service(database_url) as service:
        for name, guarantee in (("free", "none"), ("sold", "per_instance")):
            service.client.post("/v1/clouds", json={"name": name, "policy": {"guarantee": guarantee}})
            service.client.post(f"/v1/clouds/{name}/nodes", json={"name": "n1", "cores": 1}).raise_for_status()
            service.client.post(f"/v1/clouds/{name}/flavors", json={"name": "c1", "cores": 1}).raise_for_status()
        yield service


def page(service: Service, path: str) -> str:
    answer = service.client.get(f"/ui/clouds/{path}", headers={"Cookie": f"tenure_token={TOKEN}"})
    answer.raise_for_status()
    return answer.text


@pytest.mark.parametrize("place", ["quotes", "curves"])
def test_a_cloud_that_promises_nothing_is_not_warming_up(service: Service, place: str) -> None:
    free, sold = page(service, f"free/{place}"), page(service, f"sold/{place}")
    assert "it accepts every spot start that fits" in free
    assert "warming up" not in free
    assert "rejects spot starts until then" in sold
    assert "accepts every" not in sold


def test_a_filter_that_is_not_understood_is_told(service: Service) -> None:
    told = page(service, "free/decisions?outcome=bogus&market=bogus")
    assert "There is no outcome &#39;bogus&#39; and no market &#39;bogus&#39;: all are shown." in told
    assert "There is no" not in page(service, "free/decisions?outcome=evicted&market=")


def test_a_number_that_cannot_be_read_is_told(service: Service) -> None:
    told = page(service, "free/decisions?before=abc")
    assert "The address of this page has before=abc, which is not a number that it can have: it is passed over." in told
    assert "has from=-1, which" in page(service, "free/owners?from=-1")
    for fine in ("free/decisions?before=9", "free/decisions?before=", "free/owners"):
        assert "The address of this page" not in page(service, fine)


def test_a_node_with_one_on_demand_instance_is_told_so(service: Service) -> None:
    one = {"id": "od", "market": "on_demand", "flavor": "c1"}
    service.client.post("/v1/clouds/sold/instances", json=one).raise_for_status()
    said = service.client.delete("/v1/clouds/sold/nodes/n1").json()["errors"][0]["detail"]
    assert said.startswith("1 on-demand instance runs on node 'n1'; drain it")
    service.client.delete("/v1/clouds/sold/instances/od").raise_for_status()


def test_what_is_said_of_it_is_what_happens(service: Service) -> None:
    asked = {"id": "s1", "market": "spot", "flavor": "c1", "lifetime_s": 9}
    started = service.client.post("/v1/clouds/free/instances", json=asked)
    assert started.json()["status"] == "accepted"
    (error,) = service.client.get("/v1/clouds/free/quotes").json()["errors"]
    assert error["code"] == "preemptible.table.not_found"
    assert "the guarantee is none" in error["detail"]
    assert "warms up" not in error["detail"]


def test_an_old_table_is_no_reason_where_nothing_is_promised(service: Service) -> None:
    make_quoted(service.client)
    service.compute_tables()
    late = {"policy": {"seed": 3}, "at": "1970-02-01T00:00:00Z", "jump": True}
    service.client.patch(PATH, json=late).raise_for_status()
    assert "older than the cloud's policy allows" in page(service, f"{NAME}/quotes")
    service.client.patch(PATH, json={**late, "policy": {"guarantee": "none"}}).raise_for_status()
    assert "older than the cloud's policy allows" not in page(service, f"{NAME}/quotes")


def test_what_is_free_is_told_of_all_cores(service: Service) -> None:
    assert "of 1 core on 1 node" in page(service, "sold")


@pytest.mark.parametrize(
    ("cloud", "told"),
    [("free", "nothing is promised: spot starts"), ("sold", "no spot instance was admitted with a promise yet")],
)
def test_sla_says_once_that_there_is_no_promise(service: Service, cloud: str, told: str) -> None:
    words = ["sla", "--cloud", cloud, "--url", service.url, "--token", TOKEN]
    lines = CliRunner().invoke(command_line(words), words).output.splitlines()
    assert len(lines) == 2, lines
    assert lines[1].startswith(told)
