"""The query for advice on checkpoints, and the answer."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from app.clusters.advising import Advice
from app.clusters.rules.advice import AdviceKind, AdviceTerms, Hazards, Plan
from app.domain.times import HOUR_US, length_text, seconds, to_datetime
from app.domain.values import Policy
from app.forecast.table import QuantileTable
from app.platform.http.fields import Name, PositiveSecondsInQuery, Query, SecondsInQuery, optional_seconds
from tenure_client.forms.advice import CheckpointAdviceAnswer, SurvivalPointAnswer


class AdviceQuery(Query):
    """The terms of a job's checkpoints."""

    pause_us: PositiveSecondsInQuery = Field(description="How long a checkpoint stops the job.")
    write_us: PositiveSecondsInQuery | None = Field(
        None, description="When a checkpoint is written and counts; by default after the pause."
    )
    restore_us: SecondsInQuery = Field(0, description="How long the job takes to go on from a checkpoint.")
    at_risk_us: SecondsInQuery | None = Field(
        None, description="The work since the last checkpoint; by default all since the instance's start."
    )
    loss_every_us: PositiveSecondsInQuery | None = Field(
        None, description="The mean time between losses of a machine without notice; by default there are none."
    )

    def terms(self, age_us: int) -> AdviceTerms:
        """Return the terms for an instance of this age."""
        return AdviceTerms(
            self.pause_us,
            self.pause_us if self.write_us is None else self.write_us,
            self.restore_us,
            age_us if self.at_risk_us is None else self.at_risk_us,
            0.0 if self.loss_every_us is None else 1.0 / self.loss_every_us,
        )


class FlavorAdviceQuery(AdviceQuery):
    """The terms of a job's checkpoints on an instance that need not run."""

    flavor: Name
    lifetime_us: PositiveSecondsInQuery = Field(description="The declared lifetime of the instance.")
    age_us: SecondsInQuery = Field(0, description="How long it has run; less than the lifetime.")


def advice_answer(found: Advice, policy: Policy, table: QuantileTable) -> CheckpointAdviceAnswer:
    """Return the wire form of an advice."""
    plan = found.plan
    first_us, interval_us = next_times(plan)
    return CheckpointAdviceAnswer(
        id=found.instance_id,
        flavor=found.flavor,
        at=to_datetime(found.at_us),
        deadline=to_datetime(found.deadline_us),
        policy=plan.kind,
        grace_s=seconds(policy.grace_us),
        next_at_s=optional_seconds(first_us),
        interval_s=optional_seconds(interval_us),
        checkpoint_count=plan.count,
        expected_overhead=plan.overhead,
        expected_lost_s=seconds(round(plan.lost_us)),
        estimated_eviction_probability=found.estimate,
        eviction_probability_bound=found.bound,
        window_count=found.windows,
        forecast=policy.forecast,
        epoch=table.epoch,
        epoch_at=to_datetime(table.epoch_us),
        slots=found.slots,
        survival=survival_points(found.hazards, found.survival),
        sentence=sentence_of(plan.kind, first_us, interval_us),
    )


def next_times(plan: Plan) -> tuple[int | None, int | None]:
    """Return when the next checkpoint of a plan is due, and the work from it to the one after."""
    first_us, interval_us = plan.checkpoints_us[:1], plan.works_us[1:2]
    return round(first_us[0]) if first_us else None, round(interval_us[0]) if interval_us else None


def survival_points(hazards: Hazards, survival: Sequence[float | None]) -> list[SurvivalPointAnswer]:
    """Return the wire form of a survival and of the hazards that are counted."""
    rows = zip(hazards.ends_us.tolist(), survival, hazards.rates.tolist(), strict=True)
    return [
        SurvivalPointAnswer(after_s=seconds(round(us)), survival=alive, hazard_per_hour=rate * HOUR_US)
        for us, alive, rate in rows
    ]


def sentence_of(kind: AdviceKind, first_us: int | None, interval_us: int | None) -> str:
    """Return the advice in words."""
    if first_us is None:
        when = "No checkpoint is worth its pause before the lifetime ends"
    elif first_us == 0:
        when = "Checkpoint now"
    else:
        when = f"Checkpoint in {length_text(first_us)}"
    if interval_us is not None:
        when += f", and again after {length_text(interval_us)} of work"
    if kind is AdviceKind.NOTICE:
        return f"{when}. At the notice of an eviction there is time to write a checkpoint: take it then."
    return f"{when}. The notice of an eviction is too short to write a checkpoint."
