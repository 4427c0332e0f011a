"""Answers of a newer service: words, fields and kinds of events that this client does not know break nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from tenure_client import Market, TenureClient, endpoints
from tenure_client.endpoints import Endpoint
from tenure_client.forms import words
from tenure_client.forms.answer import Answer
from tenure_client.forms.decisions import ExplanationAnswer
from tenure_client.forms.events import EventsAnswer, event_of
from tenure_client.forms.instances import BatchResult, StartAnswer
from tenure_client.forms.service import NewTokenAnswer
from tenure_client.forms.webhooks import NewWebhookAnswer

PINNED = json.loads((Path(__file__).parents[1] / "golden/answers.json").read_text())
WORDS = {
    name: alias.__metadata__[0].extra_json_schema["enum"]
    for name, alias in vars(words).items()
    if name.endswith("Word")
}
KNOWN = {word for known in WORDS.values() for word in known}
"""Every word that a field of an answer may hold today."""


def forms(root: type[Answer] = Answer) -> Iterator[type[Answer]]:
    for form in root.__subclasses__():
        yield form
        yield from forms(form)


READ = sorted(
    (form for form in forms() if form.__module__.startswith("tenure_client.")), key=lambda form: form.__name__
)


def newer(value: Any) -> Any:
    """The value as a newer service may write it: each known word is another one, each object has one field more."""
    if isinstance(value, dict):
        return {name: newer(item) for name, item in value.items()} | {"a_newer_field": {"of": ["any", "kind"]}}
    if isinstance(value, list):
        return [newer(item) for item in value]
    return "a_newer_word" if value in KNOWN else value


def count(value: Any, word: str) -> int:
    """Return how often a word is a value within the value."""
    if isinstance(value, dict):
        return sum(count(item, word) for item in value.values())
    return sum(count(item, word) for item in value) if isinstance(value, list) else value == word


@pytest.mark.parametrize("form", READ, ids=lambda form: form.__name__)
def test_newer_words_and_fields_are_read(form: type[Answer]) -> None:
    full, least = (json.loads(text) for text in PINNED[form.__name__])
    for answer in (full, least):
        found = msgspec.json.decode(json.dumps(newer(answer)), type=form)
        assert count(msgspec.to_builtins(found), "a_newer_word") == count(newer(answer), "a_newer_word")


def test_every_field_that_holds_such_a_word_was_tried() -> None:
    """Each of the aliases stands for some field whose pinned sample holds its first word."""
    pinned = [json.loads(text) for name in PINNED for text in PINNED[name]]
    assert [name for name, known in WORDS.items() if not any(count(answer, known[0]) for answer in pinned)] == []


def test_words_compare_equal_to_what_a_caller_writes() -> None:
    decision = msgspec.json.decode(PINNED["StartAnswer"][1], type=StartAnswer)
    assert decision.market == Market.ON_DEMAND
    assert type(decision.market) is str


def test_events_of_newer_kinds_are_read_as_they_are() -> None:
    event = {"seq": 7, "at": "2026-01-01T00:00:00Z", "kind": "venue_opened", "venue": {"name": "v"}}
    page = msgspec.json.decode(json.dumps({"events": [event], "links": []}), type=EventsAnswer)
    assert (event_of(page.events[0]).kind, event_of(page.events[0]).fields) == ("venue_opened", event)
    explanation = json.loads(PINNED["ExplanationAnswer"][1]) | {"notices": [event]}
    assert msgspec.json.decode(json.dumps(explanation), type=ExplanationAnswer).notices == [event]


def test_a_result_without_a_decision() -> None:
    stopped = msgspec.json.decode(b'{"status":204}', type=BatchResult)
    assert (stopped.decision, stopped.error) == (None, None)


@pytest.mark.parametrize("form", [NewTokenAnswer, NewWebhookAnswer])
def test_secrets_are_not_shown(form: type[Answer]) -> None:
    answer = json.loads(PINNED[form.__name__][0]) | {"token": "tnr_secret", "secret": "whsec_secret"}
    assert "secret" not in repr(msgspec.convert(answer, form, strict=False)).replace("secret=...", "")


def test_a_cloud_of_a_newer_kind_is_shown() -> None:
    answer = newer(json.loads(PINNED["CloudAnswer"][0]))
    respond = httpx2.MockTransport(lambda _: httpx2.Response(200, json=answer))
    with TenureClient("http://newer", "secret", transport=respond) as client:
        assert client.cloud("text").policy.guarantee == "a_newer_word"


def test_every_answer_of_an_endpoint_is_pinned() -> None:
    answers = {endpoint.answer for endpoint in vars(endpoints).values() if isinstance(endpoint, Endpoint)}
    assert {answer.__name__ for answer in answers - {str, type(None)}} <= {form.__name__ for form in READ}
    assert {form.__name__ for form in READ} <= PINNED.keys()
