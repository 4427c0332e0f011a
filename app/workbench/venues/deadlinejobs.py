"""Jobs with deadlines in a backtest: what is left of each, and what it would take on a type of machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from app.venues.rules.checkpoints import resume_us
from app.venues.rules.moldable import Parallelism, run_time_us
from app.venues.rules.types import MachineType
from app.workbench.venues.jobs import VenueJob
from app.workbench.venues.setting import BacktestSetting

MOST_MEMORY_GIB = 15.0
"""A job holds its machine type's memory, but at most this: the median of the thesis' types. Logs seldom tell it."""
DEADLINE_OVER_TIME = 2.0
DATA_GIB = 1.0
PER_GIB = 0.01
"""Dollars to move a gigabyte into another zone."""


@dataclass(slots=True)
class DeadlineJob:
    """A job: run time `own_us` on a machine with `units` of speed, of which the share `saved` is in a checkpoint."""

    number: int
    kind: str
    units: float
    own_us: float
    submit_us: int
    deadline_us: int
    memory_gib: float
    parallelism: Parallelism | None
    zone: str
    saved: float = 0.0
    revocations: int = 0
    launches: int = 0
    """The number of times it began on a machine."""
    ended_us: int = 0
    is_given_up: bool = False

    def work_us(self, machine: MachineType) -> float:
        """Return the run time that is left on a type of machine; infinite if it cannot run there."""
        whole_us = run_time_us(self.own_us, self.units, machine.compute_units, self.parallelism)
        return (1.0 - self.saved) * whole_us if whole_us < inf else inf

    def resume_us(self, zone: str) -> int:
        """Return how long it takes to read its checkpoint in a zone; nothing if there is none."""
        return resume_us(self.memory_gib, is_same_zone=zone == self.zone) if self.saved else 0

    def moving_cost(self, zone: str) -> float:
        """Return the cost of moving its checkpoint, or its data before there is one, into a zone."""
        return 0.0 if zone == self.zone else PER_GIB * (self.memory_gib if self.saved else DATA_GIB)

    def save(self, done_us: float, machine: MachineType) -> None:
        """Keep work that was done on a type of machine since the last checkpoint."""
        self.saved += done_us / run_time_us(self.own_us, self.units, machine.compute_units, self.parallelism)


def deadline_jobs(
    setting: BacktestSetting, placed: Sequence[VenueJob], most_memory_gib: float = MOST_MEMORY_GIB
) -> list[DeadlineJob]:
    """Return fresh jobs whose deadline is twice the run time; data are in the first zone at first."""
    found = []
    for number, job in enumerate(placed):
        name = setting.names[job.pool]
        machine = setting.machine(name)
        assert machine is not None
        found.append(
            DeadlineJob(
                number,
                name.instance_type,
                machine.compute_units,
                job.lifetime_us,
                job.now_us,
                job.now_us + int(DEADLINE_OVER_TIME * job.lifetime_us),
                min(machine.memory_gib, most_memory_gib),
                job.parallelism,
                setting.names[0].zone,
            )
        )
    return found
