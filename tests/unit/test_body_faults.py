"""The faults that are told of a body."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import BaseModel, Field, ValidationError

from app.platform.http.errors import faults_in


class Item(BaseModel):
    size: Annotated[int, Field(ge=1)]


class Basket(BaseModel):
    items: Annotated[tuple[Item, ...], Field(min_length=1)]


@pytest.mark.parametrize(
    ("items", "places"), [([{"size": 0}], ["items.0.size"]), ([{}, {"size": 1}], ["items.0.size"]), ([], ["items"])]
)
def test_a_list_with_a_faulty_item_is_not_called_too_short(items: list[dict[str, int]], places: list[str]) -> None:
    with pytest.raises(ValidationError) as raised:
        Basket.model_validate({"items": items})
    assert [str(fault).partition(":")[0] for fault in faults_in(raised.value, Basket)] == places
