"""Handlers for plans, the moves of their jobs and what came of them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.federation.peering import PeerKeeper
from app.planning.plans import Plans, StoredPlan
from app.planning.wire import (
    MoveQuery,
    PlanBody,
    PlanOutcomeBody,
    move_answer,
    outcome_answer,
    peer_reliability_answer,
    plan_answer,
    plan_summary,
    venue_reliability_answer,
)
from app.platform.http.bodies import read_body, read_query
from app.platform.http.dear import plan_in_turn
from app.platform.http.leaving import while_there
from app.platform.http.long_lists import first_answers, marker_after
from app.platform.http.page_forms import NumberedPageQuery, next_link
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from app.venues.reads import VenueReads
from tenure_client.forms.plans import PlansAnswer


async def make_plan(request: Request) -> Response:
    """Plan jobs: for each the pool, the bid, the checkpoints and the latest moment to go on demand.

    Costs and ends are distributions: the same rules that are told are replayed from past starts. A plan is kept; the
    same request again has the same answer. Nothing is bought.
    """
    body = await read_body(request, PlanBody)
    return respond(await plan_answer(await while_there(request, _made(request, body))))


async def _made(request: Request, body: PlanBody) -> StoredPlan:
    async with plan_in_turn(request):
        return await reached(request, Plans).make(body.request())


async def list_plans(request: Request) -> Response:
    """List plans, the newest first."""
    query = read_query(request, NumberedPageQuery)
    page = await reached(request, Plans).list(query.marker, query.limit)
    plans = await first_answers(page.items, plan_summary)
    marker = marker_after(page.items, len(plans), lambda plan: str(plan.number), page.marker)
    return respond(PlansAnswer(plans=plans, links=next_link(request, marker)))


async def show_plan(request: Request) -> Response:
    """Show a plan as it was told."""
    return respond(await plan_answer(await reached(request, Plans).show(request.path_params["plan"])))


async def read_next_move(request: Request) -> Response:
    """Ask what a job that is on no machine does now: run on a way, wait, or go on demand.

    It is the rule that the plan's replays stepped. Nothing is changed or recorded.
    """
    query, plans = read_query(request, MoveQuery), reached(request, Plans)
    move = await plans.next_move(request.path_params["plan"], query.job, query.step(plans.now_us()))
    return respond(move_answer(query.job, move))


async def tell_outcome(request: Request) -> Response:
    """Tell what came of a plan's job. Told twice it is kept once; another outcome of the same job is refused."""
    body = await read_body(request, PlanOutcomeBody)
    return respond(outcome_answer(await reached(request, Plans).tell(request.path_params["plan"], body.told())))


async def read_venue_reliability(request: Request) -> Response:
    """Show how true plans were for the jobs that began in a venue: promised against happened, said against paid."""
    venue = await reached(request, VenueReads).show(request.path_params["venue"])
    return respond(venue_reliability_answer(venue.name, await reached(request, Plans).of_venue(venue.name)))


async def read_peer_reliability(request: Request) -> Response:
    """Show how true plans were for the jobs that began at a peer: promised against happened, said against paid."""
    peer = request.path_params["peer"]
    pools = await reached(request, Plans).of_peer(peer)
    if not pools:  # those of a peer that was removed are still told
        await reached(request, PeerKeeper).show(peer)
    return respond(peer_reliability_answer(peer, pools))
