"""Writers of the values that take several columns of a log as CSV."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

from app.domain.budgets import Book, BudgetUnit
from app.domain.jobs import DataObject, LinkRate, OutputObject
from app.domain.times import seconds_text
from app.domain.values import Acceptable, Basis, Policy, ProposedMove, Resources
from app.domain.wanted import Wanted

LONGEST = "longest"
"""Stands for a wanted lifetime that is as long as possible."""
NO_STRATA = "none"
"""Stands for one stratum of all lifetimes."""
CORE_HOURS = ("core_hours", "mean_core_hours", "evicted_core_hours")
"""The columns that only budgets and books have that count core-hours."""
Cells = dict[str, Any]


def _write_policy(cells: Cells, policy: Policy) -> None:
    cells |= {
        "eviction_policy": policy.eviction_policy,
        "placement": policy.placement,
        "forecast": policy.forecast,
        "min_windows": policy.min_windows,
        "guarantee": policy.guarantee,
        "probability": policy.eviction_probability,
        "grace_s": seconds_text(policy.grace_us) if policy.grace_us else None,
        "threshold": policy.risk_threshold,
        "strata_s": " ".join(map(seconds_text, policy.strata_us)) or NO_STRATA,
        "owner_cores": policy.owner_cores,
        "owner_share": policy.owner_share,
        "overrunning_cores": policy.overrunning_cores,
        "budget": policy.budget if policy.budget is not BudgetUnit.INSTANCES else None,
        "displaces_overrunning": "yes" if policy.displaces_overrunning else None,
        "overrun_share": policy.overrun_share,
        "gives_back": "yes" if policy.gives_back else None,
    }


def _write_basis(cells: Cells, basis: Basis) -> None:
    for name in ("epoch", "slots", "probability", "estimated_probability", "probability_bound", "windows"):
        cells[name] = getattr(basis, name)
    cells["quoted_lifetime_s"] = _seconds(basis.quoted_lifetime_us)
    if basis.budget is not None:
        for name in ("earned", "committed", "charge", "risk", *CORE_HOURS):
            cells[name] = getattr(basis.budget, name)
        cells["class_evicted"] = basis.budget.evicted
        cells["affordable_lifetime_s"] = _seconds(basis.budget.affordable_us)
    if basis.book is not None:
        _write_book(cells, basis.book)
    if basis.floor is not None:
        cells["min_windows"], cells["enough_s"] = basis.floor.min_windows, _seconds(basis.floor.enough_us)
        cells["affordable_lifetime_s"] = _seconds(basis.floor.affordable_us)
    if basis.quota is not None:
        cells["quota"] = basis.quota.kind
        cells |= {f"quota_{name}": getattr(basis.quota, name) for name in ("used", "asked", "allowed")}


def _write_book(cells: Cells, book: Book) -> None:
    for name in ("earned", "committed", "risky", "admitted_by", *CORE_HOURS, "risky_core_hours"):
        cells[name] = getattr(book, name)
    cells["class_evicted"] = book.evicted
    cells["affordable_lifetime_s"] = _seconds(book.affordable_us)
    cells["stratum_from_s"], cells["stratum_below_s"] = seconds_text(book.from_us), _seconds(book.below_us)


def _write_wanted(cells: Cells, wanted: Wanted) -> None:
    cells["wanted_lifetime_s"] = LONGEST if wanted.lifetime_us is None else seconds_text(wanted.lifetime_us)
    cells["min_lifetime_s"] = _seconds(wanted.min_lifetime_us)


def _write_acceptable(cells: Cells, instead: Acceptable) -> None:
    cells["acceptable_lifetime_s"] = seconds_text(instead.lifetime_us or 0)
    cells["acceptable_probability"] = instead.probability


def _yes_in(column: str) -> Callable[[Cells, bool], None]:
    """Return a function that writes `yes` for True."""
    return lambda cells, is_so: cells.__setitem__(column, "yes" if is_so else None)


def _write_peers(cells: Cells, peers: tuple[str, ...]) -> None:
    cells["peers"] = " ".join(peers) or None


def _write_nodes(cells: Cells, nodes: tuple[str, ...]) -> None:
    if nodes:
        cells["members"], cells["nodes"] = len(nodes), " ".join(nodes)


def _write_allowed(cells: Cells, nodes: tuple[str, ...]) -> None:
    cells["allowed"] = " ".join(nodes) or None


def _write_moves(cells: Cells, moves: tuple[ProposedMove, ...]) -> None:
    cells["moves"] = " ".join(f"{one.instance_id}:{one.node}:{one.to}" for one in moves) or None


def _objects_in(column: str) -> Callable[[Cells, tuple[DataObject | OutputObject, ...]], None]:
    """Return a function that writes objects: the key, the bytes and, where it is known, the digest of each."""

    def write(cells: Cells, objects: tuple[DataObject | OutputObject, ...]) -> None:
        cells[column] = " ".join(":".join(map(str, astuple(one))) for one in objects) or None

    return write


def _write_link(cells: Cells, link: LinkRate) -> None:
    cells["link_bytes_per_s"], cells["link_samples"] = link.bytes_per_s, link.samples
    cells["link_newest_age_s"], cells["link_active"] = seconds_text(link.newest_age_us), link.active


def _write_count(cells: Cells, count: int) -> None:
    if count > 1:
        cells["members"] = count


def _write_resources(cells: Cells, resources: Resources) -> None:
    cells |= resources._asdict()


def _seconds(us: int | None) -> str | None:
    return None if us is None else seconds_text(us)


COMPOSED: dict[str, Callable[[Cells, Any], None]] = {
    "policy": _write_policy,
    "wanted": _write_wanted,
    "acceptable": _write_acceptable,
    "is_automatic": _yes_in("automatic"),
    "basis": _write_basis,
    "capacity": _write_resources,
    "demand": _write_resources,
    "is_last": _yes_in("last"),
    "peers": _write_peers,
    "observed": _yes_in("observed"),
    "aborted": _yes_in("aborted"),
    "goes_first": _yes_in("goes_first"),
    "link": _write_link,
    "nodes": _write_nodes,
    "allowed": _write_allowed,
    "count": _write_count,
    "moves": _write_moves,
    "inputs": _objects_in("inputs"),
    "outputs": _objects_in("outputs"),
}
"""The fields that take several columns, or another form in theirs, with the functions that write them."""
