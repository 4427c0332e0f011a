"""`tenure nova run` on a lab's cloud, and a comparison of both sides that shares no code with it."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psycopg
from lab_processes import until
from nova_lab import CLOUD, ROOT, NovaLab

ON_NODES = "SELECT uuid, node, task_state FROM instances WHERE deleted = 0 AND vm_state = ANY(%s) AND node IS NOT NULL"
HOLDING = ["active", "stopped", "paused", "suspended", "resized", "rescued", "shelved", "error"]


@dataclass(frozen=True)
class Difference:
    """A server that is not in Tenure as it is in Nova's own database."""

    server: str
    nova: str | None
    tenure: str | None


class NovaDaemon:
    """A daemon of a lab. `variables` are settings of its own."""

    def __init__(self, lab: NovaLab, name: str = "daemon", **variables: str) -> None:
        self.lab, self.name = lab, name
        self._own = {"TENURE_NOVA_BROKERS": lab.broker_url, "TENURE_CLOUD": CLOUD, **variables}

    def start(self) -> None:
        own = {"PYTHONPATH": str(ROOT), "TENURE_NOVA_PORT": str(self.lab.ports["daemon"]), "TENURE_LOG_FORMAT": "json"}
        environment = self.lab.tenure_environment() | self.lab.variables() | own | self._own
        environment.pop("TENURE_DATABASE_URL")
        self.lab.processes.start(self.name, [sys.executable, "-m", "app.cli", "nova", "run"], environment)

    def wait_until_it_works(self) -> None:
        """Until it has compared everything once."""
        until(lambda: self.figure("tenure_nova_diff_timestamp_seconds") > 0, 60, self.output)

    def kill(self) -> None:
        self.lab.processes.kill(self.name)

    def output(self) -> str:
        return self.lab.processes.output(self.name)

    def figure(self, name: str) -> float:
        """Return a metric; 0 where it is not told yet."""
        try:
            text = httpx2.get(f"{self.lab.url('daemon')}/metrics", timeout=5).text
        except httpx2.TransportError:
            return 0.0
        return sum(
            float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{"))
        )

    def agrees(self, within_s: float) -> float:
        """Wait until both sides say the same; return after how many seconds."""
        began_s = time.monotonic()
        until(lambda: not differences(self.lab), within_s, lambda: f"{differences(self.lab)}\n{self.output()}", 0.5)
        return time.monotonic() - began_s


def in_nova(lab: NovaLab) -> dict[str, str]:
    """Return the node of each server that holds room, from Nova's database."""
    with psycopg.connect(lab.database_url("nova")) as connection:
        return {str(one[0]): str(one[1]) for one in connection.execute(ON_NODES, [HOLDING])}


def running(lab: NovaLab) -> dict[str, Any]:
    """Return the running instances of Tenure by their server's id."""
    return {one.id.partition(".")[0]: one for one in lab.tenure.instances(CLOUD, status="running")}


def differences(lab: NovaLab) -> list[Difference]:
    """Compare both sides. Nova is read before and after, so that what changes meanwhile counts as no difference."""
    before, there, after = in_nova(lab), running(lab), in_nova(lab)
    steady = {one: node for one, node in before.items() if after.get(one) == node}
    gone = there.keys() - before.keys() - after.keys()
    return [
        *(Difference(one, node, None) for one, node in steady.items() if one not in there),
        *(
            Difference(one, node, there[one].node)
            for one, node in steady.items()
            if one in there and there[one].node != node
        ),
        *(Difference(one, None, there[one].node) for one in gone),
    ]


def audit(lab: NovaLab, folder: Path) -> str:
    """Return what `tenure audit` says of the lab's log. Raises CalledProcessError if a rule is broken."""
    log = folder / "log.csv"
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "app.cli"]
    environment = lab.tenure_environment() | lab.variables()
    for words in (["log", "export", "--cloud", CLOUD, "--out", str(log)], ["audit", str(log)]):
        done = subprocess.run([*command, *words], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
