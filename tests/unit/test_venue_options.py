"""Faults of options and files of the commands of venues name what is wrong, and what to write."""

from __future__ import annotations

from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest

from app.commands.venue_plans import plan
from app.commands.venue_survival import survival
from app.domain.inputs import InputError
from app.domain.times import DAY_US, HOUR_US, age_text
from app.workbench.venues.opening import read_prices
from tenure_client import TenureClient

NOBODY = cast(TenureClient, Mock())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("work_s,colour\n3600,red\n", "line 1: unknown column 'colour'; jobs have the columns id, work_s, deadline,"),
        ("work_s,value\n3600,red\n", "line 2: value 'red' is no number"),
        ("work_s,memory_mib\n3600,1.5\n", "line 2: memory_mib '1.5' is no whole number"),
    ],
)
def test_a_column_that_is_wrong_is_named(tmp_path: Path, text: str, told: str) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text(text)
    with pytest.raises(InputError) as caught:
        plan(NOBODY, [jobs])
    assert str(caught.value).startswith(f"{jobs}, {told}")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"clouds": ["north"]}, "--clouds 'north': write CLOUD:FLAVOR[:PRICE]"),
        ({"clouds": ["north:small:x"]}, "--clouds 'north:small:x': write CLOUD:FLAVOR[:PRICE]"),
        ({"peers": ["b"]}, "--peers 'b': write PEER:CORES[xMIB][:PRICE]"),
    ],
)
def test_a_place_that_is_half_said_is_told_with_its_form(
    tmp_path: Path, options: dict[str, list[str]], told: str
) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("work_s\n3600\n")
    with pytest.raises(InputError) as caught:
        plan(NOBODY, [jobs], **options)
    assert str(caught.value) == told


@pytest.mark.parametrize("bids", [[-1.0], [float("nan")], [100_000.0], [0.1234567], [0.1, 0.2, 0.3, 0.4, 0.5]])
def test_bids_that_cannot_be_are_told_as_the_option_is_written(bids: list[float]) -> None:
    with pytest.raises(InputError, match=r"--bid 0\.05 --bid 0\.2"):
        survival(NOBODY, "aws-east", bid=bids)


def test_a_broken_list_is_told_as_json_and_not_as_a_csv(tmp_path: Path) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text('[{"SpotPrice": ')
    with pytest.raises(InputError, match="begins like a JSON list"):
        read_prices(prices, DAY_US)


@pytest.mark.parametrize(
    ("us", "text"),
    [(26 * HOUR_US, "26 h"), (40 * DAY_US, "40 d"), (4030 * DAY_US, "11 years"), (729 * DAY_US, "729 d")],
)
def test_ages_are_told_in_years_from_two_on(us: int, text: str) -> None:
    assert age_text(us) == text


@pytest.mark.parametrize(
    ("deadline", "sent"),
    [
        ("18h", {"deadline_after_s": 64_800}),
        ("2026-11-29T12:00:00Z", {"deadline": "2026-11-29T12:00:00+00:00"}),
    ],
)
def test_a_repeated_line_is_the_same_request(tmp_path: Path, deadline: str, sent: dict[str, object]) -> None:
    jobs, client = tmp_path / "jobs.csv", Mock()
    jobs.write_text("work_s,value\n3600,\n60,5\n")
    client.make_plan.side_effect = InputError("that is enough")
    with pytest.raises(InputError, match=r"enough"):
        plan(client, [jobs], deadline=deadline, id_="nightly")
    assert client.make_plan.call_args.args == (
        "nightly",
        [{"id": "job-1", "work_s": 3600.0, **sent}, {"id": "job-2", "work_s": 60.0, "value": 5.0}],
    )
