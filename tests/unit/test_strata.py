"""The stratified guarantee: its books against plain ones, its verdicts against fractions, and what each line is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_quotes import ProportionalQuotes
from oracles.books import PlainBooks
from oracles.strata import admits
from repeats import seeds

from app.admission.decide import decide_drill, decide_start, decide_stop
from app.admission.strata import admitting_line, line_beside_others, read_book
from app.commands.workloads import strata_of
from app.domain.budgets import AdmittedBy, Book
from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    PolicyChanged,
    Recorded,
)
from app.domain.inputs import InputError
from app.domain.requests import StartRequest
from app.domain.strata import BOUNDARIES_US, STRATA, stratum_index, stratum_names, stratum_span
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Basis, Clock, EvictionReason, Guarantee, Market, Policy, Rejection, Resources
from app.engine.cloud import Cloud
from app.scheduling.store.snapshots import decode_cloud, encode_cloud
from app.workbench.tally import Scenario, WorkloadTally
from app.workbench.workload import TraceInstance, Workload

P = 1 / 64
"""A promise whose multiples are exact, so that floats and fractions agree."""
LIFETIMES_US = [0, HOUR_US // 240, HOUR_US // 2, HOUR_US, 6 * HOUR_US, 2 * DAY_US, 20 * DAY_US]
POLICY = Policy(guarantee=Guarantee.STRATIFIED, clock=Clock.EXTERNAL, warm_up_us=0, table_max_age_us=10**18)


def make_cloud(cores: int = 8, nodes: int = 3, policy: Policy = POLICY) -> tuple[Cloud, list[Event]]:
    opening: list[Event] = [CloudCreated(at_us=0, policy=policy)]
    opening += [NodeAdded(at_us=0, node=f"n{index}", capacity=Resources(cores)) for index in range(nodes)]
    opening += [FlavorAdded(at_us=0, flavor=f"c{size}", demand=Resources(size)) for size in (1, 2, 4)]
    cloud = Cloud()
    apply_all(cloud, opening)
    cloud.commit()
    return cloud, opening


def apply_all(cloud: Cloud, events: Sequence[Event]) -> None:
    for event in events:
        cloud.apply(event)


def started(at_us: int, name: str, lifetime_us: int, risk: float | None, promise: float = P) -> InstanceStarted:
    basis = Basis(3, 1, promise, HOUR_US, risk)
    return InstanceStarted(
        at_us=at_us,
        instance_id=name,
        market=Market.SPOT,
        flavor="c1",
        node="n0",
        lifetime_us=lifetime_us,
        basis=basis,
    )


def evicted(at_us: int, name: str, reason: EvictionReason = EvictionReason.ON_DEMAND_START) -> InstanceEvicted:
    return InstanceEvicted(at_us=at_us, instance_id=name, reason=reason, cause_seq=1)


def book_of(cloud: Cloud, lifetime_us: int, now_us: int, promise: float = P) -> Book:
    return cloud.books(promise, now_us)[stratum_index(lifetime_us, cloud.policy.strata_us)]


# --- the books -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(30))
def test_a_random_history_is_booked_as_by_hand(seed: int) -> None:
    """Every decision's book, exactly; a rollback leaves no trace, a snapshot keeps all, and a run folds alike."""
    rng = Random(seed)
    (cloud, log), plain = make_cloud(), PlainBooks()
    quotes = ProportionalQuotes(rng.choice([DAY_US, 30 * DAY_US, 3000 * DAY_US]))
    for event in log:
        plain.fold(event)
    reasons: set[object] = set()
    for step in range(250):
        at_us = (step + 1) * HOUR_US
        events = next_events(cloud, rng, f"i{step}", at_us, quotes)
        last = events[-1] if events else None
        if isinstance(last, InstanceStarted | InstanceRejected) and last.basis is not None and last.basis.book:
            check(plain, last)
            reasons |= {last.basis.book.admitted_by, getattr(last, "reason", None)}
        digest = cloud.digest()
        apply_all(cloud, events)
        cloud.rollback()
        assert cloud.digest() == digest
        apply_all(cloud, events)
        cloud.commit()
        log += events
        for event in events:
            plain.fold(event)
    copy = decode_cloud(encode_cloud(cloud))
    assert copy is not None
    whole = Cloud()
    whole.apply_recorded(Recorded(seq, event) for seq, event in enumerate(log, 1))
    for other in (copy, whole):
        assert other.digest() == cloud.digest()
        for promise in (P, 4 * P):
            assert other.books(promise, cloud.at_us) == cloud.books(promise, cloud.at_us)
    assert len(reasons) > 1


def next_events(cloud: Cloud, rng: Random, name: str, at_us: int, quotes: ProportionalQuotes) -> Sequence[Event]:
    kind, spot = rng.random(), [one for one in cloud.running.values() if one.market is Market.SPOT]
    if kind < 0.25 and cloud.running:
        return decide_stop(cloud, rng.choice(sorted(cloud.running)), at_us)
    if kind < 0.28 and spot:
        return decide_drill(cloud, None, at_us)
    if kind < 0.33:
        strata_us = rng.choice([BOUNDARIES_US, (), (6 * HOUR_US, 3 * DAY_US)])
        guarantee = rng.choice([Guarantee.STRATIFIED, Guarantee.STRATIFIED, Guarantee.PER_INSTANCE, Guarantee.NONE])
        policy = replace(POLICY, strata_us=strata_us, guarantee=guarantee, gives_back=rng.random() < 0.7)
        return [PolicyChanged(at_us=at_us, policy=policy)]
    if kind < 0.55:
        request = StartRequest(name, Market.ON_DEMAND, rng.choice(["c1", "c2", "c4"]), None)
    else:
        lifetime_us = rng.choice(LIFETIMES_US)
        request = StartRequest(name, Market.SPOT, rng.choice(["c1", "c2"]), lifetime_us, rng.choice([P, 4 * P]))
    return decide_start(cloud, request, at_us, quotes)  # type: ignore[arg-type]


def check(plain: PlainBooks, decision: InstanceStarted | InstanceRejected) -> None:
    basis, lifetime_us = decision.basis, decision.lifetime_us or 0
    assert basis is not None
    assert basis.book is not None
    assert basis.probability is not None
    book = basis.book
    expected = plain.standing(basis.probability, lifetime_us, decision.at_us)
    assert (book.earned, book.evicted, book.committed, book.risky) == tuple(expected)
    span = stratum_span(stratum_index(lifetime_us, plain.boundaries_us), plain.boundaries_us)
    assert (book.from_us, book.below_us) == span
    if isinstance(decision, InstanceStarted):
        assert book.admitted_by is not None
        assert book.affordable_us is None
    elif decision.reason is Rejection.BUDGET_EXHAUSTED:
        assert book.admitted_by is None
        assert book.affordable_us is not None
        assert book.affordable_us < lifetime_us


def test_zero_risk_earns_nothing() -> None:
    """Farming with starts that cannot be evicted buys nobody in."""
    cloud, _ = make_cloud(8000)
    apply_all(cloud, [started(number, f"i{number}", 60, 1e-9) for number in range(4000)])
    assert book_of(cloud, 60, 4000).left < 0.001


def test_a_stratum_does_not_pay_for_another() -> None:
    cloud, _ = make_cloud(800)
    apply_all(cloud, [started(0, f"i{number}", HOUR_US // 2, P) for number in range(100)])
    assert book_of(cloud, HOUR_US // 2, 0).left == pytest.approx(100 * P)
    for other in (book_of(cloud, DAY_US, 0), book_of(cloud, HOUR_US // 2, 0, 2 * P)):
        assert (other.earned, other.evicted, other.committed) == (0, 0, 0)


def test_a_promise_of_its_own_finds_no_book_without_risky_ones() -> None:
    """Promises that differ in the last digit share the limit on risky instances of their stratum."""
    cloud, _ = make_cloud(800)
    promises = [P + number * 1e-9 for number in range(6)]
    for number, promise in enumerate(promises):
        book = book_of(cloud, DAY_US, 0, promise)
        assert book.risky == number
        assert (admitting_line(book, 2 * promise, promise) is AdmittedBy.PAID) == (number < 5)
        cloud.apply(started(0, f"i{number}", DAY_US, 2 * promise, promise))
    assert [books[2].risky for books in cloud.books_now(promises, 0)()] == [6] * 6
    assert book_of(cloud, HOUR_US, 0).risky == 0


def test_a_promise_of_its_own_leaves_no_debt_behind() -> None:
    """The debt of a book counts against every promise of its stratum beyond what was promised, and nowhere else."""
    cloud, _ = make_cloud(800)
    quotes, other = ProportionalQuotes(DAY_US * 32), P + 1e-9
    assert read(cloud, DAY_US, quotes).admitted_by is AdmittedBy.PAID
    apply_all(cloud, [started(0, "one", DAY_US, 2 * P), evicted(0, "one")])
    for promise in (P, other):
        assert read(cloud, DAY_US, quotes, promise).admitted_by is None
        assert read(cloud, DAY_US // 3, quotes, promise).admitted_by is AdmittedBy.WITHIN
        assert read(cloud, 3 * DAY_US, quotes, 6 * promise).admitted_by is AdmittedBy.WITHIN
    for number in range(60):
        cloud.apply(started(0, f"i{number}", DAY_US, P / 4, other))
    assert read(cloud, DAY_US, quotes, other).admitted_by is None
    apply_all(cloud, [started(0, f"more{number}", DAY_US, P / 4, other) for number in range(9)])
    assert read(cloud, DAY_US, quotes, other).admitted_by is AdmittedBy.PAID


def test_a_book_that_has_earned_an_eviction_is_not_closed_by_debts_of_others() -> None:
    """Else who has its own starts evicted, under a promise that nobody else uses, would close it to all for good."""
    cloud, _ = make_cloud(800)
    quotes, strange = ProportionalQuotes(DAY_US * 32), P / 32
    for number in range(3):
        apply_all(cloud, [started(0, f"bad{number}", DAY_US, strange / 2, strange), evicted(0, f"bad{number}")])
    apply_all(cloud, [started(0, f"i{number}", DAY_US, P / 4) for number in range(63)])
    assert book_of(cloud, DAY_US, 0).earned < 1
    assert read(cloud, DAY_US, quotes).admitted_by is None, "a young book has less left than the others owe"
    cloud.apply(started(0, "more", DAY_US, P / 4))
    assert book_of(cloud, DAY_US, 0).earned == 1
    assert read(cloud, DAY_US, quotes).admitted_by is AdmittedBy.PAID
    cloud.apply(evicted(0, "i0"))
    assert read(cloud, DAY_US, quotes).admitted_by is AdmittedBy.PAID, "it has paid for its own"
    cloud.apply(evicted(0, "i1"))
    assert read(cloud, DAY_US, quotes).admitted_by is None, "its own debt closes it"


def test_only_an_eviction_in_time_costs() -> None:
    cloud, _ = make_cloud()
    apply_all(
        cloud, [started(0, "in-time", HOUR_US, P), started(0, "late", HOUR_US, P), started(0, "drill", HOUR_US, P)]
    )
    apply_all(cloud, [evicted(1, "drill", EvictionReason.DRILL), evicted(HOUR_US, "in-time")])
    apply_all(cloud, [evicted(HOUR_US + 1, "late")])
    assert book_of(cloud, HOUR_US, HOUR_US + 2).left == pytest.approx(3 * P - 1)


def test_what_runs_bears_the_rest_of_its_risk() -> None:
    cloud, _ = make_cloud()
    apply_all(cloud, [started(0, "one", 4 * HOUR_US, P), started(0, "other", 4 * HOUR_US, P / 2)])
    for hours, committed, risky in ((0, 1.5 * P, 1), (1, 1.125 * P, 1), (2, 0.75 * P, 0), (4, 0, 0), (9, 0, 0)):
        book = book_of(cloud, HOUR_US, hours * HOUR_US)
        assert (book.committed, book.risky) == (pytest.approx(committed), risky)
    cloud.apply(InstanceStopped(at_us=HOUR_US, instance_id="one"))
    assert book_of(cloud, HOUR_US, HOUR_US).committed == pytest.approx(0.375 * P)


def test_starts_under_any_guarantee_are_booked_and_those_without_a_promise_are_not() -> None:
    cloud, _ = make_cloud(policy=replace(POLICY, guarantee=Guarantee.PER_INSTANCE))
    bare = replace(started(0, "bare", DAY_US, None), basis=Basis(3))
    apply_all(cloud, [started(0, "one", DAY_US, P), started(0, "unknown", DAY_US, None), bare])
    before = book_of(cloud, DAY_US, 0)
    assert (before.earned, before.risky) == (P, 1)
    cloud.apply(PolicyChanged(at_us=0, policy=POLICY))
    assert book_of(cloud, DAY_US, 0) == before
    apply_all(cloud, [evicted(1, "unknown"), evicted(1, "bare")])
    assert book_of(cloud, DAY_US, 1).evicted == 0


def test_other_strata_begin_anew_with_what_runs() -> None:
    cloud, _ = make_cloud()
    apply_all(cloud, [started(0, "gone", DAY_US, P), started(0, "runs", 4 * HOUR_US, P / 8), evicted(1, "gone")])
    cloud.apply(PolicyChanged(at_us=1, policy=replace(POLICY, strata_us=())))
    (book,) = cloud.books(P, 1)
    assert (book.earned, book.evicted, book.below_us) == (P / 2, 0, None)
    cloud.apply(evicted(2, "runs"))
    assert cloud.books(P, 2)[0].left == P / 2 - 1


# --- the rule --------------------------------------------------------------------------------------------------------


@given(st.integers(0, 100_000), st.integers(1, 80))
@settings(max_examples=150, deadline=None)
def test_every_verdict_agrees_with_the_oracle(seed: int, steps: int) -> None:
    random, (cloud, _), log, now_us = Random(seed), make_cloud(800), list[Event](), 0
    running: list[str] = []
    for number in range(steps):
        now_us += random.choice([0, HOUR_US // 4, HOUR_US, DAY_US])
        promise, lifetime_us = random.choice([P, 4 * P]), random.choice(LIFETIMES_US)
        risk = random.choice([0.0001, 1 / 256, 1 / 128, 1 / 64, 1 / 48, 1 / 16, 1 / 4])
        stratum = stratum_index(lifetime_us, cloud.policy.strata_us)
        book = book_of(cloud, lifetime_us, now_us, promise)
        line = line_beside_others(cloud, stratum, book, risk, promise)
        assert (line is not None) == admits(log, now_us, lifetime_us, risk, promise)
        events: list[Event] = []
        if line is not None or random.random() < 0.3:
            events.append(started(now_us, f"i{number}", lifetime_us, risk, promise))
            running.append(f"i{number}")
        if running and random.random() < 0.5:
            name = running.pop(random.randrange(len(running)))
            reason = random.choice([EvictionReason.ON_DEMAND_START, EvictionReason.DRILL])
            end = InstanceStopped(at_us=now_us, instance_id=name)
            events.append(random.choice([end, evicted(now_us, name, reason)]))
        apply_all(cloud, events)
        log += events


def book(left: float, committed: float, risky: int) -> Book:
    return Book(0, None, left + 7, 7, committed, risky)


def brief_book(left: float, risky: int) -> Book:
    return Book(0, HOUR_US, left, 0, 0.0, risky)


@pytest.mark.parametrize(
    ("book", "risk", "line"),
    [
        (book(0.0, 0.0, 99), P / 2, AdmittedBy.SMALL),
        (book(-1.0, 0.0, 0), P / 2, AdmittedBy.SMALL),
        (book(0.0, 0.0, 4), P, AdmittedBy.WITHIN),
        (book(0.0, 0.0, 99), P, AdmittedBy.WITHIN),
        (book(-1.0, 0.0, 99), P, AdmittedBy.WITHIN),
        (book(-0.1, 0.0, 0), 1.01 * P, None),
        (book(0.0, 0.0, 4), 1.01 * P, AdmittedBy.PAID),
        (book(0.0, 0.0, 5), 1.01 * P, None),
        (book(9.0, 0.0, 8), 3 * P, AdmittedBy.PAID),
        (book(9.0, 0.0, 9), 3 * P, None),
        (book(99.0, 0.0, 0), 3.1 * P, None),
        (brief_book(0.0, 0), 1.01 * P, None),
        (brief_book(0.9, 0), 1.01 * P, None),
        (brief_book(0.0, 0), P, AdmittedBy.WITHIN),
        (brief_book(3.0, 2), 1.01 * P, AdmittedBy.PAID),
        (brief_book(3.0, 3), 1.01 * P, None),
    ],
)
def test_each_line(book: Book, risk: float, line: AdmittedBy | None) -> None:
    assert admitting_line(book, risk, P) == line


@pytest.mark.parametrize("seed", seeds(20))
def test_the_affordable_lifetime_is_within_the_promise_and_the_risk_itself_is_a_promise_that_would_do(
    seed: int,
) -> None:
    rng = Random(seed)
    cloud, _ = make_cloud(800)
    for number in range(rng.randrange(60)):
        lifetime_us, risk = rng.choice(LIFETIMES_US), rng.choice([P / 8, P, 3 * P])
        cloud.apply(started(0, f"i{number}", lifetime_us, risk))
    quotes = ProportionalQuotes(rng.choice([10, 400, 3000]) * DAY_US)
    for lifetime_us in LIFETIMES_US[1:]:
        risk = quotes.probability("c1", 9, lifetime_us)
        found = read(cloud, lifetime_us, quotes)
        if found.admitted_by is None:
            assert found.affordable_us is not None
            if found.affordable_us:
                assert read(cloud, found.affordable_us, quotes).admitted_by in {AdmittedBy.SMALL, AdmittedBy.WITHIN}
            assert read(cloud, lifetime_us, quotes, promise=risk or 0).admitted_by is AdmittedBy.WITHIN
            longer_us = found.affordable_us + HOUR_US // 60
            assert longer_us >= lifetime_us or (quotes.probability("c1", 9, longer_us) or 0) > P


def read(cloud: Cloud, lifetime_us: int, quotes: ProportionalQuotes, promise: float = P) -> Book:
    request = StartRequest("s", Market.SPOT, "c1", lifetime_us, promise)
    estimate = quotes.probability("c1", 9, lifetime_us) or 0.0
    return read_book(cloud, request, promise, estimate, 9, quotes, 0)  # type: ignore[arg-type]


# --- strata ----------------------------------------------------------------------------------------------------------


def test_the_names_of_strata_follow_from_their_boundaries() -> None:
    assert STRATA == ("<1h", "1h-8h", "8h-2d", "2d-7d", ">=7d")
    assert stratum_names(()) == ("all",)
    assert stratum_names((90 * HOUR_US // 60, 36 * HOUR_US, 10 * DAY_US)) == ("<90m", "90m-36h", "36h-10d", ">=10d")
    assert stratum_names((1_500_000,)) == ("<1.5s", ">=1.5s")


@pytest.mark.parametrize(
    ("boundaries_us", "names"),
    [((HOUR_US, DAY_US), ("<1h", "1h-1d", ">=1d")), ((), STRATA), (BOUNDARIES_US, STRATA)],
)
def test_an_evaluation_counts_by_the_strata_of_its_policy(
    boundaries_us: tuple[int, ...], names: tuple[str, ...]
) -> None:
    """With one budget for all lifetimes it counts by the usual strata, which show what that does to long ones."""
    workload = Workload((TraceInstance("a", 0, HOUR_US, 1),), (TraceInstance("b", 0, 2 * HOUR_US, 1),))
    tally = WorkloadTally.of(Scenario((Resources(4),), workload, replace(POLICY, strata_us=boundaries_us)))
    request = StartRequest("b", Market.SPOT, "c1", 2 * HOUR_US, at_us=0)
    tally.started(request, accepted=True, victims=(), epoch=1)
    assert tuple(tally.strata) == names
    assert [group.admitted for group in tally.strata.values()] == [int(name.startswith("1h")) for name in names]


def test_strata_on_the_command_line() -> None:
    assert strata_of("1h,8h,2d,7d") == BOUNDARIES_US
    assert strata_of("none") == ()
    assert strata_of("90m") == (90 * HOUR_US // 60,)
    for wrong in ("", "0h", "8h,1h", "1h,1h", "1h,,2h", "day", ",".join(f"{hour}h" for hour in range(1, 17))):
        with pytest.raises(InputError):
            strata_of(wrong)


@pytest.mark.parametrize("boundaries_us", [(), BOUNDARIES_US, (HOUR_US,)])
def test_a_lifetime_lies_in_its_stratum(boundaries_us: tuple[int, ...]) -> None:
    for lifetime_us in (0, HOUR_US - 1, HOUR_US, HOUR_US + 1, 7 * DAY_US, 10**15):
        from_us, below_us = stratum_span(stratum_index(lifetime_us, boundaries_us), boundaries_us)
        assert from_us <= lifetime_us
        assert below_us is None or lifetime_us < below_us
