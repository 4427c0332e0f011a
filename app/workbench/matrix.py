"""Evaluates one workload under several platforms, eviction policies, guarantees and SLAs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from app.domain.budgets import BudgetUnit
from app.domain.inputs import platform_text
from app.domain.progress import Progress
from app.domain.values import EvictionPolicy, Guarantee, Placement, Policy, Resources
from app.forecast.table import QuantileTable
from app.workbench.baselines import BaselineRun, Baselines, baseline_runs, without_promise
from app.workbench.evaluate import EventSink, evaluate
from app.workbench.fates import Case, Fates
from app.workbench.findings import LogFindings, Watch
from app.workbench.logcsv import LogWriter
from app.workbench.side_by_side import run_side_by_side
from app.workbench.tally import DrivenScenario, Scenario, WorkloadTally
from app.workbench.wholefiles import remove_left, whole_file
from app.workbench.workload import Workload

Promise = tuple[Guarantee, BudgetUnit, float | None]
_WITH_BUDGETS = {Guarantee.POOLED, Guarantee.STRATIFIED}


@dataclass(frozen=True, slots=True)
class Axes:
    """The settings that are varied. None among the SLAs is the baseline without an SLA, which has no guarantee."""

    platforms: Sequence[tuple[Resources, ...]]
    evictions: Sequence[EvictionPolicy]
    guarantees: Sequence[Guarantee]
    slas: Sequence[float | None]
    placements: Sequence[Placement] = (Placement.FIRST_FIT,)
    budgets: Sequence[BudgetUnit] = (BudgetUnit.INSTANCES,)

    def promises(self) -> list[Promise]:
        """Guarantees with what their budgets count and their SLAs; the baseline comes first and once.

        A guarantee without a budget comes with the first unit alone.
        """
        slas = [sla for sla in self.slas if sla is not None]
        baseline: list[Promise] = [(Guarantee.NONE, self.budgets[0], None)] if None in self.slas else []
        units = {one: self.budgets if one in _WITH_BUDGETS else self.budgets[:1] for one in self.guarantees}
        return [*baseline, *((one, unit, sla) for one in self.guarantees for unit in units[one] for sla in slas)]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One scenario to run.

    `log` is the CSV file for its events; `watched` asks for findings, `followed` for every quoted start's end.
    """

    scenario: Scenario
    log: Path | None = None
    watched: bool = False
    followed: bool = False

    @property
    def size(self) -> int:
        """Number of its steps."""
        return self.scenario.workload.size

    def run(self, executor: Executor, progress: Progress) -> Evaluated:
        """Run it."""
        return run_evaluation(self, executor, progress)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The result of an evaluation.

    The findings are None unless it was watched, the cases unless it was followed, the baselines unless asked for.
    """

    outcome: DrivenScenario
    findings: LogFindings | None
    cases: list[Case] | None = None
    baselines: Baselines | None = None


def scenarios(workload: Workload, policy: Policy, axes: Axes) -> list[Scenario]:
    """Return every combination.

    Platforms vary slowest, then eviction policies, placements, guarantees, what budgets count, and SLAs.
    """
    found = []
    rules = product(axes.platforms, axes.evictions, axes.placements, axes.promises())
    for nodes, eviction, placement, (guarantee, unit, sla) in rules:
        own = replace(policy, eviction_policy=eviction, placement=placement, guarantee=guarantee, budget=unit)
        own = own if sla is None else replace(own, eviction_probability=sla)
        found.append(Scenario(nodes, workload, own))
    return found


def name_of(scenario: Scenario) -> str:
    """Return a scenario's name, distinct in its matrix: 7x12-yjf-per-instance-0.01."""
    policy = scenario.policy
    parts = [platform_text(scenario.nodes), policy.eviction_policy]
    if policy.placement is not Placement.FIRST_FIT:
        parts.append(policy.placement)
    if policy.guarantee is Guarantee.NONE:
        parts.append("no-sla")
    else:
        counted = [policy.budget] if policy.budget is not BudgetUnit.INSTANCES else []
        parts += [policy.guarantee, *counted, f"{policy.eviction_probability:g}"]
    return "-".join(parts).replace("_", "-")


def run_matrix(
    evaluations: Sequence[Evaluation], *, baselines: bool = False, progress: Progress | None = None
) -> list[Evaluated]:
    """Run all of them over all cores, on request with their baselines; results come in the order given."""
    beside = baseline_runs([one.scenario for one in evaluations]) if baselines else []
    tasks: list[Evaluation | BaselineRun] = [*evaluations, *beside]
    try:
        done = run_side_by_side(_run_task, tasks, progress=progress)
    except BaseException:  # a process that is in the middle of a replay cannot remove what it has written
        for one in evaluations:
            if one.log is not None:
                remove_left(one.log)
        raise
    found = [one for one in done if isinstance(one, Evaluated)]
    if not baselines:
        return found
    tallies = [one for one in done if isinstance(one, WorkloadTally)]
    known: dict[Scenario, Baselines] = {}
    for task, tally in zip(beside, tallies, strict=True):
        known.setdefault(task.scenario, {})[task.baseline] = tally
    return [replace(one, baselines=known[without_promise(one.outcome.scenario)]) for one in found]


def _run_task(task: Evaluation | BaselineRun, executor: Executor, progress: Progress) -> Evaluated | WorkloadTally:
    return task.run(executor, progress)


def run_evaluation(evaluation: Evaluation, executor: Executor, progress: Progress) -> Evaluated:
    """Run one evaluation."""
    scenario, watch = evaluation.scenario, Watch() if evaluation.watched else None
    newest: deque[QuantileTable] = deque(maxlen=1)
    with ExitStack() as stack:
        sinks: list[EventSink] = [] if watch is None else [watch]
        if evaluation.log is not None:
            part = stack.enter_context(whole_file(evaluation.log))
            file = stack.enter_context(part.open("w", encoding="utf-8", newline=""))
            sinks.append(LogWriter(file, instances_only=True))
        fates = Fates(scenario.policy) if evaluation.followed else None
        outcome = evaluate(scenario, executor, logs=sinks, tables=newest.append, fates=fates, progress=progress)
    end_us = max(instance.stop_us for instance in scenario.workload.on_demand)
    findings = watch.findings(end_us, newest[0] if newest else None) if watch else None
    return Evaluated(outcome, findings, fates.cases() if fates else None)
