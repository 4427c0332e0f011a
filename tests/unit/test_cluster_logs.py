"""The bound of a cluster's logs."""

from __future__ import annotations

import os
from pathlib import Path

from app.managing.logs import bound_logs


def test_large_logs_are_cut_and_the_oldest_removed(tmp_path: Path) -> None:
    for number in range(6):
        path = tmp_path / f"node-{number}.log"
        path.write_text(f"node {number}")
        os.utime(path, (number, number))
    (tmp_path / "socket").write_text("no log")
    (tmp_path / "slurmctld.log").write_text("old new")
    with (tmp_path / "slurmctld.log").open("a") as writing:
        bound_logs(tmp_path, most_bytes=6, kept_bytes=3, most=4)
        writing.write("more")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "slurmctld.log": "more", "slurmctld.log.old": "new", "node-5.log": "node 5", "node-4.log": "node 4",
        "socket": "no log",
    }  # fmt: skip
