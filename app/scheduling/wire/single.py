"""The body of a start that is sent alone: it may say what follows where it is rejected."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from app.domain.jobs import LONGEST_JOB_ID
from app.domain.values import Market
from app.scheduling.wire.instances import StartBody


class SingleStartBody(StartBody):
    """A start that is sent alone."""

    federate: Literal["never", "allowed"] = Field(
        "never",
        description="`allowed`: if this spot start is rejected here, peers are asked to run it, as a job of its id.",
    )

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        """Refuse what no peer could be asked for: a peer must know how long it may take at most."""
        if self.may_run_elsewhere and (self.market is not Market.SPOT or not self.lifetime_us):
            raise PydanticCustomError("federate", "only a spot start with lifetime_s may say federate")
        if self.may_run_elsewhere and len(self.instance_id) > LONGEST_JOB_ID:
            raise PydanticCustomError(
                "federate", f"the id of a start that says federate has at most {LONGEST_JOB_ID} characters"
            )
        return self

    @property
    def may_run_elsewhere(self) -> bool:
        """True if peers may be asked for it."""
        return self.federate == "allowed"
