"""Each cell of the table of Nova's states by Tenure's, with notifications and without any: both sides agree again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from lab_of_tests import lab_of_tests
from nova_drift import COMPUTES, Drift
from nova_lab import NovaLab
from nova_ledger import ledger_of

pytestmark = [pytest.mark.real_parts, pytest.mark.timeout(1200)]  # on a busy machine


@pytest.fixture(scope="module")
def lab() -> Iterator[NovaLab]:
    with lab_of_tests(COMPUTES) as found:
        yield found


@pytest.fixture(scope="module", params=[True, False], ids=["notified", "silent"])
def drift(lab: NovaLab, request: pytest.FixtureRequest) -> Iterator[Drift]:
    found = Drift(lab, notified=request.param)
    found.daemon.start()
    found.daemon.wait_until_it_works()
    yield found
    found.daemon.kill()


@pytest.mark.parametrize("cell", Drift.cells())
def test_a_cell(lab: NovaLab, drift: Drift, cell: str, record_property: Callable[[str, object], None]) -> None:
    drift.clear()
    seconds = getattr(drift, f"cell_{cell}")()
    record_property("seconds", seconds)
    assert seconds <= drift.most_s
    assert ledger_of(lab).faults == []
