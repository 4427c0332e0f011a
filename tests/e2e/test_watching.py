"""Several processes on one database, watched as an operator's Prometheus would: sums over processes are right."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from processes import HEADERS, Process, tenure, tenure_json
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from watch_files import NOT_OURS, PANELS, PROGRAMS, PROMETHEUS, expressions, filled, selected

from app.nova.figures import NovaFigures
from benchmarks.ports import free_port

pytestmark = pytest.mark.long
CLOUD = "/v1/clouds/watched"
AUTHORISED = {"Authorization": f"Bearer {HEADERS['X-Auth-Token']}"}
WAIT_S = 120
"""An answer may take this long: a process of a new version that has to compile takes its time."""
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
MARKETS = ("on_demand", "spot")


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Process]]:
    """Two API processes and a worker."""
    directory = tmp_path_factory.mktemp("watched")
    started = [Process(command, directory) for command in ("serve", "serve", "worker")]
    started[2].environment["TENURE_WORKER_PORT"] = str(started[2].port)
    for process in started:
        process.start()
    yield started
    assert [process.interrupt() for process in reversed(started)] == [0, 0, 0]


def scrape(process: Process, path: str = "/metrics") -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    answer = httpx2.get(f"{process.url}{path}", headers=AUTHORISED, timeout=WAIT_S)
    assert answer.status_code == 200, answer.text
    families = text_string_to_metric_families(answer.text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def total(processes: list[Process], name: str, **labels: str) -> float:
    """The sum over the processes, and over the labels that are left open."""
    return sum(
        value
        for process in processes
        for (sample, found), value in scrape(process).items()
        if sample == name and labels.items() <= dict(found).items()
    )


def busy_client(servers: list[Process], number: int) -> None:
    """Starts and stops through both processes in turn."""
    choice = random.Random(number)
    for step in range(40):
        instances = f"{servers[step % 2].url}{CLOUD}/instances"
        market = choice.choice(["on_demand", "spot", "spot"])
        body = {"id": f"i-{number}-{step}", "market": market, "flavor": "small", "lifetime_s": 60}
        assert httpx2.post(instances, json=body, headers=HEADERS, timeout=60).status_code == 201
        if step % 3 == 2:
            gone = f"{instances}/i-{number}-{step - 2}"
            assert httpx2.delete(gone, headers=HEADERS, timeout=60).status_code == 204


def test_processes_add_up_to_the_cloud(processes: list[Process]) -> None:
    servers = processes[:2]
    first = servers[0].url
    for path, body in (
        ("/v1/clouds", {"name": "watched", "policy": {"guarantee": "none"}}),
        (f"{CLOUD}/nodes", {"name": "node-1", "cores": 20}),
        (f"{CLOUD}/flavors", {"name": "small", "cores": 1}),
    ):
        assert httpx2.post(f"{first}{path}", json=body, headers=HEADERS, timeout=WAIT_S).status_code == 201
    with ThreadPoolExecutor(6) as clients:
        assert list(clients.map(lambda number: busy_client(servers, number), range(6))) == [None] * 6
    counts = httpx2.get(f"{first}{CLOUD}", headers=HEADERS).json()["counts"]
    assert counts["spot_evicted"] > 0
    assert counts["on_demand_requested"] + counts["spot_requested"] == 6 * 40
    decided = "tenure_decisions_total"
    for market in MARKETS:
        assert total(servers, decided, market=market) == counts[f"{market}_requested"]
        assert total(servers, decided, market=market, outcome="accepted") == counts[f"{market}_admitted"]
        assert min(total([server], decided, market=market) for server in servers) > 0
    assert total(servers, "tenure_evictions_total", cloud="watched") == counts["spot_evicted"]
    assert total(servers, "tenure_http_requests_total", operation="start_instance", status="201") == 6 * 40
    assert total(servers, "tenure_log_appends_total", outcome="conflict") > 0


def test_every_process_tells_the_same_of_the_clouds(processes: list[Process]) -> None:
    told = [scrape(process, "/metrics/clouds") for process in processes[:2]]
    assert told[0] == told[1]
    assert told[0]["tenure_cloud_capacity_cores", (("cloud", "watched"), ("status", "open"))] == 20


def test_a_worker_tells_of_itself(processes: list[Process]) -> None:
    server, worker = processes[0], processes[2]
    assert httpx2.get(f"{worker.url}/metrics", timeout=WAIT_S).status_code == 401
    assert httpx2.get(f"{worker.url}/v1/clouds", headers=HEADERS, timeout=WAIT_S).status_code == 404
    assert httpx2.post(f"{server.url}{CLOUD}/tables", headers=HEADERS, timeout=WAIT_S).status_code == 202
    deadline = time.monotonic() + 120  # the first run of a new version compiles
    while total([worker], "tenure_recomputations_total", outcome="succeeded") < 1:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert total([worker], "tenure_recomputation_duration_seconds_count") == 1
    assert total([worker], "tenure_worker_jobs_total", task="run_pending", outcome="done") > 0
    assert total([worker], "tenure_worker_jobs_total", outcome="failed") == 0
    time.sleep(1.1)
    assert scrape(server, "/metrics/clouds")["tenure_cloud_table_epoch", (("cloud", "watched"),)] == 1


def test_every_metric_that_rules_and_dashboard_read_is_told(processes: list[Process]) -> None:
    """And by the labels that they read it by, wherever there is a sample."""
    told: dict[str, set[str]] = {}
    pages = (
        (processes[0], "/metrics"),
        (processes[0], "/metrics/clouds"),
        (processes[0], "/metrics/clusters"),
        (processes[0], "/metrics/peers"),
        (processes[2], "/metrics"),
    )
    texts = [httpx2.get(f"{one.url}{path}", headers=HEADERS, timeout=WAIT_S).text for one, path in pages]
    for text in (*texts, generate_latest(NovaFigures().registry).decode()):  # the daemon beside Nova has its own page
        for family in text_string_to_metric_families(text):
            for name in (family.name, *SUFFIXES.get(family.type, ())):
                told.setdefault(family.name + name.removeprefix(family.name), set())
            for sample in family.samples:
                told.setdefault(sample.name, set()).update(sample.labels)
    wrong = [
        f"{place}: {one.metric} {sorted(one.labels)}"
        for place, expression in expressions()
        for one in selected(expression)
        if not NOT_OURS.fullmatch(one.metric)
        if one.metric not in told or (told[one.metric] and not one.labels <= told[one.metric] | {"job", "instance"})
    ]
    assert wrong == []


UNSEEN = {
    "Deliveries to webhooks",
    "Notices",
    "Log loss of estimates, of the best constant's",  # nobody is evicted within the promise
    "Running spot cores, by owner",  # nobody has a quota
    "Awards to peers, by end",  # no peer has been entered
    "Jobs of peers here",
    "Preempted at least, and promised",
    "Peers that do not answer, and that are paused",
    "Room of peers now, and of their quota",
    "Jobs that ended, by where and how",  # there are no jobs
    "Data from peers",
    "Data that did not come",
    "Transfers that came in the time expected",
}


@pytest.mark.skipif(not PROGRAMS, reason="Prometheus' own programs are not installed")
def test_a_prometheus_scrapes_it_and_answers_the_dashboard(processes: list[Process], tmp_path: Path) -> None:
    make_promises(processes[0], tmp_path)
    run_a_cluster(processes[0])
    with prometheus(processes, tmp_path) as api:
        up = {sample["metric"]["job"]: sample["value"][1] for sample in query(api, "up")}
        assert up == {
            "tenure": "1",
            "tenure-clouds": "1",
            "tenure-clusters": "1",
            "tenure-peers": "1",
            "tenure-worker": "1",
        }
        told = 'tenure_cloud_estimate_log_loss{cloud="promised"}'
        wait_until(lambda: bool(query(api, told)), tmp_path / "prometheus.log")
        wait_until(lambda: empty(api) <= UNSEEN, tmp_path / "prometheus.log")  # a rate needs two scrapes
        rules = api.get("/rules").json()["data"]["groups"]
    assert {rule["health"] for group in rules for rule in group["rules"]} == {"ok"}
    assert {rule["name"] for group in rules for rule in group["rules"] if rule["state"] == "firing"} == set()


def empty(api: httpx2.Client) -> set[str]:
    """Return the panels that show nothing."""
    return {place for place, expression in dashboard() if not query(api, filled(expression))}


def make_promises(process: Process, directory: Path) -> None:
    """A driven day of spot starts under an SLA."""
    traces = []
    for seed, market in enumerate(("on-demand", "spot")):
        file = str(directory / f"{market}.csv")
        made = tenure("trace", "synth", "--days", "1", "--mean-utilisation", "8", "--seed", str(seed), "--out", file)
        assert made.returncode == 0, made.stderr
        traces += [f"--{market}", file]
    to = ["--url", process.url, "--token", HEADERS["X-Auth-Token"], "--cloud", "promised"]
    workload = [*traces, "--nodes", "3x4", "--spot-delay", "12h", "--samples", "300", "--every", "3h", "--sla", "0.1"]
    assert tenure_json("drive", *to, *workload)["spot"]["admitted"] > 0


def run_a_cluster(process: Process) -> None:
    """A cluster with a node, a job and a checkpoint, as its manager would tell of it."""
    pool = {"name": "spot", "cloud": "promised", "flavor": "c1", "price_per_hour": 1, "on_demand_price_per_hour": 2}
    at, node = "2026-01-01T00:00:00Z", {"node": "lab-spot-a", "job": "1", "why": "hazard"}
    kinds = ("node_bought", "node_ready", "job_seen", "job_started", "job_checkpointed")
    events = [{"key": kind, "at": at, "kind": kind, "facts": node} for kind in kinds]
    path = f"{process.url}/v1/clusters/lab"
    httpx2.put(path, json={"pools": [pool]}, headers=HEADERS).raise_for_status()
    body = {"events": events, "loop_s": 0.1}
    httpx2.post(f"{path}/events", json=body, headers=HEADERS).raise_for_status()


@contextmanager
def prometheus(processes: list[Process], directory: Path) -> Iterator[httpx2.Client]:
    """A Prometheus with the configuration for Compose, told other targets; its API once it has scraped them all."""
    token = directory / "token"
    token.write_text(HEADERS["X-Auth-Token"])
    configuration = (PROMETHEUS / "prometheus.yml").read_text().replace("/run/secrets/metrics_token", str(token))
    for name, process in (("service:8080", processes[0]), ("worker:8081", processes[2])):
        configuration = configuration.replace(name, process.url.removeprefix("http://"))
    (directory / "prometheus.yml").write_text(configuration.replace("15s", "1s"))
    shutil.copy(PROMETHEUS / "rules.yml", directory)
    address = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        f"--web.listen-address={address}",
    ]
    with (directory / "prometheus.log").open("w") as log:
        server = subprocess.Popen(command, cwd=directory, stderr=log, stdout=log)
    try:
        with httpx2.Client(base_url=f"http://{address}/api/v1", timeout=30) as api:
            wait_until(lambda: scraped(api), directory / "prometheus.log")
            yield api
    finally:
        server.terminate()
        server.wait(30)


def scraped(api: httpx2.Client) -> bool:
    """Return True if every target was scraped three times and the rules were evaluated."""
    try:
        counts = query(api, "min(count_over_time(up[1m]))")
        rules = api.get("/rules")
    except httpx2.TransportError:
        return False
    if rules.status_code != 200:
        return False
    evaluated = all(rule["health"] != "unknown" for group in rules.json()["data"]["groups"] for rule in group["rules"])
    return bool(counts) and float(counts[0]["value"][1]) >= 3 and evaluated


def wait_until(condition: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.5)


def query(api: httpx2.Client, expression: str) -> list[dict[str, Any]]:
    answer = api.get("/query", params={"query": expression})
    if answer.status_code == 503:
        return []
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["result"]


def dashboard() -> list[tuple[str, str]]:
    return [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]


def test_a_worker_whose_port_is_taken_says_so(processes: list[Process], tmp_path: Path) -> None:
    second = Process("worker", tmp_path, {"TENURE_WORKER_PORT": str(processes[2].port)})
    second.environment["TENURE_DATA_DIR"] = processes[2].environment["TENURE_DATA_DIR"]
    second.port = free_port()
    second.url = f"http://127.0.0.1:{second.port}"
    with pytest.raises(AssertionError, match=r"cannot listen on 127\.0\.0\.1"):
        second.start()
    assert second.process.poll() not in (None, 0)
