"""Two processes over one database, starts and stops at one and the other in turn."""

from __future__ import annotations

import pytest

from benchmarks.alternating import measure


@pytest.mark.long
def test_nothing_acknowledged_by_one_process_is_lost_or_stale_at_the_other():
    tally = measure(250)
    assert (tally.pairs, tally.lost, tally.stale) == (250, 0, 0)
