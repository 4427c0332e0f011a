"""The daemon: keeps Nova and a cloud of Tenure in agreement, by looking again and again.

1. Nova's list is copied: as a whole at the start and every minute, and by its changes every few seconds, or as soon as
   a notification says that there are some.
2. Tenure's log is followed. Its events, too, only say which server to look at.
3. A comparison of everything finds servers about which something is to be done.
4. A look at one server asks Tenure for its newest life, decides by the table (`rules`), and acts.

It keeps nothing on disk. A new process begins with a comparison of everything, which finds what the former one left.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Event, Lock, Thread

from app.nova.agenda import Agenda
from app.nova.books import TenureSide
from app.nova.cloud import NovaCloud
from app.nova.deeds import TELLING, Deeds
from app.nova.figures import NovaFigures
from app.nova.mirror import Mirror
from app.nova.rules.lives import life_of
from app.nova.rules.reconciling import (
    SURELY_AFTER_S,
    NovaChoices,
    ViewTimes,
    building_s,
    decide,
    is_ending,
    presence_of,
)
from app.nova.rules.seen import KnownLife, Presence, Server, ServerStep, ServerVerdict, StepKind
from app.nova.session import OpenStackFailed, OpenStackRefused
from app.nova.syncing import Syncing
from app.nova.telling import Sayings
from tenure_client import ClientError, Conflict, ServiceRefused
from tenure_client.forms.events import EventAnswer

logger = logging.getLogger(__name__)
_WORKERS = 24
"""Most of a look is waiting for Nova's API, which may take seconds for a deletion when it has much to do."""
_LEAST_POLL_S = 0.5
_REST = 3.0
"""A question for changes costs Nova's API much when many servers change, so it is asked a third of the time at most."""
_NODES_REST = 5.0
_WAIT_S = 0.5
_SAID_FOR = 0.5
"""Words are said again after this share of the time between comparisons: an owner may undo them each time."""
_MOST_NOTIFIED = 100_000
_MOST_UNKNOWN = 100
"""Looks at servers that Nova's list does not have. Others wait for a comparison: notifications may be made up."""
_LONGEST_PAUSE_S = 30.0
_FOLLOW_AGAIN_S = 1.0
_STOP_S = 10.0
_ASKED_BEFORE = frozenset({StepKind.CLEAR, StepKind.OBSERVE, StepKind.MOVE})
"""Steps that harm others if what was seen is not so any more: its user, or another daemon, may have been quicker."""
_ENDS = frozenset({StepKind.DELETE, StepKind.FORCE})
_FOLLOWED = frozenset({"instance_evicted", "eviction_scheduled", "instance_extended", "instance_stopped"})
_TROUBLES = (OpenStackFailed, ClientError)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Seconds between comparisons of everything, between polls of changes, and between those of nodes and of flavors.

    Nodes are compared more seldom where that takes long.
    """

    full_s: float = 60.0
    poll_s: float = 5.0
    nodes_s: float = 8.0
    flavors_s: float = 30.0


class NovaKeeper:
    """Keeps one cloud. `heard` may be called by any thread."""

    def __init__(
        self,
        nova: NovaCloud,
        books: TenureSide,
        syncing: Syncing,
        choices: NovaChoices,
        rhythm: Rhythm,
        figures: NovaFigures,
    ) -> None:
        self._nova, self._books, self._syncing = nova, books, syncing
        self._choices, self._rhythm, self._figures = choices, rhythm, figures
        self._deeds, self._agenda, self._mirror = Deeds(nova, books, self._want_nodes), Agenda(), Mirror()
        self._sayings = Sayings(_SAID_FOR * rhythm.full_s)
        self._woken, self._over, self._noting = Event(), Event(), Lock()
        self._wants_all, self._wants_nodes = Event(), Event()
        self._notified: set[str] = set()
        self._failures: dict[str, int] = {}
        self._trouble: dict[str, str] = {}
        self._all_at_s = self._poll_at_s = self._nodes_at_s = self._flavors_at_s = self._builds_at_s = 0.0

    def run(self, over: Event) -> None:
        """Keep the cloud until it is over. Steps that have begun are ended."""
        self._over = over
        threads = [Thread(target=self._work, name=f"look-{number}", daemon=True) for number in range(_WORKERS)]
        threads.append(Thread(target=self._follow, name="follow", daemon=True))
        for thread in threads:
            thread.start()
        pause_s = 0.0
        while not over.is_set():
            began_s = time.monotonic()
            pause_s = 0.0 if self._round() else min(max(2 * pause_s, 1.0), self._rhythm.poll_s)
            self._tell_figures()
            rest_s = min(_REST * (time.monotonic() - began_s), self._rhythm.poll_s)
            self._over.wait(max(began_s + max(pause_s, rest_s, _LEAST_POLL_S) - time.monotonic(), 0.0))
            self._woken.wait(_WAIT_S)
            self._woken.clear()
        give_up_s = time.monotonic() + _STOP_S
        for thread in threads[:_WORKERS]:
            thread.join(max(give_up_s - time.monotonic(), 0.0))

    def heard(self, server: str | None) -> None:
        """Take a notification: there is news of a server, or of nodes for None."""
        self._figures.notifications.inc()
        with self._noting:
            if server is None:
                self._wants_nodes.set()
            elif len(self._notified) < _MOST_NOTIFIED:
                self._notified.add(server)
            else:
                self._wants_all.set()
        self._woken.set()

    # The rounds of the first thread.

    def _round(self) -> bool:
        """Do what is due; return False if a side did not answer."""
        try:
            if self._nodes_at_s == 0:
                self._sync()
            now_s = time.monotonic()
            if now_s >= self._all_at_s or self._wants_all.is_set():
                self._compare(whole=now_s >= self._all_at_s)
            elif self._notified or now_s >= self._poll_at_s:
                self._poll()
            if now_s >= self._nodes_at_s or self._wants_nodes.is_set():
                self._sync()
        except OpenStackFailed as error:
            self._ill("nova", error)
            return False
        except ClientError as error:
            self._ill("tenure", error)
            return False
        self._well("nova")
        return True

    def _sync(self) -> None:
        """Bring nodes up to Nova's, and now and then flavors."""
        self._wants_nodes.clear()
        began_s = time.monotonic()
        missing_s = self._syncing.nodes()
        wait_s = max(self._rhythm.nodes_s, _NODES_REST * (time.monotonic() - began_s))
        self._nodes_at_s = time.monotonic() + (wait_s if missing_s is None else min(missing_s, wait_s))
        if time.monotonic() >= self._flavors_at_s:
            self._syncing.flavors()
            self._flavors_at_s = time.monotonic() + self._rhythm.flavors_s

    def _poll(self) -> None:
        """Look at what has changed in Nova since the last time."""
        with self._noting:
            notified, self._notified = self._notified, set()
        asked_at = datetime.now(UTC)
        changed = self._mirror.take(self._nova.changed_since(self._mirror.since()), asked_at)
        unknown = [one for one in notified if self._mirror.get(one)[0] is None]
        self._want(changed | {*unknown[:_MOST_UNKNOWN]} | self._vanished())
        self._poll_at_s = time.monotonic() + self._rhythm.poll_s

    def _vanished(self) -> set[str]:
        """Return the servers that were being built and are not any more, whatever has become of them."""
        if time.monotonic() < self._builds_at_s or not (unplaced := self._mirror.unplaced()):
            return set()
        vanished = unplaced - self._nova.building()
        self._mirror.drop(vanished)
        self._builds_at_s = time.monotonic() + self._rhythm.poll_s
        return vanished

    def _compare(self, *, whole: bool) -> None:
        """Compare everything; what does not agree is looked at. Nova is read first, so its list is the older one.

        It is read as a whole, or only what has changed in it.
        """
        self._wants_all.clear()
        began_s, asked_at, lost = time.monotonic(), datetime.now(UTC), set[str]()
        if whole:
            with self._noting:
                self._notified = set()
            lost = self._mirror.replace(self._nova.servers(len(self._mirror)), asked_at)
        else:
            self._poll()
        running, leaving = self._books.running(), self._books.leaving()
        self._well("tenure")
        suspects = {one for one in (*running, *lost) if self._mirror.get(one)[0] is None}
        for life in [life for one in leaving if (life := life_of(one)) is not None]:
            suspects.add(life.server)
            if life.server in running and running[life.server].life.number > life.number:
                self._books.confirm(life)  # the server lives on by another promise
        suspects |= {server.id for server in self._mirror.all() if self._is_suspect(server, running.get(server.id))}
        self._want(suspects)
        self._figures.disagreements.set(len(suspects))
        self._figures.building_s.set(max((building_s(one, asked_at) for one in self._mirror.all()), default=0.0))
        self._figures.diff_s.set(time.monotonic() - began_s)
        self._figures.diff_at.set(asked_at.timestamp())
        if whole:
            self._all_at_s = time.monotonic() + self._rhythm.full_s
            self._poll_at_s = time.monotonic() + self._rhythm.poll_s

    def _want(self, servers: Iterable[str]) -> None:
        """Have servers looked at, first those that are gone: their room may be what others were built in."""
        for server in sorted(servers, key=lambda one: not is_ending(self._mirror.get(one)[0])):
            self._agenda.add(server)

    def _is_suspect(self, server: Server, known: KnownLife | None) -> bool:
        """Tell whether a server must be looked at. `known` is its running life; of others nothing is known here."""
        if known is None:
            presence = presence_of(server)
            return presence is Presence.BUILDS or (presence is not Presence.GONE and server.node in self._books.nodes)
        verdict = self._verdict(server, known, self._mirror.fresh_at)
        if verdict.again_s is not None:
            self._agenda.add(server.id, verdict.again_s)
        return bool(verdict.steps)

    # Looks.

    def _work(self) -> None:
        while not self._over.is_set():
            server = self._agenda.take(_WAIT_S)
            if server is not None:
                try:
                    again_s = self._tried(server)
                finally:
                    self._agenda.done(server)
                if again_s is not None:
                    self._agenda.add(server, again_s)

    def _tried(self, server: str) -> float | None:
        """Look at a server; return in how many seconds to look again: ever later if that makes trouble."""
        try:
            again_s = self._look(server)
        except _TROUBLES as error:
            count = self._failures[server] = self._failures.get(server, 0) + 1
            logger.debug("a look failed: %s", error, extra={"server": server})
            return min(2.0 ** min(count - 1, 10), _LONGEST_PAUSE_S)
        except Exception:
            logger.exception("a look failed", extra={"server": server})
            return _LONGEST_PAUSE_S
        self._failures.pop(server, None)
        return again_s

    def _look(self, server_id: str) -> float | None:
        """Decide about a server by what both sides say now, and act. Nova's word is the older one of the two."""
        server, seen_at = self._mirror.get(server_id)
        if server is None:
            server, seen_at = self._ask_nova(server_id)
        known = self._books.newest(server_id)
        if known is not None and known.status == "evicted" and server is not None and server.status == "BUILD":
            server, seen_at = self._ask_nova(server_id)  # one that has just been launched can be told
        verdict = self._verdict(server, known, seen_at)
        asked_before = _ASKED_BEFORE | (_ENDS if _was_time_to_leave(known) else set())
        if any(step.kind in asked_before for step in verdict.steps):
            server, seen_at = self._ask_nova(server_id)
            verdict = self._verdict(server, known, seen_at)
        if verdict.asks and server is not None:
            server = replace(server, is_at_deletion=self._nova.is_at_deletion(server_id))
            verdict = self._verdict(server, known, seen_at)
        is_told = self._take(verdict.steps, server_id, server)
        return verdict.again_s if is_told else min(verdict.again_s or _LONGEST_PAUSE_S, _LONGEST_PAUSE_S)

    def _ask_nova(self, server_id: str) -> tuple[Server | None, datetime]:
        """Return what Nova says of a server now, and when it was asked."""
        asked_at = datetime.now(UTC)
        server = self._nova.server(server_id)
        if server is not None:
            self._mirror.put(server)
        return server, asked_at

    def _verdict(self, server: Server | None, known: KnownLife | None, seen_at: datetime) -> ServerVerdict:
        return decide(server, known, self._books.nodes, self._choices, ViewTimes(datetime.now(UTC), seen_at))

    def _take(self, steps: Sequence[ServerStep], server_id: str, server: Server | None) -> bool:
        """Take steps in their order. One that only tells something keeps none of the others back if it is refused.

        Returns False then: its server's owner may have filled what it is told in, and is to gain nothing by that.
        """
        is_told, only_tells = True, all(step.kind in TELLING for step in steps)
        for step in steps:
            if only_tells and self._sayings.was_said(server_id, step):
                continue
            try:
                self._counted(step, server_id, server)
            except OpenStackRefused:
                if step.kind not in TELLING:
                    raise
                is_told = False
        return is_told

    def _counted(self, step: ServerStep, server_id: str, server: Server | None) -> None:
        """Take a step, and count its outcome."""
        kind = str(step.kind)
        try:
            is_done = self._deeds.do(step, server_id, server)
        except (OpenStackRefused, ServiceRefused) as error:
            self._figures.steps.labels(kind, "refused").inc()
            logger.warning("%s was refused: %s", kind, error)
            raise
        except _TROUBLES:
            self._figures.steps.labels(kind, "unanswered").inc()
            raise
        self._figures.steps.labels(kind, "done" if is_done else "needless").inc()
        if step.kind in TELLING:
            self._sayings.said(server_id, step)

    # Tenure's log.

    def _follow(self) -> None:
        """Follow the log from its end; what came before it is found by a comparison."""
        seq: int | None = None
        while not self._over.is_set():
            try:
                end = self._books.seq()
                self._well("tenure")
                if seq is None:
                    seq = end
                    self._want_all()
                for event in self._books.follow(seq):
                    seq = event.seq
                    self._heard_of(event)
            except Conflict:  # the log was put back
                seq = None
            except ClientError as error:
                self._ill("tenure", error)
            self._over.wait(_FOLLOW_AGAIN_S)

    def _heard_of(self, event: EventAnswer) -> None:
        life = life_of(str(event.fields.get("id"))) if event.kind in _FOLLOWED else None
        if life is not None:
            self._agenda.add(life.server)

    # How both sides stand.

    def _ill(self, side: str, error: Exception) -> None:
        """Tell once that a side does not answer, or refuses."""
        if side not in self._trouble:
            refuses = isinstance(error, OpenStackRefused | ServiceRefused)
            logger.warning("%s %s: %s", side, "refuses" if refuses else "does not answer", error)
        self._trouble[side] = str(error)
        self._figures.answers.labels(side).set(0)

    def _well(self, side: str) -> None:
        """Tell once that a side answers again; then everything is compared."""
        if self._trouble.pop(side, None) is not None:
            logger.info("%s answers again", side)
            if side == "nova":
                self._all_at_s = 0.0
            self._want_all()
        self._figures.answers.labels(side).set(1)

    def _want_nodes(self) -> None:
        self._wants_nodes.set()
        self._woken.set()

    def _want_all(self) -> None:
        self._wants_all.set()
        self._woken.set()

    def _tell_figures(self) -> None:
        waiting, late_s = self._agenda.waiting()
        self._figures.waiting.set(waiting)
        self._figures.late_s.set(late_s)
        self._figures.servers.set(len(self._mirror))
        self._figures.fresh_at.set(self._mirror.fresh_at.timestamp())


def _was_time_to_leave(known: KnownLife | None) -> bool:
    """Return True for an evicted server whose user may have shelved it since, as after a notice."""
    if known is None or known.ended_at is None:
        return False
    return known.leaves_by is not None or (datetime.now(UTC) - known.ended_at).total_seconds() > SURELY_AFTER_S
