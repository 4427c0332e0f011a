"""The page of a cloud's decisions, and the page that tells one instance's story."""

from __future__ import annotations

import re
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.domain.errors import InstanceNotFound
from app.domain.events import InstanceStarted
from app.domain.values import NAME_PATTERN, DecisionOutcome, Market
from app.explaining.rules.groupwords import on_each_text
from app.explaining.service import Explaining
from app.platform.http.reached import reached
from app.platform.pages.asking import choice, number
from app.platform.pages.rendering import render
from app.scheduling.log_reads import LogReads

_ON_PAGE = 30


async def show(request: Request) -> Response:
    """Show the newest decisions, or those before a seq; redirect to an instance if its id was asked for."""
    name = request.path_params["cloud"]
    wanted = request.query_params.get("instance", "").strip()
    unknown = None
    if wanted:
        try:
            await _check(request, wanted)
            return RedirectResponse(f"/ui/clouds/{name}/instances/{quote(wanted)}", 303)
        except InstanceNotFound:
            unknown = wanted
    outcome = choice(request, "outcome", tuple(DecisionOutcome))
    market = choice(request, "market", tuple(Market))
    before = number(request, "before")
    asked = {name: request.query_params.get(name, "") for name in ("outcome", "market")}
    misread = [f"{name} {text[:40]!r}" for name, text in asked.items() if text and text not in (outcome, market)]
    page = await reached(request, Explaining).decisions(
        name, before, _ON_PAGE, DecisionOutcome(outcome) if outcome else None, Market(market) if market else None
    )
    return render(
        request,
        "decisions.html",
        decisions=page.items,
        marker=page.marker,
        outcome=outcome,
        market=market,
        before=before,
        unknown=unknown,
        misread=misread,
        # An older page does not change, so it need not be watched.
        live=None if before else f"/ui/clouds/{name}/live",
    )


async def _check(request: Request, wanted: str) -> None:
    """Raise InstanceNotFound if no instance has this id, or none can have it."""
    if re.fullmatch(NAME_PATTERN, wanted) is None:
        raise InstanceNotFound(f"{wanted!r} is not an instance id")
    await reached(request, LogReads).instance(request.path_params["cloud"], wanted)


async def explain(request: Request) -> Response:
    """Show why the instance was accepted, rejected or evicted."""
    name = request.path_params["cloud"]
    explanation = await reached(request, Explaining).explanation(name, request.path_params["instance"])
    decision = explanation.instance.decision
    started = decision if isinstance(decision, InstanceStarted) else None
    places = None if started is None else on_each_text(started.places) if started.count > 1 else started.node
    return render(
        request,
        "instance.html",
        found=explanation,
        instance=explanation.instance,
        decision=decision,
        places=places,
        is_beyond=started is not None and started.basis is not None and started.basis.is_beyond,
        live=f"/ui/clouds/{name}/live",
    )
