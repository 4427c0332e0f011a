"""The budget of a class and the book of a stratum, as decisions read and record them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from app.domain.strata import stratum_name


class BudgetUnit(StrEnum):
    """The unit of a budget or a book: each instance counts as one, or by the core-hours that it declares."""

    INSTANCES = "instances"
    CORE_HOURS = "core_hours"


class AdmittedBy(StrEnum):
    """The line of the stratified guarantee that admits a start."""

    SMALL = "small"
    WITHIN = "within"
    PAID = "paid"


@dataclass(frozen=True, slots=True)
class Budget:
    """The eviction budget of a class (all instances promised one eviction probability) at the moment of a decision.

    `earned`: evictions that the class may have once the instance is admitted; `evicted`: those it has had; `committed`:
    the charges of its running instances; `charge`: the new instance's own; `risk`: the new instance's eviction
    probability; `affordable_us`: the longest lifetime that could be admitted, if this one cannot.

    A budget that counts core-hours has the last three: those that the new instance declares, the mean of all that were
    admitted, and those evicted. `earned`, `committed` and `charge` are core-hours then.
    """

    earned: float
    evicted: int
    committed: float
    charge: float
    risk: float
    affordable_us: int | None = None
    core_hours: float | None = field(default=None, metadata={"since": 5})
    mean_core_hours: float | None = field(default=None, metadata={"since": 5})
    evicted_core_hours: float | None = field(default=None, metadata={"since": 5})

    @property
    def weight(self) -> float:
        """The weight of the start, in the budget's unit."""
        return 1 if self.core_hours is None else self.core_hours

    @property
    def spent(self) -> float:
        """The sum of what was evicted, in the budget's unit."""
        return self.evicted if self.evicted_core_hours is None else self.evicted_core_hours


@dataclass(frozen=True, slots=True)
class Book:
    """The book of a stratum of lifetimes under one promise, at a moment; of a decision, just before it.

    It holds lifetimes from `from_us` on that are shorter than `below_us` (None: any). `earned`: what its starts have
    earned; `evicted`: the evictions that it has had; `committed`: the risks of those that run, by the share of their
    lifetime that is left; `risky`: how many that run in the stratum, whatever was promised to them, risk more than half
    of that, and more than half of the promise of this book. Of the start that it was read for, `admitted_by` is the
    line that admits it, None if none does, and `affordable_us` the longest lifetime within the promise, if the declared
    one cannot be admitted.

    A book that counts core-hours has the last four: those that the start declares (None if it was read for none), the
    mean of all that were entered (if none was, of those of the stratum's other books), those evicted, and those of the
    risky ones. `earned` and `committed` are core-hours then.
    """

    from_us: int
    below_us: int | None
    earned: float
    evicted: int
    committed: float
    risky: int
    admitted_by: AdmittedBy | None = None
    affordable_us: int | None = None
    core_hours: float | None = field(default=None, metadata={"since": 5})
    mean_core_hours: float | None = field(default=None, metadata={"since": 5})
    evicted_core_hours: float | None = field(default=None, metadata={"since": 5})
    risky_core_hours: float | None = field(default=None, metadata={"since": 5})

    @property
    def name(self) -> str:
        """The name of its stratum: `<1h`, `1h-8h`, `>=8h`."""
        return stratum_name(self.from_us, self.below_us)

    @property
    def unit(self) -> BudgetUnit:
        """The unit of the book."""
        return BudgetUnit.INSTANCES if self.evicted_core_hours is None else BudgetUnit.CORE_HOURS

    @property
    def left(self) -> float:
        """The earnings less the evictions, in the book's unit; the book is in debt if this is below 0."""
        return self.earned - (self.evicted if self.evicted_core_hours is None else self.evicted_core_hours)

    @property
    def weight(self) -> float:
        """The weight of the start, in the book's unit."""
        return 1 if self.core_hours is None else self.core_hours

    @property
    def usual_weight(self) -> float:
        """The mean weight of a start; in an empty stratum, that of this one."""
        return 1 if self.evicted_core_hours is None else self.mean_core_hours or self.weight

    @property
    def risky_weight(self) -> float:
        """The weight of the risky instances."""
        return self.risky if self.risky_core_hours is None else self.risky_core_hours
