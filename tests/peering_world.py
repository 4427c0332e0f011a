"""A world of one origin and three hosts that lose messages, are killed and cut off, and whose clocks go wrong.

Each side keeps what it has written down and nothing else. Instances run by themselves: a host's *executor* starts what
the log says was admitted, and stops it when the log says that it is over, or at the end of its lease by the host's own
clock, also while the host's process is dead. Everything is drawn from one seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, pairwise
from random import Random
from typing import Any, NamedTuple

from app.domain.jobs import AttemptKey, AwayEnd, Word
from app.engine.jobs.attempts import LeaseTerms, Wish
from app.engine.jobs.hostside import AttemptHeld, ForeignAdmitted, ForeignEnded, HostEvent, HostSide
from app.engine.jobs.originside import AwayState, JobAway, OriginEvent

SECOND = 1_000_000
FAULTS_US = 1500 * SECOND
END_US = 30_000 * SECOND
TICK_US = 6 * SECOND
LOSS, TWICE, LATE_US = 0.2, 0.1, 20 * SECOND
KILLED_AFTER_A_WRITE = 0.02
ROOM = 3
JOBS = 6
PEERS = ("x", "y", "z")


class Run(NamedTuple):
    """Instances of an attempt that really ran, from and to, in the world's time."""

    key: AttemptKey
    begin_us: int
    end_us: int


class Fates(NamedTuple):
    """The findings of a world: pairs of runs of one job that overlapped, jobs without an end, and all runs."""

    overlaps: list[tuple[Run, Run]]
    lost: list[str]
    runs: list[Run]
    ends: list[AwayEnd]


@dataclass
class Machine:
    """A process with a clock. It is down until `up_at_us`."""

    rate: float
    ahead_us: int
    up_at_us: int = 0

    def clock(self, at_us: int) -> int:
        return self.ahead_us + round(at_us * self.rate)

    def when(self, clock_us: int) -> int:
        """Return the world's time at which the clock shows a time."""
        return round((clock_us - self.ahead_us) / self.rate)


@dataclass
class Executing:
    """Instances that run: since when, until when they work, and when the lease stops them."""

    begin_us: int
    done_us: int
    stop_us: int


@dataclass
class Hosting:
    """A host: its process, its log, what it knows of it, its executor, and what that has to tell."""

    machine: Machine
    side: HostSide
    log: list[HostEvent] = field(default_factory=list)
    executing: dict[AttemptKey, Executing] = field(default_factory=dict)
    finished: list[AttemptKey] = field(default_factory=list)


@dataclass
class World:
    """`new_job` and `new_host` make the two sides; `is_durable_first`: awards are written before they are sent."""

    seed: int
    new_job: Callable[..., JobAway] = JobAway
    new_host: Callable[[], HostSide] = HostSide
    is_durable_first: bool = True

    def __post_init__(self) -> None:
        self.draw = Random(self.seed)
        self.order = count()
        self.steps: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self.origin = self._machine()
        self.hosts = {name: Hosting(self._machine(), self.new_host()) for name in PEERS}
        self.terms: dict[str, LeaseTerms] = {}
        self.jobs: dict[str, JobAway] = {}
        self.logs: dict[str, list[OriginEvent]] = {}
        self.runs: list[Run] = []
        self.cut: dict[str, int] = dict.fromkeys(PEERS, 0)
        for number in range(JOBS):
            hold, runs = self.draw.randint(10, 120), self.draw.randint(30, 300)
            self.terms[f"j{number}"] = LeaseTerms(hold * SECOND, runs * SECOND, SECOND)
            self.logs[f"j{number}"] = []
            self._restart_job(f"j{number}")
        for at_us in range(0, FAULTS_US, 40 * SECOND):
            self._at(at_us, self._fault)
        self._at(0, self._tick_origin)
        for name in PEERS:
            self._at(self.draw.randint(0, TICK_US), self._tick_host, name)

    def live(self) -> Fates:
        """Let the world go on until all jobs have ended, or its time is over, and tell what happened."""
        while self.steps:
            at_us, _, step, more = heapq.heappop(self.steps)
            all_ended = all(job.state is AwayState.ENDED for job in self.jobs.values())
            if at_us > END_US or (all_ended and not any(host.executing for host in self.hosts.values())):
                break
            step(at_us, *more)
        by_job = {
            job: sorted((one for one in self.runs if one.key.job == job), key=lambda one: one.begin_us)
            for job in self.jobs
        }
        overlaps = [(one, two) for runs in by_job.values() for one, two in pairwise(runs) if two.begin_us < one.end_us]
        lost = [name for name, job in self.jobs.items() if job.end is None]
        return Fates(overlaps, lost, self.runs, [job.end for job in self.jobs.values() if job.end is not None])

    # --- the origin ---------------------------------------------------------------------------------------------------

    def _tick_origin(self, at_us: int) -> None:
        self._at(at_us + self.draw.randint(TICK_US // 2, TICK_US), self._tick_origin)
        for name in self.jobs:
            if at_us >= self.origin.up_at_us:
                self._commit(name, self.jobs[name].decide_time(self.origin.clock(at_us)), at_us)
            if at_us >= self.origin.up_at_us:
                self._send_wish(name, at_us)

    def _commit(self, name: str, events: list[OriginEvent], at_us: int) -> None:
        """Write events down and apply them; a kill may come right after, or, with the mutant, right before."""
        if not events:
            return
        if not self.is_durable_first:
            for event in events:
                self.jobs[name].apply(event)
            self._send_wish(name, at_us)
            if self._is_killed(self.origin, at_us):
                self._restart_job(name)
                return
        else:
            for event in events:
                self.jobs[name].apply(event)
        self.logs[name] += events
        if self.is_durable_first and self._is_killed(self.origin, at_us):
            self._restart_job(name)

    def _restart_job(self, name: str) -> None:
        job = self.new_job(PEERS, self.terms[name], 200, 45 * SECOND, again=True)
        for event in self.logs[name]:
            job.apply(event)
        self.jobs[name] = job

    def _send_wish(self, name: str, at_us: int) -> None:
        job = self.jobs[name]
        wish = job.wish()
        if wish is not None:
            self._send(wish[0], at_us, self._hear_wish, wish[0], AttemptKey("o", name, job.attempt), wish[1])

    def _hear_word(self, at_us: int, peer: str, key: AttemptKey, word: Word) -> None:
        if at_us < self.origin.up_at_us:
            return
        events = self.jobs[key.job].decide_word(peer, key.attempt, word, self.origin.clock(at_us))
        self._commit(key.job, events, at_us)
        if events and at_us >= self.origin.up_at_us:
            self._send_wish(key.job, at_us)

    # --- the hosts ----------------------------------------------------------------------------------------------------

    def _tick_host(self, at_us: int, name: str) -> None:
        self._at(at_us + self.draw.randint(TICK_US // 2, TICK_US), self._tick_host, name)
        host = self.hosts[name]
        if at_us < host.machine.up_at_us:
            return
        while host.finished:
            self._write(name, host.side.decide_end(host.finished.pop(), Word.FINISHED), at_us)
        self._write(name, host.side.decide_time(host.machine.clock(at_us)), at_us)
        running = [key for key in host.side.open_attempts() if self.draw.random() < 0.01]
        for key in running:
            self._write(name, host.side.decide_end(key, Word.PREEMPTED), at_us)

    def _hear_wish(self, at_us: int, name: str, key: AttemptKey, wish: Wish) -> None:
        host = self.hosts[name]
        if at_us < host.machine.up_at_us:
            return
        now_us = host.machine.clock(at_us)
        match wish:
            case Wish.OFFER:
                has_room = sum(1 for _ in host.side.open_attempts()) < ROOM
                events = host.side.decide_offer(key, self.terms[key.job], now_us, is_admitted=has_room)
            case Wish.AWARD:
                events = host.side.decide_award(key, now_us)
            case Wish.CANCEL:
                events = host.side.decide_cancel(key)
        self._write(name, events, at_us)
        if at_us >= host.machine.up_at_us:
            self._send(name, at_us, self._hear_word, name, key, host.side.word_on(key))

    def _write(self, name: str, events: list[HostEvent], at_us: int) -> None:
        host = self.hosts[name]
        for event in events:
            host.log.append(event)
            host.side.apply(event)
            if isinstance(event, ForeignAdmitted):
                self._at(at_us + self.draw.randint(0, 3 * SECOND), self._execute, name, event.key)
            if isinstance(event, ForeignEnded):
                self._stop(at_us, name, event.key)
        if events and self._is_killed(host.machine, at_us):
            host.side = self.new_host()
            for event in host.log:
                host.side.apply(event)

    # --- the executors ------------------------------------------------------------------------------------------------

    def _execute(self, at_us: int, name: str, key: AttemptKey) -> None:
        """Start what the log says was admitted and is not over, if its lease has not ended."""
        host = self.hosts[name]
        ends_us = next(event.ends_us for event in host.log if isinstance(event, AttemptHeld) and event.key == key)
        stop_us = host.machine.when(ends_us)
        if host.side.word_on(key) is not Word.RUNNING or key in host.executing or at_us >= stop_us:
            return
        works_us = round(self.terms[key.job].runs_us * self.draw.uniform(0.3, 1.3))
        host.executing[key] = Executing(at_us, at_us + works_us, stop_us)
        self._at(min(at_us + works_us, stop_us), self._leave, name, key)

    def _leave(self, at_us: int, name: str, key: AttemptKey) -> None:
        """End a run that has done its work, or whose lease ends."""
        one = self.hosts[name].executing.get(key)
        if one is not None and at_us >= min(one.done_us, one.stop_us):
            if one.done_us <= one.stop_us:
                self.hosts[name].finished.append(key)
            self._stop(at_us, name, key)

    def _stop(self, at_us: int, name: str, key: AttemptKey) -> None:
        one = self.hosts[name].executing.pop(key, None)
        if one is not None:
            self.runs.append(Run(key, one.begin_us, at_us))

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    def _fault(self, at_us: int) -> None:
        match self.draw.randrange(4):
            case 0:
                self.origin.up_at_us = max(self.origin.up_at_us, at_us + self.draw.randint(1, 200) * SECOND)
            case 1:
                machine = self.hosts[self.draw.choice(PEERS)].machine
                machine.up_at_us = max(machine.up_at_us, at_us + self.draw.randint(1, 200) * SECOND)
            case _:
                self.cut[self.draw.choice(PEERS)] = at_us + self.draw.randint(1, 400) * SECOND

    def _is_killed(self, machine: Machine, at_us: int) -> bool:
        if at_us > FAULTS_US or self.draw.random() >= KILLED_AFTER_A_WRITE:
            return False
        machine.up_at_us = at_us + self.draw.randint(1, 60) * SECOND
        return True

    def _send(self, peer: str, at_us: int, step: Callable[..., None], *more: Any) -> None:
        """Deliver a message over the link to a host: never, once or twice, and late."""
        if at_us <= FAULTS_US and (at_us < self.cut[peer] or self.draw.random() < LOSS):
            return
        for _ in range(1 + (self.draw.random() < TWICE)):
            late_us = round(LATE_US * self.draw.random() ** 4)
            self._at(at_us + late_us, step, *more)

    def _machine(self) -> Machine:
        return Machine(self.draw.uniform(0.99, 1.01), self.draw.randint(0, 1000) * SECOND)

    def _at(self, at_us: int, step: Callable[..., None], *more: Any) -> None:
        heapq.heappush(self.steps, (at_us, next(self.order), step, more))
