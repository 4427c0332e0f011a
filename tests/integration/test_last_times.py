"""A cloud at the end of the year 9999: what comes after it is told as its end, and nothing fails for it."""

from __future__ import annotations

import pytest
from api_service import TOKEN, Service
from test_api_errors import check

from app.domain import errors
from app.domain.times import MAX_TIME_US, rfc3339, time_text, to_datetime

LAST = "9999-12-31T23:59:59Z"
PATH = "/v1/clouds/last"


def test_what_comes_later_than_any_time_is_told_as_the_last() -> None:
    for told in (to_datetime, rfc3339, time_text):
        assert told(MAX_TIME_US + 86_400_000_000) == told(MAX_TIME_US)  # type: ignore[operator]
    assert rfc3339(MAX_TIME_US) == LAST


@pytest.fixture(scope="module")
def last(service: Service) -> Service:
    """A service with a cloud that warms up beyond the last time."""
    for path, body in (
        ("/v1/clouds", {"name": "last", "policy": {"clock": "external"}, "at": LAST}),
        (f"{PATH}/nodes", {"name": "n", "cores": 1}),
        (f"{PATH}/flavors", {"name": "s", "cores": 1}),
    ):
        service.client.post(path, json=body).raise_for_status()
    return service


def test_quotes_and_curves_say_until_when_it_warms_up(last: Service) -> None:
    for path in (f"{PATH}/quotes", f"{PATH}/curves?flavor=s"):
        answer = last.client.get(path)
        check(answer, errors.TableNotFound)
        assert "warms up until 9999-12-31 23:59:59 UTC" in answer.text


@pytest.mark.parametrize("page", ["quotes", "curves", "epochs", "promise", "decisions"])
def test_no_page_fails(last: Service, page: str) -> None:
    signed_in = {"Cookie": f"tenure_token={TOKEN}"}
    assert last.client.get(f"/ui/clouds/last/{page}", headers=signed_in).status_code == 200


def test_a_start_is_decided(last: Service) -> None:
    body = {"id": "i", "market": "spot", "flavor": "s", "lifetime_s": 3600, "at": LAST}
    assert last.client.post(f"{PATH}/instances", json=body).status_code == 201
    for path in ("instances/i", "instances/i/explanation", "events", "utilisation", "sla", "reliability"):
        assert last.client.get(f"{PATH}/{path}").status_code == 200
