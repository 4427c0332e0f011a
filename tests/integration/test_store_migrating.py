"""Migrations beside processes that go on: locks, interrupted builds, databases that are too new, and the way back."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from servers import on_database, run_sql, shipped_tools

import migrations
from app.domain.errors import LogNewer, LogUnavailable
from app.platform.database import migrating
from app.platform.database.lockids import MIGRATION_LOCK
from app.platform.database.migrating import DowngradeRefused, downgrade, stand, upgrade

_numbers = count(1)
ROOT = Path(__file__).parents[2]
GO_BACK = {
    *("0002", "0005", "0007", "0008", "0009", "0010", "0011", "0012", "0013", "0014", "0015", "0018"),
    *("0019", "0020", "0021", "0022", "0025", "0026", "0027", "0028", "0029", "0030"),
}
"""Of the others docs/operations.md says why not."""
PUT_BACK = ("--clean", "--if-exists", "--exit-on-error", "--single-transaction", "--no-owner")
FILL = """
INSERT INTO cloud (name, importing) VALUES ('north', false), ('south', true);
INSERT INTO event (cloud_id, seq, kind, version, data)
SELECT 1, seq, 'eviction_risk', 1, jsonb_build_object('at_us', seq, 'instance_id', 'i-' || seq)
FROM generate_series(1, 500) AS seq;
INSERT INTO snapshot (cloud_id, seq, version, digest, data) VALUES (1, 500, 103, 'digest', '\\x00ff');
INSERT INTO quantile_table (cloud_id, epoch, epoch_us, seq, data, wall_s) VALUES (1, 1, 7, 500, '\\x01', 0.5);
INSERT INTO token (name, role, hash, cloud_id) VALUES ('reader', 'reader', '\\xab', 1);
INSERT INTO forecast_run (cloud_id, cause) VALUES (1, 'requested');
INSERT INTO webhook (cloud_id, url, secret, urgent_seq, ordinary_seq) VALUES (1, 'https://example.org/', 's', 1, 2);
INSERT INTO webhook_dead (webhook_id, seq, kind, attempts, error) VALUES (1, 3, 'eviction_risk', 4, 'gone');
"""


@pytest.fixture
def url(embedded_server: str) -> Iterator[str]:
    """An empty database."""
    name = f"tenure_migrating_{next(_numbers)}"
    run_sql(embedded_server, f"CREATE DATABASE {name}")
    yield on_database(embedded_server, name)
    run_sql(embedded_server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Says what it waits for at once, not after ten seconds."""
    monkeypatch.setattr(migrating, "_SAY_EVERY_S", 0.3)
    monkeypatch.setattr(migrating, "_RETRY_S", 0.3)
    monkeypatch.setattr(migrating, "_LOCK_TIMEOUT_MS", 500)


def upgrade_to(url: str, revision: str) -> None:
    with migrating._connected(url) as connection:
        migrating._migrate(connection, "upgrade", revision, 60)


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def wait_for(holds: Callable[[], object], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def content(url: str) -> dict[str, list[str]]:
    """Every row of every table and every index, as text."""
    with psycopg.connect(url) as connection:
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1").fetchall()
        found = {
            name: sorted(row[0] for row in connection.execute(f"SELECT t::text FROM {name} AS t").fetchall())
            for (name,) in names
        }
        indexes = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"
        return found | {"indexes": [row[0] for row in connection.execute(indexes)]}


def test_a_process_that_is_up_to_date_waits_for_no_migration(url: str) -> None:
    upgrade(url)
    with psycopg.connect(url) as stuck:
        stuck.execute("SELECT pg_advisory_lock(%s, %s)", MIGRATION_LOCK)
        began = time.monotonic()
        upgrade(url)
        assert time.monotonic() - began < 5


@pytest.mark.usefixtures("impatient")
def test_a_process_that_is_not_says_what_it_waits_for_and_gives_up(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with psycopg.connect(url) as stuck, caplog.at_level(logging.WARNING):
        stuck.execute("SELECT pg_advisory_lock(%s, %s)", MIGRATION_LOCK)
        with pytest.raises(LogUnavailable, match="gave up after 2 s of waiting for another process"):
            upgrade(url, patience_s=2)
    assert sum("waiting for another process" in line for line in caplog.messages) >= 2
    upgrade(url)
    assert stand(url).revision == migrations.newest()


@pytest.mark.usefixtures("impatient")
def test_a_lock_is_waited_for_in_short_tries_that_hold_nobody_up(url: str, caplog: pytest.LogCaptureFixture) -> None:
    upgrade_to(url, "0003")
    with psycopg.connect(url, application_name="reporting") as reader, caplog.at_level(logging.WARNING):
        reader.execute("SELECT * FROM cloud")
        upgrading = in_background(lambda: upgrade(url))
        wait_for(lambda: any("(reporting) on the server" in line for line in caplog.messages))
        began = time.monotonic()
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("SELECT * FROM cloud")
        assert time.monotonic() - began < 5, "who comes later waits for one try at most"
        assert upgrading.is_alive()
        reader.rollback()
        upgrading.join(60)
    assert stand(url).revision == migrations.newest()


@pytest.mark.usefixtures("impatient")
def test_an_index_is_built_while_others_write(url: str, caplog: pytest.LogCaptureFixture) -> None:
    upgrade_to(url, "0006")
    insert = "INSERT INTO event (cloud_id, seq, kind, version, data) VALUES (9, %s, 'x', 1, '{\"at_us\": 1}')"
    with psycopg.connect(url, application_name="writer") as writer, caplog.at_level(logging.WARNING):
        writer.execute(insert, [1])
        upgrading = in_background(lambda: upgrade(url))
        wait_for(lambda: any("perhaps waiting for process" in line for line in caplog.messages))
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("SET lock_timeout = '2s'")
            other.execute(insert, [2])
        assert upgrading.is_alive()
        writer.commit()
        upgrading.join(60)
    assert stand(url).revision == migrations.newest()


@pytest.mark.usefixtures("impatient")
def test_an_index_whose_build_was_interrupted_is_built_again(url: str) -> None:
    upgrade_to(url, "0006")
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('event_notice')"
    build = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%'"
    failed = []

    def interrupted() -> None:
        with pytest.raises(LogUnavailable):
            upgrade(url)
        failed.append(True)

    with psycopg.connect(url) as writer, psycopg.connect(url, autocommit=True) as watcher:
        writer.execute("INSERT INTO event (cloud_id, seq, kind, version, data) VALUES (9, 1, 'x', 1, '{\"at_us\": 1}')")
        upgrading = in_background(interrupted)
        wait_for(lambda: watcher.execute(valid).fetchone() == (False,))
        assert watcher.execute(build).fetchall() == [(True,)]
        upgrading.join(60)
        assert failed
        assert watcher.execute(valid).fetchone() == (False,)
        writer.commit()
        upgrade(url)
        assert watcher.execute(valid).fetchone() == (True,)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE alembic_version SET version_num = '0099'", "takes programs from schema 0099 on"),
        ("SELECT 1", "log format 99"),
    ],
)
def test_a_database_that_is_too_new_is_refused(url: str, statement: str, said: str) -> None:
    upgrade(url)
    run_sql(url, statement)
    column = "runs_from = '0099'" if "0099" in statement else "log_format = 99"
    run_sql(url, f"UPDATE agreement SET {column}")
    before = content(url)
    with pytest.raises(LogNewer, match=said):
        upgrade(url)
    with pytest.raises(LogNewer, match=said):
        downgrade(url)
    assert content(url) == before


def test_a_newer_schema_that_takes_this_program_is_run_on(url: str, caplog: pytest.LogCaptureFixture) -> None:
    upgrade(url)
    run_sql(url, "UPDATE alembic_version SET version_num = '0099'")
    before = content(url)
    with caplog.at_level(logging.WARNING):
        upgrade(url)
    assert content(url) == before
    assert any("newer than this program, which may run on it" in line for line in caplog.messages)


def test_one_revision_back_and_forth_loses_nothing(url: str) -> None:
    upgrade(url)
    back_to(url, "0021")
    assert downgrade(url).revision == "0020"
    assert downgrade(url).revision == "0019"
    assert downgrade(url).revision == "0018"
    assert downgrade(url).revision == "0015"
    assert downgrade(url).revision == "0014"
    assert downgrade(url).revision == "0013"
    assert downgrade(url).revision == "0012"
    assert downgrade(url).revision == "0011"
    assert downgrade(url).revision == "0010"
    assert downgrade(url).revision == "0009"
    with pytest.raises(DowngradeRefused, match=r"log format \d+ is in force"):
        downgrade(url)
    upgrade(url)
    run_sql(url, "UPDATE agreement SET log_format = 1")
    with psycopg.connect(url) as connection:
        connection.execute(FILL)
    for steps in range(1, 16):
        before = content(url)
        for _ in range(steps):
            downgrade(url)
        assert content(url) != before, "the schema is an older one"
        upgrade(url)
        assert content(url) == before
    earlier = ("0015", "0014", "0013", "0012", "0011", "0010", "0009", "0008", "0007", "0006")
    back_to(url, "0021")
    for revision in ("0020", "0019", "0018", *earlier):
        assert downgrade(url).revision == revision
    with pytest.raises(DowngradeRefused, match="webhooks"):
        downgrade(url)
    assert stand(url).revision == "0006"


def test_venues_keep_their_schema(url: str) -> None:
    upgrade(url)
    run_sql(url, "INSERT INTO venue (name, currency) VALUES ('aws-east', 'USD')")
    words = "venue_id, provider, region, zone, instance_type, product"
    run_sql(url, f"INSERT INTO pool ({words}) VALUES (1, 'a', 'r', 'z', 't', 'p')")
    run_sql(url, "INSERT INTO pool_observation VALUES (1, 'i', 1, 'started')")
    back_to(url, "0021")
    with pytest.raises(DowngradeRefused, match="all observations"):
        downgrade(url)
    assert stand(url).revision == "0021"
    run_sql(url, "DELETE FROM pool_observation")
    assert downgrade(url).revision == "0020"
    assert downgrade(url).revision == "0019"
    assert downgrade(url).revision == "0018"
    with pytest.raises(DowngradeRefused, match="all venues"):
        downgrade(url)
    assert stand(url).revision == "0018"


def test_clusters_keep_their_schema(url: str) -> None:
    upgrade(url)
    run_sql(url, "INSERT INTO cluster (name, spec) VALUES ('lab', '{}')")
    back_to(url, "0021")
    assert downgrade(url).revision == "0020"
    assert downgrade(url).revision == "0019"
    with pytest.raises(DowngradeRefused, match="all clusters"):
        downgrade(url)
    assert stand(url).revision == "0019"


def back_to(url: str, revision: str) -> None:
    while downgrade(url).revision != revision:
        pass


def test_plans_keep_their_schema(url: str) -> None:
    upgrade(url)
    run_sql(url, "INSERT INTO plan (id, request, answer) VALUES ('nightly', '{}', '{}')")
    back_to(url, "0021")
    assert downgrade(url).revision == "0020"
    with pytest.raises(DowngradeRefused, match="all plans"):
        downgrade(url)
    assert stand(url).revision == "0020"


def test_peers_keep_their_schema(url: str) -> None:
    upgrade(url)
    run_sql(url, "INSERT INTO peer (name, url, cloud, secret) VALUES ('b', 'https://example.org', 'b', 's')")
    back_to(url, "0022")
    with pytest.raises(DowngradeRefused, match="all peers"):
        downgrade(url)
    assert stand(url).revision == "0022"


@pytest.mark.parametrize("revision", migrations.revisions())
def test_every_revision_goes_back_or_says_why_not(url: str, revision: str) -> None:
    upgrade_to(url, revision)
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO cloud (name) VALUES ('north')")
        connection.execute(
            "INSERT INTO event (cloud_id, seq, kind, version, data) VALUES (1, 1, 'instance_rejected', 1, "
            '\'{"at_us": 1, "instance_id": "i"}\')'
        )
    before = content(url)
    if revision not in GO_BACK:
        with pytest.raises(DowngradeRefused):
            downgrade(url)
        assert content(url) == before
        return
    assert downgrade(url).revision == migrations.revisions()[migrations.revisions().index(revision) - 1]
    upgrade_to(url, revision)
    assert content(url) == before


@pytest.mark.parametrize("revision", ["0007", "0008", "0009", "0010", "0011"])
def test_a_dump_of_an_older_schema_that_was_put_back_is_brought_forward(
    url: str, revision: str, tmp_path: Path
) -> None:
    """Objects that the dump does not know stay, and those that refer to its tables keep these in place."""
    upgrade_to(url, revision)
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO cloud (name) VALUES ('north')")
    tools, dump = shipped_tools(), tmp_path / "tenure.dump"
    subprocess.run([tools / "pg_dump", "--format=custom", f"--file={dump}", url], check=True)
    upgrade(url)
    before = content(url)
    restore = [tools / "pg_restore", *PUT_BACK, f"--dbname={url}", dump]
    if revision == "0007":
        assert b"other objects depend on it" in subprocess.run(restore, capture_output=True, check=False).stderr
        assert content(url) == before
        return
    subprocess.run(restore, check=True)
    assert stand(url).revision == revision
    upgrade(url)
    assert content(url) == before


def test_the_schema_does_not_go_back_below_running_processes(url: str) -> None:
    upgrade(url)
    with psycopg.connect(url, application_name="tenure"), pytest.raises(DowngradeRefused, match="stop all processes"):
        downgrade(url)
    assert stand(url).revision == migrations.newest()


def test_only_who_finishes_puts_a_log_format_in_force(url: str) -> None:
    upgrade(url)
    assert stand(url).log_format == migrating.LOG_FORMAT, "of a new database it is the newest"
    run_sql(url, "UPDATE agreement SET log_format = 0")
    upgrade(url)
    assert stand(url).log_format == 0
    upgrade(url, finish=True)
    assert stand(url).log_format == migrating.LOG_FORMAT


MIGRATOR = "import sys; from app.platform.database.migrating import upgrade; upgrade(sys.argv[1])"


def test_a_process_that_stands_still_in_a_migration_holds_the_others_up_for_seconds_only(
    url: str, tmp_path: Path
) -> None:
    """It is stopped at a statement that waits for a lock, and then finds itself in a transaction that nobody ends."""
    upgrade_to(url, "0001")
    with psycopg.connect(url) as holder, (tmp_path / "said").open("w+") as said:
        holder.execute("LOCK TABLE cloud IN ACCESS SHARE MODE")
        stopped = subprocess.Popen([sys.executable, "-c", MIGRATOR, url], stderr=said, cwd=ROOT)
        try:
            wait_until(url, "SELECT count(*) FROM pg_locks WHERE NOT granted")
            stopped.send_signal(signal.SIGSTOP)
            holder.rollback()
            begin = time.monotonic()
            upgrade(url, patience_s=60)
            took_s = time.monotonic() - begin
            run_sql(url, "SELECT count(*) FROM cloud")
            stopped.send_signal(signal.SIGCONT)
            assert stopped.wait(60) != 0
        finally:
            stopped.kill()
            stopped.wait()
        said.seek(0)
        assert "stood still for over 5 s and lost its turn" in said.read()
    assert took_s < 20
    assert stand(url).revision == migrations.newest()


def test_a_process_that_holds_the_turn_and_says_nothing_loses_it(url: str) -> None:
    upgrade_to(url, "0001")

    def stall() -> None:
        with migrating._connected(url) as idle, migrating._turn(idle, 1):
            begin = time.monotonic()
            upgrade(url, patience_s=60)
            assert 4 < time.monotonic() - begin < 20
            migrating._revision(idle)

    with pytest.raises(LogUnavailable):
        stall()


def test_a_process_at_a_long_statement_keeps_its_turn(url: str) -> None:
    with migrating._connected(url) as busy, migrating._turn(busy, 1):
        busy.exec_driver_sql("SELECT pg_sleep(8)")
        with pytest.raises(LogUnavailable, match="gave up"):
            upgrade(url, patience_s=1)


def wait_until(url: str, question: str) -> None:
    """Until the answer is not 0."""
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(600):
            if connection.execute(question).fetchone() != (0,):
                return
            time.sleep(0.05)
    raise AssertionError(question)
