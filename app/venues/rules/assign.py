"""The choice of an option for each of several jobs, at the least loss in all.

Where nothing couples the jobs each takes its best, which is optimal. Where pools take only so many, it is an assignment
problem, solved exactly. A share of jobs in one group of machines, a budget or a joint risk make it an integer program
over the cheapest options, bounded in time; its gap is told, and where it finds nothing jobs choose in turn.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf, log
from typing import Any, NamedTuple

import numpy as np

from app.venues.rules.planned import FIXED_POOL, NO_POOL, PlanOption, PlanPool

MOST_OPTIONS = 12
GAP, LIMIT_S = 0.01, 5.0
FEW_JOBS = 5
"""Up to so many jobs may all begin in one group."""


class ChoiceMethod(StrEnum):
    """The way in which options were chosen."""

    EACH_BEST = "each_best"
    ASSIGNMENT = "assignment"
    INTEGER_PROGRAM = "integer_program"
    IN_TURN = "in_turn"


class PlanLimits(NamedTuple):
    """The largest share of jobs that begins in one group, the largest cost of all, and the largest probability that
    some first machine in a group is lost; None: no limit.
    """

    group_share: float | None = None
    budget: float | None = None
    group_risk: float | None = None


class PlanChoice(NamedTuple):
    """The number of the option of each job, how it was found, and how far it may be from the least loss, as a share."""

    chosen: list[int]
    method: ChoiceMethod
    gap: float


@dataclass(frozen=True, slots=True)
class _Coupling:
    options: Sequence[Sequence[PlanOption]]
    pools: Sequence[PlanPool]
    limits: PlanLimits

    @property
    def most_in_group(self) -> float:
        share, count = self.limits.group_share, len(self.options)
        return inf if share is None or count <= FEW_JOBS else max(float(int(share * count)), 1.0)

    @property
    def has_only_caps(self) -> bool:
        limits = self.limits
        return self.most_in_group == inf and limits.budget is None and limits.group_risk is None

    def group(self, option: PlanOption) -> str:
        return self.pools[option.pool].group if option.pool >= 0 else ""

    def cap(self, pool: int) -> float:
        cap = self.pools[pool].cap if pool >= 0 else None
        return inf if cap is None else float(cap)


def choose_options(
    options: Sequence[Sequence[PlanOption]], pools: Sequence[PlanPool], limits: PlanLimits
) -> PlanChoice | None:
    """Return an option for each job, of those it has; None if no choice keeps the limits.

    Each job must have an option in no pool (FIXED_POOL or NO_POOL), so that only a budget can be impossible.
    """
    coupling = _Coupling(options, pools, limits)
    best = [_ranked(of_job)[0] for of_job in options]
    if _keeps(coupling, best):
        return PlanChoice(best, ChoiceMethod.EACH_BEST, 0.0)
    assigned = _assigned(coupling)
    if coupling.has_only_caps or _keeps(coupling, assigned):
        return PlanChoice(assigned, ChoiceMethod.ASSIGNMENT, 0.0)
    kept = [_worth_considering(coupling, *pair) for pair in zip(options, assigned, strict=True)]
    found = _solved(coupling, kept)
    if found is not None:
        return found
    in_turn = _in_turn(coupling)
    return None if in_turn is None else PlanChoice(in_turn, ChoiceMethod.IN_TURN, _gap(coupling, best, in_turn))


def _ranked(options: Sequence[PlanOption]) -> list[int]:
    """Return the numbers of options by rising loss, of equal ones that with the highest survival first."""
    return sorted(range(len(options)), key=lambda at: (options[at].loss, -options[at].survival))


def _keeps(coupling: _Coupling, chosen: Sequence[int]) -> bool:
    taken = [of_job[at] for of_job, at in zip(coupling.options, chosen, strict=True)]
    pools = Counter(one.pool for one in taken)
    groups = Counter(coupling.group(one) for one in taken if one.pool >= 0)
    budget, risks = coupling.limits.budget, _risks(coupling, taken)
    return (
        all(count <= coupling.cap(pool) for pool, count in pools.items())
        and all(count <= coupling.most_in_group for count in groups.values())
        and (budget is None or sum(one.cost for one in taken) <= budget + 1e-9)
        and all(risk <= _most_risk(coupling.limits) + 1e-9 for risk in risks.values())
    )


def _risks(coupling: _Coupling, taken: Sequence[PlanOption]) -> Mapping[str, float]:
    found = defaultdict[str, float](float)
    for one in taken:
        found[coupling.group(one)] += _risk(one)
    return found


def _risk(option: PlanOption) -> float:
    return -log(max(option.survival, 1e-12))


def _most_risk(limits: PlanLimits) -> float:
    return inf if limits.group_risk is None else -log(1.0 - limits.group_risk)


def _assigned(coupling: _Coupling) -> list[int]:
    """Return the choice of least loss under the caps: each pool is repeated as often as it may and could be taken."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - slow to load, and seldom needed

    options, count = coupling.options, len(coupling.options)
    best: list[dict[int, int]] = [_best_by_pool(of_job) for of_job in options]
    wanting = Counter(pool for of_job in best for pool in of_job if pool >= 0)
    columns = [pool for pool in sorted(wanting) for _ in range(int(min(coupling.cap(pool), wanting[pool])))]
    losses = np.full((count, len(columns) + count), np.inf)
    for job, of_pool in enumerate(best):
        losses[job, : len(columns)] = [options[job][of_pool[pool]].loss if pool in of_pool else inf for pool in columns]
        losses[job, len(columns) + job] = options[job][of_pool[FIXED_POOL]].loss
    _, chosen = linear_sum_assignment(losses)
    return [
        of_pool[columns[at] if at < len(columns) else FIXED_POOL]
        for of_pool, at in zip(best, chosen.tolist(), strict=True)
    ]


def _best_by_pool(options: Sequence[PlanOption]) -> dict[int, int]:
    """Return the best option of each pool; all that are in none count as one, FIXED_POOL."""
    found = dict[int, int]()
    for at, one in enumerate(options):
        pool = FIXED_POOL if one.pool == NO_POOL else one.pool
        if pool not in found or one.loss < options[found[pool]].loss:
            found[pool] = at
    return found


def _worth_considering(coupling: _Coupling, options: Sequence[PlanOption], assigned: int) -> list[int]:
    """Return the cheapest options, what the assignment used, one of each group, and those in no pool."""
    ranked = _ranked(options)
    firsts = {coupling.group(options[at]): at for at in reversed(ranked)}
    outside = [at for at in ranked if options[at].pool < 0]
    return sorted({*ranked[:MOST_OPTIONS], assigned, *firsts.values(), *outside})


def _solved(coupling: _Coupling, kept: Sequence[Sequence[int]]) -> PlanChoice | None:
    """Return what the integer program finds within its time."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - slow to load, and seldom needed

    places = [(job, at) for job, of_job in enumerate(kept) for at in of_job]
    taken = [coupling.options[job][at] for job, at in places]
    rows, upper = _rows(coupling, taken)
    jobs = np.zeros((len(kept), len(places)))
    jobs[[job for job, _ in places], range(len(places))] = 1.0
    constraints = [LinearConstraint(jobs, 1.0, 1.0)]
    if rows:
        constraints.append(LinearConstraint(np.array(rows), -np.inf, np.array(upper)))
    losses = np.array([one.loss for one in taken])
    found: Any = milp(
        losses,
        integrality=np.ones(len(places)),
        bounds=Bounds(0.0, 1.0),
        constraints=constraints,
        options={"time_limit": LIMIT_S, "mip_rel_gap": GAP},
    )
    if found.x is None:
        return None
    chosen = [at for (_, at), share in zip(places, found.x, strict=True) if share > 0.5]
    return PlanChoice(chosen, ChoiceMethod.INTEGER_PROGRAM, float(found.mip_gap or 0.0))


def _rows(coupling: _Coupling, taken: Sequence[PlanOption]) -> tuple[list[list[float]], list[float]]:
    """Return the rows of the limits and their upper bounds, over the options that are considered."""
    rows, upper = list[list[float]](), list[float]()
    for pool in sorted({one.pool for one in taken if coupling.cap(one.pool) < inf}):
        rows.append([float(one.pool == pool) for one in taken])
        upper.append(coupling.cap(pool))
    for group in sorted({coupling.group(one) for one in taken if one.pool >= 0}):
        if coupling.most_in_group < inf:
            rows.append([float(coupling.group(one) == group) for one in taken])
            upper.append(coupling.most_in_group)
        if coupling.limits.group_risk is not None:
            rows.append([_risk(one) if coupling.group(one) == group else 0.0 for one in taken])
            upper.append(_most_risk(coupling.limits))
    if coupling.limits.budget is not None:
        rows.append([one.cost for one in taken])
        upper.append(coupling.limits.budget)
    return rows, upper


def _in_turn(coupling: _Coupling) -> list[int] | None:
    """Let jobs choose in turn, the dearest first, what the limits leave; None if the budget does not do."""
    options = coupling.options
    order = sorted(range(len(options)), key=lambda job: -max(one.cost for one in options[job]))
    outside = [_best_by_pool(of_job)[FIXED_POOL] for of_job in options]
    chosen = [*outside]
    for job in order:
        for at in _ranked(options[job]):
            chosen[job] = at
            if _keeps(_without_budget(coupling), chosen):
                break
    return chosen if _keeps(coupling, chosen) else None


def _without_budget(coupling: _Coupling) -> _Coupling:
    return _Coupling(coupling.options, coupling.pools, coupling.limits._replace(budget=None))


def _gap(coupling: _Coupling, best: Sequence[int], chosen: Sequence[int]) -> float:
    """Return how far a choice is from what each job's best would lose, a lower bound."""
    least, reached = (
        sum(of_job[at].loss for of_job, at in zip(coupling.options, each, strict=True)) for each in (best, chosen)
    )
    return (reached - least) / max(abs(reached), 1e-9)
