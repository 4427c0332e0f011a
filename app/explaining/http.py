"""Decisions with their reasons."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.explaining.service import Explaining
from app.explaining.wire import DecisionsQuery, decision_answer, explanation_answer
from app.platform.http.bodies import read_query
from app.platform.http.page_forms import next_link
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from tenure_client.forms.decisions import DecisionsAnswer


async def explain_instance(request: Request) -> Response:
    """Why an instance was accepted or rejected, what it was promised, and how it ended, in fields and in sentences.

    Of an eviction: which on-demand start needed what room on which node, who else had to go and why, and whether the
    promise counts as broken.
    """
    path = request.path_params
    return respond(explanation_answer(await reached(request, Explaining).explanation(path["cloud"], path["instance"])))


async def list_decisions(request: Request) -> Response:
    """The newest decisions first: starts that were accepted or rejected, stops and evictions, each with its reason."""
    query = read_query(request, DecisionsQuery)
    page = await reached(request, Explaining).decisions(
        request.path_params["cloud"], query.before_seq, query.limit, query.outcome, query.market
    )
    answers = [decision_answer(decided) for decided in page.items]
    return respond(DecisionsAnswer(decisions=answers, links=next_link(request, page.marker, "before_seq")))
