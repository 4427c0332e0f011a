"""The command `cluster advise`: when a job on an instance should be checkpointed."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from app.commands.options import Json, on_cloud
from app.commands.output import print_json, print_text
from app.commands.words import estimated, length, percent
from app.domain.inputs import InputError, parse_duration
from app.domain.times import SECOND_US
from tenure_client import TenureClient, json_of
from tenure_client.forms.advice import CheckpointAdviceAnswer

_EXAMPLE = "Example: tenure cluster advise --cloud north job-1 --pause 30 --write 60 --at-risk 10m"


def register(clusters: typer.Typer) -> None:
    """Add the command."""
    clusters.command(epilog=_EXAMPLE)(on_cloud(advise))


def advise(
    client: TenureClient,
    cloud: str,
    instance: Annotated[str, typer.Argument(help="A running spot instance.")],
    *,
    pause: Annotated[str, typer.Option(metavar="TIME", help="How long a checkpoint stops the job.")],
    write: Annotated[
        str | None, typer.Option(metavar="TIME", show_default="the pause", help="After this it is written and counts.")
    ] = None,
    restore: Annotated[str, typer.Option(metavar="TIME", help="How long the job takes to load one.")] = "0",
    at_risk: Annotated[
        str | None,
        typer.Option(metavar="TIME", show_default="the instance's age", help="The work since the last checkpoint."),
    ] = None,
    loss_every: Annotated[
        str | None,
        typer.Option(metavar="TIME", show_default="never", help="Mean time between losses of a machine unannounced."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell when a job on a running spot instance should be checkpointed, and what that may be expected to cost."""
    answer = client.checkpoint_advice(
        cloud,
        instance,
        _seconds("--pause", pause) or 0.0,
        write_s=_seconds("--write", write),
        restore_s=_seconds("--restore", restore),
        at_risk_s=_seconds("--at-risk", at_risk),
        loss_every_s=_seconds("--loss-every", loss_every),
    )
    if as_json:
        print_json(json_of(answer))
    else:
        _print(answer)


def _seconds(option: str, text: str | None) -> float | None:
    try:
        return None if text is None else parse_duration(text) / SECOND_US
    except InputError as error:
        raise InputError(f"{option}: {error}") from None


def _print(answer: CheckpointAdviceAnswer) -> None:
    print_text(Text(answer.sentence))
    rest_s = (answer.deadline - answer.at).total_seconds()
    facts = (
        f"rest of the lifetime {length(rest_s)}; evicted in it {estimated(answer.estimated_eviction_probability)}, "
        f"bound {percent(answer.eviction_probability_bound)}\n"
        f"expected: {answer.expected_overhead:.2%} of the time lost, of that {length(answer.expected_lost_s)} of work "
        f"to evictions; {answer.checkpoint_count} checkpoints if nothing happens\n"
        f"hazard now {answer.survival[0].hazard_per_hour:.2g} an hour; notice {length(answer.grace_s)}; "
        f"epoch {answer.epoch}"
    )
    print_text(Text(facts, style="dim"))
