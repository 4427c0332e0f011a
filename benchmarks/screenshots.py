"""Takes pictures of every page, light and dark, for docs/pages.md, of a cloud from `benchmarks.demonstration`.

    make screenshots

Starts the service on a private database, drives the demonstration, and takes each page with Chromium, some of them at
the width of a phone. Pictures are cut at `_TALLEST` and have 128 colours, so that they stay small.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

import httpx2
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.demonstration import demonstrate, give_notice
from benchmarks.pages import CHROMIUM

OUT = Path(__file__).parents[1] / "docs/screenshots"
PORT = 8398
URL = f"http://127.0.0.1:{PORT}"
TOKEN = "tnr_token-of-the-pictures"
CLOUD = f"{URL}/ui/clouds/north"
PLACES = {
    "promise": "/ui/clouds/north/promise",
    "quotes": "/ui/clouds/north/quotes?lifetime=30&unit=min&probability=5",
    "curves": "/ui/clouds/north/curves?flavor=medium",
    "epochs": "/ui/clouds/north/epochs",
}
NOTICED = {
    "clouds": "/ui",
    "now": "/ui/clouds/north?over=week",
    "decisions": "/ui/clouds/north/decisions",
}
PHONE = ("now", "quotes", "decisions")
_TALLEST = 1500
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")


def take(page: Page, name: str) -> None:
    """Take one picture, cut and with few colours."""
    page.wait_for_timeout(600)
    image: Image.Image = Image.open(io.BytesIO(page.screenshot(full_page=True)))
    image = image.crop((0, 0, image.width, min(image.height, _TALLEST))).convert("RGB")
    image.quantize(128, dither=Image.Dither.NONE).save(OUT / f"{name}.png", optimize=True)


def example(client: httpx2.Client, outcome: str) -> str:
    """Return the page of an instance with this outcome; for rejected ones the last that the SLA refused."""
    found = client.get("/v1/clouds/north/decisions", params={"outcome": outcome, "market": "spot", "limit": 200}).json()
    chosen = [one for one in found["decisions"] if one["reason"] in ("sla_unattainable", "on_demand_start")]
    name = (chosen or found["decisions"])[0]["id"]
    return f"/ui/clouds/north/instances/{name}"


def take_all(browser: Browser, places: dict[str, str], suffix: str, scheme: Scheme, width: int) -> None:
    """Take every page in one theme and width."""
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{URL}/ui/sign-in")
    if width > 500:
        take(page, f"sign-in-{suffix}")
    page.fill("#token", TOKEN)
    page.click("button.strong")
    page.wait_for_url(f"{URL}/ui")
    for name, place in places.items():
        page.goto(f"{URL}{place}")
        take(page, f"{name}-{suffix}")
    context.close()


def take_everywhere(browser: Browser, places: dict[str, str]) -> None:
    """Take these pages in both themes, and some of them on a phone."""
    for scheme in SCHEMES:
        take_all(browser, places, scheme, scheme, 1120)
    take_all(browser, {name: place for name, place in places.items() if name in PHONE}, "phone", "light", 380)


def drive_and_take(client: httpx2.Client, browser: Browser) -> None:
    """Take pages of the cloud on a usual day, and after notices the pages that show them."""
    demonstrate(client, "north", 12, 1)
    demonstrate(client, "south", 9, 2)
    time.sleep(3)
    take_everywhere(browser, PLACES | {"rejected": example(client, "rejected")})
    give_notice(client, "north")
    wait_for_notices(client)
    take_everywhere(browser, NOTICED | {"evicted": example(client, "evicted")})


def main() -> None:
    """Start the service and the browser, and take the pictures."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tenure-pictures-") as data:
        environment = os.environ | {"TENURE_DATA_DIR": data, "TENURE_PORT": str(PORT), "TENURE_ADMIN_TOKEN": TOKEN}
        process = subprocess.Popen([sys.executable, "-m", "app.cli", "run"], env=environment, stdout=subprocess.DEVNULL)
        try:
            with httpx2.Client(base_url=URL, headers={"X-Auth-Token": TOKEN}, timeout=300) as client:
                wait(client)
                with sync_playwright() as playwright:
                    browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM)
                    drive_and_take(client, browser)
                    browser.close()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def wait_for_notices(client: httpx2.Client) -> None:
    """Wait until the worker has reported overdue evictions and risk, and has folded the history."""
    kinds: set[str] = set()
    while not {"eviction_overdue", "eviction_risk"} <= kinds:
        time.sleep(3)
        last = client.get("/v1/clouds/north").json()["seq"]
        events = client.get("/v1/clouds/north/events", params={"after_seq": last - 200, "limit": 200}).json()["events"]
        kinds = {event["kind"] for event in events}


def wait(client: httpx2.Client) -> None:
    """Wait until the service answers."""
    while True:
        try:
            client.get("/healthcheck").raise_for_status()
        except httpx2.HTTPError:
            time.sleep(0.2)
        else:
            return


if __name__ == "__main__":
    main()
