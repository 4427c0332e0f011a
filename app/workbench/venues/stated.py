"""The values that the thesis states in its text, by question and figure. Its curves are not to be had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

NOT_STATED = "not stated"


class StatedFigure(NamedTuple):
    """A figure of the thesis, what it shows, and what the text states of it."""

    figure: str
    shows: str
    stated: str


STATED: Mapping[str, Sequence[StatedFigure]] = {
    "survival": (StatedFigure("-", "scores of the probabilities", NOT_STATED),),
    "bids": (
        StatedFigure("4.4", "success against the level", "1 - tau >= S_lb for levels up to .971"),
        StatedFigure("4.4", "bid over price", NOT_STATED),
    ),
    "cost": (
        StatedFigure("3.1", "error, February to June 2012", "S_lb > .1: mkt best; below: ma_8 .068 against mkt .072"),
        StatedFigure("3.2", "error, June to November 2012", "S_lb < .7: avg, ma, mmc best, .015-.025; above: mkt best"),
        StatedFigure("3.3", "error by alpha", "ma_4 best; ma better than mmc"),
    ),
}
