"""The audit of jobs and of their data: what the rules decide passes, and a log that breaks one check is found."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    JobCollected,
    JobOutputsLost,
    JobRequested,
    NodeAdded,
)
from app.domain.jobs import AttemptKey, DataFault, DataObject, Federate, OnPreempted, OutputObject, Word
from app.domain.times import HOUR_US, SECOND_US
from app.domain.values import Guarantee, Policy, Resources
from app.engine.cloud import Cloud
from app.federation.rules.awayside import Heard, decide_away
from app.federation.rules.foreignside import (
    ForeignAsk,
    PeerQuota,
    decide_award,
    decide_due,
    decide_offer,
    decide_staged,
    decide_unstaged,
    decide_withdrawal,
)
from app.federation.rules.homeside import decide_job
from app.workbench.audit import Rule, audit
from app.workbench.logcsv import LogRow, LogWriter, read_log

Rows = list[LogRow]
QUOTA = PeerQuota(cores_share=100)
HOLD_US, STAGE_US = 30 * SECOND_US, 60 * SECOND_US
OUTPUTS = (OutputObject("log", 9), OutputObject("out", 9))


class Told:
    """A cloud and the log of what is decided there, second by second."""

    def __init__(self) -> None:
        self.cloud, self.at_us, self.file = Cloud(), 0, io.StringIO()
        self.writer = LogWriter(self.file)
        self.tell(
            CloudCreated(at_us=0, policy=Policy(guarantee=Guarantee.NONE)),
            NodeAdded(at_us=0, node="n", capacity=Resources(8)),
            FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)),
        )

    def tell(self, *events: Event) -> None:
        for event in events:
            self.writer.write(self.cloud.apply(event))

    def later(self, seconds: int = 1) -> int:
        self.at_us += seconds * SECOND_US
        return self.at_us

    def words(self, job: str, *words: Word) -> None:
        for word in words:
            tried = self.cloud.jobs.by_id[job].away
            for event in decide_away(self.cloud, [Heard(job, tried.peer, tried.attempt, word)], self.later()):
                self.tell(event)

    def job(self, name: str, *words: Word, **more: object) -> None:
        away = {"federate": Federate.ONLY, "peers": ("b", "c"), "attempts": 4, "answer_us": 5 * SECOND_US}
        given = away | {"hold_us": HOLD_US, "on_preempted": OnPreempted.OFFER_AGAIN} | more
        asked = JobRequested(at_us=self.later(), job=name, flavor="c1", count=2, lifetime_us=HOUR_US, **given)  # type: ignore[arg-type]
        self.tell(*decide_job(self.cloud, asked))
        for event in [*decide_away(self.cloud, [], self.at_us)]:
            self.tell(event)
        self.words(name, *words)

    def offer(self, job: str, stage_us: int = 0, attempt: int = 1) -> AttemptKey:
        key = AttemptKey("a", job, attempt)
        ask = ForeignAsk(key, "c1", 1, HOUR_US, None, HOLD_US, stage_us, data_bytes=14 if stage_us else 0)
        self.tell(*decide_offer(self.cloud, ask, QUOTA, None, self.later()))
        return key

    def rows(self, directory: Path) -> Rows:
        path = directory / "log.csv"
        path.write_text(self.file.getvalue(), encoding="utf-8")
        return [*read_log(path)]


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    """A log in which every event of jobs and of their data occurs."""
    told = Told()
    told.job("home", federate=Federate.NEVER, peers=())
    told.job("data", Word.HELD, Word.STAGING, Word.RUNNING, Word.FINISHED, outputs=OUTPUTS, stage_us=STAGE_US)
    collected = DataObject("log", 0, "e" * 64), DataObject("out", 9, "f" * 64)
    told.tell(JobCollected(at_us=told.later(), job="data", attempt=1, outputs=collected))
    told.job("lossy", Word.HELD, Word.PREEMPTED, Word.HELD, Word.FINISHED, outputs=OUTPUTS)
    told.tell(JobOutputsLost(at_us=told.later(), job="lossy", attempt=2, reason=DataFault.GONE))
    told.job("plain", Word.REFUSED, Word.HELD, Word.FINISHED)
    told.tell(*decide_award(told.cloud, told.offer("quick"), None, told.later()))
    staged = told.offer("staged", STAGE_US)
    told.tell(*decide_award(told.cloud, staged, None, told.later(29)))
    told.tell(*decide_staged(told.cloud, staged, None, told.later(59)))
    spoilt = told.offer("spoilt", STAGE_US)
    told.tell(*decide_award(told.cloud, spoilt, None, told.later()))
    told.tell(*decide_unstaged(told.cloud, spoilt, DataFault.DIGEST, told.later()))
    late = told.offer("late", STAGE_US)
    told.tell(*decide_award(told.cloud, late, None, told.later()))
    told.tell(*decide_due(told.cloud, told.later(60)))
    told.tell(*decide_withdrawal(told.cloud, told.offer("unwanted"), told.later()))
    told.tell(*decide_due(told.cloud, told.later(2 * 3600)))
    return told.rows(tmp_path)


def test_what_the_rules_decide_passes(rows: Rows) -> None:
    assert audit(rows, []).finding is None
    kinds = {"job_collected", "job_outputs_lost", "foreign_job_staging", "foreign_job_admitted", "foreign_job_ended"}
    assert kinds < {row.kind for row in rows}


def test_a_file_without_the_columns_of_data_passes(rows: Rows) -> None:
    older = [row._replace(inputs=None, outputs=None, stage_us=None, data_bytes=None) for row in rows]
    assert audit(older, []).finding is None


def of(kind: str, job: str) -> Callable[[LogRow], bool]:
    return lambda row: row.kind == kind and row.job == job


def changed(rows: Rows, kind: str, of_job: str, /, **cells: object) -> Rows:
    """The rows with other cells in the first one of a kind and a job."""
    at = next(at for at, row in enumerate(rows) if of(kind, of_job)(row))
    return [*rows[:at], rows[at]._replace(**cells), *rows[at + 1 :]]


def without(rows: Rows, kind: str, job: str) -> Rows:
    """The rows without the first one of a kind and a job."""
    at = next(at for at, row in enumerate(rows) if of(kind, job)(row))
    return renumbered([*rows[:at], *rows[at + 1 :]])


def twice(rows: Rows, kind: str, job: str) -> Rows:
    at = next(at for at, row in enumerate(rows) if of(kind, job)(row))
    return renumbered([*rows[: at + 1], *rows[at:]])


def renumbered(rows: Rows) -> Rows:
    return [row._replace(seq=seq) for seq, row in enumerate(rows, start=1)]


def delayed(rows: Rows, kind: str, job: str, seconds: int) -> Rows:
    """The rows with that one and all after it later."""
    at = next(at for at, row in enumerate(rows) if of(kind, job)(row))
    return [*rows[:at], *(row._replace(at_us=row.at_us + seconds * SECOND_US) for row in rows[at:])]


OTHER = (DataObject("log", 0, "e" * 64), DataObject("other", 9, "f" * 64))
LARGE = (DataObject("log", 0, "e" * 64), DataObject("out", 10, "f" * 64))
BROKEN: dict[str, tuple[Callable[[Rows], Rows], Rule, str]] = {
    "a job submitted twice": (lambda rows: twice(rows, "job_requested", "plain"), Rule.ONCE, "submitted before"),
    "an event of no job": (lambda rows: changed(rows, "job_offered", "plain", job="no"), Rule.FOLD, "there is no job"),
    "a job that had ended": (lambda rows: twice(rows, "job_ended", "plain"), Rule.FOLD, "has ended"),
    "a start that does not follow": (
        lambda rows: renumbered([row for row in rows if row.instance_id != "home.2"]),
        Rule.FOLD,
        "the start of home.2 should follow",
    ),
    "another start": (
        lambda rows: [row._replace(instance_id="x") if row.instance_id == "home.2" else row for row in rows],
        Rule.FOLD,
        "the start of home.2 should follow",
    ),
    "another number of instances": (
        lambda rows: changed(rows, "job_admitted", "home", members=3),
        Rule.FOLD,
        "has 2 instances",
    ),
    "admitted while it is away": (
        lambda rows: changed(rows, "job_declined", "plain", kind="job_admitted"),
        Rule.FOLD,
        "is offered",
    ),
    "an attempt left out": (lambda rows: changed(rows, "job_offered", "plain", attempt=2), Rule.FOLD, "follows 0"),
    "two attempts out": (lambda rows: twice(rows, "job_offered", "data"), Rule.FOLD, "is offered"),
    "an award of another attempt": (
        lambda rows: changed(rows, "job_awarded", "data", attempt=2),
        Rule.FOLD,
        "is offered",
    ),
    "what is not out is declined": (lambda rows: twice(rows, "job_declined", "plain"), Rule.FOLD, "is waiting"),
    "an end of what was not awarded": (
        lambda rows: changed(rows, "job_ended", "data", attempt=2),
        Rule.FOLD,
        "attempt 2 is not awarded",
    ),
    "an end of an older attempt that was never awarded": (
        lambda rows: changed(without(rows, "job_awarded", "plain"), "job_ended", "plain", attempt=1),
        Rule.FOLD,
        "attempt 1 is not awarded",
    ),
    "given up while it is away": (
        lambda rows: changed(rows, "job_ended", "data", attempt=0),
        Rule.FOLD,
        "is awarded",
    ),
    "outputs of no job": (lambda rows: changed(rows, "job_collected", "data", job="no"), Rule.FOLD, "there is no job"),
    "outputs before the end": (
        lambda rows: without(rows, "job_ended", "data"),
        Rule.FOLD,
        "attempt 1 of data did not complete",
    ),
    "outputs of an attempt that was preempted": (
        lambda rows: changed(rows, "job_outputs_lost", "lossy", attempt=1),
        Rule.FOLD,
        "attempt 1 of lossy did not complete",
    ),
    "outputs of a job that ran at home": (
        lambda rows: changed(rows, "job_outputs_lost", "lossy", job="home", attempt=0),
        Rule.FOLD,
        "attempt 0 of home did not complete",
    ),
    "outputs told twice": (lambda rows: twice(rows, "job_collected", "data"), Rule.ONCE, "was told before"),
    "outputs lost twice": (lambda rows: twice(rows, "job_outputs_lost", "lossy"), Rule.ONCE, "was told before"),
    "outputs collected and lost": (
        lambda rows: changed(rows, "job_outputs_lost", "lossy", job="data", attempt=1),
        Rule.ONCE,
        "was told before",
    ),
    "other outputs": (
        lambda rows: changed(rows, "job_collected", "data", outputs=OTHER),
        Rule.FOLD,
        "are not those that it declared",
    ),
    "not all outputs": (
        lambda rows: changed(rows, "job_collected", "data", outputs=LARGE[:1]),
        Rule.FOLD,
        "are not those that it declared",
    ),
    "an output that is too large": (
        lambda rows: changed(rows, "job_collected", "data", outputs=LARGE),
        Rule.FOLD,
        "are larger than declared: out",
    ),
    "a last word that is said twice": (
        lambda rows: twice(rows, "foreign_job_ended", "spoilt"),
        Rule.FOLD,
        "is over already",
    ),
    "inputs without room": (
        lambda rows: changed(rows, "foreign_job_staging", "staged", job="no"),
        Rule.FOLD,
        "no room",
    ),
    "inputs of an attempt that is over": (
        lambda rows: changed(rows, "foreign_job_staging", "late", job="spoilt"),
        Rule.FOLD,
        "no room",
    ),
    "inputs awarded twice": (
        lambda rows: twice(rows, "foreign_job_staging", "staged"),
        Rule.FOLD,
        "was awarded before",
    ),
    "inputs after the hold": (
        lambda rows: delayed(rows, "foreign_job_staging", "staged", 2),
        Rule.FOLD,
        "was held no longer",
    ),
    "inputs with more time": (
        lambda rows: changed(rows, "room_held", "staged", stage_us=STAGE_US - 1),
        Rule.FOLD,
        "have another time to come",
    ),
    "inputs that were never offered": (
        lambda rows: changed(rows, "room_held", "staged", stage_us=0),
        Rule.FOLD,
        "have another time to come",
    ),
    "started before its inputs": (
        lambda rows: without(rows, "foreign_job_staging", "staged"),
        Rule.FOLD,
        "were not waited for",
    ),
    "started after its inputs were late": (
        lambda rows: delayed(rows, "foreign_job_admitted", "staged", 2),
        Rule.FOLD,
        "was held no longer",
    ),
    "started after the hold": (
        lambda rows: delayed(rows, "foreign_job_admitted", "quick", 30),
        Rule.FOLD,
        "was held no longer",
    ),
    "started without room": (
        lambda rows: changed(rows, "foreign_job_admitted", "quick", attempt=2),
        Rule.FOLD,
        "no room",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_log_is_found(rows: Rows, what: str) -> None:
    spoil, rule, why = BROKEN[what]
    found = audit(spoil(rows), []).finding
    assert found is not None
    assert (found.rule, why in found.why) == (rule, True), found


def test_room_is_held_once_and_for_the_newest_attempt(rows: Rows) -> None:
    at = next(at for at, row in enumerate(rows) if of("room_held", "unwanted")(row))
    for attempt, rule, why in ((1, Rule.ONCE, "heard of before"), (0, Rule.FOLD, "a newer attempt")):
        other = rows[at]._replace(job="quick", attempt=attempt)
        found = audit([*rows[:at], other, *rows[at + 1 :]], []).finding
        assert found is not None
        assert (found.rule, why in found.why) == (rule, True)


def test_the_columns_of_data_are_read_as_they_are_written(rows: Rows) -> None:
    asked = next(row for row in rows if of("job_requested", "data")(row))
    assert (asked.inputs, asked.outputs, asked.stage_us) == (None, OUTPUTS, STAGE_US)
    told = next(row for row in rows if of("job_collected", "data")(row))
    assert told.outputs == (DataObject("log", 0, "e" * 64), DataObject("out", 9, "f" * 64))
    held = next(row for row in rows if of("room_held", "staged")(row))
    assert (held.stage_us, held.data_bytes) == (STAGE_US, 14)
