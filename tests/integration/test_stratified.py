"""A cloud under the stratified guarantee, over HTTP: what its decisions rest on, and that everything tells the same."""

from __future__ import annotations

import io
from html import escape
from typing import Any

import pytest
from api_service import TOKEN, Service
from typer.testing import CliRunner

from app.cli import command_line
from app.domain.events.wire import of_wire
from app.workbench.audit import audit
from app.workbench.logcsv import LogWriter, read_rows
from tenure_client import Guarantee, TenureClient

POLICY: dict[str, Any] = {
    "clock": "external",
    "eviction_probability": 0.2,
    "highest_probability": None,
    "warm_up_s": 0,
    "sample_count": 100,
    "recompute_every_s": 864000,
    "table_max_age_s": 864000,
    "strata_s": [3600, 86400],
}


def at(hours: float) -> str:
    minutes = round(hours * 60)
    return f"1970-01-{1 + minutes // 1440:02}T{minutes // 60 % 24:02}:{minutes % 60:02}:00Z"


class Story:
    """Talks to one cloud whose history has a load that comes and goes."""

    def __init__(self, service: Service, name: str, **policy: Any) -> None:
        self.service, self.client, self.name = service, service.client, name
        self.path = f"/v1/clouds/{name}"
        self.send("POST", "/v1/clouds", {"name": name, "policy": POLICY | policy})
        for number in range(3):
            self.send("POST", f"{self.path}/nodes", {"name": f"n{number}", "cores": 4})
        for size in (1, 4):
            self.send("POST", f"{self.path}/flavors", {"name": f"c{size}", "cores": size})

    def send(self, method: str, path: str, body: Any = None, status: int | None = None) -> Any:
        answer = self.client.request(method, path, json=body)
        assert answer.is_success if status is None else answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    def get(self, path: str) -> Any:
        return self.send("GET", f"{self.path}{path}")

    def learn(self) -> None:
        for hour in range(48):
            for number in range(1 + hour % 3):
                name = f"od-{hour}-{number}"
                self.start(name, hour, market="on_demand", flavor="c4", lifetime_s=1800)
            for number in range(1 + hour % 3):
                self.client.delete(f"{self.path}/instances/od-{hour}-{number}", params={"at": at(hour + 0.5)})
        asked = self.client.post(f"{self.path}/tables")
        self.service.compute_tables()
        assert self.client.get(asked.headers["Location"]).json()["status"] == "succeeded"
        self.service.wait_for_epoch(self.name, 1)

    def start(self, name: str, hours: float, lifetime_s: float = 600, **more: Any) -> Any:
        body = {"id": name, "market": "spot", "flavor": "c1", "lifetime_s": lifetime_s, "at": at(hours), **more}
        return self.send("POST", f"{self.path}/instances", body)


@pytest.fixture
def story(service: Service, request: pytest.FixtureRequest) -> Story:
    told = Story(service, request.node.name.replace("_", "-")[:60])
    told.learn()
    return told


def test_a_start_rests_on_its_book_and_a_refusal_tells_what_would_do(story: Story) -> None:
    easy = story.start("easy", 48, 60, eviction_probability=0.9)
    book = easy["quote"]["book"]
    assert (easy["status"], book["admitted_by"]) == ("accepted", "small")
    assert (book["from_s"], book["below_s"], book["earned"], book["evicted"]) == (0, 3600, 0, 0)

    refused = story.start("long", 48, 60 * 86400)
    quote, instead = refused["quote"], refused["acceptable"]
    assert (refused["status"], refused["reason"]) == ("rejected", "budget_exhausted")
    assert (quote["book"]["from_s"], quote["book"]["below_s"], quote["book"]["admitted_by"]) == (86400, None, None)
    assert quote["budget"] is None
    risk = quote["estimated_eviction_probability"]
    assert risk <= instead["eviction_probability"] <= 1.1 * risk
    assert 0 < instead["lifetime_s"] == quote["book"]["affordable_lifetime_s"] < 60 * 86400
    laxer = story.start("laxer", 48, 60 * 86400, eviction_probability=instead["eviction_probability"])
    assert laxer["quote"]["book"]["admitted_by"] == "within"
    story.client.delete(f"{story.path}/instances/laxer", params={"at": at(48)})
    shorter = story.start("shorter", 48, instead["lifetime_s"])
    assert shorter["status"] == "accepted"

    told = " ".join(story.get("/instances/long/explanation")["sentences"])
    assert "none of the three lines of the rule admits that" in told
    assert "A small risk is 10 % at most" in told
    assert "the longest within the promise; what the book has earned may admit a longer one." in told
    page = story.client.get(f"/ui/clouds/{story.name}/instances/long", headers={"Cookie": f"tenure_token={TOKEN}"})
    assert "(the longest within the promise; what the book has earned may admit a longer one)" in page.text
    assert "The book of lifetimes from 24 h on with this promise had earned 0 evictions" in told
    admitted = " ".join(story.get("/instances/easy/explanation")["sentences"])
    assert "at most half of what was promised" in admitted


def test_books_are_told_alike_everywhere(story: Story) -> None:
    for number in range(6):
        story.start(f"s{number}", 48, 1800 if number % 2 else 7200)
    found = story.get("/sla")
    (line,) = found["classes"]
    assert (found["guarantee"], line["budget"]) == ("stratified", None)
    assert [(book["from_s"], book["below_s"]) for book in line["books"]] == [(0, 3600), (3600, 86400), (86400, None)]
    assert line["books"][0]["earned"] > 0
    assert line["books"][0]["left"] == line["books"][0]["earned"]
    again = story.start("next", 48, 1800)["quote"]["book"]
    assert {name: again[name] for name in ("earned", "evicted", "committed", "risky")} == {
        name: line["books"][0][name] for name in ("earned", "evicted", "committed", "risky")
    }
    page = story.client.get(f"/ui/clouds/{story.name}/promise", headers={"Cookie": f"tenure_token={TOKEN}"})
    assert "Books by lifetime declared at the start" in page.text
    names = ["<1h", "1h-1d", ">=1d"]
    assert [escape(name) in page.text for name in names] == [True] * 3
    words = ["sla", "--url", story.service.url, "--token", TOKEN, "--cloud", story.name]
    told = CliRunner().invoke(command_line(), words).output
    assert "by declared lifetime, as extended, 20 %" in told
    assert "books by lifetime declared at the start\n" in told
    for name in names:
        assert f" {name} " in told.partition("books by lifetime")[2]
    left = story.get("/sla")["classes"][0]["books"][0]["left"]
    metrics = story.client.get("/metrics/clouds").text
    assert f'tenure_cloud_sla_book_left_instances{{class="0.2",cloud="{story.name}",stratum="<1h"}} {left}' in metrics


def test_the_page_says_that_it_compares_the_newest_events_alone(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    def page() -> str:
        cookie = {"Cookie": f"tenure_token={TOKEN}"}
        return " ".join(story.client.get(f"/ui/clouds/{story.name}/promise", headers=cookie).text.split())

    told = "(the newest part of the log; <code>tenure reliability</code> and the interface compare 50,000 events"
    story.start("s", 48, 1800)
    assert told not in page(), "all of it is compared"
    monkeypatch.setattr("app.forecasts.pages.promise._LOOKED_AT", 1)
    assert told in page()
    assert "Times are UTC." in page()


def test_the_log_passes_the_audit_through_a_change_of_the_strata(story: Story) -> None:
    for number in range(4):
        story.start(f"before-{number}", 48, 1800 + 3600 * number)
    story.send("PATCH", story.path, {"policy": {"strata_s": []}, "at": at(49)})
    one = story.start("one", 49, 900)["quote"]["book"]
    assert (one["from_s"], one["below_s"]) == (0, None)
    for number in range(2):
        story.start(f"peak-{number}", 50, market="on_demand", flavor="c4")
    story.send("PATCH", story.path, {"policy": {"guarantee": "pooled"}, "at": at(50)})
    story.start("pooled", 50)
    story.send("PATCH", story.path, {"policy": {"guarantee": "stratified", "strata_s": [7200]}, "at": at(51)})
    story.start("last", 51)
    file = io.StringIO()
    writer = LogWriter(file)
    for event in story.get("/events?limit=1000")["events"]:
        writer.write(of_wire(event))
    rows = [row for _, row in read_rows(io.StringIO(file.getvalue()), "log")]
    found = audit(rows, [])
    assert found.finding is None, found.finding
    assert {row.strata_us for row in rows if row.strata_us is not None} == {
        (3_600_000_000, 86_400_000_000),
        (),
        (7_200_000_000,),
    }


@pytest.mark.parametrize(
    "strata_s", [[3600, 3600], [7200, 3600], [0], [-1], [0.0000001], ["3600"], [1e12], [*range(1, 17)], 3600, None]
)
def test_bad_strata_change_nothing(service: Service, strata_s: Any) -> None:
    body = {"name": "bad-strata", "policy": POLICY | {"strata_s": strata_s}}
    answer = service.client.post("/v1/clouds", json=body)
    assert answer.status_code == 400, answer.text
    assert "strata_s" in answer.json()["errors"][0]["detail"]
    assert service.client.get("/v1/clouds/bad-strata").status_code == 404


def test_the_client_knows_the_guarantee(story: Story) -> None:
    with TenureClient(str(story.client.base_url), TOKEN) as client:
        assert client.cloud(story.name).policy.guarantee == Guarantee.STRATIFIED
        assert client.cloud(story.name).policy.strata_s == [3600, 86400]
        started = client.start(story.name, "typed", "spot", "c1", lifetime_s=600, at=story.get("")["at"])
        assert started.quote is not None
        assert started.quote.book is not None
        assert started.quote.book.below_s == 3600
        (line,) = client.sla(story.name).classes
        assert line.books is not None
        assert len(line.books) == 3


def test_a_cloud_counts_core_hours_and_everything_says_so(service: Service) -> None:
    """The policy's field, decisions, explanations, /sla, the page and metrics agree, through an extension."""
    story = Story(service, "core-hours", budget="core_hours")
    story.learn()
    assert story.get("")["policy"]["budget"] == "core_hours"
    for number in range(6):
        story.start(f"s{number}", 48, 1800 if number % 2 else 7200, count=1 + number % 2)
    asked = story.start("next", 48, 7200)["quote"]["book"]
    assert (asked["core_hours"], asked["evicted_core_hours"]) == (2, 0)
    refused = story.start("heavy", 48, 2 * 86400)
    instead = refused["acceptable"]["lifetime_s"]
    assert refused["reason"] == "budget_exhausted"
    assert 0 < instead == refused["quote"]["book"]["affordable_lifetime_s"] < 2 * 86400
    assert story.start("lighter", 48, instead)["status"] == "accepted"
    told = " ".join(story.get("/instances/heavy/explanation")["sentences"])
    assert "counts core-hours" in told
    assert "This instance declared 48" in told
    check_told_in_core_hours(story)

    extended = story.send("POST", f"{story.path}/instances/lighter/extend", {"lifetime_s": instead + 60, "at": at(48)})
    assert extended["quote"]["book"]["core_hours"] == pytest.approx((instead + 60) / 3600)
    story.send("PATCH", story.path, {"policy": {"budget": "instances"}, "at": at(49)})
    after = story.start("counted", 49, 7200)["quote"]["book"]
    assert after["core_hours"] is None
    story.send("PATCH", story.path, {"policy": {"guarantee": "pooled", "budget": "core_hours"}, "at": at(49)})
    budget = story.start("pooled", 49, 3600)["quote"]["budget"]
    assert (budget["core_hours"], budget["evicted_core_hours"]) == (1, 0)
    (line,) = story.get("/sla")["classes"]
    assert (line["budget"]["unit"], line["budget"]["spent_core_hours"]) == ("core_hours", 0)
    wrong = story.send("PATCH", story.path, {"policy": {"budget": "cores"}, "at": at(49)}, status=400)
    assert "budget" in wrong["errors"][0]["detail"]


def check_told_in_core_hours(story: Story) -> None:
    """Check `/sla`, the page and the metrics."""
    (line,) = story.get("/sla")["classes"]
    book = line["books"][1]
    assert (book["unit"], line["books"][0]["unit"]) == ("core_hours", "core_hours")
    assert book["mean_core_hours"] == pytest.approx(2, rel=1e-3)
    page = story.client.get(f"/ui/clouds/{story.name}/promise", headers={"Cookie": f"tenure_token={TOKEN}"})
    assert "Books by lifetime declared at the start, in core-hours" in page.text
    metrics = story.client.get("/metrics/clouds").text
    stands = f'{{class="0.2",cloud="{story.name}",stratum="1h-1d"}} {book["left"]}'
    assert f"tenure_cloud_sla_book_left_core_hours{stands}" in metrics
    assert f'tenure_cloud_sla_book_left_instances{{class="0.2",cloud="{story.name}"' not in metrics
