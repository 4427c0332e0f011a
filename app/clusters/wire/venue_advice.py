"""The query for advice on checkpoints of a job on a machine under a bid, and the answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.clusters.rules.advice import LONGEST_US
from app.clusters.venue_advising import BidAdvice, BidQuestion
from app.clusters.wire.advice import AdviceQuery, next_times, sentence_of, survival_points
from app.domain.times import seconds, to_datetime
from app.platform.http.fields import PositiveSecondsInQuery, SecondsInQuery, Time, at_most, optional_seconds
from app.venues.wire import OnePoolQuery
from tenure_client.forms.advice import BidAdviceAnswer

_DEAREST = 1_000_000
NOTICE_US = 120_000_000
"""The notice that Amazon gave in 2015."""


class BidAdviceQuery(AdviceQuery, OnePoolQuery):
    """The terms of a job's checkpoints, and the machine that it runs on."""

    bid: Annotated[float, Field(gt=0, le=_DEAREST)]
    lifetime_us: PositiveSecondsInQuery = Field(description="For how long the machine is wanted, from now on.")
    age_us: SecondsInQuery = Field(0, description="How long it has run.")
    notice_us: Annotated[SecondsInQuery, at_most(LONGEST_US)] = Field(
        NOTICE_US,
        description="How long before a revocation it is announced.",
        json_schema_extra={"maximum": seconds(LONGEST_US)},
    )

    at_us: Time | None = Field(None, description="A time in the past to answer as of; by default now.")

    def question(self) -> BidQuestion:
        """Return the machine."""
        return BidQuestion(self.bid, self.age_us, self.lifetime_us, self.notice_us, self.at_us)


def bid_advice_answer(found: BidAdvice) -> BidAdviceAnswer:
    """Return the wire form of an advice."""
    plan, pool = found.plan, found.pool.name
    first_us, interval_us = next_times(plan)
    return BidAdviceAnswer(
        venue=found.venue.name,
        zone=pool.zone,
        instance_type=pool.instance_type,
        product=pool.product,
        at=to_datetime(found.at_us),
        price=found.price,
        bid=found.question.bid,
        source=found.source,
        policy=plan.kind,
        notice_s=seconds(found.question.notice_us),
        next_at_s=optional_seconds(first_us),
        interval_s=optional_seconds(interval_us),
        checkpoint_count=plan.count,
        expected_overhead=plan.overhead,
        expected_lost_s=seconds(round(plan.lost_us)),
        survival=survival_points(found.hazards, found.hazards.survival.tolist()),
        sentence=sentence_of(plan.kind, first_us, interval_us),
    )
