"""Findings of an audit in longer lifetimes: in their owner's share of a book, and in the windows that they rest on."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from test_quotas import EvenQuotes
from test_wanted import Led

from app.domain.budgets import BudgetUnit
from app.domain.events import (
    Event,
    ExtensionRejected,
    InstanceExtended,
    InstanceRejected,
    PolicyChanged,
    QuotaSet,
    Recorded,
)
from app.domain.requests import ExtendRequest, StartRequest
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Guarantee, Market, QuotaKind, QuotaUse, Rejection
from app.workbench.audit import audit
from app.workbench.logcsv import LogWriter, read_rows

LATER_US = DAY_US + HOUR_US // 4


def led_cloud(unit: BudgetUnit = BudgetUnit.INSTANCES) -> Led:
    """A cloud where owner a may have a tenth of a book, and b three tenths; each runs one instance."""
    led = Led(guarantee=Guarantee.STRATIFIED, eviction_probability=0.5, owner_share=0.3, budget=unit)
    led.quotes = EvenQuotes()  # type: ignore[assignment]
    led.take(*(StartRequest(name, Market.SPOT, "c1", HOUR_US // 2, None, DAY_US, name) for name in ("a", "b")))
    led.log.append(led.cloud.apply(QuotaSet(at_us=DAY_US, owner="a", share=0.1)))
    led.cloud.commit()
    return led


def found_in(led: Led, last: Event | None = None) -> str | None:
    """Return why an audit faults the log, with another event at its end."""
    file = io.StringIO()
    writer = LogWriter(file)
    for recorded in led.log if last is None else [*led.log[:-1], Recorded(led.log[-1].seq, last)]:
        writer.write(recorded)
    found = audit((row for _, row in read_rows(io.StringIO(file.getvalue()), "log")), ()).finding
    return None if found is None else found.why


@pytest.mark.parametrize("unit", list(BudgetUnit))
def test_a_refusal_by_a_share_is_reckoned_again(unit: BudgetUnit) -> None:
    led = led_cloud(unit)
    refused = led.take(ExtendRequest("a", HOUR_US, LATER_US))
    assert isinstance(refused, ExtensionRejected)
    assert refused.reason is Rejection.QUOTA_EXCEEDED
    assert found_in(led) is None
    assert refused.basis.quota is not None
    invented = replace(refused.basis.quota, allowed=refused.basis.quota.allowed / 2)
    why = found_in(led, replace(refused, basis=replace(refused.basis, quota=invented)))
    assert why is not None
    assert "it records the quota" in why


@pytest.mark.parametrize("unit", list(BudgetUnit))
def test_an_extension_beyond_a_share_is_found(unit: BudgetUnit) -> None:
    led = led_cloud(unit)
    refused = led.take(ExtendRequest("a", HOUR_US, LATER_US))
    assert isinstance(refused, ExtensionRejected)
    extended = InstanceExtended(
        at_us=LATER_US,
        instance_id="a",
        lifetime_us=HOUR_US,
        former_lifetime_us=HOUR_US // 2,
        deadline_us=DAY_US + HOUR_US,
        basis=replace(refused.basis, quota=None),
        total_risk=refused.total_risk,
    )
    why = found_in(led, extended)
    assert why is not None
    assert "it records the quota None" in why


def test_a_share_that_is_not_exceeded_refuses_nothing() -> None:
    led = led_cloud()
    extended = led.take(ExtendRequest("b", HOUR_US, LATER_US))
    assert isinstance(extended, InstanceExtended)
    assert found_in(led) is None
    use = QuotaUse(QuotaKind.SHARE, 0.1, 0.5, 0.3)
    refused = ExtensionRejected(
        at_us=LATER_US,
        instance_id="b",
        lifetime_us=HOUR_US,
        former_lifetime_us=HOUR_US // 2,
        deadline_us=DAY_US + HOUR_US // 2,
        reason=Rejection.QUOTA_EXCEEDED,
        basis=replace(extended.basis, quota=use),
        total_risk=extended.total_risk,
    )
    assert found_in(led, refused) is not None


@pytest.mark.parametrize("reason", [Rejection.QUOTA_EXCEEDED, Rejection.OVERRUNNING])
def test_a_start_that_no_quota_refuses_is_not_refused_by_one(reason: Rejection) -> None:
    """An audit believed such a reason where no figures stood beside it."""
    led = led_cloud()
    led.quotes = EvenQuotes(0.25)  # type: ignore[assignment]
    refused = led.take(StartRequest("c", Market.SPOT, "c1", 2 * HOUR_US, 0.05, DAY_US, "c"))
    assert isinstance(refused, InstanceRejected)
    assert refused.reason is Rejection.BUDGET_EXHAUSTED
    assert found_in(led) is None
    why = found_in(led, replace(refused, reason=reason))
    assert why is not None
    assert "no quota refuses it" in why


def test_an_extension_on_too_few_windows_is_found() -> None:
    led = led_cloud()
    led.log.append(led.cloud.apply(PolicyChanged(at_us=DAY_US, policy=replace(led.cloud.policy, min_windows=4))))
    led.cloud.commit()
    led.quotes.windows = lambda *_: 4.0  # type: ignore[attr-defined]
    extended = led.take(ExtendRequest("b", HOUR_US, LATER_US))
    assert isinstance(extended, InstanceExtended)
    assert found_in(led) is None
    why = found_in(led, replace(extended, basis=replace(extended.basis, windows=3.5)))
    assert why is not None
    assert "3.5 windows" in why
