"""The operator's pages in a real browser: signing in, each page, live updates, keyboard, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from api_service import TOKEN, Service, running_service
from browser import Watched, chromium, sign_in
from playwright.sync_api import Browser, BrowserContext, Page, expect

CLOUD = "/v1/clouds/north"


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[Service]:
    with running_service(database_url) as service:
        furnish(service.client)
        service.roll_up()
        yield service


def furnish(client: httpx2.Client) -> None:
    """A cloud in which something was evicted and something rejected."""
    post(client, "/v1/clouds", {"name": "north", "policy": {"guarantee": "none"}})
    post(client, "/v1/clouds", {"name": "empty"})
    for name in ("a", "b"):
        post(client, f"{CLOUD}/nodes", {"name": f"node-{name}", "cores": 4})
    for cores in (1, 4):
        post(client, f"{CLOUD}/flavors", {"name": f"c{cores}", "cores": cores})
    start(client, "resident", "on_demand", "c1")
    start(client, "victim", "spot", "c4")
    start(client, "intruder", "on_demand", "c4")
    start(client, "refused", "spot", "c4")


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


@pytest.mark.parametrize("place", ["promise", "quotes", "curves", "epochs"])
def test_pages_of_a_cloud_without_a_past(page: Page, service: Service, place: str) -> None:
    page.goto(f"{service.url}/ui/clouds/empty/{place}")
    expect(page.locator(".empty").first).to_be_visible()
    expect(page.get_by_role("link", name=place.capitalize(), exact=True)).to_have_attribute("aria-current", "page")
