"""Database servers with Nova's own schema in them: the PostgreSQL of this project, or MariaDB if it is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pymysql
from sqlalchemy.engine import URL, make_url

from app.platform.database.embedded import embedded_url
from benchmarks.nova_records import COLUMNS

PROGRAMS = Path(os.environ.get("TENURE_OPENSTACK", "/opt/tenure-openstack")) / "bin"
DATABASES = ("cell1", "cell0")
_READY_S = 60
_CONFIGURATION = "[DEFAULT]\nlog_file = {folder}/nova-manage.log\n[database]\nconnection = {url}\n"

Addresses = dict[str, str]
"""The addresses of Nova's databases by their names, as a command takes them."""


def missing(backend: str) -> str | None:
    """Return what has to be installed before a database can be made, for people; None if all is there."""
    if not (PROGRAMS / "nova-manage").exists():
        return f"no Nova in {PROGRAMS}: tools/openstack-install"
    if backend == "mariadb" and shutil.which("mariadbd") is None:
        return "no MariaDB: apt-get install mariadb-server"
    return None


@contextmanager
def nova_stores(backend: str, folder: Path, records: Path) -> Iterator[Addresses]:
    """Run a server in a folder, with databases that Nova's migrations made and the records filled."""
    with (_postgresql if backend == "postgresql" else _mariadb)(folder, records) as addresses:
        yield addresses


def make_schema(url: str, folder: Path) -> None:
    """Make Nova's schema in an empty database, as its operators do."""
    (folder / "nova.conf").write_text(_CONFIGURATION.format(folder=folder, url=url))
    command = [f"{PROGRAMS}/nova-manage", "--config-file", f"{folder}/nova.conf", "db", "sync", "--local_cell"]
    subprocess.run(command, check=True, capture_output=True)


def _fill(records: Path, database: str, load: Callable[[str, Path, str], None]) -> None:
    for table, columns in COLUMNS.items():
        for name in (table, f"shadow_{table}"):
            path = records / f"{database}.{name}"
            if path.stat().st_size:
                load(name, path, ", ".join(columns.split()))


@contextmanager
def _postgresql(folder: Path, records: Path) -> Iterator[Addresses]:
    with embedded_url(folder) as url:
        addresses = {name: _named(url, name) for name in DATABASES}
        with psycopg.connect(url, autocommit=True) as connection:
            first, *others = DATABASES
            connection.execute(f"CREATE DATABASE {first}")
            make_schema(_named(url, first, "postgresql+psycopg2"), folder)
            for name in others:
                connection.execute(f"CREATE DATABASE {name} TEMPLATE {first}")
        for name, address in addresses.items():
            with psycopg.connect(address, autocommit=True) as filled:
                filled.execute("SET session_replication_role = replica")

                def load(table: str, path: Path, columns: str, filled: psycopg.Connection = filled) -> None:
                    with filled.cursor().copy(f"COPY {table} ({columns}) FROM STDIN") as copy, path.open("rb") as file:
                        while piece := file.read(1 << 20):
                            copy.write(piece)

                _fill(records, name, load)
                filled.execute("ANALYZE")
        yield addresses


def _named(url: str, database: str, driver: str = "postgresql") -> str:
    return make_url(url).set(drivername=driver, database=database).render_as_string(hide_password=False)


@contextmanager
def _mariadb(folder: Path, records: Path) -> Iterator[Addresses]:
    data, socket = folder / "data", folder / "socket"
    common = ["--no-defaults", f"--datadir={data}", "--user=root"]
    made = ["mariadb-install-db", *common, "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(made, check=True, capture_output=True)
    served = ["mariadbd", *common, f"--socket={socket}", "--skip-networking", f"--pid-file={folder / 'pid'}"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([*served, "--innodb-buffer-pool-size=1G"], stdout=log, stderr=log)
    try:
        url = URL.create("mysql+pymysql", "root", host="localhost", query={"unix_socket": str(socket)})
        yield _filled_mariadb(url, folder, records)
    finally:
        server.terminate()
        server.wait()


def _filled_mariadb(url: URL, folder: Path, records: Path) -> Addresses:
    connection = _connected(folder / "socket")
    with connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
        cursor.execute("SET foreign_key_checks = 0, unique_checks = 0")
        for name in DATABASES:
            cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb3")
            address = url.set(database=name).render_as_string(hide_password=False)
            make_schema(address, folder)
            cursor.execute(f"USE {name}")

            def load(table: str, path: Path, columns: str) -> None:
                cursor.execute(f"LOAD DATA INFILE '{path}' INTO TABLE {table} ({columns})")

            _fill(records, name, load)
    return {
        name: url.set(drivername="mysql", database=name).render_as_string(hide_password=False) for name in DATABASES
    }


def _connected(socket: Path) -> pymysql.Connection:
    deadline = time.monotonic() + _READY_S
    while True:
        try:
            return pymysql.connect(unix_socket=str(socket), user="root", autocommit=True)
        except pymysql.err.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
