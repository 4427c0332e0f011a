"""Handlers for quotes, quantile tables and the runs that compute them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.admission.bounds import check_lifetime, check_probability
from app.domain.errors import FlavorNotFound, RunNotFound, TableNotFound
from app.domain.flavors import check_flavor, told_flavors
from app.engine.cloud import Cloud
from app.forecasts.evidence import evidence_in_force
from app.forecasts.http.missing import no_table_yet
from app.forecasts.present import PresentStart, present_starts
from app.forecasts.table_reads import TableReads
from app.forecasts.wire.forecasts import (
    QuotesQuery,
    TableQuery,
    flavor_quote,
    quotes_answer,
    run_answer,
    table_answer,
    table_summary,
)
from app.platform.http.bodies import read_query
from app.platform.http.page_forms import NumberedPageQuery, next_link
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from app.platform.turns import in_turns
from app.scheduling.scheduler import Scheduler
from app.scheduling.slots import made_of_each
from tenure_client.forms.forecasts import FlavorQuoteAnswer, RunsAnswer, TablesAnswer


async def read_quotes(request: Request) -> Response:
    """Read quotes from the newest table, for one flavor or all. Nothing is reserved or recorded.

    Each quote gives the lifetime guaranteed at an eviction probability. With `lifetime_s`, it also gives the eviction
    probability of that lifetime. A flavor without a slot is quoted as the start that would evict overrunning instances,
    if there are such and the policy lets it. What no start may ask for in this cloud is not quoted.
    """
    query = read_query(request, QuotesQuery)
    name = request.path_params["cloud"]
    table = await reached(request, TableReads).newest(name)
    cloud, now_us = await reached(request, Scheduler).present(name)
    check_probability(cloud.policy, query.eviction_probability)
    if query.lifetime_us is not None:
        check_lifetime(cloud.policy, query.lifetime_us)
    if table is None:
        raise TableNotFound(no_table_yet(name, cloud, now_us))
    probability = query.eviction_probability or cloud.policy.eviction_probability
    policy, flavors = cloud.policy, _flavors_asked(cloud, query.flavor)
    starts = await present_starts(table, cloud, flavors, now_us, query.slots)

    def quote(flavor: str, start: PresentStart) -> FlavorQuoteAnswer:
        evidence = evidence_in_force(table, policy, flavor, start.slots)
        return flavor_quote(start, evidence, flavor, probability, query.lifetime_us, policy.confidence)

    quotes = await made_of_each(starts, quote)
    return respond(quotes_answer(table, policy, quotes))


async def list_tables(request: Request) -> Response:
    """List quantile tables, newest first."""
    query = read_query(request, NumberedPageQuery)
    name = request.path_params["cloud"]
    page = await reached(request, TableReads).tables(name, query.marker, query.limit)
    tables = [table_summary(name, stored) for stored in page.items]
    return respond(TablesAnswer(tables=tables, links=next_link(request, page.marker)))


async def show_newest_table(request: Request) -> Response:
    """Show the table that decisions use now, with its curves."""
    return await _answer_table(request, None)


async def show_table(request: Request) -> Response:
    """Show the table of an epoch, with its curves."""
    epoch = request.path_params["epoch"]
    if not _is_number(epoch):
        raise TableNotFound(f"there is no epoch {epoch!r}")
    return await _answer_table(request, int(epoch))


async def request_table(request: Request) -> Response:
    """Request a new table from the history so far. A worker computes it; the run shows its progress."""
    name = request.path_params["cloud"]
    run = await reached(request, TableReads).request_run(name)
    answer = run_answer(name, run)
    return respond(answer, 202, {"Location": answer.links[0].href})


async def list_runs(request: Request) -> Response:
    """List computations of quantile tables, newest first: pending, running, succeeded and failed ones."""
    query = read_query(request, NumberedPageQuery)
    name = request.path_params["cloud"]
    page = await reached(request, TableReads).runs(name, query.marker, query.limit)
    runs = [run_answer(name, run) for run in page.items]
    return respond(RunsAnswer(runs=runs, links=next_link(request, page.marker)))


async def show_run(request: Request) -> Response:
    """Show the progress of a computation, and the reason if it failed."""
    name, run_id = request.path_params["cloud"], request.path_params["run"]
    if not _is_number(run_id):
        raise RunNotFound(f"there is no run {run_id!r}")
    return respond(run_answer(name, await reached(request, TableReads).run(name, int(run_id))))


async def _answer_table(request: Request, epoch: int | None) -> Response:
    query = read_query(request, TableQuery)
    name = request.path_params["cloud"]
    stored, table = await reached(request, TableReads).table(name, epoch)
    if query.flavor is not None and query.flavor not in table.flavors:
        raise FlavorNotFound(f"the table has no flavor {query.flavor!r}: there {told_flavors(table.flavors)}")
    flavors = [*table.flavors] if query.flavor is None else [query.flavor]
    return respond(await in_turns(table_answer(name, stored, table, flavors)))


def _flavors_asked(cloud: Cloud, flavor: str | None) -> list[str]:
    if flavor is None:
        return [*cloud.flavors]
    check_flavor(cloud.flavors, flavor)
    return [flavor]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10
