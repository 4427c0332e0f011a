"""Values that no request can carry: they are refused before anything is sent, and never sent as null."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import httpx2
import pytest

from app.commands.exits import exit_of
from tenure_client import (
    ArgumentInvalid,
    AsyncTenureClient,
    Market,
    PolicyChange,
    Resources,
    Start,
    TenureClient,
    ValueInvalid,
)

Asking = Callable[[TenureClient], object]


def asking(request: httpx2.Request) -> httpx2.Response:
    raise AssertionError(f"{request.method} {request.url} was sent: {request.content!r}")


@pytest.mark.parametrize(
    ("ask", "field"),
    [
        (lambda client: client.set_quota("c", "bob", share=nan), "share"),
        (lambda client: client.set_quota("c", "bob", cores=inf), "cores"),
        (lambda client: client.change_policy("c", PolicyChange(longest_lifetime_s=inf)), "policy.longest_lifetime_s"),
        (lambda client: client.start("c", "i", Market.SPOT, "f", lifetime_s=nan), "lifetime_s"),
        (lambda client: client.start("c", "i", Market.SPOT, "f", lifetime_s=1, user="\ud800"), "user"),
        (
            lambda client: client.batch("c", [Start("i", "spot", "f", 1, -inf)]),
            "operations.0.start.eviction_probability",
        ),
        (lambda client: client.make_plan("p", [{"id": "j", "work_s": nan}]), "jobs.0.work_s"),
        (lambda client: client.observe("v", [{"\udfff": 1}]), r"observations.0.'\udfff'"),
        (lambda client: client.add_node("c", "n", Resources(cores=2**70, memory_mib=1)), "cores"),
        (lambda client: list(client.instances("c", project="\ud800")), "project"),
    ],
)
def test_what_no_request_can_carry_is_refused_before_it_is_sent(ask: Asking, field: str) -> None:
    with (
        TenureClient("http://peer", transport=httpx2.MockTransport(asking)) as client,
        pytest.raises(ValueInvalid) as told,
    ):
        ask(client)
    assert told.value.field == field
    ended = exit_of(told.value)
    assert ended is not None
    assert ended.code == 2


@pytest.mark.parametrize(
    ("argument", "value"), [("timeout_s", nan), ("timeout_s", 0), ("timeout_s", inf), ("retry_s", -1), ("retry_s", nan)]
)
def test_a_time_limit_that_is_none_is_told_at_once(argument: str, value: float) -> None:
    given: dict[str, Any] = {argument: value}
    for kind in (TenureClient, AsyncTenureClient):
        with pytest.raises(ArgumentInvalid, match=argument) as told:
            kind("http://peer", **given)
        assert told.value.argument == argument
