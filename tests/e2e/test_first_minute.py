"""The first minute of a newcomer: taken ports, wrong settings, folders of their own, databases that are not there."""

from __future__ import annotations

import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import httpx2
import psutil
import pytest
from processes import begun, ran
from servers import on_database, run_sql

from benchmarks.ports import free_port

COMMAND = Path(sys.executable).with_name("tenure")
PREFIX = "TENURE_"


def clean(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)} | dict(more or {})


def tenure(
    *arguments: str, cwd: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder."""
    return ran(arguments, clean(environment), cwd)


class Running:
    """`tenure COMMAND` in a folder of its own, and what it says. The installed command itself if it `loads` itself."""

    def __init__(
        self, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None, loads: bool = False
    ) -> None:
        self.file = folder / f"said-{time.monotonic_ns()}"
        with self.file.open("w") as said:
            command = [str(COMMAND), *arguments]
            self.process = (
                subprocess.Popen(command, cwd=folder, env=clean(environment), stdout=said, stderr=said)
                if loads
                else begun(arguments, clean(environment), said, said, folder)
            )

    def said(self) -> str:
        return self.file.read_text()

    def wait_for(self, text: str, seconds: float = 120) -> str:
        give_up_at = time.monotonic() + seconds
        while text not in self.said():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < give_up_at, self.said()
            time.sleep(0.1)
        return self.said()

    def token(self) -> str:
        found = re.search(r"export TENURE_TOKEN=(\S+)", self.wait_for("Tenure is ready"))
        assert found, self.said()
        return found[1]

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)


def living_in(folder: Path) -> list[psutil.Process]:
    """The processes of a folder. One without a command line has been killed, and is just ending."""
    return [p for p in psutil.process_iter(["cmdline", "cwd"]) if str(folder) in str(p.info)]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    left = living_in(tmp_path)
    give_up_at = time.monotonic() + 10
    while any(not process.info["cmdline"] for process in left) and time.monotonic() < give_up_at:
        time.sleep(0.05)
        left = living_in(tmp_path)
    told = [str(process.info["cmdline"]) for process in left]
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    assert told == [], "nothing is left behind"


def status_with(port: int, token: str) -> int:
    return httpx2.get(f"http://127.0.0.1:{port}/v1/clouds", headers={"X-Auth-Token": token}, timeout=30).status_code


# --- the admin token -------------------------------------------------------------------------------------------------


def test_a_taken_port_costs_nothing(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = tenure("run", "--port", str(port), cwd=folder)
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr
    assert "TENURE_PORT" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / ".tenure").exists(), "no database was made, and so no token"


@pytest.mark.parametrize("host", ["nowhere.invalid", "192.0.2.1", "a" * 64 + ".example"])
def test_a_host_that_is_not_this_machine_is_named(folder: Path, host: str) -> None:
    done = tenure("serve", "--port", "0", cwd=folder, environment={"TENURE_HOST": host})
    assert done.returncode == 2
    assert done.stderr.startswith(f"tenure: cannot listen on the host '{host}': ")
    assert done.stderr.endswith("name an address of this machine with --host or TENURE_HOST\n")
    assert len(done.stderr.splitlines()) == 1
    assert list(folder.iterdir()) == []


def test_the_admin_token_is_shown_until_it_is_used(folder: Path) -> None:
    port, tokens = free_port(), []
    for _ in range(2):
        running = Running(folder, "serve", "--port", str(port))
        tokens.append(running.token())
        beside = Running(folder, "serve", "--port", str(free_port()))
        told = beside.wait_for("Tenure is ready")
        assert "export TENURE_TOKEN" not in told, "the one that is shown by a running process stays"
        assert f"tenure token create NAME --role admin --data-dir {folder / '.tenure'}" in told
        beside.stop()
        if len(tokens) == 2:
            assert [status_with(port, token) for token in tokens] == [401, 200]
        running.stop()
    running = Running(folder, "serve", "--port", str(port))
    told = running.wait_for("Tenure is ready")
    assert "export TENURE_TOKEN" not in told
    command = re.search(r"tenure (token create \S+ .*)$", told, re.MULTILINE)[1]
    made = tenure(*command.split(), cwd=folder.parent)
    assert made.returncode == 0, made.stderr
    assert status_with(port, made.stdout.strip()) == 200
    running.stop()


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "environment", "named"),
    [
        (["run"], {"TENURE_PORT": "http"}, "TENURE_PORT: write a whole number"),
        (["run", "--port", "70000"], {}, "TENURE_PORT (given as an option): must be at most 65535"),
        (["serve"], {"TENURE_LOG_LEVEL": "chatty"}, "TENURE_LOG_LEVEL: must be 'debug', 'info'"),
        (["worker"], {"TENURE_DATABASE_URL": "mysql://x/y"}, "TENURE_DATABASE_URL: the database URL must begin with"),
        (["db", "upgrade", "--data-dir", "/dev/null"], {}, "TENURE_DATA_DIR (given as an option): /dev/null is not"),
        (["token", "list"], {"TENURE_ADMIN_TOKEN": "short"}, "TENURE_ADMIN_TOKEN: must have at least 12 characters"),
        (
            ["run"],
            {"TENURE_ADMIN_TOKEN": "schl\N{LATIN SMALL LETTER U WITH DIAERESIS}ssel-des-hauses"},
            "TENURE_ADMIN_TOKEN: must consist of",
        ),
        (["run"], {"TENURE_ADMIN_TOKEN": "a token with spaces"}, "TENURE_ADMIN_TOKEN: must consist of ASCII letters"),
        (["worker", "--port", "x"], {}, "TENURE_WORKER_PORT (given as an option): write a whole number"),
        (["run", "--host", ""], {}, "TENURE_HOST (given as an option): the value is empty"),
        (["run", "--port", " "], {}, "TENURE_PORT (given as an option): the value is empty"),
        (["db", "upgrade", "--data-dir", ""], {}, "TENURE_DATA_DIR (given as an option): the value is empty"),
        (["worker", "--database-url", ""], {}, "TENURE_DATABASE_URL (given as an option): the value is empty"),
        (["db", "upgrade"], {"TENURE_DATA_DIR": "/proc/x"}, "the data directory /proc/x cannot be used: "),
        (["db", "upgrade"], {"TENURE_DATA_DIR": "/proc"}, "the data directory /proc cannot be used: "),
    ],
)
def test_a_bad_setting_is_a_sentence(folder: Path, arguments: list[str], environment: dict[str, str], named: str):
    done = tenure(*arguments, cwd=folder, environment=environment)
    assert done.returncode == 2
    assert done.stderr.startswith(f"tenure: {named}")
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert list(folder.iterdir()) == [], "and nothing is made"


def test_a_mistyped_variable_is_told_of(folder: Path) -> None:
    done = tenure(
        "token", "list", cwd=folder, environment={"TENURE_DATADIR": "elsewhere", "TENURE_TOKEN": "x", "TENURE_FOO": "1"}
    )
    assert "tenure: TENURE_DATADIR is not a setting and is ignored; did you mean TENURE_DATA_DIR?" in done.stderr
    assert "tenure: TENURE_FOO is not a setting and is ignored\n" in done.stderr, "nothing resembles it"
    assert "TENURE_TOKEN is not" not in done.stderr


def test_the_version(folder: Path) -> None:
    assert re.fullmatch(r"tenure \d+\.\d+\.\d+\n", tenure("--version", cwd=folder).stdout)


# --- databases that are not there ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["token", "list"], ["import", "north", "past.csv", "--nodes", "2x2"]])
def test_no_command_makes_a_database_unasked(folder: Path, command: list[str]) -> None:
    past = folder / "past.csv"
    past.write_text("start_s,lifetime_s,cores\n0,60,1\n")
    done = tenure(*command, cwd=folder)
    assert done.returncode == 3, done.stderr
    assert f"the service's own PostgreSQL in {folder / '.tenure'}" in done.stderr
    assert "tenure db upgrade" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["past.csv"]


def test_only_upgrade_sets_a_database_up(folder: Path, embedded_server: str) -> None:
    """A database of nobody's, on the server of the tests."""
    run_sql(embedded_server, "DROP DATABASE IF EXISTS first_minute")
    run_sql(embedded_server, "CREATE DATABASE first_minute")
    there = ["--database-url", on_database(embedded_server, "first_minute")]
    before = tenure("token", "list", *there, cwd=folder)
    assert before.returncode == 3
    assert "holds nothing of Tenure's" in before.stderr
    assert tenure("db", "upgrade", *there, cwd=folder).returncode == 0
    after = tenure("token", "list", "--json", *there, cwd=folder)
    assert (after.returncode, after.stdout) == (0, '{"tokens": []}\n')
    assert "/first_minute" in after.stderr
    run_sql(embedded_server, "DROP DATABASE first_minute")


# --- the caller's folder ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("environment", [{}, {"PYTHONPATH": "."}], ids=["folder", "PYTHONPATH"])
def test_packages_of_the_callers_own_break_nothing(folder: Path, environment: dict[str, str]) -> None:
    for name in ("app", "migrations"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise RuntimeError('the package of the caller')\n")
    running = Running(
        folder, "run", "--port", str(free_port()), "--data-dir", "data", environment=environment, loads=True
    )
    said = running.wait_for("Tenure is ready")
    assert "worker ready" in said
    assert "the worker ended" not in said
    assert "the package of the caller" not in said
    assert (folder / "data/postgres").is_dir()
    running.stop()


def test_run_is_ready_when_the_worker_is(folder: Path) -> None:
    """The worker cannot have its port; a reason, longer pauses, and no word of being ready until it is free."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        worker_port = taken.getsockname()[1]
        running = Running(
            folder, "run", "--port", str(free_port()), environment={"TENURE_WORKER_PORT": str(worker_port)}
        )
        said = running.wait_for("it is started again in 2 s")
        assert f"the worker ended: cannot listen on 127.0.0.1:{worker_port}: Address already in use" in said
        assert "it is started again in 1 s" in said
        assert "Tenure is ready" not in said
        assert "Traceback" not in said
    said = running.wait_for("Tenure is ready")
    url = re.search(r"export TENURE_URL=(\S+)", said)[1]
    page = httpx2.get(url, headers={"Accept": "text/html,*/*;q=0.8"})
    assert (page.status_code, page.headers["Location"]) == (303, "/ui"), "a browser is sent to the pages"
    assert httpx2.get(url).json()["versions"]
    found = tenure("status", cwd=folder, environment={"TENURE_URL": url, "TENURE_TOKEN": running.token()})
    assert (found.returncode, "no clouds yet" in found.stdout) == (0, True), found.stdout + found.stderr
    assert "tenure import north past.csv --nodes 8x4" in found.stdout, "the next command"
    running.stop()
    assert running.process.returncode == 0


def test_run_waits_for_its_database_and_says_why(folder: Path) -> None:
    url = f"postgresql://a:secret@127.0.0.1:{free_port()}/x"
    running = Running(folder, "run", "--port", "0", environment={"TENURE_DATABASE_URL": url})
    said = running.wait_for("the database cannot be reached yet")
    assert "Connection refused" in running.wait_for("Connection refused", 5)
    assert "secret" not in said
    time.sleep(2)
    assert running.process.poll() is None, "it tries again"
    running.process.kill()
    running.process.wait()


# --- what the console says -------------------------------------------------------------------------------------------


def test_stopping_is_said_at_the_first_interrupt(folder: Path) -> None:
    running = Running(
        folder, "run", "--port", str(free_port()), environment={"TENURE_LOG_REQUESTS": "false"}, loads=True
    )
    said = running.wait_for("Tenure is ready")
    told = [line.split(" (")[0] for line in said.splitlines()[:4]]
    assert told == [
        "loading",
        "preparing the engine; a first start compiles it, which may take some minutes",
        f"starting the service's own PostgreSQL in {folder / '.tenure'}",
        "starting the API and the worker",
    ]
    assert "alembic" not in said
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(60) == 0
    assert "stopping" in running.said()


def test_a_terminals_interrupts(folder: Path) -> None:
    """Ctrl-C in a terminal reaches the whole foreground; twice, so the worker is not waited for."""
    ours, theirs = pty.openpty()
    arguments = [str(COMMAND), "run", "--port", str(free_port())]
    process = subprocess.Popen(
        arguments, cwd=folder, env=clean({"TERM": "xterm"}), stdin=theirs, stdout=theirs, stderr=theirs,
        preexec_fn=lambda: os.login_tty(os.dup(theirs)),  # noqa: PLW1509 - it starts no thread
    )  # fmt: skip
    os.close(theirs)
    said = b""
    while b"TENURE_URL=" not in said:
        said += os.read(ours, 1 << 16)
    (worker,) = [p for p in psutil.Process(process.pid).children() if "worker" in p.cmdline()]
    worker.suspend()  # one that does not listen
    began = time.monotonic()
    os.write(ours, b"\x03")
    time.sleep(1)
    os.write(ours, b"\x03")
    try:
        while part := os.read(ours, 1 << 16):
            said += part
    except OSError:  # the other end is closed
        pass
    assert process.wait(30) == 0, said
    assert time.monotonic() - began < 15, "the worker alone would have been given 30 s"
    assert b"stopping; Ctrl-C once more stops at once" in said
    assert b"Traceback" not in said
    assert not re.search("[\u2800-\u28ff]", said.decode()), "a spinner runs into the lines of the log"
    os.close(ours)


def test_a_start_can_be_interrupted(folder: Path) -> None:
    running = Running(folder, "run", "--port", str(free_port()), loads=True)
    running.wait_for("starting the service's own PostgreSQL")
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(60) == 0
    said = running.said()
    assert "stopping" in said
    assert "Traceback" not in said
    assert "Tenure is ready" not in said
