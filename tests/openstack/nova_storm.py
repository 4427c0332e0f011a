"""A storm of creations and deletions on a cloud full of spot servers, while parts are killed at random moments.

`python tests/openstack/nova_storm.py --operations 500 --kills 100` brings a cloud up, storms, and tells what was found.
With `--wide` Nova's conductor, Keystone, Placement and the databases are killed as well, and computes stand still for a
while: a compute of the fake hypervisor that is killed has lost its servers.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from keystoneauth1.exceptions import ClientException  # noqa: E402 - as above
from lab_processes import listens, until  # noqa: E402 - found by the line above
from nova_burst import Burst  # noqa: E402 - as above
from nova_command import command_line, lab_of_command, working_daemon  # noqa: E402 - as above
from nova_daemon import NovaDaemon, audit, in_nova  # noqa: E402
from nova_lab import CLOUD, NovaLab  # noqa: E402
from nova_ledger import Departure, NovaRow, ledger_of, wait_until_gone  # noqa: E402
from openstack.exceptions import SDKException  # noqa: E402

KILLED = ("daemon", "scheduler", "tenure_1", "tenure_2", "worker", "nova_api")
UNNEEDED = ("scheduler", "tenure_2", "worker", "conductor", "placement")
"""An eviction ends without these: the daemon asks one Tenure, Nova's API and Keystone, and the server's compute."""
WIDE = ("conductor", "keystone", "placement", "postgres")
WIDE_COMPUTES = 4
STALLED_S = 20.0
AGREE_S = 120.0
LATE_S = 15.0
STUCK_S = 60.0
REPEATED_S = 180.0
"""Nova's conductor asks thrice for a host, and gives a scheduler that was killed with a question a minute each time."""


@dataclass
class Found:
    """The outcome of a storm. `stuck` were being built when the scheduler was killed, and Nova forgot them.

    `late_s` is the longest time that an evicted server ran on after its deadline, or after the last restart before its
    end of a part that it needed to end; `past_deadline_s` is without regard to restarts.
    """

    asked: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    stuck: int = 0
    agreed_after_s: float = 0.0
    evicted: int = 0
    late_s: float = 0.0
    past_deadline_s: float = 0.0
    latest: str = ""
    audit: str = ""


class Storm:
    """A storm of its own seed on a running lab."""

    def __init__(self, lab: NovaLab, daemon: NovaDaemon, seed: int, *, is_wide: bool = False) -> None:
        self._lab, self._daemon, self._random = lab, daemon, random.Random(seed)
        computes = [name for name in lab.processes.names() if name.startswith("compute-")]
        self._struck = (*KILLED, *WIDE, *computes[:WIDE_COMPUTES]) if is_wide else KILLED
        self._found, self._alive, self._over = Found(), [], Event()
        self._restarts: list[datetime] = []

    def run(self, operations: int, kills: int, folder: Path, grace_s: float = 5.0) -> Found:
        """Storm until both counts are reached, and wait until both sides agree; else raise AssertionError."""
        self._lab.tenure.change_policy(CLOUD, {"grace_s": grace_s})
        try:
            return self._run(operations, kills, folder)
        finally:
            self._lab.tenure.change_policy(CLOUD, {"grace_s": 0})

    def _run(self, operations: int, kills: int, folder: Path) -> Found:
        seq = self._lab.tenure.cloud(CLOUD).seq
        killer = Thread(target=self._kill, args=(kills,))
        killer.start()
        while sum(self._found.asked.values()) < operations or killer.is_alive():
            self._operate()
            time.sleep(self._random.uniform(0, 0.6))
        killer.join()
        self._lab.wait_for_web("nova_api", "keystone", "placement")
        began_s = time.monotonic()
        until(lambda: not self._unsettled(), REPEATED_S + AGREE_S, lambda: str(self._unsettled()), 1.0)
        self._found.stuck = self._clear_stuck()
        self._daemon.agrees(AGREE_S)
        self._found.agreed_after_s = time.monotonic() - began_s
        self._judge(seq)
        self._found.audit = audit(self._lab, folder).splitlines()[0]
        assert "no rule is broken" in self._found.audit
        return self._found

    def _judge(self, seq: int) -> None:
        """Look at the evictions since an event: each once, the right ones, and in time."""
        ledger = ledger_of(self._lab)
        evicted = [one for one in ledger.departures if one.seq > seq]
        assert ledger.faults == []
        servers = [one.server for one in evicted]
        assert len(servers) == len({*servers}), "evicted twice"
        assert not {*servers} & in_nova(self._lab).keys(), "evicted servers run on"
        gone = wait_until_gone(self._lab, servers, AGREE_S)
        there = {name: one for name, one in gone.items() if one.gone_at is None and not _failed(one)}
        assert not there, f"evicted servers are still there: {there}"
        ends = {name: one.gone_at for name, one in gone.items() if one.gone_at is not None}
        late_s = [(one, *self._late_s(one, ends[one.server])) for one in evicted if one.server in ends]
        self._found.evicted = len(evicted)
        self._found.late_s = max((late for _, late, _ in late_s), default=0.0)
        self._found.past_deadline_s = max((late for _, _, late in late_s), default=0.0)
        self._found.latest = str(max(late_s, key=lambda one: one[1])[0]) if late_s else ""

    def _late_s(self, one: Departure, gone_at: datetime) -> tuple[float, float]:
        """Return by how long a server's end was late, counted from the last restart before it and from its deadline."""
        begins = [one.deadline, *(at for at in self._restarts if at < gone_at)]
        return (gone_at - max(begins)).total_seconds(), (gone_at - one.deadline).total_seconds()

    def _operate(self) -> None:
        chance = self._random.random()
        if chance < 0.35 and self._alive:
            server = self._alive.pop(self._random.randrange(len(self._alive)))
            self._try("delete", lambda: self._lab.cloud.compute.delete_server(server))
        elif chance < 0.7:
            self._try("spot", lambda: self._create("spot.small", tenure__lifetime="7200"))
        else:
            self._try("on_demand", lambda: self._create("small"))

    def _create(self, flavor: str, **hints: str) -> None:
        self._alive.append(self._lab.create(f"storm-{flavor}", flavor, **hints).id)

    def _try(self, what: str, do: Callable[[], Any]) -> None:
        self._found.asked[what] += 1
        try:
            do()
        except (SDKException, ClientException) as error:
            self._found.failed[f"{what} {type(error).__name__}"] += 1
            for name in ("nova_api", "keystone"):
                until(lambda name=name: listens(self._lab.ports[name]), AGREE_S, lambda: "Nova's API is away")

    def _kill(self, kills: int) -> None:
        for _ in range(kills):
            time.sleep(self._random.uniform(0.2, 3))
            name = self._random.choice(self._struck)
            self._found.killed[name] += 1
            if name.startswith("compute-"):
                self._stall(name)
            else:
                self._lab.processes.kill(name)
                time.sleep(self._random.uniform(0, 2))
                self._start(name)
            if name not in UNNEEDED:
                self._restarts.append(datetime.now(UTC))

    def _stall(self, name: str) -> None:
        self._lab.processes.send(name, signal.SIGSTOP)
        time.sleep(self._random.uniform(0, STALLED_S))
        self._lab.processes.send(name, signal.SIGCONT)

    def _start(self, name: str) -> None:
        if name == "daemon":
            self._daemon.start()
        elif name in ("scheduler", "conductor"):
            self._lab.start_control(name)
        elif name in ("nova_api", "keystone", "placement"):
            self._lab.start_web(name)
        elif name == "postgres":
            self._lab.start_postgres()
        else:
            self._lab.start_tenure(name)

    def _unsettled(self) -> list[str]:
        """Return the servers that Nova still builds or deletes, but for those that it has forgotten for long."""
        servers = self._lab.cloud.compute.servers(all_projects=True)
        return [f"{one.id} {one.status} {one.task_state}" for one in servers if one.task_state and not _is_stuck(one)]

    def _clear_stuck(self) -> int:
        """Delete the servers that are still being built, as their users would."""
        stuck = [one for one in self._lab.cloud.compute.servers(all_projects=True) if one.task_state]
        for server in stuck:
            self._lab.cloud.compute.delete_server(server)
        return len(stuck)


def _failed(one: NovaRow) -> bool:
    """Tell whether a server came to nothing while it was built; it holds no room, and its owner deletes it."""
    return one.state == "error" and one.node is None


def _is_stuck(server: Any) -> bool:
    """Tell whether nothing has come of a server for long. Of one in no cell yet Nova always says: updated now."""
    since = datetime.fromisoformat(server.created_at if server.status == "BUILD" else server.updated_at)
    return (datetime.now(UTC) - since).total_seconds() > STUCK_S


def main() -> None:
    parser = command_line("storm", __doc__, computes=4)
    parser.add_argument("--operations", type=int, default=500)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--grace", type=float, default=5.0, help="the grace period in seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wide", action="store_true", help="strike the parts that the daemon depends on, too")
    asked = parser.parse_args()
    with lab_of_command(asked) as lab, working_daemon(lab) as daemon, tempfile.TemporaryDirectory() as folder:
        Burst(lab, daemon).fill(["spot.small"])
        found = Storm(lab, daemon, asked.seed, is_wide=asked.wide).run(
            asked.operations, asked.kills, Path(folder), asked.grace
        )
        sys.stdout.write(json.dumps(vars(found)) + "\n")
        assert asked.wide or found.late_s <= LATE_S, f"an evicted server ran on for {found.late_s:.1f} s"


if __name__ == "__main__":
    main()
