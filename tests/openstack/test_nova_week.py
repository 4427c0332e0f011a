"""A short week through a real Nova: some dozens of servers, and the count over Nova's databases is that of Tenure.

The long form is the command `nova_week.py`; what it found is in docs/results.md.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from nova_counts import wilson
from nova_daemon import NovaDaemon
from nova_lab import NovaLab
from nova_week import bring_up, live
from week_load import PROMISES, WeekAsked, week_of

pytestmark = [pytest.mark.real_parts, pytest.mark.timeout(1800)]  # on a busy machine
ASKED = WeekAsked(minutes=3, computes=3, spot=60, on_demand=20, seed=2)


def test_a_short_week_is_counted_alike_on_both_sides() -> None:
    """Section 7, line 6, in small: the share of so few servers says nothing, so only the counts are compared."""
    with tempfile.TemporaryDirectory(prefix="tenure-lab-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL is another user's
        lab = NovaLab(Path(folder) / "lab")
        try:
            bring_up(lab, ASKED, Path(folder), sys.stdout.write)
            daemon = NovaDaemon(lab)
            daemon.start()
            daemon.wait_until_it_works()
            found = live(lab, daemon, ASKED, Path(folder), sys.stdout.write)
        finally:
            lab.down()
    told = found.told(ASKED)
    assert told["differing"] == []
    assert found.compared.is_exact, told
    assert found.replayed.asked["spot"] == len([one for one in week_of(ASKED) if one.promise is not None])
    assert sum(one.admitted for one in found.compared.tenure.values()) > 0
    assert {*found.compared.tenure} == {*PROMISES}
    assert "no rule is broken" in found.audit


def test_the_week_is_drawn_anew_for_each_seed_and_its_past() -> None:
    week, other = week_of(ASKED), week_of(replace(ASKED, seed=3))
    assert week == week_of(ASKED)
    assert {one.start_s for one in week}.isdisjoint(one.start_s for one in other)
    assert all(0 <= one.start_s <= 60 * ASKED.minutes and one.lifetime_s >= 8 for one in week)


def test_the_interval_of_wilson() -> None:
    """Newcombe 1998, table I: 81 of 263."""
    low, high = wilson(81, 263)
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)
