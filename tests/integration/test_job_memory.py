"""Jobs that left the service's memory early, and lists of jobs with much data."""

from __future__ import annotations

import time
from typing import Any

import httpx2
import pytest
from api_service import TOKEN, Service, running_service
from followed_pages import pages_of
from typer.testing import CliRunner

from app.cli import command_line

PATH = "/v1/clouds/fleeting"
OBJECTS = [{"key": "k" * 240 + str(number), "bytes": 1} for number in range(32)]


def largest(name: str, flavor: str = "huge", **more: Any) -> dict[str, Any]:
    inputs = [{**one, "sha256": "0" * 64} for one in OBJECTS]
    return {"id": name, "flavor": flavor, "lifetime_s": 60, "inputs": inputs, "outputs": OBJECTS, **more}


@pytest.fixture(scope="module")
def fleeting(service: Service) -> httpx2.Client:
    client = service.client
    client.post("/v1/clouds", json={"name": "fleeting", "policy": {"guarantee": "none"}}).raise_for_status()
    client.post(f"{PATH}/nodes", json={"name": "n", "cores": 4}).raise_for_status()
    for name, cores in (("tiny", 1), ("huge", 5)):
        client.post(f"{PATH}/flavors", json={"name": name, "cores": cores}).raise_for_status()
    return client


def test_a_job_that_left_the_memory_is_shown_and_its_id_stays_used(
    fleeting: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine.cloud.jobs.MOST_ENDED", 67 * 5)
    told = [fleeting.post(f"{PATH}/jobs", json=largest(f"j{number}")) for number in range(12)]
    assert {one.status_code for one in told} == {201}
    listed = [one["id"] for one in fleeting.get(f"{PATH}/jobs").json()["jobs"]]
    assert listed == [f"j{number}" for number in range(6, 12)]
    assert fleeting.get(f"{PATH}/jobs/j0").json() == told[0].json(), "the log has it"
    assert fleeting.post(f"{PATH}/jobs", json=largest("j0")).json() == told[0].json()
    other = fleeting.post(f"{PATH}/jobs", json=largest("j0", "tiny"))
    assert (other.status_code, other.json()["errors"][0]["code"]) == (409, "preemptible.job.conflict")


def test_a_job_that_left_the_memory_can_be_cancelled_again_by_whoever_may(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine.cloud.jobs.MOST_ENDED", 2 * 67)
    client, path = service.client, "/v1/clouds/apart-jobs"
    policy = {"guarantee": "none", "shared_ids": False}
    client.post("/v1/clouds", json={"name": "apart-jobs", "policy": policy}).raise_for_status()
    client.post(f"{path}/flavors", json={"name": "huge", "cores": 5}).raise_for_status()

    def token(name: str) -> dict[str, str]:
        made = client.post("/v1/tokens", json={"name": f"{name}.jobs", "role": "member", "cloud": "apart-jobs"})
        return {"X-Auth-Token": made.json()["token"]}

    own, other = token("mine"), token("theirs")
    client.post(f"{path}/jobs", json=largest("mine.1")).raise_for_status()
    assert client.delete(f"{path}/jobs/mine.1", headers=own).status_code == 204, "it is in memory"
    for number in range(5):
        client.post(f"{path}/jobs", json=largest(f"theirs.{number}")).raise_for_status()
    assert "mine.1" not in [one["id"] for one in client.get(f"{path}/jobs").json()["jobs"]]
    before = service.last_seq("apart-jobs")
    assert client.delete(f"{path}/jobs/mine.1", headers=own).status_code == 204, "it had ended"
    refused = client.delete(f"{path}/jobs/mine.1", headers=other)
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (403, "preemptible.instance.id_not_own")
    unknown = client.delete(f"{path}/jobs/mine.2", headers=own)
    assert (unknown.status_code, unknown.json()["errors"][0]["code"]) == (404, "preemptible.job.not_found")
    words = ["job", "cancel", "mine.1", "--cloud", "apart-jobs", "--url", service.url, "--token", TOKEN]
    done = CliRunner().invoke(command_line(), words)
    assert (done.exit_code, done.stdout) == (0, "mine.1 had ended before: rejected\n")
    assert service.last_seq("apart-jobs") == before, "nothing happened"


def test_a_reader_goes_on_after_a_job_that_left_the_memory_meanwhile(
    fleeting: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        fleeting.post(f"{PATH}/jobs", json=largest(f"read{number}")).raise_for_status()
    listed = [one["id"] for one in fleeting.get(f"{PATH}/jobs?limit=1000").json()["jobs"]]
    at = listed.index("read2") + 1
    first = fleeting.get(f"{PATH}/jobs?limit={at}").json()
    assert [one["id"] for one in first["jobs"]] == listed[:at]
    monkeypatch.setattr("app.engine.cloud.jobs.MOST_ENDED", 67 * 3)
    fleeting.post(f"{PATH}/jobs", json=largest("read6")).raise_for_status()
    left = [one["id"] for one in fleeting.get(f"{PATH}/jobs?limit=1000").json()["jobs"]]
    assert left == ["read3", "read4", "read5", "read6"]
    (after,) = [one["href"] for one in first["links"] if one["rel"] == "next"]
    assert [one["id"] for one in fleeting.get(after).json()["jobs"]] == left[:at]
    before = fleeting.get(f"{PATH}/jobs?marker=read1&limit=2").json()
    assert [one["id"] for one in before["jobs"]] == left[:2], "what is gone is passed over"
    unknown = fleeting.get(f"{PATH}/jobs?marker=read7")
    assert (unknown.status_code, unknown.json()["errors"][0]["code"]) == (400, "preemptible.marker.invalid")


def test_too_many_jobs_that_have_not_ended_are_refused(
    fleeting: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.federation.rules.homeside.MOST_OPEN", 2 * 67)
    for name in ("one", "two"):
        fleeting.post(f"{PATH}/jobs", json=largest(name, "tiny")).raise_for_status()
    refused = fleeting.post(f"{PATH}/jobs", json=largest("three", "tiny"))
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (409, "preemptible.job.too_many")
    assert fleeting.post(f"{PATH}/jobs", json=largest("two", "tiny")).status_code == 201, "it was decided before"
    for name in ("one", "two"):
        fleeting.delete(f"{PATH}/jobs/{name}").raise_for_status()
    assert fleeting.post(f"{PATH}/jobs", json=largest("three", "tiny")).json()["status"] == "running"
    fleeting.delete(f"{PATH}/jobs/three").raise_for_status()


def test_a_job_counts_as_more_requests_by_its_instances_and_data(database_url: str) -> None:
    with running_service(database_url, token_requests_per_s=40) as service:
        path = "/v1/clouds/counted"
        service.client.post("/v1/clouds", json={"name": "counted"}).raise_for_status()
        service.client.post(f"{path}/flavors", json={"name": "huge", "cores": 5}).raise_for_status()
        time.sleep(1.1)
        small = [{"id": f"s{number}", "flavor": "huge", "lifetime_s": 60} for number in range(8)]
        assert [service.client.post(f"{path}/jobs", json=one).status_code for one in small] == [201] * 8
        time.sleep(1.1)
        large = [largest(f"l{number}", count=256) for number in range(4)]
        assert 429 in [service.client.post(f"{path}/jobs", json=one).status_code for one in large]


@pytest.mark.parametrize("kind", ["jobs", "events", "decisions", "instances"])
def test_a_page_of_large_items_ends_early_and_the_next_goes_on(
    fleeting: httpx2.Client, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        fleeting.post(f"{PATH}/jobs", json=largest(f"{kind}{number}", "tiny")).raise_for_status()
        fleeting.delete(f"{PATH}/jobs/{kind}{number}").raise_for_status()
    ((_, whole),) = pages_of(fleeting, f"{PATH}/{kind}", kind)
    monkeypatch.setattr("app.platform.http.long_lists.MOST_BYTES", 1500)
    pages = pages_of(fleeting, f"{PATH}/{kind}", kind)
    assert [item for _, items in pages for item in items] == whole
    assert len(pages) > 1
    assert all(size < 2000 for size, items in pages if len(items) > 1)


def test_what_a_list_of_jobs_with_much_data_keeps_in_memory_is_bounded(fleeting: httpx2.Client) -> None:
    for number in range(60):
        fleeting.post(f"{PATH}/jobs", json=largest(f"much{number}")).raise_for_status()
    for kind in ("jobs", "events"):
        sizes = [size for size, _ in pages_of(fleeting, f"{PATH}/{kind}", kind)]
        assert (max(sizes) < 1.1 * 2**20, sum(sizes) > 1.1 * 2**20, len(sizes) < 5) == (True, True, True)
