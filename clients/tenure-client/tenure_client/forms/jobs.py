"""Answers on jobs: groups of instances that run all or none, here or at another cloud."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tenure_client.forms.answer import Answer, Link, Moment, Seconds
from tenure_client.forms.words import FederateWord, JobEndWord, JobStatusWord, OnPreemptedWord


class JobAnswer(Answer, kw_only=True):
    id: str
    flavor: str
    count: int
    lifetime_s: Annotated[Seconds, Meta(description="The longest that it runs.")]
    federate: FederateWord
    on_preempted: OnPreemptedWord
    eviction_probability: Annotated[
        float | None, Meta(description="The largest probability of preemption at a peer; null: the peer's own.")
    ]
    peers: Annotated[list[str], Meta(description="Whom it may be offered to, in this order.")]
    status: JobStatusWord
    where: Annotated[str | None, Meta(description="`here`, or the peer that was asked last; null: nowhere.")]
    end: JobEndWord | None
    reason: Annotated[str | None, Meta(description="Why it was rejected.")]
    attempt: Annotated[int, Meta(description="The number of the last attempt to run it at a peer; 0: none.")]
    running: Annotated[int, Meta(description="How many of its instances run here.")]
    instances: Annotated[list[str], Meta(description="Their ids, if it runs here or did.")]
    cancelled: Annotated[bool, Meta(description="True once its user wanted it no more.")]
    requested_at: Moment
    ended_at: Moment | None
    links: list[Link]


class JobsAnswer(Answer, kw_only=True):
    jobs: Annotated[list[JobAnswer], Meta(description="In the order of their submission.")]
    links: list[Link]


class AttemptAnswer(Answer, kw_only=True):
    """A try to run a job at a peer."""

    attempt: int
    peer: str
    offered_at: Moment
    awarded_at: Moment | None
    reclaim_at: Annotated[Moment | None, Meta(description="Until then only the peer can say that it is over.")]
    ended_at: Moment | None
    outcome: Annotated[str | None, Meta(description="How it ended, or why it came to nothing; null: it is under way.")]
    why: Annotated[str | None, Meta(description="The peer's reason for it; null: it told none.")]
    eviction_probability: Annotated[
        float | None, Meta(description="The largest probability of preemption that the peer promised; null: none.")
    ]


class AttemptsAnswer(Answer, kw_only=True):
    attempts: list[AttemptAnswer]
    links: list[Link]
