"""The answer on when a job should be checkpointed."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tenure_client.forms.answer import Answer, Moment, Seconds, one_of
from tenure_client.forms.words import ForecastWord, QuoteSourceWord

_PolicyWord = Annotated[
    str,
    one_of(
        ("notice", "hazard"),
        "`notice`: an eviction is announced long enough before it to write a checkpoint then; `hazard`: it is not, "
        "so checkpoints are taken beforehand.",
    ),
]


class SurvivalPointAnswer(Answer, kw_only=True):
    """A moment in the rest of the lifetime."""

    after_s: Annotated[Seconds, Meta(description="From now.")]
    survival: Annotated[
        float | None,
        Meta(description="The forecast's probability that the instance runs until then; null: nothing is certified."),
    ]
    hazard_per_hour: Annotated[
        float,
        Meta(
            description="Evictions per hour from the moment before to this one, as the advice counts them: at least "
            "one in the cloud's age and the rest of the lifetime together."
        ),
    ]


class CheckpointAdviceAnswer(Answer, kw_only=True):
    """The next checkpoints of a job on a running spot instance, and what they may be expected to cost."""

    id: Annotated[str | None, Meta(description="null: the advice is for a flavor, not for an instance that runs.")]
    flavor: str = ""
    at: Moment
    deadline: Annotated[Moment, Meta(description="The end of the declared lifetime. The advice ends there.")]
    policy: _PolicyWord
    grace_s: Annotated[Seconds, Meta(description="The notice that the cloud gives before an eviction.")]
    next_at_s: Annotated[
        Seconds | None, Meta(description="When the next checkpoint is due, from now; 0: now; null: none is worth it.")
    ]
    interval_s: Annotated[
        Seconds | None, Meta(description="How long the job works from that checkpoint to the one after; null: none.")
    ]
    checkpoint_count: Annotated[int, Meta(description="Checkpoints up to the deadline if nothing happens.")]
    expected_overhead: Annotated[
        float,
        Meta(description="Time expected to be lost to checkpoints, evictions and restores, over the time run."),
    ]
    expected_lost_s: Annotated[Seconds, Meta(description="Work expected to be lost to evictions.")]
    estimated_eviction_probability: Annotated[
        float | None,
        Meta(description="Of an eviction in the rest of the lifetime; 1: not certified; null: no evidence."),
    ]
    eviction_probability_bound: Annotated[
        float | None, Meta(description="Its upper bound at the policy's confidence; null: no evidence.")
    ]
    window_count: Annotated[
        float | None, Meta(description="How many windows, independent pieces of evidence, the estimate rests on.")
    ]
    forecast: ForecastWord
    epoch: int
    epoch_at: Annotated[Moment, Meta(description="The end of the history that the table was computed from.")]
    slots: Annotated[int, Meta(description="The slots that the instance sees: those evicted before it count as free.")]
    survival: Annotated[list[SurvivalPointAnswer], Meta(description="By rising time, up to the deadline.")]
    sentence: Annotated[str, Meta(description="The advice in words.")]


class BidAdviceAnswer(Answer, kw_only=True):
    """The next checkpoints of a job on a machine that was bought at a venue under a bid."""

    venue: str
    zone: str
    instance_type: str
    product: str
    at: Moment
    price: Annotated[float, Meta(description="Of an hour now.")]
    bid: float
    source: Annotated[QuoteSourceWord, Meta(description="Where the hazard comes from.")]
    policy: _PolicyWord
    notice_s: Annotated[Seconds, Meta(description="The notice before a revocation, as the caller said.")]
    next_at_s: Annotated[
        Seconds | None, Meta(description="When the next checkpoint is due, from now; 0: now; null: none is worth it.")
    ]
    interval_s: Annotated[
        Seconds | None, Meta(description="How long the job works from that checkpoint to the one after; null: none.")
    ]
    checkpoint_count: Annotated[int, Meta(description="Checkpoints up to the end of the lifetime if nothing happens.")]
    expected_overhead: Annotated[
        float, Meta(description="Time expected to be lost to checkpoints, revocations and restores, over the time run.")
    ]
    expected_lost_s: Annotated[Seconds, Meta(description="Work expected to be lost to revocations.")]
    survival: Annotated[
        list[SurvivalPointAnswer], Meta(description="By rising time, from now to the end of the lifetime.")
    ]
    sentence: Annotated[str, Meta(description="The advice in words.")]
