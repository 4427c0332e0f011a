"""Each cell of the table of Nova's states by Tenure's, on a real cloud: after how long do both sides agree again?

`python tests/openstack/nova_drift.py` brings a cloud up, and goes through all cells with notifications and without any.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from lab_processes import until  # noqa: E402 - found by the line above
from nova_command import command_line, lab_of_command  # noqa: E402 - as above
from nova_daemon import NovaDaemon, differences, in_nova, running  # noqa: E402 - as above
from nova_lab import CLOUD, NovaLab  # noqa: E402 - as above
from nova_ledger import Report, delete_at_once, ledger_of, wait_until_gone  # noqa: E402 - as above

NOTIFIED_S, SILENT_S = 15.0, 90.0
COMPUTES = 3
UNPROMISED_S = 5.0
BUILT_S = 120.0
_UNCLAIM = """
DELETE FROM allocations WHERE resource_provider_id IN (SELECT id FROM resource_providers WHERE name = %s)
"""


class Drift:
    """Drift of every kind on a running lab. Each method whose name begins with `cell_` is a cell.

    It returns the seconds from Nova's change on until both sides agree, and all is as the table says.
    """

    def __init__(self, lab: NovaLab, *, notified: bool) -> None:
        self.lab, self.notified = lab, notified
        self.most_s = NOTIFIED_S if notified else SILENT_S
        silent = {} if notified else {"TENURE_NOVA_BROKERS": ""}
        self.daemon = NovaDaemon(lab, TENURE_NOVA_UNPROMISED_AFTER_S=str(UNPROMISED_S), **silent)

    @classmethod
    def cells(cls) -> list[str]:
        return [name.removeprefix("cell_") for name in vars(cls) if name.startswith("cell_")]

    def clear(self) -> None:
        """Empty the cloud on both sides."""
        servers = [one.id for one in self.lab.cloud.compute.servers(details=False, all_projects=True)]
        delete_at_once(self.lab, servers, 4)
        wait_until_gone(self.lab, servers, 60)
        self.daemon.agrees(2 * SILENT_S)

    # What runs in Nova.

    def cell_deleted_while_running(self) -> float:
        servers = [self._spot(), self._paying()]
        for server in servers:
            self.lab.cloud.compute.delete_server(server)
        until(lambda: not in_nova(self.lab), 60, lambda: "they are not deleted")
        return self._settled(lambda: all(self._known(one).status == "stopped" for one in servers))

    def cell_forced_onto_a_host_on_demand(self) -> float:
        server = self._forced("small")
        return self._settled(lambda: server in running(self.lab) and self._known(server).observed)

    def cell_forced_onto_a_host_full_of_spot(self) -> float:
        """The youngest spot server there makes room."""
        there = [self._spot("spot.medium", "compute-2") for _ in range(2)]
        server = self._forced("medium")
        return self._settled(lambda: server in running(self.lab) and in_nova(self.lab).keys() == {there[0], server})

    def cell_forced_onto_a_host_spot(self) -> float:
        server = self._forced("spot.small")
        return self._settled(lambda: server not in in_nova(self.lab))

    def cell_migrated_spot(self) -> float:
        server = self._spot()
        host = self._migrate(server)
        return self._settled(lambda: (self._known(server).status, self._known(server).node) == ("running", host))

    def cell_migrated_on_demand(self) -> float:
        server = self._paying()
        host = self._migrate(server)
        return self._settled(lambda: (self._known(server).status, self._known(server).node) == ("running", host))

    def cell_migrated_by_force_onto_a_full_host(self) -> float:
        """The youngest spot server there leaves, and the node is as large as before."""
        older = self._spot("spot.medium", "compute-1")
        filling = [self._spot("spot.medium", "compute-2") for _ in range(2)]
        self._migrate(older, "compute-2", force=True)
        seconds = self._settled(
            lambda: in_nova(self.lab).keys() == {older, filling[0]} and self._size("compute-2") == 10
        )
        assert self._known(older).node == "compute-2"
        assert self._known(filling[1]).status == "evicted"
        return seconds

    def cell_resized(self) -> float:
        server = self._paying()
        self.lab.cloud.compute.resize_server(server, self.lab.flavor_id("medium"))
        self.lab.wait_for(server, "VERIFY_RESIZE")
        self.lab.cloud.compute.confirm_server_resize(server)
        self.lab.wait_for(server, "ACTIVE")
        return self._settled(lambda: self._known(server).flavor == "medium")

    def cell_shelved_and_unshelved(self) -> float:
        server = self._spot()
        self.lab.cloud.compute.shelve_server(server)
        self.lab.wait_for(server, "SHELVED_OFFLOADED")
        seconds = self._settled(lambda: self._known(server).status == "stopped")
        self.lab.cloud.compute.unshelve_server(server)
        self.lab.wait_for(server, "ACTIVE")
        return max(seconds, self._settled(lambda: self._known(f"{server}.2").status == "running"))

    # What Tenure has ended, and Nova runs.

    def cell_evicted_while_active(self) -> float:
        return self._evicted(self._spot())

    def cell_evicted_while_off(self) -> float:
        server = self._spot()
        self.lab.cloud.compute.stop_server(server)
        self.lab.wait_for(server, "SHUTOFF")
        return self._evicted(server)

    def cell_evicted_while_paused(self) -> float:
        server = self._spot()
        self.lab.cloud.compute.pause_server(server)
        self.lab.wait_for(server, "PAUSED")
        return self._evicted(server)

    def cell_evicted_while_built(self) -> float:
        with _Frozen(self.lab, "compute-1"):
            server = self._asked("spot.small", "compute-1")
            until(lambda: server in running(self.lab), 60, lambda: "Tenure has not admitted it")
            self.lab.tenure.drill(CLOUD, server)
            time.sleep(2)
        return self._settled(
            lambda: server not in in_nova(self.lab) and self.lab.cloud.compute.find_server(server) is None
        )

    def cell_deleted_before_its_deadline(self) -> float:
        """An eviction with notice is confirmed as soon as its server is gone."""
        server = self._spot()
        with _Grace(self.lab, 300):
            self.lab.tenure.drill(CLOUD, server)
            self.lab.cloud.compute.delete_server(server)
            until(lambda: server not in in_nova(self.lab), 60, lambda: "it is not deleted")
            return self._settled(lambda: not [*self.lab.tenure.handovers(CLOUD)])

    def cell_stopped_in_tenure_spot(self) -> float:
        server = self._spot()
        time.sleep(UNPROMISED_S)
        self.lab.tenure.stop(CLOUD, server)
        return self._settled(lambda: server not in in_nova(self.lab))

    def cell_stopped_in_tenure_on_demand(self) -> float:
        server = self._paying()
        self.lab.tenure.stop(CLOUD, server)
        return self._settled(lambda: server in running(self.lab) and self._known(f"{server}.2").observed)

    # What is on its way, or came to nothing.

    def cell_being_built(self) -> float:
        """Nothing is said of it meanwhile."""
        with _Frozen(self.lab, "compute-1"):
            server = self._asked("small", "compute-1")
            until(lambda: server in running(self.lab), 60, lambda: "Tenure has not admitted it")
            seq = self.lab.tenure.cloud(CLOUD).seq
            time.sleep(8)
            assert self.lab.tenure.cloud(CLOUD).seq == seq
        self.lab.wait_for(server, "ACTIVE")
        return self._settled(lambda: self._known(server).status == "running")

    def cell_failed_to_build(self) -> float:
        """It asks for a volume, which this cloud cannot give: Tenure has admitted it, and its compute gives it up."""
        local = {"boot_index": 0, "uuid": self.lab._image_id, "source_type": "image", "destination_type": "local"}
        volume = {"boot_index": -1, "source_type": "blank", "destination_type": "volume", "volume_size": 1}
        server = self._asked("small", block_device_mapping_v2=[local, volume])
        assert self.lab.wait_for(server).status == "ERROR"
        return self._settled(lambda: self._known(server).status == "stopped" and self._known(server).aborted)

    # What becomes of nodes.

    def cell_host_down_evacuated_and_removed(self) -> float:
        """A host is kept while it is down, its servers are followed, and what is left there goes with its rows."""
        host = f"spare-{int(time.time()) % 100_000}"
        self.lab.start_compute(host)
        until(lambda: host in self._nodes(), 90, self.daemon.output)
        saved, left = (self._spot("spot.tiny", host) for _ in range(2))
        self.lab.processes.kill(host)
        service = next(one.id for one in self.lab.cloud.compute.services() if one.host == host)
        self._compute("put", f"/os-services/{service}", {"forced_down": True})
        seconds = self._settled(lambda: self._nodes()[host] == "drained")
        assert self._known(saved).status == self._known(left).status == "running"
        self._compute("post", f"/servers/{saved}/action", {"evacuate": {"host": "compute-1"}}, "2.67")
        until(lambda: in_nova(self.lab).get(saved) == "compute-1", 60, lambda: "it is not evacuated")
        seconds = max(seconds, self._settled(lambda: self._known(saved).node == "compute-1"))
        self._forget(host)
        return max(seconds, self._settled(lambda: host not in self._nodes() and left not in in_nova(self.lab)))

    # The rest.

    def _settled(self, true: Callable[[], object]) -> float:
        began_s = time.monotonic()

        def told() -> str:
            return f"{differences(self.lab)} {in_nova(self.lab)} {self._nodes()}\n{self.daemon.output()}"

        until(lambda: not differences(self.lab) and true(), 2 * SILENT_S, told, 0.3)
        return time.monotonic() - began_s

    def _spot(self, flavor: str = "spot.small", host: str | None = None) -> str:
        return self._active(self._asked(flavor, host))

    def _paying(self) -> str:
        return self._active(self._asked("small"))

    def _active(self, server: str) -> str:
        found = self.lab.wait_for(server)
        assert found.status == "ACTIVE", found.fault
        self.daemon.agrees(SILENT_S)
        return server

    def _asked(self, flavor: str, host: str | None = None, **more: Any) -> str:
        """Ask for a server, on a host of the asker's choice if one is named, which the filter may refuse."""
        body = {"name": flavor, "flavorRef": self.lab.flavor_id(flavor), "imageRef": self.lab._image_id}
        body |= {"networks": "none", **({} if host is None else {"host": host}), **more}
        hints = {"os:scheduler_hints": {"tenure:lifetime": "7200"}} if flavor.startswith("spot.") else {}
        answer = self.lab.cloud.compute.post("/servers", json={"server": body, **hints}, microversion="2.87")
        assert answer.ok, answer.text
        return str(answer.json()["server"]["id"])

    def _forced(self, flavor: str) -> str:
        """Return a server that an admin has put on a host, past the filter."""
        server = self._asked(flavor, availability_zone="nova:compute-2")
        assert self.lab.wait_for(server).status == "ACTIVE"
        return server

    def _migrate(self, server: str, host: str | None = None, *, force: bool = False) -> str:
        """Migrate a server to a host, and wait until it runs there."""
        to = host or next(name for name in ("compute-1", "compute-2") if name != in_nova(self.lab)[server])
        wish = {"host": to, "block_migration": "auto", "force": force}
        self._compute("post", f"/servers/{server}/action", {"os-migrateLive": wish}, "2.67")
        until(lambda: in_nova(self.lab).get(server) == to, BUILT_S, lambda: str(in_nova(self.lab)))
        return to

    def _evicted(self, server: str) -> float:
        self.lab.tenure.drill(CLOUD, server)
        return self._settled(lambda: server not in in_nova(self.lab))

    def _forget(self, host: str) -> None:
        """Take a host out of Nova's database and out of Placement, as an operator would who has lost it."""
        with psycopg.connect(self.lab.database_url("nova")) as connection:
            for table in ("compute_nodes", "services"):
                connection.execute(f"UPDATE {table} SET deleted = id, deleted_at = now() WHERE host = %s", [host])
        with psycopg.connect(self.lab.database_url("placement")) as connection:
            connection.execute(_UNCLAIM, [host])
        placement = self.lab.cloud.placement
        found = placement.get(f"/resource_providers?name={host}", microversion="1.29").json()["resource_providers"]
        answer = placement.delete(f"/resource_providers/{found[0]['uuid']}", microversion="1.29")
        assert answer.ok, answer.text

    def _compute(self, method: str, path: str, body: dict[str, Any], version: str = "2.87") -> None:
        answer = getattr(self.lab.cloud.compute, method)(path, json=body, microversion=version)
        assert answer.ok, answer.text

    def _nodes(self) -> dict[str, str]:
        return {one.name: one.status for one in self.lab.tenure.nodes(CLOUD)}

    def _size(self, node: str) -> int:
        return int(self.lab.tenure.node(CLOUD, node).capacity.cores)

    def _known(self, instance: str) -> Any:
        return self.lab.tenure.instance(CLOUD, instance)


class _Frozen:
    """A compute that does nothing meanwhile."""

    def __init__(self, lab: NovaLab, host: str) -> None:
        self._lab, self._host = lab, host

    def __enter__(self) -> None:
        self._lab.processes.send(self._host, signal.SIGSTOP)

    def __exit__(self, *_: object) -> None:
        self._lab.processes.send(self._host, signal.SIGCONT)


class _Grace:
    """A grace period that holds meanwhile."""

    def __init__(self, lab: NovaLab, seconds: float) -> None:
        self._lab, self._seconds = lab, seconds

    def __enter__(self) -> None:
        self._lab.tenure.change_policy(CLOUD, {"grace_s": self._seconds})

    def __exit__(self, *_: object) -> None:
        self._lab.tenure.change_policy(CLOUD, {"grace_s": 0})


def go_through(lab: NovaLab, cells: list[str], report: Report) -> None:
    """Go through cells with notifications, and then without any."""
    for notified in (True, False):
        drift = Drift(lab, notified=notified)
        drift.daemon.start()
        try:
            drift.daemon.wait_until_it_works()
            report.tell("load", f"{os.getloadavg()[0]:.1f}")
            for cell in cells:
                drift.clear()
                seconds = getattr(drift, f"cell_{cell}")()
                name = f"{cell.replace('_', ' ')} ({'notified' if notified else 'silent'})"
                report.hold(name, f"{seconds:.1f} s", f"<= {drift.most_s:g} s", holds=seconds <= drift.most_s)
            drift.clear()
        finally:
            drift.daemon.kill()
    faults = ledger_of(lab).faults
    report.hold("evictions that were not of the youngest, as few as needed", faults[:3] or 0, "0", holds=not faults)


def main() -> None:
    parser = command_line("drift", __doc__, COMPUTES)
    parser.add_argument("--cells", nargs="+", choices=Drift.cells(), default=Drift.cells(), metavar="CELL")
    asked = parser.parse_args()
    report = Report()
    with lab_of_command(asked) as lab:
        go_through(lab, asked.cells, report)
    sys.exit(bool(report.failed))


if __name__ == "__main__":
    main()
