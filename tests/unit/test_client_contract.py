"""The client knows the whole interface: each operation, each of its parameters, each field of its answers."""

from __future__ import annotations

import inspect
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mypy import api

from app.domain import budgets
from app.domain import values as domain_values
from app.domain.events.wire import value_to_wire
from app.domain.jobs import AwayEnd, Federate, OnPreempted, Word
from app.domain.values import DecisionOutcome, InstanceStatus, Policy, RunCause
from app.engine.jobs.originside import AwayState
from app.explaining.rules.explanations import PromiseStatus
from app.federation.rules.promises import Unpromised
from app.federation.standings import BREAKER, OPERATOR
from app.following.wire.webhooks import WebhookStatus
from app.forecasts.rules import RunStatus
from app.identity.service import TokenStatus
from app.judging.verdicts import Judged
from app.notices.wire import HandoverStatus
from app.processes.endpoints import ENDPOINTS
from app.scheduling.wire.clouds import PolicyChange as PolicyChangeBody
from app.scheduling.wire.instances import Verdict
from app.venues.rules.assign import ChoiceMethod
from app.venues.rules.jobsteps import JobMoveKind
from app.venues.rules.observed import QuoteSource
from app.venues.rules.planned import SurvivalSource
from app.venues.rules.quotes import QuoteReason
from app.venues.rules.rates import RevokedBy
from tenure_client import Market, PolicyChange, Resources, Role, Stop, calls, endpoints, values
from tenure_client.client import AsyncTenureClient, Methods, TenureClient
from tenure_client.endpoints import Call, Endpoint, Listing, Repeat
from tenure_client.forms import words
from tenure_client.forms.clouds import PolicyAnswer
from tenure_client.methods import Method
from tenure_client.values import MachineSeen

ROOT = Path(__file__).parents[2]
ARGUMENTS: dict[str, Any] = {
    "owner": "batch", "cores": 64, "share": 0.25, "overrun_share": 0.1,
    "begin_at": datetime(2026, 1, 1, tzinfo=UTC), "end_at": datetime(2026, 1, 2, tzinfo=UTC), "points": 5,
    "after_seq": 3, "at": datetime(2026, 1, 1, tzinfo=UTC), "before_seq": 9, "capacity": Resources(1),
    "cloud": "north", "demand": Resources(1), "epoch": 1, "eviction_probability": 0.1, "expires_in_s": 60.5,
    "flavor": "small", "instance": "i-1", "lifetime_s": 1.5, "limit": 10, "market": Market.SPOT, "name": "pages",
    "jump": True, "node": "node-1", "operations": [Stop("i-1")], "outcome": "evicted",
    "lifetime": "longest", "min_lifetime_s": 1.5, "count": 2,
    "nodes": ["n-1"], "project": "p-1", "user": "u-1", "memory_mib": 1024, "disk_gib": 10,
    "policy": value_to_wire(Policy()),
    "role": Role.READER, "run": 1, "slots": 2, "status": "running", "token": "7",
    "webhook": "1", "url": "https://example.org/", "kinds": ["instance_evicted"], "seqs": [7],
    "pause_s": 60.0, "age_s": 1.5, "write_s": 30.0, "restore_s": 45.0, "at_risk_s": 1.5, "loss_every_s": 7200.0,
    "inputs": [("in", 1, "0" * 64)], "outputs": [("out", 1)], "objects_url": "https://objects.example.org",
    "link_mbit_s": 100.0,
    "peer": "b", "quota": {"offers": 9}, "federate": "allowed", "peers": ["b"], "on_preempted": "fail",
    "id": "nightly-1", "jobs": [{"id": "render", "work_s": 60, "value": 1}], "venues": ["aws-east"], "clouds": [],
    "rates": [], "checkpoint": {"write_s": 60, "read_s": 60}, "launch_s": 1, "most_per_pool": 2, "zone_share": 0.5,
    "zone_risk": 0.5, "budget": 9.5, "plan": "nightly-1", "job": "render", "saved": 0.5, "available": [0, 1],
    "cost": 1.5, "ended_at": datetime(2026, 1, 2, tzinfo=UTC), "lost": 1, "on_demand": True,
    "cluster": "lab", "pools": [{"name": "spot", "cloud": "north", "flavor": "small"}], "max_nodes": 4, "stage": "busy",
    "events": [], "loop_s": 0.1, "orphan_count": 0,
    "pool": 1, "bids": [0.05, 0.21],
    "venue": "aws-east", "instance_type": "c3.xlarge", "zone": "us-east-1a", "probability": 0.95,
    "since": datetime(2026, 1, 1, tzinfo=UTC), "bid": 0.21, "product": "Linux/UNIX", "notice_s": 120.0,
    "observations": [MachineSeen("a", "r", "z", "t", "p", "i", datetime(2026, 1, 1, tzinfo=UTC), "started")],
}  # fmt: skip
"""An argument for every parameter of every method, by its name."""
NUMBERED = {"tables", "runs", "tokens", "webhooks", "pools", "plans"}
"""Lists whose marker is a number."""

DESCRIBED = {name: one.describe for name, one in vars(Methods).items() if isinstance(one, Method)}
DESCRIBED["follow"] = calls.event_stream


def described(name: str) -> Call[Any]:
    """The method's call with every argument that it takes."""
    describe = DESCRIBED[name]
    given = {"marker": 5 if name in NUMBERED else "m", **ARGUMENTS}
    made = describe(**{parameter: given[parameter] for parameter in inspect.signature(describe).parameters})
    return made.first if isinstance(made, Listing) else made


def test_every_endpoint_is_served_and_has_its_method() -> None:
    """But those that only services ask each other have no method."""
    table = [endpoint for endpoint in vars(endpoints).values() if isinstance(endpoint, Endpoint)]
    between = [row.endpoint for row in ENDPOINTS if row.role == Role.PEER]
    for users in ([described(name).endpoint for name in DESCRIBED] + between, [row.endpoint for row in ENDPOINTS]):
        assert len(users) == len(table)
        assert all(any(one is endpoint for one in users) for endpoint in table)


@pytest.mark.parametrize("name", sorted(DESCRIBED))
def test_each_method_sends_what_is_documented(name: str) -> None:
    call = described(name)
    (row,) = (row for row in ENDPOINTS if row.endpoint is call.endpoint)
    assert set(call.query) == parameters(row.query)
    assert set(call.body or {}) == parameters(row.body)
    assert re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", row.path), call.path)


def parameters(form: Any) -> set[str]:
    return set() if form is None else set(form.model_json_schema()["properties"])


def test_what_is_not_repeated_is_told() -> None:
    """In docs/client.md, in the order of the code."""
    once = [f"`{name}`" for name in DESCRIBED if described(name).endpoint.repeat is Repeat.ONCE]
    words = " ".join((ROOT / "docs/client.md").read_text().split())
    assert f"({', '.join(once)})" in words


def test_a_policy_has_all_its_fields_both_ways() -> None:
    fields = set(PolicyAnswer.__struct_fields__)
    assert set(value_to_wire(Policy())) == fields
    assert set(PolicyChange.__annotations__) == fields == parameters(PolicyChangeBody)


WORDS = {
    words.MarketWord: domain_values.Market,
    words.GuaranteeWord: domain_values.Guarantee,
    words.EvictionPolicyWord: domain_values.EvictionPolicy,
    words.PlacementWord: domain_values.Placement,
    words.ForecastWord: domain_values.Forecast,
    words.ClockWord: domain_values.Clock,
    words.RoleWord: domain_values.Role,
    words.QuotaKindWord: domain_values.QuotaKind,
    words.NodeStatusWord: domain_values.NodeStatus,
    words.RejectionWord: domain_values.Rejection,
    words.LimitWord: domain_values.Rejection,
    words.EvictionReasonWord: domain_values.EvictionReason,
    words.ReasonWord: [*domain_values.Rejection, *domain_values.EvictionReason],
    words.LineWord: budgets.AdmittedBy,
    words.BudgetUnitWord: budgets.BudgetUnit,
    words.VerdictWord: Verdict,
    words.PromiseVerdictWord: [Judged.KEPT, Judged.KEPT_SO_FAR, Judged.ABOVE, Judged.BROKEN, Judged.TOO_FEW],
    words.EstimateVerdictWord: [Judged.TRUE, Judged.TOO_LOW, Judged.TOO_HIGH, Judged.TOO_FEW],
    words.ForecastVerdictWord: [Judged.BETTER, Judged.NO_BETTER, Judged.TOO_FEW],
    words.CoverageVerdictWord: [Judged.HELD, Judged.TOO_LOW, Judged.TOO_FEW],
    words.InstanceStatusWord: InstanceStatus,
    words.HandoverStatusWord: HandoverStatus,
    words.OutcomeWord: DecisionOutcome,
    words.PromiseWord: PromiseStatus,
    words.RunCauseWord: RunCause,
    words.RunStatusWord: RunStatus,
    words.WebhookStatusWord: WebhookStatus,
    words.TokenStatusWord: TokenStatus,
    words.VenueReasonWord: QuoteReason,
    words.FederateWord: Federate,
    words.OnPreemptedWord: OnPreempted,
    words.JobStatusWord: ["running", *AwayState],
    words.JobEndWord: AwayEnd,
    words.OfferWord: Word,
    words.SurvivalSourceWord: SurvivalSource,
    words.PlannedRunWord: ["spot", "on_demand", "not_at_all"],
    words.ChoiceMethodWord: ChoiceMethod,
    words.LeftOutWord: [
        "type_unknown",
        "price_unknown",
        "history_too_short",
        "no_evidence",
        "too_many",
        *Unpromised,
    ],
    words.JobMoveWord: [kind.name.lower() for kind in JobMoveKind],
    words.RevokedByWord: RevokedBy,
    words.QuoteSourceWord: QuoteSource,
    words.PausedByWord: [OPERATOR, BREAKER],
    words.OutputsWord: ["collecting", "collected", "lost"],
    words.MadeOutputsWord: ["sealing", "ready", "lost"],
}


def test_the_words_that_are_documented_are_those_of_the_service() -> None:
    told = {
        word: word.__metadata__[0].extra_json_schema["enum"]
        for name, word in vars(words).items()
        if name.endswith("Word")
    }
    assert told == {word: [*meant] for word, meant in WORDS.items()}


@pytest.mark.parametrize("name", ["Clock", "EvictionPolicy", "Forecast", "Guarantee", "Market", "Placement", "Role"])
def test_the_words_of_the_client_are_those_of_the_service(name: str) -> None:
    assert [*getattr(values, name)] == [*getattr(domain_values, name)]


def test_both_clients_have_the_same_methods() -> None:
    own = {"close": "aclose"}
    waiting = {name for name in dir(TenureClient) if not name.startswith("_")}
    awaiting = {name for name in dir(AsyncTenureClient) if not name.startswith("_")}
    assert {own.get(name, name) for name in waiting} == awaiting
    assert {name for name in DESCRIBED if not inspect.getdoc(getattr(TenureClient, name))} == set()


def test_the_types_of_both_are_what_they_give(tmp_path: Any) -> None:
    """A type checker is asked."""
    code = tmp_path / "types_of_clients.py"
    code.write_text(
        "from tenure_client import AsyncTenureClient, TenureClient\n"
        "def waits(client: TenureClient) -> None:\n"
        "    reveal_type(client.cloud('c'))\n"
        "    reveal_type(client.nodes('c'))\n"
        "    client.stop(7)\n"
        "async def awaits(client: AsyncTenureClient) -> None:\n"
        "    reveal_type(await client.cloud('c'))\n"
        "    reveal_type(client.nodes('c'))\n"
        "    reveal_type(client.follow('c'))\n"
    )
    out, _, _ = api.run(["--strict", "--cache-dir", ".mypy_cache", str(code)])
    revealed = [line.split('"')[1] for line in out.splitlines() if "Revealed type" in line]
    assert revealed == [
        "tenure_client.forms.clouds.CloudAnswer",
        "typing.Iterator[tenure_client.forms.nodes.NodeAnswer]",
        "tenure_client.forms.clouds.CloudAnswer",
        "typing.AsyncIterator[tenure_client.forms.nodes.NodeAnswer]",
        "typing.AsyncIterator[tenure_client.forms.events.EventAnswer]",
    ], out
    assert "5: error" in out
