"""Refusals go at a pace."""

from __future__ import annotations

import pytest

from app.platform.http import pacing
from app.platform.http.pacing import REFUSALS_PER_S, RefusalPace


def test_a_few_refusals_go_at_once_and_more_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(pacing, "monotonic", lambda: now[0])
    pace = RefusalPace()
    delays = [pace.delay_s() for _ in range(REFUSALS_PER_S)]
    assert delays[:40] == [0.0] * 40
    assert delays[-1] == pytest.approx(0.5, abs=0.05)
    assert delays == sorted(delays)
    assert max(pace.delay_s() for _ in range(100 * REFUSALS_PER_S)) == pytest.approx(10.0)
    now[0] += 60
    assert [pace.delay_s() for _ in range(40)] == [0.0] * 40
