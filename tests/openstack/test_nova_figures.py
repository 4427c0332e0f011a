"""Short forms of the commands that print figures of a cloud: under stress, and out of step with Tenure.

Bars in seconds are held for the second alone: each cell of the table of Nova's states by Tenure's, with notifications
and without any, after which both sides agree again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab_of_tests import lab_of_tests
from lab_processes import until
from nova_away import Away
from nova_broker import Outage
from nova_burst import Burst
from nova_daemon import NovaDaemon
from nova_drift import Drift
from nova_lab import CLOUD, NovaLab
from nova_ledger import Report, ledger_of

pytestmark = [pytest.mark.real_parts, pytest.mark.timeout(1200)]  # on a busy machine
COMPUTES = 3
TIMES = {
    "evicted until gone from Nova",
    "gone after the deadline",
    "agreement after the last answer",
    "on-demand servers observed after the return",
}


@pytest.fixture(scope="module")
def lab() -> Iterator[NovaLab]:
    with lab_of_tests(COMPUTES) as found:
        yield found


@pytest.fixture
def daemon(lab: NovaLab) -> Iterator[NovaDaemon]:
    """A daemon beside an empty cloud."""
    drift = Drift(lab, notified=True)
    drift.daemon.start()
    drift.daemon.wait_until_it_works()
    drift.clear()
    yield drift.daemon
    drift.daemon.kill()


def broken(report: Report) -> list[str]:
    return [name for name in report.failed if name not in TIMES]


@pytest.mark.parametrize("grace_s", [0, 8])
def test_a_burst(lab: NovaLab, daemon: NovaDaemon, tmp_path: Path, grace_s: float) -> None:
    lab.tenure.change_policy(CLOUD, {"grace_s": grace_s})
    try:
        one = Burst(lab, daemon)
        one.fill(["spot.small", "spot.tiny"])
        daemon.agrees(60)
        one.burst(6, grace_s, tmp_path)
    finally:
        lab.tenure.change_policy(CLOUD, {"grace_s": 0})
    one.no_room_at_all()
    assert broken(one.report) == []


def test_an_absence_of_tenure(lab: NovaLab, daemon: NovaDaemon, tmp_path: Path) -> None:
    Burst(lab, daemon).fill(["spot.small"])
    daemon.agrees(60)
    one = Away(lab, daemon)
    one.run(4, tmp_path)
    assert broken(one.report) == []


def test_an_outage_of_the_broker(lab: NovaLab, daemon: NovaDaemon, tmp_path: Path) -> None:
    one = Outage(lab, daemon, operations=20)
    one.fill()
    one.run(8, tmp_path)
    one.flood(12_000)
    assert broken(one.report) == []


@pytest.fixture(scope="module", params=[True, False], ids=["notified", "silent"])
def drift(lab: NovaLab, request: pytest.FixtureRequest) -> Iterator[Drift]:
    found = Drift(lab, notified=request.param)
    # After an outage of the broker the computes have not reported themselves yet.
    until(lambda: all(one.state == "up" for one in lab.cloud.compute.services()), 120, lambda: "computes are down")
    found.daemon.start()
    found.daemon.wait_until_it_works()
    yield found
    found.daemon.kill()


@pytest.mark.parametrize("cell", Drift.cells())
def test_a_cell(lab: NovaLab, drift: Drift, cell: str, record_property: Callable[[str, object], None]) -> None:
    """The daemon of the drift lives from here on, so no test of another daemon may follow."""
    drift.clear()
    seconds = getattr(drift, f"cell_{cell}")()
    record_property("seconds", seconds)
    assert seconds <= drift.most_s
    assert ledger_of(lab).faults == []
