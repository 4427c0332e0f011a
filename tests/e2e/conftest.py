"""End-to-end tests import their helpers by plain names, and may share these fixtures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from nursery import end_nursery
from processes import Process, tenure_here


@pytest.fixture(scope="session", autouse=True)
def nursery_ends() -> Iterator[None]:
    """The process that has loaded the service for the tests ends with them."""
    yield
    end_nursery()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("processes")


@pytest.fixture(scope="module")
def service(directory: Path) -> Iterator[Process]:
    """API, worker and database of a module, to which its tests give clouds of their own."""
    process = Process("run", directory)
    process.start()
    yield process
    assert process.interrupt() == 0


@pytest.fixture(scope="module")
def crowded_days(directory: Path) -> list[str]:
    """Two of them, on 3 nodes of 4 cores: traces, as options, and how often tables are computed of them."""
    options = []
    for seed, market in enumerate(("on-demand", "spot")):
        file = str(directory / f"{market}.csv")
        shape = ["--days", "2", "--mean-utilisation", "8", "--seed", str(seed), "--out", file]
        made = tenure_here("trace", "synth", *shape)
        assert made.returncode == 0, made.stderr
        options += [f"--{market}", file]
    return [*options, "--spot-delay", "12h", "--samples", "300", "--every", "3h"]
