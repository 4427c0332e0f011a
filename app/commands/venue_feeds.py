"""The command `venue follow`: a provider's prices, asked again and again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from app.commands.changing import was_asked
from app.commands.configuring import DatabaseUrl, DataDir, read_settings, tell_database
from app.commands.output import STDERR, STDOUT, interruptible
from app.commands.venue_service import VenueName, check_name
from app.domain.errors import LogUnavailable
from app.domain.inputs import InputError, parse_duration
from app.domain.times import SECOND_US, rfc3339

if TYPE_CHECKING:
    from app.platform.settings import Settings
    from app.processes.venue_wiring import SpotPriceSource, VenueFollowing

_UNREACHABLE = 3
_LEAST_S = 10
_LONGEST_BACK_S = 90 * 86_400

Region = Annotated[str, typer.Option(metavar="REGION", help="The region of Amazon's EC2.")]
Endpoint = Annotated[
    str | None, typer.Option(metavar="URL", show_default="Amazon's own", help="Where EC2 is asked instead.")
]
Product = Annotated[list[str], typer.Option(metavar="NAME", help="What runs on the machines; several times.")]
Every = Annotated[str, typer.Option(metavar="TIME", help="The pause between two polls.")]
Back = Annotated[str, typer.Option(metavar="TIME", help="How far a new venue goes back; at most 90d.")]
Once = Annotated[bool, typer.Option("--once", help="Ask once, and exit with 3 if that fails.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    example = "tenure venue follow aws-east --region us-east-1"
    app.command("follow", epilog=f"Example: {example}")(follow)


def follow(
    name: VenueName,
    *,
    region: Region,
    endpoint_url: Endpoint = None,
    product: Product = ["Linux/UNIX"],  # noqa: B006 - Typer copies it
    every: Every = "5m",
    back: Back = "7d",
    once: Once = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Bring the spot prices of a region of Amazon's EC2 into a venue, which is made if it is not there, and go on.

    Needs boto3, which comes with Tenure's extra `aws`; credentials are found as boto3 finds them. The command works on
    the service's database. A poll that fails is told, changes no price, and is shown with the venue; the next one tries
    again.
    """
    check_name(name)
    every_s, back_s = parse_duration(every) / SECOND_US, parse_duration(back) / SECOND_US
    if every_s < _LEAST_S or not 0 < back_s <= _LONGEST_BACK_S:
        raise InputError(f"--every is at least {_LEAST_S} s, and --back at most 90d")
    settings = read_settings(data_dir=data_dir, database_url=database_url)
    tell_database(settings)
    polls = _Polls(name, region, endpoint_url, product, every_s, int(back_s * SECOND_US), once=once)
    with interruptible("what was told is kept"):
        is_fine = asyncio.run(polls.run(settings))
    if not is_fine:
        raise typer.Exit(_UNREACHABLE)


class _Polls:
    """Polls of one venue."""

    def __init__(
        self,
        name: str,
        region: str,
        endpoint_url: str | None,
        products: list[str],
        every_s: float,
        back_us: int,
        *,
        once: bool,
    ) -> None:
        self._name, self._asked = name, (region, endpoint_url, products)
        self._every_s, self._back_us, self._once = every_s, back_us, once

    async def run(self, settings: Settings) -> bool:
        """Poll until interrupted, or once; return whether the last poll succeeded."""
        from app.processes.venue_wiring import (  # noqa: PLC0415 - the service's libraries are slow to load
            SpotPriceSource,
            open_venue_following,
        )

        source = SpotPriceSource(*self._asked)
        async with open_venue_following(settings) as following:
            while True:
                is_fine = await self._poll(following, source)
                if self._once:
                    return is_fine
                await asyncio.sleep(self._every_s)

    async def _poll(self, following: VenueFollowing, source: SpotPriceSource) -> bool:
        from app.processes.venue_wiring import FeedFailed  # noqa: PLC0415 - as above

        try:
            done = await following.poll(self._name, source, self._back_us)
        except (FeedFailed, LogUnavailable) as error:
            STDERR.print(f"{self._name}: {error}", markup=False, highlight=False, soft_wrap=True)
            return False
        if done.refused_count:
            first = done.refused[0]
            line = f"{self._name}: {done.refused_count:,} prices refused, the first: {first.code}: {first.why}"
            STDERR.print(line, markup=False, highlight=False, soft_wrap=True)
        was_asked("venue list")
        newest = "none" if done.venue.last_us is None else rfc3339(done.venue.last_us)
        STDOUT.print(f"{self._name}: {done.new:,} new prices, the newest of {newest}", highlight=False, soft_wrap=True)
        return True
