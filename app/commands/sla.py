"""The command `sla`."""

from __future__ import annotations

from collections.abc import Mapping

import typer
from rich.text import Text

from app.commands import options
from app.commands.fitting import Column, print_fitting
from app.commands.options import on_cloud
from app.commands.output import STDOUT, print_json, print_text
from app.commands.words import moment, percent
from app.domain.numbers import number_text, told_apart
from app.domain.strata import stratum_name
from app.domain.times import SECOND_US
from tenure_client import TenureClient, json_of
from tenure_client.forms.promises import ClassAnswer, ClassBookAnswer, ClassBudgetAnswer, SlaAnswer, StandingAnswer

_COLUMNS = (
    Column("promised", 9, is_number=True),
    Column("verdict", 9),
    Column("evicted", 8, is_number=True),
    Column("between", 5, is_number=True),
    Column("admitted", 6, is_number=True),
    Column("running", 3, is_number=True),
)
_BUDGET = (
    Column("budget", 2, is_number=True),
    Column("committed", 1, is_number=True),
    Column("left", 7, is_number=True),
)


_STANDINGS = (
    Column("of", 9),
    Column("admitted", 6, is_number=True),
    Column("evicted", 7, is_number=True),
    Column("lost core-hours", 3, is_number=True),
    Column("overran", 2, is_number=True),
    Column("evicted then", 1, is_number=True),
    Column("verdict", 8, is_words=True),
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=f"Example: tenure sla --url {options.LOCAL} --cloud north")(on_cloud(sla))


_BOOKS = (
    Column("promised", 9, is_number=True),
    Column("lifetimes", 8),
    Column("earned", 5, is_number=True),
    Column("evicted", 6, is_number=True),
    Column("left", 7, is_number=True),
    Column("committed", 1, is_number=True),
    Column("risky", 2, is_number=True),
)


def sla(client: TenureClient, cloud: str, *, as_json: options.Json = False) -> None:
    """Show for each SLA class how many instances were evicted, and judge the promise by stratum, flavor and week.

    A class is all instances that were promised the same eviction probability. It has a budget under the pooled
    guarantee, and a book for each stratum of lifetimes under the stratified one. The exit code is 1 if a class lost
    more than was promised so far, even where that is too few to judge, or if the promise is broken in a stratum of one.
    """
    answer = client.sla(cloud)
    promises = told_apart(found.promised for found in answer.classes)
    if as_json:
        print_json(json_of(answer))
    else:
        guarantee = answer.guarantee.replace("_", " ")
        print_text(Text(f"{cloud}: guarantee {guarantee}, as of {moment(answer.as_of)} UTC", style="bold"))
        pooled = any(found.budget is not None for found in answer.classes)
        columns = (*_COLUMNS, *_BUDGET) if pooled else _COLUMNS
        if answer.classes:
            print_fitting(STDOUT, columns, [_class(found, promises[found.promised]) for found in answer.classes])
            print_text(Text(_legend(answer), style="dim"))
        else:
            print_text(Text(_nothing(answer), style="dim"))
        _print_standings(answer, promises)
        _print_books(answer, promises)
        unit = _unit(answer)
        if unit is not None:
            print_text(Text(_UNITS[unit], style="dim"))
    broken = any(one.verdict == "broken" for found in answer.classes for one in found.strata)
    if broken or not all(found.is_kept for found in answer.classes):
        raise typer.Exit(1)


def _nothing(answer: SlaAnswer) -> str:
    if answer.guarantee == "none":
        return "nothing is promised: spot starts are accepted if they fit"
    return "no spot instance was admitted with a promise yet"


def _legend(answer: SlaAnswer) -> str:
    of = f"with {percent(answer.confidence)} confidence if evictions were independent"
    said = (
        "evicted: so far within the declared lifetime, of those admitted (tenure status also counts those evicted\n"
        f"after it); between: the interval of that share, {of}\n"
        "verdict: what that interval tells of the promise"
    )
    return "\n".join([said, *(one.sentence for one in answer.classes)])


def _print_standings(answer: SlaAnswer, promises: Mapping[float, str]) -> None:
    """Print what was admitted of each stratum, flavor and week, with its verdict."""
    parts = [
        *((f"by declared lifetime, as extended, {promises[found.promised]}", found.strata) for found in answer.classes),
        ("by flavor", answer.flavors),
        ("by week of the start, from Monday", answer.weeks[-_WEEKS:]),
    ]
    for title, standings in parts:
        rows = [_standing(one) for one in standings if one.admitted]
        if rows:
            print_fitting(STDOUT, _STANDINGS, rows, title)
    if answer.flavors:
        print_text(Text(_STANDINGS_LEGEND, style="dim"))


def _print_books(answer: SlaAnswer, promises: Mapping[float, str]) -> None:
    books = [_book(promises[found.promised], book) for found in answer.classes for book in found.books or ()]
    if books:
        in_hours = ", in core-hours" if _unit(answer) == "core_hours" else ""
        print_fitting(STDOUT, _BOOKS, books, f"books by lifetime declared at the start{in_hours}")
        print_text(Text(_BOOKS_LEGEND, style="dim"))


def _standing(one: StandingAnswer) -> list[object]:
    verdict = Text(one.sentence, style="red" if one.verdict == "broken" else "")
    hours = f"{number_text(one.lost_core_s / 3600)} of {number_text(one.core_s / 3600)}"
    lost = f"{one.evicted} ({percent(one.ratio)})"
    return [one.name, one.admitted, lost, hours, one.overran, one.overrun_evicted, verdict]


def _class(found: ClassAnswer, promise: str) -> list[object]:
    return [
        promise,
        Text(found.verdict.replace("_", " "), style=_STYLES.get(found.verdict, "")),
        f"{found.evicted} ({percent(found.ratio)})",
        f"{percent(found.low)} to {percent(found.high)}",
        found.admitted,
        found.running,
        *_budget(found.budget),
    ]


_STYLES = {"kept": "green", "kept_so_far": "green", "broken": "bold red"}
_WEEKS = 8
"""So many of the newest weeks are printed; --json has all."""
_STANDINGS_LEGEND = (
    "lost core-hours: declared ones of instances evicted within their lifetime, of those admitted; overran: ran on\n"
    "after the declared lifetime, when the promise is over; evicted then: of those that overran"
)
_BOOKS_LEGEND = (
    "earned: four times the risk of each start, the promise at most; left: earned less evicted; committed: the risk\n"
    "of the rest of the lifetimes that run; risky: how many in the stratum risk more than half of their promise\n"
    "and of this one"
)


_UNITS = {
    "instances": "what is earned, spent and left counts instances",
    "core_hours": "what is earned, spent and left counts core-hours, as declared",
}


def _unit(answer: SlaAnswer) -> str | None:
    """Return what budgets or books count; None if there are none, or for a word of a newer service."""
    accounts = [account for found in answer.classes for account in (found.budget, *(found.books or ())) if account]
    return next((account.unit for account in accounts if account.unit in _UNITS), None)


def _weighed(count: int, core_hours: float | None) -> str:
    return f"{count}" if core_hours is None else number_text(core_hours)


def _us(length_s: float | None) -> int | None:
    return None if length_s is None else round(length_s * SECOND_US)


def _book(promise: str, book: ClassBookAnswer) -> list[object]:
    left = Text(number_text(book.left), style="red" if book.left < 0 else "")
    return [
        promise,
        stratum_name(_us(book.from_s), _us(book.below_s)),
        number_text(book.earned),
        _weighed(book.evicted, book.evicted_core_hours),
        left,
        number_text(book.committed),
        _weighed(book.risky, book.risky_core_hours),
    ]


def _budget(budget: ClassBudgetAnswer | None) -> list[object]:
    if budget is None:
        return []
    left = Text(number_text(budget.left), style="red" if budget.left < 0 else "")
    spent = _weighed(budget.spent, budget.spent_core_hours)
    return [f"{spent} of {number_text(budget.earned)}", number_text(budget.committed), left]
