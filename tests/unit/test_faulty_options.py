"""Errors of fields are told in the words of the options that set them."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from app.commands.faulty import in_options, options_of
from app.commands.jobs import submit_job
from app.commands.venue_plans import plan
from app.domain.inputs import InputError
from tenure_client import RequestInvalid, TenureClient

OPTIONS = {"quota.count": "--count", "inputs": "--input", "name": "the peer's name"}


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        ("quota.count: must be at most 256", "--count: must be at most 256"),
        ("inputs.0.bytes: must be a whole number", "--input, number 1, bytes: must be a whole number"),
        ("inputs.1: must not name a key twice", "--input, number 2: must not name a key twice"),
        ("name: must begin with a letter or digit", "the peer's name: must begin with a letter or digit"),
        ("names: it is too long", "names: it is too long"),
    ],
)
def test_a_field_is_told_as_its_option(detail: str, told: str) -> None:
    refused = RequestInvalid(400, "code", "wrong", details=(detail, "name: must not be empty"))
    with pytest.raises(InputError) as caught, in_options(OPTIONS):
        raise refused
    assert str(caught.value).startswith(told)
    assert str(caught.value).endswith("; the peer's name: must not be empty")


def test_a_fault_of_no_option_stays_as_the_service_tells_it() -> None:
    refused = RequestInvalid(400, "code", "the URL is not allowed")
    with pytest.raises(RequestInvalid, match="code 400"), in_options(OPTIONS):
        raise refused


def test_fields_are_found_by_the_names_of_options_and_arguments() -> None:
    submit, planning = options_of(submit_job), options_of(plan)
    assert (submit["lifetime_s"], submit["count"], submit["on_preempted"]) == ("--for", "--count", "--on-preempted")
    assert (planning["jobs"], planning["launch_s"], planning["id"]) == ("JOBS", "--launch", "--id")
    assert "client" not in submit


class _Refusing:
    """A client whose plans are refused for these faults."""

    def __init__(self, *details: str) -> None:
        self._details = details

    def make_plan(self, *_: object, **__: object) -> None:
        raise RequestInvalid(400, "code", "wrong", details=self._details)


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("jobs.csv", "work_s,deadline\n60,2026-11-28T12:00:00Z\n\n-1,2026-11-28T12:00:00Z\n", "line 4"),
        ("jobs.json", '{"jobs": [{"work_s": 60}, {"work_s": -1}]}', "number 2"),
    ],
)
def test_a_fault_of_a_job_is_told_with_its_place_in_the_file(tmp_path: Path, name: str, text: str, place: str) -> None:
    jobs, rates = tmp_path / name, tmp_path / "rates.csv"
    jobs.write_text(text)
    rates.write_text("name,price\nx,1\n")
    client = cast(TenureClient, _Refusing("jobs.1.work_s: must be above 0", "rates.0.price: too high"))
    with pytest.raises(InputError) as caught:
        plan(client, [jobs], rates=rates)
    assert str(caught.value) == f"{jobs}, {place}, work_s: must be above 0; {rates}, line 2, price: too high"
