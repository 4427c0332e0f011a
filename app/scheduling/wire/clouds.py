"""Bodies and answers of clouds and their policies."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from app.domain.events.wire import value_to_wire
from app.domain.times import to_datetime
from app.domain.values import Clock, EvictionPolicy, Guarantee, Policy
from app.engine.cloud import Cloud
from app.platform.http.fields import AT, WHOLE, Body, Name, PositiveSeconds, Probability, Time, WholeSeconds
from tenure_client.forms.clouds import CloudAnswer, CountsAnswer, PolicyAnswer

_DEFAULT = Policy()


class PolicyBody(Body):
    """An SLA policy. Fields left out take their defaults."""

    guarantee: Guarantee = Field(_DEFAULT.guarantee, description="How the SLA is read; `none` admits whatever fits.")
    eviction_probability: Probability = Field(
        _DEFAULT.eviction_probability, description="The SLA of a spot start that brings none of its own."
    )
    eviction_policy: EvictionPolicy = Field(_DEFAULT.eviction_policy, description="How victims are chosen.")
    clock: Clock = Field(
        _DEFAULT.clock, description="`external`: each request carries its time. A cloud's clock cannot be changed."
    )
    warm_up_us: WholeSeconds = Field(
        _DEFAULT.warm_up_us, alias="warm_up_s", description="How long a new cloud rejects spot starts, to learn first."
    )
    recompute_every_us: PositiveSeconds = Field(
        _DEFAULT.recompute_every_us, alias="recompute_every_s", description="Time between two epochs."
    )
    table_max_age_us: PositiveSeconds = Field(
        _DEFAULT.table_max_age_us, alias="table_max_age_s", description="Older tables are not believed any more."
    )
    history_window_us: PositiveSeconds | None = Field(
        _DEFAULT.history_window_us, alias="history_window_s", description="How much history a replay reads; null: all."
    )
    horizon_us: PositiveSeconds = Field(
        _DEFAULT.horizon_us, alias="horizon_s", description="How far ahead of an injected instance a replay looks."
    )
    sample_count: Annotated[int, Field(ge=1, le=1_000_000), WHOLE] = Field(
        _DEFAULT.sample_count, description="Samples of each flavor in an epoch."
    )
    seed: Annotated[int, Field(ge=0, lt=1 << 53), WHOLE] = Field(
        _DEFAULT.seed, description="Seed of the random moments."
    )
    confidence: Probability = Field(
        _DEFAULT.confidence, description="How sure the bound on an eviction probability is; one-sided."
    )
    grace_us: WholeSeconds = Field(
        _DEFAULT.grace_us, alias="grace_s", description="How long an evicted instance may go on running; 0: not at all."
    )
    risk_threshold: Probability | None = Field(
        _DEFAULT.risk_threshold,
        description="Notices of risk are given of running instances above this probability; null: none are given.",
    )
    clock_step_us: PositiveSeconds | None = Field(
        _DEFAULT.clock_step_us,
        alias="clock_step_s",
        description="How far one request may move an external clock ahead; null: as far as it likes.",
    )
    shared_ids: bool = Field(
        default=_DEFAULT.shared_ids,
        description="Whether any caller may start and stop any instance id; else only those of its token's own name.",
    )

    def over(self, policy: Policy) -> Policy:
        """Return the policy with the fields of this body in place of its own."""
        return replace(policy, **{name: getattr(self, name) for name in self.model_fields_set})


def _without_defaults(schema: dict[str, Any]) -> None:
    for field in schema["properties"].values():
        field.pop("default", None)


class PolicyChange(PolicyBody):
    """The fields of an SLA policy to change. Fields left out stay as they are."""

    model_config = ConfigDict(json_schema_extra=_without_defaults)


class CloudBody(Body):
    """A new cloud."""

    name: Name
    policy: PolicyBody = Field(PolicyBody(), description="The cloud's SLA policy.")
    at_us: Time | None = Field(None, alias="at", description=f"{AT} The log begins then; by default at second 0.")


class CloudChange(Body):
    """A change of a cloud."""

    policy: PolicyChange
    at_us: Time | None = Field(None, alias="at", description=AT)
    jump: bool = Field(
        default=False, description="Let `at` be further ahead than `clock_step_s`: the cloud's time moves there."
    )


def policy_answer(policy: Policy) -> PolicyAnswer:
    """Return the wire form of a policy."""
    return PolicyAnswer(**value_to_wire(policy))


def cloud_answer(name: str, cloud: Cloud) -> CloudAnswer:
    """Return the wire form of a cloud's state."""
    counts = cloud.counts
    return CloudAnswer(
        name=name,
        seq=cloud.seq,
        created_at=to_datetime(cloud.created_us),
        at=to_datetime(cloud.at_us),
        policy=policy_answer(cloud.policy),
        counts=CountsAnswer(
            on_demand_requested=counts.on_demand_requested,
            on_demand_admitted=counts.on_demand_admitted,
            spot_requested=counts.spot_requested,
            spot_admitted=counts.spot_admitted,
            spot_evicted=counts.spot_evicted,
            spot_drilled=counts.spot_drilled,
            running=len(cloud.running),
        ),
    )
