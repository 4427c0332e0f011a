"""The operator's pages in a real browser: signing in, each page, live updates, keyboard, nothing from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import anyio
import httpx2
import pytest
from api_service import TOKEN, Service, running_service
from axe_playwright_python.sync_playwright import Axe
from browser import Watched, chromium, sign_in
from playwright.sync_api import Browser, BrowserContext, Page, expect

from app.domain.events import (
    CloudCreated,
    Event,
    EvictionOverdue,
    EvictionRisk,
    EvictionScheduled,
    FlavorAdded,
    InstanceEvicted,
    InstanceStarted,
    JobAdmitted,
    JobAwarded,
    JobDeclined,
    JobOffered,
    JobRequested,
    NodeAdded,
    Recorded,
    RoomHeld,
)
from app.domain.events.formats import LOG_FORMAT
from app.domain.jobs import Federate
from app.domain.times import HOUR_US, SECOND_US, at_least_text
from app.domain.values import (
    Basis,
    Clock,
    EvictionReason,
    Guarantee,
    Market,
    Policy,
    ProposedMove,
    Resources,
    RiskLevel,
)
from app.platform.database.database import Database
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog

pytestmark = pytest.mark.long
CLOUD = "/v1/clouds/north"


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[Service]:
    with running_service(database_url) as service:
        furnish(service.client)
        sell(service)
        cluster(service.client)
        federate(service.client)
        anyio.run(give_notice, database_url)
        anyio.run(share, database_url)
        service.roll_up()
        yield service


def furnish(client: httpx2.Client) -> None:
    """A cloud in which something was evicted and something rejected."""
    post(client, "/v1/clouds", {"name": "north", "policy": {"guarantee": "none"}})
    post(client, "/v1/clouds", {"name": "empty"})
    post(client, "/v1/clouds", {"name": "calm", "policy": {"grace_s": 60, "risk_threshold": 0.5}})
    for name in ("a", "b"):
        post(client, f"{CLOUD}/nodes", {"name": f"node-{name}", "cores": 4})
    for cores in (1, 4):
        post(client, f"{CLOUD}/flavors", {"name": f"c{cores}", "cores": cores})
    start(client, "resident", "on_demand", "c1")
    start(client, "victim", "spot", "c4")
    start(client, "intruder", "on_demand", "c4")
    start(client, "refused", "spot", "c4")


def sell(service: Service) -> None:
    """A cloud with a past of its own, a table computed from it, and decisions that rest on the table."""
    client, path = service.client, "/v1/clouds/sold"
    policy = {
        "clock": "external", "eviction_probability": 0.05, "warm_up_s": 0, "sample_count": 500, "horizon_s": 86400,
        "recompute_every_s": 21600, "table_max_age_s": 86400,
    }  # fmt: skip
    post(client, "/v1/clouds", {"name": "sold", "policy": policy | {"guarantee": "none"}})
    post(client, f"{path}/nodes", {"name": "n", "cores": 6})
    post(client, f"{path}/flavors", {"name": "c1", "cores": 1})
    operations: list[dict[str, object]] = []
    for number in range(300):
        body = {"id": f"o{number}", "market": "on_demand", "flavor": "c1", "at": at(300 * number)}
        operations.append({"start": body})
        if number % 100 == 50:
            burst = [f"burst-{number}-{place}" for place in range(4)]
            operations += [{"start": body | {"id": name}} for name in burst]
        if number % 100 == 53:
            operations += [{"stop": {"id": name, "at": at(300 * number)}} for name in burst]
        if number >= 2:
            operations.append({"stop": {"id": f"o{number - 2}", "at": at(300 * number + 60)}})
    post(client, f"{path}/batch", {"operations": operations})
    assert client.patch(path, json={"policy": {"guarantee": "per_instance"}}).is_success
    assert client.post(f"{path}/tables").is_success
    service.compute_tables()
    service.wait_for_epoch("sold", 1)
    for name, lifetime_s in (("welcome", 600), ("unwelcome", 86_000)):
        post(client, f"{path}/instances", {
            "id": name, "market": "spot", "flavor": "c1", "lifetime_s": lifetime_s, "at": at(90_000),
        })  # fmt: skip


NOTICED = "/v1/clouds/noticed"
DEADLINE_US = 70 * SECOND_US


RISK: dict[str, Any] = {
    "level": RiskLevel.RAISED, "probability": 0.625, "threshold": 0.5, "epoch": 1, "slots": 4,
}  # fmt: skip


def noticed() -> list[Event]:
    """The log of a cloud in which an eviction is overdue, and an instance at risk."""
    policy = Policy(Guarantee.NONE, clock=Clock.EXTERNAL, grace_us=60 * SECOND_US, risk_threshold=0.5)
    evicted: dict[str, Any] = {"instance_id": "s3", "reason": EvictionReason.ON_DEMAND_START, "cause_seq": 12}
    spot: dict[str, Any] = {"market": Market.SPOT, "flavor": "c1", "node": "n"}
    return [
        CloudCreated(at_us=0, policy=policy),
        NodeAdded(at_us=0, node="n", capacity=Resources(4)),
        NodeAdded(at_us=0, node="m", capacity=Resources(1)),
        FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)),
        *(
            InstanceStarted(at_us=0, instance_id=f"s{number}", **spot, lifetime_us=HOUR_US, basis=Basis(4))
            for number in range(4)
        ),
        EvictionRisk(at_us=5 * SECOND_US, instance_id="s0", **RISK, moves=(ProposedMove("s0", "n", "m"),)),
        EvictionScheduled(at_us=10 * SECOND_US, **evicted, deadline_us=DEADLINE_US),
        InstanceEvicted(at_us=10 * SECOND_US, **evicted),
        InstanceStarted(
            at_us=10 * SECOND_US,
            instance_id="peak",
            market=Market.ON_DEMAND,
            flavor="c1",
            node="n",
            victims=("s3",),
            deadline_us=DEADLINE_US,
            ready_us=DEADLINE_US,
        ),
        EvictionOverdue(at_us=75 * SECOND_US, instance_id="s3", deadline_us=DEADLINE_US),
    ]


def federated() -> list[Event]:
    """The log of a cloud one of whose jobs was refused by one peer and runs at another; a job of a peer runs here."""
    policy = Policy(Guarantee.NONE, clock=Clock.EXTERNAL)
    asked: dict[str, Any] = {"flavor": "c1", "count": 1, "lifetime_us": HOUR_US}
    offers: dict[str, Any] = {"peers": ("east", "west"), "attempts": 2, "answer_us": 5 * SECOND_US}
    leased: dict[str, Any] = {"hold_us": 30 * SECOND_US, "margin_us": 60 * SECOND_US}
    foreign: dict[str, Any] = {"peer": "west", "job": "theirs", "attempt": 1}
    held: dict[str, Any] = {"until_us": 60 * SECOND_US, "ends_us": 2 * HOUR_US, "instance_id": "west.theirs.1.held"}
    spot: dict[str, Any] = {"market": Market.SPOT, "flavor": "c1", "node": "n", "lifetime_us": HOUR_US, "owner": "west"}
    away: dict[str, Any] = {"job": "away", "attempt": 2}
    return [
        CloudCreated(at_us=0, policy=policy),
        NodeAdded(at_us=0, node="n", capacity=Resources(40)),
        FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)),
        JobRequested(at_us=SECOND_US, job="home", **asked),
        JobAdmitted(at_us=SECOND_US, job="home", count=1),
        InstanceStarted(at_us=SECOND_US, instance_id="home.1", market=Market.ON_DEMAND, flavor="c1", node="n"),
        JobRequested(at_us=10 * SECOND_US, job="away", **asked, **offers, **leased, federate=Federate.ONLY),
        JobOffered(at_us=10 * SECOND_US, job="away", attempt=1, peer="east"),
        JobDeclined(at_us=12 * SECOND_US, job="away", attempt=1, reason="refused", why="quota_exceeded"),
        JobOffered(at_us=12 * SECOND_US, **away, peer="west"),
        JobAwarded(at_us=15 * SECOND_US, **away, reclaim_us=2 * HOUR_US, eviction_probability=0.05),
        RoomHeld(at_us=30 * SECOND_US, **foreign, **held, flavor="c1", count=1, lifetime_us=HOUR_US),
        InstanceStarted(at_us=30 * SECOND_US, instance_id="west.theirs.1.held", **spot, basis=Basis(39)),
    ]


async def share(url: str) -> None:
    """Write the log of such a cloud."""
    await write(url, "shared", federated())


async def give_notice(url: str) -> None:
    """Write the log of a cloud with notices."""
    await write(url, "noticed", noticed())


async def write(url: str, name: str, events: list[Event]) -> None:
    database = Database(url)
    database.newer.log_format = LOG_FORMAT
    recorded = [Recorded(seq, event) for seq, event in enumerate(events, 1)]
    cloud_id = await Clouds(database).create(name, recorded[0])
    await EventLog(database).append(cloud_id, recorded[1:])
    await database.close()


def at(seconds: int) -> str:
    return f"1970-01-{1 + seconds // 86400:02}T{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"


def post(client: httpx2.Client, path: str, body: dict[str, object]) -> dict[str, object]:
    answer = client.post(path, json=body)
    assert answer.is_success, answer.text
    return answer.json()


def start(client: httpx2.Client, name: str, market: str, flavor: str) -> dict[str, object]:
    lifetime = {"lifetime_s": 3600} if market == "spot" else {}
    return post(client, f"{CLOUD}/instances", {"id": name, "market": market, "flavor": flavor} | lifetime)


@pytest.fixture(scope="module")
def browser(service: Service) -> Iterator[Browser]:
    """After the service, which cannot be started once the browser's event loop runs here."""
    assert service.url
    with chromium() as browser:
        yield browser


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A fresh browser; whatever it did, it asked nobody else for anything and had nothing to complain of."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    watched = Watched()
    watched.watch(context)
    yield context
    context.close()
    assert watched.elsewhere == []
    assert watched.complaints == []


@pytest.fixture
def page(context: BrowserContext, service: Service) -> Page:
    """Signed in, at the overview."""
    page = context.new_page()
    sign_in(page, service.url, TOKEN)
    return page


def test_signing_in_leads_to_where_one_wanted_to_go(context: BrowserContext, service: Service) -> None:
    page = context.new_page()
    sign_in(page, service.url, TOKEN, "/ui/clouds/north/decisions?outcome=evicted")
    expect(page.get_by_role("heading", name="Decisions", exact=True)).to_be_visible()
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"], cookie["secure"]) == (True, "Strict", "/ui", False)
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(f"{service.url}/ui/sign-in")
    assert context.cookies() == []
    page.goto(f"{service.url}/ui")
    assert page.url.startswith(f"{service.url}/ui/sign-in")


def test_a_wrong_token_is_told_and_signs_nobody_in(browser: Browser, service: Service) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{service.url}/ui")
    page.get_by_label("Token").fill("tnr_not-a-token-at-all")
    page.get_by_label("Token").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    assert context.cookies() == []
    context.close()


def test_the_overview_shows_every_cloud(page: Page) -> None:
    expect(page.get_by_role("link", name="north")).to_be_visible()
    expect(page.get_by_role("link", name="empty")).to_be_visible()
    expect(page.get_by_role("img", name="north: 5 of 8 cores on-demand, 0 spot, 3 free")).to_be_visible()


def test_a_start_shows_by_itself(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/clouds/north")
    expect(page.locator("[data-pulse]")).to_contain_text("Live")
    rows = page.locator(".story > li")
    before = rows.count()
    start(service.client, "newcomer", "on_demand", "c1")
    expect(page.get_by_role("link", name="newcomer")).to_be_visible()
    expect(page.get_by_role("img", name="In use now: 6 of 8 cores on-demand, 0 spot, 2 free")).to_be_visible()
    assert rows.count() == min(8, before + 1)
    assert service.client.delete(f"{CLOUD}/instances/newcomer").is_success
    expect(page.get_by_role("img", name="In use now: 5 of 8 cores on-demand, 0 spot, 3 free")).to_be_visible()


def test_why_an_instance_was_evicted(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/clouds/north/decisions")
    page.get_by_label("Why was this instance").fill("victim")
    page.get_by_role("button", name="Explain").click()
    page.wait_for_url(f"{service.url}/ui/clouds/north/instances/victim")
    expect(page.get_by_role("heading", name="Why it was evicted")).to_be_visible()
    expect(page.locator(".prose")).to_contain_text("intruder")
    page.get_by_role("link", name="intruder").first.click()
    expect(page.get_by_role("heading", name="intruder")).to_be_visible()
    expect(page.get_by_role("heading", name="Evicted for it")).to_be_visible()


def test_why_an_instance_was_rejected(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/clouds/north/decisions")
    page.get_by_label("Outcome").select_option("rejected")
    page.get_by_role("button", name="Show").click()
    assert page.locator(".story > li").count() == 1
    page.get_by_role("link", name="refused").click()
    expect(page.get_by_role("heading", name="Why it was rejected")).to_be_visible()
    expect(page.locator(".prose")).to_contain_text("room")


def test_an_instance_that_nobody_knows(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/clouds/north/decisions?instance=nobody")
    expect(page.get_by_role("alert")).to_contain_text("nobody")


def test_what_is_not_there_is_a_page_too(browser: Browser, service: Service) -> None:
    context = browser.new_context()
    page = context.new_page()
    sign_in(page, service.url, TOKEN)
    for path in ("/ui/clouds/none", "/ui/clouds/north/instances/none", "/ui/nothing"):
        answer = page.goto(f"{service.url}{path}")
        assert answer is not None
        assert answer.status == 404
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    context.close()


def test_the_history_is_drawn_and_told(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/clouds/north?over=hour")
    expect(page.locator("[data-chart] canvas")).to_have_count(2)
    expect(page.get_by_role("img", name="Utilisation over time")).to_be_visible()
    page.get_by_text("As a table").click()
    expect(page.get_by_role("region", name="Utilisation over time").get_by_role("row")).not_to_have_count(1)
    page.get_by_role("link", name="week").click()
    expect(page.get_by_role("link", name="week")).to_have_attribute("aria-current", "true")


def test_what_a_chart_says_is_guaranteed_is_rounded_down_as_everywhere(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/clouds/north")
    script = "async (seconds) => (await import('/ui/static/charts.js')).atLeastText(seconds)"
    for us in (0, 1_999_999, 862_913_426, 3_599_999_999, 7_198_295_392, 172_799_999_999, 283_086_118_772):
        assert page.evaluate(script, us / SECOND_US) == at_least_text(us)


def test_no_two_lines_of_an_axis_say_the_same(page: Page, service: Service) -> None:
    """A history of two minutes has lines ten seconds apart."""
    page.goto(f"{service.url}/ui/clouds/north")
    script = "async ([kind, at, step]) => (await import('/ui/static/charts.js')).axisTexts(kind, at, step)"
    for kind, at, step, texts in (
        ("time", [86400 * 365 + 50, 86400 * 365 + 60, 86400 * 366], 10, ["00:00:50", "00:01:00", "2 Jan"]),
        ("time", [86400 * 365 + 3600, 86400 * 365 + 3660], 60, ["01:00", "01:01"]),
        ("number", [0, 0.001, 0.002, 0.5, None, 1], 0.001, ["0", "", "", "0.5", "", "1"]),
    ):
        assert page.evaluate(script, [kind, at, step]) == texts


LABELS = """async (spans) => {
  const { drawCharts } = await import("/ui/static/charts.js");
  const holder = document.querySelector("[data-chart]");
  const write = CanvasRenderingContext2D.prototype.fillText;
  const found = [];
  for (const span of spans) {
    const drawn = [];
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
      if (/^\\d\\d:/.test(text)) drawn.push([x - this.measureText(text).width / 2, this.measureText(text).width, text]);
      return write.call(this, text, x, y, ...more);
    };
    const values = [0, span].map((at) => 1795808000 + at);
    const series = [{ label: `of ${span}`, values: [1, 2], colour: "spot" }];
    holder.dataset.chart = JSON.stringify({ x: { kind: "time", values }, y: { kind: "number" }, series });
    drawCharts(document);
    await new Promise((over) => setTimeout(over, 20));
    drawn.sort((one, other) => one[0] - other[0]);
    found.push(...drawn.slice(1).map(([left, , text], at) => [left - drawn[at][0] - drawn[at][1], span, text]));
  }
  CanvasRenderingContext2D.prototype.fillText = write;
  return found;
}"""


def test_times_of_a_young_cloud_stand_apart(page: Page, service: Service) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(f"{service.url}/ui/clouds/north?over=hour")
    expect(page.locator("[data-chart] canvas")).to_have_count(2)
    gaps = page.evaluate(LABELS, [*range(60, 600, 15)])
    assert len(gaps) > 100
    assert [gap for gap in gaps if gap[0] < 8] == []


@pytest.mark.parametrize("place", ["promise", "quotes", "curves", "owners", "epochs", "jobs"])
def test_pages_of_a_cloud_without_a_past(page: Page, service: Service, place: str) -> None:
    page.goto(f"{service.url}/ui/clouds/empty/{place}")
    expect(page.locator(".empty").first).to_be_visible()
    expect(page.get_by_role("link", name=place.capitalize(), exact=True)).to_have_attribute("aria-current", "page")


PLACES = ["", "/promise", "/quotes", "/curves", "/decisions", "/owners", "/epochs", "/instances/unwelcome"]
OTHER_PLACES = [
    "north/instances/victim", "empty/promise", "empty/curves", "calm", "noticed", "noticed/instances/s3",
    "noticed/instances/peak", "shared/jobs", "shared/jobs/away", "shared/jobs/home", "empty/jobs",
]  # fmt: skip


WHOLE_PLACES = ["/ui/venues", "/ui/clusters", "/ui/clusters/lab", "/ui/federation"]
"""Pages of no cloud."""


def test_a_cluster_is_seen_and_renews_itself(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui")
    page.get_by_role("link", name="Clusters", exact=True).click()
    told(service.client)  # so the manager is not silent, however long ago the cluster was made
    page.get_by_role("link", name="lab", exact=True).click()
    expect(page.get_by_role("heading", name="The manager is at work")).to_be_visible()
    expect(page.locator("[data-chart] canvas")).to_have_count(1)
    row = page.get_by_role("region", name="List of jobs").get_by_role("row").nth(1)
    expect(row).to_contain_text("running")
    expect(page.locator("main")).to_contain_text("acceptable: a lifetime of 300 s")
    expect(page.get_by_role("img", name="1 checkpoints, 1 evictions, queued again 1 times")).to_be_visible()
    expect(page.locator("[data-pulse=live], [data-pulse=fresh]")).to_be_attached()
    told(service.client, ("job_ended", {"job": "1", "state": "completed"}))
    expect(row).to_contain_text("completed", timeout=10_000)


def federate(client: httpx2.Client) -> None:
    """Three peers, of which one is paused, and one has had nothing to do with us."""
    for name in ("east", "new", "west"):
        post(client, "/v1/peers", {"name": name, "url": f"https://{name}.example", "cloud": name, "token": "t"})
    assert client.post("/v1/peers/east/pause").is_success


def test_why_each_peer_refused_a_job_and_where_it_runs(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/clouds/shared")
    page.get_by_role("link", name="Jobs", exact=True).click()
    rows = page.get_by_role("region", name="List of jobs").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("awarded")
    expect(rows.nth(2)).to_contain_text("here")
    page.get_by_role("link", name="away", exact=True).click()
    tries = page.get_by_role("region", name="List of attempts").get_by_role("row")
    expect(tries.nth(1)).to_contain_text("quota exceeded")
    expect(tries.nth(2)).to_contain_text("under way")
    expect(
        page.get_by_role("img", name="Attempt 1 at east: offered 1970-01-01 00:00:10, never awarded")
    ).to_be_visible()
    expect(page.get_by_role("img", name="Attempt 2 at west")).to_be_visible()
    expect(page.get_by_role("link", name="Jobs", exact=True)).to_have_attribute("aria-current", "page")
    expect(page.locator("main")).to_contain_text("Reclaimed from: the end of the lease")
    expect(page.locator(".heat .scale time").first).to_have_text("1970-01-01 00:00:10")


def test_what_peers_promised_and_what_happened(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui")
    page.get_by_role("link", name="Federation", exact=True).click()
    peers = page.get_by_role("region", name="List of peers").get_by_role("row")
    expect(peers.nth(1)).to_contain_text("paused by an operator")
    expect(peers.nth(3)).to_contain_text("in use")
    refused = page.get_by_role("region", name="Our jobs at east").get_by_role("row").nth(1)
    expect(refused).to_contain_text("quota exceeded 1")
    awarded = page.get_by_role("region", name="Our jobs at west").get_by_role("row").nth(1)
    expect(awarded).to_contain_text("5 %")
    here = page.get_by_role("region", name="Jobs of west here").get_by_role("row").nth(1)
    expect(here).to_contain_text("1 of 4")
    expect(page.locator("main")).to_contain_text("Nothing offered yet")


def told(client: httpx2.Client, *events: tuple[str, dict[str, object]]) -> None:
    """Tell of a cluster what just happened."""
    at = datetime.now(UTC).isoformat(timespec="microseconds")
    body = [
        {"key": f"{at}-{place}", "at": at, "kind": kind, "facts": facts} for place, (kind, facts) in enumerate(events)
    ]
    assert client.post("/v1/clusters/lab/events", json={"events": body, "loop_s": 0.1}).is_success


def cluster(client: httpx2.Client) -> None:
    """A cluster in which a job lost its node, and a pool refused."""
    pools = [{"name": "own", "cloud": "north", "flavor": "c1", "market": "on_demand", "price_per_hour": 0.1}]
    pools.append({"name": "spot", "cloud": "north", "flavor": "c1", "price_per_hour": 0.02})  # type: ignore[dict-item]
    assert client.put("/v1/clusters/lab", json={"pools": pools}).is_success
    node, job = {"node": "lab-spot-a", "why": "evicted"}, {"job": "1", "node": "lab-spot-a", "why": "hazard"}
    told(
        client,
        ("job_seen", {"job": "1", "name": "train", "pools": "own,spot", "pause_s": 30}),
        ("node_refused", {"pool": "own", "cloud": "north", "why": "sla_unattainable; acceptable: a lifetime of 300 s"}),
        ("node_bought", {"node": "lab-spot-a", "why": "job 1 waits"}),
        ("node_ready", node),
        ("job_started", job),
        ("job_checkpointed", job),
        ("node_drain", node),
        ("job_requeued", job),
        ("eviction_confirmed", node),
        ("node_bought", {"node": "lab-own-b", "why": "job 1 waits"}),
        ("job_started", {"job": "1", "node": "lab-own-b"}),
    )


def test_the_quote_calculator(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/clouds/sold/quotes")
    page.get_by_label("Run for").fill("30")
    page.get_by_label("Unit").select_option("minutes")
    page.get_by_label("Promised eviction probability").fill("10")
    page.get_by_role("button", name="Ask").click()
    quotes = service.client.get(
        "/v1/clouds/sold/quotes", params={"eviction_probability": 0.1, "lifetime_s": 1800}
    ).json()["quotes"]
    card = page.locator("#quote-c1")
    expect(card).to_contain_text("How long at 10 %?")
    expect(card).to_contain_text("How likely evicted within 30 min?")
    expect(card).to_contain_text(f"of {quotes[0]['slots']} slot")
    expect(card).to_contain_text(f"{quotes[0]['windows']:.0f} window")
    page.get_by_label("Run for").fill("long")
    page.get_by_label("Run for").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("must be a number")
    expect(page.get_by_label("Run for")).to_have_value("long")


def test_what_one_is_typing_stays_when_the_page_renews_itself(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/clouds/north/quotes")
    page.get_by_label("Run for").fill("77")
    expect(page.locator("[data-pulse]")).to_contain_text("Live")
    start(service.client, "unrelated", "on_demand", "c1")
    expect(page.locator("body[data-renewed]")).to_be_attached()
    expect(page.get_by_label("Run for")).to_have_value("77")
    expect(page.get_by_label("Run for")).to_be_focused()
    assert service.client.delete(f"{CLOUD}/instances/unrelated").is_success


def test_why_the_sla_refused(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/clouds/sold/instances/unwelcome")
    expect(page.get_by_role("heading", name="Why it was rejected")).to_be_visible()
    expect(page.locator("main")).to_contain_text("Guaranteed lifetime")
    expect(page.locator("main")).to_contain_text("Bound")
    expect(page.locator("main")).to_contain_text("Windows")
    expect(page.locator(".advice")).to_contain_text("It would have been accepted")


def test_the_promise_and_the_curves(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/clouds/sold/promise")
    expect(page.get_by_role("heading", name="Evicted at most 5 %")).to_be_visible()
    expect(page.locator("main")).to_contain_text("0 of 1 admitted")
    estimates = page.get_by_role("region", name="Estimates and what happened")
    expect(estimates.get_by_role("columnheader", name="Bound")).to_be_visible()
    page.goto(f"{service.url}/ui/clouds/sold/curves?flavor=c1")
    expect(page.locator("[data-chart] canvas")).to_have_count(2)
    page.goto(f"{service.url}/ui/clouds/sold/epochs")
    expect(page.get_by_role("region", name="List of tables").get_by_role("row")).to_have_count(2)


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_every_page_is_accessible(browser: Browser, service: Service, scheme: str) -> None:
    """By axe: names, roles, structure, and the contrast of every text."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.goto(f"{service.url}/ui/sign-in")
    found = {"/ui/sign-in": faults(page)}
    sign_in(page, service.url, TOKEN)
    found["/ui"] = faults(page)
    for place in [*(f"sold{place}" for place in PLACES), *OTHER_PLACES]:
        page.goto(f"{service.url}/ui/clouds/{place}")
        for summary in page.locator("details > summary").all():
            summary.click()
        found[place] = faults(page)
    for place in WHOLE_PLACES:
        page.goto(f"{service.url}{place}")
        found[place] = faults(page)
    context.close()
    assert {place: said for place, said in found.items() if said} == {}


def faults(page: Page) -> list[str]:
    results = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]})
    return [f"{one['id']}: {[node['html'][:120] for node in one['nodes']]}" for one in results.response["violations"]]


@pytest.mark.parametrize("width", [320, 400])
def test_no_page_is_broader_than_a_phone(browser: Browser, service: Service, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 700})
    page = context.new_page()
    sign_in(page, service.url, TOKEN)
    broad = {}
    places = [f"{cloud}{place}" for cloud in ("sold", "north") for place in PLACES[:7]]
    for place in ["/ui", *WHOLE_PLACES, *(f"/ui/clouds/{place}" for place in [*places, *OTHER_PLACES])]:
        page.goto(f"{service.url}{place}")
        broad[place] = page.evaluate("document.documentElement.scrollWidth")
    context.close()
    assert {place: size for place, size in broad.items() if size > width} == {}


def test_the_header_breaks_no_word(browser: Browser, service: Service) -> None:
    context = browser.new_context()
    page = context.new_page()
    sign_in(page, service.url, TOKEN)
    page.goto(f"{service.url}/ui/clouds/sold")
    expect(page.get_by_role("link", name="Federation")).to_be_visible()
    heights = {}
    for width in (660, 680, 700, 720, 800, 1200):
        page.set_viewport_size({"width": width, "height": 700})
        heights[width] = page.locator(".top-row a, .top-row button").evaluate_all(
            "all => all.map((e) => e.offsetHeight)"
        )
        assert page.locator(".top-row").evaluate("e => e.scrollWidth <= e.clientWidth"), width
    context.close()
    assert len({tuple(one) for one in heights.values()}) == 1, heights


def test_a_phone_shows_the_tab_and_every_cell(browser: Browser, service: Service) -> None:
    """Nothing scrolled aside is seen: the tab of the page, and each value of its tables, are within the width."""
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    sign_in(page, service.url, TOKEN)
    hidden = {}
    for place in PLACES[:7]:
        page.goto(f"{service.url}/ui/clouds/sold{place}")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        expect(page.locator(".tabs [aria-current]")).to_be_in_viewport(ratio=1)
        rights = "all => all.map((one) => one.getBoundingClientRect()).filter((one) => one.right > innerWidth).length"
        hidden[place] = page.locator("main td").evaluate_all(rights)
    context.close()
    assert set(hidden.values()) == {0}, hidden


def test_the_page_of_no_cloud_has_no_tabs(browser: Browser, service: Service) -> None:
    page = browser.new_page()
    sign_in(page, service.url, TOKEN)
    page.goto(f"{service.url}/ui/clouds/nowhere/quotes")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.locator(".tabs")).to_have_count(0)
    page.close()


def test_everything_is_reached_by_keyboard(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/clouds/sold")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.textContent.trim().replace(/\\s+/g, ' ')")
        ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        if page.evaluate("document.activeElement === document.body"):
            break
        assert ring != "none", name
        reached.append(name)
    wanted = [
        "Tenure",
        "Sign out",
        "Clouds",
        "Now",
        "Promise",
        "Quotes",
        "Curves",
        "Decisions",
        "Epochs",
        "hour",
        "all",
    ]
    assert [name for name in reached if name in wanted] == wanted
    page.goto(f"{service.url}/ui/clouds/sold")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_the_theme_is_the_systems_or_ones_own(page: Page, service: Service) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    button = page.locator("[data-theme-switch]")
    expect(button).to_have_accessible_name("Theme: System")
    button.click()
    button.click()
    expect(button).to_have_accessible_name("Theme: Dark")
    dark = page.evaluate(ground)
    assert dark != light
    page.goto(f"{service.url}/ui/clouds/north")
    assert page.evaluate(ground) == dark, "the choice holds for the next page, from its first moment"
    page.locator("[data-theme-switch]").click()
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(ground) == dark


def test_without_scripts_the_pages_are_whole(browser: Browser, service: Service) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    sign_in(page, service.url, TOKEN)
    page.goto(f"{service.url}/ui/clouds/sold/quotes?lifetime=1&unit=h&probability=5")
    expect(page.locator("#quote-c1")).to_contain_text("How likely evicted within 1 h?")
    context.close()


def test_a_token_that_is_revoked_signs_an_open_page_out(browser: Browser, service: Service) -> None:
    token = post(service.client, "/v1/tokens", {"name": "guest", "role": "reader"})
    context = browser.new_context()
    page = context.new_page()
    sign_in(page, service.url, str(token["token"]), "/ui/clouds/north")
    expect(page.locator("[data-pulse]")).to_contain_text("Live")
    assert service.client.delete(f"/v1/tokens/{token['id']}").is_success
    page.wait_for_url(re.compile(r"/ui/sign-in\?"), timeout=20_000)
    context.close()


def test_notices_are_told_where_an_instance_is_explained(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/clouds/noticed/decisions?outcome=accepted&market=on_demand")
    expect(page.locator(".story")).to_contain_text("which may run until 1970-01-01 00:01:10 UTC; its room is free from")
    page.get_by_role("link", name="peak").click()
    expect(page.locator("main")).to_contain_text("It may run until 1970-01-01 00:01:10.")
    page.goto(f"{service.url}/ui/clouds/noticed/instances/s3")
    expect(page.locator(".page-head")).to_contain_text("hand-over overdue")
    expect(page.locator(".prose")).to_contain_text("no controller has confirmed its stop")
    page.goto(f"{service.url}/ui/clouds/noticed/instances/s0")
    expect(page.locator(".page-head")).to_contain_text("at risk")
    expect(page.locator(".prose")).to_contain_text("was 62.5 %, above the policy's 50 %.")
    expect(page.locator(".prose")).to_contain_text("To spare it, s0 could be moved from n to m.")


def test_hand_overs_and_risks_show_by_themselves(page: Page, service: Service) -> None:
    card = page.locator("#cloud-noticed")
    expect(card).to_contain_text("1 overdue of 1")
    expect(card).to_contain_text("1 instance")
    page.goto(f"{service.url}/ui/clouds/noticed")
    expect(page.locator("[data-pulse]")).to_contain_text("Live")
    leaving, at_risk = (page.get_by_role("region", name=name, exact=True) for name in ("Hand-overs", "At risk"))
    expect(leaving).to_contain_text("should have stopped by 1970-01-01 00:01:10, and may still hold its room.")
    expect(at_risk.get_by_role("link")).to_have_text(["s0", "s0"])
    expect(at_risk).to_contain_text("To spare it, as of 1970-01-01 00:00:05: move s0 from n to m.")
    post(service.client, f"{NOTICED}/drill", {"instance": "s0", "at": at(80)})
    expect(leaving).to_contain_text("1 overdue, 1 pending")
    expect(leaving.get_by_role("link")).to_have_text(["s3", "s0"])
    expect(leaving).to_contain_text("Evicted in a drill; may run until 1970-01-01 00:02:20.")
    expect(at_risk).to_contain_text("None now.")
    for name in ("s3", "s0"):
        assert service.client.post(f"{NOTICED}/handovers/{name}/confirm", params={"at": at(90)}).is_success
    expect(leaving).to_contain_text("None now.")


def test_notices_are_shown_where_a_policy_asks_for_them(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/clouds/calm")
    expect(page.get_by_role("region", name="Hand-overs", exact=True)).to_contain_text("None now.")
    expect(page.get_by_role("region", name="At risk", exact=True)).to_contain_text("more likely than 50 %")
    page.goto(f"{service.url}/ui/clouds/north")
    expect(page.get_by_role("heading", name="In use now")).to_be_visible()
    expect(page.get_by_role("heading", name="Hand-overs")).to_have_count(0)
    expect(page.get_by_role("heading", name="At risk")).to_have_count(0)
