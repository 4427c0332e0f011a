"""The figures of a decision, read from the cells of a line of a log as CSV."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from app.domain.budgets import AdmittedBy, Book, Budget
from app.domain.inputs import parse_number, parse_whole
from app.domain.jobs import DataObject, LinkRate, OutputObject
from app.domain.times import parse_seconds
from app.domain.values import Acceptable, Floor, ProposedMove, QuotaKind, QuotaUse
from app.domain.wanted import Wanted
from app.workbench.logcells import CORE_HOURS, LONGEST, Cells

_PARTS_OF_A_MOVE = 3

T = TypeVar("T")


def read_budget(cells: Cells) -> Budget:
    """Return the budget of a class."""
    numbers = {name: parse_number(cells[name]) for name in ("earned", "committed", "charge", "risk")}
    affordable_us = _parse(parse_seconds, cells["affordable_lifetime_s"])
    budget = Budget(evicted=parse_whole(cells["class_evicted"]), affordable_us=affordable_us, **numbers)
    asked, mean, evicted = (_parse(parse_number, cells.get(name) or "") for name in CORE_HOURS)
    return replace(budget, core_hours=asked, mean_core_hours=mean, evicted_core_hours=evicted)


def read_book(cells: Cells) -> Book:
    """Return the book of a stratum."""
    below_us, affordable_us = (
        _parse(parse_seconds, cells[name]) for name in ("stratum_below_s", "affordable_lifetime_s")
    )
    return Book(
        from_us=parse_seconds(cells["stratum_from_s"]),
        below_us=below_us,
        earned=parse_number(cells["earned"]),
        evicted=parse_whole(cells["class_evicted"]),
        committed=parse_number(cells["committed"]),
        risky=parse_whole(cells["risky"]),
        admitted_by=_parse(AdmittedBy, cells["admitted_by"]),
        affordable_us=affordable_us,
        **{name: _parse(parse_number, cells.get(name) or "") for name in (*CORE_HOURS, "risky_core_hours")},
    )


def read_wanted(cells: Cells) -> Wanted:
    """Return the lifetimes that a start takes."""
    wanted = cells["wanted_lifetime_s"]
    lifetime_us = None if wanted == LONGEST else parse_seconds(wanted)
    return Wanted(lifetime_us, _parse(parse_seconds, cells.get("min_lifetime_s") or ""))


def read_floor(cells: Cells) -> Floor:
    """Return the evidence floor that refuses a start."""
    enough_us, affordable_us = (_parse(parse_seconds, cells[name]) for name in ("enough_s", "affordable_lifetime_s"))
    return Floor(parse_whole(cells["min_windows"]), enough_us, affordable_us or 0)


def read_acceptable(cells: Cells) -> Acceptable:
    """Return the alternatives to a start that its promise refused."""
    probability = _parse(parse_number, cells["acceptable_probability"])
    return Acceptable(parse_seconds(cells["acceptable_lifetime_s"]) or None, probability)


def read_quota(cells: Cells) -> QuotaUse:
    """Return the quota that refuses a start."""
    figures = (parse_number(cells[f"quota_{name}"]) for name in ("used", "asked", "allowed"))
    return QuotaUse(QuotaKind(cells["quota"]), *figures)


def read_link(cells: Cells) -> LinkRate:
    """Return the knowledge of a link by which inputs were judged."""
    age_us, samples, active = parse_seconds(cells["link_newest_age_s"]), cells["link_samples"], cells["link_active"]
    return LinkRate(parse_whole(cells["link_bytes_per_s"]), parse_whole(samples), age_us, parse_whole(active))


def read_moves(text: str) -> tuple[ProposedMove, ...]:
    """Return the moves that a notice of risk proposes."""
    return tuple(_read_move(*one.split(":")) for one in text.split())


def _read_move(*parts: str) -> ProposedMove:
    if len(parts) != _PARTS_OF_A_MOVE:
        raise ValueError(f"{':'.join(parts)!r} is no move: an instance, its node and the other node")
    return ProposedMove(*parts)


def read_objects(text: str) -> tuple[DataObject | OutputObject, ...]:
    """Return the objects of a job's data; those without a digest are outputs that were declared."""
    return tuple(_read_object(*one.split(":")) for one in text.split())


def _read_object(*parts: str) -> DataObject | OutputObject:
    match parts:
        case key, size:
            return OutputObject(key, parse_whole(size))
        case key, size, sha256:
            return DataObject(key, parse_whole(size), sha256)
    raise ValueError(f"{':'.join(parts)!r} is no object: a key, its bytes and its digest")


def _parse(parse: Callable[[str], T], text: str) -> T | None:
    return parse(text) if text else None
