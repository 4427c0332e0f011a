"""The protocol between clouds: no job runs twice at once, none is lost, and none runs without its inputs.

Each mistake that it avoids is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from app.domain.jobs import AttemptKey, AwayEnd, Word
from app.engine.jobs.attempts import LeaseTerms, Wish
from app.engine.jobs.hostside import AttemptHeld, ForeignAdmitted, ForeignEnded, HostedAttempt, HostEvent, HostSide
from app.engine.jobs.originside import (
    AttemptAwarded,
    AttemptDeclined,
    AttemptEnded,
    AttemptOffered,
    AwayState,
    CancelWished,
    JobAway,
    JobGivenUp,
    OriginEvent,
)
from tests.peering_world import SECOND, World

WORLDS = 300
TERMS = LeaseTerms(hold_us=30 * SECOND, runs_us=600 * SECOND, margin_us=60 * SECOND)
KEY = AttemptKey("home", "job", 1)


def test_in_no_world_a_job_runs_twice_at_once_or_is_lost() -> None:
    ends: Counter[AwayEnd] = Counter()
    runs = late = 0
    for seed in range(WORLDS):
        found = World(seed).live()
        assert (seed, found.wrong) == (seed, [])
        ends.update(found.ends)
        runs += len(found.runs)
        late += len(found.late)
    assert ends[AwayEnd.COMPLETED] > ends.total() / 2
    assert runs > ends.total(), "some jobs run again after they were preempted or reclaimed"
    assert late > WORLDS / 3, "inputs of some attempts come too late"


class ReclaimsEarly(JobAway):
    """Takes a job back 15 s after its award, as if silence were the end."""

    def _reclaim_us(self, answered_us: int) -> int:
        return answered_us + 15 * SECOND


class ForgetsTheHold(JobAway):
    """Counts the lease from the answer to the offer, not from the latest award."""

    def _reclaim_us(self, answered_us: int) -> int:
        return super()._reclaim_us(answered_us) - round(1.03 * self.terms.hold_us)


class TakesLateAwards(HostSide):
    """Starts an attempt of which it has said that it expired."""

    def _may_start(self, known: HostedAttempt, now_us: int) -> bool:
        return known.word in {Word.HELD, Word.EXPIRED}


class StartsWithoutInputs(HostSide):
    """Starts an attempt with its award, whatever it waits for."""

    def decide_award(self, key: AttemptKey, now_us: int, stage_us: int = 0) -> list[HostEvent]:
        return super().decide_award(key, now_us)


class WaitsForEver(HostSide):
    """Holds room for inputs as long as these take."""

    def decide_time(self, now_us: int) -> list[HostEvent]:
        return [one for one in super().decide_time(now_us) if self.word_on(one.key) is not Word.STAGING]


def without_stage(terms: LeaseTerms, stage_us: int) -> LeaseTerms:
    """Return the terms of an origin that forgets how long inputs may take."""
    return replace(terms, runs_us=terms.runs_us - stage_us)


MUTANTS: dict[str, Callable[[int], World]] = {
    "reclaims early": lambda seed: World(seed, new_job=ReclaimsEarly),
    "forgets the hold": lambda seed: World(seed, new_job=ForgetsTheHold),
    "takes late awards": lambda seed: World(seed, new_host=TakesLateAwards),
    "sends before it writes": lambda seed: World(seed, is_durable_first=False),
    "forgets the time of inputs": lambda seed: World(seed, lease=without_stage),
}
OTHERS: dict[str, tuple[Callable[[int], World], str]] = {
    "starts without inputs": (lambda seed: World(seed, new_host=StartsWithoutInputs), "unready"),
    "waits for inputs for ever": (lambda seed: World(seed, new_host=WaitsForEver), "squats"),
    "gives up outputs before it writes": (lambda seed: World(seed, is_durable_first=False), "bereft"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_mistake_is_found(mutant: str) -> None:
    assert any(MUTANTS[mutant](seed).live().overlaps for seed in range(WORLDS))


@pytest.mark.parametrize("mutant", OTHERS)
def test_each_mistake_with_data_is_found(mutant: str) -> None:
    world, finding = OTHERS[mutant]
    assert any(getattr(world(seed).live(), finding) for seed in range(WORLDS))


def job_away(**changed: object) -> JobAway:
    return JobAway(
        **({"peers": ("x", "y"), "terms": TERMS, "attempts": 3, "answer_us": SECOND, "again": True} | changed)
    )  # type: ignore[arg-type]


def take(job: JobAway, events: list[OriginEvent]) -> list[OriginEvent]:
    for event in events:
        job.apply(event)
    return events


def awarded() -> JobAway:
    """Return a job whose first attempt was awarded to x, at 1 s."""
    job = job_away()
    take(job, job.decide_time(0))
    take(job, job.decide_word("x", 1, Word.HELD, SECOND))
    return job


def test_an_award_is_the_state_before_it_is_the_message() -> None:
    job = job_away()
    assert job.wish() is None
    assert take(job, job.decide_time(0)) == [AttemptOffered(1, "x", 0)]
    assert job.wish() == ("x", Wish.OFFER)
    reclaim_us = SECOND + round(630 * 1.03) * SECOND + 60 * SECOND
    (found,) = take(job, job.decide_word("x", 1, Word.HELD, SECOND))
    assert isinstance(found, AttemptAwarded)
    assert found.reclaim_us == pytest.approx(reclaim_us, abs=SECOND)
    assert job.wish() == ("x", Wish.AWARD)


@pytest.mark.parametrize("word", [Word.REFUSED, Word.EXPIRED])
def test_what_never_began_is_offered_to_the_next_host(word: Word) -> None:
    job = awarded()
    assert take(job, job.decide_word("x", 1, word, 2 * SECOND)) == [AttemptDeclined(1, word)]
    assert take(job, job.decide_time(3 * SECOND)) == [AttemptOffered(2, "y", 3 * SECOND)]


def test_a_host_that_forgot_what_it_took_changes_nothing_before_the_lease_is_over() -> None:
    """A peer may have been entered anew with another place: what runs at the old one runs on."""
    job = awarded()
    assert job.decide_word("x", 1, Word.UNKNOWN, 2 * SECOND) == []
    assert job.wish() == ("x", Wish.AWARD)
    assert job.decide_time(job.reclaim_us - 1) == []
    assert take(job, job.decide_time(job.reclaim_us + job.answer_us)) == [
        AttemptEnded(1, AwayEnd.RECLAIMED, is_last=False)
    ]


def test_a_host_that_does_not_answer_costs_one_attempt_and_the_last_one_the_job() -> None:
    job = job_away(attempts=1)
    take(job, job.decide_time(0))
    assert job.decide_time(SECOND - 1) == []
    assert take(job, job.decide_time(SECOND)) == [AttemptDeclined(1, "timeout")]
    assert take(job, job.decide_time(SECOND)) == [JobGivenUp(AwayEnd.REJECTED)]
    assert (job.state, job.end, job.wish()) == (AwayState.ENDED, AwayEnd.REJECTED, None)
    assert job.decide_word("x", 1, Word.HELD, SECOND) == []


def test_silence_after_an_award_changes_nothing_before_the_lease_has_ended() -> None:
    job = awarded()
    assert job.decide_time(job.reclaim_us) == []
    assert take(job, job.decide_time(job.reclaim_us + SECOND)) == [AttemptEnded(1, AwayEnd.RECLAIMED, is_last=False)]
    take(job, job.decide_time(job.reclaim_us + SECOND))
    assert job.decide_word("y", 1, Word.FINISHED, 0) == [], "the word of a host about what was offered to another"
    assert job.decide_word("x", 1, Word.RUNNING, 0) == []
    assert job.decide_word("x", 1, Word.FINISHED, 0) == [AttemptEnded(1, AwayEnd.COMPLETED, is_last=True)]
    take(job, job.decide_word("y", 2, Word.HELD, job.reclaim_us + 2 * SECOND))
    assert job.decide_word("x", 1, Word.FINISHED, 0) == [], "the second attempt may run by now"


@pytest.mark.parametrize(
    "over",
    [
        pytest.param(lambda job: job.decide_word("x", 1, Word.REFUSED, 0), id="refused"),
        pytest.param(lambda job: job.decide_time(SECOND), id="not answered in time"),
        pytest.param(
            lambda job: [
                *take(job, job.decide_word("x", 1, Word.HELD, 0)),
                *job.decide_word("x", 1, Word.PREEMPTED, 0),
            ][1:],
            id="preempted",
        ),
    ],
)
@pytest.mark.parametrize("is_next_out", [True, False])
def test_what_never_ran_or_was_preempted_finishes_no_more(
    over: Callable[[JobAway], list[OriginEvent]], *, is_next_out: bool
) -> None:
    job = job_away()
    take(job, job.decide_time(0))
    take(job, over(job))
    if is_next_out:
        take(job, job.decide_time(SECOND))
    assert job.decide_word("x", 1, Word.FINISHED, SECOND) == []


@pytest.mark.parametrize(
    ("word", "end", "is_last"),
    [
        (Word.FINISHED, AwayEnd.COMPLETED, True),
        (Word.FAILED, AwayEnd.FAILED, True),
        (Word.PREEMPTED, AwayEnd.PREEMPTED, False),
    ],
)
def test_a_final_word_ends_the_attempt(word: Word, end: AwayEnd, is_last: bool) -> None:
    job = awarded()
    assert take(job, job.decide_word("x", 1, word, 9 * SECOND)) == [AttemptEnded(1, end, is_last=is_last)]
    assert (job.end is not None) == is_last


def test_a_preempted_job_that_is_not_to_run_again_has_ended() -> None:
    job = job_away(again=False)
    take(job, job.decide_time(0))
    take(job, job.decide_word("x", 1, Word.HELD, SECOND))
    take(job, job.decide_word("x", 1, Word.PREEMPTED, SECOND))
    assert (job.state, job.end) == (AwayState.ENDED, AwayEnd.PREEMPTED)


def test_a_cancelled_job_has_ended_once_its_host_says_so() -> None:
    job = awarded()
    assert take(job, job.decide_cancel()) == [CancelWished()]
    assert job.decide_cancel() == []
    assert job.wish() == ("x", Wish.CANCEL)
    assert job.end is None
    take(job, job.decide_word("x", 1, Word.CANCELLED, SECOND))
    assert job.end is AwayEnd.CANCELLED
    offered = job_away()
    take(offered, offered.decide_time(0))
    take(offered, offered.decide_cancel())
    assert offered.decide_word("x", 1, Word.HELD, SECOND) == [], "it is not awarded"
    take(offered, offered.decide_time(0))
    take(offered, offered.decide_time(0))
    assert offered.end is AwayEnd.CANCELLED


def told(side: HostSide, events: list[HostEvent]) -> Word:
    for event in events:
        side.apply(event)
    return side.word_on(KEY)


def test_a_host_starts_an_attempt_once_and_only_while_it_holds_room() -> None:
    side = HostSide()
    held = side.decide_offer(KEY, TERMS, 0, is_admitted=True)
    assert held == [AttemptHeld(KEY, 30 * SECOND, 630 * SECOND)]
    assert told(side, held) is Word.HELD
    assert side.decide_offer(KEY, TERMS, SECOND, is_admitted=True) == []
    assert told(side, side.decide_award(KEY, 30 * SECOND - 1)) is Word.RUNNING
    assert side.decide_award(KEY, 31 * SECOND) == []
    assert side.decide_time(630 * SECOND - 1) == []
    assert told(side, side.decide_time(630 * SECOND)) is Word.FAILED
    assert side.decide_end(KEY, Word.FINISHED) == []


def test_what_a_host_has_refused_let_go_or_never_heard_of_it_never_starts() -> None:
    late, refused, unheard = HostSide(), HostSide(), HostSide()
    told(late, late.decide_offer(KEY, TERMS, 0, is_admitted=True))
    assert told(late, late.decide_award(KEY, 30 * SECOND)) is Word.EXPIRED
    assert told(refused, refused.decide_offer(KEY, TERMS, 0, is_admitted=False)) is Word.REFUSED
    assert told(unheard, unheard.decide_award(KEY, 0)) is Word.UNKNOWN
    for side in (late, refused, unheard):
        word = side.word_on(KEY)
        assert told(side, side.decide_offer(KEY, TERMS, SECOND, is_admitted=True)) is word
        assert told(side, side.decide_award(KEY, SECOND)) is word
        assert ForeignAdmitted(KEY) not in side.decide_award(KEY, SECOND)


def test_a_newer_offer_ends_the_older_attempts_of_its_job_at_a_host() -> None:
    side, newer = HostSide(), KEY._replace(attempt=3)
    told(side, side.decide_offer(KEY, TERMS, 0, is_admitted=True))
    told(side, side.decide_award(KEY, 0))
    found = side.decide_offer(newer, TERMS, SECOND, is_admitted=True)
    assert found[0] == ForeignEnded(KEY, Word.SUPERSEDED)
    assert told(side, found) is Word.SUPERSEDED
    between = KEY._replace(attempt=2)
    assert side.decide_offer(between, TERMS, SECOND, is_admitted=True) == []
    assert side.word_on(between) is Word.SUPERSEDED
    assert side.decide_cancel(between) == [], "a last word is said once"


def test_an_attempt_can_be_cancelled_before_it_is_heard_of() -> None:
    side = HostSide()
    assert told(side, side.decide_cancel(KEY)) is Word.CANCELLED
    assert told(side, side.decide_offer(KEY, TERMS, 0, is_admitted=True)) is Word.CANCELLED
    assert side.decide_cancel(KEY) == []


@pytest.mark.parametrize("times", [(0, 1, 1), (1, 0, 1), (1, 1, -1), (120 * SECOND + 1, 1, 1)])
def test_terms_that_no_lease_can_have_are_refused(times: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="no terms of a lease"):
        LeaseTerms(*times)
