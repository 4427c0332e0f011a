"""The questions that a backtest answers, by name, and their answers as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from app.domain.inputs import InputError
from app.workbench.venues.bids import LEVELS, backtest_bids
from app.workbench.venues.cost import COST_LEVELS, backtest_cost
from app.workbench.venues.jobs import RecordedJob
from app.workbench.venues.pricedeadlines import DEADLINE_LEVELS, backtest_price_deadlines
from app.workbench.venues.ramcdc import RAMC_DC_LEVELS, backtest_ramc_dc
from app.workbench.venues.ramp import RAMP_LEVELS, backtest_ramp
from app.workbench.venues.setting import BacktestSetting
from app.workbench.venues.survival import backtest_survival


class AskedJobs(NamedTuple):
    """The jobs that machines are asked for: those of a log, or drawn; and how many at most."""

    recorded: list[RecordedJob] | None
    most: int | None


def backtest_of(
    setting: BacktestSetting, what: str, method: str, levels: Sequence[float] | None, jobs: AskedJobs
) -> dict[str, Any]:
    """Return the answer to a question, as JSON holds it."""
    match what:
        case "survival":
            return backtest_survival(setting, method)
        case "bids":
            return backtest_bids(setting, method, _inner(levels or LEVELS, method))
        case "ramp":
            return backtest_ramp(setting, method, levels or RAMP_LEVELS, jobs.recorded, jobs.most)
        case "ramc-dc":
            return backtest_ramc_dc(setting, method, levels or RAMC_DC_LEVELS, jobs.recorded, jobs.most)
        case "deadlines":
            return backtest_price_deadlines(setting, method, levels or DEADLINE_LEVELS, jobs.recorded, jobs.most)
        case _:
            return backtest_cost(setting, method, levels or COST_LEVELS)


def _inner(levels: Sequence[float], method: str) -> Sequence[float]:
    """Return the levels; a learned bid has none for 0 and for 1."""
    if method != "thesis" and not all(0.0 < level < 1.0 for level in levels):
        raise InputError("--levels must lie between 0 and 1: no finite history gives certainty")
    return levels


def rows_of_answer(answer: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of an answer: a row for each inner object, or one of all its numbers."""
    inner = {name: value for name, value in answer.items() if isinstance(value, Mapping) and name != "cells"}
    inner |= answer.get("cells", {})
    plain = {name: value for name, value in answer.items() if not isinstance(value, Mapping)}
    lines = ({"all": plain} if plain else {}) | inner
    columns = list(dict.fromkeys(name for line in lines.values() for name in line))
    return ["", *columns], [[name, *(_text(line.get(column)) for column in columns)] for name, line in lines.items()]


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return "-" if value is None else str(value)
