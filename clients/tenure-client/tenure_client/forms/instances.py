"""Answers on starts, stops, and records of instances."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from tenure_client.errors import ServiceRefused
from tenure_client.forms.answer import Answer, Link, Moment, Seconds
from tenure_client.forms.errors import ErrorAnswer, refused
from tenure_client.forms.nodes import ResourcesAnswer, VictimAnswer
from tenure_client.forms.words import (
    EvictionReasonWord,
    HandoverStatusWord,
    InstanceStatusWord,
    LimitWord,
    LineWord,
    MarketWord,
    QuotaKindWord,
    ReasonWord,
    RejectionWord,
    VerdictWord,
)

MAY_BE_MORE = "what the book has earned may admit a longer one"
_COUNT = "The number of machines: the members of a group, else 1."
NODES = "Of an accepted group, the nodes of its members in order; else empty, and `node` says it."


class DrillAnswer(Answer, kw_only=True):
    """The instance evicted in a drill."""

    id: str
    seq: Annotated[int, Meta(description="The seq of the eviction in the event log.")]
    at: Moment


class BudgetAnswer(Answer, kw_only=True):
    """The eviction budget of all instances promised one eviction probability, at the moment of a decision."""

    earned: Annotated[float, Meta(description="Evictions that the class may have once the instance is admitted.")]
    evicted: Annotated[int, Meta(description="Evictions that the class has had.")]
    committed: Annotated[float, Meta(description="The charges of the running instances.")]
    charge: Annotated[float, Meta(description="The charge of the instance itself.")]
    risk: Annotated[float, Meta(description="The probability that the instance is evicted.")]
    affordable_lifetime_s: Annotated[
        Seconds | None, Meta(description="For a rejected start, the longest lifetime that would be admitted.")
    ]
    core_hours: Annotated[
        float | None,
        Meta(
            description="Of a budget that counts core-hours: those that the instance declares. `earned`, `committed` "
            "and `charge` are core-hours then. null: it counts instances."
        ),
    ] = None
    mean_core_hours: Annotated[float | None, Meta(description="The mean of all that were admitted before.")] = None
    evicted_core_hours: Annotated[float | None, Meta(description="Those of the evicted.")] = None


class BookAnswer(Answer, kw_only=True):
    """The book of a stratum of lifetimes under one promise, just before a decision."""

    from_s: Annotated[Seconds, Meta(description="The shortest lifetime of the stratum.")]
    below_s: Annotated[Seconds | None, Meta(description="Its lifetimes are shorter than this; null: any.")]
    earned: Annotated[float, Meta(description="What the starts of the stratum have earned.")]
    evicted: Annotated[int, Meta(description="The evictions that it has had.")]
    committed: Annotated[
        float, Meta(description="The risks of its running instances, by the share of their lifetime that is left.")
    ]
    risky: Annotated[
        int, Meta(description="How many that run in the stratum risk more than half of their promise and of this one.")
    ]
    admitted_by: Annotated[
        LineWord | None,
        Meta(
            description="The line that admits the start; null: none does. `paid`: its own risk is above the SLA, which "
            "is promised for all starts of the book together."
        ),
    ]
    affordable_lifetime_s: Annotated[
        Seconds | None,
        Meta(description=f"For a rejected start, the longest lifetime within the promise; {MAY_BE_MORE}."),
    ]
    core_hours: Annotated[
        float | None,
        Meta(
            description="Of a book that counts core-hours: those that the instance declares. `earned` and `committed` "
            "are core-hours then. null: it counts instances."
        ),
    ] = None
    mean_core_hours: Annotated[float | None, Meta(description="The mean of all that were entered before.")] = None
    evicted_core_hours: Annotated[float | None, Meta(description="Those of the evicted.")] = None
    risky_core_hours: Annotated[float | None, Meta(description="Those of the risky ones.")] = None


class FloorAnswer(Answer, kw_only=True):
    """The evidence floor that refused a start: its estimate rests on fewer windows than the policy asks for."""

    min_windows: Annotated[int, Meta(description="How many windows the policy asks for.")]
    enough_at: Annotated[
        Moment | None,
        Meta(description="From when on the history will hold as many, if it goes on as it did; null: not known."),
    ]
    affordable_lifetime_s: Annotated[
        Seconds, Meta(description="The longest lifetime that would have been promised; 0: there is none.")
    ]


class QuotaUseAnswer(Answer, kw_only=True):
    """The quota that refuses a start."""

    kind: QuotaKindWord
    used: Annotated[
        float, Meta(description="What the owner used just before: cores, evictions to be expected, or core-hours.")
    ]
    asked: Annotated[float, Meta(description="What the start asks for beside it.")]
    allowed: float


class QuoteAnswer(Answer, kw_only=True):
    """The figures that the decision on a spot start rests on."""

    epoch: Annotated[int | None, Meta(description="The epoch of the table; null if none was read.")]
    slots: Annotated[
        int,
        Meta(description="Available slots of the flavor just before the decision; of a group, for its last member."),
    ]
    eviction_probability: Annotated[
        float | None,
        Meta(
            description="The SLA of this start; null if the cloud has none. Where a `book` decides, it is promised for "
            "all starts of the book together: at most this share of them is evicted. One that is admitted by `paid` "
            "alone risks more, as `estimated_eviction_probability` says."
        ),
    ]
    lifetime_s: Annotated[
        Seconds | None,
        Meta(description="The lifetime that the table guarantees at that probability, ten years at most."),
    ]
    estimated_eviction_probability: Annotated[
        float | None, Meta(description="The eviction probability that the table gives the declared lifetime.")
    ]
    eviction_probability_bound: Annotated[
        float | None, Meta(description="The upper bound of that probability at the policy's confidence.")
    ]
    budget: Annotated[BudgetAnswer | None, Meta(description="The budget, under the pooled guarantee only.")]
    book: Annotated[
        BookAnswer | None, Meta(description="The book of its stratum, under the stratified guarantee only.")
    ] = None
    windows: Annotated[
        float | None,
        Meta(description="How many windows, independent pieces of evidence, that rests on; null: not recorded."),
    ] = None
    floor: Annotated[FloorAnswer | None, Meta(description="Of a start refused for too few windows.")] = None
    quota: Annotated[
        QuotaUseAnswer | None, Meta(description="The quota that refuses the start; null if none does.")
    ] = None


class AcceptableAnswer(Answer, kw_only=True):
    """The alternatives to a spot start that the SLA refused, each sufficient by itself."""

    lifetime_s: Annotated[
        Seconds | None,
        Meta(description=f"The longest lifetime within this SLA; null: none. In a book of a stratum {MAY_BE_MORE}."),
    ]
    eviction_probability: Annotated[
        float | None, Meta(description="An SLA that would do for this lifetime; null: none below 1.")
    ]


class WantedAnswer(Answer, kw_only=True):
    """The lifetimes that a start takes: the longest between the two that can be promised."""

    lifetime_s: Annotated[Seconds | None, Meta(description="The lifetime that it wants; null: as long as possible.")]
    min_lifetime_s: Annotated[Seconds | None, Meta(description="The least that makes sense for it; null: any.")]


class StartAnswer(Answer, kw_only=True):
    """The decision on a start; a rejection is a decision too."""

    id: str
    seq: Annotated[int, Meta(description="The seq of the decision in the event log.")]
    status: VerdictWord
    market: MarketWord
    flavor: str
    at: Moment
    lifetime_s: Seconds | None
    eviction_probability: Annotated[float | None, Meta(description="The start's own SLA as requested.")]
    node: str | None
    victims: Annotated[list[VictimAnswer], Meta(description="Spot instances evicted to make room, youngest first.")]
    ready_at: Annotated[
        Moment | None,
        Meta(description="The time from which its room is free, after its victims' grace period; null: rejected."),
    ]
    reason: Annotated[RejectionWord | None, Meta(description="The reason of a rejection.")]
    quote: QuoteAnswer | None
    acceptable: AcceptableAnswer | None
    wanted: Annotated[
        WantedAnswer | None, Meta(description="Of a start that takes what it can be promised; `lifetime_s` is that.")
    ] = None
    limited_by: LimitWord | None = None
    count: Annotated[int, Meta(description=_COUNT)] = 1
    nodes: Annotated[list[str], Meta(description=NODES)] = field(default_factory=list)
    job: Annotated[
        str | None, Meta(description="The job that peers are asked to run in place of a rejected start; null: none.")
    ] = None

    @property
    def accepted(self) -> bool:
        """True if the instance was accepted."""
        return self.status == "accepted"

    @property
    def victim_ids(self) -> tuple[str, ...]:
        """The instances that were evicted to make room, youngest first."""
        return tuple(victim.id for victim in self.victims)

    @property
    def epoch(self) -> int | None:
        """The quantile table that the decision rests on."""
        return None if self.quote is None else self.quote.epoch


class ExtensionAnswer(Answer, kw_only=True):
    """The decision on a longer lifetime, or a quote of it; a refusal is a decision too and changes nothing."""

    id: str
    seq: Annotated[int | None, Meta(description="The seq of the decision in the event log; null in a quote.")]
    status: VerdictWord
    at: Moment
    lifetime_s: Annotated[Seconds, Meta(description="The lifetime asked for, counted from the start.")]
    former_lifetime_s: Annotated[Seconds, Meta(description="The lifetime before, counted from the start.")]
    deadline: Annotated[Moment, Meta(description="The end of the lifetime that is promised after the decision.")]
    reason: Annotated[RejectionWord | None, Meta(description="The reason of a refusal.")]
    quote: Annotated[
        QuoteAnswer,
        Meta(description="What it rests on: the slots that the instance sees, and figures for the rest of its life."),
    ]
    total_risk: Annotated[
        float | None,
        Meta(description="The risk of an eviction in the new lifetime: what its past has borne, and the rest."),
    ]
    acceptable_lifetime_s: Annotated[
        Seconds | None,
        Meta(
            description="In place of one refused, the longest lifetime that would be accepted, within the promise; in "
            f"a book of a stratum {MAY_BE_MORE}."
        ),
    ]
    sentence: Annotated[str, Meta(description="The decision in words.")]
    automatic: Annotated[bool, Meta(description="True: the service did it, because the start wants it.")] = False
    limited_by: LimitWord | None = None

    @property
    def accepted(self) -> bool:
        """True if the longer lifetime is promised."""
        return self.status == "accepted"


class MoveAnswer(Answer, kw_only=True):
    """The place of a running instance, as its controller says."""

    id: str
    node: Annotated[str, Meta(description="Where it runs now.")]
    moved: Annotated[bool, Meta(description="False: it ran there already, and nothing was to do.")]
    former_node: Annotated[str | None, Meta(description="Where it ran before; null: it was not moved.")]
    seq: Annotated[int | None, Meta(description="The seq of the move in the event log; null: it was not moved.")]
    at: Annotated[Moment | None, Meta(description="The time of the move; null: it was not moved.")]


class ObservationAnswer(Answer, kw_only=True):
    """The changes that follow from an on-demand instance that its controller saw."""

    id: str
    changed: Annotated[bool, Meta(description="False: that was known, and nothing was to do.")]
    former_node: Annotated[
        str | None, Meta(description="Where it was known to run; null: it was started by the observation.")
    ] = None
    seq: Annotated[int | None, Meta(description="The seq of its start or move in the event log.")] = None
    at: Annotated[Moment | None, Meta(description="The time of that.")] = None
    victims: Annotated[
        list[VictimAnswer], Meta(description="Spot instances on the node evicted to make room, youngest first.")
    ] = field(default_factory=list)
    capacity: Annotated[
        ResourcesAnswer | None, Meta(description="The node's capacity, if it had to be raised; else null.")
    ] = None


class ProposedMoveAnswer(Answer, kw_only=True):
    """A move of a running spot instance that would keep it from an eviction."""

    id: str
    node: Annotated[str, Meta(description="Where it runs.")]
    to: Annotated[str, Meta(description="A node that has room for it at once.")]


class ProposalAnswer(Answer, kw_only=True):
    """A flavor that has no room, and moves after which an on-demand start of it evicts nobody."""

    flavor: str
    node: Annotated[str, Meta(description="The node that has room for it after the moves.")]
    moves: list[ProposedMoveAnswer]


class ProposalsAnswer(Answer, kw_only=True):
    """Moves in place of evictions. Each proposal reckons with those before it."""

    at: Annotated[Moment, Meta(description="The cloud's time.")]
    seq: Annotated[int, Meta(description="The state is that after this event.")]
    proposals: Annotated[list[ProposalAnswer], Meta(description="Flavors that ask for most come first.")]


class InstanceAnswer(Answer, kw_only=True):
    """An instance: the decision on its start, and its end if it has ended."""

    id: str
    seq: Annotated[int, Meta(description="The seq of the decision on its start.")]
    status: InstanceStatusWord
    market: MarketWord
    flavor: Annotated[str, Meta(description="As asked for, or as observed since.")]
    at: Annotated[Moment, Meta(description="The time of the decision on its start.")]
    lifetime_s: Annotated[Seconds | None, Meta(description="Its lifetime, as declared or as extended since.")]
    first_lifetime_s: Annotated[
        Seconds | None, Meta(description="The lifetime declared at its start; null if it was not extended since.")
    ] = None
    eviction_probability: float | None
    owner: Annotated[str | None, Meta(description="Who asked for it; null: an admin, or before that was recorded.")] = (
        None
    )
    project: Annotated[str | None, Meta(description="The project that it is for; null: not told.")] = None
    user: Annotated[str | None, Meta(description="The user who asked for it; null: not told.")] = None
    observed: Annotated[bool, Meta(description="It was not placed: its controller saw it there.")] = False
    aborted: Annotated[bool, Meta(description="It was accepted and never ran, so it does not count.")] = False
    node: Annotated[str | None, Meta(description="Where it runs, or ran at its end; null: it was rejected.")]
    reason: Annotated[ReasonWord | None, Meta(description="The reason of a rejection or an eviction.")]
    quote: QuoteAnswer | None
    ended_at: Moment | None
    cause_seq: Annotated[int | None, Meta(description="The event that the eviction made room for.")]
    wanted: Annotated[WantedAnswer | None, Meta(description="Of a start that takes what it can be promised.")] = None
    ready_at: Annotated[
        Moment | None, Meta(description="The time from which its room was free; null: it was rejected.")
    ]
    count: Annotated[int, Meta(description=_COUNT)] = 1
    nodes: Annotated[list[str], Meta(description=NODES)] = field(default_factory=list)


class InstancesAnswer(Answer, kw_only=True):
    instances: Annotated[
        list[InstanceAnswer],
        Meta(description="In the order of their starts. Pages of one status may be short and still have a next one."),
    ]
    links: list[Link]


class HandoverAnswer(Answer, kw_only=True):
    id: Annotated[str, Meta(description="The evicted instance.")]
    node: str
    flavor: str
    reason: EvictionReasonWord
    cause_seq: Annotated[int, Meta(description="The event that the eviction makes room for.")]
    scheduled_at: Moment
    deadline: Moment
    status: HandoverStatusWord
    nodes: Annotated[list[str], Meta(description=NODES)] = field(default_factory=list)


class HandoversAnswer(Answer, kw_only=True):
    handovers: Annotated[list[HandoverAnswer], Meta(description="By deadline, without confirmed ones.")]
    links: list[Link]


class BatchResult(Answer, kw_only=True):
    """The answer to one operation of a batch: `body` for a start, `extension`, `move`, `observation`, or `errors`."""

    status: Annotated[
        int, Meta(description="201 for a start, 204 for a stop or an abort, 200 for any other, else the error's.")
    ]
    body: Annotated[StartAnswer | UnsetType, Meta(description="The decision on a start.")] = UNSET
    extension: Annotated[ExtensionAnswer | UnsetType, Meta(description="The decision on a longer lifetime.")] = UNSET
    move: Annotated[MoveAnswer | UnsetType, Meta(description="The answer to a move.")] = UNSET
    observation: Annotated[ObservationAnswer | UnsetType, Meta(description="The answer to an observation.")] = UNSET
    errors: Annotated[list[ErrorAnswer] | UnsetType, Meta(description="The errors of the operation.")] = UNSET

    @property
    def decision(self) -> StartAnswer | None:
        """The decision on a start; None for any other and for a failed operation."""
        return self.body or None

    @property
    def error(self) -> ServiceRefused | None:
        """The error of a failed operation, else None."""
        return refused(self.status, self.errors, "") if self.errors else None


class BatchAnswer(Answer, kw_only=True):
    results: Annotated[list[BatchResult], Meta(description="One for each operation, in the same order.")]
