"""The stage of attacks: a PostgreSQL, one `tenure serve`, one `tenure worker`, clouds with a past, and tokens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

import httpx2
import psutil
from surroundings import clean_environment, own_database, undisturbed

from benchmarks.ports import free_port
from hostile.honest import CLOUD as HONEST
from hostile.honest import SHARED

ADMIN = "tnr_admin-under-attack"
_START_S = 180.0
_BATCH = 1000
VENUES = {"many": 20_000, "few": 200}
"""Venues with so many pools each."""

_UNASKED = {"guarantee": "none"}
CLOUDS: dict[str, dict[str, Any]] = {
    HONEST: {},
    "target": _UNASKED,
    "second": _UNASKED,
    SHARED: _UNASKED,
    "overrun": _UNASKED,
    "jumping": {"clock": "external", "recompute_every_s": 60, "warm_up_s": 0, "horizon_s": 3600},
    "owned": {"shared_ids": False},
    "graced": {"guarantee": "none", "grace_s": 3600},
    "flavored": {"warm_up_s": 0, "recompute_every_s": 3600},
    "greedy": {"warm_up_s": 0, "recompute_every_s": 3600},
}
"""The honest caller's cloud, and those that are attacked, with their policies."""
EMPTY = [f"empty-{number}" for number in range(40)]
"""Clouds without anything."""
CROWD = [f"crowd-{number}" for number in range(110)]
"""More of them: what tells of all clouds is long."""
_CORES = {"overrun": 1000, "target": 1000}
"""Of each of a cloud's 16 nodes; of others 64."""
TOKENS = {
    HONEST: ("member", HONEST),
    "honest_admin": ("admin", HONEST),
    "member": ("member", "target"),
    "reader": ("reader", "target"),
    "service": ("service", "target"),
    "cloud_admin": ("admin", "target"),
    "second_admin": ("admin", "second"),
    "overrun": ("member", "overrun"),
    "jumping": ("member", "jumping"),
    "jumping_reader": ("reader", "jumping"),
    "mallory": ("member", "owned"),
    "alice": ("member", "owned"),
    "venues": ("reader", None),
    "onlooker": ("reader", None),
    "tenants.one": ("project_member", "target"),
    "manager": ("service", None),
    "peer": ("peer", None),
    "honest_peer": ("peer", None),
    "hostile_peer": ("peer", None),
    "graced": ("service", "graced"),
    "flavored": ("admin", "flavored"),
    "greedy": ("admin", "greedy"),
}
"""By name: role and cloud."""


class Process:
    """One process of the service, in a process group of its own."""

    def __init__(self, command: str, directory: Path, settings: dict[str, str]) -> None:
        self.log = directory / f"{command}.log"
        with self.log.open("wb") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "app.cli", command],
                env=clean_environment() | settings,
                cwd=Path(__file__).parents[2],
                stdout=log,
                stderr=log,
                process_group=0,
            )

    def kill(self) -> None:
        """End it, and what it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()


class Stage:
    """All of it. `port` is the API process's, `api` that process, `tokens` are by name."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.tokens = {"admin": ADMIN}
        self._has_venue = False

    def open(self, closing: list[Callable[[], None]]) -> None:
        """Start everything; what ends it again is put into `closing` as it starts."""
        database = own_database(self._directory)
        closing.append(database.stop)
        database.start()
        self._settings = settings = {
            "TENURE_DATABASE_URL": database.url,
            "TENURE_ADMIN_TOKEN": ADMIN,
            "TENURE_PORT": str(self.port),
            "TENURE_FORECAST_THREADS": "1",
            "TENURE_WEBHOOK_ALLOW_PRIVATE": "true",
        }
        self.serving = Process("serve", self._directory, settings)
        closing.append(self.serving.kill)
        self.api = psutil.Process(self.serving.popen.pid)
        self._wait_until_up()
        closing.append(Process("worker", self._directory, settings).kill)
        with httpx2.Client(base_url=self.url, headers={"X-Auth-Token": ADMIN}, timeout=60) as admin:
            _furnish(admin, self.tokens)

    def open_venue(self) -> None:
        """Import a large venue and a small one, unless they are there: prices of twelve days, one a day."""
        if not self._has_venue:
            for name, pools in VENUES.items():
                self._import_venue(name, pools)
        self._has_venue = True

    def _import_venue(self, name: str, pools: int) -> None:
        file = self._directory / f"{name}.csv"
        with file.open("w") as prices:
            prices.write("provider,region,zone,instance_type,product,time,price,currency\n")
            for number, day in product(range(pools), range(1, 13)):
                words = f"aws,us-east-1,us-east-1{number % 6},c{number // 6}.large,Linux/UNIX"
                prices.write(f"{words},2026-01-{day:02}T00:00:00Z,0.0{1 + (number + day) % 8},USD\n")
        command = [sys.executable, "-m", "app.cli", "venue", "import", name, str(file)]
        here = Path(__file__).parents[2]
        subprocess.run(command, env=clean_environment() | self._settings, cwd=here, check=True, stdout=subprocess.PIPE)

    def log(self) -> str:
        """Return what the API process has written."""
        return self.serving.log.read_text(errors="replace")

    def _wait_until_up(self) -> None:
        give_up_at = time.monotonic() + _START_S
        while time.monotonic() < give_up_at:
            assert self.serving.popen.poll() is None, self.log()
            with suppress(httpx2.HTTPError):
                if httpx2.get(f"{self.url}/readiness", timeout=5).status_code == 200:
                    return
            time.sleep(0.1)
        raise AssertionError(f"the service did not come up: {self.log()}")


@contextmanager
def staged(directory: Path) -> Iterator[Stage]:
    """The stage; nothing that it started is left behind the block."""
    stage, closing = Stage(directory), list[Callable[[], None]]()
    try:
        stage.open(closing)
        yield stage
    finally:
        with undisturbed():
            while closing:
                with suppress(subprocess.CalledProcessError):
                    closing.pop()()


def _furnish(admin: httpx2.Client, tokens: dict[str, str]) -> None:
    for cloud, policy in CLOUDS.items():
        _post(admin, "/v1/clouds", {"name": cloud, "policy": policy} | _time(cloud))
        for number in range(16):
            node = {"name": f"node-{number}", "cores": _CORES.get(cloud, 64)}
            _post(admin, f"/v1/clouds/{cloud}/nodes", node | _time(cloud))
        _post(admin, f"/v1/clouds/{cloud}/flavors", {"name": "small", "cores": 1} | _time(cloud))
    for cloud in EMPTY + CROWD:
        _post(admin, "/v1/clouds", {"name": cloud, "policy": _UNASKED})
    for name, (role, cloud) in TOKENS.items():
        made = _post(admin, "/v1/tokens", {"name": name, "role": role} | ({"cloud": cloud} if cloud else {}))
        tokens[name] = made["token"]
    for name, cloud in (("own", HONEST), ("theirs", "target")):
        cluster = {"max_nodes": 4, "pools": [{"name": "all", "cloud": cloud, "flavor": "small"}]}
        assert admin.put(f"/v1/clusters/{name}", json=cluster).is_success
    for name in ("honest_peer", "hostile_peer"):
        _post(admin, "/v1/peers", {"name": name, "url": "https://192.0.43.8", "cloud": "theirs", "token": "none"})
    _fill(admin, "target", 3000, [86_400])
    _fill(admin, "overrun", 16_000, [1, 86_400])
    _fill(admin, "graced", 1024, [86_400])


def _time(cloud: str) -> dict[str, str]:
    return {"at": "2026-01-01T00:00:00Z"} if CLOUDS[cloud].get("clock") == "external" else {}


def _fill(admin: httpx2.Client, cloud: str, count: int, lifetimes_s: list[int]) -> None:
    """Start so many spot instances, with these lifetimes in turn."""
    starts = [
        {
            "id": f"past-{number}",
            "market": "spot",
            "flavor": "small",
            "lifetime_s": lifetimes_s[number % len(lifetimes_s)],
        }
        for number in range(count)
    ]
    for begin in range(0, count, _BATCH):
        operations = [{"start": start} for start in starts[begin : begin + _BATCH]]
        answer = _post(admin, f"/v1/clouds/{cloud}/batch", {"operations": operations})
        assert {result["status"] for result in answer["results"]} == {201}, answer["results"][0]


def _post(admin: httpx2.Client, path: str, body: dict[str, Any]) -> Any:
    answer = admin.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.is_success, (path, answer.text)
    return answer.json()
