"""Games against the promise, played over HTTP: nobody takes what others paid for, and who lies is seen.

The games, their players and the bars are those of `python -m benchmarks.games`, which plays longer ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pytest
from processes import TOKEN, Process

from app.domain.times import DAY_US, SECOND_US
from benchmarks import games
from benchmarks.games import Figure, Table
from benchmarks.platforms import TRACES, named
from benchmarks.played import Served
from benchmarks.players import calls_of

DAYS = 21
POLICY: dict[str, Any] = {"recompute_every_s": 86_400, "table_max_age_s": 172_800}
"""Fewer tables than the worker usually computes, because the weeks pass in seconds."""
needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason=f"the recorded traces are not in {TRACES}")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    process = Process("run", tmp_path_factory.mktemp("games"), {"TENURE_TOKEN_REQUESTS_PER_S": "1000000"})
    process.start()
    yield Served(process.url, TOKEN)
    assert process.interrupt() == 0


def table_of(served: Served, platform: str, sla: float) -> Table:
    meant = named(platform)
    calls = calls_of(meant.workload(), DAYS * DAY_US)
    return Table(served, platform.split(":", maxsplit=1)[0].replace(".", "-").lower(), meant, calls, sla, POLICY)


@pytest.fixture(scope="module")
def synthetic(served: Served) -> Table:
    return table_of(served, "daily.1-mixed.1:8x16", 0.05)


@pytest.fixture(scope="module")
def real(served: Served) -> Table:
    return table_of(served, "A-B:7x12", 0.01)


def hold(figures: Iterable[Figure]) -> None:
    found = [*figures]
    assert found
    assert all(one.holds for one in found), "\n".join(one.text() for one in found)


@pytest.mark.long
def test_farming_costs_nobody_anything_and_earns_nothing(synthetic: Table) -> None:
    hold(games.farm(synthetic, [SECOND_US]))


@pytest.mark.long
def test_hogs_leave_others_what_they_had(synthetic: Table) -> None:
    hold(games.hogs(synthetic))


@pytest.mark.long
def test_a_burst_at_the_ebb_keeps_its_stratum_and_is_hardly_evicted(synthetic: Table) -> None:
    hold(games.surf(synthetic))


@needs_traces
@pytest.mark.long
@pytest.mark.parametrize("play", [partial(games.farm, lifetimes_us=[60 * SECOND_US]), games.surf], ids=["farm", "surf"])
def test_games_on_a_recorded_cloud(real: Table, play: partial[Iterator[Figure]]) -> None:
    hold(play(real))


@pytest.mark.long
def test_who_lies_completes_no_more_than_the_honest(synthetic: Table) -> None:
    hold(games.lie(synthetic))
