"""Rows and lines of commands: no words of Python, and no figures of room that is not there."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from app.commands.events import in_words
from app.commands.quotes import row_of
from tenure_client.forms.forecasts import FlavorQuoteAnswer

QUOTE = json.loads((Path(__file__).parents[1] / "golden/answers.json").read_text())["FlavorQuoteAnswer"][0]


def test_an_event_is_told_without_words_of_python() -> None:
    fields = {
        "seq": 4, "at": "1970", "kind": "cloud_created", "id": "s-1", "observed": False, "aborted": True,
        "policy": {"horizon_s": 60.0, "owner_cores": None, "shared_ids": True, "strata_s": [3600, None]},
        "victims": [{"id": "s-2", "deadline": None}, {"id": "s-3", "deadline": "soon"}],
    }  # fmt: skip
    assert in_words(fields) == (
        "s-1 observed=no aborted=yes policy=horizon_s:60,shared_ids:yes,strata_s:3600,- "
        "victims=s-2,id:s-3,deadline:soon"
    )


@pytest.mark.parametrize("asked", [True, False])
def test_a_quote_without_room_has_no_bound_and_no_windows(*, asked: bool) -> None:
    quote = msgspec.json.decode(QUOTE, type=FlavorQuoteAnswer)
    full = msgspec.structs.replace(quote, slots=0)
    columns = slice(4 + 2 * asked, 6 + 2 * asked)
    assert row_of(full, asked=asked)[3] == "no room"
    assert row_of(full, asked=asked)[columns] == ["-", "-"]
    assert "-" not in row_of(quote, asked=asked)[columns]
