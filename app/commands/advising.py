"""The command `cluster advise`: when a job on an instance should be checkpointed."""

from __future__ import annotations

from typing import Annotated, NamedTuple

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
    instance: Annotated[
        str | None, typer.Argument(metavar="INSTANCE", help="A running spot instance; or say --flavor.")
    ] = None,
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
    flavor: Annotated[str | None, typer.Option(help="Of any spot instance of this flavor, with --lifetime.")] = None,
    lifetime: Annotated[str | None, typer.Option(metavar="TIME", help="With --flavor: its declared lifetime.")] = None,
    age: Annotated[str, typer.Option(metavar="TIME", help="With --flavor: for how long it has run.")] = "0",
    as_json: Json = False,
) -> None:
    """Tell when a job on a spot instance should be checkpointed, and what that may be expected to cost.

    The instance runs; or it is one of a flavor that had this age of its lifetime now.
    """
    lengths = {
        "write_s": _seconds("--write", write),
        "restore_s": _seconds("--restore", restore),
        "at_risk_s": _seconds("--at-risk", at_risk),
        "loss_every_s": _seconds("--loss-every", loss_every),
    }
    subject = _AdviceSubject(instance, flavor, _seconds("--lifetime", lifetime), _seconds("--age", age) or 0.0)
    _tell(_asked(client, cloud, subject, _seconds("--pause", pause) or 0.0, lengths), as_json=as_json)


class _AdviceSubject(NamedTuple):
    """An instance that runs, or a flavor with a lifetime and an age."""

    instance: str | None
    flavor: str | None
    lifetime_s: float | None
    age_s: float


def _asked(
    client: TenureClient, cloud: str, subject: _AdviceSubject, pause_s: float, lengths: dict[str, float | None]
) -> CheckpointAdviceAnswer:
    instance, flavor, lifetime_s, age_s = subject
    if instance is not None and flavor is None and lifetime_s is None:
        return client.checkpoint_advice(cloud, instance, pause_s, **lengths)
    if instance is None and flavor is not None and lifetime_s is not None:
        return client.flavor_checkpoint_advice(cloud, flavor, lifetime_s, pause_s, age_s=age_s, **lengths)
    raise InputError("say either an instance that runs, or --flavor and --lifetime")


def _seconds(option: str, text: str | None) -> float | None:
    try:
        return None if text is None else parse_duration(text) / SECOND_US
    except InputError as error:
        raise InputError(f"{option}: {error}") from None


def _tell(answer: CheckpointAdviceAnswer, *, as_json: bool) -> None:
    if as_json:
        print_json(json_of(answer))
        return
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
