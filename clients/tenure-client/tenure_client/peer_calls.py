"""Calls about peers, described like those in `calls`."""

from __future__ import annotations

from collections.abc import Mapping

from tenure_client import endpoints
from tenure_client.endpoints import Call
from tenure_client.forms.peers import PeerAnswer, PeersAnswer, PeerStandingAnswer, PeerTrialAnswer


def add_peer(
    name: str,
    url: str,
    cloud: str,
    token: str,
    *,
    quota: Mapping[str, int | float] | None = None,
    objects_url: str | None = None,
    link_mbit_s: float | None = None,
) -> Call[PeerAnswer]:
    """Enter another cloud. `token` is the one of the role peer that it gave us, `objects_url` its object store.

    `link_mbit_s`: the rate of data from it in 10^6 bit/s, which counts until it is learned.
    """
    place = {"name": name, "url": url, "cloud": cloud, "token": token, "objects_url": objects_url}
    body = {**place, "link_mbit_s": link_mbit_s}
    return endpoints.ADD_PEER.call(body={**body, "quota": None if quota is None else {**quota}})


def peers() -> Call[PeersAnswer]:
    """List all peers by name."""
    return endpoints.PEERS.call()


def peer(peer: str) -> Call[PeerAnswer]:
    """Show a peer and what it may have here."""
    return endpoints.PEER.call(peer=peer)


def change_peer(
    peer: str,
    *,
    url: str | None = None,
    cloud: str | None = None,
    token: str | None = None,
    quota: Mapping[str, int | float] | None = None,
    objects_url: str | None = None,
    link_mbit_s: float | None = None,
) -> Call[PeerAnswer]:
    """Change where a peer is, the token that it gave us, or what it may have here."""
    place = {"url": url, "cloud": cloud, "token": token, "objects_url": objects_url}
    body = {**place, "link_mbit_s": link_mbit_s}
    return endpoints.CHANGE_PEER.call(body={**body, "quota": None if quota is None else {**quota}}, peer=peer)


def pause_peer(peer: str) -> Call[PeerAnswer]:
    """Offer a peer no more jobs and refuse its offers."""
    return endpoints.PAUSE_PEER.call(peer=peer)


def resume_peer(peer: str) -> Call[PeerAnswer]:
    """Offer a peer jobs again, and hear its offers."""
    return endpoints.RESUME_PEER.call(peer=peer)


def test_peer(peer: str) -> Call[PeerTrialAnswer]:
    """Ask a peer a question that changes nothing."""
    return endpoints.TEST_PEER.call(peer=peer)


def remove_peer(peer: str) -> Call[None]:
    """Forget a peer. Jobs that were awarded to it are taken back at the end of their leases."""
    return endpoints.REMOVE_PEER.call(peer=peer)


def standing(peer: str) -> Call[PeerStandingAnswer]:
    """Tell what a peer promised against what happened, by cloud, in both directions."""
    return endpoints.STANDING.call(peer=peer)


def peer_metrics() -> Call[str]:
    """Read the metrics of all peers as Prometheus's text."""
    return endpoints.PEER_METRICS.call()
