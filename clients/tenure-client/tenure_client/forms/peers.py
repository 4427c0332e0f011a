"""Answers on peers, and to peers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tenure_client.forms.answer import Answer, Link, Moment, Seconds
from tenure_client.forms.words import OfferWord


class PeerQuotaAnswer(Answer, kw_only=True):
    """The most that a peer may have in each cloud here."""

    offers: Annotated[int, Meta(description="Attempts whose room is held.")]
    cores_share: Annotated[int, Meta(description="Cores of its jobs, in hundredths of those of open nodes.")]
    count: Annotated[int, Meta(description="Instances of one job.")]
    lifetime_s: Annotated[Seconds, Meta(description="The lifetime of one job.")]


class PeerAnswer(Answer, kw_only=True):
    """Another cloud that jobs may be offered to, and that may offer jobs here."""

    name: Annotated[str, Meta(description="Also what the names of its tokens here have up to a dot.")]
    url: str
    cloud: Annotated[str, Meta(description="The name of the cloud there.")]
    paused_because: Annotated[str | None, Meta(description="Why nothing is offered to it; null: it is not paused.")]
    quota: PeerQuotaAnswer
    created_at: Moment
    links: list[Link]


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
