"""A real Slurm job on a machine bought at a venue by imported prices, lost when the price rises, and gone on elsewhere.

Skipped, with the reason, where Slurm or root is missing; `tools/lab-install` installs it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from processes import HEADERS, TOKEN, Process, tenure
from test_cluster_slurm import REASON, SAVING, Lab, wait

from benchmarks.ports import free_port
from tenure_client import TenureClient

pytestmark = [pytest.mark.real_parts, pytest.mark.skipif(bool(REASON), reason=REASON)]
NAME = f"bid{random.Random(os.getpid()).randrange(10**6)}"
NOTICE_S = 15
FILE = """\
name = "{name}"
shared = "{folder}"
[scale]
idle_s = 3
boot_timeout_s = 60
retry_s = 5
[slurm]
port = {port}
[machines]
subnet = "10.{a}.{b}.0/24"
[[pools]]
name = "public"
market = "bid"
cloud = "market"
flavor = "m3.medium"
zone = "us-east-1e"
max_nodes = 2
notice_s = {notice_s}
[[pools]]
name = "own"
cloud = "small"
flavor = "one"
market = "on_demand"
max_nodes = 1
price_per_hour = 1.0
"""


def import_prices(service: Process, folder: Path, prices: list[tuple[float, float]]) -> None:
    """Import prices by the command, by their age in seconds."""
    now = datetime.now(UTC)
    words = "aws,us-east-1,us-east-1e,m3.medium,Linux/UNIX"
    lines = [f"{words},{(now - timedelta(seconds=age_s)).isoformat()},{price},USD" for age_s, price in prices]
    file, types = folder / "prices.csv", folder / "types.csv"
    file.write_text("\n".join(["provider,region,zone,instance_type,product,time,price,currency", *lines, ""]))
    header = "instance_type,vcpu,compute_units,memory_mib,on_demand_price,from"
    types.write_text(f"{header}\nm3.medium,1,3,3840,0.067,2014-01-01\n")
    done = tenure("venue", "import", "market", str(file), "--types", str(types), environment=service.environment)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    service = Process("run", tmp_path_factory.mktemp("service"))
    service.start()
    with httpx2.Client(base_url=service.url, headers=HEADERS, timeout=60) as client:
        client.post("/v1/clouds", json={"name": "small", "policy": {"guarantee": "none"}}).raise_for_status()
        for what, one in (("nodes", {"name": "n"}), ("flavors", {"name": "one"})):
            body = one | {"cores": 1, "memory_mib": 1024}
            client.post(f"/v1/clouds/small/{what}", json=body).raise_for_status()
    folder = Path(tempfile.mkdtemp(prefix="tenure-bid-"))
    import_prices(service, folder, [(hour * 3600.0 + 60, 0.01) for hour in range(72)])
    place = random.Random()
    numbers = {"port": free_port(), "a": place.randrange(80, 250), "b": place.randrange(1, 250)}
    file = folder / "lab.toml"
    file.write_text(FILE.format(name=NAME, folder=folder, notice_s=NOTICE_S, **numbers))
    found = Lab(folder, file, service)
    try:
        created = found.command("create", str(file))
        assert created.returncode == 0, created.stderr
        found.manage()
        yield found
    finally:
        if found.manager is not None:
            found.kill_manager()
        deleted = found.command("delete", str(file), "--yes")
        assert deleted.returncode == 0, deleted.stderr
        service.interrupt()
        assert not [*Path("/run/netns").glob(f"{NAME}-*")]
        shutil.rmtree(folder, ignore_errors=True)


def test_a_job_is_bought_at_a_venue_lost_to_a_price_rise_and_goes_on_elsewhere(lab: Lab) -> None:
    told = json.loads(lab.command("check", str(lab.file), "--json").stdout)
    assert told["pools"][0]["would_sell"], told
    assert "the price is 0.01 an hour and the bid 0.067" in told["pools"][0]["says"]

    may_end = lab.folder / "may-end"
    job = submit_saving(lab, may_end)
    wait(lambda: job in lab.nodes_of("R"), 60)
    node = lab.nodes_of("R")[job]
    assert node.startswith(f"{NAME}-public-")

    lab.kill_manager()  # the next one finds the machine and its bid again
    lab.manage()
    assert lab.nodes_of("R")[job] == node

    import_prices(lab.service, lab.folder, [(0.0, 0.2)])
    wait(lambda: lab.events("node_outbid"), 90)
    (outbid,) = lab.events("node_outbid")
    assert (outbid["node"], outbid["price"], outbid["bid"]) == (node, 0.2, 0.067)
    wait(lambda: lab.nodes_of("R").get(job, node) != node, 120)
    assert lab.nodes_of("R")[job].startswith(f"{NAME}-own-")
    (ended,) = lab.events("bid_ended")
    announced_s = datetime.fromisoformat(outbid["at"]).timestamp()
    assert (ended["node"], ended["by"]) == (node, "provider")
    assert NOTICE_S - 4 <= float(ended["to_s"]) - announced_s <= NOTICE_S + 5
    asked = [event for event in lab.events("job_asked_to_save") if event["job"] == job]
    assert (node, "notice") in [(event["node"], event["why"]) for event in asked]
    refused = [event["why"] for event in lab.events("node_refused") if event["pool"] == "public"]
    assert refused[0] == "the price is 0.2 an hour and the bid 0.067; acceptable: a bid of 0.2"

    may_end.touch()
    wait(lambda: lab.is_done(job), 120)
    saved = int((lab.folder / "saved").read_text())
    lines = [int(line[0]) for line in lab.output(job) if line[0].isdecimal()]
    assert saved > 1
    assert {*lines} == {*range(1, max(lines) + 1)}
    lab.wait_until_empty()


def submit_saving(lab: Lab, may_end: Path) -> str:
    """Submit a job that saves itself at a signal and goes on until a file is there."""
    script = lab.folder / "saving.py"
    endless = SAVING.replace("line <= 60", f'not pathlib.Path("{may_end}").exists()')
    script.write_text(endless.format(python=sys.executable, folder=lab.folder))
    options = ["--requeue", "--open-mode=append", "--comment=checkpoint=USR1,2", "-o", f"{lab.folder}/out-%j"]
    return lab.ask("sbatch", "--parsable", *options, str(script)).strip()


def test_a_machine_that_is_given_back_costs_its_started_hour_and_the_lost_one_nothing(lab: Lab) -> None:
    import_prices(lab.service, lab.folder, [(0.0, 0.02)])
    time.sleep(6)  # the pool is asked again
    job = lab.submit(5)
    wait(lambda: lab.is_done(job), 90)
    lab.wait_until_empty()
    with TenureClient(lab.service.url, TOKEN) as client:
        wait(lambda: [one.kind for one in client.cluster_events(NAME)].count("bid_ended") == 2, 60)
        row = client.cluster_cost(NAME).pools[0]
    assert (row.pool, row.instance_count, row.cost, row.on_demand_cost) == ("public", 2, 0.02, round(2 * 0.067, 6))
    shown = json.loads(lab.command("cost", str(lab.file), "--json").stdout)
    assert shown["pools"][0]["cost"] == 0.02


def test_advice_under_a_bid_has_its_command(lab: Lab) -> None:
    pool = ["market", "--type", "m3.medium", "--zone", "us-east-1e", "--bid", "0.067", "--for", "6h", "--pause", "30"]
    environment = {"TENURE_URL": lab.service.url, "TENURE_TOKEN": TOKEN}
    told = tenure("venue", "advise", *pool, "--notice", "0", "--json", environment=environment)
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert (found["venue"], found["bid"], found["policy"], found["price"]) == ("market", 0.067, "hazard", 0.02)
    shown = tenure("venue", "advise", *pool, environment=environment)
    assert "the price is 0.02 an hour, the bid 0.067" in shown.stdout
