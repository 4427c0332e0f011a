"""Answers of quotes, quantile tables and the runs that compute them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Annotated, Any

from msgspec import Raw
from msgspec.json import Encoder
from pydantic import Field

from app.domain.strata import STRATA
from app.domain.times import seconds, to_datetime
from app.domain.values import Policy, Resources
from app.forecast.rise import Rises
from app.forecast.survival import Bucket
from app.forecast.table import QuantileTable
from app.forecasts.evidence import guaranteed_bound, guaranteed_windows
from app.forecasts.present import PresentStart
from app.forecasts.rules import Evidence, Run, TableSummary
from app.platform.http.fields import Name, Probability, Query, SecondsInQuery, guaranteed_seconds, optional_seconds
from tenure_client.forms.answer import Link, answer_of
from tenure_client.forms.forecasts import (
    ActivityAnswer,
    BucketAnswer,
    CurveAnswer,
    EvidenceAnswer,
    FlavorQuoteAnswer,
    FollowedStartsAnswer,
    QuotesAnswer,
    RunAnswer,
    TableAnswer,
    TableSummaryAnswer,
)

_AT_ONCE = 2000
"""So many numbers are written in a piece, which takes less than a millisecond."""
_encode = Encoder().encode


class QuotesQuery(Query):
    flavor: Name | None = Field(None, description="Only this flavor.")
    eviction_probability: Probability | None = Field(
        None, description="The eviction probability of the quote; by default the cloud's."
    )
    lifetime_us: SecondsInQuery | None = Field(
        None, description="Also quote the eviction probability of this lifetime."
    )
    slots: Annotated[int, Field(ge=0, le=1 << 40)] | None = Field(
        None, description="Quote for this many available slots instead of the present number."
    )


class TableQuery(Query):
    flavor: Name | None = Field(None, description="Only this flavor's curves.")


def quotes_answer(table: QuantileTable, policy: Policy, quotes: list[FlavorQuoteAnswer]) -> QuotesAnswer:
    """Return the quotes of one table. They expire by the policy's `table_max_age_us`."""
    return QuotesAnswer(
        epoch=table.epoch,
        epoch_at=to_datetime(table.epoch_us),
        expires_at=to_datetime(table.epoch_us + policy.table_max_age_us),
        quotes=quotes,
    )


def flavor_quote(
    start: PresentStart,
    evidence: Sequence[Evidence],
    flavor: str,
    probability: float,
    lifetime_us: int | None,
    confidence: float,
) -> FlavorQuoteAnswer:
    """Return the quote for a flavor, in both directions, with the samples that it rests on."""
    table, slots = start.quotes, start.slots
    return FlavorQuoteAnswer(
        flavor=flavor,
        slots=slots,
        displaced_count=start.displaced,
        eviction_probability=probability,
        lifetime_s=guaranteed_seconds(table.lifetime_us(flavor, slots, probability)),
        lifetime_bound=guaranteed_bound(table, flavor, slots, probability, confidence),
        asked_lifetime_s=optional_seconds(lifetime_us),
        estimated_eviction_probability=(None if lifetime_us is None else table.probability(flavor, slots, lifetime_us)),
        eviction_probability_bound=(
            None if lifetime_us is None else table.bound(flavor, slots, lifetime_us, confidence)
        ),
        windows=None if lifetime_us is None else table.windows(flavor, slots, lifetime_us),
        lifetime_windows=guaranteed_windows(table, flavor, slots, probability),
        evidence=evidence_answers(evidence),
    )


def evidence_answers(found: Sequence[Evidence]) -> list[EvidenceAnswer]:
    """Return the wire form of the samples that a quote rests on."""
    return [answer_of(EvidenceAnswer, one) for one in found]


def table_summary(cloud: str, stored: TableSummary) -> TableSummaryAnswer:
    """Return the wire form of a table without its curves."""
    links = [Link(rel="self", href=f"/v1/clouds/{cloud}/tables/{stored.epoch}")]
    return answer_of(TableSummaryAnswer, stored, epoch_at=to_datetime(stored.epoch_us), links=links)


def table_answer(
    cloud: str, stored: TableSummary, table: QuantileTable, flavors: list[str]
) -> Generator[None, None, TableAnswer]:
    """Return the wire form of a table with the curves of these flavors, in pieces: the curves are JSON already."""
    curves = []
    for flavor in flavors:
        buckets: list[Any] = []
        for bucket in table.curve(flavor).buckets:
            buckets.append((yield from _bucket(bucket)))  # noqa: PERF401 - a comprehension cannot yield
        curves.append(CurveAnswer(flavor=flavor, buckets=buckets))
    return answer_of(TableAnswer, table_summary(cloud, stored), curves=curves, **_learned(table.rises))


def _learned(rises: Rises | None) -> dict[str, Any]:
    """Return what a calibrated table knows of its cloud beside the curves."""
    if rises is None:
        return {"level": None, "activity": None, "followed_starts": []}
    activity = ActivityAnswer(**dict(zip(Resources._fields, rises.activity.tolist(), strict=True)))
    return {"level": rises.level, "activity": activity, "followed_starts": _followed(rises)}


def _followed(rises: Rises) -> list[FollowedStartsAnswer]:
    return [
        FollowedStartsAnswer(
            stratum=stratum,
            start_count=int(starts),
            evicted_count=int(evicted),
            window_count=windows,
            design_effect=effect or None,
        )
        for stratum, (starts, evicted, windows), effect in zip(
            STRATA, rises.starts.tolist(), rises.effects.tolist(), strict=True
        )
    ]


def _bucket(bucket: Bucket) -> Generator[None, None, Raw]:
    times, levels = [], []
    for begin in range(0, len(bucket.levels), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        times.append(_encode([seconds(us) for us in bucket.times_us[part].tolist()])[1:-1])
        levels.append(_encode(bucket.levels[part].tolist())[1:-1])
        yield
    longest_s = seconds(bucket.longest_us)
    yield
    return Raw(
        _encode(answer_of(BucketAnswer, bucket, longest_s=longest_s, times_s=_joined(times), levels=_joined(levels)))
    )


def _joined(parts: Sequence[bytes]) -> Raw:
    return Raw(b"[" + b",".join(parts) + b"]")


def run_answer(cloud: str, run: Run) -> RunAnswer:
    """Return the wire form of a run, with links to itself and to its table."""
    links = [Link(rel="self", href=f"/v1/clouds/{cloud}/runs/{run.number}")]
    if run.epoch is not None:
        links.append(Link(rel="table", href=f"/v1/clouds/{cloud}/tables/{run.epoch}"))
    due_at = None if run.due_us is None else to_datetime(run.due_us)
    return answer_of(RunAnswer, run, id=run.number, due_at=due_at, links=links)
