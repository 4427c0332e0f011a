"""Bodies of batches: operations of which each is a start, a stop, an extension, or a word of a controller."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from app.domain.requests import Operation
from app.platform.http.fields import Body
from app.scheduling.wire.instances import ExtendBody, StartBody, StopBody
from app.scheduling.wire.moves import MoveBody
from app.scheduling.wire.observed import AbortBody, ObserveBody

BATCH_MAX = 1000


def _one_property(schema: dict[str, Any]) -> None:
    """State in the schema the rule that `_one_of_them` checks."""
    schema |= {"minProperties": 1, "maxProperties": 1}
    for name, field in schema["properties"].items():
        schema["properties"][name] = field["anyOf"][0]


class OperationBody(Body):
    """One start, one stop, one extension, one move, one observation or one abort."""

    model_config = ConfigDict(json_schema_extra=_one_property)

    start: StartBody | None = None
    stop: StopBody | None = None
    extend: ExtendBody | None = None
    move: MoveBody | None = None
    observe: ObserveBody | None = None
    abort: AbortBody | None = None

    @property
    def chosen(self) -> StartBody | StopBody | ExtendBody | MoveBody | ObserveBody | AbortBody | None:
        """The operation, whichever it is."""
        return self.start or self.stop or self.extend or self.move or self.observe or self.abort

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if len(self.model_fields_set) != 1 or self.chosen is None:
            raise PydanticCustomError("operation", "must have one of start, stop, extend, move, observe, abort")
        return self

    def request(self, owner: str | None) -> Operation:
        chosen = self.chosen
        assert chosen is not None
        return chosen.request(owner)


class BatchBody(Body):
    operations: Annotated[list[OperationBody], Field(min_length=1, max_length=BATCH_MAX)] = Field(
        description="Decided in this order. A failed one does not affect the others."
    )
