"""One cloud: what is in use, now and over time, and what was decided last."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.ui.asking import reading, scheduler
from app.ui.rendering import render
from app.ui.usage import usage_by_node, usage_of

_NODES_SHOWN = 200
_DECISIONS_SHOWN = 8


async def show(request: Request) -> Response:
    """The cloud's first page."""
    name = request.path_params["cloud"]
    decisions = (await reading(request).decisions(name, None, _DECISIONS_SHOWN)).items
    state = await scheduler(request).state(name)
    nodes = usage_by_node(state)
    return render(
        request,
        "cloud.html",
        usage=usage_of(state),
        nodes=nodes[:_NODES_SHOWN],
        node_count=len(nodes),
        flavors=[(flavor, state.available_slots(flavor.name)) for flavor in state.flavors.values()],
        counts=state.counts,
        policy=state.policy,
        seq=state.seq,
        at_us=state.at_us,
        decisions=decisions,
        live=f"/ui/clouds/{name}/live",
    )
