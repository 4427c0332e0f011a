"""The command `cluster policies`: its answer, what it refuses, and the bars it must keep on recorded prices."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.cli import main
from app.clusters.rules.runs import RunTerms
from app.domain.inputs import InputError
from app.domain.times import DAY_US, SECOND_US, from_rfc3339, rfc3339
from app.venues.rules.history import PoolName, PriceSteps, VenuePrices
from app.workbench.clusters.comparing import FIGURES, ComparedJob, bid_of, check_bid, compare_policies, over_all
from app.workbench.venues.opening import read_prices

PRICES = Path(__file__).parents[3] / "shared/traces/market/us-east-1-2015.csv.gz"
needs_prices = pytest.mark.skipif(not PRICES.is_file(), reason=f"the recorded prices are not in {PRICES}")
BEGIN_US = from_rfc3339("2015-05-01T00:00:00Z")
POLICIES = ["none", "hour", "threshold", "threshold_ckptman", "young", "hazard", "notice", "auto"]
PAPER = RunTerms(*(value * SECOND_US for value in (191_407, 160, 160, 74, 672)))


def job(terms: RunTerms = PAPER, grace_s: int = 120, bid: str = "on-demand", starts: int = 200) -> ComparedJob:
    return ComparedJob(terms, 277 * SECOND_US, grace_s * SECOND_US, bid, starts, 0)


def restless(days: int = 30, seed: int = 1) -> PriceSteps:
    """Return prices that change every half an hour, one in a hundred of them above the on-demand price of .21."""
    draw = np.random.default_rng(seed)
    at_us = BEGIN_US + np.arange(days * 48, dtype=np.int64) * 1_800 * SECOND_US
    price = np.where(draw.random(len(at_us)) < 0.01, 0.5, np.round(draw.uniform(0.02, 0.2, len(at_us)), 4))
    return PriceSteps(at_us, price, int(at_us[-1]))


def one_pool(steps: PriceSteps) -> VenuePrices:
    return VenuePrices({PoolName("aws", "us-east-1", "us-east-1a", "c3.xlarge", "Linux/UNIX"): steps}, ())


def compared(steps: PriceSteps, asked: ComparedJob) -> dict[str, Any]:
    answer = compare_policies(one_pool(steps), {}, (None, None), asked, lambda *_: None)
    return answer["us-east-1a c3.xlarge Linux/UNIX"]


@pytest.fixture
def prices_file(tmp_path: Path) -> Path:
    steps = restless()
    lines = ["provider,region,zone,instance_type,product,time,price,currency"]
    for at_us, price in zip(steps.at_us.tolist(), steps.price.tolist(), strict=True):
        lines.append(f"aws,us-east-1,us-east-1a,c3.xlarge,Linux/UNIX,{rfc3339(at_us)},{price},USD")
    path = tmp_path / "prices.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tenure", "cluster", "policies", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_the_answer_has_the_figures_of_each_pool_and_policy(
    prices_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = str(prices_file), "--starts", "20", "--work", "6h", "--json"
    assert run(monkeypatch, *arguments) == 0
    first = capsys.readouterr().out
    [(pool, found)] = json.loads(first).items()
    assert pool == "us-east-1a c3.xlarge Linux/UNIX"
    assert list(found) == POLICIES
    for figures in found.values():
        assert list(figures) == [*FIGURES, "starts"]
        assert figures["starts"] == 20
    assert found["none"]["checkpoints"] == 0
    assert found["notice"]["lost_s"] == 0
    assert found["auto"] == found["hazard"]
    assert run(monkeypatch, *arguments) == 0
    assert capsys.readouterr().out == first
    assert run(monkeypatch, *arguments, "--seed", "1") == 0
    assert capsys.readouterr().out != first


def test_people_get_a_table(
    prices_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, str(prices_file), "--starts", "5", "--work", "2h") == 0
    told = capsys.readouterr().out
    assert "all pools" in told
    assert "us-east-1a c3.xlarge" in told
    assert "threshold_ckptman" in told


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--bid", "cheap"), "--bid 'cheap' is neither"),
        (("--bid", "0"), "--bid '0' is neither"),
        (("--bid", "-1"), "--bid '-1' is neither"),
        (("--work", "0"), "--work must be at least a second"),
        (("--work", "long"), "--work: 'long' is not a duration"),
        (("--pause", "4000d"), "--pause '4000d' is more than ten years"),
        (("--from", "yesterday"), "--from 'yesterday' is no date"),
        (("--work", "300d"), "history.too_short"),
        (("--to", "2014-01-01"), "history.too_short"),
        (("--starts", "0"), "--starts"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    prices_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    why: str,
) -> None:
    assert run(monkeypatch, str(prices_file), *arguments) == 2
    told = capsys.readouterr()
    assert why in told.err
    assert told.out == ""


def test_lines_that_cannot_be_taken_are_told_and_no_price_at_all_is_an_error(
    prices_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prices_file.write_text(prices_file.read_text() + "aws,us-east-1,us-east-1a,c3.xlarge\n")
    assert run(monkeypatch, str(prices_file), "--starts", "2", "--work", "1h", "--json") == 0
    assert "line 1442: preemptible.line.malformed" in capsys.readouterr().err
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    assert run(monkeypatch, str(empty)) == 2
    assert run(monkeypatch, str(tmp_path / "missing.csv")) == 2


def test_auto_trusts_the_notice_only_if_a_checkpoint_fits_into_it() -> None:
    short, enough = compared(restless(), job(grace_s=159)), compared(restless(), job(grace_s=160))
    assert short["auto"] == short["hazard"]
    assert enough["auto"] == enough["notice"]
    assert enough["notice"]["overhead_mean"] < enough["hazard"]["overhead_mean"]


def test_bids_are_on_demand_a_multiple_or_dollars() -> None:
    for text, bid in (("on-demand", 0.2), ("4x", 0.8), ("0.067", 0.067), ("1.5x", 0.3)):
        check_bid(text)
        assert bid_of(text, 0.2) == pytest.approx(bid)
    with pytest.raises(InputError):
        check_bid("x")
    assert compared(restless(), job(bid="9x"))["none"]["evictions"] == 0


def test_a_pool_without_a_known_run_has_no_figures() -> None:
    brief = restless(days=2)
    prices = VenuePrices({**one_pool(restless()).pools, PoolName("aws", "r", "ra", "c3.xlarge", "L"): brief}, ())
    answer = compare_policies(prices, {}, (None, None), job(starts=3), lambda *_: None)
    assert answer["ra c3.xlarge L"]["hazard"] == {**dict.fromkeys(FIGURES), "starts": 0}
    assert over_all(answer)["none"]["evictions"] == answer["us-east-1a c3.xlarge Linux/UNIX"]["none"]["evictions"]


def test_starts_lie_in_the_second_half_and_runs_end_before_the_last_price() -> None:
    steps = restless()
    late = PriceSteps(steps.at_us, np.where(steps.at_us < BEGIN_US + 15 * DAY_US, 0.5, 0.1), steps.end_us)
    assert compared(late, job())["none"]["evictions"] == 0
    early = PriceSteps(steps.at_us, np.where(steps.at_us > BEGIN_US + 15 * DAY_US, 0.5, 0.1), steps.end_us)
    with pytest.raises(InputError, match=r"history\.too_short"):
        compared(early, job())


@needs_prices
def test_the_hazard_keeps_its_bars_on_recorded_prices() -> None:
    """The bars of the design's section 6, line 1, of 200 starts in each of the fifteen pools."""
    prices = read_prices(PRICES, from_rfc3339("2026-01-01T00:00:00Z")).venue()
    answer = compare_policies(prices, {}, (None, None), job(), lambda *_: None)
    assert len(answer) == 15
    whole = over_all(answer)
    hazard = whole["hazard"]["overhead_mean"]
    assert hazard <= 0.75 * min(whole["hour"]["overhead_mean"], whole["threshold"]["overhead_mean"])
    assert whole["hazard"]["saving"] >= whole["hour"]["saving"] + 0.004
    better = {name: sum(better_than(one, name) for one in answer.values()) for name in ("hour", "threshold", "young")}
    assert better["hour"] == better["threshold"] == 15
    assert better["young"] >= 13


def better_than(pool: dict[str, Any], policy: str) -> bool:
    return bool(pool["hazard"]["overhead_mean"] <= pool[policy]["overhead_mean"])
