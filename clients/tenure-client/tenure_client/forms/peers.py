"""Answers on peers, and to peers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from tenure_client.forms.answer import Answer, Link, Moment, Seconds
from tenure_client.forms.words import MadeOutputsWord, OfferWord, PausedByWord


class PeerQuotaAnswer(Answer, kw_only=True):
    """The most that a peer may have in each cloud here."""

    offers: Annotated[int, Meta(description="Attempts whose room is held.")]
    cores_share: Annotated[int, Meta(description="Cores of its jobs, in hundredths of those of open nodes.")]
    count: Annotated[int, Meta(description="Instances of one job.")]
    lifetime_s: Annotated[Seconds, Meta(description="The lifetime of one job.")]
    data_bytes: Annotated[int, Meta(description="Inputs and outputs of all of its jobs that have not ended.")] = 0


class PeerAnswer(Answer, kw_only=True):
    """Another cloud that jobs may be offered to, and that may offer jobs here."""

    name: Annotated[str, Meta(description="Also what the names of its tokens here have up to a dot.")]
    url: str
    cloud: Annotated[str, Meta(description="The name of the cloud there.")]
    paused_because: Annotated[str | None, Meta(description="Why nothing is offered to it; null: it is not paused.")]
    paused_by: Annotated[PausedByWord | None, Meta(description="Who paused it; null: it is not paused.")]
    paused_at: Moment | None
    quota: PeerQuotaAnswer
    created_at: Moment
    links: list[Link]
    objects_url: Annotated[str | None, Meta(description="Its object store; null: no data is moved.")] = None
    link_mbit_s: Annotated[
        float | None, Meta(description="The rate of data from it in 10^6 bit/s, which counts until it is learned.")
    ] = None


class PeersAnswer(Answer, kw_only=True):
    peers: Annotated[list[PeerAnswer], Meta(description="By name.")]
    links: list[Link]


class PeerTrialAnswer(Answer, kw_only=True):
    """The answer of a peer to a question that changes nothing."""

    reached: Annotated[bool, Meta(description="True if it answered as a peer that knows our token.")]
    status: Annotated[int | None, Meta(description="Of its answer; null: there was none.")]
    took_s: float
    error: str | None


class PromisePointAnswer(Answer, kw_only=True):
    """The share of instances that live so long."""

    lifetime_s: Seconds
    survival: float


class PeerPromiseAnswer(Answer, kw_only=True):
    """A host's forecast for instances of a size that a peer would start now. Nothing is held."""

    refused: Annotated[str | None, Meta(description="The reason for which nothing is promised; null: it is.")]
    slots: Annotated[int, Meta(description="So many instances fit now, beside what the peer has; 0 if refused.")]
    longest_s: Annotated[Seconds, Meta(description="The longest that a job of the peer may run.")]
    windows: Annotated[float, Meta(description="Pieces of evidence that share no future.")]
    at_least: Annotated[float | None, Meta(description="A lower bound in the middle of the points; null: unknown.")]
    points: Annotated[list[PromisePointAnswer], Meta(description="By lifetime; what is not certified is 0.")]


class OfferWordAnswer(Answer, kw_only=True):
    """A host's word on an attempt."""

    word: OfferWord
    held_s: Annotated[Seconds, Meta(description="How long its room is held from now on; 0: it is not.")]
    reason: Annotated[str | None, Meta(description="Why it was refused, if it was just now.")]
    eviction_probability: Annotated[
        float | None, Meta(description="The largest probability of preemption that comes with held room; null: none.")
    ]
    staged_bytes: Annotated[int | None, Meta(description="The inputs that have come; null: none are on their way.")] = (
        None
    )
    fault: Annotated[str | None, Meta(description="Why an input did not come the last time.")] = None


class MadeOutputAnswer(Answer, kw_only=True):
    """An output with a link to read it."""

    key: str
    bytes: int
    sha256: str
    url: Annotated[str, Meta(description="It is good for an hour.")]


class MadeOutputsAnswer(Answer, kw_only=True):
    """The outputs of an attempt at its host."""

    state: MadeOutputsWord
    reason: Annotated[str | None, Meta(description="Why they are lost.")]
    outputs: Annotated[list[MadeOutputAnswer], Meta(description="All of them, if they are ready.")]


class CountedAnswer(Answer, kw_only=True):
    """A word, and the number of times that it was said."""

    word: str
    count: int


class AwardsAnswer(Answer, kw_only=True):
    """The jobs of a cloud here that were offered to a peer, and what became of them."""

    offered: Annotated[int, Meta(description="Attempts.")]
    declined: Annotated[
        list[CountedAnswer], Meta(description="Attempts that came to nothing before an award, by reason.")
    ]
    awarded: int
    promised_ratio: Annotated[
        float | None, Meta(description="The mean probability of preemption that it promised; null: it promised none.")
    ]
    ended: Annotated[
        list[CountedAnswer],
        Meta(description="Awards by their ends; `lapsed`: the peer had let the room go, or knew of no offer."),
    ]
    preempted_ratio: Annotated[float | None, Meta(description="Of the awards that began and have ended.")]
    preempted_low: Annotated[float, Meta(description="The lower end of its interval, with 95 % confidence.")]
    preempted_high: float


class HostedAnswer(Answer, kw_only=True):
    """The peer's jobs at a cloud here."""

    held: Annotated[int, Meta(description="Attempts that room was held for.")]
    awarded: int
    lapsed: Annotated[int, Meta(description="Room that was held in vain: no award came in time, or it was preempted.")]
    words: Annotated[list[CountedAnswer], Meta(description="Attempts by each word that was said of them.")]
    holding: Annotated[int, Meta(description="Attempts whose room is held now.")]
    running: Annotated[int, Meta(description="Attempts that run now.")]
    cores: Annotated[int, Meta(description="Cores of both.")]
    cores_limit: Annotated[int, Meta(description="The cores that it may have.")]


class CloudStandingAnswer(Answer, kw_only=True):
    cloud: str
    as_host: AwardsAnswer
    as_origin: HostedAnswer


class LinkAnswer(Answer, kw_only=True):
    """The rate at which data comes from a peer, learned from what came; null as long as too little did."""

    direction: Annotated[
        str,
        Meta(description="`in`: inputs of its jobs here; `out`: outputs of our jobs there. Both are pulled from here."),
    ]
    bytes_per_s: Annotated[int | None, Meta(description="The rate that nine of ten transfers reach that begin alone.")]
    samples: Annotated[int, Meta(description="The transfers that this rests on.")]
    newest_age_s: Seconds | None
    active: Annotated[int, Meta(description="The transfers that wait or are under way; the next one shares with them.")]
    gigabyte_s: Annotated[Seconds | None, Meta(description="The time that 10^9 bytes would take now.")]


class LinkRateAnswer(Answer, kw_only=True):
    """The knowledge of a link by which a host judged how long a job's inputs would take."""

    bytes_per_s: Annotated[int, Meta(description="The rate of one transfer alone.")]
    samples: Annotated[int, Meta(description="The transfers that this rests on; 0: an operator told it.")]
    newest_age_s: Annotated[Seconds, Meta(description="Since when the newest of them was over.")]
    active: Annotated[int, Meta(description="The transfers that shared the link then.")]


class PeerStandingAnswer(Answer, kw_only=True):
    """A peer's promises against what happened, as the logs of the clouds here tell it."""

    peer: str
    paused_because: str | None
    clouds: Annotated[list[CloudStandingAnswer], Meta(description="By name.")]
    links: list[Link]
    data_links: Annotated[list[LinkAnswer], Meta(description="Links over which data came or is to come.")] = field(
        default_factory=list
    )
