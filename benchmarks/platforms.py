"""The platforms of the yardsticks: the one place that names them, with the two traces that meet on each.

    sixteen     the papers' configurations: the four full pairs, and three smaller sizes of each
    held-out    31 other crossings and sizes of the same four recorded traces (Eucalyptus: A, B, C, D)
    tight       two sizes of each ordered pair of the four, with 45 to 98 % of the on-demand peak
    log         parallel jobs of up to 16 processors of a real log (the first 100 days) as on-demand load, spot A, B, D
    made        nine pairs of made jobs (shared/traces/federation): the first cloud's as on-demand load, the second's as
                spot demand; a job is as many instances of one core as it counts
    synthetic   six shapes of load (`shapes`), sudden ones, three seeds each
    drifting    the same six shapes with on-demand instances that live long, twelve seeds each; where it is asked for

Platforms that share an on-demand trace are one witness: one burst breaks them all. `sixteen`, `held-out`, `tight` and
`log` rest on recorded on-demand traces, so they are *real*.

The sizes of the tight ones: pair number j (0 to 11, by name) has shares of .45 + .265 (j + .5) / 12 and
.715 + .265 (i + .5) / 12 of the peak, i = 5 j mod 12, in whole nodes of 16 cores (on-demand A), 12 (B) or 40 (C and D),
45 % at least.
The nodes of the log have 16 cores, those of made jobs 8; they have about as many cores as the on-demand peak: the log's
1.1, 1 and .8 times.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import permutations, product
from math import ceil
from pathlib import Path
from typing import NamedTuple

from app.domain.times import DAY_US, SECOND_US
from app.domain.values import Resources
from app.workbench.workload import TraceInstance, Workload, combine, read_trace
from benchmarks import shapes

TRACES = Path(__file__).parents[2] / "shared" / "traces"
FILES = {"A": "DS2", "B": "DS3", "C": "DS5", "D": "DS6"}
PEAKS = {"A": 83, "B": 44, "C": 749, "D": 816}
"""The highest on-demand load of each recorded trace, in cores."""
SEEDS = (1, 2, 3)
DRIFTING_SEEDS = range(3, 15)
"""They make as many platforms as there are sixteen, held-out and tight ones. Seed 2 set the kind's figures."""
_DRIFTING = "drifting_"
_TIGHT_CORES = {"A": 16, "B": 12, "C": 40, "D": 40}
_LEAST, _MOST = 0.45, 0.98
_LOG, _LOG_DAYS, _LOG_PROCESSORS = "kth-sp2.swf.gz", 100, 16


class Platform(NamedTuple):
    """Equal nodes, and the names of the two traces that meet there.

    Names of traces: A to D; `log`; a made segment (A1.2), a shape (growth.2) or the spot demand beside shapes (mixed.2)
    with its seed, of the drifting kind with `drifting_` before the name. `known` is what the papers print: admitted /
    evicted.
    """

    part: str
    on_demand: str
    spot: str
    nodes: int
    cores: int
    known: str = ""

    @property
    def pair(self) -> str:
        """The two traces in one word."""
        return f"{self.on_demand}-{self.spot}"

    @property
    def platform(self) -> str:
        """The name of traces and size."""
        name = self.on_demand if "." in self.on_demand else self.pair
        return f"{name} on {self.nodes} x {self.cores}"

    @property
    def capacities(self) -> tuple[Resources, ...]:
        """The capacity of each node."""
        return (Resources(self.cores),) * self.nodes

    @property
    def is_real(self) -> bool:
        """True if the on-demand load was recorded on a real cloud."""
        return "." not in self.on_demand

    def workload(self, traces: Path = TRACES) -> Workload:
        """Return what meets on it; the spot demand begins a day late. `traces`: the folder of all recorded ones."""
        return combine(trace(self.on_demand, traces), trace(self.spot, traces), DAY_US)


def trace(name: str, traces: Path = TRACES) -> list[TraceInstance]:
    """Return the instances of a trace by its name."""
    return [*_trace(name, traces)]


@cache
def _trace(name: str, traces: Path) -> tuple[TraceInstance, ...]:
    if name in FILES:
        return tuple(read_trace(traces / "eucalyptus" / f"{FILES[name]}-trace.txt"))
    if name == "log":
        return tuple(_read_log(traces / "workloads" / _LOG))
    made, seed = name.split(".")
    kind, shape = shapes.SUDDEN, made
    if made.startswith(_DRIFTING):
        kind, shape = shapes.DRIFTING, made.removeprefix(_DRIFTING)
    if shape == "mixed":
        return tuple(shapes.spot(int(seed), kind))
    if shape in shapes.SHAPES:
        return tuple(shapes.on_demand(shape, int(seed), kind))
    return tuple(_read_jobs(traces / "federation" / f"{made}-seed{seed}.csv"))


def _read_log(path: Path) -> list[TraceInstance]:
    """Return the jobs of a log in the Standard Workload Format that ran in its first days on few processors.

    The first of them starts at second 0: the log's own first week holds none.
    """
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.split() for line in file if line.strip() and not line.startswith(";")]
    found = []
    for name, submit_s, wait_s, run_s, processors in (row[:5] for row in rows):
        start_us = (int(submit_s) + max(int(wait_s), 0)) * SECOND_US
        if int(run_s) > 0 and 0 < int(processors) <= _LOG_PROCESSORS and start_us < _LOG_DAYS * DAY_US:
            found.append(TraceInstance(name, start_us, int(run_s) * SECOND_US, int(processors)))
    begin_us = min(one.start_us for one in found)
    return sorted((one._replace(start_us=one.start_us - begin_us) for one in found), key=lambda one: one.start_us)


def _read_jobs(path: Path) -> list[TraceInstance]:
    """Return the instances of made jobs: each counts some, of one core."""
    with path.open(encoding="utf-8", newline="") as file:
        return [one for number, row in enumerate(csv.DictReader(file)) for one in _job(number, row)]


def _job(number: int, row: dict[str, str]) -> Iterator[TraceInstance]:
    start_us, lifetime_us = (round(float(row[name]) * SECOND_US) for name in ("start_s", "lifetime_s"))
    for piece in range(int(row["count"])):
        yield TraceInstance(f"{number}.{piece}", start_us, lifetime_us, int(row["cores"]))


def _sized(part: str, pairs: Iterable[str], sizes: Iterable[tuple[int, int]]) -> tuple[Platform, ...]:
    kinds = product([pair.split("-") for pair in pairs], sizes)
    return tuple(Platform(part, on_demand, spot, nodes, cores) for (on_demand, spot), (nodes, cores) in kinds)


def _tight() -> Iterator[Platform]:
    for j, (on_demand, spot) in enumerate(permutations(FILES, 2)):
        middle = (_LEAST + _MOST) / 2
        for low, place in ((_LEAST, j), (middle, 5 * j % 12)):
            share, cores = low + (_MOST - middle) * (place + 0.5) / 12, _TIGHT_CORES[on_demand]
            nodes = max(round(share * PEAKS[on_demand] / cores), ceil(_LEAST * PEAKS[on_demand] / cores))
            yield Platform("tight", on_demand, spot, nodes, cores)


SIXTEEN = (
    Platform("sixteen", "A", "B", 7, 12, ".884 / .009"),
    *_sized("sixteen", ["A-B"], [(6, 12), (5, 12), (4, 12)]),
    Platform("sixteen", "B", "A", 7, 8, ".757 / .000"),
    *_sized("sixteen", ["B-A"], [(6, 8), (5, 8), (4, 8)]),
    Platform("sixteen", "C", "D", 31, 32, ".491 / .002"),
    Platform("sixteen", "C", "D", 26, 32, ".437"),
    Platform("sixteen", "C", "D", 21, 32, ".463"),
    Platform("sixteen", "C", "D", 16, 32, ".490"),
    Platform("sixteen", "D", "C", 31, 32, ".278 / .006"),
    *_sized("sixteen", ["D-C"], [(26, 32), (21, 32), (16, 32)]),
)
FULL = tuple(SIXTEEN[index] for index in (0, 4, 8, 12))
HELD_OUT = (
    *_sized("held-out", ["A-C", "A-D"], [(14, 12), (9, 12), (7, 12)]),
    *_sized("held-out", ["B-C", "B-D"], [(14, 8), (9, 8), (7, 8)]),
    *_sized("held-out", ["C-A", "C-B", "D-A", "D-B"], [(28, 32), (18, 32)]),
    *_sized("held-out", ["A-B"], [(8, 12), (3, 12)]),
    *_sized("held-out", ["B-A"], [(9, 8)]),
    *_sized("held-out", ["C-D", "D-C"], [(58, 16), (44, 16)]),
    *_sized("held-out", ["C-D", "D-C"], [(19, 48), (12, 48)]),
)
TIGHT = tuple(_tight())
LOG = tuple(Platform("log", "log", spot, nodes, 16) for spot, nodes in (("A", 7), ("B", 6), ("D", 5)))
MADE = tuple(
    Platform("made", f"{kind}1.{seed}", f"{kind}2.{seed}", nodes, 8)
    for kind, counts in (("A", (9, 10, 9)), ("B", (6, 7, 5)), ("C", (4, 4, 4)))
    for seed, nodes in zip(SEEDS, counts, strict=True)
)
PARTS = {"sixteen": SIXTEEN, "held-out": HELD_OUT, "tight": TIGHT, "log": LOG, "made": MADE}


def synthetic(seeds: Iterable[int] = SEEDS, part: str = "synthetic", prefix: str = "") -> tuple[Platform, ...]:
    """Return the six shapes for each seed. Other seeds than the usual ones are fresh data. `prefix`: of traces."""
    known_seeds = [*seeds]
    return tuple(
        Platform(part, f"{prefix}{shape}.{seed}", f"{prefix}mixed.{seed}", *shapes.CAPACITY)
        for shape in shapes.SHAPES
        for seed in known_seeds
    )


def named(text: str) -> Platform:
    """Return a platform from its traces and size, such as A-B:7x12 or growth.4-mixed.4:8x16."""
    pair, size = text.split(":")
    on_demand, spot = pair.split("-")
    nodes, cores = map(int, size.split("x"))
    return Platform("named", on_demand, spot, nodes, cores)


PARTS["synthetic"] = synthetic()
USUAL = (*PARTS,)
"""The parts that are judged where none is named."""
ALL = tuple(platform for part in PARTS.values() for platform in part)
PARTS["drifting"] = synthetic(DRIFTING_SEEDS, "drifting", _DRIFTING)
