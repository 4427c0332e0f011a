"""Rows of Nova's databases as years of a cloud would have left them, drawn from a seed, with secrets among them.

The tables are those that Nova's own migrations make. Rows go into files as PostgreSQL's COPY and MariaDB's LOAD DATA
both read them. Servers that ended long ago lie in the shadow tables, those that found no host in the database of cell0.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

NOW = datetime(2026, 3, 1, tzinfo=UTC).replace(tzinfo=None)
LIFE_S = 6 * 3600
NODE_CORES, NODE_MEMORY_MIB, NODE_DISK_GIB, CORE_RATIO = 32, 256 << 10, 2_000, 4.0
_PEOPLE = "payroll vault merger alice bob carol dave erin frank grace heidi ivan judy mallory oscar peggy trent victor"
SECRETS = tuple(f"{word}-secret" for word in (*_PEOPLE.split(), "walter", "zoe"))


class Sold(NamedTuple):
    """A flavor: its number and name in Nova, and its size."""

    id: int
    name: str
    cores: int
    memory_mib: int
    disk_gib: int
    specs: dict[str, str]


FLAVORS = (
    Sold(1, "m1.small", 1, 2048, 10, {}),
    Sold(2, "m1.medium", 2, 4096, 20, {}),
    Sold(3, "m1.large", 4, 8192, 40, {}),
    Sold(4, "m1.xlarge", 8, 16384, 80, {}),
    Sold(5, "spot.small", 1, 2048, 10, {"tenure:market": "spot", "tenure:flavor": "m1.small"}),
)
COLUMNS = {
    "instances": "created_at updated_at deleted_at id user_id project_id image_ref key_name key_data vm_state vcpus "
    "memory_mb root_gb ephemeral_gb instance_type_id hostname host node launched_on user_data launched_at "
    "terminated_at display_name display_description access_ip_v4 uuid deleted hidden",
    "instance_extra": "created_at id instance_uuid deleted flavor",
    "instance_actions": "created_at id action instance_uuid user_id project_id start_time message deleted",
    "instance_actions_events": "created_at id event action_id start_time finish_time result deleted host details",
    "migrations": "created_at updated_at id status instance_uuid old_instance_type_id new_instance_type_id deleted "
    "migration_type source_compute dest_compute",
    "compute_nodes": "created_at deleted_at id vcpus memory_mb local_gb vcpus_used memory_mb_used local_gb_used "
    "hypervisor_type hypervisor_version cpu_info hypervisor_hostname deleted host cpu_allocation_ratio "
    "ram_allocation_ratio disk_allocation_ratio uuid",
}
"""The tables, and the columns that are filled. What they refer to comes before them."""
_FLAVOR_TEXT = {
    sold.id: json.dumps(
        {
            "cur": {
                "nova_object.name": "Flavor",
                "nova_object.namespace": "nova",
                "nova_object.version": "1.2",
                "nova_object.data": {
                    "id": sold.id, "name": sold.name, "memory_mb": sold.memory_mib, "vcpus": sold.cores,
                    "root_gb": sold.disk_gib, "ephemeral_gb": 0, "swap": 0, "flavorid": str(sold.id),
                    "extra_specs": sold.specs, "disabled": False, "is_public": True, "description": None,
                },
            },
            "old": None,
            "new": None,
        }
    )
    for sold in FLAVORS
}  # fmt: skip


@dataclass
class Drawn:
    """The counts that an import has to come to."""

    rows: int = 0
    unmet: int = 0
    resized: int = 0
    shelved: int = 0
    running: int = 0
    secrets: Counter[str] = field(default_factory=Counter)


class Draw:
    """Draws the rows of so many servers, of which about `running` run at once, and writes them into a folder."""

    def __init__(self, folder: Path, rows: int, running: int, seed: int = 1, now: datetime = NOW) -> None:
        """`now`: when the rows are read, in UTC without saying so."""
        self.drawn = Drawn()
        self.folder = folder
        self._rows = rows
        self._running = running
        self._now = now
        self._random = np.random.default_rng(seed)
        self._files: dict[str, TextIO] = {}
        self._ids: Counter[str] = Counter()

    def write(self) -> None:
        """Write a file for each table of each database: `cell1.instances`, `cell1.shadow_instances` and so on."""
        for database in ("cell1", "cell0"):
            for table in COLUMNS:
                for prefix in ("", "shadow_"):
                    path = self.folder / f"{database}.{prefix}{table}"
                    self._files[f"{database}.{prefix}{table}"] = path.open("w")
        self._write_nodes()
        for number, row in enumerate(self._servers()):
            self._write_server(number, row)
        for file in self._files.values():
            file.close()

    def _write_nodes(self) -> None:
        """Write nodes that are about three quarters full, and one that was removed."""
        cores = sum(sold.cores for sold in FLAVORS) / len(FLAVORS) * self._running
        count = max(2, round(cores / 0.75 / NODE_CORES / CORE_RATIO))
        for number in range(1, count + 2):
            gone = number == count + 1
            name = f"{self._secret(number)}-{number}.example"
            self._put("cell1.shadow_compute_nodes" if gone else "cell1.compute_nodes", {
                "created_at": "2020-01-01", "deleted_at": "2020-02-01" if gone else None, "id": number,
                "vcpus": NODE_CORES, "memory_mb": NODE_MEMORY_MIB, "local_gb": NODE_DISK_GIB, "vcpus_used": 0,
                "memory_mb_used": 0, "local_gb_used": 0, "hypervisor_type": "fake", "hypervisor_version": 1,
                "cpu_info": "", "hypervisor_hostname": name, "deleted": number if gone else 0, "host": name,
                "cpu_allocation_ratio": CORE_RATIO, "ram_allocation_ratio": 1.0, "disk_allocation_ratio": 0.0,
                "uuid": self._uuid(),
            })  # fmt: skip

    def _servers(self) -> Iterator[tuple[datetime, Any, Any, Any]]:
        """Yield the times of birth, the lives, the flavors, and a number by which the fate is chosen."""
        length_s = self._rows / self._running * LIFE_S
        births = np.sort(self._random.uniform(-length_s, 0, self._rows))
        lives = 600 + self._random.exponential(LIFE_S - 600, self._rows)
        flavors = self._random.integers(0, len(FLAVORS), self._rows)
        for born_s, *rest in zip(births, lives, flavors, self._random.random(self._rows), strict=True):
            yield self._now + timedelta(seconds=int(born_s)), *rest

    def _write_server(self, number: int, row: tuple[datetime, float, int, float]) -> None:
        born, life_s, flavor, fate = row
        ended = born + timedelta(seconds=int(life_s))
        sold, name = FLAVORS[flavor], self._uuid()
        self.drawn.rows += 1
        if fate < 0.1:
            self.drawn.unmet += 1
            shadow = "shadow_" if fate < 0.05 else ""
            self._instance(f"cell0.{shadow}", number, name, sold, (born, None, ended if shadow else None), "error")
            return
        is_over = ended <= self._now
        archived = is_over and ended < self._now - timedelta(seconds=self._rows / self._running * LIFE_S * 0.7)
        place = "cell1.shadow_" if archived else "cell1."
        launched = born + timedelta(seconds=30)
        begun = self._happen(place, name, sold, (launched, ended if is_over else None), fate)
        sold, launched = begun
        self.drawn.running += not is_over
        self._instance(place, number, name, sold, (born, launched, ended if is_over else None), "active")

    def _happen(
        self, place: str, name: str, sold: Sold, times: tuple[datetime, datetime | None], fate: float
    ) -> tuple[Sold, datetime]:
        """Write a server's actions; return its flavor and the time at which it was launched as its row tells it."""
        launched, ended = times
        self._action(
            place, name, "create", ["conductor_build_instances", "compute__do_build_and_run_instance"], launched
        )
        at = launched + timedelta(seconds=300)
        if ended is not None:
            self._action(place, name, "delete", ["compute_terminate_instance"], ended)
        if ended is None or sold.id == 5:
            return sold, launched
        if fate < 0.15:
            larger = FLAVORS[sold.id % 4]
            self.drawn.resized += 1
            self._migration(place, name, sold, larger, at - timedelta(seconds=20))
            self._action(place, name, "resize", ["compute_resize_instance", "compute_finish_resize"], at)
            return larger, at
        if fate < 0.20:
            self.drawn.shelved += 1
            events = ["compute_shelve_instance", "compute_shelve_offload_instance"]
            self._action(place, name, "shelve", events, launched + timedelta(seconds=100))
            self._action(place, name, "unshelve", ["compute_unshelve_instance"], at)
            return sold, at
        return sold, launched

    def _instance(
        self,
        place: str,
        number: int,
        name: str,
        sold: Sold,
        times: tuple[datetime, datetime | None, datetime | None],
        state: str,
    ) -> None:
        (created, launched, ended), secret = times, self._secret(number)
        row_id = self._id("instances")
        host = None if launched is None else f"{secret}.example"
        self._put(f"{place}instances", {
            "created_at": created, "updated_at": ended, "deleted_at": ended, "id": row_id, "user_id": secret,
            "project_id": secret, "image_ref": secret, "key_name": secret, "key_data": f"ssh-rsa {secret}",
            "vm_state": state if ended is None or state == "error" else "deleted", "vcpus": sold.cores,
            "memory_mb": sold.memory_mib, "root_gb": sold.disk_gib, "ephemeral_gb": 0, "instance_type_id": sold.id,
            "hostname": secret, "host": host, "node": host, "launched_on": host, "user_data": secret,
            "launched_at": launched, "terminated_at": None if launched is None else ended,
            "display_name": f"{secret}@example.org", "display_description": secret,
            "access_ip_v4": f"192.0.2.{number % 250}", "uuid": name, "deleted": 0 if ended is None else row_id,
            "hidden": 0,
        })  # fmt: skip
        extra = {"created_at": created, "id": row_id, "instance_uuid": name, "deleted": 0}
        self._put(f"{place}instance_extra", extra | {"flavor": _FLAVOR_TEXT[sold.id]})

    def _action(self, place: str, name: str, action: str, events: list[str], at: datetime) -> None:
        action_id = self._id("instance_actions")
        secret = self._secret(action_id)
        self._put(f"{place}instance_actions", {
            "created_at": at, "id": action_id, "action": action, "instance_uuid": name, "user_id": secret,
            "project_id": secret, "start_time": at, "message": None, "deleted": 0,
        })  # fmt: skip
        for event in events:
            self._put(f"{place}instance_actions_events", {
                "created_at": at, "id": self._id("instance_actions_events"), "event": event, "action_id": action_id,
                "start_time": at, "finish_time": at, "result": "Success", "deleted": 0, "host": secret,
                "details": None,
            })  # fmt: skip

    def _migration(self, place: str, name: str, old: Sold, new: Sold, at: datetime) -> None:
        self._put(f"{place}migrations", {
            "created_at": at, "updated_at": at, "id": self._id("migrations"), "status": "confirmed",
            "instance_uuid": name, "old_instance_type_id": old.id, "new_instance_type_id": new.id, "deleted": 0,
            "migration_type": "resize", "source_compute": "a", "dest_compute": "b",
        })  # fmt: skip

    def _put(self, file: str, row: dict[str, Any]) -> None:
        columns = COLUMNS[file.split(".")[1].removeprefix("shadow_")].split()
        cells = ["\\N" if row[column] is None else str(row[column]) for column in columns]
        self._files[file].write("\t".join(cells) + "\n")

    def _id(self, table: str) -> int:
        self._ids[table] += 1
        return self._ids[table]

    def _uuid(self) -> str:
        return str(uuid.UUID(bytes=self._random.bytes(16), version=4))

    def _secret(self, number: int) -> str:
        secret = SECRETS[number % len(SECRETS)]
        self.drawn.secrets[secret] += 1
        return secret
