"""Peers: who they are, what they may have here, and whether they answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

from app.domain.errors import PeerExists, PeerNotFound, PeerRefused, WebhookRefused
from app.federation.rules.foreignside import PeerQuota
from app.federation.rules.peers import Peer
from app.federation.store import PeerStore
from app.platform.once import Shared
from app.platform.outbound.addresses import AddressRefused, NameUnknown, read_new_url, read_url
from app.platform.outbound.asking import Asker, Inquiry, Reply
from app.platform.outbound.connection import NoAnswer

MOST_PEERS_KNOWN = 64
KNOWN_S = 1.0
"""The time for which a process takes a peer to be as it read it."""
_NO_SUCH_NAME = ": the name in its URL has no address"
_ON_ONE_MACHINE = " (TENURE_PEER_ALLOW_PRIVATE=true allows private addresses, without TLS)"
_NEVER_JOB = "none/0"
NOT_A_PEER = "preemptible.offer.not_a_peer"
"""The code by which a host tells that it has not entered us."""
_WRONG: Mapping[object, str] = {
    NOT_A_PEER: "it knows our token, and has not entered us as a peer of the token's name (tenure peer add, there)",
    "preemptible.cloud.not_found": "it has no cloud of the name that was entered, or our token is not for that cloud",
    401: "it does not take our token",
    403: "our token there is not of the role peer",
}
"""Faults of what was entered, by the code or the status of an answer."""


class PeerPlace(NamedTuple):
    """The place of a peer: its service, the cloud there, the token that it gave us, its object store and its link.

    None in a change: it stays as it is.
    """

    url: str | None
    cloud: str | None
    secret: str | None
    objects_url: str | None
    link_mbit_s: float | None


@dataclass(frozen=True, slots=True)
class PeerTrial:
    """The outcome of asking a peer something that changes nothing."""

    reached: bool
    status: int | None
    seconds: float
    error: str | None


class KnownPeers:
    """The peers as a process knows them: read a second ago at most, with every change that it made itself.

    Each message of a peer needs its peer, and a read of the database for each costs more than to decide it.
    """

    def __init__(self, store: PeerStore) -> None:
        self._store = store
        self.forget()

    async def get(self, name: str) -> Peer | None:
        """Return a peer."""
        return (await self._read.get()).get(name)

    def forget(self) -> None:
        """Read the peers anew when one is asked for. Reads that are under way are not believed later."""
        self._read = Shared(self._by_name, KNOWN_S)

    async def _by_name(self) -> Mapping[str, Peer]:
        return {peer.name: peer for peer in await self._store.all()}


class PeerKeeper:
    """Keeps the peers. `allow_private`: their services may be at private addresses, and without TLS."""

    def __init__(self, store: PeerStore, known: KnownPeers, asker: Asker, *, allow_private: bool) -> None:
        self._store, self._known, self._asker, self._allow_private = store, known, asker, allow_private

    async def all(self) -> list[Peer]:
        """Return all peers by name."""
        return await self._store.all()

    async def show(self, name: str) -> Peer:
        """Return a peer. Raises PeerNotFound."""
        return _there(await self._store.get(name), name)

    async def add(self, name: str, place: PeerPlace, quota: Mapping[str, Any]) -> Peer:
        """Enter a peer. Raises PeerExists, and PeerRefused for a URL to which nothing is sent."""
        given = self._checked(place) | {"name": name, "quota": json.dumps(quota)}
        with self._changing():
            found = await self._store.add(given, MOST_PEERS_KNOWN)
        if found is None:
            is_there = await self._store.get(name) is not None
            most = f"there are {MOST_PEERS_KNOWN} peers, as many as may be"
            raise PeerExists(f"there is a peer {name!r} already" if is_there else most)
        return found

    async def change(self, name: str, place: PeerPlace, quota: Mapping[str, Any]) -> Peer:
        """Change what is given of a peer. Raises PeerNotFound, and PeerRefused for a URL."""
        given = self._checked(place) | {"name": name, "quota": json.dumps(quota)}
        with self._changing():
            return _there(await self._store.change(given), name)

    async def pause(self, name: str, why: str | None, by: str | None) -> Peer:
        """Offer a peer nothing and take nothing from it, until it is resumed (None). What runs goes on."""
        with self._changing():
            return _there(await self._store.pause(name, why, by), name)

    async def remove(self, name: str) -> None:
        """Forget a peer. What was awarded to it is taken back at the end of its lease."""
        with self._changing():
            await self._store.remove(name)

    async def test(self, name: str) -> PeerTrial:
        """Ask a peer for an attempt that there never was: its answer tells whether it knows our token."""
        peer, began = await self.show(name), perf_counter()
        url = f"{peer.url}/v1/clouds/{peer.cloud}/offers/{_NEVER_JOB}"
        try:
            reply = await self._asker.ask(Inquiry(name, "GET", url, peer.secret))
        except NoAnswer as error:
            refused = isinstance(error.__cause__, AddressRefused | WebhookRefused)
            hint = _NO_SUCH_NAME if isinstance(error.__cause__, NameUnknown) else self._hint(peer.url)
            told = f"{error}{hint}" if refused else str(error)
            return PeerTrial(reached=False, status=None, seconds=perf_counter() - began, error=told)
        code = first_code(reply)
        known = reply.status == _NOT_FOUND and code == "preemptible.offer.not_found"
        of_status = _WRONG.get(reply.status, "that is no answer of a Tenure that knows us")
        wrong = _WRONG.get(code, of_status) if isinstance(code, str) else of_status  # it may be anything
        why = None if known else f"it answered {reply.status}: {wrong}"
        return PeerTrial(reached=known, status=reply.status, seconds=perf_counter() - began, error=why)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Have the peers read anew after a change, also if it is not known whether it was made."""
        try:
            yield
        finally:
            self._known.forget()

    def _checked(self, place: PeerPlace) -> dict[str, Any]:
        """Return the place as it is stored. Raises PeerRefused."""
        given = place._asdict()
        for name in ("url", "objects_url"):
            if given[name] is not None:
                self._check(given[name])
                given[name] = given[name].rstrip("/")
        return given

    def _check(self, url: str) -> None:
        try:
            target = read_new_url(url, allow_private=self._allow_private)
        except WebhookRefused as error:
            raise PeerRefused(f"{error}{self._hint(url)}") from error
        if target.scheme != "https" and not self._allow_private:
            raise PeerRefused(f"the URL of a peer begins with https://{self._hint(url)}")

    def _hint(self, url: str) -> str:
        """Return which setting would let a URL pass, if one would."""
        with suppress(WebhookRefused):
            read_url(url, allow_private=True)
            return _ON_ONE_MACHINE
        return ""


_NOT_FOUND = 404


def quota_of(peer: Peer) -> PeerQuota | None:
    """Return what a peer may have here; None while it is paused."""
    return PeerQuota(**peer.quota) if peer.paused_because is None else None


def first_code(reply: Reply) -> object:
    """Return the code of the error that an answer tells first; None: it tells none."""
    errors = reply.body.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else None
    return first.get("code") if isinstance(first, dict) else None


def _there(peer: Peer | None, name: str) -> Peer:
    if peer is None:
        raise PeerNotFound(f"there is no peer {name!r}")
    return peer
