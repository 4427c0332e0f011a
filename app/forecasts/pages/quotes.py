"""The quote calculator: the lifetime at a probability, the risk of a lifetime, and the number of such starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from app.admission.quote import Quotes
from app.domain.numbers import share_text
from app.domain.times import DAY_US, HOUR_US, SECOND_US, from_datetime, length_text
from app.domain.values import Guarantee, Policy
from app.engine.cloud import Cloud, Flavor
from app.forecast.table import QuantileTable
from app.forecasts.evidence import evidence_in_force, guaranteed_bound, guaranteed_windows
from app.forecasts.present import PresentStart, present_starts
from app.forecasts.rules import Evidence
from app.forecasts.table_reads import TableReads
from app.platform.http.reached import reached
from app.platform.pages.asking import server_time
from app.platform.pages.rendering import render
from app.scheduling.scheduler import Scheduler
from app.scheduling.slots import made_of_each

UNITS = {"min": 60 * SECOND_US, "h": HOUR_US, "d": DAY_US}
_GROUPED = re.compile(r"[1-9]\d{0,2}(,\d{3})+ ?%?", re.ASCII)
_COMMA = "The comma of {} may stand for thousands or for a fraction: write 1000 or 1.5."
_LONGEST_US = 3660 * DAY_US
_MOST_COUNTED = 500


@dataclass(frozen=True, slots=True)
class Asked:
    """The request: the text as written, and its parsed values, a share and a length of time.

    With problems the values are not all those that were asked for, and there is no answer.
    """

    probability_text: str
    lifetime_text: str
    unit: str
    probability: float
    lifetime_us: int | None
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """The table's quotes for one flavor; `displaced` overrunning instances would be evicted to make its slots.

    `lifetime_us` is None without evidence; `lifetime_bound` is the upper bound of the eviction probability of what is
    guaranteed, and `lifetime_windows` its evidence. `estimate`, `bound`, `windows` and `count` refer to the requested
    lifetime: `count` such starts would be accepted one after the other, each taking a slot.
    """

    flavor: str
    cores: int
    slots: int
    displaced: int
    lifetime_us: int | None
    lifetime_bound: float | None
    estimate: float | None
    bound: float | None
    windows: float | None
    lifetime_windows: float | None
    count: int | None
    evidence: Sequence[Evidence]


async def show(request: Request) -> Response:
    """Show the form, and the answer of the newest table; of a faulty form its problems alone."""
    name = request.path_params["cloud"]
    table = await reached(request, TableReads).newest(name)
    cloud = await reached(request, Scheduler).state(name)
    asked = read_form(request, cloud.policy)
    now_us, policy = cloud.present_us(from_datetime(server_time(request))), cloud.policy
    promised = policy.guarantee is not Guarantee.NONE
    lines = [] if table is None or asked.problems else await _lines(table, cloud, asked, now_us)
    return render(
        request,
        "quotes.html",
        table=table,
        policy=policy,
        warming_until_us=warming_until_us(cloud, now_us),
        first_due_us=cloud.policy.first_due_us(cloud.created_us),
        asked=asked,
        lines=lines,
        units=UNITS,
        stale=promised and table is not None and now_us - table.epoch_us > policy.table_max_age_us,
        promised=promised,
        live=f"/ui/clouds/{name}/live",
    )


def warming_until_us(cloud: Cloud, server_us: int) -> int | None:
    """Return the cloud's time until which it rejects spot starts to learn first; None if that is over."""
    until_us = cloud.created_us + cloud.policy.warm_up_us
    return until_us if cloud.present_us(server_us) < until_us else None


def read_form(request: Request, policy: Policy) -> Asked:
    """Return the form's values, by default the cloud's own probability and an hour."""
    query = request.query_params
    unit = query.get("unit", "h")[:20]
    share_text = query.get("probability", f"{100 * policy.eviction_probability:g}")[:20]
    time_text = query.get("lifetime", "1")[:20]
    problems = [] if unit in UNITS else [f"The unit must be one of {', '.join(UNITS)}."]
    problems += [_COMMA.format(text) for text in (share_text, time_text) if _GROUPED.fullmatch(text.strip())]
    share = _number(share_text)
    if share is None or not 0 < share < 100:
        problems.append("The probability must be a number above 0 and below 100 per cent.")
        share = 100 * policy.eviction_probability
    length = _number(time_text) if time_text.strip() else None
    lifetime_us = None if length is None else round(length * UNITS.get(unit, 0))
    if time_text.strip() and (lifetime_us is None or not 0 <= lifetime_us <= _LONGEST_US):
        problems.append("The lifetime must be a number in the unit beside it, from 0 to ten years.")
        lifetime_us = None
    probability = float(f"{share / 100:.15g}")
    problems += _out_of_bounds(policy, probability, lifetime_us if "lifetime" in query else None)
    return Asked(share_text, time_text, unit, probability, lifetime_us, tuple(problems))


def _out_of_bounds(policy: Policy, probability: float, lifetime_us: int | None) -> Iterator[str]:
    """Yield what is wrong with a promise or a lifetime that no start may ask for here."""
    if policy.least_probability is not None and probability < policy.least_probability:
        yield f"This cloud promises {share_text(policy.least_probability)} at least."
    if policy.highest_probability is not None and probability > policy.highest_probability:
        yield f"This cloud promises {share_text(policy.highest_probability)} at most."
    shortest_us, longest_us = policy.shortest_lifetime_us, policy.longest_lifetime_us
    if lifetime_us is not None and lifetime_us < shortest_us:
        yield f"The shortest lifetime in this cloud is {length_text(shortest_us)}."
    if lifetime_us is not None and longest_us is not None and lifetime_us > longest_us:
        yield f"The longest lifetime in this cloud is {length_text(longest_us)}."


async def _lines(table: QuantileTable, cloud: Cloud, asked: Asked, now_us: int) -> list[Line]:
    """Return the lines of all flavors, with turns for other tasks."""
    flavors, policy = {**cloud.flavors}, cloud.policy
    starts = await present_starts(table, cloud, [*flavors], now_us)

    def line(flavor: str, start: PresentStart) -> Line:
        evidence = evidence_in_force(table, policy, flavor, start.slots)
        return _line(start, evidence, flavors[flavor], asked, policy.confidence)

    return await made_of_each(starts, line)


def count_accepted(quotes: Quotes, flavor: str, slots: int, lifetime_us: int, probability: float) -> int:
    """Return how many starts are accepted one after the other; of those that are tried one by one, 500 at most."""
    if isinstance(quotes, QuantileTable):
        return quotes.accepted_count(flavor, slots, lifetime_us, probability)
    for count in range(min(slots, _MOST_COUNTED)):
        quoted_us = quotes.lifetime_us(flavor, slots - count, probability)
        if quoted_us is None or quoted_us <= lifetime_us:
            return count
    return min(slots, _MOST_COUNTED)


def _line(start: PresentStart, evidence: Sequence[Evidence], of: Flavor, asked: Asked, confidence: float) -> Line:
    table, slots = start.quotes, start.slots
    flavor, lifetime_us, probability = of.name, asked.lifetime_us, asked.probability
    return Line(
        flavor,
        of.resources.cores,
        slots,
        start.displaced,
        table.lifetime_us(flavor, slots, probability),
        guaranteed_bound(table, flavor, slots, probability, confidence),
        None if lifetime_us is None else table.probability(flavor, slots, lifetime_us),
        None if lifetime_us is None else table.bound(flavor, slots, lifetime_us, confidence),
        None if lifetime_us is None else table.windows(flavor, slots, lifetime_us),
        guaranteed_windows(table, flavor, slots, probability),
        None if lifetime_us is None else count_accepted(table, flavor, slots, lifetime_us, probability),
        evidence,
    )


def _number(text: str) -> float | None:
    """Return a plain number of a form, or None."""
    try:
        value = float(text.strip().removesuffix("%").strip().replace(",", "."))
    except ValueError:
        return None
    return value if abs(value) < 10**9 else None
