"""The invariants, however often the manager, Slurm or the service dies: looked at meanwhile, and in all logs after."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

from benchmarks.clusters.lab import BOOT_TIMEOUT_S, CLOUDS, Lab, node_of, struck_or_evicted
from benchmarks.clusters.lines import Line
from tenure_client import ClientError, TenureClient

_LOOK_S = 0.25
_ORPHAN_S = 10.0


class Watch:
    """Looks four times a second for how long machines stand without an instance, and instances without a machine.

    The clock of an orphan, a machine without an instance, stands still while no manager runs.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab, self._over = lab, threading.Event()
        self._orphan_s: dict[str, float] = {}
        self._bare_s: dict[str, float] = {}
        self.longest_orphan_s = self.longest_bare_s = 0.0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        before_s = time.monotonic()
        with TenureClient(self._lab.url, self._lab.token, retry_s=0.0) as client:
            buyer = self._lab.buyer_of(client)
            while not self._over.wait(_LOOK_S):
                machines = self._lab.machines()
                with suppress(ClientError):
                    instances = set(buyer.instances())
                    now_s = time.monotonic()
                    self._count(machines & self._lab.machines(), instances, now_s - before_s)
                    before_s = now_s

    def _count(self, machines: set[str], instances: set[str], passed_s: float) -> None:
        manager = self._lab.manager
        managed_s = passed_s if manager is not None and manager.poll() is None else 0.0
        self._orphan_s = {name: self._orphan_s.get(name, 0.0) + managed_s for name in machines - instances}
        self._bare_s = {name: self._bare_s.get(name, 0.0) + passed_s for name in instances - machines}
        self.longest_orphan_s = max([self.longest_orphan_s, *self._orphan_s.values()])
        self.longest_bare_s = max([self.longest_bare_s, *self._bare_s.values()])

    def lines(self) -> Iterator[Line]:
        """Yield the longest of both."""
        yield Line("longest that a machine had no instance under a manager, s", self.longest_orphan_s, 0, _ORPHAN_S)
        yield Line("longest that an instance had no machine, s", self.longest_bare_s, 0, BOOT_TIMEOUT_S)


def invariant_lines(lab: Lab, jobs: set[str]) -> Iterator[Line]:
    """Yield what all logs say once the cluster is empty. Each line is a count."""
    runs = lab.runs()
    ended = Counter(ran.job for ran in runs if ran.ended_s is not None)
    yield Line("jobs that ended, of those submitted", len(ended.keys() & jobs) / len(jobs), 1, 1)
    again = {ran.job for ran in runs if lab.is_unsaved(ran)}
    yield Line("jobs that ran again for want of Slurm's state", sum(ended[job] > 1 for job in again))
    yield Line("ends of any other job", max([ended[job] for job in ended.keys() - again], default=1), 1, 1)
    yield Line("instances, machines and nodes that are left", 0 if lab.is_empty() else 1, 0, 0)
    yield Line("instances bought", len(_started(lab)))
    yield Line("ids bought twice", len(_started(lab)) - len(set(_started(lab))), 0, 0)
    yield Line("busy nodes given back", len(busy_nodes_given_back(lab)), 0, 0)
    yield Line("clouds whose log `tenure audit` finds fault with", len(list(_audits(lab))), 0, 0)


def _started(lab: Lab) -> list[str]:
    return [node_of(event) for cloud in CLOUDS for event in lab.events(cloud) if event.kind == "instance_started"]


def busy_nodes_given_back(lab: Lab) -> list[str]:
    """Return the nodes that were given back while a job ran on them, though nobody struck or evicted them.

    The job tells when it began and ended there; the cloud's log tells when the node was given back.
    """
    stopped_s = {
        node_of(event): event.at.timestamp()
        for cloud in CLOUDS
        for event in lab.events(cloud)
        if event.kind == "instance_stopped"
    }
    taken = struck_or_evicted(lab)
    return [
        ran.node
        for ran in lab.runs()
        if ran.node not in taken
        and not lab.is_unsaved(ran)
        and (ran.ended_s is None or ran.began_s < stopped_s.get(ran.node, ran.ended_s) < ran.ended_s)
    ]


def _audits(lab: Lab) -> Iterator[str]:
    """Yield what the audit says of each cloud that it finds fault with."""
    for cloud in CLOUDS:
        file = lab.folder / f"{cloud}.csv"
        exported = lab.command("log", "export", "--cloud", cloud, "--out", str(file), "--overwrite")
        audited = lab.command("audit", str(file))
        if exported.returncode or audited.returncode:
            yield f"{cloud}: {exported.stderr}{audited.stdout}{audited.stderr}"
