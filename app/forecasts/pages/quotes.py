"""The quote calculator: the lifetime at a probability, the risk of a lifetime, and the number of such starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from app.admission.quote import Quotes, quotes_in_force
from app.domain.times import DAY_US, HOUR_US, SECOND_US, from_datetime
from app.domain.values import Guarantee, Policy
from app.engine.cloud import Cloud
from app.forecast.table import QuantileTable
from app.forecasts.evidence import evidence_in_force, guaranteed_bound
from app.forecasts.rules import Evidence
from app.forecasts.table_reads import TableReads
from app.platform.http.reached import reached
from app.platform.pages.asking import server_time
from app.platform.pages.rendering import render
from app.scheduling.scheduler import Scheduler

UNITS = {"min": 60 * SECOND_US, "h": HOUR_US, "d": DAY_US}
_LONGEST_US = 3660 * DAY_US
_MOST_COUNTED = 5_000


@dataclass(frozen=True, slots=True)
class Asked:
    """The request: the text as written, and its parsed values, a share and a length of time."""

    probability_text: str
    lifetime_text: str
    unit: str
    probability: float
    lifetime_us: int | None
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """The table's quotes for one flavor.

    `lifetime_us` is None without evidence; `lifetime_bound` is the upper bound of the eviction probability of what is
    guaranteed. `estimate`, `bound` and `count` refer to the requested lifetime: `count` such
    starts would be accepted one after the other, each taking a slot.
    """

    flavor: str
    cores: int
    slots: int
    lifetime_us: int | None
    lifetime_bound: float | None
    estimate: float | None
    bound: float | None
    count: int | None
    evidence: Sequence[Evidence]


async def show(request: Request) -> Response:
    """Show the form, and the answer of the newest table."""
    name = request.path_params["cloud"]
    table = await reached(request, TableReads).newest(name)
    cloud = await reached(request, Scheduler).state(name)
    asked = read_form(request, cloud.policy)
    now_us = cloud.present_us(from_datetime(server_time(request)))
    lines = [] if table is None else _lines(table, cloud, asked, now_us)
    return render(
        request,
        "quotes.html",
        table=table,
        policy=cloud.policy,
        asked=asked,
        lines=lines,
        units=UNITS,
        stale=table is not None and now_us - table.epoch_us > cloud.policy.table_max_age_us,
        promised=cloud.policy.guarantee is not Guarantee.NONE,
        live=f"/ui/clouds/{name}/live",
    )


def read_form(request: Request, policy: Policy) -> Asked:
    """Return the form's values, by default the cloud's own probability and an hour."""
    query = request.query_params
    unit = query.get("unit", "h") if query.get("unit") in UNITS else "h"
    share_text = query.get("probability", f"{100 * policy.eviction_probability:g}")[:20]
    time_text = query.get("lifetime", "1")[:20]
    problems = []
    share = _number(share_text)
    if share is None or not 0 < share < 100:
        problems.append("The probability must be a number above 0 and below 100 per cent.")
        share = 100 * policy.eviction_probability
    length = _number(time_text) if time_text.strip() else None
    lifetime_us = None if length is None else round(length * UNITS[unit])
    if time_text.strip() and (lifetime_us is None or not 0 <= lifetime_us <= _LONGEST_US):
        problems.append("The lifetime must be a number from 0 to ten years.")
        lifetime_us = None
    return Asked(share_text, time_text, unit, share / 100, lifetime_us, tuple(problems))


def count_accepted(table: Quotes, flavor: str, slots: int, lifetime_us: int, probability: float) -> int:
    """Return how many starts the table accepts one after the other; `_MOST_COUNTED` at most are counted."""
    for count in range(min(slots, _MOST_COUNTED)):
        quoted_us = table.lifetime_us(flavor, slots - count, probability)
        if quoted_us is None or quoted_us <= lifetime_us:
            return count
    return min(slots, _MOST_COUNTED)


def _lines(table: QuantileTable, cloud: Cloud, asked: Asked, now_us: int) -> list[Line]:
    quotes = quotes_in_force(table, cloud, cloud.flavors, now_us)
    return [_line(quotes, evidence_in_force(table, cloud, flavor), cloud, flavor, asked) for flavor in cloud.flavors]


def _line(table: Quotes, evidence: Sequence[Evidence], cloud: Cloud, flavor: str, asked: Asked) -> Line:
    slots, lifetime_us = cloud.available_slots(flavor), asked.lifetime_us
    return Line(
        flavor,
        cloud.flavors[flavor].resources.cores,
        slots,
        table.lifetime_us(flavor, slots, asked.probability),
        guaranteed_bound(table, flavor, slots, asked.probability, cloud.policy.confidence),
        None if lifetime_us is None else table.probability(flavor, slots, lifetime_us),
        None if lifetime_us is None else table.bound(flavor, slots, lifetime_us, cloud.policy.confidence),
        None if lifetime_us is None else count_accepted(table, flavor, slots, lifetime_us, asked.probability),
        evidence,
    )


def _number(text: str) -> float | None:
    """Return a plain number of a form, or None."""
    try:
        value = float(text.strip().removesuffix("%").strip().replace(",", "."))
    except ValueError:
        return None
    return value if abs(value) < 10**9 else None
