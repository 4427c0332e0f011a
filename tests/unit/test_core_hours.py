"""Budgets and books that count core-hours: against plain ones, by each line, and through every path of the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from linear_quotes import ProportionalQuotes
from oracles.books import PlainBooks
from repeats import seeds

from app.admission.budget import affords
from app.admission.decide import decide_start, decide_stop
from app.admission.extend import decide_extension
from app.admission.quota import exceeded_share
from app.admission.strata import admitting_line
from app.domain.budgets import AdmittedBy, Book, Budget, BudgetUnit
from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceEvicted,
    InstanceExtended,
    InstanceRejected,
    InstanceStarted,
    NodeAdded,
    PolicyChanged,
    QuotaSet,
    Recorded,
)
from app.domain.requests import ExtendRequest, StartRequest
from app.domain.strata import BOUNDARIES_US, stratum_index
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Clock, EvictionReason, Guarantee, Market, Policy, Rejection, Resources
from app.engine.cloud import Cloud
from app.judging.attainment import attainment_now
from app.scheduling.store.snapshots import decode_cloud, encode_cloud
from app.workbench.audit import audit
from app.workbench.logcsv import LogWriter, read_log

P = 1 / 64
LIFETIMES_US = [0, HOUR_US // 240, HOUR_US // 2, HOUR_US, 6 * HOUR_US, 2 * DAY_US, 20 * DAY_US]
POLICY = Policy(
    guarantee=Guarantee.STRATIFIED,
    clock=Clock.EXTERNAL,
    warm_up_us=0,
    table_max_age_us=10**18,
    budget=BudgetUnit.CORE_HOURS,
)
NODES = [(f"n{index}", Resources(16)) for index in range(3)]


class Story:
    """A cloud and its log."""

    def __init__(self, policy: Policy = POLICY) -> None:
        self.cloud, self.log = Cloud(), list[Event]()
        self.add(CloudCreated(at_us=0, policy=policy))
        for name, capacity in NODES:
            self.add(NodeAdded(at_us=0, node=name, capacity=capacity))
        for size in (1, 2, 4):
            self.add(FlavorAdded(at_us=0, flavor=f"c{size}", demand=Resources(size)))
        self.cloud.commit()

    def add(self, *events: Event) -> None:
        for event in events:
            self.cloud.apply(event)
        self.log += events


@pytest.mark.parametrize("seed", seeds(16))
def test_a_random_history_is_booked_as_by_hand(seed: int, tmp_path: Path) -> None:
    """Every decision's book, exactly; undo, snapshots, folding in runs and the audit of the log agree too."""
    rng, story, plain = Random(seed), Story(), PlainBooks()
    quotes = ProportionalQuotes(rng.choice([DAY_US, 30 * DAY_US, 300 * DAY_US]))
    for event in story.log:
        plain.fold(event)
    reasons: set[object] = set()
    for step in range(200):
        events = next_events(story.cloud, rng, f"i{step}", (step + 1) * HOUR_US, quotes)
        last = events[-1] if events else None
        if isinstance(last, InstanceStarted | InstanceRejected) and last.basis is not None and last.basis.book:
            check(plain, last)
            reasons |= {last.basis.book.admitted_by, last.basis.book.unit}
        digest = story.cloud.digest()
        for event in events:
            story.cloud.apply(event)
        story.cloud.rollback()
        assert story.cloud.digest() == digest
        story.add(*events)
        story.cloud.commit()
        for event in events:
            plain.fold(event)
    agree(story, P, 4 * P)
    assert len(reasons) > 3
    assert audited(story, tmp_path) is None


def next_events(cloud: Cloud, rng: Random, name: str, at_us: int, quotes: ProportionalQuotes) -> Sequence[Event]:
    kind = rng.random()
    if kind < 0.25 and cloud.running:
        return decide_stop(cloud, rng.choice(sorted(cloud.running)), at_us)
    if kind < 0.29:
        unit = rng.choice([*BudgetUnit, BudgetUnit.CORE_HOURS])
        policy = replace(POLICY, budget=unit, strata_us=rng.choice([BOUNDARIES_US, ()]), gives_back=rng.random() < 0.7)
        return [PolicyChanged(at_us=at_us, policy=policy)]
    if kind < 0.5:
        request = StartRequest(name, Market.ON_DEMAND, rng.choice(["c1", "c2", "c4"]), None)
    else:
        lifetime_us, count = rng.choice(LIFETIMES_US), rng.choice([1, 1, 3])
        flavor, promise = rng.choice(["c1", "c2", "c4"]), rng.choice([P, 4 * P])
        request = StartRequest(name, Market.SPOT, flavor, lifetime_us, promise, count=count)
    return decide_start(cloud, request, at_us, quotes)  # type: ignore[arg-type]


def check(plain: PlainBooks, decision: InstanceStarted | InstanceRejected) -> None:
    basis, lifetime_us = decision.basis, decision.lifetime_us or 0
    assert basis is not None
    assert basis.book is not None
    assert basis.probability is not None
    book = basis.book
    earned, evicted, committed, risky = plain.standing(basis.probability, lifetime_us, decision.at_us)
    assert (book.evicted, book.risky, book.unit) == (evicted, risky, plain.unit)
    if plain.unit is BudgetUnit.INSTANCES:
        assert (book.earned, book.committed, book.core_hours) == (earned, committed, None)
        return
    found = book.earned, book.committed, book.mean_core_hours, book.evicted_core_hours, book.risky_core_hours
    assert found == tuple(plain.hours_standing(basis.probability, lifetime_us, decision.at_us))
    assert book.core_hours == decision.count * plain.cores[decision.flavor] * lifetime_us / HOUR_US


def agree(story: Story, *promises: float) -> None:
    """A snapshot, and a fold of the log in runs, have the same state and books."""
    copy, whole = decode_cloud(encode_cloud(story.cloud)), Cloud()
    whole.apply_recorded(Recorded(seq, event) for seq, event in enumerate(story.log, 1))
    assert copy is not None
    for other in (copy, whole):
        assert other.digest() == story.cloud.digest()
        for promise in promises:
            assert other.books(promise, story.cloud.at_us) == story.cloud.books(promise, story.cloud.at_us)


def audited(story: Story, folder: Path) -> object:
    path = folder / "log.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = LogWriter(file)
        for seq, event in enumerate(story.log, 1):
            writer.write(Recorded(seq, event))
    return audit(read_log(path), []).finding


def book(left: float, *, asked: float, mean: float = 1.0, committed: float = 0.0, risky: float = 0.0) -> Book:
    """A book in core-hours, with the start that it is read for."""
    hours = {"mean_core_hours": mean, "evicted_core_hours": 7.0, "risky_core_hours": risky}
    return Book(0, None, left + 7, 1, committed, 3, core_hours=asked, **hours)


@pytest.mark.parametrize(
    ("book", "risk", "line"),
    [
        (book(0.0, asked=500.0), P / 2, AdmittedBy.SMALL),
        (book(0.0, asked=2.0), P, AdmittedBy.WITHIN),
        (book(0.0, asked=2.1), P, None),  # it weighs more than two usual ones, and nothing could pay for it
        (book(3.0, asked=2.1), P, AdmittedBy.WITHIN),
        (book(0.0, asked=50.0, mean=0.0), P, AdmittedBy.WITHIN),  # the first of its book is a usual one
        (book(-0.1, asked=1.0), P, AdmittedBy.WITHIN),
        (book(-0.1, asked=1.0), 1.1 * P, None),
        (book(0.0, asked=2.0, risky=3.0), 3 * P, AdmittedBy.PAID),  # five usual ones
        (book(0.0, asked=2.0, risky=3.1), 3 * P, None),
        (book(20.0, asked=20.0), 3 * P, AdmittedBy.PAID),
        (book(20.0, asked=20.1), 3 * P, None),
        (book(20.0, asked=15.0, risky=5.1), 3 * P, None),
        (book(999.0, asked=1.0), 3.1 * P, None),
        (book(0.0, asked=0.0), 3 * P, AdmittedBy.PAID),  # without cores there are no core-hours to lose
    ],
)
def test_each_line_goes_by_weight(book: Book, risk: float, line: AdmittedBy | None) -> None:
    assert admitting_line(book, risk, P) == line


def test_one_huge_instance_does_not_spend_what_many_small_ones_earned() -> None:
    """A hundred small ones earn less than an eviction of the huge one costs, so it must be a small risk."""
    story = Story(replace(POLICY, strata_us=()))
    for number in range(40):
        story.add(*start(story, f"s{number}", "c1", HOUR_US // 2, ProportionalQuotes(16 * HOUR_US), 2 * P))
    (of_small,) = story.cloud.books(2 * P, 0)
    assert of_small.left == pytest.approx(40 * 0.5 * 2 * P)
    (refused,) = start(story, "huge", "c4", 2 * DAY_US, ProportionalQuotes(96 * DAY_US), 2 * P)
    assert isinstance(refused, InstanceRejected)
    assert refused.reason is Rejection.BUDGET_EXHAUSTED
    by_instances = Story(replace(POLICY, strata_us=(), budget=BudgetUnit.INSTANCES))
    (admitted,) = start(by_instances, "huge", "c4", 2 * DAY_US, ProportionalQuotes(96 * DAY_US), 2 * P)
    assert isinstance(admitted, InstanceStarted)


@pytest.mark.parametrize(("gives_back", "mean"), [(True, 8.0), (False, 4.2)])
def test_starts_that_stop_at_once_do_not_move_the_usual_weight(
    tmp_path: Path, *, gives_back: bool, mean: float
) -> None:
    """Nineteen starts of four hours leave one of eight as it was; one that runs for half of its time counts as half."""
    story, quotes = Story(replace(POLICY, gives_back=gives_back)), ProportionalQuotes(9000 * DAY_US)
    story.add(*start(story, "runs", "c2", 4 * HOUR_US, quotes))
    for number in range(19):
        story.add(*start(story, f"i{number}", "c1", 4 * HOUR_US, quotes))
        story.add(*decide_stop(story.cloud, f"i{number}", story.cloud.at_us))
    usual = story.cloud.books(P, story.cloud.at_us)[1].mean_core_hours
    assert usual == pytest.approx(mean)
    story.add(*start(story, "half", "c4", 5 * HOUR_US, quotes))
    story.add(*decide_stop(story.cloud, "half", story.cloud.at_us + 5 * HOUR_US // 2))
    usual = story.cloud.books(P, story.cloud.at_us)[1].mean_core_hours
    assert usual == pytest.approx((8 + 0.5 * 20) / 1.5 if gives_back else (8 + 19 * 4 + 20) / 21)
    story.add(*start(story, "last", "c1", 4 * HOUR_US, quotes))
    assert audited(story, tmp_path) is None


@pytest.mark.parametrize("unit", [*BudgetUnit])
def test_the_audit_reads_a_book_with_a_start_that_displaced_others(unit: BudgetUnit, tmp_path: Path) -> None:
    """Its row tells until when those may go on running, which is not the end of its own lifetime."""
    policy = replace(POLICY, budget=unit, displaces_overrunning=True, grace_us=HOUR_US // 2)
    story, quotes = Story(policy), ProportionalQuotes(9000 * DAY_US)
    for number in range(12):
        story.add(*start(story, f"i{number}", "c4", HOUR_US, quotes))
    story.add(PolicyChanged(at_us=2 * HOUR_US, policy=policy))
    story.add(*start(story, "displaces", "c4", 6 * HOUR_US, quotes))
    assert story.cloud.running["displaces"].risk
    story.add(*start(story, "last", "c1", 6 * HOUR_US, quotes))
    assert audited(story, tmp_path) is None


@pytest.mark.parametrize("seed", seeds(4))
def test_many_stops_leave_no_rounding_for_a_mean(seed: int) -> None:
    """Weights as large as they may be, started and stopped at once, leave the stratum's mean to a start."""
    rng, story = Random(seed), Story(replace(POLICY, strata_us=(), gives_back=True))
    quotes = ProportionalQuotes(10**9 * DAY_US)
    story.add(*start(story, "runs", "c1", 8 * HOUR_US, quotes, P))
    for number in range(300):
        lifetime_us = rng.randrange(10**7 * DAY_US)
        story.add(*start(story, f"i{number}", "c4", lifetime_us, quotes, 4 * P))
        story.add(*decide_stop(story.cloud, f"i{number}", story.cloud.at_us + rng.randrange(3)))
    (of_stops,) = story.cloud.books(4 * P, story.cloud.at_us)
    assert of_stops.mean_core_hours == pytest.approx(8.0)


def start(
    story: Story, name: str, flavor: str, lifetime_us: int, quotes: ProportionalQuotes, promise: float = P
) -> Sequence[Event]:
    request = StartRequest(name, Market.SPOT, flavor, lifetime_us, promise)
    return decide_start(story.cloud, request, story.cloud.at_us, quotes)  # type: ignore[arg-type]


@pytest.mark.parametrize("guarantee", [Guarantee.STRATIFIED, Guarantee.POOLED])
@pytest.mark.parametrize("seed", seeds(8))
def test_what_a_refusal_proposes_would_be_accepted_and_an_hour_more_not_within_the_promise(
    seed: int, guarantee: Guarantee
) -> None:
    rng, story = Random(seed), Story(replace(POLICY, guarantee=guarantee))
    quotes = ProportionalQuotes(rng.choice([100, 400, 3000]) * DAY_US)
    for number in range(rng.randrange(30)):
        story.add(*start(story, f"i{number}", "c1", rng.choice(LIFETIMES_US), quotes))
        story.cloud.commit()
    for lifetime_us in LIFETIMES_US[1:]:
        (decision,) = start(story, "asks", "c4", lifetime_us, quotes)
        if isinstance(decision, InstanceRejected) and decision.acceptable is not None:
            instead_us = decision.acceptable.lifetime_us
            if instead_us is not None:
                (shorter,) = start(story, "asks", "c4", instead_us, quotes)
                assert isinstance(shorter, InstanceStarted)
            longer_us = (instead_us or 0) + HOUR_US
            same = stratum_index(longer_us, BOUNDARIES_US) == stratum_index(instead_us or 0, BOUNDARIES_US)
            if longer_us < lifetime_us and same:
                (longer,) = start(story, "asks", "c4", longer_us, quotes)
                assert longer_is_beyond(longer)


def longer_is_beyond(decision: Event) -> bool:
    """Return True if it is refused, or admitted by what its book has left."""
    if isinstance(decision, InstanceStarted):
        book = decision.basis and decision.basis.book
        return book is not None and book.admitted_by is AdmittedBy.PAID
    return isinstance(decision, InstanceRejected)


def aged(guarantee: Guarantee) -> Story:
    """A cloud with so long a history that it leaves little open."""
    policy = replace(POLICY, guarantee=guarantee)
    story = Story(policy)
    story.add(PolicyChanged(at_us=9000 * DAY_US, policy=policy))
    return story


@pytest.mark.parametrize("guarantee", [Guarantee.STRATIFIED, Guarantee.POOLED])
def test_a_longer_lifetime_weighs_more(guarantee: Guarantee, tmp_path: Path) -> None:
    """The rest of the new lifetime adds to what was declared; the audit and a snapshot agree."""
    story, quotes = aged(guarantee), ProportionalQuotes(9000 * DAY_US)
    story.add(*start(story, "one", "c2", 6 * HOUR_US, quotes))
    now_us = story.cloud.at_us + HOUR_US
    (extended,) = decide_extension(story.cloud, ExtendRequest("one", 12 * HOUR_US), now_us, quotes)  # type: ignore[arg-type]
    assert isinstance(extended, InstanceExtended)
    account = extended.basis.book or extended.basis.budget
    assert account is not None
    assert account.core_hours == 24.0
    story.add(extended)
    assert story.cloud.core_hours_of(P) == (24.0, 0.0)
    booked = story.cloud.books(P, now_us)[1]
    assert booked.mean_core_hours == 24.0
    assert booked.earned == pytest.approx(24.0 * 4 * (extended.total_risk or 0.0))
    cause = InstanceEvicted(
        at_us=now_us + 1, instance_id="one", reason=EvictionReason.DRILL, cause_seq=len(story.log) + 1
    )
    agree(story, P)
    story.add(cause)
    assert story.cloud.books(P, now_us + 1)[1].evicted_core_hours == 0.0
    assert audited(story, tmp_path) is None


@pytest.mark.parametrize(
    ("budget", "afforded"),
    [
        (Budget(10.0, 1, 3.0, 5.0, 0.9, core_hours=6.0, mean_core_hours=1.0, evicted_core_hours=2.0), True),
        (Budget(10.0, 1, 3.0, 5.1, 0.9, core_hours=6.0, mean_core_hours=1.0, evicted_core_hours=2.0), False),
        (Budget(10.0, 1, 3.0, 4.0, 0.9, core_hours=4.0, mean_core_hours=1.0, evicted_core_hours=2.0), False),
        (Budget(10.0, 1, 3.0, 3.0, 0.9, core_hours=3.0, mean_core_hours=1.0, evicted_core_hours=2.0), True),
        (Budget(1.0, 1, 0.0, 9.0, 0.1, core_hours=1.0, mean_core_hours=1.0, evicted_core_hours=0.0), True),
        (Budget(1.0, 1, 0.0, 9.0, 0.1, core_hours=9.0, mean_core_hours=1.0, evicted_core_hours=0.0), False),
        (Budget(1.0, 1, 0.0, 9.0, 0.05, core_hours=9.0, mean_core_hours=1.0, evicted_core_hours=0.0), True),
        (Budget(1.0, 0, 0.0, 1.0, 0.1, core_hours=1.0, mean_core_hours=1.0, evicted_core_hours=2.0), False),
    ],
)
def test_what_a_budget_in_core_hours_affords(budget: Budget, afforded: bool) -> None:
    assert affords(budget, 0.1) is afforded


def test_the_pooled_class_is_told_in_core_hours(tmp_path: Path) -> None:
    story = aged(Guarantee.POOLED)
    story.add(*start(story, "one", "c2", 6 * HOUR_US, ProportionalQuotes(9000 * DAY_US)))
    story.add(*start(story, "two", "c4", 6 * HOUR_US, ProportionalQuotes(9000 * DAY_US)))
    (found,) = attainment_now(story.cloud, story.cloud.at_us)()
    assert (found.unit, found.core_hours, found.spent_core_hours) == (BudgetUnit.CORE_HOURS, 36.0, 0.0)
    assert found.earned == P * 36
    assert found.committed == story.cloud.charges(P, story.cloud.at_us) > 0
    assert audited(story, tmp_path) is None


def test_a_share_of_a_book_counts_its_unit() -> None:
    """An owner whose small instances fit in its share may not add a heavy one."""
    story = Story(replace(POLICY, strata_us=()))
    story.add(QuotaSet(at_us=0, owner="team", share=0.5))
    request = StartRequest("one", Market.SPOT, "c1", HOUR_US, P, owner="team")
    story.add(*decide_start(story.cloud, request, 0, ProportionalQuotes(200 * HOUR_US)))  # type: ignore[arg-type]
    (held,) = story.cloud.books(P, 0)
    risk = 1 / 200
    light, heavy = (exceeded_share(story.cloud, "team", P, held, hours * risk, 0) for hours in (1.0, 1000.0))
    assert light is None
    assert heavy is not None
    assert (heavy.used, heavy.allowed) == (pytest.approx(risk, rel=1e-3), 0.5)


def test_without_the_field_instances_are_counted() -> None:
    assert Policy().budget is BudgetUnit.INSTANCES
    story = Story(replace(POLICY, budget=BudgetUnit.INSTANCES))
    (started,) = start(story, "one", "c2", 6 * HOUR_US, ProportionalQuotes(9000 * DAY_US))
    assert isinstance(started, InstanceStarted)
    assert started.basis is not None
    assert started.basis.book is not None
    assert (started.basis.book.core_hours, started.basis.book.evicted_core_hours) == (None, None)
