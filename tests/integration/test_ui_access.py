"""Tests of access to the pages, and of the bars to other sites: without a browser, as an attacker would ask."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from api_service import TOKEN, Service, running_service

OWN = {"Sec-Fetch-Site": "same-origin"}
PLACES = ["", "/promise", "/quotes", "/curves", "/decisions", "/epochs", "/instances/i", "/live"]


@pytest.fixture(scope="module")
def anyone(service: Service) -> Iterator[httpx2.Client]:
    """A client that sends no token of its own; there are two clouds."""
    for name in ("mine", "theirs"):
        assert service.client.post("/v1/clouds", json={"name": name}).is_success
    with httpx2.Client(base_url=service.url) as client:
        yield client


def make_token(service: Service, name: str, role: str, cloud: str | None = None) -> str:
    body = {"name": name, "role": role} | ({"cloud": cloud} if cloud else {})
    answer = service.client.post("/v1/tokens", json=body)
    assert answer.is_success, answer.text
    return answer.json()["token"]


def seen(client: httpx2.Client, path: str, token: str) -> httpx2.Response:
    return client.get(path, headers={"Cookie": f"tenure_token={token}"})


def sign_in(
    client: httpx2.Client, token: str, headers: dict[str, str] | None = None, then: str = ""
) -> httpx2.Response:
    given = {"Content-Type": "application/x-www-form-urlencoded"} | (OWN if headers is None else headers)
    return client.post("/ui/sign-in", content=f"token={token}&next={then}", headers=given)


def test_who_enters_no_token_is_asked_for_one(anyone: httpx2.Client) -> None:
    for given in ("", "%20"):
        answer = sign_in(anyone, given)
        assert answer.status_code == 400
        assert "Enter a token." in answer.text
        assert "typing error" not in answer.text


@pytest.mark.parametrize("place", PLACES)
def test_without_a_token_every_page_leads_to_the_form(anyone: httpx2.Client, place: str) -> None:
    answer = anyone.get(f"/ui/clouds/mine{place}")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/ui/sign-in?next=/ui/clouds/mine{place}")
    assert "mine" not in answer.text
    asked_by_script = anyone.get(f"/ui/clouds/mine{place}", headers={"X-Tenure-Live": "1"})
    assert asked_by_script.status_code == 401


def test_a_token_of_one_cloud_sees_no_other(anyone: httpx2.Client, service: Service) -> None:
    token = make_token(service, "scoped", "reader", "mine")
    for place in PLACES:
        assert seen(anyone, f"/ui/clouds/theirs{place}", token).status_code == 404
    overview = seen(anyone, "/ui", token).text
    assert "cloud-mine" in overview
    assert "theirs" not in overview
    assert seen(anyone, "/ui/clouds/mine", token).status_code == 200


def test_peers_are_refused(anyone: httpx2.Client, service: Service) -> None:
    token = make_token(service, "a-peer", "peer")
    assert seen(anyone, "/ui", token).status_code == 403
    answer = sign_in(anyone, token)
    assert answer.status_code == 400
    assert "set-cookie" not in answer.headers


def test_a_token_that_is_revoked_signs_out(anyone: httpx2.Client, service: Service) -> None:
    answer = service.client.post("/v1/tokens", json={"name": "short-lived", "role": "reader"}).json()
    assert service.client.delete(f"/v1/tokens/{answer['id']}").is_success
    assert seen(anyone, "/ui", answer["token"]).status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["/ui/sign-in", "/ui/sign-out"])
def test_forms_of_other_sites_are_refused(anyone: httpx2.Client, headers: dict[str, str], path: str) -> None:
    given = {"Content-Type": "application/x-www-form-urlencoded"} | headers
    answer = anyone.post(path, content=f"token={TOKEN}", headers=given)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_older_browsers_say_where_they_are_by_origin(anyone: httpx2.Client, service: Service) -> None:
    assert sign_in(anyone, TOKEN, {"Origin": service.url}).status_code == 303
    anyone.cookies.clear()


@pytest.mark.parametrize(
    "wanted",
    ["https://elsewhere.example", "//elsewhere.example", "/\\elsewhere.example", "/ui\\..", "/uix", "/v1/clouds", "x"],
)
def test_signing_in_leads_nowhere_else(anyone: httpx2.Client, wanted: str) -> None:
    answer = sign_in(anyone, TOKEN, then=wanted)
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui")
    anyone.cookies.clear()


def test_the_cookie_is_for_pages_alone_and_for_tls_where_there_is_tls(anyone: httpx2.Client) -> None:
    cookie = sign_in(anyone, TOKEN).headers["set-cookie"].lower()
    assert {"httponly", "samesite=strict", "path=/ui"} <= set(cookie.split("; "))
    assert "secure" not in cookie.split("; ")
    assert "secure" in sign_in(anyone, TOKEN, OWN | {"X-Forwarded-Proto": "https"}).headers["set-cookie"].lower()
    anyone.cookies.clear()
    refused = anyone.get("/v1/clouds", headers={"Cookie": f"tenure_token={TOKEN}"})
    assert refused.status_code == 401, "the interface takes no cookie, so no page can make a browser use it"


@pytest.mark.parametrize("path", ["/ui/sign-in", "/ui", "/ui/clouds/mine", "/ui/clouds/none", "/ui/nothing"])
def test_every_page_has_its_safe_headers(anyone: httpx2.Client, path: str) -> None:
    headers = seen(anyone, path, TOKEN).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("token", ["", "x", "%ff%00", "a" * 3000, "tnr_%3Cscript%3E"])
def test_no_token_is_too_odd_to_be_refused(anyone: httpx2.Client, token: str) -> None:
    answer = sign_in(anyone, token)
    assert answer.status_code == 400
    assert "<script>" not in answer.text


def test_a_form_that_is_too_long_is_refused(anyone: httpx2.Client) -> None:
    assert sign_in(anyone, "a" * 10_000).status_code == 400


@pytest.mark.parametrize(
    "place",
    ["/quotes?lifetime=nan&probability=1e400&unit=x", "/quotes?lifetime=-1", "/quotes?probability=%3Cb%3E",
     "/decisions?before=999999999999999999999", "/decisions?before=x&outcome=y&market=z", "/epochs?run=-1&epoch=9e9",
     "/?over=forever", "/curves?flavor=", "/decisions?instance=%00", "/decisions?instance=%3Cscript%3E"],
)  # fmt: skip
def test_no_question_is_too_odd_to_be_answered(anyone: httpx2.Client, place: str) -> None:
    answer = seen(anyone, f"/ui/clouds/mine{place}", TOKEN)
    assert answer.status_code in (200, 404)
    assert "<script>" not in answer.text
    assert "<b>" not in answer.text


def test_who_guesses_tokens_is_shut_out(database_url: str) -> None:
    with (
        running_service(database_url, address_requests_per_min=5) as service,
        httpx2.Client(base_url=service.url) as client,
    ):
        answers = [sign_in(client, f"tnr_guess-{number}").status_code for number in range(8)]
        assert answers[0] == 400
        assert answers[-1] == 429
