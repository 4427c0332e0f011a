"""A real Chromium for the tests of the pages, and everything that it must not do."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class Watched:
    """Records faults of pages, such as errors and foreign requests; it must stay empty."""

    complaints: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def watch(self, context: BrowserContext) -> None:
        context.on("console", lambda said: self.complaints.append(said.text) if said.type in LOUD else None)
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        context.on("request", self._request)

    def _request(self, request: Request) -> None:
        if urlsplit(request.url).hostname not in ("127.0.0.1", "localhost"):
            self.elsewhere.append(request.url)


LOUD = {"error", "warning"}


def find_chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no Chromium: install Debian's package chromium")
    return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, started anew."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def sign_in(page: Page, url: str, token: str, then: str = "/ui") -> None:
    page.goto(f"{url}{then}")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{url}{then}")
