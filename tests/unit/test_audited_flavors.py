"""An audit holds what a start asks for against its flavor."""

from __future__ import annotations

import io

import pytest
from test_wanted import Led, on_demand, wish

from app.domain.times import DAY_US
from app.workbench.audit import audit
from app.workbench.logcsv import LogRow, LogWriter, read_rows


def rows_of(led: Led) -> list[LogRow]:
    file = io.StringIO()
    writer = LogWriter(file)
    for recorded in led.log:
        writer.write(recorded)
    return [row for _, row in read_rows(io.StringIO(file.getvalue()), "log")]


@pytest.mark.parametrize("is_spot", [False, True])
def test_a_start_that_asks_for_less_than_its_flavor_is_found(*, is_spot: bool) -> None:
    """It would weigh less in a budget of core-hours and in its owner's quota."""
    led = Led()
    led.take(wish("a") if is_spot else on_demand("a", DAY_US))
    rows = rows_of(led)
    assert audit(rows, ()).finding is None
    rows = [row._replace(demand=row.demand._replace(cores=2)) if row.kind == "flavor_added" else row for row in rows]
    found = audit(rows, ()).finding
    assert found is not None
    assert "its flavor" in found.why
    without = [row._replace(seq=number) for number, row in enumerate((r for r in rows if r.kind != "flavor_added"), 1)]
    assert audit(without, ()).finding is None, "a log need not tell of flavors"
