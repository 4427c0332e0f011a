"""The message broker is away for a minute amid creations and deletions, and comes back without its queues.

`python tests/openstack/nova_broker.py --computes 10 --operations 100 --away 60` brings a cloud up and prints each
figure with its bar; it exits with 1 if one is not kept.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import amqp
from keystoneauth1.exceptions import ClientException

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from lab_files import SECRET  # noqa: E402 - found by the line above
from lab_processes import until  # noqa: E402 - as above
from nova_command import command_line, lab_of_command, working_daemon  # noqa: E402 - as above
from nova_daemon import Difference, NovaDaemon, audit, differences, in_nova  # noqa: E402 - as above
from nova_lab import NovaLab  # noqa: E402 - as above
from nova_ledger import (  # noqa: E402 - as above
    Report,
    create_at_once,
    ledger_of,
    rows,
    wait_until_built,
    wait_until_gone,
)
from openstack.exceptions import SDKException  # noqa: E402 - as above

AGREE_S = 90.0
BUILD_S = 600.0
INSIST_S = 20.0
QUEUE = "tenure.info"
BOUND = 10_000
"""The length to which the lab's policy bounds the queue."""
MESSAGES = 100_000
THREADS = 16
BEGIN_S = 2.0


class Outage:
    """An outage of the broker on a running lab with a daemon. `operations`: as many creations and deletions."""

    def __init__(self, lab: NovaLab, daemon: NovaDaemon, operations: int) -> None:
        self._lab, self._daemon, self._operations = lab, daemon, operations
        self._kept: list[str] = []
        self._doomed: list[str] = []
        self._created: list[str] = []
        self._deleted: list[str] = []
        self._noting = Lock()
        self.report = Report()

    def fill(self) -> None:
        """Fill the cloud with small servers: one in five stays, the others are to be deleted."""
        tenth = self._operations // 10
        flavors = [*["tiny"] * (3 * tenth), *["spot.tiny"] * (7 * tenth)]
        servers = create_at_once(self._lab, flavors, 8, tenure__lifetime="86400")
        states = Counter(one.state for one in wait_until_built(self._lab, servers, BUILD_S).values())
        self.report.tell("servers before", dict(states))
        paying, spot = servers[: 3 * tenth], servers[3 * tenth :]
        self._kept = [*paying[:tenth], *spot[:tenth]]
        self._doomed = [*paying[tenth:], *spot[tenth:]]
        self._daemon.agrees(120)

    def run(self, away_s: float, folder: Path) -> None:
        with ThreadPoolExecutor(THREADS) as asking:
            began_s = time.monotonic()
            asked = [asking.submit(self._create, number) for number in range(self._operations)]
            asked += [asking.submit(self._delete) for _ in range(self._operations)]
            time.sleep(BEGIN_S)
            self._stop_broker()
            time.sleep(away_s)
            self._lab.start_broker()
            returned_s = time.monotonic()
            failures = Counter(str(one.result()) for one in asked if one.result() is not None)
        self.report.tell("all requests answered", f"{time.monotonic() - returned_s:.0f} s after the broker's return")
        self.report.tell("requests that Nova's API refused or lost", dict(failures))
        self.report.tell("load", f"{os.getloadavg()[0]:.1f}, {time.monotonic() - began_s:.0f} s after the beginning")
        answered_s = time.monotonic()
        until(lambda: not self._disagreement(), 600, lambda: f"{self._disagreement()}\n{self._daemon.output()}", 0.5)
        now_s = time.monotonic()
        self.report.tell("agreement after the broker's return", f"{now_s - returned_s:.0f} s")
        late_s = now_s - answered_s
        self.report.hold(
            "agreement after the last answer", f"{late_s:.0f} s", f"<= {AGREE_S:g} s", holds=late_s <= AGREE_S
        )
        self._mend()
        self._judge(folder)

    def _create(self, number: int) -> str | None:
        flavor, hints = ("tiny", {}) if number % 5 < 3 else ("spot.tiny", {"tenure__lifetime": "7200"})
        try:
            server = str(self._lab.create(f"outage-{number}", flavor, **hints).id)
        except (SDKException, ClientException) as error:
            return f"create {type(error).__name__}"
        with self._noting:
            self._created.append(server)
            if len(self._created) % 5 == 0:
                self._doomed.append(server)
        return None

    def _delete(self) -> str | None:
        """Delete a server that is to go; wait for one if there is none."""
        server = None
        while server is None:
            with self._noting:
                server = self._doomed.pop(0) if self._doomed else None
            if server is None:
                time.sleep(0.2)
        try:
            self._lab.cloud.compute.delete_server(server)
        except (SDKException, ClientException) as error:
            return f"delete {type(error).__name__}"
        self._deleted.append(server)
        return None

    def _stop_broker(self) -> None:
        """End it, and take away all that it has kept."""
        self._lab.processes.kill("rabbit")
        shutil.rmtree(self._lab.folder / "rabbit/mnesia")

    def _disagreement(self) -> list[Difference]:
        """Return the differences of both sides, but for servers that Nova itself says to be building."""
        found = differences(self._lab)
        building = {
            name for name, one in rows(self._lab, [one.server for one in found]).items() if one.state == "building"
        }
        return [one for one in found if one.server not in building]

    def _mend(self) -> None:
        """Do what an operator does about what Nova has lost: reset and delete servers whose deletion does not end."""
        time.sleep(INSIST_S)
        there = rows(self._lab, self._deleted)
        lost = [name for name, one in there.items() if one.gone_at is None]
        self.report.tell("deletions that Nova lost with its queues, and an operator asks for again", len(lost))
        for server in lost:
            self._lab.cloud.compute.reset_server_state(server, "active")
            self._lab.cloud.compute.delete_server(server)
        stuck = [name for name, one in rows(self._lab, self._created).items() if one.state == "building"]
        self.report.tell("creations that Nova lost with its queues, in BUILD for ever", len(stuck))
        for server in stuck:
            self._lab.cloud.compute.delete_server(server)
        wait_until_gone(self._lab, [*lost, *stuck], 120)

    def _judge(self, folder: Path) -> None:
        self._daemon.agrees(AGREE_S)
        ledger, there = ledger_of(self._lab), in_nova(self._lab)
        left = [server for server in self._deleted if server in there]
        self.report.hold("deleted servers that are still there", len(left), "0", holds=not left)
        evicted = Counter(one.server for one in ledger.departures)
        lost = [server for server in self._kept if server not in there and server not in evicted]
        self.report.hold("servers that nobody ended, and that are gone", len(lost), "0", holds=not lost)
        twice = [server for server, count in evicted.items() if count > 1]
        self.report.hold("evicted twice", len(twice), f"0 of {len(evicted)}", holds=not twice)
        stay = evicted.keys() & there.keys()
        self.report.hold("evicted, and still there", len(stay), "0", holds=not stay)
        told = ledger.faults[:3] or 0
        self.report.hold(
            "evictions that were not of the youngest, as few as needed", told, "0", holds=not ledger.faults
        )
        said = audit(self._lab, folder).splitlines()[0]
        self.report.hold("tenure audit", said, "clean", holds="no rule is broken" in said)

    def flood(self, messages: int = MESSAGES) -> None:
        """Fill the daemon's queue while it is off, and see how long it takes to read what the policy has left of it."""
        self._daemon.kill()
        server = next(iter(in_nova(self._lab)), "0" * 8 + "-0000-4000-8000-" + "0" * 12)
        length = self._publish(_notification(server), messages)
        self.report.hold(f"queue after {messages:,} messages", f"{length:,}", f"<= {BOUND:,}", holds=length <= BOUND)
        began_s = time.monotonic()
        self._daemon.start()
        until(lambda: self._length() == 0, 300, self._daemon.output, 0.5)
        self.report.tell("the daemon had read it after", f"{time.monotonic() - began_s:.0f} s, from its start on")
        self._daemon.agrees(AGREE_S)
        memory_mib = self._lab.processes.resident()[self._daemon.name] / 2**20
        self.report.tell("its memory then", f"{memory_mib:.0f} MiB")

    def _publish(self, body: str, messages: int) -> int:
        with self._broker() as connection:
            channel = connection.channel()
            for _ in range(messages):
                channel.basic_publish(amqp.Message(body, content_type="application/json"), routing_key=QUEUE)
            channel.close()
        time.sleep(2)
        return self._length()

    def _length(self) -> int:
        with self._broker() as connection:
            return int(connection.channel().queue_declare(QUEUE, passive=True).message_count)

    def _broker(self) -> amqp.Connection:
        return amqp.Connection(f"127.0.0.1:{self._lab.ports['rabbit']}", "lab", SECRET, login_method="PLAIN")


def _notification(server: str) -> str:
    """Return a notification of Nova's as its library writes it."""
    told = {
        "message_id": str(random.Random(1).getrandbits(64)),
        "publisher_id": "nova-compute:compute-1",
        "event_type": "instance.update",
        "priority": "INFO",
        "payload": {"nova_object.name": "InstanceUpdatePayload", "nova_object.data": {"uuid": server}},
        "timestamp": "2026-01-01 00:00:00.000000",
    }
    return json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(told)})


def main() -> None:
    parser = command_line("broker", __doc__, computes=10)
    parser.add_argument("--operations", type=int, default=100, help="creations, and as many deletions")
    parser.add_argument("--away", type=float, default=60.0, help="for how many seconds the broker is away")
    asked = parser.parse_args()
    with lab_of_command(asked) as lab, working_daemon(lab) as daemon, tempfile.TemporaryDirectory() as folder:
        one = Outage(lab, daemon, asked.operations)
        one.fill()
        one.run(asked.away, Path(folder))
        one.flood()
    sys.exit(bool(one.report.failed))


if __name__ == "__main__":
    main()
