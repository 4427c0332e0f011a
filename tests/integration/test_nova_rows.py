"""Rows of Nova's with values that nobody expects: counted or named, and never the end of the other rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from sqlalchemy.engine import make_url

from app.domain.inputs import InputError
from app.domain.servers import ServerStretch, is_possible
from app.nova.past.store.databases import NovaDatabases, check_url

_TABLES = """
CREATE TABLE {0}instances (id int, uuid text, vcpus int, memory_mb int, root_gb int, ephemeral_gb int,
  instance_type_id int, created_at timestamp, launched_at timestamp, terminated_at timestamp, deleted_at timestamp,
  updated_at timestamp, deleted int DEFAULT 0, hidden boolean, host text, vm_state text);
CREATE TABLE {0}instance_extra (instance_uuid text, flavor text);
CREATE TABLE {0}instance_actions (id int, instance_uuid text);
CREATE TABLE {0}instance_actions_events (id int, action_id int, finish_time timestamp, event text, result text);
CREATE TABLE {0}migrations (id int, instance_uuid text, created_at timestamp, old_instance_type_id int,
  new_instance_type_id int);
CREATE TABLE {0}compute_nodes (id int, hypervisor_hostname text, vcpus int, memory_mb int, local_gb int,
  cpu_allocation_ratio float, ram_allocation_ratio float, disk_allocation_ratio float, created_at timestamp,
  deleted_at timestamp, deleted int DEFAULT 0);
"""
_ROW = (
    "INSERT INTO instances VALUES (%s, %s, %s, 1024, 10, 0, 1, '2026-01-01', %s, %s, NULL, NULL, 1, false, 'h', 'gone')"
)
_SOON, _LATER = "2026-01-01 00:01:00", "2026-01-02"


@pytest.fixture
def nova(database_url: str) -> Iterator[tuple[psycopg.Connection, NovaDatabases]]:
    """An empty database with the columns of Nova's that are read."""
    url = make_url(database_url).set(drivername="postgresql")
    with closing(psycopg.connect(url.render_as_string(hide_password=False), autocommit=True)) as there:
        there.execute("DROP SCHEMA IF EXISTS nova_rows CASCADE")
        there.execute("CREATE SCHEMA nova_rows")
        there.execute("SET search_path TO nova_rows")
        for prefix in ("", "shadow_"):
            there.execute(_TABLES.format(prefix))  # type: ignore[call-overload]
        here = url.update_query_dict({"options": "-csearch_path=nova_rows"})
        try:
            yield there, NovaDatabases([check_url(here.render_as_string(hide_password=False))], None, None)
        finally:
            there.execute("DROP SCHEMA nova_rows CASCADE")


def stretches(source: NovaDatabases) -> dict[str, ServerStretch]:
    return {piece.server: piece for piece in source.pieces() if isinstance(piece, ServerStretch)}


@pytest.mark.parametrize(
    "times",
    [
        (_SOON, "infinity"),
        ("-infinity", _LATER),
        (_SOON, "294276-12-31"),
        ("1969-12-31", _LATER),
        ("0044-03-15 BC", "infinity"),
    ],
)
def test_a_time_that_cannot_be_one_stops_no_other_row(
    nova: tuple[psycopg.Connection, NovaDatabases], times: tuple[str, str]
) -> None:
    there, source = nova
    there.execute(_ROW, (1, "good", 2, _SOON, _LATER))
    there.execute(_ROW, (2, "poisoned", 2, *times))
    there.execute(_ROW, (3, "good too", 2, _SOON, _LATER))
    found = stretches(source)
    assert {name: is_possible(one) for name, one in found.items()} == {
        "good": True,
        "poisoned": False,
        "good too": True,
    }
    assert found["good"] == found["good too"]._replace(server="good")


@pytest.mark.parametrize(
    "kept",
    [
        '{"cur": {"nova_object.data": {"name": "f", "vcpus": 2, "memory_mb": 1024, "root_gb": 10, "ephemeral_gb": 0, '
        '"swap": 1e999, "extra_specs": {}}}}',
        '{"cur": {"nova_object.data": {"name": "f", "vcpus": 2, "memory_mb": 1024, "root_gb": 10, "ephemeral_gb": 0, '
        '"swap": 0, "extra_specs": ["spot"]}}}',
        '{"cur": {"nova_object.data": {"name": "f", "vcpus": 1.5, "memory_mb": 1024, "root_gb": 10, "ephemeral_gb": 0, '
        '"swap": 0, "extra_specs": {}}}}',
    ],
)
def test_a_flavor_that_cannot_be_read_leaves_the_rows_own_size(
    nova: tuple[psycopg.Connection, NovaDatabases], kept: str
) -> None:
    there, source = nova
    there.execute(_ROW, (1, "odd", 2, _SOON, _LATER))
    there.execute("INSERT INTO instance_extra VALUES ('odd', %s)", (kept,))
    assert stretches(source)["odd"].size == (2, 1024, 10)


def test_what_no_rule_can_take_is_named(
    nova: tuple[psycopg.Connection, NovaDatabases], monkeypatch: pytest.MonkeyPatch
) -> None:
    def strange(*_: object) -> None:
        raise ValueError("strange")

    there, source = nova
    there.execute(_ROW, (7, "odd", 2, _SOON, _LATER))
    monkeypatch.setattr("app.nova.past.store.databases.stretches_of", strange)
    with pytest.raises(InputError, match=r"row 7 of instances, server odd, cannot be read: ValueError\('strange'\)"):
        stretches(source)
