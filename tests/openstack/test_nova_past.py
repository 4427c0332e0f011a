"""Nova's past on the schema that Nova's own migrations make: read, exported, imported, on PostgreSQL and MariaDB."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from app.platform.database.embedded import embedded_url
from benchmarks.nova_records import SECRETS, Draw, Drawn
from benchmarks.nova_stores import Addresses, missing, nova_stores

pytestmark = [pytest.mark.real_parts, pytest.mark.timeout(900)]

ROWS, RUNNING = 2_000, 60


def tenure(*arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app.cli", *arguments]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


class Nova(NamedTuple):
    """Nova's databases, and the counts that were drawn."""

    addresses: Addresses
    drawn: Drawn
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"TENURE_NOVA_DATABASE": self.addresses["cell1"], "TENURE_NOVA_CELLS": self.addresses["cell0"]}

    def imported(self, *arguments: str, **variables: str) -> dict[str, Any]:
        done = tenure("import", "north", *arguments, "--json", environment=self.environment | variables)
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def exported(self, name: str, *arguments: str) -> list[str]:
        out = self.folder / name
        key = str(self.folder / "key")
        done = tenure("nova", "export", "--key", key, "--out", str(out), *arguments, environment=self.environment)
        assert done.returncode == 0, done.stderr
        with gzip.open(out, "rt") as lines:
            return lines.read().splitlines()


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def nova(request: pytest.FixtureRequest) -> Iterator[Nova]:
    if (why := missing(request.param)) is not None:
        pytest.skip(why)
    with open_folder() as folder:
        records, store = folder / "records", folder / "store"
        records.mkdir()
        store.mkdir()
        draw = Draw(records, ROWS, RUNNING)
        draw.write()
        with nova_stores(request.param, store, records) as addresses:
            yield Nova(addresses, draw.drawn, folder)


@contextmanager
def open_folder() -> Iterator[Path]:
    """Make a folder that the users of the databases may enter, for this block. Those of pytest are closed to them."""
    with tempfile.TemporaryDirectory(prefix="tenure-past-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def rules(report: dict[str, Any]) -> dict[str, int]:
    return {rule["rule"]: rule["count"] for rule in report["rules"]}


def test_every_row_is_accounted_for(nova: Nova) -> None:
    report = nova.imported("--from", "nova", "--dry-run", "--since", "2021-01-01")
    drawn, found = nova.drawn, rules(report)
    assert report["record"]["rows"] == ROWS == drawn.rows
    assert report["record"]["unmet_demand"]["servers"] == found["unmet_demand"] == drawn.unmet > 0
    assert found["resized"] == drawn.resized > 0
    assert found["shelved"] == drawn.shelved > 0
    assert found["running_at_end"] == drawn.running > 0
    began = report["on_demand"]["requested"] + report["spot"]["requested"]
    assert began == ROWS - drawn.unmet + drawn.resized + drawn.shelved
    assert report["spot"]["requested"] > 0
    assert "size_of_later" not in found
    assert "began_before" not in found
    assert set(report["flavors"]) == {"m1.small", "m1.medium", "m1.large", "m1.xlarge"}
    assert report["record"]["overcommit"] == [{"nodes": report["nodes"], "cores": 4.0, "memory": 1.0, "disk": 1.0}]
    assert report["cores"] == report["nodes"] * 128


def test_the_record_begins_with_the_first_end_that_is_left(nova: Nova) -> None:
    report = nova.imported("--from", "nova", "--dry-run")
    assert report["begins_at"] == report["record"]["whole_from"]
    assert rules(report)["began_before"] > 0


def test_an_import_runs_twice_and_writes_once(nova: Nova) -> None:
    with open_folder() as folder, embedded_url(folder) as url:
        tenure("db", "upgrade", environment={"TENURE_DATABASE_URL": url})
        first = nova.imported("--from", "nova", "--wait", "0s", TENURE_DATABASE_URL=url)
        again = nova.imported("--from", "nova", "--wait", "0s", TENURE_DATABASE_URL=url)
        with psycopg.connect(url) as connection:
            rows = connection.execute(
                "SELECT data->>'flavor', data->'demand' FROM event WHERE kind = 'flavor_added'"
            ).fetchall()
    assert first["events"]["written"] > ROWS
    assert again["events"] == {"written": 0, "there_before": first["events"]["written"]}
    assert dict(rows)["m1.large"] == [4, 8192, 40]


def test_an_export_names_nobody_and_gives_the_same_past(nova: Nova) -> None:
    lines = nova.exported("past.gz")
    text = "\n".join(lines)
    assert min(nova.drawn.secrets[secret] for secret in SECRETS) > 0
    assert [secret for secret in SECRETS if secret in text] == []
    assert "example" not in text
    assert "192.0.2" not in text
    direct = nova.imported("--from", "nova", "--dry-run")
    carried = nova.imported(str(nova.folder / "past.gz"), "--dry-run", "--times", "recorded")
    for name in ("record", "on_demand", "spot", "begins_at", "ends_at", "cores", "running", "events"):
        assert carried[name] == direct[name], name
    assert nova.exported("again.gz")[1:] == lines[1:]
    assert (nova.folder / "key").stat().st_mode & 0o777 == 0o600


def test_what_is_refused_changes_nothing(nova: Nova, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("mine")
    short = tmp_path / "short"
    short.write_bytes(b"x")
    address = nova.addresses["cell1"]
    other = address.replace("/cell1", "/tenure" if address.startswith("postgresql") else "/mysql")
    cases = {
        ("--out", str(there)): "is there already",
        ("--key", str(short), "--out", str(tmp_path / "x")): "at least 16 bytes",
        ("--database", "oracle://db/nova", "--out", str(tmp_path / "x")): "PostgreSQL, MySQL or MariaDB",
        ("--database", "nonsense", "--out", str(tmp_path / "x")): "is written postgresql://",
        ("--database", other, "--out", str(tmp_path / "x")): "cannot be read",
        ("--since", "yesterday", "--out", str(tmp_path / "x")): "is no time",
    }
    for arguments, why in cases.items():
        done = tenure("nova", "export", *arguments, environment=nova.environment)
        assert done.returncode == 2, done.stderr
        assert why in done.stderr
    assert there.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["short", "there"]


def test_reading_writes_nothing(nova: Nova) -> None:
    """The transaction itself is refused a write, whatever the statement."""
    program = (
        "import sys; from app.nova.past.store import databases\n"
        "with databases.told_of_databases(), databases._reading(databases.check_url(sys.argv[1])) as connection:\n"
        "    connection.exec_driver_sql('DELETE FROM migrations')"
    )
    command = [sys.executable, "-c", program, nova.addresses["cell1"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert "read-only" in done.stderr.lower() or "read only" in done.stderr.lower()
