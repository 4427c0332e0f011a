"""Bodies and answers of owners and their quotas."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from app.domain.times import SECOND_US, seconds
from app.engine.cloud import Quota
from app.platform.http.fields import AT_OR_NOW, WHOLE, Body, Time
from app.scheduling.owners import OwnerStanding
from tenure_client.forms.owners import OwnerAnswer, OwnerQuotaAnswer


class QuotaBody(Body):
    """A quota of an owner's own, in place of the policy's. What is null or left out is not limited.

    At least one of `cores`, `share` and `overrun_share` must be there: a body without any would lift all limits.
    """

    cores: Annotated[int, Field(ge=0, lt=1 << 40), WHOLE] | None = Field(
        None, description="The cores that its running spot instances may have together."
    )
    share: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="The share of what a book has left that the risks of its running instances may take."
    )
    overrun_share: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="The core-hours that its instances may overrun for each within a declared lifetime."
    )
    at_us: Time | None = Field(None, description=AT_OR_NOW)

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not self.model_fields_set.intersection(Quota._fields):
            raise PydanticCustomError(
                "quota",
                "must name at least one of cores, share and overrun_share: what is left out is not limited",
            )
        return self

    def quota(self) -> Quota:
        return Quota(self.cores, self.share, self.overrun_share)


def owner_answer(standing: OwnerStanding) -> OwnerAnswer:
    """Return the wire form of an owner."""
    account = standing.account
    return OwnerAnswer(
        name=standing.name,
        running=account.running,
        running_cores=account.cores,
        admitted=account.admitted,
        evicted=account.evicted,
        overrunning=standing.overrunning,
        overrunning_cores=standing.overrunning_cores,
        overran=standing.overran,
        overran_share=standing.overran / account.admitted if account.admitted else None,
        overrun_core_s=seconds(standing.overrun_core_us),
        overrun_evicted=account.overrun_evicted,
        lately_overrun_core_s=None if standing.name is None else seconds(standing.lately.overrun_core_us),
        lately_allowed_core_s=None if standing.allowed_us is None else standing.allowed_us / SECOND_US,
        quota=OwnerQuotaAnswer(**standing.quota._asdict(), is_own=standing.has_own_quota),
    )
