"""Decides whether a running spot instance is promised a longer lifetime (docs/glossary.md, *extension*).

It keeps the eviction probability p of its start, and p has to do for its whole life: the risk that it has borne counts
beside that of the rest, however often it is extended. The rest is judged like a start that sees the slots of all
instances that would be evicted before it (engine.standing). A refusal changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from app.admission.bounds import check_lifetime
from app.admission.budget import EXPOSED_SHARE, bearable, unseen_at_most
from app.admission.floor import floor_above, is_paid, windows_of
from app.admission.quota import REFUSALS, exceeded_by_extension
from app.admission.quote import Quotes
from app.admission.strata import line_beside_others, longest_us, most_bearable, weighed
from app.domain.budgets import Book, Budget, BudgetUnit
from app.domain.errors import ExtensionNotLonger, ExtensionOfEnded, ExtensionOfOnDemand, ExtensionTooLate
from app.domain.events import ExtensionDecision, ExtensionRejected, InstanceExtended, Recorded
from app.domain.requests import ExtendRequest
from app.domain.strata import stratum_index
from app.domain.times import SECOND_US, to_datetime
from app.domain.values import Basis, Clock, Floor, Forecast, Guarantee, Market, Rejection
from app.engine.books import core_hours_of
from app.engine.cloud import ClassCounts, Cloud, Running
from app.engine.exposure import charge, unseen

_LEAST = 1e-12
"""Stands for a promise of which nothing is left: no lifetime is quoted at it."""
AskedBefore = tuple[str, int, int | None]
"""An instance, a lifetime, and the time of a refusal; None stands for an acceptance."""


class _Figures(NamedTuple):
    """The figures of a decision: its basis, the rest of the lifetime asked for, and the risk of past and whole."""

    basis: Basis
    rest_us: int = 0
    borne: float = 0.0
    total_risk: float | None = None


def decide_extension(
    cloud: Cloud, request: ExtendRequest, at_us: int, quotes: Quotes | None, *, by_share: bool = True
) -> Sequence[ExtensionDecision]:
    """Return the event that answers the request. Raise an ExtensionOf..., ...TooLate or ...NotLonger if it makes none
    necessary or possible.

    Without `by_share` it is what would be answered if the owner's share of a book were not limited.
    """
    running = _extensible(cloud, request, at_us)
    if not by_share:
        running = replace(running, owner=None)
    with cloud.still():
        figures, refusal = _read_figures(cloud, running, request.lifetime_us, at_us, quotes)
    quota = exceeded_by_extension(cloud, running, figures.basis, at_us)
    if quota is not None:
        figures, refusal = figures._replace(basis=replace(figures.basis, quota=quota)), REFUSALS[quota.kind]
    if refusal is None:
        return [
            InstanceExtended(
                at_us=at_us,
                instance_id=request.instance_id,
                lifetime_us=request.lifetime_us,
                former_lifetime_us=running.lifetime_us or 0,
                deadline_us=running.started_us + request.lifetime_us,
                basis=figures.basis,
                total_risk=figures.total_risk,
            )
        ]
    return [
        ExtensionRejected(
            at_us=at_us,
            instance_id=request.instance_id,
            lifetime_us=request.lifetime_us,
            former_lifetime_us=running.lifetime_us or 0,
            deadline_us=running.deadline_us,
            reason=refusal,
            basis=figures.basis,
            total_risk=figures.total_risk,
        )
    ]


def _extensible(cloud: Cloud, request: ExtendRequest, at_us: int) -> Running:
    """Return the running instance whose lifetime may become longer."""
    running = cloud.running.get(request.instance_id)
    if running is None:
        raise ExtensionOfEnded(f"instance {request.instance_id!r} does not run")
    if running.market is not Market.SPOT:
        raise ExtensionOfOnDemand(f"instance {request.instance_id!r} is on-demand, which is never evicted")
    if running.goes_first:
        raise ExtensionTooLate(f"{request.instance_id!r} is room held for a peer, to which nothing was promised")
    if at_us > running.deadline_us:
        ended = to_datetime(running.deadline_us).isoformat()
        raise ExtensionTooLate(f"the lifetime of instance {request.instance_id!r} was over at {ended}")
    former_us = running.lifetime_us or 0
    if request.lifetime_us <= former_us:
        raise ExtensionNotLonger(f"instance {request.instance_id!r} has {former_us / SECOND_US:g} s already")
    check_lifetime(cloud.policy, request.lifetime_us)
    return running


def _read_figures(
    cloud: Cloud, running: Running, lifetime_us: int, at_us: int, quotes: Quotes | None
) -> tuple[_Figures, Rejection | None]:
    """Return the figures for the rest of a lifetime, and the reason to refuse it, or None.

    An instance that was promised nothing has nothing to be kept: it may always be longer.
    """
    policy, promised = cloud.policy, running.probability
    slots, outlook = cloud.seen_by(running.instance_id, at_us)
    if policy.guarantee is Guarantee.NONE or promised is None:
        return _Figures(Basis(slots, probability=promised)), None
    if at_us - cloud.created_us < policy.warm_up_us or quotes is None:
        return _Figures(Basis(slots, probability=promised)), Rejection.NO_HISTORY
    if policy.forecast is not Forecast.REPLAY:
        quotes = quotes.seen_from({running.flavor: outlook})
    figures = _figures(cloud, running, promised, lifetime_us, at_us, slots, quotes)
    basis = figures.basis
    if at_us - quotes.epoch_us > policy.table_max_age_us:
        return figures, Rejection.QUOTES_STALE
    if basis.quoted_lifetime_us is None or basis.estimated_probability is None:
        return figures, Rejection.NO_HISTORY
    floor = floor_above(cloud, basis, quotes)
    if floor is not None:
        floor = replace(floor, affordable_us=_evidenced_us(cloud, running, basis, floor, at_us, quotes))
        return figures._replace(basis=replace(basis, floor=floor)), Rejection.TOO_FEW_WINDOWS
    if policy.guarantee is Guarantee.STRATIFIED:
        book = _read_book(cloud, running, figures, quotes, at_us)
        figures = figures._replace(basis=replace(basis, book=book))
        return figures, Rejection.BUDGET_EXHAUSTED if book.admitted_by is None else None
    if policy.guarantee is Guarantee.POOLED:
        budget = _read_budget(cloud, running, figures, quotes, at_us)
        figures = figures._replace(basis=replace(basis, budget=budget))
        return figures, None if affords_rise(budget, promised) else Rejection.BUDGET_EXHAUSTED
    return figures, None if basis.quoted_lifetime_us > figures.rest_us else Rejection.SLA_UNATTAINABLE


def _evidenced_us(cloud: Cloud, running: Running, basis: Basis, floor: Floor, at_us: int, quotes: Quotes) -> int:
    """Return the longest lifetime with enough windows for its rest that would be promised; 0 if none longer would.

    It risks no more than was promised, whatever the book has left, and is within its owner's share.
    """
    age_us, former_us = at_us - running.started_us, running.lifetime_us or 0
    longest_us = age_us + quotes.lifetime_of_windows(running.flavor, basis.slots, floor.min_windows)
    for _ in range(3):
        if longest_us <= former_us:
            return 0
        found, refusal = _read_figures(cloud, running, longest_us, at_us, quotes)
        within_us = age_us + (found.basis.quoted_lifetime_us or 0) - 1
        if is_paid(found.basis):
            shorter_us = within_us
        elif refusal is None:
            return 0 if exceeded_by_extension(cloud, running, found.basis, at_us) else longest_us
        else:
            account = found.basis.book or found.basis.budget
            shorter_us = within_us if account is None else account.affordable_us or 0
        longest_us = min(shorter_us, longest_us - 1)
    return 0


def _figures(
    cloud: Cloud, running: Running, promised: float, lifetime_us: int, at_us: int, slots: int, quotes: Quotes
) -> _Figures:
    """Return what the table says of the rest of a lifetime. The lifetime quoted is that at what is left of p."""
    rest_us, borne = running.started_us + lifetime_us - at_us, running.borne(at_us)
    quoted_us = quotes.lifetime_us(running.flavor, slots, max(promised - borne, _LEAST))
    estimate = quotes.probability(running.flavor, slots, rest_us)
    bound = quotes.bound(running.flavor, slots, rest_us, cloud.policy.confidence)
    windows = windows_of(cloud.policy, quotes, running.flavor, slots, rest_us)
    basis = Basis(slots, quotes.epoch, promised, quoted_us, estimate, probability_bound=bound, windows=windows)
    total = None if estimate is None else min(borne + estimate, 1.0)
    return _Figures(basis, rest_us, borne, total)


def _read_book(cloud: Cloud, running: Running, figures: _Figures, quotes: Quotes, at_us: int) -> Book:
    """Return the book of the instance's stratum, with the line that admits the whole risk.

    It stays in the stratum of the lifetime that it declared at its start, where what became of it is counted.
    """
    promised, total = running.probability or 0.0, figures.total_risk or 0.0
    stratum = stratum_index(running.book_lifetime_us, cloud.policy.strata_us)
    cores, age_us = _cores(cloud, running), at_us - running.started_us
    book = weighed(cloud.books(promised, at_us)[stratum], cores, age_us + figures.rest_us)
    line = line_beside_others(cloud, stratum, book, total, promised)
    if line is not None:
        return replace(book, admitted_by=line)
    if book.unit is BudgetUnit.CORE_HOURS:

        def admits(rest_us: int, risk: float) -> bool:
            return risk <= most_bearable(weighed(book, cores, age_us + rest_us), promised)

        return replace(book, affordable_us=_longest_us(running, figures, quotes, admits, at_us))
    return replace(book, affordable_us=_certified_us(running, figures, quotes, promised, at_us))


def _read_budget(cloud: Cloud, running: Running, figures: _Figures, quotes: Quotes, at_us: int) -> Budget:
    """Return the class's budget, with the rise of the instance's charge. `committed` holds its present charge."""
    promised = running.probability or 0.0
    admitted, evicted = cloud.classes.get(promised, ClassCounts())
    seen_us, left_us = at_us - cloud.created_us, running.deadline_us - at_us
    reached = cloud.reach(running.instance_id, at_us)
    budget = Budget(
        earned=promised * admitted,
        evicted=evicted,
        committed=cloud.charges(promised, at_us),
        charge=charge(reached, figures.rest_us, seen_us) - charge(reached, left_us, seen_us),
        risk=max(figures.total_risk or 0.0, unseen(figures.rest_us, seen_us)),
    )
    if cloud.counts_core_hours:
        return _read_heavy_budget(cloud, running, figures, quotes, budget, reached, at_us)
    if affords_rise(budget, promised):
        return budget
    by_charge_us = _affordable_us(budget, reached, left_us, seen_us, at_us - running.started_us) or 0
    by_risk_us = _certified_us(running, figures, quotes, bearable(budget, promised), at_us) or 0
    by_risk_us = min(by_risk_us, at_us - running.started_us + unseen_at_most(bearable(budget, promised), seen_us))
    longest_us = max(by_charge_us, by_risk_us)
    return replace(budget, affordable_us=longest_us if longest_us > (running.lifetime_us or 0) else None)


def _read_heavy_budget(
    cloud: Cloud, running: Running, figures: _Figures, quotes: Quotes, counted: Budget, reached: float, at_us: int
) -> Budget:
    """Return the class's budget in core-hours. The longer lifetime brings its own, and all of them are charged."""
    promised, cores = running.probability or 0.0, _cores(cloud, running)
    seen_us, age_us, left_us = at_us - cloud.created_us, at_us - running.started_us, running.deadline_us - at_us
    declared, lost = cloud.core_hours_of(promised)
    own = core_hours_of(cores, running.lifetime_us)
    before = own * charge(reached, left_us, seen_us)

    def budget_of(rest_us: int, risk: float) -> Budget:
        hours = core_hours_of(cores, age_us + rest_us)
        return replace(
            counted,
            earned=promised * (declared + hours - own),
            charge=hours * charge(reached, rest_us, seen_us) - before,
            risk=max(risk, unseen(rest_us, seen_us)),
            core_hours=hours,
            mean_core_hours=declared / cloud.classes[promised].admitted,
            evicted_core_hours=lost,
        )

    budget = budget_of(figures.rest_us, figures.total_risk or 0.0)
    if affords_rise(budget, promised):
        return budget
    longest = _longest_us(
        running, figures, quotes, lambda rest, risk: affords_rise(budget_of(rest, risk), promised), at_us
    )
    return replace(budget, affordable_us=longest)


def _cores(cloud: Cloud, running: Running) -> int:
    return running.count * cloud.flavors[running.flavor].resources.cores


def _longest_us(
    running: Running, figures: _Figures, quotes: Quotes, admits: Callable[[int, float], bool], at_us: int
) -> int | None:
    """Return the longest lifetime whose rest is admitted at its whole risk; None if none longer than it has is."""

    def admits_whole(lifetime_us: int) -> bool:
        rest_us = running.started_us + lifetime_us - at_us
        estimate = quotes.probability(running.flavor, figures.basis.slots, rest_us)
        return estimate is not None and admits(rest_us, min(figures.borne + estimate, 1.0))

    asked_us = at_us - running.started_us + figures.rest_us
    return longest_us((running.lifetime_us or 0) + 1, asked_us - 1, admits_whole)


def affords_rise(budget: Budget, probability: float) -> bool:
    """Return True if the whole risk is within what the instance's start brought, or the budget can pay the rise.

    An exposed instance is charged a whole eviction already, so its charge does not rise. It uses the part of the
    earnings that exposed ones may use.
    """
    spare = (EXPOSED_SHARE if budget.charge == 0 else 1.0) * budget.earned - _used(budget)
    return budget.risk <= bearable(budget, probability) or budget.charge <= spare


def _used(budget: Budget) -> float:
    return budget.spent + budget.committed


def _certified_us(running: Running, figures: _Figures, quotes: Quotes, most: float, at_us: int) -> int | None:
    """Return the longest lifetime whose whole risk is at most so much; None if it is not longer."""
    if most <= figures.borne:
        return None
    below_us = quotes.lifetime_us(running.flavor, figures.basis.slots, most - figures.borne) or 0
    longest_us = at_us - running.started_us + below_us - 1
    return longest_us if longest_us > (running.lifetime_us or 0) else None


def _affordable_us(budget: Budget, reached: float, left_us: int, seen_us: int, age_us: int) -> int | None:
    """Return the longest lifetime whose charge the budget can pay; None if it is not longer."""
    spare = budget.earned - _used(budget)
    if not 0 < reached <= 1 or spare <= 0:
        return None
    most = unseen(left_us, seen_us) + spare / reached
    rest_us = int(seen_us * most / (1 - most)) - 1 if most < 1 else None
    return age_us + rest_us if rest_us is not None and rest_us > left_us else None


def keys_of(request: ExtendRequest) -> tuple[AskedBefore, ...]:
    """Return what an earlier decision on the same request is found by: it was refused at the same time, or accepted.

    The refusal comes first: the same lifetime may have been accepted since, at a later time.
    """
    accepted = (request.instance_id, request.lifetime_us, None)
    return (accepted,) if request.at_us is None else ((*accepted[:2], request.at_us), accepted)


def key_of(decision: ExtensionDecision) -> AskedBefore:
    """Return what a decision is found by; see `keys_of`."""
    refused_us = decision.at_us if isinstance(decision, ExtensionRejected) else None
    return decision.instance_id, decision.lifetime_us, refused_us


def decided_before(request: ExtendRequest, known: Mapping[AskedBefore, Recorded]) -> Recorded | None:
    """Return the earlier decision on the same request, or None."""
    return next((known[key] for key in keys_of(request) if key in known), None)


def extensions_to_look_up(cloud: Cloud, steps: Iterable[object]) -> list[AskedBefore]:
    """Return what the log may know of the decisions on the extensions among these steps and the state does not."""
    asked = [step for step in steps if isinstance(step, ExtendRequest) and _may_be_decided_before(cloud, step)]
    return sorted({key for step in asked for key in keys_of(step)}, key=str)


def _may_be_decided_before(cloud: Cloud, request: ExtendRequest) -> bool:
    """Return True unless the state shows that the request was never decided.

    A lifetime that was accepted is not above the present one, and a refusal of the same time is in the past.
    """
    running = cloud.running.get(request.instance_id)
    if running is None or request.lifetime_us <= (running.lifetime_us or 0):
        return True
    return cloud.policy.clock is Clock.EXTERNAL and request.at_us is not None and request.at_us <= cloud.at_us
