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
    "ramp": (
        StatedFigure("4.4", "tau at e = p = .25", "13 % at S_lb 0, 2.2 % at 1; 1 - tau >= S_lb up to .971"),
        StatedFigure("4.5", "profit at e = .25", "break-even at p from .15 to .25; least at S_lb .75"),
        StatedFigure(
            "4.6", "profit at p = .25", "S_lb 0: from .10-.11 (e 0) to -.52 (e 1) of 6003 dollars; 1: .43 to .36"
        ),
        StatedFigure("4.7", "profit by p", "linear; flat at about p = .2; above rising with S_lb, below falling"),
        StatedFigure("4.8", "profit at S_lb = .95", "at p = .5, e from 0 to 1 costs .25 of 6003 dollars"),
    ),
    "ramc-dc": (
        StatedFigure("-", "on demand alone, 20,000 jobs", "15305 dollars moldable, 24433 rigid"),
        StatedFigure(
            "5.2-5.4", "cost over on demand", "moldable .1275-.185, rigid .13-.195; hourly dearest, none cheapest"
        ),
        StatedFigure(
            "5.5, 5.6", "breaches", "moldable .0074-.024, rigid .0046-.00845; hourly at t_split 0, S_lb .05: .011, .007"
        ),
        StatedFigure("5.7, 5.8", "early terminations", ".0018 at S_lb 1; below .095 moldable, .125 rigid at S_lb 0"),
        StatedFigure(
            "5.9", "deadline exceeded", "t_split 0 halves it without checkpoints; with them t_split inf is least"
        ),
        StatedFigure(
            "C.1", "moldable, hourly, Feb-Jun 2012", "S_lb 0 to .95: 5186-6802 dollars at t_split 1, 4867-5473 at all"
        ),
        StatedFigure(
            "C.1",
            "rigid, hourly, Feb-Jun 2012",
            "S_lb 0 to .95: 8045-10984 dollars at t_split 1, 7723-8970 at all; on demand 23582.80",
        ),
        StatedFigure(
            "C.2", "early terminations, breaches", "moldable .008-.075, .0065-.0176; rigid .015-.153, .005-.015"
        ),
    ),
}
