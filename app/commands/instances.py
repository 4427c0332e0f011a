"""The commands `instances`, `explain` and `decisions`."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer
from rich.text import Text

from app.commands import options
from app.commands.fitting import Column, print_fitting
from app.commands.options import on_cloud
from app.commands.output import STDOUT, print_json, print_text
from app.commands.words import guaranteed, moment, percent, places, state
from app.domain.values import DecisionOutcome, InstanceStatus, Market
from tenure_client import TenureClient, json_of
from tenure_client.forms.decisions import DecisionAnswer, EvictionAnswer, ExplanationAnswer, VictimDetailAnswer
from tenure_client.forms.instances import InstanceAnswer

_PAGE = 1000
_INSTANCES = (
    Column("instance", 9),
    Column("status", 8),
    Column("market", 7),
    Column("flavor", 5),
    Column("node", 6),
    Column("since", 4),
    Column("declared", 4, is_number=True),
    Column("promised", 3, is_number=True),
    Column("reason", 2),
    Column("ended", 1),
)
_DECISIONS = (
    Column("seq", 3, is_number=True),
    Column("time", 2),
    Column("outcome", 5),
    Column("market", 1),
    Column("instance", 9),
    Column("why", 9, is_words=True),
)
_VICTIMS = (
    Column("victim", 9),
    Column("promise", 8),
    Column("cores", 5, is_number=True),
    Column("ran", 7, is_number=True),
    Column("declared", 6, is_number=True),
    Column("node", 4),
    Column("flavor", 3),
    Column("started", 2),
)
_DEADLINE = Column("may run until", 10)
"""Of victims with a grace period."""

MarketOption = Annotated[Market | None, typer.Option(help="Only of this market.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: tenure instances --cloud north --status evicted --market spot")(on_cloud(instances))
    app.command(epilog="Example: tenure explain --cloud north i-42")(on_cloud(explain))
    app.command(epilog="Example: tenure decisions --cloud north --outcome rejected --limit 5")(on_cloud(decisions))


def instances(
    client: TenureClient,
    cloud: str,
    *,
    status: Annotated[InstanceStatus | None, typer.Option(help="Only those of which this became.")] = None,
    market: MarketOption = None,
    project: Annotated[str | None, typer.Option(metavar="ID", help="Only those for this project.")] = None,
    after: Annotated[
        str | None, typer.Option(metavar="INSTANCE", help="Only those started after this one.", show_default="all")
    ] = None,
    limit: options.Limit = 100,
    as_json: options.Json = False,
) -> None:
    """List instances in the order of their starts, rejected ones included."""
    at_once = min(limit + 1, _PAGE)
    listed = client.instances(cloud, status=status, market=market, project=project, marker=after, limit=at_once)
    found = list(islice(listed, limit + 1))
    if as_json:
        print_json({"instances": [json_of(one) for one in found[:limit]], "more": len(found) > limit})
        return
    print_fitting(STDOUT, _INSTANCES, [_instance(one) for one in found[:limit]])
    if len(found) > limit:
        print_text(Text(f"there are more: --after {found[limit - 1].id}, or --limit", style="dim"))


def _instance(found: InstanceAnswer) -> list[object]:
    promised = None if found.quote is None else found.quote.eviction_probability
    return [
        found.id,
        state(found.status),
        found.market.replace("_", "-"),
        found.flavor,
        places(found.node, found.nodes),
        moment(found.at),
        guaranteed(found.lifetime_s),
        percent(promised),
        found.reason,
        moment(found.ended_at),
    ]


def explain(
    client: TenureClient,
    cloud: str,
    instance: Annotated[str, typer.Argument(metavar="INSTANCE", help="The instance's id.")],
    *,
    as_json: options.Json = False,
) -> None:
    """Tell why an instance was accepted, rejected or evicted."""
    answer = client.explain(cloud, instance)
    if as_json:
        print_json(json_of(answer))
    else:
        _print_explanation(answer)


def _print_explanation(answer: ExplanationAnswer) -> None:
    print_text(Text.assemble((answer.instance.id, "bold"), ": ", state(answer.instance.status)))
    for sentence in answer.sentences:
        print_text(Text(sentence))
    if answer.eviction is not None and answer.eviction.cause_id is not None:
        STDOUT.print()
        _print_victims(answer.eviction)


def _print_victims(eviction: EvictionAnswer) -> None:
    graced = any(one.deadline for one in eviction.victims)
    columns = (*_VICTIMS, _DEADLINE) if graced else _VICTIMS
    rows = [[*_victim(one), *([moment(one.deadline)] if graced else [])] for one in eviction.victims]
    print_fitting(STDOUT, columns, rows, _title(eviction))


def _title(eviction: EvictionAnswer) -> str:
    shown = len(eviction.victims)
    of = "" if shown == eviction.victim_count else f" ({shown} of {eviction.victim_count})"
    return f"Evicted for {eviction.cause_id}, in this order{of}"


def _victim(found: VictimDetailAnswer) -> list[object]:
    return [
        found.id,
        state(found.promise),
        found.resources.cores * max(len(found.nodes), 1),
        guaranteed(found.ran_s),
        guaranteed(found.lifetime_s),
        places(found.node, found.nodes),
        found.flavor,
        moment(found.started_at),
    ]


def decisions(
    client: TenureClient,
    cloud: str,
    *,
    outcome: Annotated[DecisionOutcome | None, typer.Option(help="Only those that came out so.")] = None,
    market: MarketOption = None,
    before_seq: Annotated[
        int | None, typer.Option(min=1, help="Only those before this event.", show_default="up to now")
    ] = None,
    limit: options.Limit = 20,
    as_json: options.Json = False,
) -> None:
    """List the newest decisions with their reasons: starts accepted or rejected, stops, evictions."""
    listed = client.decisions(cloud, before_seq=before_seq, outcome=outcome, market=market, limit=min(limit, _PAGE))
    found = list(islice(listed, limit))
    if as_json:
        print_json({"decisions": [json_of(one) for one in found]})
    else:
        print_fitting(STDOUT, _DECISIONS, [_decision(one) for one in found])


def _decision(found: DecisionAnswer) -> list[object]:
    market = found.market.replace("_", "-")
    return [found.seq, moment(found.at), state(found.outcome), market, found.id, found.sentence]
