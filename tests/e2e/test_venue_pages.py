"""The pages of venues and plans in a real browser: each state of each page, wrong input, live updates, axe."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from api_service import TOKEN, Service, running_service
from axe_playwright_python.sync_playwright import Axe
from browser import Watched, chromium, sign_in
from playwright.sync_api import Browser, BrowserContext, Page, expect

from app.domain.times import DAY_US, HOUR_US, rfc3339
from app.processes.import_wiring import open_venue_imports
from app.venues.rules.pricefiles import PriceRows
from app.venues.rules.rates import RevokedBy

pytestmark = pytest.mark.long
END_US = int(time.time() * 1_000_000) // HOUR_US * HOUR_US
DAYS = 12
OLD_US = 11 * 366 * DAY_US
POOL = {"provider": "aws", "region": "us-east-1", "zone": "us-east-1a", "instance_type": "c3.xlarge",
        "product": "Linux/UNIX"}  # fmt: skip


def lines(zone: str, *, is_constant: bool = False, until_us: int = END_US, before_us: int = 0) -> list[str]:
    """Return prices of a pool of the last days, which move every half hour or are told again each hour."""
    draw, found = np.random.default_rng(ord(zone)), []
    for at_us in range(END_US - DAYS * DAY_US, until_us + 1, HOUR_US if is_constant else HOUR_US // 2):
        spike = 10.0 if draw.random() < 0.01 else 1.0
        price = 0.05 if is_constant else round(0.03 * spike * float(np.exp(draw.normal(0, 0.3))), 4)
        found.append(f"aws,us-east-1,us-east-1{zone},c3.xlarge,Linux/UNIX,{rfc3339(at_us - before_us)},{price},USD")
    return found


def in_a_thread(work: Any) -> None:
    """Run it where no event loop of a browser is."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def bare(service: Service, name: str) -> None:
    """Make a venue without any price, as following a provider that does not answer does."""

    async def work() -> None:
        async with open_venue_imports(service.settings) as imports:
            await imports.run(name, PriceRows(END_US), {}, [], RevokedBy.CAPACITY)

    asyncio.run(work())


def post(service: Service, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = service.client.post(path, json=body, timeout=180)
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[Service]:
    with running_service(database_url) as service:
        service.import_prices("aws-east", [*lines("a"), *lines("b"), *lines("c")])
        service.import_prices("constant", lines("a", is_constant=True))
        service.import_prices("old", lines("a", before_us=OLD_US))
        bare(service, "bare")
        bare(service, "scarce")
        seen = [
            POOL | {"id": f"i{at}", "at": rfc3339(END_US - (at + 20) * HOUR_US + age * HOUR_US), "kind": kind}
            for at in range(20)
            for age, kind in ((0, "started"), (at + 1, "revoked"))
        ]
        post(service, "/v1/venues/scarce/observations", {"observations": seen})
        plans(service)
        yield service


def plans(service: Service) -> None:
    """Plans: one with an outcome, one of a job without a deadline, with a peer that is paused."""
    peer = {"name": "idle", "url": "https://peer.example.org", "cloud": "x", "token": "t"}
    post(service, "/v1/peers", peer)
    assert service.client.post("/v1/peers/idle/pause").is_success
    jobs = [
        {"id": f"render-{at}", "work_s": 3600 * (at + 1), "on_type": "c3.xlarge",
         "deadline": rfc3339(END_US + (4 + 3 * at) * HOUR_US)}
        for at in range(4)
    ]  # fmt: skip
    checkpoint = {"write_s": 60, "read_s": 60}
    rate = {"name": "spot-v100", "zone": "b", "price": 0.5, "on_demand_price": 3.0, "lost_in_a_month": 0.125}
    post(service, "/v1/plans", {"id": "nightly", "jobs": jobs, "venues": ["aws-east"], "checkpoint": checkpoint})
    told = {"job": "render-0", "cost": 0.05, "lost": 1, "ended_at": rfc3339(time.time_ns() // 1000)}
    post(service, "/v1/plans/nightly/outcomes", told)
    post(service, "/v1/plans", {"id": "stale", "jobs": jobs[:1], "venues": ["old"]})
    worth = {"id": "once", "work_s": 3600, "value": 1.0}
    body = {"id": "worth", "jobs": [worth], "rates": [rate], "peers": [{"peer": "idle", "cores": 2}], "probability": 0}
    post(service, "/v1/plans", body)


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
    page = context.new_page()
    sign_in(page, service.url, TOKEN)
    return page


def pool_path(service: Service, venue: str) -> str:
    [pool] = service.client.get(f"/v1/venues/{venue}/pools", params={"zone": "us-east-1a"}).json()["pools"]
    return f"/ui/venues/{venue}/pools/{pool['id']}"


def test_from_the_overview_to_the_curves_of_a_pool(page: Page, service: Service) -> None:
    page.get_by_role("link", name="Venues", exact=True).click()
    page.get_by_role("link", name="aws-east", exact=True).click()
    page.get_by_label("Live for").fill("3h")
    page.get_by_role("button", name="Ask").click()
    rows = page.get_by_role("region", name="List of bids").get_by_role("row")
    expect(rows).to_have_count(4)
    page.get_by_role("link", name="us-east-1a c3.xlarge").click()
    expect(page.get_by_role("heading", name="us-east-1a c3.xlarge")).to_be_visible()
    expect(page.locator("[data-chart] canvas")).to_have_count(3)
    for heading in ("Price", "How long a machine lives", "Which bid a lifetime needs"):
        expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
    page.get_by_label("Bids for an hour").fill("0.07; 0.5")
    page.get_by_role("button", name="Show").click()
    legend = page.get_by_role("region", name="How long a machine lives").locator(".u-legend")
    expect(legend).to_contain_text("bid 0.07")
    expect(legend).to_contain_text("bid 0.5, at least")
    page.get_by_role("region", name="How long a machine lives").get_by_text("As a table").click()
    table = page.get_by_role("region", name="Survival by lifetime").get_by_role("row")
    expect(table).to_have_count(1 + 2 * 17)
    pool = int(page.url.split("/pools/")[1].split("?")[0])
    told = service.client.get(
        f"/v1/venues/aws-east/pools/{pool}/survival", params={"bid": "0.5", "at": rfc3339(END_US)}
    ).json()
    points = told["curves"][0]["points"]
    expect(table.nth(17 + 3)).to_contain_text(f"{points[2]['windows']}")


@pytest.mark.parametrize("wrong", ["cheap", "-1", "1e400", "1;2;3;4;5", "0.0.1", "\u0661"])
def test_bids_that_cannot_be_read_are_told_and_kept(page: Page, service: Service, wrong: str) -> None:
    page.goto(f"{service.url}{pool_path(service, 'aws-east')}")
    page.get_by_label("Bids for an hour").fill(wrong)
    page.get_by_label("Bids for an hour").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Write up to four prices")
    expect(page.get_by_label("Bids for an hour")).to_have_value(wrong)
    expect(page.locator("[data-chart] canvas")).to_have_count(3)


@pytest.mark.parametrize(("time_asked", "share"), [("x", "95"), ("6h", "x"), ("6h", "0"), ("6h", "100"), ("6h", "nan"),
                                                   ("0h", "95"), ("999999d", "95"), ("", "")])  # fmt: skip
def test_a_question_that_cannot_be_read_is_told_and_kept(
    page: Page, service: Service, time_asked: str, share: str
) -> None:
    page.goto(f"{service.url}/ui/venues/aws-east")
    page.get_by_label("Live for").fill(time_asked)
    page.get_by_label("Share that is to live").fill(share)
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Live for")).to_have_value(time_asked)
    expect(page.get_by_label("Share that is to live")).to_have_value(share)


def test_a_venue_without_prices_says_so(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/venues/bare")
    expect(page.locator(".empty")).to_contain_text("No pools yet")
    page.goto(f"{service.url}/ui/venues/bare/reliability")
    expect(page.locator(".empty")).to_contain_text("No outcomes yet")


def test_a_constant_price_lives_but_is_never_certain(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/venues/constant")
    row = page.get_by_role("region", name="List of bids").get_by_role("row").nth(1)
    expect(row).to_contain_text("100 %")
    bound = row.locator("[data-label='At least']").inner_text()
    assert 0 < float(bound.removesuffix("%").strip()) < 100
    page.goto(f"{service.url}{pool_path(service, 'constant')}")
    expect(page.locator("[data-chart] canvas")).to_have_count(3)


def test_where_capacity_ends_machines_the_observed_curve_is_drawn(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/venues/scarce")
    page.get_by_role("link", name="us-east-1a c3.xlarge").click()
    expect(page.locator("[data-chart] canvas")).to_have_count(1)
    expect(page.locator("main")).to_contain_text("from what was observed of them")
    expect(page.get_by_label("Bids for an hour")).to_have_count(0)


def test_a_pools_page_renews_itself_after_an_import(page: Page, service: Service) -> None:
    page.goto(f"{service.url}{pool_path(service, 'constant')}")
    expect(page.locator("[data-pulse]")).to_contain_text("Live")
    newer = f"aws,us-east-1,us-east-1a,c3.xlarge,Linux/UNIX,{rfc3339(END_US + 60_000_000)},0.08,USD"
    in_a_thread(lambda: service.import_prices("constant", [newer]))
    expect(page.locator("body[data-renewed]")).to_be_attached(timeout=15_000)
    expect(page.locator(".facts")).to_contain_text("0.08")


def test_a_plan_shows_its_jobs_over_time_and_its_cost(page: Page, service: Service) -> None:
    page.get_by_role("link", name="Plans", exact=True).click()
    page.get_by_role("link", name="nightly", exact=True).click()
    expect(page.get_by_role("img", name="Cost of replays")).to_be_visible()
    rows = page.get_by_role("region", name="List of jobs").get_by_role("row")
    expect(rows).to_have_count(5)
    expect(page.get_by_role("img", name="render-0, typical")).to_be_visible()
    expect(rows.nth(1)).to_contain_text("0.05, 1 lost")
    expect(rows.nth(2)).to_contain_text("open")
    page.goto(f"{service.url}/ui/plans/worth")
    expect(page.get_by_role("region", name="List of jobs")).to_contain_text("spot-v100")
    expect(page.get_by_role("region", name="List of places left out")).to_contain_text("an operator paused it")
    page.goto(f"{service.url}/ui/venues/aws-east/reliability")
    expect(page.get_by_role("img", name="Lived 0 %")).to_have_count(2)
    expect(page.locator(".page-head")).to_contain_text("outcomes of 1 job of plans")


def test_prices_say_whether_they_are_of_an_hour_or_of_the_whole_time(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/venues/aws-east?for=6h")
    headers = page.get_by_role("columnheader").all_inner_texts()
    assert {"Price an hour", "Bid an hour", "Cost of 6 h", "On demand for 6 h"} <= set(headers)
    assert not page.locator(".advice").count()
    row = page.get_by_role("region", name="List of bids").get_by_role("row").nth(1)
    expect(row.locator("[data-label='On demand for 6 h']")).to_have_text("1.26")


def test_old_prices_say_how_old_they_are(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/venues/old")
    expect(page.locator(".advice")).to_contain_text("These prices are 11 years old")
    page.goto(f"{service.url}{pool_path(service, 'old')}")
    expect(page.locator(".advice")).to_contain_text("These prices are 11 years old")
    expect(page.locator(".fact").first).to_contain_text(f"as of {rfc3339(END_US - OLD_US)[:10]}")
    page.goto(f"{service.url}/ui/plans/stale")
    expect(page.locator(".advice")).to_contain_text("11 years before this plan")
    expect(page.locator("main")).to_contain_text("There is no replay")
    expect(page.locator(".key")).to_have_count(0)


def test_the_federation_leads_to_what_plans_promised_of_a_peer(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/ui/federation")
    page.get_by_role("link", name="What plans promised of idle").click()
    expect(page.get_by_role("heading", name="Reliability")).to_be_visible()


PLACES = [
    "venues", "venues/aws-east", "venues/bare", "venues/constant", "venues/scarce", "venues/aws-east?for=x",
    "venues/aws-east/reliability", "venues/bare/reliability", "plans", "plans/nightly", "plans/worth",
    "plans/stale", "venues/old", "federation",
]  # fmt: skip


def places(service: Service) -> list[str]:
    pools = [pool_path(service, venue) for venue in ("aws-east", "constant", "scarce")]
    return [*(f"/ui/{place}" for place in PLACES), *pools, f"{pools[0]}?bids=x"]


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_every_page_is_accessible(browser: Browser, service: Service, scheme: str) -> None:
    """By axe: names, roles, structure, and the contrast of every text."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1200, "height": 900})
    page = context.new_page()
    sign_in(page, service.url, TOKEN)
    found = {}
    for place in places(service):
        page.goto(f"{service.url}{place}")
        for summary in page.locator("details > summary").all():
            summary.click()
        rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
        results = Axe().run(page, options={"runOnly": rules})
        found[place] = [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in results.response["violations"]]
    context.close()
    assert {place: said for place, said in found.items() if said} == {}


@pytest.mark.parametrize("width", [320, 400])
def test_no_page_is_broader_than_a_phone(browser: Browser, service: Service, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 700})
    page = context.new_page()
    sign_in(page, service.url, TOKEN)
    broad = {}
    for place in places(service):
        page.goto(f"{service.url}{place}")
        broad[place] = page.evaluate("document.documentElement.scrollWidth")
    context.close()
    assert {place: size for place, size in broad.items() if size > width} == {}


CUT_OFF = (
    "() => [...document.querySelectorAll('.table-wrap')].filter((one) => one.scrollWidth > one.clientWidth).length"
)


@pytest.mark.parametrize(("width", "media"), [(1280, "screen"), (718, "print")])
def test_no_column_is_cut_off(browser: Browser, service: Service, width: int, media: Any) -> None:
    """On a screen of 1280 px, and on A4 between usual margins, which is 718 px wide."""
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    sign_in(page, service.url, TOKEN)
    page.emulate_media(media=media)
    cut = {}
    for place in places(service):
        page.goto(f"{service.url}{place}")
        expect(page.get_by_text("Times are UTC.")).to_be_attached()
        cut[place] = page.evaluate(CUT_OFF)
    context.close()
    assert {place for place, count in cut.items() if count} == set()
