"""The command `venue backtest`: its answers, what it refuses, and the bars it must keep on recorded prices."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from app.cli import main
from app.domain.times import DAY_US, HOUR_US, from_rfc3339, rfc3339
from app.venues.rules.history import PoolName, PriceSteps, VenuePrices
from app.workbench.venues import bids, cost, survival, walking
from app.workbench.venues.bids import MovingTarget, backtest_bids, draw_requests
from app.workbench.venues.drawing import draw_bids, highest_from
from app.workbench.venues.opening import read_prices
from app.workbench.venues.setting import BacktestSetting, setting_of

PRICES = Path(__file__).parents[3] / "shared/traces/market/us-east-1-2015.csv.gz"
needs_prices = pytest.mark.skipif(not PRICES.is_file(), reason=f"the recorded prices are not in {PRICES}")
BEGIN_US = from_rfc3339("2015-05-01T00:00:00Z")


def pool(seed: int, days: int) -> PriceSteps:
    draw = np.random.default_rng(seed)
    at_us = BEGIN_US + np.cumsum(draw.integers(600, 5400, days * 28)) * 1_000_000
    return PriceSteps(at_us, np.round(0.1 * np.exp(draw.normal(0, 0.3, len(at_us))), 4), int(at_us[-1]))


def venue(days: int = 40) -> VenuePrices:
    names = (PoolName("aws", "us-east-1", f"us-east-1{zone}", "c3.xlarge", "Linux/UNIX") for zone in "ab")
    return VenuePrices({name: pool(seed, days) for seed, name in enumerate(names)}, ())


def setting(prices: VenuePrices, **changed: int) -> BacktestSetting:
    from_us = changed.get("from_us", BEGIN_US + 25 * DAY_US)
    return setting_of(prices, {}, (from_us, changed.get("to_us")), 20 * DAY_US, changed.get("seed", 0), lambda *_: None)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survival, "DRAWN", 300)
    monkeypatch.setattr(bids, "DRAWN", 200)
    monkeypatch.setattr(cost, "DRAWN", 100)
    monkeypatch.setattr(walking, "DRAWN_PER_BLOCK", 300)


@pytest.fixture
def prices_file(tmp_path: Path) -> Path:
    path = tmp_path / "prices.csv"
    lines = ["provider,region,zone,instance_type,product,time,price,currency"]
    for name, steps in venue().pools.items():
        lines += [
            f"{','.join(name)},{rfc3339(at_us)},{price:.4f},USD"
            for at_us, price in zip(steps.at_us.tolist(), steps.price.tolist(), strict=True)
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tenure", "venue", "backtest", *words])
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("method", ["thesis", "tenure"])
def test_the_answers_have_the_promised_form(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], prices_file: Path, method: str, tmp_path: Path
) -> None:
    report = tmp_path / "out.html"
    more = ("--method", method, "--from", "2015-05-25", "--window", "20d", "--levels", "0.9,0.95")
    assert (
        run(monkeypatch, str(prices_file), "--what", "survival,bids,cost", "--report", str(report), "--json", *more)
        == 0
    )
    answer = json.loads(capsys.readouterr().out)
    assert answer["survival"].keys() >= {"brier", "log_loss", "auc", "ece"}
    assert 0.0 <= answer["survival"]["brier"] <= 0.35
    assert answer["bids"].keys() == {"0.9", "0.95"}
    assert all(0.7 <= one["success"] <= 1.0 <= one["median_bid_over_price"] for one in answer["bids"].values())
    assert answer["cost"]["0.9"].keys() >= (
        {"mkt", "analog"} if method == "tenure" else {"mkt", "avg", "mc", "ma_4", "mmc_avg"}
    )
    page = report.read_text()
    assert "1 - tau &gt;= S_lb" in page
    assert "not stated" in page
    assert f"{answer['bids']['0.9']['success']:.4f}" in page


@pytest.mark.usefixtures("few")
def test_one_question_is_answered_by_its_object_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], prices_file: Path
) -> None:
    words = (str(prices_file), "--what", "bids", "--method", "thesis", "--window", "20d")
    assert run(monkeypatch, *words, "--json") == 0
    first = capsys.readouterr()
    assert "success" in json.loads(first.out)["0.99"]
    assert "2 pools" in first.err
    assert "0 refused" in first.err
    assert run(monkeypatch, *words, "--json") == 0
    assert capsys.readouterr().out == first.out
    assert run(monkeypatch, *words) == 0
    assert "median_bid_over_price" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["thesis", "tenure"])
def test_jobs_with_deadlines_are_answered_with_cost_breaches_and_terminations(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], prices_file: Path, method: str, tmp_path: Path
) -> None:
    jobs, report = tmp_path / "jobs.csv", tmp_path / "out.html"
    rows = "".join(f"{number * 1000},{3600 * (1 + number % 5)},1\n" for number in range(30))
    jobs.write_text(f"start_s,lifetime_s,cores\n{rows}")
    words = ("--what", "ramc-dc", "--method", method, "--window", "20d", "--levels", "0.5,0.9", "--jobs", str(jobs))
    assert run(monkeypatch, str(prices_file), *words, "--report", str(report), "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer.keys() >= {"cost_over_on_demand", "breaches", "early_terminations", "cells"}
    assert answer["count"] == 30
    assert "24433 rigid" in report.read_text()
    assert run(monkeypatch, str(prices_file), *words, "--what", "deadlines", "--json") == 0
    both = json.loads(capsys.readouterr().out)
    assert both["ramc-dc"] == answer
    kept = both["deadlines"]
    planned = {"planned 0.5", "planned 0.9"} if method == "tenure" else set()
    assert kept["cells"].keys() == {"S_lb 0.5", "S_lb 0.9"} | planned
    assert {name: kept[name] for name in kept["cells"]["S_lb 0.9"]} == kept["cells"]["S_lb 0.9"]
    assert kept["launches"] >= 1.0
    assert all(cell["met"] == 1.0 for cell in kept["cells"].values()) or method == "thesis"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--what", "luck"), "--what 'luck' is none of"),
        (("--what", "ramp", "--jobs", "none.swf"), "none.swf: No such file"),
        (("--method", "guess"), "--method 'guess' is none of"),
        (("--levels", "0.9,2"), "must be numbers from 0 to 1"),
        (("--levels", "x"), "must be numbers from 0 to 1"),
        (("--what", "bids", "--levels", "1"), "no finite history gives certainty"),
        (("--from", "soon"), "--from 'soon' is no date"),
        (("--from", "2014-01-01"), "history.too_short"),
        (("--to", "2015-05-02"), "--from must lie"),
        (("--window", "1h"), "--window must be at least 24h"),
        (("--types", "none.csv"), "none.csv: No such file"),
    ],
)
def test_bad_words_exit_with_two(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    prices_file: Path,
    words: tuple[str, ...],
    why: str,
) -> None:
    assert run(monkeypatch, str(prices_file), *words) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--what", "survival"), ("--what", "deadlines", "--method", "thesis")])
def test_records_of_availability_answer_deadlines_of_this_services_method_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    assert run(monkeypatch, str(tmp_path), *words) == 2
    assert "only --what deadlines is asked" in capsys.readouterr().err


def test_refused_lines_are_told_and_a_broken_file_exits_with_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], prices_file: Path, few: None
) -> None:
    text = prices_file.read_text()
    prices_file.write_text(text + "bad\n" * 7)
    assert run(monkeypatch, str(prices_file), "--what", "bids", "--method", "thesis", "--window", "20d") == 0
    told = capsys.readouterr().err
    assert "preemptible.line.malformed" in told
    assert "and 2 more lines" in told
    assert "7 refused" in told
    prices_file.write_text("time,price\n")
    assert run(monkeypatch, str(prices_file)) == 2
    assert "line 1: expected the header" in capsys.readouterr().err


def test_what_happens_later_changes_nothing_said_before(few: None) -> None:
    """The bids of both methods for the first days are the same, whatever the prices do after them."""
    prices = venue()
    early_us = BEGIN_US + 30 * DAY_US
    changed = {
        name: PriceSteps(steps.at_us, np.where(steps.at_us >= early_us, 3.0, steps.price), steps.end_us)
        for name, steps in prices.pools.items()
    }
    for method in ("thesis", "tenure"):
        one, other = (early_bids(setting(made), method, early_us) for made in (prices, VenuePrices(changed, ())))
        assert len(one) > 20
        assert one == other


def early_bids(made: BacktestSetting, method: str, until_us: int) -> dict[tuple[int, int], float]:
    requests = draw_requests(made, bids.DRAWN, 5)
    rule = bids._thesis if method == "thesis" else bids._learned
    found = zip(requests, rule(made, requests, [0.9])[0.9], strict=True)
    return {(one.pool, one.now_us): bid for one, bid in found if one.now_us < until_us}


def test_outcomes_move_a_target_only_once_they_are_known() -> None:
    target = MovingTarget(0.9)
    target.promise(5, survived=False)
    assert target.at(4) == pytest.approx(0.9)
    assert target.at(5) > 0.9


def test_bids_that_run_into_a_gap_are_left_out() -> None:
    steps = pool(1, 10)
    price = steps.price.copy()
    price[100] = np.nan
    holed = PriceSteps(steps.at_us, price, steps.end_us)
    gap_us = int(steps.at_us[100])
    assert np.isnan(highest_from(holed, gap_us - HOUR_US, 2 * HOUR_US))
    assert highest_from(holed, gap_us - HOUR_US, HOUR_US) == highest_from(steps, gap_us - HOUR_US, HOUR_US)
    made = setting(VenuePrices({next(iter(venue().pools)): holed}, ()), from_us=BEGIN_US + 2 * DAY_US)
    drawn = draw_bids(made, (made.from_us, made.to_us), 2_000, 1)
    ends = [(one.now_us, one.now_us + one.lifetime_us) for one in drawn]
    assert len(drawn) > 500
    assert not [one for one in ends if one[0] < steps.at_us[101] and one[1] > gap_us]


@needs_prices
def test_the_learned_survival_keeps_its_bars_on_recorded_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer draws than the command has, so the bars are those of market prices with room for chance."""
    monkeypatch.setattr(survival, "DRAWN", 2_500)
    monkeypatch.setattr(walking, "DRAWN_PER_BLOCK", 600)
    monkeypatch.setattr(bids, "DRAWN", 1_500)
    monkeypatch.setattr(cost, "DRAWN", 1_000)
    prices = read_prices(PRICES, from_rfc3339("2026-01-01T00:00:00Z")).venue()
    tested = setting_of(prices, {}, (from_rfc3339("2015-06-12T00:00:00Z"), None), 60 * DAY_US, 0, lambda *_: None)
    thesis = survival.backtest_survival(tested, "thesis")
    learned = survival.backtest_survival(tested, "tenure")
    assert 0.12 < thesis["brier"] < 0.145
    assert learned["brier"] < 0.08
    assert learned["ece"] < 0.03
    errors = cost.backtest_cost(tested, "tenure", [0.0, 0.9])
    assert errors["0"]["analog"] < 0.9 * errors["0"]["mkt"]
    assert errors["0.9"]["analog"] < 0.98 * errors["0.9"]["mkt"]
    blind = backtest_bids(tested, "thesis", [0.95])["0.95"]
    assert blind["success"] == pytest.approx(0.965, abs=0.012)
    assert blind["median_bid_over_price"] == pytest.approx(6.9, abs=1.5)
