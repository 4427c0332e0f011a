"""A cloud that decides by the calibrated forecast, over HTTP: quotes, decisions, explanations, pages, recomputation."""

from __future__ import annotations

from typing import Any

import anyio
import httpx2
import numpy as np
import pytest
from api_service import TOKEN, Service
from test_api_errors import check
from typer.testing import CliRunner

from app.admission.decide import decide_start
from app.cli import command_line
from app.clusters.rules.advice import AdviceTerms, hazards_of, plan_checkpoints
from app.domain import errors
from app.domain.events.wire import of_wire
from app.domain.requests import StartRequest
from app.domain.values import Forecast, Market
from app.engine.cloud import Cloud
from app.forecast.table import QuantileTable
from app.forecasts.store.tables import Tables
from app.platform.database.database import Database
from app.scheduling.store.clouds import Clouds
from tenure_client import TenureClient

NAME = "calibrated"
PATH = f"/v1/clouds/{NAME}"


def at(hours: float) -> str:
    minutes = round(hours * 60)
    return f"1970-01-{1 + minutes // 1440:02}T{minutes // 60 % 24:02}:{minutes % 60:02}:00Z"


def post(client: httpx2.Client, path: str, body: dict[str, Any], status: int = 201) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def client(service: Service) -> httpx2.Client:
    """A cloud with a day of on-demand load, and its first table."""
    policy = {
        "clock": "external",
        "warm_up_s": 0,
        "sample_count": 100,
        "eviction_probability": 0.05,
        "guarantee": "per_instance",
    }
    made = post(service.client, "/v1/clouds", {"name": NAME, "policy": policy})
    assert made["policy"]["forecast"] == "calibrated"
    for number in range(4):
        post(service.client, f"{PATH}/nodes", {"name": f"node-{number}", "cores": 8})
    for size in (1, 4):
        post(service.client, f"{PATH}/flavors", {"name": f"c{size}", "cores": size})
    for hour in range(24):
        for number in range(1 + hour % 5):
            name = f"busy-{hour}-{number}"
            body = {"id": name, "market": "on_demand", "flavor": "c4", "at": at(hour)}
            post(service.client, f"{PATH}/instances", body)
            stopped = service.client.delete(f"{PATH}/instances/{name}", params={"at": at(hour)})
            assert stopped.status_code == 204
    assert service.client.post(f"{PATH}/tables").status_code == 202
    service.compute_tables()
    service.wait_for_epoch(NAME, 1)
    return service.client


def quote(client: httpx2.Client, **asked: Any) -> dict[str, Any]:
    answer = client.get(f"{PATH}/quotes", params={"flavor": "c1", **asked})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["quotes"][0]
    return found


def start(client: httpx2.Client, name: str, lifetime_s: int) -> dict[str, Any]:
    body = {"id": name, "market": "spot", "flavor": "c1", "lifetime_s": lifetime_s, "at": at(23.5)}
    found: dict[str, Any] = post(client, f"{PATH}/instances", body)
    return found


def test_quotes_are_never_certain_and_rest_on_no_samples(client: httpx2.Client) -> None:
    long, short = quote(client, lifetime_s=86400 * 30), quote(client, lifetime_s=60)
    assert 0 < short["estimated_eviction_probability"] < long["estimated_eviction_probability"] < 1
    assert long["eviction_probability_bound"] > long["estimated_eviction_probability"]
    assert short["evidence"] == []
    assert quote(client, slots=0, lifetime_s=60)["lifetime_s"] == 0
    by_slots = [quote(client, slots=slots, lifetime_s=3600)["estimated_eviction_probability"] for slots in range(1, 33)]
    assert by_slots == sorted(by_slots, reverse=True)


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        ({"eviction_probability": 0.5}, errors.ProbabilityOutOfBounds, "ask for 0.2 at most"),
        ({"lifetime_s": 400 * 86400}, errors.LifetimeOutOfBounds, "declare 31536000 s at most"),
        ({"lifetime_s": 0}, errors.LifetimeOutOfBounds, "declare 1 s at least"),
    ],
)
def test_what_no_start_may_ask_for_is_not_quoted(
    client: httpx2.Client, asked: dict[str, float], error: type[Exception], says: str
) -> None:
    answer = client.get(f"{PATH}/quotes", params=asked)
    check(answer, error)
    assert says in answer.text


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"probability": "50"}, "This cloud promises 20 % at most."),
        ({"lifetime": "400", "unit": "d"}, "The longest lifetime in this cloud is 365 d."),
        ({"lifetime": "0"}, "The shortest lifetime in this cloud is 1 s."),
    ],
)
def test_the_page_says_what_may_be_asked_for(client: httpx2.Client, asked: dict[str, str], says: str) -> None:
    path, signed_in = f"/ui/clouds/{NAME}/quotes", {"Cookie": f"tenure_token={TOKEN}"}
    page = client.get(path, params=asked, headers=signed_in).text
    assert says in page
    assert "How long at" not in page
    assert "How long at 20" in client.get(path, params={"probability": "20"}, headers=signed_in).text


def test_the_command_says_what_may_be_asked_for(service: Service, client: httpx2.Client) -> None:
    options = ["--url", service.url, "--token", TOKEN, "--cloud", NAME]
    found = CliRunner().invoke(command_line(), ["quote", *options, "--probability", "0.5"])
    assert "an eviction probability of 0.5 is too high here: ask for 0.2 at most" in str(found.exception)


def test_a_start_is_decided_by_its_quote(client: httpx2.Client) -> None:
    most_s = quote(client)["lifetime_s"]
    told = quote(client, lifetime_s=int(most_s) + 1)
    refused = start(client, "too-long", int(most_s) + 1)
    assert (refused["status"], refused["reason"]) == ("rejected", "sla_unattainable")
    assert refused["quote"]["estimated_eviction_probability"] == told["estimated_eviction_probability"] > 0.05
    told = quote(client, lifetime_s=int(most_s) - 1)
    accepted = start(client, "long", int(most_s) - 1)
    assert accepted["status"] == "accepted"
    assert accepted["quote"]["estimated_eviction_probability"] == told["estimated_eviction_probability"] <= 0.05
    assert accepted["quote"]["lifetime_s"] == most_s
    words = client.get(f"{PATH}/instances/long/explanation").json()["sentences"]
    assert any("how the on-demand load had risen in the history" in sentence for sentence in words)


def test_a_decision_is_recomputed_from_log_and_table(client: httpx2.Client, service: Service) -> None:
    start(client, "again", 600)
    recorded = [of_wire(event) for event in client.get(f"{PATH}/events?limit=1000").json()["events"]]
    table = anyio.run(newest_table, service.settings.database_url)
    checked = 0
    cloud = Cloud()
    for item in recorded:
        event, basis = item.event, getattr(item.event, "basis", None)
        if basis is not None:
            assert cloud.policy.forecast is Forecast.CALIBRATED
            request = StartRequest(event.instance_id, Market.SPOT, event.flavor, event.lifetime_us)
            assert list(decide_start(cloud, request, event.at_us, table)) == [event]
            checked += 1
        cloud.apply_recorded([item])
    assert checked >= 1


async def newest_table(url: str) -> QuantileTable:
    database = Database(url)
    try:
        cloud_id = await Clouds(database).find(NAME)
        assert cloud_id is not None
        stored = await Tables(database).newest(cloud_id)
    finally:
        await database.close()
    assert stored is not None
    return QuantileTable.from_bytes(stored.data, epoch=stored.epoch, epoch_us=stored.epoch_us, seq=stored.seq)


def test_the_curves_are_the_quotes_of_now(client: httpx2.Client) -> None:
    path = f"/v1/clouds/{NAME}"
    flavor = client.get(f"{path}/flavors").json()["flavors"][0]["name"]
    sheet = client.get(f"{path}/curves", params={"flavor": flavor}).json()
    now = {one["slots"]: one for one in sheet["guaranteed"]}[sheet["slots"]]
    for probability, lifetime_s in zip(sheet["probabilities"], now["lifetimes_s"], strict=True):
        asked = {"flavor": flavor, "eviction_probability": str(probability)}
        (quote,) = client.get(f"{path}/quotes", params=asked).json()["quotes"]
        assert (quote["slots"], quote["lifetime_s"]) == (sheet["slots"], lifetime_s)
    (curve,) = (one for one in sheet["curves"] if one["slots"] == sheet["slots"])
    for point in curve["points"][:: len(curve["points"]) // 4]:
        asked = {"flavor": flavor, "lifetime_s": str(point["lifetime_s"])}
        (quote,) = client.get(f"{path}/quotes", params=asked).json()["quotes"]
        assert quote["estimated_eviction_probability"] == point["estimated_eviction_probability"]
        assert quote["eviction_probability_bound"] == point["eviction_probability_bound"]
        assert quote["windows"] == point["window_count"]
    assert sheet["forecast"] == "calibrated"
    assert client.get(f"{path}/curves", params={"flavor": "nobodys"}).status_code == 404


def test_advice_on_checkpoints_is_the_forecast_looked_at_from_the_instance(client: httpx2.Client) -> None:
    """The instance is the youngest, so what it sees is what a start sees, and its own slot."""
    assert start(client, "advised", 6 * 3600)["status"] == "accepted"
    path = f"{PATH}/instances/advised/checkpoint-advice"
    advice = client.get(path, params={"pause_s": "30", "write_s": "60", "at_risk_s": "0"}).json()
    extension = client.get(f"{PATH}/instances/advised/extend", params={"lifetime_s": "21601"}).json()
    assert advice["slots"] == extension["quote"]["slots"]
    told = extension["quote"]["estimated_eviction_probability"]
    assert advice["estimated_eviction_probability"] == pytest.approx(told, rel=0.01)
    assert advice["survival"][-1]["survival"] == 1 - advice["estimated_eviction_probability"]
    assert advice["survival"][-1]["after_s"] == 6 * 3600
    hazards = [one["hazard_per_hour"] for one in advice["survival"]]
    assert min(hazards) >= 1 / (23.5 + 6) - 1e-9  # the floor: the cloud's age, and the lifetime
    assert advice["policy"] == "hazard"
    assert 0 < advice["next_at_s"] < 6 * 3600
    assert "too short" in advice["sentence"]
    dearer = client.get(path, params={"pause_s": "300", "at_risk_s": "0"}).json()
    assert dearer["checkpoint_count"] <= advice["checkpoint_count"]
    at_risk = client.get(path, params={"pause_s": "30", "at_risk_s": "86400"}).json()
    assert (at_risk["next_at_s"], at_risk["sentence"][:14]) == (0, "Checkpoint now")


def test_advice_for_a_flavor_equals_the_rules_on_the_published_curve(client: httpx2.Client) -> None:
    """And it is that of an instance which runs in the same room at the same age."""
    terms = {"pause_s": "30", "write_s": "60", "restore_s": "20", "at_risk_s": "0"}
    asked = {"flavor": "c1", "lifetime_s": "21600", **terms}
    advice = client.get(f"{PATH}/checkpoint-advice", params=asked).json()
    assert (advice["id"], advice["flavor"]) == (None, "c1")
    ends = np.array([one["after_s"] for one in advice["survival"]])
    curve = [
        client.get(f"{PATH}/quotes", params={"flavor": "c1", "lifetime_s": str(end)}).json()["quotes"][0]
        for end in ends.tolist()
    ]
    evicted = np.array([one["estimated_eviction_probability"] for one in curve])
    assert {one["slots"] for one in curve} == {advice["slots"]}
    hazards = hazards_of(ends * 1e6, evicted, 1 / ((23.5 + 6) * 3600e6))
    grace_us = client.get(PATH).json()["policy"]["grace_s"] * 1e6
    plan = plan_checkpoints(hazards, AdviceTerms(30e6, 60e6, 20e6, 0.0), grace_us)
    assert [one["hazard_per_hour"] for one in advice["survival"]] == pytest.approx(
        (hazards.rates * 3600e6).tolist(), rel=1e-3
    )
    assert advice["checkpoint_count"] == plan.count
    assert advice["next_at_s"] == pytest.approx(plan.checkpoints_us[0] / 1e6, rel=1e-3)
    assert advice["interval_s"] == pytest.approx(plan.works_us[1] / 1e6, rel=1e-3)
    assert advice["expected_overhead"] == pytest.approx(plan.overhead, rel=1e-3)
    with TenureClient(str(client.base_url), TOKEN) as caller:
        same = caller.flavor_checkpoint_advice(NAME, "c1", 21600, 30, write_s=60, restore_s=20, at_risk_s=0)
    assert same.next_at_s == advice["next_at_s"]
    check(client.get(f"{PATH}/checkpoint-advice", params={**asked, "flavor": "nobodys"}), errors.FlavorNotFound)
    for wrong in ({"age_s": "21600"}, {"pause_s": "90000"}, {"loss_every_s": "40"}):
        check(client.get(f"{PATH}/checkpoint-advice", params=asked | wrong), errors.AdviceTermsInvalid)


def test_advice_is_refused_for_what_is_never_evicted(client: httpx2.Client) -> None:
    post(client, f"{PATH}/instances", {"id": "safe", "market": "on_demand", "flavor": "c1", "at": at(23.5)})
    for name, why in (("safe", "on-demand"), ("busy-0-0", "does not run")):
        refused = client.get(f"{PATH}/instances/{name}/checkpoint-advice", params={"pause_s": "30"})
        check(refused, errors.AdviceImpossible)
        assert why in refused.json()["errors"][0]["detail"]
    unknown = client.get(f"{PATH}/instances/nobody/checkpoint-advice", params={"pause_s": "30"})
    assert unknown.json()["errors"][0]["code"] == "preemptible.instance.not_found"
    for wrong in ({}, {"pause_s": "0"}, {"pause_s": "x"}, {"pause_s": "30", "write_s": "-1"}):
        assert client.get(f"{PATH}/instances/safe/checkpoint-advice", params=wrong).status_code == 400


def test_pages_say_which_forecast_they_show(client: httpx2.Client) -> None:
    signed_in = {"Cookie": f"tenure_token={TOKEN}"}
    quotes = client.get(f"/ui/clouds/{NAME}/quotes", headers=signed_in).text
    assert "From the rises of the on-demand load" in quotes
    curves = client.get(f"/ui/clouds/{NAME}/curves", headers=signed_in).text
    assert "calibrated forecast" in curves
    assert "the formula that decides" in curves
    assert "the bound takes the windows for fewer than 10, because it takes several for one" in curves
    assert "(few in the bound)" in curves
    instance = client.get(f"/ui/clouds/{NAME}/instances/long", headers=signed_in).text
    assert "of its lifetime, or of six hours, in the history" in instance


def test_a_table_from_before_the_change_says_nothing(service: Service) -> None:
    """Until the next table, a cloud that changes to the calibrated forecast has no evidence."""
    client, path = service.client, "/v1/clouds/changed"
    policy = {
        "clock": "external",
        "warm_up_s": 0,
        "sample_count": 100,
        "recompute_every_s": 86400,
        "table_max_age_s": 86400,
        "forecast": "replay",
    }
    post(client, "/v1/clouds", {"name": "changed", "policy": policy})
    post(client, f"{path}/nodes", {"name": "n", "cores": 8})
    post(client, f"{path}/flavors", {"name": "c1", "cores": 1})
    for hour in (1, 2):
        body = {"id": f"o{hour}", "market": "on_demand", "flavor": "c1", "at": at(hour)}
        post(client, f"{path}/instances", body)
    assert client.post(f"{path}/tables").status_code == 202
    service.compute_tables()
    service.wait_for_epoch("changed", 1)
    changed = client.patch(path, json={"policy": {"forecast": "calibrated"}})
    assert changed.status_code == 200, changed.text
    spot = {"id": "s", "market": "spot", "flavor": "c1", "lifetime_s": 60, "at": at(3)}
    refused = post(client, f"{path}/instances", spot)
    assert (refused["status"], refused["reason"]) == ("rejected", "no_history")
    words = " ".join(client.get(f"{path}/instances/s/explanation").json()["sentences"])
    assert "holds nothing of the calibrated forecast" in words
    post(client, f"{path}/instances", {"id": "o3", "market": "on_demand", "flavor": "c1", "at": at(4)})
    assert client.post(f"{path}/tables").status_code == 202
    service.compute_tables()
    service.wait_for_epoch("changed", 2)
    again = post(client, f"{path}/instances", spot | {"id": "s2", "lifetime_s": 1, "at": at(4)})
    assert again["quote"]["estimated_eviction_probability"] is not None


def page(client: httpx2.Client, place: str) -> str:
    answer = client.get(f"/ui/clouds/{NAME}/{place}", headers={"Cookie": f"tenure_token={TOKEN}"})
    assert answer.status_code == 200
    return answer.text


def test_the_page_of_curves_names_no_line_that_is_not_there(client: httpx2.Client) -> None:
    """A flavor that no node holds has no slot."""
    assert "The dashed line: the present slots." in page(client, "curves?flavor=c1")
    assert "Dashed: the bound at the present slots" in page(client, "curves?flavor=c1")
    post(client, f"{PATH}/flavors", {"name": "c99", "cores": 99})
    full = page(client, "curves?flavor=c99")
    assert "you are here: 0 slots" in full
    assert "ashed line" not in full
    assert "Dashed:" not in full
    assert "bound at" not in full
    assert "its bound tells in the next table" in full


def test_the_form_of_quotes_answers_what_was_asked_or_nothing(client: httpx2.Client) -> None:
    assert "How long at 1 %?" in page(client, "quotes?lifetime=10&unit=h&probability=1")
    for asked in ("lifetime=10&unit=days", "probability=0"):
        faulty = page(client, f"quotes?{asked}")
        assert 'role="alert"' in faulty
        assert "How long at" not in faulty
