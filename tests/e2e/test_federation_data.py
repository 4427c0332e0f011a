"""Data of jobs between two services with real object stores: all of it comes, also over ways that are cut."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

import pytest
from data_sites import Site, data_sites
from test_federation import until

pytestmark = [pytest.mark.real_parts, pytest.mark.timeout(900)]
WITHIN_S = 120.0
MEBIBYTE = 2**20


@pytest.fixture(scope="module")
def sites() -> Iterator[tuple[Site, Site]]:
    with data_sites(home_settings={"TENURE_LINK_S": "60"}) as both:
        yield both


def data_job(home: Site, name: str, inputs: list[dict[str, Any]], **more: Any) -> None:
    home.submit(name, inputs=inputs, lifetime_s=300, on_preempted="fail", **more)


def runs(host: Site, name: str) -> bool:
    return host.client.get(f"/v1/clouds/b/instances/a.{name}.1").status_code == 200


def tried(home: Site, name: str) -> dict[str, Any]:
    return home.get(f"/jobs/{name}/attempts")["attempts"][0]


def stop(host: Site, name: str) -> None:
    assert host.client.delete(f"/v1/clouds/b/instances/a.{name}.1").status_code == 204


def ours(site: Site) -> list[str]:
    return [key for key in site.store.object_keys() if key.startswith("tenure/")]


def test_inputs_go_to_the_host_and_outputs_come_home(sites: tuple[Site, Site]) -> None:
    """The host reads copies that are byte for byte the same; at the end nothing of the job is left there."""
    home, host = sites
    contents = {"data/one.bin": os.urandom(3 * MEBIBYTE), "data/empty": b""}
    inputs = [home.put(key, content) for key, content in contents.items()]
    data_job(home, "both", inputs, outputs=[{"key": "result.bin", "bytes": 2 * MEBIBYTE}])
    until(lambda: runs(host, "both"), WITHIN_S)
    for key, content in contents.items():
        assert host.read(f"tenure/b/a/both/1/in/{key}") == content
    until(lambda: tried(home, "both")["inputs"]["done_bytes"] == 3 * MEBIBYTE, WITHIN_S)
    result = os.urandom(MEBIBYTE)
    host.put("tenure/b/a/both/1/out/result.bin", result)
    stop(host, "both")
    until(lambda: home.job("both")["outputs_state"] == "collected", WITHIN_S)
    assert home.read("tenure/a/outputs/both/result.bin") == result
    assert home.job("both")["end"] == "completed"
    until(lambda: not ours(host), WITHIN_S)
    counted = home.worker_metrics()
    assert 'tenure_jobs_total{cloud="a",outcome="completed",where="peer"} 1.0' in counted
    assert 'tenure_job_outputs_total{cloud="a",outcome="collected",reason="none"} 1.0' in counted
    (told,) = [one for one in home.events() if one["kind"] == "job_collected"]
    assert told["outputs"] == [{"key": "result.bin", "bytes": MEBIBYTE, "sha256": hashlib.sha256(result).hexdigest()}]


def test_a_cut_in_the_middle_costs_no_byte_twice(sites: tuple[Site, Site]) -> None:
    home, host = sites
    size = 8 * MEBIBYTE
    inputs = [home.put("data/cut.bin", os.urandom(size))]
    before, home.way.cut_after = home.way.came, home.way.came + size // 2
    data_job(home, "cut", inputs)
    until(lambda: runs(host, "cut"), WITHIN_S)
    assert home.way.cut_after is None, "it was never cut"
    assert size <= home.way.came - before < size + MEBIBYTE
    stop(host, "cut")


def test_a_worker_that_is_killed_goes_on_where_it_was(sites: tuple[Site, Site]) -> None:
    home, host = sites
    size = 12 * MEBIBYTE
    inputs = [home.put("data/killed.bin", os.urandom(size))]
    before, home.way.bytes_per_s = home.way.came, 2 * MEBIBYTE
    data_job(home, "killed", inputs)
    until(lambda: home.way.came - before > size // 4, WITHIN_S)
    host.process.kill()
    host.process.start()
    home.way.bytes_per_s = 0
    until(lambda: runs(host, "killed"), WITHIN_S)
    assert home.way.came - before < size + 2 * MEBIBYTE
    assert hashlib.sha256(host.read("tenure/b/a/killed/1/in/data/killed.bin")).hexdigest() == inputs[0]["sha256"]
    stop(host, "killed")


def test_data_with_another_digest_runs_nothing(sites: tuple[Site, Site]) -> None:
    home, host = sites
    inputs = [home.put("data/wrong.bin", os.urandom(MEBIBYTE)) | {"sha256": "0" * 64}]
    data_job(home, "wrong", inputs)
    until(lambda: home.job("wrong")["end"] is not None, WITHIN_S)
    job, attempt = home.job("wrong"), tried(home, "wrong")
    assert (job["end"], job["reason"]) == ("failed", "data_digest_mismatch")
    assert (attempt["outcome"], attempt["why"]) == ("failed", "data_digest_mismatch")
    assert not runs(host, "wrong")
    assert not any(one.get("id") == "a.wrong.1" for one in host.events())
    until(lambda: not any("/wrong/" in key for key in ours(host)), WITHIN_S)


def test_a_link_that_has_ended_is_asked_for_again(sites: tuple[Site, Site]) -> None:
    """The way is cut after the link has ended, so the rest needs a new one; the host says why it waits meanwhile."""
    home, host = sites
    home.process.interrupt()
    home.process.environment |= {"TENURE_LINK_S": "2"}
    home.process.start()
    size = 8 * MEBIBYTE
    inputs = [home.put("data/late.bin", os.urandom(size))]
    before, home.way.bytes_per_s = home.way.came, MEBIBYTE
    home.way.cut_after = home.way.came + size // 2
    data_job(home, "late", inputs)
    until(lambda: home.way.cut_after is None, WITHIN_S)
    home.way.bytes_per_s = 0
    until(lambda: runs(host, "late"), WITHIN_S)
    assert home.way.came - before < size + MEBIBYTE
    stop(host, "late")


def test_a_host_learns_its_link_and_refuses_what_would_come_too_late(sites: tuple[Site, Site]) -> None:
    """Five transfers at no more than 2 MiB/s; 10^9 bytes cannot come in a minute then, and the room is not held."""
    home, host = sites
    inputs = [home.put(f"data/learned-{number}.bin", os.urandom(4 * MEBIBYTE)) for number in range(5)]
    home.way.bytes_per_s = 2 * MEBIBYTE
    data_job(home, "learned", inputs)
    until(lambda: runs(host, "learned"), WITHIN_S)
    home.way.bytes_per_s = 0
    stop(host, "learned")
    links = {one["direction"]: one for one in host.get_peer("a")["data_links"]}
    assert links["in"]["samples"] >= 5
    # A half of the link, which one that begins alone can count on if another comes; not the share of one of four.
    assert 0.7 * MEBIBYTE <= links["in"]["bytes_per_s"] <= 2.2 * MEBIBYTE
    assert links["in"]["gigabyte_s"] > 400
    again = home.put("data/learned-again.bin", os.urandom(4 * MEBIBYTE))
    data_job(home, "again", [again])
    until(lambda: runs(host, "again"), WITHIN_S)
    stop(host, "again")
    counted = host.worker_metrics()
    assert 'tenure_transfer_estimate_ratio_bucket{direction="in",le="1.0",peer="a"}' in counted
    token = host.post("/v1/tokens", {"name": "a.links", "role": "peer"})["token"]
    offers = host.client.__class__(
        base_url=f"{host.process.url}/v1/clouds/b/offers", headers={"X-Auth-Token": token}, timeout=30
    )
    asked = {"cores": 1, "lifetime_s": 60, "hold_s": 5, "stage_s": 60, "data_bytes": 10**9}
    answer = offers.put("/slow/1", json=asked | {"input_bytes": 10**9}).json()
    assert (answer["word"], answer["reason"]) == ("refused", "link_slow")
    log = host.client.get("/v1/clouds/b/events", params={"limit": 1000}).json()["events"]
    judged = {one["job"]: one["link"] for one in log if one.get("link") is not None}
    assert judged["slow"]["samples"] >= 6
    assert judged["again"]["bytes_per_s"] == links["in"]["bytes_per_s"]
    assert offers.put("/small/1", json=asked | {"input_bytes": 10**6}).json()["word"] == "held"
    (held,) = [one for one in host.events() if one["kind"] == "room_held" and one["job"] == "small"]
    assert held["stage_s"] == 60


def test_what_is_not_there_is_refused_at_once(sites: tuple[Site, Site]) -> None:
    home, _ = sites
    known = home.put("data/known.bin", b"known")
    body = {"id": "none", "flavor": "c1", "lifetime_s": 20, "federate": "only"}
    for wrong in (known | {"key": "data/unknown.bin"}, known | {"bytes": 6}):
        answer = home.client.post("/v1/clouds/a/jobs", json=body | {"inputs": [wrong]})
        assert answer.json()["errors"][0]["code"] == "preemptible.job.data_unavailable"
    for key in ("/etc/passwd", "a/../b", "tenure/b/x", "a//b", ""):
        assert home.client.post("/v1/clouds/a/jobs", json=body | {"inputs": [known | {"key": key}]}).status_code == 400


def test_outputs_that_are_not_as_declared_are_lost_and_told(sites: tuple[Site, Site]) -> None:
    home, host = sites
    for name, content, reason in (("large", b"x" * 11, "data_size_mismatch"), ("absent", None, "data_missing")):
        data_job(home, name, [], outputs=[{"key": "out", "bytes": 10}])
        until(lambda name=name: runs(host, name), WITHIN_S)
        if content is not None:
            host.put(f"tenure/b/a/{name}/1/out/out", content)
        stop(host, name)
        until(lambda name=name: home.job(name)["outputs_state"] == "lost", WITHIN_S)
        assert (home.job(name)["end"], home.job(name)["outputs_reason"]) == ("completed", reason)


def test_a_hostile_peer_leads_nobody_elsewhere(sites: tuple[Site, Site]) -> None:
    """Links to other places are refused, data that was not offered too, and no secret stands in a log."""
    home, host = sites
    token = host.post("/v1/tokens", {"name": "a.other", "role": "peer"})["token"]
    offers = host.client.__class__(
        base_url=f"{host.process.url}/v1/clouds/b/offers", headers={"X-Auth-Token": token}, timeout=30
    )
    asked = {"cores": 1, "lifetime_s": 60, "hold_s": 60, "stage_s": 60, "data_bytes": 5}
    assert offers.put("/evil/1", json=asked).json()["word"] == "held"
    known = {"key": "k", "bytes": 5, "sha256": "0" * 64}
    elsewhere = ("http://169.254.169.254/latest", f"{home.way.url}0/k", f"http://u@{home.way.url[7:]}/k", "file:///k")
    for url in elsewhere:
        answer = offers.put("/evil/1/award", json={"inputs": [known | {"url": url}], "outputs": []})
        assert answer.json()["errors"][0]["code"] == "preemptible.peer.refused_address", url
    link = f"{home.way.url}/tenure/k"
    for more in ({"inputs": [known | {"url": link, "bytes": 6}]}, {"inputs": []}):
        answer = offers.put("/evil/1/award", json={"outputs": []} | more)
        assert answer.json()["errors"][0]["code"] == "preemptible.offer.conflict"
    assert offers.put("/evil/1/award", json={"inputs": [known | {"url": link}]}).json()["word"] == "staging"
    assert offers.get("/evil/1/outputs").json()["errors"][0]["code"] == "preemptible.offer.conflict"  # not over yet
    until(lambda: offers.get("/evil/1").json()["word"] == "expired", WITHIN_S)  # such a link opens nothing
    assert offers.get("/evil/1").json()["reason"] == "data_too_late"
    assert offers.get("/evil/1/outputs").json()["state"] == "lost"
    for site in sites:
        text = site.process.log.read_text() + str(site.events())
        assert site.store.secret not in text
        assert "Signature" not in text
