"""A worker has what it calls compiled by another process, and computes nothing before that."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.processes import preparing
from app.processes.preparing import Preparation

LONGEST_S = 20.0


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program that stands for `tenure`; nothing is compiled yet, and what loads it notes that in `loaded`."""
    monkeypatch.setattr(preparing, "_AFTER_S", 0.0)
    monkeypatch.setattr(preparing, "COMMAND", tmp_path / "program.py")
    monkeypatch.setattr(preparing, "is_all_compiled", lambda: False)
    monkeypatch.setattr(preparing, "warm_up_worker", (tmp_path / "loaded").touch)
    return tmp_path / "program.py"


def until(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + LONGEST_S
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_another_process_compiles_and_then_it_is_loaded(program: Path) -> None:
    go = program.with_name("go")
    program.write_text(
        f"import os, sys, time\nassert sys.argv[1:] == ['worker', '--compile-only']\nopen({str(go)!r}, 'w')"
    )
    with Preparation(is_wanted=True) as preparation:
        assert not preparation.is_over()
        until(preparation.is_over)
    assert go.exists()
    assert program.with_name("loaded").exists()


def test_this_process_compiles_what_the_other_did_not(program: Path) -> None:
    program.write_text("raise SystemExit(3)")
    with Preparation(is_wanted=True) as preparation:
        until(preparation.is_over)
    assert program.with_name("loaded").exists()


def test_what_is_compiled_is_loaded_and_holds_nobody_up(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "is_all_compiled", lambda: True)
    with Preparation(is_wanted=True) as preparation:
        assert preparation.is_over()
        until(program.with_name("loaded").exists)


def test_a_worker_that_stops_ends_the_compiler(program: Path) -> None:
    begun = program.with_name("begun")
    program.write_text(f"import time\nopen({str(begun)!r}, 'w')\ntime.sleep(60)")
    with Preparation(is_wanted=True) as preparation:
        until(begun.exists)
    compiler = preparation._compiler
    assert compiler is not None
    assert compiler.wait(LONGEST_S) < 0
    assert not program.with_name("loaded").exists()


def test_where_other_machines_compute_nothing_is_prepared(program: Path) -> None:
    with Preparation(is_wanted=False) as preparation:
        assert preparation.is_over()
        time.sleep(0.1)
    assert not program.with_name("loaded").exists()
