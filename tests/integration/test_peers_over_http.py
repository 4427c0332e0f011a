"""Peers over HTTP: entered, changed, paused, told by command and client; their standing, and the breaker's pause."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from api_service import TOKEN, Service
from typer.testing import CliRunner

from app.cli import command_line
from app.domain.events import (
    Event,
    JobAwarded,
    JobDeclined,
    JobEnded,
    JobOffered,
    JobRequested,
    Recorded,
)
from app.domain.events.formats import LOG_FORMAT
from app.domain.jobs import AwayEnd, Federate, LinkRate
from app.domain.times import SECOND_US
from app.federation.links import Links
from app.federation.peering import KNOWN_S
from app.federation.rules.data import Direction
from app.federation.rules.links import LEAST_SAMPLES, MOST_SAMPLES, LinkSample
from app.federation.rules.standings import LAPSES_OVER_US
from app.federation.store import LinkSamples, PeerStore
from app.platform.database.database import Database
from app.platform.pages.guard import COOKIE
from app.processes.worker_wiring import open_worker
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from tenure_client import TenureClient

URL = "https://192.0.43.8"
GUESTS = ("two", "held", "far.two.1.held"), ("one", "running", "far.one.1")
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(service: Service) -> Run:
    def command(*words: str, stdin: str | None = None) -> tuple[int, str]:
        done = CliRunner().invoke(command_line(), ["peer", *words, "--url", service.url, "--token", TOKEN], input=stdin)
        return done.exit_code, done.output

    return command


def test_commands_enter_and_change_a_peer(service: Service, run: Run, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("tnr_theirs\n")
    code, told = run("add", "told", URL, "--their-cloud", "north", "--token-file", str(token), "--json")
    assert (code, json.loads(told)["quota"]["cores_share"]) == (0, 10), told
    assert run("add", "piped", URL, "--their-cloud", "n", "--token-file", "-", stdin="tnr_b\n")[0] == 0
    assert run("add", "bare", URL, "--their-cloud", "n")[0] != 0, "without a token"
    assert run("add", "told", URL, "--their-cloud", "n", "--token-file", str(token))[0] == 1, "it is there"
    near = {"name": "near", "url": "http://127.0.0.1:1", "cloud": "n", "token": "t"}
    assert "TENURE_PEER_ALLOW_PRIVATE" in service.client.post("/v1/peers", json=near).text
    assert run("add", "none", URL, "--their-cloud", "n", "--token-file", str(tmp_path / "no"))[0] != 0
    code, told = run("set", "told", "--cores-share", "25", "--longest", "12h", "--json")
    quota = json.loads(told)["quota"]
    assert (quota["cores_share"], quota["lifetime_s"], quota["offers"]) == (25, 43_200, 20)
    assert run("set", "told")[0] != 0, "nothing is to change"
    code, told = run("pause", "told")
    assert (code, "paused by operator" in told) == (0, True)
    with TenureClient(service.url, TOKEN) as tenure:
        found = tenure.peer("told")
        assert (found.paused_by, found.paused_at is not None) == ("operator", True)
        assert "tnr_theirs" not in str(tenure.peers())
    assert json.loads(run("resume", "told", "--json")[1])["paused_by"] is None
    names = [one["name"] for one in json.loads(run("list", "--json")[1])["peers"]]
    assert {"told", "piped"} <= {*names}
    assert run("set", "told", "--data", "5GB", "--link", "80")[0] == 0
    code, shown = run("show", "told")
    assert (code, "data: 5 GB at most" in shown, "80 Mbit/s" in shown) == (0, True, True), shown
    assert run("test", "told")[0] == 1, "nobody answers there"
    assert [run("remove", name)[0] for name in ("told", "piped")] == [0, 0]
    assert run("show", "told")[0] == 1
    assert run("remove", "told")[0] == 1, "it is not there any more"


@pytest.fixture(scope="module")
def origin(service: Service) -> httpx2.Client:
    """A cloud that a peer offers jobs to, and the peer's own client."""
    client = service.client
    client.post("/v1/clouds", json={"name": "standing", "policy": {"guarantee": "none"}}).raise_for_status()
    client.post("/v1/clouds/standing/nodes", json={"name": "n", "cores": 40}).raise_for_status()
    client.post("/v1/clouds/standing/flavors", json={"name": "c1", "cores": 1}).raise_for_status()
    peer = {"name": "far", "url": URL, "cloud": "c", "token": "t"}
    client.post("/v1/peers", json=peer).raise_for_status()
    token = client.post("/v1/tokens", json={"name": "far", "role": "peer"}).json()["token"]
    return httpx2.Client(base_url=f"{service.url}/v1/clouds/standing/offers", headers={"X-Auth-Token": token})


def test_standing_is_told_in_both_directions(service: Service, run: Run, origin: httpx2.Client) -> None:
    asked = {"cores": 1, "lifetime_s": 60, "hold_s": 30}
    for name in ("one", "two"):
        assert origin.put(f"/{name}/1", json=asked).json()["word"] == "held"
    assert origin.put("/one/1/award").json()["word"] == "running"
    refused = origin.put("/wide/1", json=asked | {"count": 5}).json()
    assert (refused["word"], refused["reason"]) == ("refused", "quota_exceeded")
    (found,) = service.client.get("/v1/peers/far/standing").json()["clouds"]
    here = found["as_origin"]
    assert (here["held"], here["awarded"], here["holding"], here["running"]) == (2, 1, 1, 1)
    assert (here["cores"], here["cores_limit"]) == (2, 4)
    assert here["words"] == [{"word": "held", "count": 2}, {"word": "running", "count": 1}]
    assert found["as_host"]["offered"] == 0
    code, told = run("standing", "far")
    assert (code, "2 of 4" in told) == (0, True), told
    assert json.loads(run("standing", "far", "--json")[1])["clouds"] == [found]
    text = service.client.get("/metrics/peers").text
    assert 'tenure_peer_attempts{cloud="standing",peer="far",state="held"} 1.0' in text
    assert 'tenure_peer_quota_used_ratio{cloud="standing",peer="far",what="cores"} 0.5' in text
    assert 'tenure_peer_paused{by="operator",peer="far"} 0.0' in text
    assert service.client.get("/v1/peers/nobody/standing").status_code == 404


@pytest.mark.usefixtures("origin")
def test_the_page_of_jobs_shows_those_of_peers(service: Service) -> None:
    page = httpx2.get(f"{service.url}/ui/clouds/standing/jobs", headers={"Cookie": f"{COOKIE}={TOKEN}"}).text
    rows = [row for row in page.split("<tr>") if 'data-label="Peer">far<' in row]
    for row, (name, state, place) in zip(rows, GUESTS, strict=True):  # the newest first
        assert f'data-label="Job">{name}<' in row
        assert f'data-label="State">{state}<' in row
        assert f'/instances/{place}"' in row


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--token-file", "/no/such/file"], "--token-file /no/such/file: No such file or directory"),
        (["--token-file", "-", "--longest", "0"], "--longest: must be from 1 to 316224000 seconds"),
        (["--token-file", "-", "--data", "9999999GB"], "--data: must be at most 1000000000000000"),
        (["--token-file", "-", "--objects-url", ""], "--objects-url: must not be empty"),
        (["--token-file", "-", "--offers", "2000"], "--offers: must be at most 1000"),
    ],
)
def test_a_wrong_option_of_a_peer_is_named(service: Service, words: list[str], told: str) -> None:
    command = ["peer", "add", "wrong", URL, "--their-cloud", "n", *words, "--url", service.url, "--token", TOKEN]
    done = CliRunner().invoke(command_line(), command, input="tnr_x\n")
    assert (done.exit_code, str(done.exception)) == (1, told), done.output


def test_a_peer_whose_name_has_no_address_is_told_so(service: Service, run: Run) -> None:
    peer = {"name": "lost", "url": "https://no-such-name.invalid", "cloud": "c", "token": "t"}
    service.client.post("/v1/peers", json=peer).raise_for_status()
    code, told = run("test", "lost")
    assert (code, "the name in its URL has no address" in told, "ALLOW_PRIVATE" in told) == (1, True, False), told


@pytest.mark.parametrize("url", ["https://localhost:18091", "https://127.0.0.1", "https://10.1"])
def test_a_private_address_is_refused_when_it_is_entered(service: Service, url: str) -> None:
    for field in ("url", "objects_url"):
        peer = {"name": "inside", "url": URL, "cloud": "c", "token": "t"} | {field: url}
        answer = service.client.post("/v1/peers", json=peer)
        (fault,) = answer.json()["errors"]
        assert (answer.status_code, fault["code"]) == (400, "preemptible.peer.refused_address"), field
        assert "TENURE_PEER_ALLOW_PRIVATE=true" in fault["detail"]


@pytest.mark.parametrize(
    ("name", "told"), [("none", "No such file or directory"), (".", "Is a directory"), ("binary", "it holds no text")]
)
def test_a_token_file_that_cannot_be_read_is_told_in_words(run: Run, tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    words = ["peer", "add", "far", URL, "--their-cloud", "c", "--token-file", str(tmp_path / name)]
    done = CliRunner().invoke(command_line(), words)
    assert str(done.exception) == f"--token-file {tmp_path / name}: {told}"


def test_an_operator_tells_the_rate_of_a_link_until_it_is_learned(service: Service, run: Run) -> None:
    given = {"name": "slow", "url": URL, "cloud": "c", "token": "t", "link_mbit_s": 80}
    assert service.client.post("/v1/peers", json=given).json()["link_mbit_s"] == 80
    assert json.loads(run("set", "slow", "--link", "8", "--json")[1])["link_mbit_s"] == 8
    assert service.client.patch("/v1/peers/slow", json={"quota": {"offers": 3}}).json()["link_mbit_s"] == 8
    for wrong in (0, -1, "fast", 10**7):
        assert service.client.patch("/v1/peers/slow", json={"link_mbit_s": wrong}).status_code == 400

    async def rates() -> tuple[LinkRate | None, LinkRate | None]:
        database = Database(service.settings.database_url)
        samples = LinkSamples(database)
        before = (await Links(samples).of("slow", Direction.IN, 8)).rate
        for _ in range(LEAST_SAMPLES):
            await samples.add("slow", "in", 8 * 10**6, SECOND_US)
        after = (await Links(samples).of("slow", Direction.IN, 8)).rate
        await database.close()
        return before, after

    before, after = asyncio.run(rates())
    assert before == LinkRate(10**6, 0, 0, 0)
    assert after is not None
    assert (after.bytes_per_s, after.samples) == (8 * 10**6, LEAST_SAMPLES)
    service.client.delete("/v1/peers/slow").raise_for_status()


@pytest.mark.usefixtures("origin")
def test_what_came_tells_the_rate_of_a_link(service: Service, run: Run) -> None:
    assert service.client.get("/v1/peers/far/standing").json()["data_links"] == []

    async def come() -> dict[tuple[str, str], list[LinkSample]]:
        database = Database(service.settings.database_url)
        samples = LinkSamples(database)
        for number in range(MOST_SAMPLES + 5):
            await samples.add("far", "in", 8 * 10**6, SECOND_US if number else 1)
        await samples.add("nobody", "in", 8 * 10**6, 1)
        kept, _ = await samples.read(None)
        await database.close()
        return kept

    assert {link: len(found) for link, found in asyncio.run(come()).items()} == {("far", "in"): MOST_SAMPLES}
    ways = {one["direction"]: one for one in service.client.get("/v1/peers/far/standing").json()["data_links"]}
    assert (ways["in"]["bytes_per_s"], ways["in"]["samples"], ways["in"]["active"]) == (8 * 10**6, MOST_SAMPLES, 0)
    assert ways["in"]["gigabyte_s"] == 125
    assert (ways["out"]["bytes_per_s"], ways["out"]["samples"], ways["out"]["gigabyte_s"]) == (None, 0, None)
    code, told = run("standing", "far")
    assert (code, "8.0 MB/s" in told) == (0, True), told
    page = httpx2.get(f"{service.url}/ui/federation", headers={"Cookie": f"{COOKIE}={TOKEN}"}).text
    assert ("8.0 MB/s" in page, "not known yet" in page) == (True, True)


def test_an_award_whose_length_is_not_told_is_read(service: Service, origin: httpx2.Client) -> None:
    assert said(origin, "PUT", "/pieces/1", json={"cores": 1, "lifetime_s": 60, "hold_s": 30}) == "held"
    is_json = {"Content-Type": "application/json"}
    unfit = origin.put("/pieces/1/award", content=iter([b'{"nothing', b'": 1}']), headers=is_json)
    assert (unfit.request.headers["transfer-encoding"], unfit.status_code) == ("chunked", 400)
    assert origin.get("/pieces/1").json()["word"] == "held", "what cannot be read changes nothing"
    assert origin.put("/pieces/1/award", content=iter([b"{", b"}"]), headers=is_json).json()["word"] == "running"
    assert origin.delete("/pieces/1").json()["word"] != "running"


def test_words_said_again_and_again_change_nothing(service: Service, origin: httpx2.Client) -> None:
    """An award replayed a hundred times starts one instance, and a stranger's attempt does not exist."""
    asked = {"cores": 1, "lifetime_s": 60, "hold_s": 30}
    assert origin.put("/replayed/1", json=asked).json()["word"] == "held"
    for _ in range(100):
        assert said(origin, "PUT", "/replayed/1/award") == "running"
        assert said(origin, "PUT", "/replayed/1", json=asked) == "running"
    log = service.client.get("/v1/clouds/standing/events", params={"limit": 1000}).json()["events"]
    assert [one["kind"] for one in log if one.get("job") == "replayed"] == ["room_held", "foreign_job_admitted"]
    service.client.post("/v1/peers", json={"name": "other", "url": URL, "cloud": "c", "token": "t"}).raise_for_status()
    token = service.client.post("/v1/tokens", json={"name": "other", "role": "peer"}).json()["token"]
    stranger = httpx2.put(f"{origin.base_url}replayed/1/award", headers={"X-Auth-Token": token})
    assert stranger.json()["word"] == "unknown", "an attempt of its own, that it never offered"
    late = httpx2.put(f"{origin.base_url}replayed/1", headers={"X-Auth-Token": token}, json=asked).json()
    assert (late["word"], late["reason"]) == ("refused", "awarded_before")
    assert service.client.get("/v1/clouds/standing/instances/far.replayed.1").json()["status"] == "running"
    assert said(origin, "DELETE", "/replayed/1") == "cancelled"


def test_a_pause_is_heard_at_once_here_and_within_a_second_elsewhere(service: Service, origin: httpx2.Client) -> None:
    asked = {"cores": 1, "lifetime_s": 60, "hold_s": 30}
    assert said(origin, "PUT", "/before/1", json=asked) == "held"
    service.client.post("/v1/peers/far/pause").raise_for_status()
    refused = origin.put("/paused/1", json=asked).json()
    assert (refused["word"], refused["reason"]) == ("refused", "peer_paused")

    async def resume_in_another_process() -> None:
        database = Database(service.settings.database_url)
        await PeerStore(database).pause("far", None, None)
        await database.close()

    asyncio.run(resume_in_another_process())
    time.sleep(KNOWN_S)
    assert said(origin, "PUT", "/resumed/1", json=asked) == "held"
    for name in ("before", "resumed"):
        assert said(origin, "DELETE", f"/{name}/1") == "cancelled"


def said(origin: httpx2.Client, method: str, path: str, **body: Any) -> str:
    """The host's word. A peer that is told to wait, since it sends more than it may, asks again then."""
    while (answer := origin.request(method, path, **body)).status_code == 429:
        time.sleep(int(answer.headers["Retry-After"]))
    return str(answer.json()["word"])


def test_the_breaker_pauses_who_honours_no_award(service: Service) -> None:
    """Its awards are written as a worker would; the last word is the breaker's, until an operator or an hour passes."""

    async def judge() -> int:
        async with open_worker(service.settings) as worker:
            return await worker.breaker.judge_peers()

    client = service.client
    client.post("/v1/clouds", json={"name": "awarding", "policy": {"guarantee": "none"}}).raise_for_status()
    client.post("/v1/peers", json={"name": "idle", "url": URL, "cloud": "c", "token": "t"}).raise_for_status()
    assert asyncio.run(judge()) == 0
    write_lapsed(service, "awarding", "idle", 5)
    assert asyncio.run(judge()) == 1
    paused = client.get("/v1/peers/idle").json()
    assert (paused["paused_by"], paused["paused_because"]) == ("breaker", "it did not honour its last 5 awards")
    assert asyncio.run(judge()) == 0, "once"
    assert told(client)[-1] == ("peer_paused", "breaker", "it did not honour its last 5 awards")
    assert client.post("/v1/peers/idle/resume").json()["paused_by"] is None
    assert asyncio.run(judge()) == 0, "awards from now on are judged"
    assert told(client)[-1] == ("peer_resumed", None, None)
    client.post("/v1/peers/idle/pause").raise_for_status()
    assert [asyncio.run(judge()) for _ in range(2)] == [0, 0]
    assert told(client)[-1] == ("peer_paused", "operator", "an operator paused it")
    assert len(told(client)) == 3, "once each, and in no log of a cloud that has nothing to do with the peer"
    client.post("/v1/peers/idle/resume").raise_for_status()
    assert client.get("/v1/peers/idle/standing").json()["clouds"][0]["as_host"]["ended"] == [
        {"word": "lapsed", "count": 5}
    ]


def told(client: httpx2.Client) -> list[tuple[str, str | None, str | None]]:
    """Pauses, as the logs of all clouds tell them."""
    clouds = [one["name"] for one in client.get("/v1/clouds").json()["clouds"]]
    logs = [client.get(f"/v1/clouds/{name}/events", params={"limit": 1000}).json()["events"] for name in clouds]
    pauses = [one for log in logs for one in log if one["kind"] in {"peer_paused", "peer_resumed"}]
    return [(one["kind"], one.get("reason"), one.get("why")) for one in pauses]


def write_lapsed(service: Service, cloud: str, peer: str, count: int) -> None:
    """Append jobs whose awards the peer did not honour, as a worker would."""
    begun_us, asked = round(time.time() * 1e6), {"flavor": "c1", "count": 1, "lifetime_us": SECOND_US}
    events: list[Event] = []
    for number in range(count):
        at_us = begun_us + number * LAPSES_OVER_US // (count - 1)
        at: dict[str, Any] = {"at_us": at_us, "job": f"lapsed-{number}"}
        events += [
            JobRequested(**at, **asked, federate=Federate.ONLY, peers=(peer,), attempts=1, answer_us=1, hold_us=1),
            JobOffered(**at, attempt=1, peer=peer),
            JobAwarded(**at, attempt=1, reclaim_us=at_us + 1),
            JobDeclined(**at, attempt=1, reason="expired"),
            JobEnded(**at, attempt=0, end=AwayEnd.REJECTED, is_last=True),
        ]

    async def write() -> None:
        database = Database(service.settings.database_url)
        database.newer.log_format = LOG_FORMAT
        cloud_id = await Clouds(database).id_of(cloud)
        first = service.last_seq(cloud) + 1
        await EventLog(database).append(cloud_id, [Recorded(seq, event) for seq, event in enumerate(events, first)])
        await database.close()

    asyncio.run(write())
