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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Event, Lock, Thread

from app.nova.agenda import Agenda
from app.nova.books import Books
from app.nova.cloud import NovaCloud, OpenStackFailed, OpenStackRefused
from app.nova.deeds import Deeds
from app.nova.figures import NovaFigures
from app.nova.mirror import Mirror
from app.nova.rules.lives import life_of
from app.nova.rules.reconciling import NovaChoices, ViewTimes, decide
from app.nova.rules.seen import KnownLife, Server
from app.nova.syncing import Syncing
from tenure_client import ClientError, Conflict, ServiceRefused

logger = logging.getLogger(__name__)
_WORKERS = 8
_LEAST_POLL_S = 0.5
_WAIT_S = 0.5
_MOST_NOTIFIED = 100_000
_LONGEST_PAUSE_S = 30.0
_REFUSED_AGAIN_S = 15.0
_STOP_S = 10.0
_FOLLOWED = frozenset({"instance_evicted", "eviction_scheduled", "instance_extended", "instance_stopped"})
_TROUBLES = (OpenStackFailed, ClientError)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Seconds between comparisons of everything, between polls of changes, and between those of nodes and flavors."""

    full_s: float = 60.0
    poll_s: float = 5.0
    nodes_s: float = 30.0


class Keeper:
    """Keeps one cloud. `heard` may be called by any thread."""

    def __init__(
        self,
        nova: NovaCloud,
        books: Books,
        syncing: Syncing,
        choices: NovaChoices,
        rhythm: Rhythm,
        figures: NovaFigures,
    ) -> None:
        self._nova, self._books, self._syncing = nova, books, syncing
        self._choices, self._rhythm, self._figures = choices, rhythm, figures
        self._deeds, self._agenda, self._mirror = Deeds(nova, books), Agenda(), Mirror()
        self._woken, self._over, self._noting = Event(), Event(), Lock()
        self._notified: set[str] = set()
        self._failures: dict[str, int] = {}
        self._trouble: dict[str, str] = {}
        self._full_at_s = self._poll_at_s = self._nodes_at_s = 0.0

    def run(self, is_over: Callable[[], bool]) -> None:
        """Keep the cloud until `is_over`. Steps that have begun are ended."""
        threads = [Thread(target=self._work, name=f"look-{number}", daemon=True) for number in range(_WORKERS)]
        threads.append(Thread(target=self._follow, name="follow", daemon=True))
        for thread in threads:
            thread.start()
        pause_s = 0.0
        while not is_over():
            pause_s = 0.0 if self._round() else min(max(2 * pause_s, 1.0), self._rhythm.poll_s)
            self._tell_figures()
            self._woken.wait(max(pause_s, _LEAST_POLL_S))
            self._woken.clear()
        self._over.set()
        give_up_s = time.monotonic() + _STOP_S
        for thread in threads[:_WORKERS]:
            thread.join(max(give_up_s - time.monotonic(), 0.0))

    def heard(self, server: str | None) -> None:
        """Take a notification: there is news of a server, or of nodes for None."""
        self._figures.notifications.inc()
        with self._noting:
            if server is None:
                self._nodes_at_s = 0.0
            elif len(self._notified) < _MOST_NOTIFIED:
                self._notified.add(server)
            else:
                self._full_at_s = 0.0
        self._woken.set()

    # The rounds of the first thread.

    def _round(self) -> bool:
        """Do what is due; return False if a side did not answer."""
        now_s = time.monotonic()
        with self._watched("nova") as watch:
            if now_s >= self._nodes_at_s:
                self._nodes_at_s = now_s + self._rhythm.nodes_s
                self._syncing.nodes()
                self._syncing.flavors()
            if now_s >= self._full_at_s:
                self._compare()
                self._full_at_s = now_s + self._rhythm.full_s
                self._poll_at_s = now_s + self._rhythm.poll_s
            elif self._notified or now_s >= self._poll_at_s:
                self._poll()
                self._poll_at_s = now_s + self._rhythm.poll_s
        if not watch.is_well:
            self._nodes_at_s = min(self._nodes_at_s, now_s)
        return watch.is_well

    def _poll(self) -> None:
        """Look at what has changed in Nova since the last time."""
        with self._noting:
            notified, self._notified = self._notified, set()
        asked_at = datetime.now(UTC)
        changed = self._mirror.take(self._nova.changed_since(self._mirror.since()), asked_at)
        for server in changed | {one for one in notified if self._mirror.get(one)[0] is None}:
            self._agenda.add(server)

    def _compare(self) -> None:
        """Compare everything; what does not agree is looked at. The list of Nova is read first, so it is older."""
        began_s, asked_at = time.monotonic(), datetime.now(UTC)
        with self._noting:
            self._notified = set()
        lost = self._mirror.replace(self._nova.servers(), asked_at)
        running, leaving = self._books.running(), self._books.leaving()
        suspects = {server.id for server in self._mirror.all() if self._is_suspect(server, running.get(server.id))}
        suspects |= {one for one in (*running, *lost) if self._mirror.get(one)[0] is None}
        suspects |= {life.server for one in leaving if (life := life_of(one)) is not None}
        for server in suspects:
            self._agenda.add(server)
        self._figures.disagreements.set(len(suspects))
        self._figures.diff_s.set(time.monotonic() - began_s)
        self._figures.diff_at.set(asked_at.timestamp())

    def _is_suspect(self, server: Server, known: KnownLife | None) -> bool:
        now = datetime.now(UTC)
        verdict = decide(server, known, self._books.nodes, self._choices, ViewTimes(now, now))
        return bool(verdict.steps) or verdict.again_s is not None

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
        """Look at a server; return in how many seconds to look again. One that makes trouble is left alone ever longer."""
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
            seen_at = datetime.now(UTC)
            server = self._nova.server(server_id)
            if server is not None:
                self._mirror.put(server)
        known = self._books.newest(server_id)
        times = ViewTimes(datetime.now(UTC), seen_at)
        verdict = decide(server, known, self._books.nodes, self._choices, times)
        for step in verdict.steps:
            with self._counted(str(step.kind)):
                self._deeds.do(step, server_id, server)
        return verdict.again_s

    @contextmanager
    def _counted(self, step: str) -> Iterator[None]:
        try:
            yield
        except (OpenStackRefused, ServiceRefused) as error:
            self._figures.steps.labels(step, "refused").inc()
            logger.warning("%s was refused: %s", step, error)
            raise
        except _TROUBLES:
            self._figures.steps.labels(step, "unanswered").inc()
            raise
        self._figures.steps.labels(step, "done").inc()

    # Tenure's log.

    def _follow(self) -> None:
        """Follow the log from its end; what came before it is found by a comparison."""
        seq: int | None = None
        while not self._over.is_set():
            with self._watched("tenure"):
                try:
                    if seq is None:
                        seq = self._books.seq()
                        self._full_at_s = 0.0
                        self._woken.set()
                    self._well("tenure")
                    for event in self._books.follow(seq):
                        seq = event.seq
                        life = life_of(str(event.fields.get("id"))) if event.kind in _FOLLOWED else None
                        if life is not None:
                            self._agenda.add(life.server)
                except Conflict:  # the log was put back
                    seq = None
                    raise
            self._over.wait(1.0)

    # How both sides stand.

    @contextmanager
    def _watched(self, side: str) -> Iterator[_Watch]:
        """Bear a side that does not answer, and tell of it once when it begins and once when it ends."""
        watch = _Watch()
        try:
            yield watch
        except _TROUBLES as error:
            watch.is_well = False
            where = "tenure" if isinstance(error, ClientError) else side
            self._ill(where, str(error))
        else:
            self._well(side)

    def _ill(self, side: str, error: str) -> None:
        if side not in self._trouble:
            logger.warning("%s does not answer: %s", side, error)
        self._trouble[side] = error
        self._figures.answers.labels(side).set(0)

    def _well(self, side: str) -> None:
        if self._trouble.pop(side, None) is not None:
            logger.info("%s answers again", side)
            self._full_at_s = 0.0
            self._woken.set()
        self._figures.answers.labels(side).set(1)

    def _tell_figures(self) -> None:
        waiting, late_s = self._agenda.waiting()
        self._figures.waiting.set(waiting)
        self._figures.late_s.set(late_s)
        self._figures.servers.set(len(self._mirror))
        self._figures.fresh_at.set(self._mirror.fresh_at.timestamp())


@dataclass
class _Watch:
    """Whether what was watched went well."""

    is_well: bool = True
