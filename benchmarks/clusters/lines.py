"""The lines of a benchmark, and what a subcommand is."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from math import inf
from typing import NamedTuple


class Line(NamedTuple):
    """A figure beside its bar: at most `most`, and at least `least`."""

    name: str
    figure: float
    least: float = 0.0
    most: float = inf

    @property
    def is_kept(self) -> bool:
        """Tell if the figure keeps its bar."""
        return self.least <= self.figure <= self.most


class Subcommand(NamedTuple):
    """A subcommand: its sentence, the options that it takes, and its lines."""

    tells: str
    options: Callable[[argparse.ArgumentParser], None]
    lines: Callable[[argparse.Namespace], Iterator[Line]]
