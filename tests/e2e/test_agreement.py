"""One driven workload, told by everything that tells numbers: the interface, the command line, the metrics, the pages,
the history of utilisation, and the audit of the exported log, which shares no code with the rest. All must agree.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
import pytest
from processes import HEADERS, TOKEN, Process, tenure, tenure_json
from prometheus_client.parser import text_string_to_metric_families

from app.domain.numbers import share_text
from app.platform.pages.guard import COOKIE

NAME = "agreed"
CLOUD = f"/v1/clouds/{NAME}"
MARKETS = ("on_demand", "spot")
MICROSECOND = timedelta(microseconds=1)

Classes = dict[float, tuple[int, int]]


@dataclass(frozen=True)
class Numbers:
    """The numbers that every interface can be asked for; by market where there are two."""

    requested: tuple[int, int]
    admitted: tuple[int, int]
    evicted: int
    running: tuple[int, int]
    used_cores: tuple[int, int]
    capacity_cores: int
    classes: Classes


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("agreed")


@pytest.fixture(scope="module")
def service(directory: Path) -> Iterator[Process]:
    """A service whose cloud had two crowded days, and then everything else that can happen to it."""
    process = Process("run", directory)
    process.start()
    try:
        drive(process, directory)
        with httpx2.Client(base_url=process.url, headers=HEADERS, timeout=60) as client:
            happen(client)
            wait_for_the_history(client)
        yield process
    finally:
        assert process.interrupt() == 0


def drive(process: Process, directory: Path) -> None:
    traces = []
    for seed, market in enumerate(("on-demand", "spot")):
        file = str(directory / f"{market}.csv")
        made = tenure("trace", "synth", "--days", "2", "--mean-utilisation", "8", "--seed", str(seed), "--out", file)
        assert made.returncode == 0, made.stderr
        traces += [f"--{market}", file]
    to = ["--url", process.url, "--token", TOKEN, "--cloud", NAME]
    workload = [*traces, "--nodes", "3x4", "--spot-delay", "12h", "--samples", "300", "--every", "3h", "--sla", "0.1"]
    assert tenure_json("drive", *to, *workload)["spot"]["evicted"] > 0


def happen(client: httpx2.Client) -> None:
    """Promises of other classes, a drained node, a drill, and on-demand starts until nothing more fits."""
    at = client.get(CLOUD).json()["at"]

    def send(method: str, path: str, status: int, body: object = None, **query: str) -> dict[str, Any]:
        answer = client.request(method, f"{CLOUD}{path}", json=body, params=query or None)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else {}

    send("POST", "/nodes", 201, {"name": "late", "cores": 6, "at": at})
    for number in range(12):
        spot = {"id": f"own-{number}", "market": "spot", "flavor": "c1", "lifetime_s": 60, "at": at}
        send("POST", "/instances", 201, spot | {"eviction_probability": (0.3, 0.6, 0.9)[number % 3]})
    send("POST", "/drill", 200, {"at": at})
    for number in range(30):
        on_demand = {"id": f"last-{number}", "market": "on_demand", "flavor": "c1", "at": at}
        if send("POST", "/instances", 201, on_demand)["status"] == "rejected":
            break
    for number in range(6):
        send("DELETE", f"/instances/last-{number}", 204, at=at)
    for number in range(4):
        spot = {"id": f"end-{number}", "market": "spot", "flavor": "c1", "lifetime_s": 60, "at": at}
        send("POST", "/instances", 201, spot | {"eviction_probability": 0.9})
    send("POST", "/nodes/late/drain", 200, at=at)


def wait_for_the_history(client: httpx2.Client) -> None:
    """Until the worker has drawn the whole log together."""
    deadline = time.monotonic() + 120
    while (found := client.get(f"{CLOUD}/utilisation").json())["seq"] < found["log_seq"]:
        assert time.monotonic() < deadline
        time.sleep(0.3)


@pytest.fixture(scope="module")
def audited(service: Process, directory: Path) -> dict[str, Any]:
    """The totals of the audit, and so the truth: it reads nothing but the log."""
    log = str(directory / "log.csv")
    exported = tenure("log", "export", "--url", service.url, "--token", TOKEN, "--cloud", NAME, "--out", log)
    assert exported.returncode == 0, exported.stderr
    found = tenure_json("audit", log)
    assert found["ok"]
    return found["totals"]


@pytest.fixture(scope="module")
def truth(audited: dict[str, Any]) -> Numbers:
    return Numbers(
        requested=both(audited["requested"]),
        admitted=both(audited["admitted"]),
        evicted=audited["evicted"],
        running=both(audited["running"]),
        used_cores=both(audited["used_cores"]),
        capacity_cores=audited["capacity_cores"],
        classes={one["promised"]: (one["admitted"], one["evicted"]) for one in audited["classes"]},
    )


def both(by_market: Mapping[str, Any]) -> tuple[int, int]:
    on_demand, spot = (int(by_market[market]) for market in MARKETS)
    return on_demand, spot


def test_the_workload_had_everything_in_it(audited: dict[str, Any], truth: Numbers) -> None:
    assert min(*truth.admitted, *truth.running, truth.evicted, audited["drilled"], audited["stopped"]) > 0
    assert len(truth.classes) >= 3
    assert sum(lost for _, lost in truth.classes.values()) > 0
    assert audited["rejected"]["on_demand"].keys() == {"no_capacity"}
    assert len(audited["rejected"]["spot"]) >= 3


def test_the_interface(service: Process, truth: Numbers) -> None:
    with httpx2.Client(base_url=service.url, headers=HEADERS, timeout=60) as client:
        counts = client.get(CLOUD).json()["counts"]
        nodes = client.get(f"{CLOUD}/nodes").json()["nodes"]
        cores = {flavor["name"]: flavor["cores"] for flavor in client.get(f"{CLOUD}/flavors").json()["flavors"]}
        running = client.get(f"{CLOUD}/instances", params={"status": "running", "limit": "1000"}).json()["instances"]
        sla = client.get(f"{CLOUD}/sla").json()["classes"]
    markets = Counter(one["market"] for one in running)
    used: Counter[str] = Counter()
    for one in running:
        used[one["market"]] += cores[one["flavor"]]
    assert truth == Numbers(
        requested=(counts["on_demand_requested"], counts["spot_requested"]),
        admitted=(counts["on_demand_admitted"], counts["spot_admitted"]),
        evicted=counts["spot_evicted"],
        running=both(markets),
        used_cores=both(used),
        capacity_cores=sum(node["capacity"]["cores"] for node in nodes),
        classes={one["promised"]: (one["admitted"], one["evicted"]) for one in sla},
    )
    assert counts["running"] == sum(truth.running)
    assert sum(node["capacity"]["cores"] - node["free"]["cores"] for node in nodes) == sum(truth.used_cores)
    assert all(one["ratio"] == one["evicted"] / one["admitted"] for one in sla)


def test_the_command_line(service: Process, truth: Numbers) -> None:
    to = ["--url", service.url, "--token", TOKEN, "--cloud", NAME]
    status = tenure_json("status", *to)
    (cloud,) = status["clouds"]
    counts = cloud["counts"]
    assert (counts["on_demand_requested"], counts["spot_requested"]) == truth.requested
    assert (counts["on_demand_admitted"], counts["spot_admitted"]) == truth.admitted
    assert (counts["spot_evicted"], counts["running"]) == (truth.evicted, sum(truth.running))
    held = [node["capacity"]["cores"] - node["free"]["cores"] for node in status["nodes"]]
    assert sum(held) == sum(truth.used_cores)
    assert sum(node["capacity"]["cores"] for node in status["nodes"]) == truth.capacity_cores
    shown = tenure("sla", *to, "--json")
    assert shown.returncode in {0, 1}, shown.stderr
    classes = json_of(shown.stdout)["classes"]
    assert {one["promised"]: (one["admitted"], one["evicted"]) for one in classes} == truth.classes
    broken = any(part["verdict"] == "broken" for one in classes for part in one["strata"])
    assert shown.returncode == (1 if broken or not all(one["is_kept"] for one in classes) else 0)


def json_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


def test_the_metrics_of_the_cloud(service: Process, truth: Numbers, audited: dict[str, Any]) -> None:
    told = {name.removeprefix("tenure_cloud_"): values for name, values in scrape(service, "/metrics/clouds").items()}

    def by(name: str, label: str) -> dict[str, float]:
        return {labels[label]: value for labels, value in told[name] if labels["cloud"] == NAME}

    def one(name: str) -> float:
        return next(value for labels, value in told[name] if labels["cloud"] == NAME)

    admitted, lost = by("sla_admitted_instances", "class"), by("sla_instances_evicted_total", "class")
    assert truth == Numbers(
        requested=both(by("instances_requested_total", "market")),
        admitted=both(by("admitted_instances", "market")),
        evicted=int(one("instances_evicted_total")),
        running=both(by("instances_running", "market")),
        used_cores=both(by("used_cores", "market")),
        capacity_cores=int(sum(by("capacity_cores", "status").values())),
        classes={float(name): (int(count), int(lost[name])) for name, count in admitted.items()},
    )
    assert one("instances_drilled_total") == audited["drilled"]
    ratios = {float(name): ratio for name, ratio in by("sla_eviction_ratio", "class").items()}
    assert ratios == {promised: gone / some for promised, (some, gone) in truth.classes.items()}
    assert by("sla_promised_ratio", "class") == {str(promised): promised for promised in truth.classes}


def test_the_metrics_of_the_process_that_decided_it_all(service: Process, audited: dict[str, Any]) -> None:
    told = scrape(service, "/metrics")
    decided = {
        (labels["market"], labels["outcome"], labels["reason"]): int(value)
        for labels, value in told["tenure_decisions_total"]
    }
    assert decided == {
        **{(market, "accepted", "none"): audited["admitted"][market] for market in MARKETS},
        **{
            (market, "rejected", reason): count
            for market in MARKETS
            for reason, count in audited["rejected"][market].items()
        },
    }
    assert sum(value for _, value in told["tenure_stops_total"]) == audited["stopped"]
    evictions = {labels["reason"]: int(value) for labels, value in told["tenure_evictions_total"]}
    assert evictions == {"on_demand_start": audited["evicted"], "drill": audited["drilled"]}


def scrape(service: Process, path: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    text = httpx2.get(f"{service.url}{path}", headers=HEADERS, timeout=60).text
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_the_pages(service: Process, truth: Numbers) -> None:
    card = terms(page(service, "").split(f'id="cloud-{NAME}"')[1].split("</li>")[0])
    running, cores, most = truth.running, sum(truth.used_cores), truth.capacity_cores
    assert card["Cores"] == f"{cores} of {most} on 4 nodes"
    assert card["Running"] == f"{running[0]} on-demand {running[1]} spot"
    assert card["Evicted"].startswith(f"{truth.evicted} of {truth.admitted[1]} admitted")
    facts = terms(page(service, f"/clouds/{NAME}"))
    assert facts["On-demand"].endswith(f" {running[0]} instances")
    assert facts["On-demand"].startswith(f"{truth.used_cores[0]} core")
    assert facts["Spot"].startswith(f"{truth.used_cores[1]} core")
    assert facts["Free"].startswith(f"{most - cores} core")
    assert facts["Spot admitted"].endswith(f" {truth.admitted[1]} of {truth.requested[1]}")
    late = "also after the declared lifetime"
    assert facts["Spot evicted"].endswith(f" {truth.evicted} of {truth.admitted[1]} admitted {late}")


def test_the_page_of_the_promise(service: Process, truth: Numbers) -> None:
    text = words(page(service, f"/clouds/{NAME}/promise"))
    shown = re.findall(r"Evicted at most (\S+) % .*?(\d+) of (\d+) admitted", text)
    assert {round(float(promised) / 100, 6): (int(some), int(lost)) for promised, lost, some in shown} == truth.classes


def test_budgets_are_of_the_pooled_guarantee_and_read_the_same_everywhere(service: Process, truth: Numbers) -> None:
    told = tenure("sla", "--url", service.url, "--token", TOKEN, "--cloud", NAME).stdout
    assert "budget" not in told + words(page(service, f"/clouds/{NAME}/promise"))
    cloud = f"{service.url}/v1/clouds/{NAME}"
    headers = {"X-Auth-Token": TOKEN}
    assert {one["budget"] for one in httpx2.get(f"{cloud}/sla", headers=headers).json()["classes"]} == {None}
    policy = httpx2.get(cloud, headers=headers).json()["policy"] | {"guarantee": "pooled"}
    httpx2.patch(cloud, headers=headers, json={"policy": policy}).raise_for_status()
    text = words(page(service, f"/clouds/{NAME}/promise"))
    table = tenure("sla", "--url", service.url, "--token", TOKEN, "--cloud", NAME).stdout.replace(",", "")
    shown = re.findall(r"(\S+) left of a budget of (\S+) (\d+) spent (\S+) committed", text)
    assert len(shown) == len(truth.classes)
    for left, earned, spent, committed in shown:
        assert re.search(rf" {spent} of {earned} +{committed} +{left}\s", table), table


def test_books_of_strata_read_the_same_everywhere(service: Process, truth: Numbers) -> None:
    cloud, headers = f"{service.url}/v1/clouds/{NAME}", {"X-Auth-Token": TOKEN}
    httpx2.patch(cloud, headers=headers, json={"policy": {"guarantee": "stratified"}}).raise_for_status()
    classes = httpx2.get(f"{cloud}/sla", headers=headers).json()["classes"]
    assert len(classes) == len(truth.classes)
    assert {len(one["books"]) for one in classes} == {5}
    text = words(page(service, f"/clouds/{NAME}/promise"))
    shown = re.findall(r"(<\S+|\d\S*-\d\S+|>=\S+) (\S+) (\S+) (\d+) (\S+) (\d+)(?= |$)", text)
    assert len(shown) == 5 * len(classes)
    table = tenure("sla", "--url", service.url, "--token", TOKEN, "--cloud", NAME).stdout.replace(",", "")
    for lifetimes, left, earned, lost, committed, risky in shown:
        assert re.search(rf" {lifetimes} +{earned} +{lost} +{left} +{committed} +{risky}\s", table), table


def test_strata_flavors_and_weeks_read_the_same_everywhere(service: Process, truth: Numbers) -> None:
    found = httpx2.get(f"{service.url}{CLOUD}/sla", headers=HEADERS, timeout=60).json()
    told = scrape(service, "/metrics/clouds")
    text = words(page(service, f"/clouds/{NAME}/promise"))
    table = tenure("sla", "--url", service.url, "--token", TOKEN, "--cloud", NAME).stdout.replace(",", "")
    for one in found["classes"]:
        assert sums(one["strata"]) == truth.classes[one["promised"]]
        assert plain(one["sentence"]) in table
        assert plain(one["sentence"])[1:] in text
    whole = tuple(map(sum, zip(*truth.classes.values(), strict=True)))
    assert sums(found["flavors"]) == sums(found["weeks"]) == whole
    strata = [(one, part) for one in found["classes"] for part in one["strata"] if part["admitted"]]
    for part in [*(part for _, part in strata), *found["flavors"], *found["weeks"]]:
        share = rf"{part['evicted']} \({re.escape(share_text(part['ratio']))}\)"
        assert re.search(
            rf"{re.escape(part['name'])} {part['admitted']} {share} .*?{re.escape(plain(part['sentence']))}", text
        )
        assert re.search(
            rf"{re.escape(part['name'])} +{part['admitted']} +{share} .*{re.escape(plain(part['sentence']))}", table
        )
    for name, of in (("admitted", "admitted"), ("evicted", "evicted"), ("overran", "overran")):
        by_stratum = {
            (one["class"], one["stratum"]): value for one, value in told[f"tenure_cloud_stratum_{name}_instances"]
        }
        assert by_stratum == {(str(one["promised"]), part["name"]): part[of] for one, part in strata}
        by_flavor = {one["flavor"]: value for one, value in told[f"tenure_cloud_flavor_{name}_instances"]}
        assert by_flavor == {part["name"]: part[of] for part in found["flavors"]}


def plain(sentence: str) -> str:
    return sentence.replace(",", "")


def sums(parts: list[dict[str, Any]]) -> tuple[int, int]:
    return sum(part["admitted"] for part in parts), sum(part["evicted"] for part in parts)


def test_the_curves_are_the_quotes(service: Process) -> None:
    with httpx2.Client(base_url=service.url, headers=HEADERS, timeout=60) as client:
        sheet = client.get(f"{CLOUD}/curves", params={"flavor": "c1"}).json()
        (quote,) = client.get(f"{CLOUD}/quotes", params={"flavor": "c1"}).json()["quotes"]
    text = words(page(service, f"/clouds/{NAME}/curves?flavor=c1"))
    assert f"you are here: {sheet['slots']} slot" in text
    assert sheet["slots"] == quote["slots"]
    for one in sheet["guaranteed"]:
        if one["slots"] == sheet["slots"]:
            at = sheet["probabilities"].index(quote["eviction_probability"])
            assert one["lifetimes_s"][at] == quote["lifetime_s"]


def page(service: Process, path: str) -> str:
    answer = httpx2.get(f"{service.url}/ui{path}", headers={"Cookie": f"{COOKIE}={TOKEN}"}, timeout=60)
    assert answer.status_code == 200
    return answer.text.replace("\N{THIN SPACE}", "").replace(",", "")


def words(html: str) -> str:
    """Return the text of a page, without tags and pictures."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def terms(html: str) -> dict[str, str]:
    """The terms of a page's lists, and what it says of them."""
    return {words(term): words(said) for term, said in re.findall(r"<dt>(.*?)</dt>\s*<dd>(.*?)</dd>", html, re.DOTALL)}


def test_the_history_of_utilisation(service: Process, truth: Numbers) -> None:
    points = httpx2.get(
        f"{service.url}{CLOUD}/utilisation", params={"begin_at": "1970-01-01T00:00:00Z"}, headers=HEADERS
    ).json()["points"]
    sums = {name: sum(point[name] for point in points) for name in points[0] if isinstance(points[0][name], int)}
    assert (sums["on_demand_admitted"], sums["spot_admitted"]) == truth.admitted
    refused = tuple(asked - some for asked, some in zip(truth.requested, truth.admitted, strict=True))
    assert (sums["on_demand_rejected"], sums["spot_rejected"]) == refused
    assert sums["evicted"] == truth.evicted
    assert points[-1]["used_peak"] >= sum(truth.used_cores)


PRICES = {"own": 0.087, "spot": 0.0081, "odd": 1.333333}


def rent(service: Process) -> dict[str, list[tuple[datetime, datetime | None]]]:
    """Run a cluster's instances on a cloud whose clock is told; return the times in its log, by pool."""
    begin, draw = datetime(2026, 1, 1, tzinfo=UTC), random.Random(7)
    with httpx2.Client(base_url=service.url, headers=HEADERS, timeout=60) as client:

        def post(path: str, body: dict[str, Any]) -> None:
            assert client.post(path, json=body).status_code == 201

        policy = {"clock": "external", "guarantee": "none", "clock_step_s": 10**7}
        post("/v1/clouds", {"name": "rented", "policy": policy, "at": begin.isoformat()})
        post("/v1/clouds/rented/nodes", {"name": "n", "cores": 12, "at": begin.isoformat()})
        post("/v1/clouds/rented/flavors", {"name": "c1", "cores": 1, "at": begin.isoformat()})
        now, running = begin, list[str]()
        for number in range(60):
            now += timedelta(seconds=draw.randrange(1, 4000), milliseconds=draw.randrange(1000))
            pool = draw.choice([*PRICES])
            market = {"market": "on_demand"} if pool == "own" else {"market": "spot", "lifetime_s": 86400}
            post(
                "/v1/clouds/rented/instances",
                {"id": f"lab.{pool}-{number}", "flavor": "c1", "at": now.isoformat(), **market},
            )
            running.append(f"lab.{pool}-{number}")
            if len(running) > 5:
                one = running.pop(draw.randrange(6))
                now += timedelta(microseconds=draw.randrange(10**9))
                path = f"/v1/clouds/rented/instances/{one}"
                client.delete(path, params={"at": now.isoformat()}).raise_for_status()
        log = client.get("/v1/clouds/rented/events", params={"limit": 1000}).json()["events"]
    found = dict[str, list[tuple[datetime, datetime | None]]]()
    starts, ends = (
        {one["id"]: datetime.fromisoformat(one["at"]) for one in log if one["kind"] in kinds} for kinds in KINDS
    )
    for name, at in starts.items():
        found.setdefault(name.split(".")[1].split("-")[0], []).append((at, ends.get(name)))
    return {pool: [(at, end or now) for at, end in times] for pool, times in found.items()}


KINDS = (("instance_started",), ("instance_stopped", "instance_evicted"))


def test_the_cost_of_a_cluster_is_the_same_to_the_cent_everywhere(service: Process) -> None:
    """Interface, command, metric and page; the truth is a sum of fractions over the log."""
    times = rent(service)
    pools = [
        {"name": pool, "cloud": "rented", "flavor": "c1", "price_per_hour": price, "on_demand_price_per_hour": 2}
        for pool, price in PRICES.items()
    ]
    httpx2.put(f"{service.url}/v1/clusters/lab", json={"pools": pools}, headers=HEADERS).raise_for_status()
    hours = {
        pool: sum((Fraction((end - at) // MICROSECOND, 3_600_000_000) for at, end in times[pool]), Fraction())
        for pool in PRICES
    }
    truth = {pool: f"{float(hours[pool] * Fraction(str(price))):.2f}" for pool, price in PRICES.items()}
    whole = f"{float(sum(hours[pool] * Fraction(str(price)) for pool, price in PRICES.items())):.2f}"
    asked = httpx2.get(f"{service.url}/v1/clusters/lab/cost", headers=HEADERS).json()
    told = tenure_json("cluster", "cost", "lab", "--url", service.url, "--token", TOKEN)
    shown = tenure("cluster", "cost", "lab", "--url", service.url, "--token", TOKEN).stdout
    metric = {
        labels["pool"]: value for labels, value in scrape(service, "/metrics/clusters")["tenure_cluster_cost_total"]
    }
    assert told == asked
    assert {row["pool"]: f"{row['cost']:.2f}" for row in asked["pools"]} == truth
    assert {pool: f"{value:.2f}" for pool, value in metric.items()} == truth
    assert f"{asked['cost']:.2f}" == whole
    on_demand = f"{float(sum(hours.values()) * 2):.2f}"
    assert f"{asked['on_demand_cost']:.2f}" == on_demand
    text = words(page(service, "/clusters/lab"))
    for pool, cost in truth.items():
        assert re.search(rf" {pool} {len(times[pool])} \S+ \S+ {cost} ", text), pool
        assert re.search(rf"{pool} +{len(times[pool])} .* {cost} ", shown), pool
    assert f"Cost {whole} on demand {on_demand}" in text
    assert f"in all {whole}, on demand {on_demand}" in shown
    assert f" {whole} {on_demand}" in words(page(service, "/clusters"))
