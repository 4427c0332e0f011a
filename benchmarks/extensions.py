"""Shows what is lost if lifetimes are not declared as they are: as a quarter, extended on the way, or not at all.

    python -m benchmarks.extensions                          # the four full pairs at 0.01, 0.05 and 0.10
    python -m benchmarks.extensions --platforms A-B:7x12 --sla 0.05 --guarantee pooled --forecast replay

Each platform is run three times. `true`: with true declarations. `quarters`: with a quarter of each lifetime declared
at the start. The owner of such an instance asks for one more quarter when half of the last one is over, and once more
at its end if that was refused. Refused twice, it runs on without a promise until its true end. `longest`: each start
asks for as long as possible, and takes no less than a quarter of its lifetime; the service extends it while it can.

A line shows: admitted / requested; completed core-hours of those requested, both by true lifetimes, whether promised to
the end or not; the share of the extensions asked for that was promised, or how many there were for each start;
evictions without a promise; and evicted within the promise / admitted in each stratum of *true* lifetimes. A second
line has the same by strata of the lifetime *promised* last. The sums over the platforms follow, in multiples of the
promise, with the number of strata that are *broken*: 20 admissions, and the interval at 95 % wholly above the promise.
Exit code 1 if less completes than with true declarations, a stratum of what was promised is broken, or a sum above 2.
Deterministic. The recorded traces are read from ../shared/traces, or from --traces.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.domain.events import InstanceEvicted, InstanceExtended, InstanceStarted, PromiseEnding, Recorded
from app.domain.requests import Driven, ExtendRequest, StartRequest
from app.domain.strata import STRATA, stratum_of
from app.domain.values import Clock, Forecast, Guarantee, Market, Policy
from app.domain.wanted import Wanted
from app.judging.intervals import exact_interval
from app.workbench.evaluate import DrivenCloud, opening
from app.workbench.tally import Scenario
from app.workbench.workload import flavors, operations
from benchmarks.platforms import FULL, TRACES, Platform, named

PARTS = 4
KINDS = ("true", "quarters", "longest")
ENOUGH = 20
"""A stratum of a run is judged from so many admissions on."""
MOST = 2.0
"""Summed over the platforms, so many times the promise may be evicted in a stratum, because bursts are few."""


@dataclass
class Outcome:
    """Counts of a run. Core-microseconds are of true lifetimes; strata are those of true lifetimes too."""

    requested: int = 0
    requested_core_us: int = 0
    completed_core_us: int = 0
    admitted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STRATA, 0))
    evicted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STRATA, 0))
    promised: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STRATA, 0))
    promised_evicted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STRATA, 0))
    overrun: int = 0
    asked: int = 0
    extended: int = 0
    told: int = 0

    def counts(self, by: str) -> list[tuple[int, int]]:
        """Return evicted and admitted by strata of lifetimes, `true` or `promised`."""
        evicted, admitted = (self.evicted, self.admitted) if by == "true" else (self.promised_evicted, self.promised)
        return [(evicted[name], admitted[name]) for name in STRATA]


class _Counting:
    """Follows the log of a run, and counts it by the true lifetimes of its instances."""

    def __init__(self, true: dict[str, StartRequest], cores: dict[str, int]) -> None:
        self.outcome = Outcome()
        self._true, self._cores = true, cores
        self._deadlines_us: dict[str, int] = {}
        self._strata: dict[str, str] = {}

    def write(self, recorded: Recorded) -> None:
        """Take the next event."""
        event = recorded.event
        if isinstance(event, InstanceStarted) and event.market is Market.SPOT:
            self._deadlines_us[event.instance_id] = event.at_us + (event.lifetime_us or 0)
            true = self._true[event.instance_id]
            self.outcome.admitted[stratum_of(true.lifetime_us or 0)] += 1
            self._promise(event.instance_id, event.lifetime_us or 0)
            self.outcome.completed_core_us += self._core_us(true)
        elif isinstance(event, InstanceExtended):
            self._deadlines_us[event.instance_id] = event.deadline_us
            self._promise(event.instance_id, event.lifetime_us)
            self.outcome.extended += 1
        elif isinstance(event, PromiseEnding):
            self.outcome.told += 1
        elif isinstance(event, InstanceEvicted):
            true = self._true[event.instance_id]
            within = event.at_us <= self._deadlines_us[event.instance_id]
            self.outcome.evicted[stratum_of(true.lifetime_us or 0)] += within
            self.outcome.promised_evicted[self._strata[event.instance_id]] += within
            self.outcome.overrun += not within
            self.outcome.completed_core_us -= self._core_us(true)

    def _promise(self, name: str, lifetime_us: int) -> None:
        """Count an instance in the stratum of the lifetime that it was promised last, and there alone."""
        if (former := self._strata.get(name)) is not None:
            self.outcome.promised[former] -= 1
        self._strata[name] = stratum_of(lifetime_us)
        self.outcome.promised[self._strata[name]] += 1

    def request(self, true: StartRequest) -> None:
        """Count a spot start that is asked for."""
        self.outcome.requested += 1
        self.outcome.requested_core_us += self._core_us(true)

    def _core_us(self, true: StartRequest) -> int:
        return self._cores[true.flavor] * (true.lifetime_us or 0)


def run(scenario: Scenario, kind: str) -> Outcome:
    """Lead a cloud through the workload, with lifetimes declared in one of the three ways."""
    steps = [*operations(scenario.workload)]
    true = {s.instance_id: s for s in steps if isinstance(s, StartRequest) and s.market is Market.SPOT}
    counting = _Counting(true, {name: size.cores for name, size in flavors(scenario.workload).items()})
    with ThreadPoolExecutor(1) as executor:
        cloud = DrivenCloud(scenario.policy, executor, logs=[counting])
        cloud.record(opening(scenario))
        for step in _declared(steps, true, kind):
            if isinstance(step, StartRequest) and step.instance_id in true:
                counting.request(true[step.instance_id])
            _take(cloud, step, counting.outcome)
    return counting.outcome


def _take(cloud: DrivenCloud, step: Driven, outcome: Outcome) -> None:
    decision = cloud.step(step)
    outcome.asked += isinstance(step, ExtendRequest) and decision is not None


def _declared(steps: Sequence[Driven], true: dict[str, StartRequest], kind: str) -> Iterator[Driven]:
    """Return the steps as their owners would send them who declare lifetimes in this way."""
    if kind != "longest":
        return in_parts(steps, true, PARTS if kind == "quarters" else 1)
    return (_longest(step) if isinstance(step, StartRequest) and step.instance_id in true else step for step in steps)


def _longest(start: StartRequest) -> StartRequest:
    return replace(start, lifetime_us=None, wanted=Wanted(None, max((start.lifetime_us or 0) // PARTS, 1)))


def in_parts(steps: Sequence[Driven], true: dict[str, StartRequest], parts: int) -> Iterator[Driven]:
    """Return the steps with the first part declared at each spot start, and the extensions in between, by time."""
    keyed: list[tuple[tuple[int, int], Driven]] = []
    for number, step in enumerate(steps):
        at_us = step.at_us or 0
        start = true.get(step.instance_id) if isinstance(step, StartRequest) else None
        lifetime_us = 0 if start is None else start.lifetime_us or 0
        if isinstance(step, StartRequest) and start is not None and parts > 1 and lifetime_us >= parts:
            keyed.append(((at_us, number), replace(step, lifetime_us=lifetime_us // parts)))
            asked = _extensions(step.instance_id, at_us, lifetime_us, parts)
            keyed += [((one.at_us or 0, -1), one) for one in asked]
        else:
            keyed.append(((at_us, number), step))
    keyed.sort(key=lambda item: item[0])
    return iter([step for _, step in keyed])


def _extensions(name: str, at_us: int, lifetime_us: int, parts: int) -> Iterator[ExtendRequest]:
    for part in range(1, parts):
        longer_us = lifetime_us * (part + 1) // parts
        for half in (2 * part - 1, 2 * part):
            yield ExtendRequest(name, longer_us, at_us + lifetime_us * half // (2 * parts))


def main() -> None:
    """Print two lines for each platform and probability."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platforms", type=named, nargs="*", default=FULL, metavar="PAIR:NxC")
    parser.add_argument("--sla", type=float, nargs="*", default=(0.01, 0.05, 0.10))
    parser.add_argument("--guarantee", type=Guarantee, default=Guarantee.STRATIFIED)
    parser.add_argument("--forecast", type=Forecast, default=Forecast.CALIBRATED)
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS, help="how lifetimes are declared")
    parser.add_argument("--traces", type=Path, default=TRACES)
    arguments = parser.parse_args()
    held = [_compare(arguments, sla) for sla in arguments.sla]
    sys.exit(0 if all(held) else 1)


def _compare(arguments: argparse.Namespace, sla: float) -> bool:
    print(f"SLA {sla}, {arguments.guarantee}, {arguments.forecast}", flush=True)
    found = {}
    for kind in arguments.kinds:
        found[kind] = [_show(arguments, sla, platform, kind) for platform in arguments.platforms]
    held = True
    for kind, outcomes in found.items():
        for by in ("true", "promised"):
            sums, broken = _multiples(outcomes, sla, by), sum(_broken(one, sla, by) for one in outcomes)
            cells = " ".join("       -" if one is None else f"{one:8.2f}" for one in sums)
            what = f"  {'all, in multiples':18} {kind:8} core {_completed(outcomes):.3f} broken {broken}"
            print(f"{what} {by:>33} {cells}", flush=True)
            if by == "promised" and kind != "true":
                held &= not broken and all(one is None or one <= MOST for one in sums)
        held &= "true" not in found or _completed(outcomes) >= _completed(found["true"])
    return held


def _show(arguments: argparse.Namespace, sla: float, platform: Platform, kind: str) -> Outcome:
    policy = Policy(
        guarantee=arguments.guarantee,
        forecast=arguments.forecast,
        clock=Clock.EXTERNAL,
        clock_step_us=None,
        eviction_probability=sla,
    )
    found = run(Scenario(platform.capacities, platform.workload(arguments.traces), policy), kind)
    admitted = sum(found.admitted.values()) / found.requested
    core = found.completed_core_us / found.requested_core_us
    asked = found.asked or sum(found.admitted.values())
    extended = f"{found.extended / asked:.3f}" if found.extended else "    -"
    what = (
        f"  {platform.platform:18} {kind:8} core {core:.3f} admitted {admitted:.3f} extended {extended}"
        f" told {found.told:4} overrun {found.overrun:4}"
    )
    for by in ("true", "promised"):
        cells = " ".join(f"{f'{evicted}/{of}':>8}" for evicted, of in found.counts(by))
        print(f"{what if by == 'true' else by.rjust(len(what))}  {cells}", flush=True)
    return found


def _broken(outcome: Outcome, sla: float, by: str) -> int:
    """Return in how many strata the promise is broken beyond chance, of those with enough admissions."""
    return sum(exact_interval(*one)[0] > sla for one in outcome.counts(by) if one[1] >= ENOUGH)


def _completed(outcomes: Sequence[Outcome]) -> float:
    return sum(one.completed_core_us for one in outcomes) / sum(one.requested_core_us for one in outcomes)


def _multiples(outcomes: Sequence[Outcome], sla: float, by: str) -> list[float | None]:
    sums = [
        tuple(map(sum, zip(*cells, strict=True))) for cells in zip(*(one.counts(by) for one in outcomes), strict=True)
    ]
    return [lost / of / sla if of else None for lost, of in sums]


if __name__ == "__main__":
    main()
