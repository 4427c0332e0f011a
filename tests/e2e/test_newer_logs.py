"""A process that meets what a newer version wrote: it says so, leaves the cloud alone, and serves all others."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import psycopg
import pytest
from processes import HEADERS, TOKEN, Process, tenure
from receivers import Receiver

from app.domain.values import Role
from app.processes.endpoints import ENDPOINTS

CODE = "preemptible.log.newer"
POLICY = {"guarantee": "none", "eviction_probability": 0.05}
NEWER = {
    "newer-kind": ("node_labelled", 1, {"node": "node-0", "label": "rack-1"}),
    "newer-version": ("node_drained", 2, {"node": "node-0"}),
    "newer-field": ("policy_changed", 1, {"policy": {**POLICY, "carbon_limit": 7}}),
    "newer-value": ("policy_changed", 1, {"policy": {**POLICY, "guarantee": "per_tenant"}}),
}
QUERIES = {
    "quote_extension": "?lifetime_s=60",
    "advise_checkpoint": "?pause_s=60",
    "advise_flavor_checkpoint": "?flavor=small&lifetime_s=60&pause_s=60",
    "read_curves": "?flavor=small",
}
PLACES = {
    "node": "node-0",
    "instance": "first",
    "webhook": "1",
    "run": "1",
    "epoch": "1",
    "flavor": "small",
    "spot": "first",
    "job": "first",
    "attempt": "1",
    "offer": "first",
}
WRITES = (
    ("POST", "/instances", {"id": "second", "market": "on_demand", "flavor": "small"}),
    ("DELETE", "/instances/first", None),
    ("POST", "/batch", {"operations": [{"stop": {"id": "first"}}]}),
    ("PATCH", "", {"policy": {"confidence": 0.9}}),
    ("POST", "/nodes", {"name": "node-1", "cores": 4}),
    ("POST", "/flavors", {"name": "large", "cores": 4}),
    ("POST", "/drill", {}),
)


@dataclass
class House:
    """An API process and a worker on one database, whose clouds hold one instance each, and then something newer."""

    api: Process
    worker: Process
    receivers: dict[str, Receiver]
    database_url: str

    def __post_init__(self) -> None:
        self.client = httpx2.Client(base_url=self.api.url, headers=HEADERS, timeout=30)

    def log(self, cloud: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.database_url) as connection:
            return connection.execute(
                "SELECT seq, kind, version, data FROM event WHERE cloud_id = (SELECT id FROM cloud WHERE name = %s) "
                "ORDER BY seq",
                [cloud],
            ).fetchall()

    def write_newer(self, cloud: str) -> None:
        kind, version, data = NEWER[cloud]
        with psycopg.connect(self.database_url) as connection:
            connection.execute(
                "INSERT INTO event (cloud_id, seq, kind, version, data) SELECT cloud_id, max(seq) + 1, %s, %s, "
                "%s::jsonb || jsonb_build_object('at_us', max(at_us)) FROM event "
                "WHERE cloud_id = (SELECT id FROM cloud WHERE name = %s) GROUP BY cloud_id",
                [kind, version, json.dumps(data), cloud],
            )

    def put_right(self) -> None:
        """Rewrite the events as if this version had written them."""
        with psycopg.connect(self.database_url) as connection:
            connection.execute(
                "UPDATE event SET kind = 'node_drained', version = 1, "
                "data = jsonb_build_object('node', 'node-0', 'at_us', at_us) "
                "WHERE seq = 5 AND cloud_id IN (SELECT id FROM cloud WHERE name LIKE 'newer-%')"
            )


@pytest.fixture(scope="module")
def house(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    directory = tmp_path_factory.mktemp("newer")
    common = {"TENURE_DATABASE_URL": database_url, "TENURE_WEBHOOK_ALLOW_PRIVATE": "true", "TENURE_SNAPSHOT_EVERY": "1"}
    api, worker = Process("serve", directory, common), Process("worker", directory, common)
    worker.environment["TENURE_WORKER_PORT"] = str(worker.port)
    with Receiver() as fine, Receiver() as newer:
        try:
            api.start()
            worker.start()
            found = House(api, worker, {"fine": fine, "newer-kind": newer}, database_url)
            for cloud in ("fine", *NEWER):
                begin(found, cloud)
            wait_until(lambda: len(fine.taken) == len(newer.taken) == 4)
            for cloud in NEWER:
                found.write_newer(cloud)
            yield found
        finally:
            for process in (api, worker):
                if hasattr(process, "process"):
                    process.kill()


def begin(house: House, cloud: str) -> None:
    path = f"/v1/clouds/{cloud}"
    house.client.post("/v1/clouds", json={"name": cloud, "policy": POLICY}).raise_for_status()
    house.client.post(f"{path}/nodes", json={"name": "node-0", "cores": 4}).raise_for_status()
    house.client.post(f"{path}/flavors", json={"name": "small", "cores": 1}).raise_for_status()
    start = {"id": "first", "market": "on_demand", "flavor": "small"}
    house.client.post(f"{path}/instances", json=start).raise_for_status()
    if cloud in house.receivers:
        webhook = {"url": house.receivers[cloud].url, "after_seq": 0}
        house.receivers[cloud].secret = house.client.post(f"{path}/webhooks", json=webhook).json()["secret"]


def wait_until(holds: object, seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < end, "it never came"
        time.sleep(0.2)


@pytest.mark.parametrize("cloud", NEWER)
@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_no_write_is_taken(house: House, cloud: str, method: str, path: str, body: object) -> None:
    before = house.log(cloud)
    answer = house.client.request(method, f"/v1/clouds/{cloud}{path}", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (503, CODE), answer.text
    assert "a newer version of Tenure" in answer.json()["errors"][0]["detail"]
    assert house.log(cloud) == before, "nothing is written, and so no field of the policy is lost"


@pytest.mark.parametrize("cloud", NEWER)
def test_no_read_is_a_fault(house: House, cloud: str) -> None:
    refused = set()
    for operation in ENDPOINTS:
        if operation.method != "GET" or "{cloud}" not in operation.path or operation.role is Role.PEER:
            continue
        path = operation.path.replace("{cloud}", cloud)
        path = re.sub(r"\{(\w+)\}", lambda match: PLACES[match[1]], path)
        path += QUERIES.get(operation.name, "")
        with house.client.stream("GET", path) as answer:
            assert answer.status_code in (200, 404, 503), (path, answer.status_code, answer.read())
            if answer.status_code == 503:
                assert json.loads(answer.read())["errors"][0]["code"] == CODE
                refused.add(operation.name)
    assert {"show_cloud", "list_events", "stream_events", "list_nodes"} <= refused


@pytest.mark.parametrize("cloud", NEWER)
def test_every_page_says_what_is_the_matter(house: House, cloud: str) -> None:
    cookies = {"Cookie": f"tenure_token={TOKEN}"}
    for page in ("", "/promise", "/quotes", "/curves", "/owners", "/epochs", "/decisions", "/instances/first"):
        answer = httpx2.get(f"{house.api.url}/ui/clouds/{cloud}{page}", headers=cookies, timeout=30)
        assert answer.status_code == 503, (page, answer.status_code)
        assert "a newer version of Tenure" in answer.text


def test_what_concerns_all_clouds_tells_of_those_that_can_be_read(house: House) -> None:
    answer = httpx2.get(f"{house.api.url}/ui", headers={"Cookie": f"tenure_token={TOKEN}"}, timeout=30)
    assert answer.status_code == 200
    assert answer.text.count("a newer version of Tenure") == len(NEWER)
    metrics = house.client.get("/metrics/clouds")
    assert metrics.status_code == 200
    assert set(re.findall(r'tenure_cloud_log_events_total\{cloud="([^"]+)"', metrics.text)) == {"fine"}
    assert len(house.client.get("/v1/clouds").json()["clouds"]) == 1 + len(NEWER)


def test_both_processes_are_not_ready_and_say_why(house: House) -> None:
    house.client.get("/v1/clouds/newer-kind")
    for process in (house.api, house.worker):
        wait_until(lambda process=process: httpx2.get(f"{process.url}/healthcheck", timeout=10).status_code == 503)
        told = httpx2.get(f"{process.url}/healthcheck", timeout=10).text
        assert told.startswith(f"{CODE}: a newer version of Tenure")
        wait_until(lambda process=process: left_alone(process) == {"clouds": len(NEWER), "database": 0})
    readiness = httpx2.get(f"{house.api.url}/readiness", timeout=10)
    assert readiness.status_code == 503
    answer = readiness.json()
    assert (answer["ready"], answer["code"], answer["database"]) == (False, CODE, "OK")
    assert "a newer version of Tenure" in answer["log"]
    assert "newer-kind" not in readiness.text, "who has no token does not learn the names of clouds"


def test_words_of_newer_versions_are_shown_as_they_are(house: House) -> None:
    with psycopg.connect(house.database_url) as connection:
        connection.execute(
            "INSERT INTO forecast_run (cloud_id, cause, status) SELECT id, 'node_labelled', 'postponed' FROM cloud "
            "WHERE name = 'fine'"
        )
    (run,) = house.client.get("/v1/clouds/fine/runs").json()["runs"]
    assert (run["cause"], run["status"]) == ("node_labelled", "postponed")
    assert house.client.get(f"/v1/clouds/fine/runs/{run['id']}").json() == run
    page = httpx2.get(f"{house.api.url}/ui/clouds/fine/epochs", headers={"Cookie": f"tenure_token={TOKEN}"}, timeout=30)
    assert page.status_code == 200
    assert "node labelled" in page.text


def test_a_role_of_a_newer_version_allows_nothing(house: House) -> None:
    made = house.client.post("/v1/tokens", json={"name": "newer", "role": "reader"}).json()
    with psycopg.connect(house.database_url) as connection:
        connection.execute("UPDATE token SET role = 'auditor' WHERE name = 'newer'")
    refused = httpx2.get(f"{house.api.url}/v1/clouds", headers={"X-Auth-Token": made["token"]}, timeout=30)
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (403, "preemptible.role.insufficient")
    assert "the token's is auditor" in refused.json()["errors"][0]["detail"]
    page = httpx2.get(f"{house.api.url}/ui", headers={"Cookie": f"tenure_token={made['token']}"}, timeout=30)
    assert page.status_code == 403
    listed = house.client.get("/v1/tokens")
    assert listed.status_code == 200
    assert {token["name"]: token["role"] for token in listed.json()["tokens"]}["newer"] == "auditor"


def test_a_table_of_a_newer_version_is_left_alone(house: House) -> None:
    begin(house, "newer-table")
    with psycopg.connect(house.database_url) as connection:
        connection.execute(
            "INSERT INTO quantile_table (cloud_id, epoch, epoch_us, seq, wall_s, data) "
            "SELECT id, 1, 0, 1, 1, 'tenure quantile table 9\n'::bytea FROM cloud WHERE name = 'newer-table'"
        )
        connection.execute(
            "SELECT pg_notify(%s, %s || id || %s) FROM cloud WHERE name = 'newer-table'",
            ["tenure", '{"type":"table_published","cloud_id":', ',"epoch":1}'],
        )
    for path in ("/tables/1", "/quotes?flavor=small"):
        refused = house.client.get(f"/v1/clouds/newer-table{path}")
        assert (refused.status_code, refused.json()["errors"][0]["code"]) == (503, CODE), (path, refused.text)
        assert "a newer version of Tenure computed the quantile table of epoch 1" in refused.text
    start = {"id": "second", "market": "on_demand", "flavor": "small"}
    assert house.client.post("/v1/clouds/newer-table/instances", json=start).status_code == 201
    wait_until(lambda: "the newest table is left alone" in house.api.log.read_text())


def left_alone(process: Process) -> dict[str, float]:
    """Read what the process tells in its metrics."""
    told = httpx2.get(f"{process.url}/metrics", headers=HEADERS, timeout=10).text
    return {what: float(value) for what, value in re.findall(r'^tenure_left_alone{what="(\w+)"} (.*)$', told, re.M)}


def test_other_clouds_go_on(house: House) -> None:
    start = {"id": "another", "market": "on_demand", "flavor": "small"}
    assert house.client.post("/v1/clouds/fine/instances", json=start).status_code == 201
    run = house.client.post("/v1/clouds/fine/tables").json()["id"]
    wait_until(lambda: house.client.get(f"/v1/clouds/fine/runs/{run}").json()["status"] == "succeeded", 180)
    wait_until(lambda: house.receivers["fine"].taken[-1].seq == len(house.log("fine")))


def test_commands_say_it_in_a_sentence(house: House, tmp_path: Path) -> None:
    common = ["--url", house.api.url, "--token", TOKEN, "--cloud", "newer-kind"]
    export = ("log", "export", "--out", str(tmp_path / "log.csv"))
    reads = ("events", "sla", "decisions", "instances", "quote", "reliability")
    for command in (export, ("explain", "first"), ("drill", "first"), ("handover", "list"), *((one,) for one in reads)):
        done = tenure(*command, *common)
        assert done.returncode in (1, 3), (command, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        assert "newer version of Tenure" in done.stderr + done.stdout, (command, done.stdout, done.stderr)


def test_a_worker_leaves_such_clouds_alone_and_takes_them_up_again(house: House) -> None:
    asked = house.client.post("/v1/clouds/newer-kind/tables")
    assert asked.status_code == 202, asked.text
    time.sleep(12)
    with psycopg.connect(house.database_url) as connection:
        runs = connection.execute(
            "SELECT status, attempts FROM forecast_run "
            "JOIN cloud ON cloud.id = cloud_id WHERE name = %s AND number = %s",
            ["newer-kind", asked.json()["id"]],
        ).fetchall()
    assert runs == [("pending", 0)], "it is left for the newer version's worker"
    assert house.receivers["newer-kind"].taken[-1].seq == 4
    house.put_right()
    for process in (house.api, house.worker):
        wait_until(process.is_up)
        assert left_alone(process) == {"clouds": 0, "database": 0}
    stop = house.client.delete("/v1/clouds/newer-kind/instances/first")
    assert stop.status_code == 204, stop.text
    wait_until(lambda: house.receivers["newer-kind"].taken[-1].seq == 6)


def test_no_process_wrote_a_traceback(house: House) -> None:
    for process in (house.api, house.worker):
        text = process.log.read_text()
        assert "Traceback" not in text
        assert text.count("the cloud is left alone") >= len(NEWER)
