"""Two builds on one database, in the order of docs/operations.md, *Upgrading*: an older commit beside this tree.

Not part of `make test`, because the older build compiles its engine anew. `make two-builds` runs it; OLDER_BUILD names
another commit. The default is the last one that knows log format 6 alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from processes import HEADERS, Callers, Process, audited, tenure
from servers import on_database, run_sql

from app.domain.events.formats import LOG_FORMAT

ROOT = Path(__file__).parents[2]
OLDER = os.environ.get("OLDER_BUILD", "b5240a6e")
START = {"market": "spot", "flavor": "small", "lifetime_s": 60}
CODE = "preemptible.log.newer"


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The older build's files."""
    folder = tmp_path_factory.mktemp("older")
    archive = subprocess.run(["git", "archive", OLDER], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"the history of this repository does not hold {OLDER}: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


class OlderProcess(Process):
    """A process of the older build, by this environment's libraries."""

    def __init__(self, build: Path, command: str, directory: Path, environment: dict[str, str]) -> None:
        super().__init__(command, directory, environment)
        self.build = build
        path = os.pathsep.join([str(build), str(build / "clients/tenure-client")])
        self.environment = {**self.environment, "PYTHONPATH": path}

    def spawn(self) -> subprocess.Popen[bytes]:
        with self.log.open("a") as log:
            arguments = [sys.executable, "-m", "app.cli", self.command]
            return subprocess.Popen(arguments, cwd=self.build, env=self.environment, stdout=log, stderr=log)

    def start(self) -> None:
        self.process = self.spawn()
        for _ in range(1800):
            if self.is_up():
                return
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.1)
        raise AssertionError(f"not up within three minutes:\n{self.log.read_text()}")


class Load(Callers):
    """Starts at one process and stops at the other, in turn. Every answer is the documented one or is kept as wrong."""

    def __init__(self, urls: list[str]) -> None:
        super().__init__(3)
        self.urls = urls
        self.pairs = 0
        self.wrong: list[tuple[int, str]] = []

    def call(self, client: httpx2.Client, caller: int, number: int) -> None:
        name = f"i-{id(self)}-{caller}-{number}"
        first, second = (f"{self.urls[(number + turn) % 2]}/v1/clouds/north/instances" for turn in (0, 1))
        self._expect(201, client.post(first, json={"id": name, **START}))
        self._expect(200, client.get(f"{second}/{name}"))
        self._expect(204, client.delete(f"{second}/{name}"))
        self._expect(201, client.post(first, json={"id": name, **START}))  # a repetition: the same answer
        self.pairs += 1

    def _expect(self, status: int, answer: httpx2.Response) -> None:
        if answer.status_code != status:
            self.wrong.append((answer.status_code, answer.text))

    def wait_for(self, pairs: int) -> None:
        end = time.monotonic() + 120
        while self.pairs < pairs:
            assert time.monotonic() < end, self.wrong[:3]
            time.sleep(0.1)


@pytest.fixture
def url(embedded_server: str) -> Iterator[str]:
    run_sql(embedded_server, "CREATE DATABASE tenure_two_builds")
    yield on_database(embedded_server, "tenure_two_builds")
    run_sql(embedded_server, "DROP DATABASE tenure_two_builds WITH (FORCE)")


def policy(process: Process, **changes: object) -> httpx2.Response:
    return httpx2.patch(f"{process.url}/v1/clouds/north", json={"policy": changes}, headers=HEADERS, timeout=30)


def code_of(answer: httpx2.Response) -> str:
    return str(answer.json()["errors"][0]["code"])


def test_an_upgrade_with_the_older_build_running(older: Path, url: str, tmp_path: Path) -> None:
    environment = {"TENURE_DATABASE_URL": url}
    old, new = OlderProcess(older, "serve", tmp_path, environment), Process("run", tmp_path, environment)
    try:
        old.start()
        upgrade_beside(old, new, url, tmp_path)
    finally:
        old.process.kill()
        old.process.wait()


def upgrade_beside(old: OlderProcess, new: Process, url: str, tmp_path: Path) -> None:
    with httpx2.Client(base_url=old.url, headers=HEADERS, timeout=30) as client:
        client.post("/v1/clouds", json={"name": "north", "policy": {"guarantee": "none"}}).raise_for_status()
        client.post("/v1/clouds/north/nodes", json={"name": "node-0", "cores": 64}).raise_for_status()
        client.post("/v1/clouds/north/flavors", json={"name": "small", "cores": 1}).raise_for_status()
    was = tenure("db", "status", "--json", "--database-url", url).stdout
    knows_less = json.loads(was)["log_format"] < LOG_FORMAT
    assert tenure("db", "upgrade", "--database-url", url).returncode == 0
    new.start()
    try:
        with Load([old.url, new.url]) as load:
            load.wait_for(150)
            for number, process in enumerate((old, new, old, new)):
                assert policy(process, seed=number + 1).status_code == 200
            if knows_less:
                refused = labelled_start(new)
                assert (refused.status_code, code_of(refused)) == (409, "preemptible.log.format_not_in_force")
            load.wait_for(300)
        assert load.wrong == []
        for process in (old, new):
            assert httpx2.get(f"{process.url}/v1/clouds/north", headers=HEADERS).json()["policy"]["seed"] == 4
        assert tenure("db", "upgrade", "--finish", "--database-url", url).returncode == 0
        if knows_less:
            check_shut_out(old, url)
        assert labelled_in_time(new).status_code == 201
        with Load([new.url, new.url]) as alone:
            alone.wait_for(50)
        assert alone.wrong == []
        rows = audited(new, "north", tmp_path / "log.csv")
        assert [int(row["seq"]) for row in rows] == [*range(1, len(rows) + 1)]
        assert "Traceback" not in old.log.read_text() + new.log.read_text()
        sys.stdout.write(f"{OLDER}: {was.strip()}; {load.pairs} starts and stops at both, {len(rows)} events\n")
    finally:
        new.interrupt()


def labelled_start(new: Process) -> httpx2.Response:
    """A start with a label, for which log format 6 has no words."""
    body = {"id": "labelled", **START, "project": "p-1"}
    return httpx2.post(f"{new.url}/v1/clouds/north/instances", json=body, headers=HEADERS, timeout=30)


def labelled_in_time(new: Process) -> httpx2.Response:
    """The process notices the newer format within five seconds."""
    for _ in range(100):
        started = labelled_start(new)
        if started.status_code == 201:
            break
        time.sleep(0.1)
    return started


def check_shut_out(old: OlderProcess, url: str) -> None:
    """The older build turns unready, refuses, and does not start again."""
    for _ in range(150):
        if not old.is_up():
            break
        time.sleep(0.1)
    refused = httpx2.post(f"{old.url}/v1/clouds/north/instances", json={"id": "no", **START}, headers=HEADERS)
    assert (refused.status_code, code_of(refused)) == (503, CODE)
    old.kill()
    before = old.log.stat().st_size
    again = old.spawn()
    assert again.wait(120) == 3
    said = old.log.read_text()[before:]
    assert "a newer version of Tenure" in said
    assert "Traceback" not in said
