"""The report: it stands by itself, says what it shows in words and numbers, and is the same when made again."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from app import __version__
from app.domain.inputs import parse_nodes
from app.domain.values import Clock, EvictionPolicy, Forecast, Guarantee, Policy
from app.judging.verdicts import judge_promise
from app.workbench.matrix import Axes, Evaluated, Evaluation, run_matrix, scenarios
from app.workbench.report.page import Origin, render_page
from app.workbench.synthesis import synthesize
from app.workbench.workload import combine

ORIGIN = Origin("tenure evaluate --nodes '3x4' <file>", {"on-demand": "a&b.csv", "spot": "c.csv"}, "0s")


@pytest.fixture(scope="module")
def found() -> list[Evaluated]:
    traces = (synthesize(days=3, mean_utilisation=8, cores=1, seed=seed) for seed in (1, 2))
    platforms = [parse_nodes("3x4"), parse_nodes("2x4")]
    axes = Axes(platforms, [EvictionPolicy.YJF], [Guarantee.PER_INSTANCE], [None, 0.25, 0.01])
    policy = Policy(clock=Clock.EXTERNAL, sample_count=200)
    asked = [
        Evaluation(scenario, watched=True, followed=True) for scenario in scenarios(combine(*traces, 0), policy, axes)
    ]
    return run_matrix(asked, baselines=True)


@pytest.fixture(scope="module")
def page(found: list[Evaluated]) -> str:
    return render_page(found, ORIGIN)


class Outline(HTMLParser):
    """Tags that are opened and closed, ids, and what would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in {"src", "href", "xlink:href", "action", "data"} and not (value or "").startswith("#"):
                self.fetched.append(f"{tag} {value}")
        if tag not in {"meta", "p", "br", "link", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "p":
            assert self.open.pop() == tag


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    return parser


def test_the_page_is_well_formed_and_needs_nothing_else(page: str) -> None:
    parser = outline(page)
    assert parser.open == []
    assert parser.fetched == []
    assert not {"script", "img", "link", "iframe", "object"} & set(parser.tags)
    assert len(parser.ids) == len(set(parser.ids))
    assert "url(http" not in page
    assert "@import" not in page


def test_promises_stand_beside_their_baselines(page: str, found: list[Evaluated]) -> None:
    section = page.partition("Against the baselines")[2].partition("</section>")[0]
    assert section.count("<td>clairvoyant</td>") == len({one.outcome.scenario.nodes for one in found}) == 2
    assert "<td>per-instance 0.01</td>" in section
    alone = render_page([replace(one, baselines=None) for one in found], ORIGIN)
    assert "Against the baselines" not in alone


def test_the_promise_and_both_forecasts_are_judged(page: str, found: list[Evaluated]) -> None:
    judged = page.partition("By lifetime, flavor and week</h3>")[2]
    assert judged.index("<th scope=row>&lt;1h</th>") < judged.index("flavor c1") < judged.index("week 1")
    kept = next(one for one in found if one.outcome.scenario.policy.guarantee is not Guarantee.NONE)
    tally, sla = kept.outcome.tally, kept.outcome.scenario.policy.eviction_probability
    for group in (*tally.strata.values(), *tally.flavors.values(), *tally.weeks.values()):
        words = judge_promise(sla, group.evicted, group.admitted).sentence
        assert f"<td class=said>{words}</td>" in page
    assert sum(group.admitted for group in tally.weeks.values()) == tally.spot_admitted
    single = page.split('<section class="single">')[1 + found.index(kept)]
    both = single.partition("Both forecasts")[2].partition("</table>")[0]
    assert [both.count(f"<th scope=row>{forecast}</th>") > 1 for forecast in Forecast] == [True, True]
    assert page.count("Both forecasts") == len(found)


def test_every_reference_within_a_picture_has_its_target(page: str) -> None:
    ids = set(outline(page).ids)
    wanted = set(re.findall(r'xlink:href="#([^"]+)"|url\(#([^)]+)\)', page))
    assert {first or second for first, second in wanted} <= ids


def test_every_picture_has_a_title_words_and_numbers(page: str) -> None:
    figures = re.findall(r"<figure.*?</figure>", page, re.DOTALL)
    # By SLA and platform: 2 + 2; of each run the load; of the four with an SLA budget, reliability and one flavor.
    assert len(figures) == 2 + 2 + 6 + 4 * 3
    for figure in figures:
        svg = ElementTree.fromstring(figure[figure.index("<svg") : figure.index("</svg>") + 6])
        assert svg.get("role") == "img"
        title, words = (svg.find(f"{{http://www.w3.org/2000/svg}}{name}") for name in ("title", "desc"))
        assert title is not None
        assert words is not None
        assert title.text
        assert len(words.text or "") > 40
        assert len(re.findall("<tr>", figure)) >= 3


def test_the_numbers_are_those_of_the_evaluations(page: str, found: list[Evaluated]) -> None:
    results = page[: page.index("By SLA")]
    for one in found:
        tally = one.outcome.tally
        assert f">{100 * tally.spot_admitted / tally.spot_requested:.1f} %<" in results
        assert f">{100 * tally.spot_evicted / tally.spot_admitted:.2f} %" in results


def test_it_says_how_it_was_made(page: str) -> None:
    made = page[page.index("How it was made") :]
    assert "tenure evaluate --nodes &#x27;3x4&#x27; &lt;file&gt;" in made
    assert __version__ in made
    for setting in ("seed", "sample_count", "horizon_s", "warm_up_s", "recompute_every_s"):
        assert f">{setting}<" in made
    assert "a&amp;b.csv" in page
    assert "<file>" not in page


def test_it_is_the_same_when_made_again(page: str, found: list[Evaluated]) -> None:
    assert render_page(found, ORIGIN) == page


def test_one_evaluation_without_an_sla_is_a_page_too(found: list[Evaluated]) -> None:
    page = render_page(found[:1], ORIGIN)
    assert "By SLA" not in page
    assert page.count("<figure") == 1
