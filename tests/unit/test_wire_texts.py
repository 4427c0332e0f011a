"""The texts in requests: each has a form that is told, and none holds a NUL, which no text of the database can."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

from app.domain.errors import WebhookRefused
from app.federation.rules.data import is_under
from app.platform.http.fields import Body, Query
from app.platform.outbound.addresses import read_url
from app.processes.endpoints import ENDPOINTS, METRICS

MODELS = {model for row in chain(ENDPOINTS, METRICS) for model in (row.body, row.query) if model is not None}
URLS = {"url", "objects_url"}
"""They are read by rules of their own, below."""


def texts(schema: object, name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the schema of every text in a schema, with the name of its field."""
    if isinstance(schema, list):
        for one in schema:
            yield from texts(one, name)
    elif isinstance(schema, dict):
        if schema.get("type") == "string":
            yield name, schema
        for key, one in schema.items():
            yield from texts(one, name if key in ("anyOf", "items", "properties") else key)


@pytest.mark.parametrize("model", sorted(MODELS, key=lambda model: model.__name__), ids=lambda model: model.__name__)
def test_every_text_of_a_request_has_a_form_without_a_nul(model: type[Body] | type[Query]) -> None:
    for name, schema in texts(model.model_json_schema()):
        if {"enum", "const"} & set(schema) or schema.get("format") == "date-time" or name in URLS:
            continue
        assert "pattern" in schema, f"{name} takes any text: give it a pattern"
        for text in ("\0", "a\0", "a\0b", "\0b"):
            assert not re.search(schema["pattern"], text), f"{name} takes a NUL"


def test_all_requests_are_looked_at() -> None:
    names = {model.__name__ for model in MODELS}
    assert {"PlanBody", "PoolsQuery", "BidAdviceQuery", "ClusterBody", "PeerBody", "WebhookBody"} <= names
    assert [name for name, _ in texts({"properties": {"a": {"anyOf": [{"type": "string"}]}}})] == ["a"]


def test_no_url_holds_a_nul() -> None:
    with pytest.raises(WebhookRefused):
        read_url("https://store.example/\0", allow_private=True)
    assert is_under("https://store.example/a", "https://store.example")
    assert not is_under("https://store.example/\0", "https://store.example")
