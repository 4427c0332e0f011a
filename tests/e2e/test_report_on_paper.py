"""The report of an evaluation in a browser: every table is whole, on screen and on paper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from browser import chromium
from playwright.sync_api import Browser

from app.domain.inputs import parse_nodes
from app.domain.values import Clock, EvictionPolicy, Guarantee, Policy
from app.workbench.matrix import Axes, Evaluation, run_matrix, scenarios
from app.workbench.report.page import Origin, render_page
from app.workbench.synthesis import synthesize
from app.workbench.workload import combine

PAPER = 673
"""A4 in pixels, without the margins."""
CUT_OFF = """boxes => boxes.filter(box => box.scrollWidth > box.clientWidth || box.firstChild.clientWidth > innerWidth)
    .map(box => box.innerText.slice(0, 80) + ` ${box.scrollWidth} of ${box.clientWidth}`)"""


@pytest.fixture(scope="module")
def report() -> str:
    traces = (synthesize(days=20, mean_utilisation=8, cores=1, seed=seed) for seed in (1, 2))
    policy = Policy(clock=Clock.EXTERNAL, sample_count=200)
    axes = Axes([parse_nodes("3x4")], [EvictionPolicy.YJF], [Guarantee.STRATIFIED], [0.01])
    asked = [Evaluation(one, watched=True, followed=True) for one in scenarios(combine(*traces, 0), policy, axes)]
    origin = Origin("tenure evaluate", {"on-demand": "a.csv", "spot": "b.csv"}, "0s")
    return render_page(run_matrix(asked, baselines=True), origin)


@pytest.fixture(scope="module")
def browser(report: str) -> Iterator[Browser]:
    """After the evaluation, which takes threads of its own."""
    assert report
    with chromium() as browser:
        yield browser


@pytest.mark.parametrize(("media", "width"), [("screen", 1280), ("print", PAPER)])
def test_no_table_is_cut_off(browser: Browser, report: str, media: Literal["screen", "print"], width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 1000})
    page.emulate_media(media=media)
    page.set_content(report)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.get_by_text("Both forecasts").count() == 1
    assert page.locator(".wide").evaluate_all(CUT_OFF) == []
