"""Measures `tenure nova run` on a large cloud: `python tests/openstack/nova_diff.py --servers 5000`.

A server is made in a whole OpenStack, and its rows in Nova's databases are copied until there are so many. Tenure is
told of all of them, so both sides agree. Nova's interface is started again with as many workers as there are cores,
which is its default, each with one request at a time; the lab has one process, to save memory. Then the daemon is
started.

    first diff    from the start of the daemon's process to the end of its first comparison of all servers
    diff          a later comparison, and the requests that were answered since the one before. Nodes and flavors are
                  compared more often than servers, so theirs may stand there several times
    notifications 50 a second for a minute, each with a change of the server's row: how far the daemon falls behind
    filter        a request of Nova's scheduler with 1,000 candidate hosts
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

import httpx2  # noqa: E402 - found by the line above
import psycopg  # noqa: E402
from harness import say  # noqa: E402
from lab_processes import until  # noqa: E402
from nova_command import command_line, lab_of_command  # noqa: E402 - as above
from nova_daemon import NovaDaemon, in_nova, running  # noqa: E402
from nova_lab import CLOUD, PROGRAMS, TOKEN, NovaLab  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402
from test_filter import Asked, host, server, warm_nova  # noqa: E402

from tenure_client import Observe, Resources  # noqa: E402

WITHIN_S = 900
AT_ONCE = 1000
A_SECOND = 50
OF_A_SERVER = ("instance_extra", "instance_info_caches", "instance_system_metadata", "block_device_mapping")
"""The tables of a cell that Nova reads for a list of servers, beside `instances`."""
UNCOUNTED = ("check_health", "read_process_metrics", "stream_events")
"""Operations of Tenure that this script asks for, or that follow the log."""
ASKED = re.compile(
    r'"GET /(?:v2\.1/)?(servers/detail|flavors/detail|os-hypervisors/detail|resource_providers(?=.required))([^" ]*)'
)
"""A request of the daemon's in the logs of Nova's and Placement's interfaces."""
_COLUMNS = "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND column_name <> 'id'"


def main() -> None:
    parser = command_line("diff", __doc__, computes=10)
    parser.add_argument("--servers", type=int, default=5000)
    parser.add_argument("--seconds", type=int, default=60, help="for how long notifications come")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes of Nova's interface")
    asked = parser.parse_args()
    with lab_of_command(asked) as lab:
        # Comparisons come often, so that one need not be waited for, and polls seldom: none is counted with one.
        daemon = NovaDaemon(lab, TENURE_NOVA_COMPARE_EVERY_S="15", TENURE_NOVA_POLL_EVERY_S="60")
        try:
            fill(lab, asked.servers)
            lab.processes.kill("nova_api")
            lab.start_web("nova_api", workers=asked.workers)
            lab.wait_for_web("nova_api")
            measure_diffs(lab, daemon)
            measure_notifications(lab, daemon, asked.seconds)
        finally:
            daemon.kill()
        measure_filter(lab)


# --- the servers ------------------------------------------------------------------------------------------------------


def fill(lab: NovaLab, wanted: int) -> None:
    """Copy a server until there are so many, evenly on all nodes, and tell Tenure of all of them."""
    there = in_nova(lab)
    if len(there) < wanted:
        model = next(iter(there), None) or lab.wait_for(lab.create("model", "tiny").id).id
        copy(lab, model, wanted - len(in_nova(lab)))
    observed = [Observe(one, node, "tiny") for one, node in in_nova(lab).items()]
    for first in range(0, len(observed), AT_ONCE):
        lab.tenure.batch(CLOUD, observed[first : first + AT_ONCE])
    assert in_nova(lab).keys() <= running(lab).keys()
    say(f"{len(observed)} servers in Nova's databases, and in Tenure")


def copy(lab: NovaLab, model: str, count: int) -> None:
    """Copy the rows of a server, each copy with an id of its own and on the next node."""
    with psycopg.connect(lab.database_url("nova")) as cell, psycopg.connect(lab.database_url("nova_api")) as api:
        nodes = [str(row[0]) for row in cell.execute("SELECT DISTINCT hypervisor_hostname FROM compute_nodes")]
        ids = [str(row[0]) for row in cell.execute("SELECT gen_random_uuid() FROM generate_series(1, %s)", [count])]
        for connection in (cell, api):
            connection.execute("CREATE TEMP TABLE copied (number int, own text, place text) ON COMMIT DROP")
            with connection.cursor().copy("COPY copied FROM STDIN") as rows:
                for number, own in enumerate(ids):
                    rows.write_row((number, own, nodes[number % len(nodes)]))
        places = dict.fromkeys(("host", "node", "launched_on"), "place")
        earlier = {name: f"{name} - number * interval '1 s'" for name in ("created_at", "updated_at", "launched_at")}
        node = {"compute_id": "(SELECT id FROM compute_nodes WHERE hypervisor_hostname = place)"}
        enter(cell, "instances", "uuid", model, places | earlier | node)
        for table in OF_A_SERVER:
            enter(cell, table, "instance_uuid", model, {"uuid": "gen_random_uuid()::text"})
        enter(api, "instance_mappings", "instance_uuid", model, {})


def enter(connection: psycopg.Connection, table: str, key: str, model: str, more: dict[str, str]) -> None:
    """Copy a table's rows of a server. `more`: what columns get in place of the server's own."""
    names = [str(row[0]) for row in connection.execute(_COLUMNS, [table])]
    own = {**more, key: "own"}
    values = ", ".join(own.get(name, f'"{name}"') for name in names)
    listed = ", ".join(f'"{name}"' for name in names)
    connection.execute(f"INSERT INTO {table} ({listed}) SELECT {values} FROM {table}, copied WHERE {key} = %s", [model])


# --- comparisons ------------------------------------------------------------------------------------------------------


def measure_diffs(lab: NovaLab, daemon: NovaDaemon) -> None:
    """Time the first comparison from the start of the process on, and count the requests of a later one."""
    began_s = time.monotonic()
    daemon.start()
    until(lambda: daemon.figure("tenure_nova_diff_timestamp_seconds") > 0, WITHIN_S, daemon.output)
    taken_s, requests = time.monotonic() - began_s, daemon.figure("tenure_nova_requests_total")
    say(
        f"first diff: {taken_s:.1f} s from the daemon's start (bar: 20), of which the comparison "
        f"{daemon.figure('tenure_nova_diff_duration_seconds'):.1f} s; {requests:.0f} requests to Nova and Placement"
    )
    for _ in range(3):
        before, last_at = Requests.now(lab), daemon.figure("tenure_nova_diff_timestamp_seconds")
        spent_s = lab.processes.processor_s_of()
        until(lambda at=last_at: daemon.figure("tenure_nova_diff_timestamp_seconds") > at, WITHIN_S, daemon.output)
        say(f"diff: {daemon.figure('tenure_nova_diff_duration_seconds'):.1f} s; {Requests.now(lab).since(before)}")
        say(f"      processor time since the one before: {lab.processes.processor_since(spent_s)}")
    say(f"disagreements: {daemon.figure('tenure_nova_disagreements'):.0f}, daemon {memory_mb(lab):.0f} MB (bar: 150)")


class Requests(Counter[str]):
    """Counts of requests by what they ask for, as Nova's, Placement's and Tenure's own records tell them."""

    @classmethod
    def now(cls, lab: NovaLab) -> Requests:
        """Return the counts so far."""
        found = cls()
        for log in (lab.folder / "log").glob("*.log"):
            for path, query in ASKED.findall(log.read_text(errors="replace")):
                if "changes-since" not in query:
                    found[path] += 1
        for name in ("tenure_1", "tenure_2"):
            found.update(answered(lab, name))
        return found

    def since(self, before: Requests) -> str:
        return ", ".join(f"{count:g} {name}" for name, count in sorted((self - before).items()))


def answered(lab: NovaLab, name: str) -> dict[str, float]:
    """Return the requests that a Tenure has answered, by operation."""
    text = httpx2.get(f"{lab.url(name)}/metrics", headers={"X-Auth-Token": TOKEN}, timeout=30).text
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "tenure_http_requests_total" and sample.labels["operation"] not in UNCOUNTED:
                operation = f"{sample.labels['operation']} of Tenure"
                found[operation] = found.get(operation, 0.0) + sample.value
    return found


def memory_mb(lab: NovaLab) -> float:
    return lab.processes.resident()["daemon"] / 1e6


# --- notifications ----------------------------------------------------------------------------------------------------


def measure_notifications(lab: NovaLab, daemon: NovaDaemon, seconds: int) -> None:
    """Change 50 servers a second, and tell of each; watch how far the daemon is behind."""
    notify, servers = notifier(lab), [*in_nova(lab)]
    read_before, behind_s, most_mb, waited_s = daemon.figure("tenure_nova_notifications_total"), [0.0], 0.0, 0.0
    began_s = time.monotonic()
    with psycopg.connect(lab.database_url("nova"), autocommit=True) as nova:
        for second in range(seconds):
            some = [servers[(second * A_SECOND + number) % len(servers)] for number in range(A_SECOND)]
            nova.execute("UPDATE instances SET updated_at = now() AT TIME ZONE 'UTC' WHERE uuid = ANY(%s)", [some])
            for number, one in enumerate(some):
                notify(one)
                time.sleep(max(began_s + second + (number + 1) / A_SECOND - time.monotonic(), 0.0))
            sent = (second + 1) * A_SECOND
            read = daemon.figure("tenure_nova_notifications_total") - read_before
            behind_s.append((sent - read) / A_SECOND)
            waited_s = max(waited_s, daemon.figure("tenure_nova_waiting_seconds"))
            most_mb = max(most_mb, memory_mb(lab))
    taken_s = time.monotonic() - began_s
    wanted = read_before + seconds * A_SECOND
    until(lambda: daemon.figure("tenure_nova_notifications_total") >= wanted, WITHIN_S, daemon.output)
    say(
        f"notifications: {seconds * A_SECOND} in {taken_s:.0f} s; read at most {max(behind_s):.1f} s behind (bar: 2), "
        f"all {time.monotonic() - began_s - taken_s:.1f} s after the last; a look waited {waited_s:.1f} s at most; "
        f"daemon {most_mb:.0f} MB at most (bar: 150)"
    )


def notifier(lab: NovaLab) -> Callable[[str], None]:
    """Return a function that tells of a server as Nova does."""
    import oslo_messaging  # noqa: PLC0415 - slow to load
    from oslo_config import cfg  # noqa: PLC0415 - as above

    options = cfg.ConfigOpts()
    options([], project="nova", default_config_files=[])
    transport = oslo_messaging.get_notification_transport(options, url=lab.broker_url)
    teller: Any = oslo_messaging.Notifier(
        transport, publisher_id="nova-compute:measured", driver="messagingv2", topics=["tenure"]
    )

    def notify(one: str) -> None:
        teller.info({}, "instance.update", {"nova_object.data": {"uuid": one}})

    return notify


# --- the filter -------------------------------------------------------------------------------------------------------


def measure_filter(lab: NovaLab) -> None:
    """Ask the filter, in Nova's own environment, for one of 1,000 hosts."""
    name = f"candidates-{int(time.time())}"
    lab.tenure.create_cloud(name, {"guarantee": "none"})
    lab.tenure.add_flavor(name, "small", Resources(2, 1024, 1))
    hosts = [host(f"node-{number}") for number in range(AT_ONCE)]
    for one in hosts:
        lab.tenure.add_node(name, one["nodename"], Resources(4, 8192, 100))
    nova = warm_nova(PROGRAMS / "python")
    asked = Asked(nova, lab.url("tenure_1"), name, token=TOKEN)
    taken = []
    for _ in range(50):
        answer = asked.place(server(), spot=True, hosts=hosts, hints={"tenure:lifetime": "600"})
        assert answer["refused"] is None, answer
        taken.append(asked.took_ms)
    asked.end()
    nova.end()
    p95_ms = quantiles(taken, n=20)[-1]
    say(f"filter: {AT_ONCE} candidates, median {median(taken):.1f} ms, p95 {p95_ms:.1f} ms (bar: 100)")


if __name__ == "__main__":
    main()
