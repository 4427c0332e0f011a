"""Bodies and answers of peers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field

from app.domain.jobs import Word
from app.domain.times import seconds
from app.domain.values import OWNER_PATTERN
from app.federation.links import PeerLink
from app.federation.peering import PeerPlace, PeerTrial
from app.federation.rules.foreignside import PeerQuota
from app.federation.rules.links import takes_us
from app.federation.rules.peers import Peer
from app.federation.rules.standings import preempted
from app.federation.standings import CloudStanding, PeerStanding
from app.platform.http.fields import WHOLE, Body, Name, PositiveSeconds
from tenure_client.forms.answer import Link
from tenure_client.forms.peers import (
    AwardsAnswer,
    CloudStandingAnswer,
    CountedAnswer,
    HostedAnswer,
    LinkAnswer,
    PeerAnswer,
    PeerQuotaAnswer,
    PeerStandingAnswer,
    PeerTrialAnswer,
)

_LONGEST_NAME = 63
_LONGEST_URL = 2000
GIGABYTE = 10**9
PeerName = Annotated[str, Field(pattern=f"^{OWNER_PATTERN}$", max_length=_LONGEST_NAME)]
Url = Annotated[str, Field(min_length=1, max_length=_LONGEST_URL)]
LinkMbits = Annotated[float, Field(ge=0.001, le=10**6, allow_inf_nan=False)]
Secret = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[!-~]+$")]
_URL = "Where its service is, `https://...`, without a path of this interface."
_OBJECTS = "The endpoint of its object store. Links to anywhere else are refused; without it no data is moved."
_RATE = "The rate of data from it in 10^6 bit/s. It counts until enough has come to learn it."
_CLOUD = "The name of the cloud there."
_SECRET = "The token of the role `peer` that it gave us. It is shown to nobody."  # noqa: S105 - a description


class PeerQuotaBody(Body):
    """The most that a peer may have in each cloud here. What is left out stays as it is."""

    offers: Annotated[int, Field(ge=0, le=1000), WHOLE] | None = Field(
        None, description="Attempts whose room is held; 20."
    )
    cores_share: Annotated[int, Field(ge=0, le=100), WHOLE] | None = Field(
        None, description="Cores of its held and running jobs, in hundredths of those of open nodes; 10."
    )
    count: Annotated[int, Field(ge=1, le=256), WHOLE] | None = Field(None, description="Instances of one job; 256.")
    lifetime_us: PositiveSeconds | None = Field(None, description="The lifetime of one job; 30 days.")
    data_bytes: Annotated[int, Field(ge=0, le=10**15), WHOLE] | None = Field(
        None, description="Inputs and outputs of all of its jobs that have not ended; 100 GB."
    )

    def given(self) -> dict[str, Any]:
        """Return what is given."""
        return {name: value for name in PeerQuota.__slots__ if (value := getattr(self, name)) is not None}


class PeerBody(Body):
    """A new peer. Its name is also that of the tokens that it shows here, up to their first dot."""

    name: PeerName
    url: Url = Field(description=_URL)
    cloud: Name = Field(description=_CLOUD)
    token: Secret = Field(description=_SECRET)
    objects_url: Url | None = Field(None, description=_OBJECTS)
    link_mbit_s: LinkMbits | None = Field(None, description=_RATE)
    quota: PeerQuotaBody = PeerQuotaBody()

    def place(self) -> PeerPlace:
        """Return where it is, and the token that it gave."""
        return PeerPlace(self.url, self.cloud, self.token, self.objects_url, self.link_mbit_s)


class PeerChangeBody(Body):
    """Changes of a peer. What is left out stays as it is."""

    url: Url | None = Field(None, description=_URL)
    cloud: Name | None = Field(None, description=_CLOUD)
    token: Secret | None = Field(None, description=_SECRET)
    objects_url: Url | None = Field(None, description=_OBJECTS)
    link_mbit_s: LinkMbits | None = Field(None, description=_RATE)
    quota: PeerQuotaBody = PeerQuotaBody()

    def place(self) -> PeerPlace:
        """Return where it is, and the token that it gave."""
        return PeerPlace(self.url, self.cloud, self.token, self.objects_url, self.link_mbit_s)


def peer_answer(peer: Peer) -> PeerAnswer:
    """Return the wire form of a peer, without the token that it gave us."""
    quota = PeerQuota(**peer.quota)
    return PeerAnswer(
        name=peer.name,
        url=peer.url,
        cloud=peer.cloud,
        paused_because=peer.paused_because,
        paused_by=peer.paused_by,
        paused_at=peer.paused_at,
        quota=PeerQuotaAnswer(
            offers=quota.offers,
            cores_share=quota.cores_share,
            count=quota.count,
            lifetime_s=seconds(quota.lifetime_us),
            data_bytes=quota.data_bytes,
        ),
        created_at=peer.created_at,
        objects_url=peer.objects_url,
        link_mbit_s=peer.link_mbit_s,
        links=[
            Link(rel="self", href=f"/v1/peers/{peer.name}"),
            Link(rel="standing", href=f"/v1/peers/{peer.name}/standing"),
        ],
    )


def standing_answer(found: PeerStanding) -> PeerStandingAnswer:
    """Return the wire form of a peer's standing."""
    return PeerStandingAnswer(
        peer=found.peer.name,
        paused_because=found.peer.paused_because,
        clouds=[_cloud_answer(one, found.quota) for one in found.clouds],
        data_links=[_link_answer(one) for one in found.links],
        links=[Link(rel="peer", href=f"/v1/peers/{found.peer.name}")],
    )


def _cloud_answer(found: CloudStanding, quota: PeerQuota) -> CloudStandingAnswer:
    standing, use = found.standing, found.use
    share = preempted(standing)
    host = AwardsAnswer(
        offered=standing.offered,
        declined=_counted(standing.declined),
        awarded=standing.awarded,
        promised_ratio=standing.promised_ratio,
        ended=_counted(standing.ended),
        preempted_ratio=share.lost / share.of if share.of else None,
        preempted_low=share.low,
        preempted_high=share.high,
    )
    origin = HostedAnswer(
        held=standing.words(Word.HELD),
        awarded=standing.words(Word.RUNNING),
        lapsed=standing.words(Word.EXPIRED),
        words=_counted(standing.hosted),
        holding=use.holding,
        running=use.running,
        cores=use.cores,
        cores_limit=use.limit(quota.cores_share),
    )
    return CloudStandingAnswer(cloud=found.cloud, as_host=host, as_origin=origin)


def _link_answer(found: PeerLink) -> LinkAnswer:
    rate = found.rate
    return LinkAnswer(
        direction=found.direction.value,
        bytes_per_s=None if rate is None else rate.bytes_per_s,
        samples=0 if rate is None else rate.samples,
        newest_age_s=None if rate is None else seconds(rate.newest_age_us),
        active=0 if rate is None else rate.active,
        gigabyte_s=None if rate is None else seconds(takes_us(rate, GIGABYTE)),
    )


def _counted(counts: Iterable[tuple[str, int]]) -> list[CountedAnswer]:
    return [CountedAnswer(word=word, count=count) for word, count in counts]


def trial_answer(trial: PeerTrial) -> PeerTrialAnswer:
    """Return the wire form of a test."""
    return PeerTrialAnswer(
        reached=trial.reached, status=trial.status, took_s=round(trial.seconds, 6), error=trial.error
    )
