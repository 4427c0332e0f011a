"""Handlers for decisions and their reasons."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.explaining.service import Explaining
from app.explaining.wire import DecisionsQuery, decision_answer, explanation_answer
from app.platform.http.auth import project_of
from app.platform.http.bodies import read_query
from app.platform.http.long_lists import first_answers, marker_after
from app.platform.http.page_forms import next_link
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from tenure_client.forms.decisions import DecisionsAnswer


async def explain_instance(request: Request) -> Response:
    """Explain one instance: why it was accepted or rejected, the promise to it, and how it ended.

    The answer says it in fields and in sentences. For an evicted instance it names the on-demand start that needed the
    room, on which node and how much, the other victims and why they were chosen, and whether the promise is broken.
    """
    path = request.path_params
    found = await reached(request, Explaining).explanation(path["cloud"], path["instance"], project_of(request))
    return respond(explanation_answer(found))


async def list_decisions(request: Request) -> Response:
    """List decisions, newest first: accepted and rejected starts, stops and evictions, each with its reason."""
    query = read_query(request, DecisionsQuery)
    page = await reached(request, Explaining).decisions(
        request.path_params["cloud"], query.before_seq, query.limit, query.outcome, query.market
    )
    answers = await first_answers(page.items, decision_answer)
    marker = marker_after(page.items, len(answers), lambda decided: str(decided.seq), page.marker)
    return respond(DecisionsAnswer(decisions=answers, links=next_link(request, marker, "before_seq")))
