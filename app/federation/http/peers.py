"""Handlers for peers."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.federation.metrics import PeerCollector
from app.federation.peering import PeerKeeper
from app.federation.standings import OPERATOR, PeerStandings
from app.federation.wire.peers import PeerBody, PeerChangeBody, peer_answer, standing_answer, trial_answer
from app.platform.http.bodies import read_body
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from app.platform.http.scrapes import scraped
from tenure_client.forms.peers import PeersAnswer

_PAUSED = "an operator paused it"


async def add_peer(request: Request) -> Response:
    """Enter another cloud that jobs may be offered to, and that may offer jobs here.

    It shows a token of the role `peer` that is called like it, up to a dot.
    """
    body = await read_body(request, PeerBody)
    peer = await _keeper(request).add(body.name, body.place(), body.quota.given())
    return respond(peer_answer(peer), 201, {"Location": f"/v1/peers/{peer.name}"})


async def list_peers(request: Request) -> Response:
    """List all peers by name."""
    return respond(PeersAnswer(peers=[*map(peer_answer, await _keeper(request).all())], links=[]))


async def show_peer(request: Request) -> Response:
    """Show a peer and what it may have here."""
    return respond(peer_answer(await _keeper(request).show(_name(request))))


async def change_peer(request: Request) -> Response:
    """Change where a peer is, the token that it gave us, or what it may have here."""
    body = await read_body(request, PeerChangeBody)
    changed = await _keeper(request).change(_name(request), body.place(), body.quota.given())
    return respond(peer_answer(changed))


async def pause_peer(request: Request) -> Response:
    """Offer a peer no more jobs and refuse its offers. What is awarded goes on."""
    return respond(peer_answer(await _keeper(request).pause(_name(request), _PAUSED, OPERATOR)))


async def resume_peer(request: Request) -> Response:
    """Offer a peer jobs again, and hear its offers."""
    return respond(peer_answer(await _keeper(request).pause(_name(request), None, None)))


async def test_peer(request: Request) -> Response:
    """Ask a peer a question that changes nothing: does it answer, and does it know our token?"""
    return respond(trial_answer(await _keeper(request).test(_name(request))))


async def read_standing(request: Request) -> Response:
    """Tell what a peer promised against what happened, by cloud, in both directions."""
    return respond(standing_answer(await reached(request, PeerStandings).of(_name(request))))


async def read_peer_metrics(request: Request) -> Response:
    """Metrics of all peers. Every process returns the same values, so scrape one process only."""

    async def collect() -> PeerCollector:
        return PeerCollector(await reached(request, PeerStandings).all())

    return await scraped(request, collect)


async def remove_peer(request: Request) -> Response:
    """Forget a peer. Jobs that were awarded to it are taken back at the end of their leases."""
    await _keeper(request).remove(_name(request))
    return Response(status_code=204)


def _keeper(request: Request) -> PeerKeeper:
    return reached(request, PeerKeeper)


def _name(request: Request) -> str:
    return str(request.path_params["peer"])
