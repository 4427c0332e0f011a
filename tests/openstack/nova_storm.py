"""A storm of creations and deletions on a lab's cloud, while parts are killed at random moments.

`python tests/openstack/nova_storm.py --operations 500 --kills 100` brings a cloud up, storms, and tells what was found.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from lab_processes import until  # noqa: E402 - found by the line above
from nova_daemon import NovaDaemon, audit, in_nova  # noqa: E402
from nova_lab import CLOUD, NovaLab  # noqa: E402
from openstack.exceptions import SDKException  # noqa: E402

KILLED = ("daemon", "scheduler", "tenure_1", "tenure_2", "worker")
AGREE_S = 120.0
STUCK_S = 60.0


@dataclass
class Found:
    """The outcome of a storm. `stuck` were being built when the scheduler was killed, and Nova forgot them."""

    asked: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    stuck: int = 0
    agreed_after_s: float = 0.0
    evicted: int = 0
    audit: str = ""


class Storm:
    """A storm of its own seed on a running lab."""

    def __init__(self, lab: NovaLab, daemon: NovaDaemon, seed: int) -> None:
        self._lab, self._daemon, self._random = lab, daemon, random.Random(seed)
        self._found, self._alive, self._over = Found(), [], Event()

    def run(self, operations: int, kills: int, folder: Path) -> Found:
        """Storm until both counts are reached, and wait until both sides agree; else raise AssertionError."""
        killer = Thread(target=self._kill, args=(kills,))
        killer.start()
        while sum(self._found.asked.values()) < operations or killer.is_alive():
            self._operate()
            time.sleep(self._random.uniform(0, 0.6))
        killer.join()
        began_s = time.monotonic()
        until(lambda: not self._unsettled(), STUCK_S + AGREE_S, lambda: str(self._unsettled()), 1.0)
        self._found.stuck = self._clear_stuck()
        self._daemon.agrees(AGREE_S)
        self._found.agreed_after_s = time.monotonic() - began_s
        evicted = [one.id for one in self._lab.tenure.instances(CLOUD, status="evicted")]
        assert len(evicted) == len({*evicted})
        assert not {*evicted} & in_nova(self._lab).keys(), "evicted servers run on"
        self._found.evicted = len(evicted)
        self._found.audit = audit(self._lab, folder).splitlines()[0]
        assert "no rule is broken" in self._found.audit
        return self._found

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
        except SDKException as error:
            self._found.failed[f"{what} {type(error).__name__}"] += 1

    def _kill(self, kills: int) -> None:
        for _ in range(kills):
            time.sleep(self._random.uniform(0.2, 3))
            name = self._random.choice(KILLED)
            self._lab.processes.kill(name)
            self._found.killed[name] += 1
            time.sleep(self._random.uniform(0, 2))
            if name == "daemon":
                self._daemon.start()
            elif name == "scheduler":
                self._lab.start_control(name)
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


def _is_stuck(server: Any) -> bool:
    updated_s = time.mktime(time.strptime(server.updated_at, "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
    return time.time() - updated_s > STUCK_S


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operations", type=int, default=500)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--computes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp/tenure-openstack-storm"))
    parser.add_argument("--stays", action="store_true", help="use the cloud that runs in the folder, and leave it")
    asked = parser.parse_args()
    lab = NovaLab(asked.folder)
    daemon = NovaDaemon(lab)
    try:
        if not asked.stays:
            lab.up(asked.computes)
        daemon.start()
        daemon.wait_until_it_works()
        with tempfile.TemporaryDirectory() as folder:
            found = Storm(lab, daemon, asked.seed).run(asked.operations, asked.kills, Path(folder))
        sys.stdout.write(json.dumps(vars(found)) + "\n")
    finally:
        daemon.kill()
        if not asked.stays:
            lab.down()


if __name__ == "__main__":
    main()
