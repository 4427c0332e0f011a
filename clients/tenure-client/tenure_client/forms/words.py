"""Words in fields of answers. Any string is read; the present ones are documented."""

from __future__ import annotations

from typing import Annotated

from tenure_client.forms.answer import one_of
from tenure_client.values import BudgetUnit, Clock, EvictionPolicy, Forecast, Guarantee, Market, Placement, Role

MarketWord = Annotated[str, one_of(Market, Market.__doc__)]
GuaranteeWord = Annotated[str, one_of(Guarantee, Guarantee.__doc__)]
EvictionPolicyWord = Annotated[str, one_of(EvictionPolicy, EvictionPolicy.__doc__)]
ForecastWord = Annotated[str, one_of(Forecast, Forecast.__doc__)]
PlacementWord = Annotated[str, one_of(Placement, Placement.__doc__)]
BudgetUnitWord = Annotated[str, one_of(BudgetUnit, BudgetUnit.__doc__)]
ClockWord = Annotated[str, one_of(Clock, Clock.__doc__)]
RoleWord = Annotated[str, one_of(Role, Role.__doc__)]
NodeStatusWord = Annotated[
    str,
    one_of(
        ("open", "drained"),
        "An open node takes placements; a drained one keeps what runs.",
    ),
]
_REJECTIONS = (
    "no_capacity",
    "sla_unattainable",
    "no_history",
    "quotes_stale",
    "budget_exhausted",
    "too_few_windows",
    "quota_exceeded",
    "overrunning",
)
_EVICTIONS = ("on_demand_start", "node_removed", "drill", "spot_start", "on_demand_move", "node_resized")
_BUDGET = (
    " `budget_exhausted`: the risk is more than the budget or book of its promise admits. That may be so before "
    "anything was lost: no book admits more than three times the promise."
)
RejectionWord = Annotated[str, one_of(_REJECTIONS, f"Why a start was rejected.{_BUDGET}")]
LimitWord = Annotated[
    str,
    one_of(
        _REJECTIONS,
        f"Why a longer lifetime was not promised; null: it is all that is wanted, or as far ahead.{_BUDGET}",
    ),
]
EvictionReasonWord = Annotated[str, one_of(_EVICTIONS, "Why a spot instance was evicted.")]
ReasonWord = Annotated[
    str, one_of((*_REJECTIONS, *_EVICTIONS), f"Why a start was rejected, or an instance evicted.{_BUDGET}")
]
QuotaKindWord = Annotated[
    str,
    one_of(
        ("cores", "share", "overrunning", "overran"),
        "The limit of an owner: on running spot cores, on the risks of its instances in a book, on overrunning cores, "
        "on the core-hours that its instances overran lately.",
    ),
]
LineWord = Annotated[
    str,
    one_of(
        ("small", "within", "paid"),
        "The line of the stratified guarantee: a small risk; one within the promise; one "
        "beyond it that the book pays for.",
    ),
]
VerdictWord = Annotated[str, one_of(("accepted", "rejected"), "What a start was answered.")]
PromiseVerdictWord = Annotated[
    str,
    one_of(
        ("kept", "kept_so_far", "above", "broken", "too_few"),
        "Whether the promise was kept, by the interval: `kept` and `broken` are sure, `kept_so_far` and `above` may be "
        "chance or are of few, `too_few` are admitted to judge.",
    ),
]
EstimateVerdictWord = Annotated[
    str,
    one_of(
        ("true", "too_low", "too_high", "too_few"),
        "Whether the mean estimate lies within the interval of what happened; `too_low`: more happened than was said.",
    ),
]
ForecastVerdictWord = Annotated[
    str,
    one_of(("better", "no_better", "too_few"), "Whether the estimates knew more than the best constant does."),
]
CoverageVerdictWord = Annotated[
    str, one_of(("held", "too_low", "too_few"), "Whether the bounds held in as many epochs as they should.")
]
InstanceStatusWord = Annotated[
    str, one_of(("running", "stopped", "evicted", "rejected"), "What became of an instance.")
]
HandoverStatusWord = Annotated[str, one_of(("pending", "overdue"), "Whether there is time left.")]
OutcomeWord = Annotated[
    str,
    one_of(("accepted", "rejected", "stopped", "evicted", "extended", "extension_rejected"), "What was decided."),
]
PromiseWord = Annotated[
    str,
    one_of(
        ("none", "open", "kept", "broken"),
        "What became of the promise that a start was given; `none` where it was given none.",
    ),
]
RunCauseWord = Annotated[
    str,
    one_of(
        ("requested", "scheduled", "external_clock", "capacity_changed", "eviction_burst", "sla_drift"),
        "Who wanted it: a caller, the schedule, or a start that crossed into a new epoch of an external clock. Or what "
        "has happened since the last table: nodes came or went, more was evicted than promised, the SLA was passed.",
    ),
]
RunStatusWord = Annotated[str, one_of(("pending", "running", "succeeded", "failed"), "Where a run stands.")]
WebhookStatusWord = Annotated[str, one_of(("active", "paused"), "Whether events are sent to it.")]
VenueReasonWord = Annotated[
    str,
    one_of(
        ("price_unknown", "history_too_short", "no_evidence", "probability_not_reached"),
        "Nobody told a price of late; the pool's past does not show a start that lived for so long; nothing was seen "
        "in the pool's region, nor told by its provider; or fewer are expected to live than were asked for.",
    ),
]
RevokedByWord = Annotated[
    str,
    one_of(
        ("price", "capacity"),
        "What ends machines of a venue: a price above the bid, as at Amazon until 2017, or a lack of capacity.",
    ),
]
QuoteSourceWord = Annotated[
    str,
    one_of(
        ("price_crossing", "learned", "observed", "provider_rate"),
        "Where the survival comes from: counted from the pool's own past prices; learned from those of all pools; from "
        "what was observed of machines; or from what the provider tells of machines that it took back, alone.",
    ),
]
TokenStatusWord = Annotated[str, one_of(("valid", "expired", "revoked"), "What became of a token.")]
FederateWord = Annotated[
    str,
    one_of(
        ("never", "allowed", "only"),
        "Whether other clouds may run a job: `allowed` where it does not fit at home, `only` there.",
    ),
]
OnPreemptedWord = Annotated[
    str, one_of(("fail", "offer_again"), "What follows when a peer needs the room of a job: it failed, or is offered.")
]
JobStatusWord = Annotated[
    str,
    one_of(
        ("running", "waiting", "offered", "awarded", "ended"),
        "Where a job stands. It runs here; it waits for a peer to be asked; a peer was asked; it was awarded to one, "
        "and runs there.",
    ),
]
OfferWord = Annotated[
    str,
    one_of(
        (
            "held",
            "staging",
            "running",
            "refused",
            "expired",
            "unknown",
            "cancelled",
            "superseded",
            "preempted",
            "failed",
            "finished",
        ),
        "A host's word on an attempt. All but `held`, `staging` (its inputs are on their way) and `running` are final.",
    ),
]
OutputsWord = Annotated[
    str, one_of(("collecting", "collected", "lost"), "What became of the outputs of a job that ended at a peer.")
]
MadeOutputsWord = Annotated[
    str, one_of(("sealing", "ready", "lost"), "Outputs at a host: they are read still, can be fetched, or never can.")
]
PausedByWord = Annotated[
    str, one_of(("operator", "breaker"), "Who paused a peer: an operator, or the rule that looks at its standing.")
]
JobEndWord = Annotated[
    str,
    one_of(
        ("completed", "preempted", "failed", "reclaimed", "cancelled", "rejected"),
        "How a job ended.",
    ),
]
SurvivalSourceWord = Annotated[
    str,
    one_of(
        ("price_crossing", "learned", "quantile_table", "peer_promise", "observed", "provider_rate"),
        "What a survival rests on: the pool's past prices, what was learned from those of all pools, a cloud's own "
        "forecast, that of a peer, machines observed, or a provider's rate.",
    ),
]
PlannedRunWord = Annotated[
    str, one_of(("spot", "on_demand", "not_at_all"), "Where a job begins; `not_at_all` if it is not worth its value.")
]
ChoiceMethodWord = Annotated[
    str,
    one_of(
        ("each_best", "assignment", "integer_program", "in_turn"),
        "How pools were chosen: each job's best, exactly under caps, by an integer program, or in turn without proof.",
    ),
]
LeftOutWord = Annotated[
    str,
    one_of(
        (
            "type_unknown",
            "price_unknown",
            "history_too_short",
            "no_evidence",
            "too_many",
            "peer_paused",
            "no_flavor",
            "no_forecast",
            "no_room",
            "peer_unreachable",
            "peer_refused",
        ),
        "The reason for which a pool was not considered. Of a peer: it is paused here, or has paused us; it has no "
        "flavor of the size, no forecast, or no room; it does not answer, or with no promise.",
    ),
]
JobMoveWord = Annotated[str, one_of(("wait", "run", "on_demand"), "What to do now.")]
