"""The commands of docs/operations.md on upgrading, backup and restore: taken from the page, and run as they stand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from processes import HEADERS, Callers, Process
from servers import debian_binaries, on_database, run_sql, shipped_tools

import migrations
from app.domain.events.formats import LOG_FORMAT
from app.platform.database.migrating import stand

ROOT = Path(__file__).parents[2]
START = {"market": "on_demand", "flavor": "small"}


def blocks(section: str) -> list[str]:
    """The shell commands of a section of the page, block by block."""
    text = (ROOT / "docs/operations.md").read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)


PREPARE, FINISH, BACK = blocks("Upgrading")
DUMP, RESTORE, COPY, COPY_BACK, RESTORE_BENEATH, UPGRADE_BENEATH = blocks("Backups")


def run(commands: str, directory: Path, environment: Mapping[str, str], tools: Path | None = None) -> str:
    path = os.pathsep.join(str(part) for part in (Path(sys.executable).parent, tools) if part is not None)
    done = subprocess.run(
        ["bash", "-euc", commands],
        cwd=directory,
        env={**os.environ, **environment, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (commands, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(params=["debian", "shipped"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, Path]]:
    """A fresh database of a server, and the client tools of the server's version."""
    tools = debian_binaries() if request.param == "debian" else shipped_tools()
    base = request.getfixturevalue("external_server" if request.param == "debian" else "embedded_server")
    names = ("tenure_operated", "tenure_restored")
    for name in names:
        run_sql(base, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    run_sql(base, f"CREATE DATABASE {names[0]}")
    yield on_database(base, names[0]), tools
    for name in names:
        run_sql(base, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def started(process: Process) -> httpx2.Client:
    process.start()
    return httpx2.Client(base_url=process.url, headers=HEADERS, timeout=30)


def begin(client: httpx2.Client) -> None:
    client.post("/v1/clouds", json={"name": "north"}).raise_for_status()
    client.post("/v1/clouds/north/nodes", json={"name": "node-0", "cores": 9}).raise_for_status()
    client.post("/v1/clouds/north/flavors", json={"name": "small", "cores": 1}).raise_for_status()
    assert client.post("/v1/clouds/north/instances", json={"id": "before", **START}).status_code == 201


def log(client: httpx2.Client) -> list[object]:
    found: list[object] = client.get("/v1/clouds/north/events").json()["events"]
    return found


def test_dump_and_restore(server: tuple[str, Path], tmp_path: Path) -> None:
    url, tools = server
    environment = {"TENURE_DATABASE_URL": url, "RESTORED_URL": on_database(url, "tenure_restored")}
    process = Process("serve", tmp_path, {"TENURE_DATABASE_URL": url})
    with started(process) as client:
        begin(client)
        saved = log(client)
        run(DUMP, tmp_path, environment, tools)
        assert client.post("/v1/clouds/north/instances", json={"id": "after", **START}).status_code == 201
    assert process.interrupt() == 0
    run(RESTORE, tmp_path, environment, tools)
    restored = Process("serve", tmp_path, {"TENURE_DATABASE_URL": environment["RESTORED_URL"]})
    with started(restored) as client:
        assert log(client) == saved
        assert client.post("/v1/clouds/north/instances", json={"id": "before", **START}).status_code == 201
        assert log(client) == saved, "it was decided before the dump, and is not decided again"
        assert client.get("/v1/clouds/north/instances/after").status_code == 404
        assert client.post("/v1/clouds/north/instances", json={"id": "after", **START}).status_code == 201
    assert restored.interrupt() == 0


class Load(Callers):
    """Callers of both processes in turn, each with ids of its own; it keeps what was acknowledged, and all codes."""

    def __init__(self, processes: list[Process]) -> None:
        super().__init__(4)
        self.processes = processes
        self.started: dict[str, int] = {}
        self.seen: set[tuple[int, str]] = set()

    def call(self, client: httpx2.Client, caller: int, number: int) -> None:
        url = f"{self.processes[number % 2].url}/v1/clouds/north/instances"
        name = f"i-{caller}-{number}"
        answer = client.post(url, json={"id": name, **START})
        self.seen.add((answer.status_code, "" if answer.is_success else answer.json()["errors"][0]["code"]))
        if answer.status_code == 201:
            self.started[name] = answer.json()["seq"]
            gone = client.delete(f"{url}/{name}")
            self.seen.add((gone.status_code, "" if gone.is_success else gone.json()["errors"][0]["code"]))

    def wait_for(self, more: int) -> None:
        """Until so many more starts were acknowledged."""
        enough, deadline = len(self.started) + more, time.monotonic() + 60
        while len(self.started) < enough:
            assert time.monotonic() < deadline, self.seen
            time.sleep(0.05)


def restore_beneath(directory: Path, environment: Mapping[str, str], tools: Path) -> None:
    """Repeat a command, as the page says, if it and a statement of the service waited for each other."""
    for _ in range(5):
        try:
            run(RESTORE_BENEATH, directory, environment, tools)
        except AssertionError as error:
            if "deadlock detected" not in str(error):
                raise
        else:
            return
    raise AssertionError("five deadlocks in a row")


def whole_log(client: httpx2.Client, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while page := client.get(f"/v1/clouds/{name}/events?limit=1000&after_seq={len(found)}").json()["events"]:
        found += page
    return found


def epoch(client: httpx2.Client) -> int:
    return int(client.get("/v1/clouds/north/tables/newest").json().get("epoch", 0))


def computed(client: httpx2.Client, beyond: int) -> int:
    """Have a table computed; its epoch."""
    client.post("/v1/clouds/north/tables").raise_for_status()
    deadline = time.monotonic() + 120  # the first one of an installation waits for the compiler
    while epoch(client) <= beyond:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return epoch(client)


ALLOWED = {(201, ""), (204, ""), (404, "preemptible.instance.not_found"), (503, "preemptible.log.unavailable")}


@pytest.mark.parametrize("server", ["shipped"], indirect=True)
def test_a_dump_that_is_put_back_under_running_processes(server: tuple[str, Path], tmp_path: Path) -> None:
    url, tools = server
    environment = {"TENURE_DATABASE_URL": url}
    processes = [Process(command, tmp_path, environment) for command in ("run", "serve")]
    with started(processes[0]) as client, started(processes[1]) as other:
        begin(client)
        first_epoch = computed(client, 0)
        with Load(processes) as load:
            load.wait_for(40)
            dumped = set(load.started)
            run(DUMP, tmp_path, environment, tools)
            computed(client, first_epoch)
            load.wait_for(40)
            with other.stream("GET", f"/v1/clouds/north/events/stream?after_seq={log_end(other)}") as stream:
                restore_beneath(tmp_path, environment, tools)
                frames = stream.read().decode()
            restored = set(load.started)
            load.wait_for(40)
        assert "event: log_put_back" in frames, frames[-500:]
        assert "preemptible.log.put_back" in frames
        assert load.seen <= ALLOWED
        events = whole_log(other, "north")
        assert [event["seq"] for event in events] == [*range(1, len(events) + 1)]
        assert events == whole_log(client, "north")
        kept = {event["id"]: event["seq"] for event in events if event["kind"] == "instance_started"}
        lost = {name for name, seq in load.started.items() if kept.get(name) != seq}
        assert lost, "what was acknowledged after the dump is not in it"
        assert not lost & dumped
        assert not lost - restored, "what was acknowledged after the restore is in the log"
        assert client.get(f"/v1/clouds/north/instances/{min(lost)}").status_code == 404
        assert computed(client, epoch(client)) > first_epoch
        beyond = other.get(f"/v1/clouds/north/events?after_seq={len(events) + 10_000}")
        assert (beyond.status_code, beyond.json()["errors"][0]["code"]) == (409, "preemptible.log.put_back")
    assert [process.interrupt() for process in processes] == [0, 0]
    for process in processes:
        assert "Traceback" not in process.log.read_text()


def log_end(client: httpx2.Client) -> int:
    return int(client.get("/v1/clouds/north").json()["seq"])


@pytest.mark.parametrize("server", ["shipped"], indirect=True)
def test_a_dump_of_an_older_version_that_is_put_back_under_running_processes(
    server: tuple[str, Path], tmp_path: Path
) -> None:
    url, tools = server
    environment = {"TENURE_DATABASE_URL": url}
    processes = [Process(command, tmp_path, environment) for command in ("run", "serve")]
    with started(processes[1]) as client:
        begin(client)
    assert processes[1].interrupt() == 0
    for _ in range(2):
        run(BACK, tmp_path, environment)
    run(DUMP, tmp_path, environment, tools)
    with started(processes[0]) as client, started(processes[1]) as other:
        assert client.post("/v1/clouds/north/instances", json={"id": "after", **START}).status_code == 201
        restore_beneath(tmp_path, environment, tools)
        for one in (client, other):
            wait_until(lambda one=one: one.get("/healthcheck").status_code == 503)
            assert one.get("/healthcheck").text.startswith("preemptible.log.unavailable: the database has schema 00")
            assert "tenure db upgrade" in one.get("/readiness").json()["database"]
            assert 'tenure_left_alone{what="database"} 1.0' in one.get("/metrics").text
            refused = one.post("/v1/clouds/north/instances", json={"id": "no", **START})
            assert (refused.status_code, "tenure db upgrade" in refused.text) == (503, True), refused.text
        run(UPGRADE_BENEATH, tmp_path, environment)
        wait_until(lambda: all(process.is_up() for process in processes))
        assert [client.get(f"/v1/clouds/north/instances/{name}").status_code for name in ("before", "no")] == [200, 404]
        assert client.post("/v1/clouds/north/instances", json={"id": "after", **START}).status_code == 201
        assert computed(other, 0) > 0
    assert [process.interrupt() for process in processes] == [0, 0]
    assert not [process for process in processes if "Traceback" in process.log.read_text()]


def wait_until(holds: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.2)


@pytest.mark.long
@pytest.mark.parametrize("server", ["debian"], indirect=True)  # the tools themselves are tried by the dumps
def test_upgrade_and_back(server: tuple[str, Path], tmp_path: Path) -> None:
    url, _ = server
    environment = {"TENURE_DATABASE_URL": url, "TENURE_DATA_DIR": str(tmp_path)}
    assert f"this program knows {migrations.newest()}" in run(PREPARE, tmp_path, environment)
    run_sql(url, "UPDATE agreement SET log_format = 1")  # as an older version left it
    old, new = (Process("serve", tmp_path, {"TENURE_DATABASE_URL": url}) for _ in range(2))
    with started(old) as client:
        begin(client)
        saved = log(client)
        run(PREPARE, tmp_path, environment)
        assert stand(url).log_format == 1, "the old processes go on"
    assert old.interrupt() == 0
    assert f"schema {migrations.revisions()[-2]}" in run(BACK, tmp_path, environment)
    run(PREPARE, tmp_path, environment)
    run(FINISH, tmp_path, environment)
    assert stand(url).log_format == LOG_FORMAT
    with started(new) as client:
        assert log(client) == saved
    assert new.interrupt() == 0


def test_copy_of_the_data_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    environment = {"TENURE_DATA_DIR": str(data)}
    first, second = Process("serve", tmp_path), Process("serve", tmp_path)
    with started(first) as client:
        begin(client)
        saved = log(client)
    assert first.interrupt() == 0
    run(COPY, tmp_path, environment)
    shutil.rmtree(data)
    run(COPY_BACK, tmp_path, environment)
    with started(second) as client:
        assert log(client) == saved
        assert client.post("/v1/clouds/north/instances", json={"id": "later", **START}).status_code == 201
    assert second.interrupt() == 0


def test_a_dump_without_what_can_be_computed_again(server: tuple[str, Path], tmp_path: Path) -> None:
    url, tools = server
    environment = {"TENURE_DATABASE_URL": url, "RESTORED_URL": on_database(url, "tenure_restored")}
    options = re.findall(r"`(--exclude-table-data=\w+)`", (ROOT / "docs/operations.md").read_text())
    assert len(options) == 2
    run(PREPARE, tmp_path, environment)
    fill = "INSERT INTO snapshot (cloud_id, seq, version, digest, data) VALUES (1, 1, 1, '', '')"
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO cloud (name) VALUES ('north')")
        connection.execute(fill)
    run(DUMP.replace("pg_dump", f"pg_dump {' '.join(options)}"), tmp_path, environment, tools)
    run(RESTORE, tmp_path, environment, tools)
    with psycopg.connect(environment["RESTORED_URL"]) as connection:
        assert connection.execute("SELECT name FROM cloud").fetchall() == [("north",)]
        assert connection.execute("SELECT count(*) FROM snapshot").fetchone() == (0,)
