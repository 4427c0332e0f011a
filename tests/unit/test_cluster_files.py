"""The small files of a cluster: whole or not at all, bounded, and no reason for a manager to end; and its addresses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.clusters.rules.wanted import cluster_of_toml
from app.managing.events import Events
from app.managing.files import put, read_object
from app.managing.machines import Namespaces
from app.managing.reporting import _next_lines
from app.managing.slurm import Slurm


def test_a_file_is_replaced_as_a_whole_with_its_mode(tmp_path: Path) -> None:
    place = tmp_path / "key"
    put(place, b"one", mode=0o600)
    put(place, "two", mode=0o640, is_durable=True)
    assert (place.read_text(), place.stat().st_mode & 0o777) == ("two", 0o640)
    assert [*tmp_path.iterdir()] == [place]


def test_a_file_that_cannot_be_put_leaves_nothing_behind(tmp_path: Path) -> None:
    place = tmp_path / "taken"
    place.mkdir()
    with pytest.raises(OSError, match="directory"):
        put(place, "text")
    assert [*tmp_path.iterdir()] == [place]


@pytest.mark.parametrize(
    ("content", "found"),
    [(b'{"a": 1}', {"a": 1}), (b"[1]", {}), (b"{", {}), (b'{"a": "' + b"x" * 100 + b'"}', {}), (b"\xff", {})],
)
def test_what_jobs_say_is_read_up_to_a_size(tmp_path: Path, content: bytes, found: dict[str, int]) -> None:
    (tmp_path / "said").write_bytes(content)
    assert read_object(tmp_path / "said", 50) == found
    assert read_object(tmp_path / "nothing", 50) == {}


def test_an_event_keeps_its_own_time_and_any_fact(tmp_path: Path) -> None:
    events = Events(tmp_path / "events.jsonl")
    events.write("job_checkpointed", at="2026-11-23T00:00:00.000+00:00", self=1, kind_of="x")
    (found,) = events.newest()
    assert (found["at"], found["self"], found["kind"]) == ("2026-11-23T00:00:00.000+00:00", 1, "job_checkpointed")


def test_a_record_that_cannot_be_written_ends_no_manager(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Events(tmp_path / "nowhere/events.jsonl").write("manager_started")
    assert "manager_started" in capsys.readouterr().err


def test_an_endless_line_of_the_record_is_passed_over(tmp_path: Path) -> None:
    path, begin = tmp_path / "events.jsonl", 0
    event = {"at": "2026-11-23T00:00:00.000+00:00", "kind": "manager_started"}
    undated = json.dumps({"at": "yesterday", "kind": "manager_started"})
    path.write_text("x" * 300_000 + f"\n{undated}\n{json.dumps(event)}\n")
    told = []
    for _ in range(5):
        found, begin = _next_lines(path, begin)
        told += found
    assert [one["kind"] for one in told] == ["manager_started"]
    assert begin == path.stat().st_size


def test_an_address_is_not_given_again_before_all_others_were() -> None:
    wanted = cluster_of_toml('name = "lab"\nshared = "/srv/lab"\n[[pools]]\nname = "a"\ncloud = "b"\nflavor = "c"\n')
    driver = Namespaces(wanted, Slurm(wanted, ""))
    given = [driver._free_address({}) for _ in range(251)]
    assert len(set(given)) == 250
    assert given[250] == given[0]
    assert wanted.machines.address not in given
    assert "10.77.0.255" not in given
