"""The faults that are told of a body."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from app.platform.http.errors import faults_in
from app.platform.http.fields import Body, Name


class Item(BaseModel):
    size: Annotated[int, Field(ge=1)]


class Basket(BaseModel):
    items: Annotated[tuple[Item, ...], Field(min_length=1)]


class Peer(Body):
    name: Name
    share: Annotated[float, Field(gt=0, lt=1)]
    way: Literal["in", "out"]
    secret: Annotated[str, Field(min_length=1)]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"name": "/"}, "name: must begin with a letter or digit, and may hold letters, digits, dots"),
        ({"share": 1.5}, "share: must be less than 1"),
        ({"share": "x"}, "share: must be a number"),
        ({"way": "up"}, "way: must be 'in' or 'out'"),
        ({"secret": ""}, "secret: must not be empty"),
        ({"secret": None}, "secret: must be a text"),
        ({"more": 1}, "more: there is no such field"),
    ],
)
def test_what_is_wrong_is_told_without_the_words_of_a_library(wrong: dict[str, object], told: str) -> None:
    right = {"name": "b", "share": 0.5, "way": "in", "secret": "s"}
    with pytest.raises(ValidationError) as raised:
        Peer.model_validate(right | wrong)
    (fault,) = faults_in(raised.value, Peer)
    assert str(fault).startswith(told)


class Street(Body):
    host: Peer
    guests: tuple[Peer, ...] = ()


def test_an_unknown_field_within_another_form_is_told_with_those_that_are() -> None:
    right = {"name": "b", "share": 0.5, "way": "in", "secret": "s"}
    with pytest.raises(ValidationError) as raised:
        Street.model_validate({"host": {**right, "more": 1}})
    (fault,) = faults_in(raised.value, Street)
    assert str(fault) == "host.more: there is no such field; there are: name, share, way, secret"


@pytest.mark.parametrize(
    ("items", "places"), [([{"size": 0}], ["items.0.size"]), ([{}, {"size": 1}], ["items.0.size"]), ([], ["items"])]
)
def test_a_list_with_a_faulty_item_is_not_called_too_short(items: list[dict[str, int]], places: list[str]) -> None:
    with pytest.raises(ValidationError) as raised:
        Basket.model_validate({"items": items})
    assert [str(fault).partition(":")[0] for fault in faults_in(raised.value, Basket)] == places
