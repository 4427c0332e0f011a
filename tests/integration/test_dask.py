"""Recomputing on a real Dask cluster of several processes, one of which is killed on the way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import monotonic, sleep
from typing import Any

import pytest
from distributed import Client, LocalCluster
from oracles.histories import random_log

from app.domain.values import EvictionPolicy, Policy
from app.forecast.compute import Forecaster
from app.platform.settings import Settings
from app.processes.worker_wiring import forecast_executor

LOG = random_log(1, 300, EvictionPolicy.YJF)
SMALL = Policy(horizon_us=500, sample_count=300, seed=7)
UNTIL_US = LOG[-1].event.at_us


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    tables(SMALL)  # compiles before the workers would, each by itself
    with LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        yield cluster


def tables(policy: Policy, **how: Any) -> list[bytes]:
    """Two epochs, the second one continued from the first."""
    forecaster = Forecaster(policy)
    forecaster.extend(LOG)
    due = [UNTIL_US - 100, UNTIL_US]
    return [forecaster.publish(due_us, epoch, len(LOG), **how).to_bytes() for epoch, due_us in enumerate(due, 1)]


def test_a_cluster_computes_the_same_tables(cluster: LocalCluster) -> None:
    with forecast_executor(Settings(dask_scheduler=cluster.scheduler_address)) as executor:
        assert tables(SMALL, executor=executor) == tables(SMALL)


def test_a_killed_worker_changes_nothing(cluster: LocalCluster) -> None:
    policy = replace(SMALL, sample_count=300_000)
    with Client(cluster) as client, ThreadPoolExecutor(1) as thread:
        pids = client.run(os.getpid)
        found = thread.submit(tables, policy, executor=client.get_executor())
        victim = busy_worker(client)
        os.kill(pids[victim], signal.SIGKILL)
        assert found.result(120) == tables(policy)
        assert pids[victim] not in client.run(os.getpid).values()


def busy_worker(client: Client) -> str:
    """The address of a worker that has a task in hand."""
    deadline = monotonic() + 30
    while monotonic() < deadline:
        for address, keys in client.processing().items():
            if keys:
                return str(address)
        sleep(0.01)
    raise AssertionError("no worker was given a task")
