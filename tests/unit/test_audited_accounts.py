"""Findings of an audit in decisions that leave out what the guarantee in force has them record."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import pytest
from test_quotas import EvenQuotes
from test_wanted import Led

from app.domain.events import ExtensionRejected, InstanceExtended, InstanceRejected, InstanceStarted, PolicyChanged
from app.domain.requests import ExtendRequest, StartRequest
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Guarantee, Market, Rejection
from app.workbench.audit import audit
from app.workbench.logcsv import LogRow, LogWriter, read_rows

ACCOUNTS = {Guarantee.STRATIFIED: "book", Guarantee.POOLED: "budget"}


def led_cloud(guarantee: Guarantee, risk: float = 0.2, **policy: object) -> Led:
    """A cloud that has promised half an hour to one instance."""
    led = Led(guarantee=guarantee, eviction_probability=0.25, **policy)
    led.quotes = EvenQuotes()  # type: ignore[assignment]
    led.quotes.windows = lambda *_: 4.0  # type: ignore[attr-defined]
    start(led, "a")
    led.quotes.risk = risk  # type: ignore[attr-defined]
    return led


def start(led: Led, name: str, probability: float | None = None) -> None:
    led.take(StartRequest(name, Market.SPOT, "c1", HOUR_US // 2, probability, DAY_US, "o"))


def rows_of(led: Led) -> list[LogRow]:
    file = io.StringIO()
    writer = LogWriter(file)
    for recorded in led.log:
        writer.write(recorded)
    rows = [row for _, row in read_rows(io.StringIO(file.getvalue()), "log")]
    assert why_of(rows) is None
    return rows


def why_of(rows: Sequence[LogRow], **changes: object) -> str | None:
    """Return why an audit faults the log with these changes in its last line."""
    found = audit([*rows[:-1], rows[-1]._replace(**changes)], ()).finding
    return None if found is None else found.why


@pytest.mark.parametrize("guarantee", list(ACCOUNTS))
def test_what_is_promised_records_its_book_or_budget(guarantee: Guarantee) -> None:
    led, name = led_cloud(guarantee), ACCOUNTS[guarantee]
    rows = rows_of(led)
    assert rows[-1].kind == "instance_started"
    assert why_of(rows, **{name: None}) == f"it is decided under {guarantee} without a {name}"
    led.take(ExtendRequest("a", HOUR_US, DAY_US))
    assert led.of(InstanceExtended)
    rows = rows_of(led)
    assert why_of(rows, **{name: None}) == f"it is decided under {guarantee} without a {name}"


@pytest.mark.parametrize("guarantee", list(ACCOUNTS))
def test_what_is_refused_by_its_risk_records_its_book_or_budget(guarantee: Guarantee) -> None:
    led, name = led_cloud(guarantee, risk=0.9), ACCOUNTS[guarantee]
    start(led, "b", 0.01)
    (refused,) = led.of(InstanceRejected)
    assert refused.reason is Rejection.BUDGET_EXHAUSTED
    rows, without = rows_of(led), f"it is decided under {guarantee} without a {name}"
    shorter = {"quoted_lifetime_us": HOUR_US // 4, "reason": "sla_unattainable"}
    assert why_of(rows, **{name: None}) == why_of(rows, **shorter, **{name: None}) == without


def test_a_refused_extension_records_its_book() -> None:
    led = led_cloud(Guarantee.STRATIFIED, risk=0.9)
    led.take(ExtendRequest("a", HOUR_US, DAY_US))
    (refused,) = led.of(ExtensionRejected)
    assert refused.reason is Rejection.BUDGET_EXHAUSTED
    changes = {"book": None, "reason": "sla_unattainable", "quoted_lifetime_us": HOUR_US // 4}
    assert why_of(rows_of(led), **changes) == "it is decided under stratified without a book"


def test_where_each_instance_is_judged_by_itself_no_book_pays() -> None:
    book = rows_of(led_cloud(Guarantee.STRATIFIED))[-1].book
    rows = rows_of(led_cloud(Guarantee.PER_INSTANCE))
    assert why_of(rows, book=book) == "it is decided under per_instance with a book"
    led = led_cloud(Guarantee.PER_INSTANCE)
    led.take(ExtendRequest("a", HOUR_US, DAY_US))
    assert why_of(rows_of(led), epoch=None, quoted_lifetime_us=None) == "it is extended without a quote"


@pytest.mark.parametrize("guarantee", list(ACCOUNTS))
def test_the_risk_of_what_is_promised_is_recorded(guarantee: Guarantee) -> None:
    led = led_cloud(guarantee, risk=0.1)
    start(led, "b")
    assert why_of(rows_of(led), estimated_probability=None) == "it is decided by a risk that it does not record"


def test_a_share_is_not_evaded_by_a_start_without_a_book() -> None:
    led = led_cloud(Guarantee.STRATIFIED)
    start(led, "b")
    rows = rows_of(led)
    limited = [row._replace(owner_share=1e-6) if row.kind == "cloud_created" else row for row in rows]
    blank = [row._replace(book=None) if row.kind == "instance_started" else row for row in limited]
    assert why_of(blank) is not None


def test_windows_are_recorded_where_a_floor_is_set() -> None:
    led = led_cloud(Guarantee.STRATIFIED, min_windows=4)
    missing = "it is admitted without its windows, of which a floor is set"
    assert why_of(rows_of(led), windows=None) == missing
    led.take(ExtendRequest("a", HOUR_US, DAY_US))
    assert led.of(InstanceExtended)
    assert why_of(rows_of(led), windows=None) == missing
    assert why_of(rows_of(led_cloud(Guarantee.STRATIFIED, min_windows=0)), windows=None) is None


def test_a_log_without_policies_says_nothing_of_accounts() -> None:
    rows = [row._replace(guarantee=None) for row in rows_of(led_cloud(Guarantee.STRATIFIED))]
    assert why_of(rows, book=None) is None


def test_a_guarantee_that_was_told_goes_on_being_told() -> None:
    led = led_cloud(Guarantee.STRATIFIED)
    assert led.of(InstanceStarted)
    policy = replace(led.cloud.policy, eviction_probability=0.4)
    led.log.append(led.cloud.apply(PolicyChanged(at_us=DAY_US, policy=policy)))
    rows = rows_of(led)
    assert why_of(rows, guarantee=None) == "it tells no guarantee, but the policy before it did"
    assert why_of(rows, guarantee="most") == "the guarantee 'most' is unknown"
