"""Probabilities that are too small to be told apart from others are refused, and nothing is decided."""

from __future__ import annotations

import math
from typing import Any

import httpx2
import pytest
from api_service import Service
from test_api_errors import check

from app.commands.quotes import _share
from app.commands.workloads import check_sla
from app.domain.inputs import InputError
from app.domain.values import LEAST_PROBABILITY
from app.platform.http import errors as api_errors

PATH = "/v1/clouds/least"
TINY = (1e-320, 5e-324, 1e-300, math.nextafter(LEAST_PROBABILITY, 0.0))
SPOT = {"id": "s", "market": "spot", "flavor": "small", "lifetime_s": 600}


@pytest.fixture(scope="module")
def least(service: Service) -> httpx2.Client:
    client = service.client
    policy = {"warm_up_s": 0, "guarantee": "stratified"}
    client.post("/v1/clouds", json={"name": "least", "policy": policy}).raise_for_status()
    client.post(f"{PATH}/nodes", json={"name": "n", "cores": 4}).raise_for_status()
    client.post(f"{PATH}/flavors", json={"name": "small", "cores": 1}).raise_for_status()
    return client


@pytest.mark.parametrize("tiny", TINY)
def test_a_probability_below_the_least_is_no_value_of_a_request(
    least: httpx2.Client, service: Service, tiny: float
) -> None:
    seq = service.last_seq("least")
    start = {**SPOT, "eviction_probability": tiny}
    job = {"id": "j", "flavor": "small", "lifetime_s": 600, "federate": "always", "eviction_probability": tiny}
    bodies: list[tuple[str, str, Any]] = [
        ("POST", f"{PATH}/instances", start),
        ("POST", f"{PATH}/batch", {"operations": [{"start": start}]}),
        ("POST", f"{PATH}/jobs", job),
        ("POST", "/v1/clouds", {"name": "other", "policy": {"eviction_probability": tiny}}),
        *(
            ("PATCH", PATH, {"policy": {name: tiny}})
            for name in ("eviction_probability", "least_probability", "highest_probability", "risk_threshold")
        ),
    ]
    for method, path, body in bodies:
        answer = least.request(method, path, json=body)
        check(answer, api_errors.FieldInvalid)
        assert "must be at least 1e-09" in answer.text
    query = {"eviction_probability": str(tiny)}
    check(least.get(f"{PATH}/quotes", params=query), api_errors.FieldInvalid)
    assert least.get("/v1/clouds/other").status_code == 404
    assert service.last_seq("least") == seq


def test_the_least_probability_is_decided(least: httpx2.Client) -> None:
    answer = least.post(f"{PATH}/instances", json={**SPOT, "eviction_probability": LEAST_PROBABILITY})
    assert answer.status_code == 201, answer.text
    answer = least.post(f"{PATH}/instances", json={**SPOT, "id": "t", "eviction_probability": 1e-320})
    assert "eviction_probability: must be at least 1e-09" in answer.json()["errors"][0]["detail"]


@pytest.mark.parametrize("tiny", TINY)
def test_the_command_refuses_what_the_service_refuses(tiny: float) -> None:
    for parse in (lambda: check_sla(tiny), lambda: _share(str(tiny))):
        with pytest.raises(InputError, match="is below 1e-09, the least that can be promised"):
            parse()
    assert check_sla(LEAST_PROBABILITY) == _share("1e-9") == LEAST_PROBABILITY
