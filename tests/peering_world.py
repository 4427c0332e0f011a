"""A world of one origin and three hosts that lose messages, are killed and cut off, and whose clocks go wrong.

Each side keeps what it has written down and nothing else. Instances run by themselves: a host's *executor* starts what
the log says was admitted, and stops it when the log says that it is over, or at the end of its lease by the host's own
clock, also while the host's process is dead. Inputs of some jobs come to a host once it was awarded, over the same
links, sooner or later than it waits for them, which is at most the time that the origin allows; outputs stay at the
host until the origin has written down that it has them. Everything is drawn from one seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from random import Random
from typing import Any, NamedTuple

from app.domain.jobs import AttemptKey, AwayEnd, Word
from app.engine.jobs.attempts import LeaseTerms, Wish
from app.engine.jobs.hostside import AttemptHeld, AttemptStaging, ForeignAdmitted, ForeignEnded, HostEvent, HostSide
from app.engine.jobs.originside import AttemptEnded, AwayState, JobAway, OriginEvent

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
    """The findings of a world: pairs of runs of one job that overlapped, jobs without an end, and all runs.

    `unready`: attempts that ran before their inputs were there; `squats`: those whose room was held when its time was
    over; `bereft`: jobs that completed, and whose outputs the origin never got. `late`: attempts whose inputs did not
    come in time.
    """

    overlaps: list[tuple[Run, Run]]
    lost: list[str]
    runs: list[Run]
    ends: list[AwayEnd]
    unready: list[AttemptKey]
    squats: list[AttemptKey]
    bereft: list[str]
    late: list[AttemptKey]

    @property
    def wrong(self) -> list[object]:
        """All that must not be."""
        return [*self.overlaps, *self.lost, *self.unready, *self.squats, *self.bereft]


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
    """A host: its process, its log, what it knows of it, its executor, and what that has to tell.

    `arrived`: attempts whose inputs are here; `outputs`: those whose outputs are; `room`: until when room is held.
    """

    machine: Machine
    side: HostSide
    log: list[HostEvent] = field(default_factory=list)
    executing: dict[AttemptKey, Executing] = field(default_factory=dict)
    finished: list[AttemptKey] = field(default_factory=list)
    arrived: set[AttemptKey] = field(default_factory=set)
    outputs: set[AttemptKey] = field(default_factory=set)
    room: dict[AttemptKey, int] = field(default_factory=dict)


@dataclass
class World:
    """`new_job` and `new_host` make the two sides.

    `is_durable_first`: awards are written before they are sent, and outputs before they are given up; `lease`: the
    terms that the origin reckons with, of those of the job and the time that its inputs have.
    """

    seed: int
    new_job: Callable[..., JobAway] = JobAway
    new_host: Callable[[], HostSide] = HostSide
    is_durable_first: bool = True
    lease: Callable[[LeaseTerms, int], LeaseTerms] = lambda terms, _: terms

    def __post_init__(self) -> None:
        self.draw = Random(self.seed)
        self.order = count()
        self.steps: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self.origin = self._machine()
        self.hosts = {name: Hosting(self._machine(), self.new_host()) for name in PEERS}
        self.terms: dict[str, LeaseTerms] = {}
        self.stage_us: dict[str, int] = {}
        self.granted_us: dict[tuple[str, AttemptKey], int] = {}
        self.collected: set[str] = set()
        self.gone: set[str] = set()
        self.unready: list[AttemptKey] = []
        self.squats: list[AttemptKey] = []
        self.late: list[AttemptKey] = []
        self.jobs: dict[str, JobAway] = {}
        self.logs: dict[str, list[OriginEvent]] = {}
        self.runs: list[Run] = []
        self.cut: dict[str, int] = dict.fromkeys(PEERS, 0)
        for number in range(JOBS):
            hold, runs = self.draw.randint(10, 120), self.draw.randint(30, 300)
            stage_us = self.draw.choice((0, self.draw.randint(20, 400) * SECOND))
            self.stage_us[f"j{number}"] = stage_us
            self.terms[f"j{number}"] = LeaseTerms(hold * SECOND, stage_us + runs * SECOND, SECOND)
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
            all_ended = all(job.state is AwayState.ENDED for job in self.jobs.values()) and not self._uncollected()
            if at_us > END_US or (all_ended and not any(host.executing for host in self.hosts.values())):
                break
            step(at_us, *more)
        by_job = {
            job: sorted((one for one in self.runs if one.key.job == job), key=lambda one: one.begin_us)
            for job in self.jobs
        }
        overlaps = [(one, two) for runs in by_job.values() for one, two in pairwise(runs) if two.begin_us < one.end_us]
        lost = [name for name, job in self.jobs.items() if job.end is None]
        ends = [job.end for job in self.jobs.values() if job.end is not None]
        bereft = [*self._uncollected(), *self.gone]
        return Fates(overlaps, lost, self.runs, ends, self.unready, self.squats, bereft, self.late)

    # --- the origin ---------------------------------------------------------------------------------------------------

    def _tick_origin(self, at_us: int) -> None:
        self._at(at_us + self.draw.randint(TICK_US // 2, TICK_US), self._tick_origin)
        for name in self._uncollected():
            if at_us >= self.origin.up_at_us:
                key = self._completed(name)
                self._send(self.jobs[name].asked[key.attempt], at_us, self._hear_question, key)
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
        terms = self.lease(self.terms[name], self.stage_us[name])
        job = self.new_job(PEERS, terms, 200, 45 * SECOND, again=True)
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

    def _completed(self, name: str) -> AttemptKey:
        """Return the attempt of a completed job that completed it."""
        ends = [event for event in self.logs[name] if isinstance(event, AttemptEnded) and event.is_last]
        return AttemptKey("o", name, ends[-1].attempt)

    def _uncollected(self) -> list[str]:
        """Return the completed jobs whose outputs are at their hosts still, as far as the origin knows."""
        completed = [name for name, job in self.jobs.items() if job.end is AwayEnd.COMPLETED]
        return [name for name in completed if name not in self.collected | self.gone]

    def _hear_outputs(self, at_us: int, key: AttemptKey, are_there: bool) -> None:
        """Write down that the outputs of a job are here, and let the host's go; or that they are lost."""
        if at_us < self.origin.up_at_us or self.jobs[key.job].end is not AwayEnd.COMPLETED:
            return
        if not are_there:
            self.gone |= {key.job} - self.collected
            return
        peer = self.jobs[key.job].asked[key.attempt]
        if self.is_durable_first:
            self.collected.add(key.job)
        if not self._is_killed(self.origin, at_us) or not self.is_durable_first:
            self._send(peer, at_us, self._let_go, peer, key)
        if at_us >= self.origin.up_at_us:
            self.collected.add(key.job)

    # --- the hosts ----------------------------------------------------------------------------------------------------

    def _hear_question(self, at_us: int, key: AttemptKey) -> None:
        """Tell whether the outputs of an attempt are here, once it is known how that ended."""
        name = self.jobs[key.job].asked[key.attempt]
        host = self.hosts[name]
        if at_us >= host.machine.up_at_us and host.side.word_on(key) is Word.FINISHED:
            self._send(name, at_us, self._hear_outputs, key, key in host.outputs)

    def _let_go(self, at_us: int, name: str, key: AttemptKey) -> None:
        if at_us >= self.hosts[name].machine.up_at_us:
            self.hosts[name].outputs.discard(key)

    def _arrive(self, at_us: int, name: str, key: AttemptKey) -> None:
        """Have the inputs of an attempt here, unless the link is cut or the host is down: then later."""
        host = self.hosts[name]
        there_us = max(self.cut[name], host.machine.up_at_us)
        if at_us < there_us:
            self._at(there_us + self.draw.randint(1, 9) * SECOND, self._arrive, name, key)
        else:
            host.arrived.add(key)

    def _tick_host(self, at_us: int, name: str) -> None:
        self._at(at_us + self.draw.randint(TICK_US // 2, TICK_US), self._tick_host, name)
        host = self.hosts[name]
        if at_us < host.machine.up_at_us:
            return
        while host.finished:
            self._write(name, host.side.decide_end(host.finished.pop(), Word.FINISHED), at_us)
        now_us = host.machine.clock(at_us)
        for key in [*host.side.open_attempts()]:
            if key in host.arrived:
                self._write(name, host.side.decide_staged(key, now_us), at_us)
        self._write(name, host.side.decide_time(now_us), at_us)
        if at_us >= host.machine.up_at_us:
            self.squats += [key for key, until_us in host.room.items() if until_us <= now_us]
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
                events = host.side.decide_offer(key, self._host_terms(name, key), now_us, is_admitted=has_room)
            case Wish.AWARD:
                events = host.side.decide_award(key, now_us, self.granted_us.get((name, key), 0))
            case Wish.CANCEL:
                events = host.side.decide_cancel(key)
        self._write(name, events, at_us)
        if at_us >= host.machine.up_at_us:
            self._send(name, at_us, self._hear_word, name, key, host.side.word_on(key))

    def _write(self, name: str, events: list[HostEvent], at_us: int) -> None:
        host = self.hosts[name]
        for event in events:
            self._note_room(host, event)
            host.log.append(event)
            host.side.apply(event)
            if isinstance(event, AttemptStaging):
                takes_us = round(self.granted_us[name, event.key] * self.draw.uniform(0.1, 1.2))
                self._at(at_us + takes_us, self._arrive, name, event.key)
            if isinstance(event, ForeignAdmitted):
                self._at(at_us + self.draw.randint(0, 3 * SECOND), self._execute, name, event.key)
            if isinstance(event, ForeignEnded):
                self._stop(at_us, name, event.key)
        if events and self._is_killed(host.machine, at_us):
            host.side = self.new_host()
            for event in host.log:
                host.side.apply(event)

    def _host_terms(self, name: str, key: AttemptKey) -> LeaseTerms:
        """Return the terms of a host: it may give inputs less time than the origin allows."""
        stage_us, terms = self.stage_us[key.job], self.terms[key.job]
        granted_us = self.granted_us.setdefault((name, key), round(stage_us * self.draw.choice((0.3, 1.0))))
        return replace(terms, runs_us=terms.runs_us - stage_us + granted_us)

    def _note_room(self, host: Hosting, event: HostEvent) -> None:
        if isinstance(event, ForeignEnded) and event.word is Word.EXPIRED:
            self.late += [event.key] if host.side.word_on(event.key) is Word.STAGING else []
        if isinstance(event, AttemptHeld | AttemptStaging):
            host.room[event.key] = event.until_us
        else:
            host.room.pop(event.key, None)

    # --- the executors ------------------------------------------------------------------------------------------------

    def _execute(self, at_us: int, name: str, key: AttemptKey) -> None:
        """Start what the log says was admitted and is not over, if its lease has not ended."""
        host = self.hosts[name]
        ends_us = next(event.ends_us for event in host.log if isinstance(event, AttemptHeld) and event.key == key)
        stop_us = host.machine.when(ends_us)
        if host.side.word_on(key) is not Word.RUNNING or key in host.executing or at_us >= stop_us:
            return
        if self.stage_us[key.job] and key not in host.arrived:
            self.unready.append(key)
        works_us = round((self.terms[key.job].runs_us - self.stage_us[key.job]) * self.draw.uniform(0.3, 1.3))
        host.executing[key] = Executing(at_us, at_us + works_us, stop_us)
        self._at(min(at_us + works_us, stop_us), self._leave, name, key)

    def _leave(self, at_us: int, name: str, key: AttemptKey) -> None:
        """End a run that has done its work, or whose lease ends."""
        one = self.hosts[name].executing.get(key)
        if one is not None and at_us >= min(one.done_us, one.stop_us):
            if one.done_us <= one.stop_us:
                self.hosts[name].finished.append(key)
                self.hosts[name].outputs.add(key)
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
