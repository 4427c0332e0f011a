"""Bodies and answers of clouds and their policies."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from app.domain.budgets import BudgetUnit
from app.domain.events.wire import value_to_wire
from app.domain.policies import new_policy
from app.domain.strata import MOST_BOUNDARIES
from app.domain.times import to_datetime
from app.domain.values import Clock, EvictionPolicy, Forecast, Guarantee, Placement, Policy
from app.engine.cloud import Cloud
from app.platform.http.fields import AT, AT_OR_NOW, WHOLE, Body, Name, PositiveSeconds, Probability, Time, WholeSeconds
from tenure_client.forms.answer import answer_of
from tenure_client.forms.clouds import CloudAnswer, CountsAnswer, PolicyAnswer

MOST_WINDOWS = 1_000_000
_DEFAULT = new_policy({})


def _rising(boundaries_us: tuple[int, ...]) -> tuple[int, ...]:
    if list(boundaries_us) != sorted(set(boundaries_us)):
        raise PydanticCustomError("rising", "must rise from one to the next")
    return boundaries_us


class PolicyBody(Body):
    """An SLA policy. Fields left out take their defaults."""

    guarantee: Guarantee = Field(
        _DEFAULT.guarantee,
        description="The scope of the SLA. `none` admits every instance that fits. A new cloud with "
        "`forecast: replay` gets `per_instance` unless it names another.",
    )
    eviction_probability: Probability = Field(
        _DEFAULT.eviction_probability, description="The SLA of spot starts that bring none of their own."
    )
    eviction_policy: EvictionPolicy = Field(
        _DEFAULT.eviction_policy, description="The order in which victims are chosen."
    )
    clock: Clock = Field(
        _DEFAULT.clock,
        description="With `external`, each request carries its time. The clock of a cloud cannot be changed.",
    )
    warm_up_us: WholeSeconds = Field(
        _DEFAULT.warm_up_us, description="The time for which a new cloud rejects spot starts, to learn first."
    )
    recompute_every_us: PositiveSeconds = Field(_DEFAULT.recompute_every_us, description="The time between two epochs.")
    table_max_age_us: PositiveSeconds = Field(
        _DEFAULT.table_max_age_us, description="Decisions do not use tables older than this."
    )
    history_window_us: PositiveSeconds | None = Field(
        _DEFAULT.history_window_us, description="The length of history that a replay reads; null: all."
    )
    horizon_us: PositiveSeconds = Field(
        _DEFAULT.horizon_us, description="The time for which a replay follows an injected instance."
    )
    sample_count: Annotated[int, Field(ge=1, le=1_000_000), WHOLE] = Field(
        _DEFAULT.sample_count, description="The number of samples for each flavor in an epoch."
    )
    seed: Annotated[int, Field(ge=0, lt=1 << 53), WHOLE] = Field(
        _DEFAULT.seed, description="The seed of the random moments."
    )
    confidence: Probability = Field(
        _DEFAULT.confidence, description="The one-sided confidence of the upper bound on an eviction probability."
    )
    grace_us: WholeSeconds = Field(
        _DEFAULT.grace_us, description="The time for which an evicted instance may go on running; 0: none."
    )
    risk_threshold: Probability | None = Field(
        _DEFAULT.risk_threshold,
        description="Running instances above this eviction probability get notices of risk; null: no notices.",
    )
    clock_step_us: PositiveSeconds | None = Field(
        _DEFAULT.clock_step_us,
        description="The furthest that one request may move an external clock ahead; null: ten years.",
    )
    shared_ids: bool = Field(
        default=_DEFAULT.shared_ids,
        description="Let any caller start and stop any instance id. Otherwise ids begin with the token's name.",
    )
    forecast: Forecast = Field(
        _DEFAULT.forecast,
        description="How risks are estimated: by replays, or from the rises of the load and from what became of past "
        "starts.",
    )
    placement: Placement = Field(
        _DEFAULT.placement,
        description="The node that a start takes of those with room: the first, or the one with the least free room.",
    )

    strata_us: Annotated[tuple[PositiveSeconds, ...], Field(max_length=MOST_BOUNDARIES), AfterValidator(_rising)] = (
        Field(
            _DEFAULT.strata_us,
            description="The lifetimes at which the next stratum of a stratified budget begins; none: one budget.",
        )
    )

    shortest_lifetime_us: WholeSeconds = Field(
        _DEFAULT.shortest_lifetime_us, description="The shortest lifetime that a spot start may declare."
    )
    longest_lifetime_us: PositiveSeconds | None = Field(
        _DEFAULT.longest_lifetime_us,
        description="The longest lifetime that a spot start may declare, or an extension ask for; null: any.",
    )
    least_probability: Probability | None = Field(
        _DEFAULT.least_probability,
        description="The lowest eviction probability that a spot start may ask for; null: any.",
    )
    highest_probability: Probability | None = Field(
        _DEFAULT.highest_probability,
        description="The highest eviction probability that a spot start may ask for; null: any.",
    )
    owner_cores: Annotated[int, Field(ge=0, lt=1 << 40), WHOLE] | None = Field(
        _DEFAULT.owner_cores,
        description="The cores that the running spot instances of one owner may have together; null: any number.",
    )
    owner_share: Annotated[float, Field(gt=0, le=1)] | None = Field(
        _DEFAULT.owner_share,
        description="Under the stratified guarantee: the share of what a book has left that the risks of one owner's "
        "running instances may take; null: all of it.",
    )
    overrunning_cores: Annotated[int, Field(ge=0, lt=1 << 40), WHOLE] | None = Field(
        _DEFAULT.overrunning_cores,
        description="An owner of more overrunning cores starts no spot instance until they end; null: any number.",
    )
    displaces_overrunning: bool = Field(
        default=_DEFAULT.displaces_overrunning,
        description="Let spot starts that do not fit take the room of instances that overrun their lifetime.",
    )
    budget: BudgetUnit = Field(
        _DEFAULT.budget,
        description="What the pooled budget and the books of the strata count: instances, or the core-hours that they "
        "declare. Then of the core-hours admitted at most the promised share is lost by evictions.",
    )
    overrun_share: Annotated[float, Field(ge=0, le=1)] | None = Field(
        _DEFAULT.overrun_share,
        description="For each core-hour that an owner's ended instances ran within their declared lifetimes in four "
        "weeks, how many they may overrun before its spot starts are rejected; null: any number.",
    )
    gives_back: bool = Field(
        default=_DEFAULT.gives_back,
        description="Let an instance that stops before its declared lifetime is over keep what it earned for its "
        "book by the risk that it has borne, and give the rest back.",
    )
    min_windows: Annotated[int, Field(ge=0, le=MOST_WINDOWS), WHOLE] | None = Field(
        _DEFAULT.min_windows,
        description="The least windows, independent pieces of evidence, that a promise may rest on. 0: any number; "
        "null, in clouds from before there were any: any number, and decisions do not record it.",
    )

    def over(self, policy: Policy) -> Policy:
        """Return the policy with the fields of this body in place of its own."""
        return replace(policy, **self.named())

    def named(self) -> dict[str, Any]:
        """Return the fields that were sent."""
        return {name: getattr(self, name) for name in self.model_fields_set}


def _without_defaults(schema: dict[str, Any]) -> None:
    for field in schema["properties"].values():
        field.pop("default", None)


class PolicyChange(PolicyBody):
    """The fields of an SLA policy to change. Fields left out stay as they are."""

    model_config = ConfigDict(json_schema_extra=_without_defaults)


class CloudBody(Body):
    """A new cloud."""

    name: Name
    policy: PolicyBody = Field(PolicyBody(), description="The cloud's SLA policy. Fields left out take their defaults.")
    at_us: Time | None = Field(None, description=f"{AT} The log begins then; by default at second 0, in 1970.")


class CloudChange(Body):
    """A change of a cloud."""

    policy: PolicyChange
    at_us: Time | None = Field(None, description=AT_OR_NOW)
    jump: bool = Field(
        default=False,
        description="Allow `at` to be further ahead than `clock_step_s`, by ten years at most; the cloud's time moves "
        "there.",
    )


def policy_answer(policy: Policy) -> PolicyAnswer:
    """Return the wire form of a policy."""
    return PolicyAnswer(**value_to_wire(policy))


def cloud_answer(name: str, cloud: Cloud) -> CloudAnswer:
    """Return the wire form of a cloud's state."""
    return CloudAnswer(
        name=name,
        seq=cloud.seq,
        created_at=to_datetime(cloud.created_us),
        at=to_datetime(cloud.at_us),
        policy=policy_answer(cloud.policy),
        counts=answer_of(CountsAnswer, cloud.counts, running=len(cloud.running)),
    )
