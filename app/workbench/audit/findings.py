"""The rules that an audit checks, and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NoReturn

from app.workbench.logcsv import LogRow


class Rule(IntEnum):
    """The rules by their numbers in docs/architecture.md."""

    CAPACITY = 1
    ON_DEMAND_STAYS = 2
    ON_DEMAND_FIRST = 3
    EVICTION = 4
    SLA = 5
    FOLD = 6
    ONCE = 7
    ORDER = 8


@dataclass(frozen=True, slots=True)
class Finding:
    """The first event that breaks a rule."""

    seq: int
    rule: Rule
    why: str


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a log. By market: starts asked for and accepted, rejections by reason, instances running at the end.

    `classes`: by promised probability, the number admitted, and the number of those evicted before they overran.
    """

    requested: Mapping[str, int]
    admitted: Mapping[str, int]
    rejected: Mapping[str, Mapping[str, int]]
    evicted: int
    drilled: int
    stopped: int
    running: Mapping[str, int]
    used_cores: Mapping[str, int]
    capacity_cores: int
    classes: Mapping[float, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Audit:
    """The result: the number of events read, and either a finding or the totals of the log."""

    event_count: int
    finding: Finding | None
    totals: Totals | None = None


class Broken(Exception):
    def __init__(self, row: LogRow, rule: Rule, why: str) -> None:
        super().__init__(why)
        self.finding = Finding(row.seq, rule, why)


def fail(row: LogRow, rule: Rule, why: str) -> NoReturn:
    raise Broken(row, rule, why)


def require(row: LogRow, rule: Rule, holds: bool, why: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        fail(row, rule, why)
