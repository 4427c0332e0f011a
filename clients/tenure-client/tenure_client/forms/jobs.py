"""Answers on jobs: groups of instances that run all or none, here or at another cloud."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from tenure_client.forms.answer import Answer, Link, Moment, Seconds
from tenure_client.forms.words import FederateWord, JobEndWord, JobStatusWord, OnPreemptedWord, OutputsWord


class DataObjectAnswer(Answer, kw_only=True):
    """An object with its size and its SHA-256 digest in hexadecimal digits."""

    key: str
    bytes: int
    sha256: str


class OutputObjectAnswer(Answer, kw_only=True):
    """An object that a job is to leave behind, and the most bytes that it may have."""

    key: str
    bytes: int


class ProgressAnswer(Answer, kw_only=True):
    """Data on its way."""

    bytes: Annotated[int, Meta(description="All that is to come.")]
    done_bytes: int
    fault: Annotated[str | None, Meta(description="Why a part did not come the last time; null: nothing failed.")]


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
    where: Annotated[
        str | None, Meta(description="`here`, or the peer that was asked last; null: nowhere, or rejected.")
    ]
    end: JobEndWord | None
    reason: Annotated[str | None, Meta(description="Why it was rejected.")]
    attempt: Annotated[int, Meta(description="The number of the last attempt to run it at a peer; 0: none.")]
    running: Annotated[int, Meta(description="How many of its instances run here.")]
    instances: Annotated[list[str], Meta(description="Their ids, if it runs here or did.")]
    cancelled: Annotated[bool, Meta(description="True once its user wanted it no more.")]
    requested_at: Moment
    ended_at: Moment | None
    links: list[Link]
    inputs: Annotated[list[DataObjectAnswer], Meta(description="Objects that a peer gets a copy of.")] = field(
        default_factory=list
    )
    outputs: Annotated[list[OutputObjectAnswer], Meta(description="Objects that are fetched from a peer.")] = field(
        default_factory=list
    )
    outputs_state: Annotated[OutputsWord | None, Meta(description="Null: no peer has completed it.")] = None
    outputs_reason: Annotated[str | None, Meta(description="Why its outputs are lost.")] = None


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
    inputs: Annotated[ProgressAnswer | None, Meta(description="Inputs that the peer pulls; null: it pulls none.")] = (
        None
    )
    outputs: Annotated[ProgressAnswer | None, Meta(description="Outputs that are fetched; null: none are.")] = None


class AttemptsAnswer(Answer, kw_only=True):
    attempts: list[AttemptAnswer]
    links: list[Link]
