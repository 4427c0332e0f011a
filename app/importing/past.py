"""A recorded past as readers of files fill it: instances, their platform, and counts of the rules that applied."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.admission.limits import MOST_FLAVORS, MOST_NODES
from app.admission.moments import LONGEST_STEP_US
from app.domain.inputs import InputError
from app.domain.names import flavor_name, node_name
from app.domain.times import DAY_US, MAX_TIME_US, SECOND_US, age_text
from app.domain.values import MOST_CORES, NAME_PATTERN, EvictionPolicy, Resources
from app.importing.rules.pastrules import LINES_NAMED, PastRule, RuleCounts
from app.importing.rules.records import FileLine, PastInstance
from app.importing.store.scratch import Scratch

_LONGEST_NAME = 255
_MOST_PIECES = 10_000
_LONGEST_STEP_DAYS = LONGEST_STEP_US // DAY_US
_EDGE_US = 60 * SECOND_US
_LONG_GAP_US = DAY_US
_NAME = re.compile(NAME_PATTERN)
_NAMED_FLAVOR = re.compile(rf"({NAME_PATTERN})=([0-9]{{1,5}})")


@dataclass(frozen=True, slots=True)
class Sizes:
    """The mapping from recorded sizes to flavors: named flavors, powers of two, or one flavor for each size."""

    named: tuple[tuple[str, int], ...] = ()
    doubling: bool = False

    def choose(self, cores: int, widest: int | None) -> tuple[str, int] | None:
        """Return the smallest flavor that holds this many cores, and its cores; None if none does."""
        if widest is not None and cores > widest:
            return None
        if self.named:
            return next((flavor for flavor in self.named if flavor[1] >= cores), None)
        if self.doubling:
            doubled = 1 << (cores - 1).bit_length()
            cores = doubled if widest is None else min(doubled, widest)
        return flavor_name(cores), cores

    def widest(self, node_cores: int | None) -> int | None:
        """Return the most cores of one instance on nodes of this size; None without a bound."""
        bounds = [node_cores, self.named[-1][1] if self.named else None]
        return min((bound for bound in bounds if bound is not None), default=None)


def is_name(text: str) -> bool:
    """Return True if the service's interface accepts this as a name or an id."""
    return _NAME.fullmatch(text) is not None


def parse_sizes(text: str) -> Sizes:
    """Parse `exact`, `doubling` or a list such as small=1,large=4 into sizes."""
    if text == "exact":
        return Sizes()
    if text == "doubling":
        return Sizes(doubling=True)
    found = [_NAMED_FLAVOR.fullmatch(part.strip()) for part in text.split(",")]
    named = [(match[1], int(match[2])) for match in found if match is not None]
    sizes = {cores for _, cores in named if 1 <= cores <= MOST_CORES}
    if len(named) < len(found) or len(sizes) < len(found) or len(dict(named)) < len(found):
        raise InputError(f"--flavors {text!r} is not exact, doubling, or different flavors like small=1,large=4")
    return Sizes(tuple(sorted(named, key=lambda flavor: flavor[1])))


@dataclass(frozen=True, slots=True)
class Wishes:
    """A caller's options for a past. `sizes` None takes what suits the format.

    `since_us`: from when on a record of servers is whole, where the caller knows it better than the record.
    """

    nodes: tuple[Resources, ...] | None = None
    sizes: Sizes | None = None
    longest_gap_us: int | None = None
    stop_at_end: bool = False
    since_us: int | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """The recorded begin and end of the past, and the time that was cut out of its gaps."""

    begin_us: int
    end_us: int
    cut_us: int
    step_count: int

    @property
    def length_us(self) -> int:
        """Length of the past in the log."""
        return self.end_us - self.begin_us - self.cut_us


class Past:
    """A past as the readers of files fill it and an import decides it. All times are in microseconds."""

    def __init__(self, scratch: Scratch, files: Sequence[str], wishes: Wishes) -> None:
        self.scratch = scratch
        self.files = list(files)
        self.findings = RuleCounts(files)
        self.wishes = wishes
        self.nodes: list[tuple[str, Resources]] | None = None
        self.flavors: dict[str, Resources] = {}
        self.formats: list[str] = []
        self.markets: list[str] = []
        self.line_count = 0
        self.record: dict[str, Any] | None = None
        self._name_counts: dict[str, int] = {}
        self.eviction_policy: EvictionPolicy | None = None
        if wishes.nodes is not None:
            _check_bounds(len(wishes.nodes), max(wishes.nodes).cores)
            _check_sizes(wishes.nodes, wishes.sizes)
            self.nodes = [(node_name(index), capacity) for index, capacity in enumerate(wishes.nodes)]

    def node_cores(self) -> int | None:
        """Return the cores of the widest node; None while the platform is unknown."""
        return max((capacity.cores for _, capacity in self.nodes or ()), default=None)

    def flavor_of(self, cores: int, place: FileLine, sizes: Sizes) -> str | None:
        """Return the flavor for a recorded size; if the size is too wide, count that and return None."""
        chosen = sizes.choose(cores, sizes.widest(self.node_cores()))
        if chosen is None:
            self.findings.add(PastRule.TOO_WIDE, place)
            return None
        if chosen[1] > cores:
            self.findings.add(PastRule.ROUNDED_UP, place)
        if chosen[0] not in self.flavors:
            for name, size in sizes.named or (chosen,):  # those that are named are all the cloud's, in use or not
                self.add_flavor(name, Resources(size))
        return chosen[0]

    def pieces(self, cores: int, place: FileLine, sizes: Sizes) -> list[tuple[str, str]]:
        """Return name suffixes and flavors of the instances into which a parallel job is split."""
        widest = sizes.widest(self.node_cores())
        if widest is None or cores <= widest or cores > widest * _MOST_PIECES:
            flavor = self.flavor_of(cores, place, sizes)
            return [] if flavor is None else [("", flavor)]
        self.findings.add(PastRule.SPLIT, place)
        widths = [widest] * (cores // widest) + ([cores % widest] if cores % widest else [])
        flavors = [self.flavor_of(width, place, sizes) for width in widths]
        return [(f".p{number}", flavor) for number, flavor in enumerate(flavors, 1) if flavor is not None]

    def add_flavor(self, name: str, demand: Resources) -> None:
        """Add a flavor of the history. Raises InputError if there are too many to forecast each."""
        self.flavors.setdefault(name, demand)
        if len(self.flavors) > MOST_FLAVORS:
            raise InputError(f"more than {MOST_FLAVORS} flavors: give a few with --flavors, such as doubling")

    def take(self, instance: PastInstance) -> None:
        """Keep an instance, under another name if its own is taken."""
        place = FileLine(instance.file, instance.line)
        if instance.stop_us is not None and instance.stop_us < instance.start_us:
            self.findings.add(PastRule.NEGATIVE_DURATION, place)
            return
        if not 0 <= instance.start_us <= (instance.stop_us or 0) + MAX_TIME_US <= 2 * MAX_TIME_US:
            raise InputError(f"{self.told(place)}: the time is beyond the year 9999")
        if self.scratch.add(instance):
            return
        self.findings.add(PastRule.RENAMED, place)
        added = False
        while not added:
            number = self._name_counts[instance.name] = self._name_counts.get(instance.name, 1) + 1
            added = self.scratch.add(instance._replace(name=_renamed(instance.name, number)))

    def told(self, place: FileLine) -> str:
        """Return the file and the line of a place, for people."""
        return f"{self.files[place.file]}, line {place.line}"

    def finish(self) -> Span:
        """Apply the rules that need the whole past, sort it, and return its span.

        Raises InputError if it is empty or has no place on the platform.
        """
        span = self.scratch.span_us()
        if span is None or not self.scratch.places("1", (), 0)[0]:
            raise InputError(f"{', '.join(self.files)}: no instance is left to import{self.findings.told()}")
        if self.nodes is None:
            raise InputError("the files do not tell the platform: give it with --nodes, such as 31x32")
        self._check_platform(self.nodes)
        begin_us, end_us = span
        self._note_edges(begin_us, end_us)
        self.scratch.close_ends(end_us, on_demand_too=self.wishes.stop_at_end)
        step_count = self.scratch.sort()
        return Span(begin_us, end_us, self._note_gaps(), step_count)

    def _check_platform(self, nodes: list[tuple[str, Resources]]) -> None:
        """Raise InputError if no cloud may be that large, or if nothing of this past could ever run.

        The log of such a past would have rejections alone.
        """
        added_count, added_cores = self.scratch.most_added()
        _check_bounds(len(nodes) + added_count, max(self.node_cores() or 0, added_cores))
        if (
            nodes
            and self.flavors
            and not any(_fits(demand, node) for demand in self.flavors.values() for _, node in nodes)
        ):
            narrowest, widest = min(self.flavors.values()), max(node for _, node in nodes)
            raise _no_place(narrowest.cores, widest.cores)

    def _note_edges(self, begin_us: int, end_us: int) -> None:
        at_end = PastRule.STOPPED_AT_END if self.wishes.stop_at_end else PastRule.RUNNING_AT_END
        edges: list[tuple[PastRule, str, tuple[int, ...], str]] = [
            (PastRule.ZERO_DURATION, "stop_us = start_us", (), "line"),
            (PastRule.RUNNING_AT_START, "start_us <= ?", (begin_us + _EDGE_US,), "line"),
            (at_end, "stop_us IS NULL AND NOT drawn_up", (), "line"),
            (PastRule.ENDS_WITH_RECORD, "stop_us >= ?", (end_us - _EDGE_US,), "end_line"),
        ]
        for rule, condition, values, line in edges:
            self.findings.add_many(rule, *self.scratch.places(condition, values, LINES_NAMED, line))

    def _note_gaps(self) -> int:
        """Count long gaps; return the time that is cut out of them.

        Raises InputError if what is left of one is longer than any cloud may be led on at once.
        """
        longest_us, cut_us = self.wishes.longest_gap_us, 0
        rule = PastRule.LONG_GAP if longest_us is None else PastRule.GAP_SHORTENED
        for place, gap_us in self.scratch.gaps(_LONG_GAP_US if longest_us is None else longest_us):
            if min(gap_us, longest_us or gap_us) > LONGEST_STEP_US:
                raise InputError(
                    f"{self.told(place)}: nothing happens in the {age_text(gap_us)} before it, and {_LONGEST_STEP_DAYS}"
                    " days is the longest that a log takes: cut such gaps with --longest-gap, for example to 30d"
                )
            self.findings.add(rule, place)
            cut_us += gap_us - longest_us if longest_us is not None else 0
        return cut_us


def _check_bounds(node_count: int, cores: int) -> None:
    """Raise InputError if a cloud may not have so many nodes at once, or a node so many cores."""
    if node_count > MOST_NODES:
        raise InputError(f"{node_count} nodes are too many: a cloud has {MOST_NODES} nodes at most")
    if cores > MOST_CORES:
        raise InputError(f"a node of {cores} cores is too large: a node has {MOST_CORES} cores at most")


def _check_sizes(nodes: Sequence[Resources], sizes: Sizes | None) -> None:
    """Raise InputError before anything is read if none of the flavors asked for fits on a node."""
    least, most = min((cores for _, cores in sizes.named), default=0) if sizes else 0, max(nodes).cores
    if least > most:
        raise _no_place(least, most)


def _no_place(least: int, most: int) -> InputError:
    return InputError(
        f"no flavor fits on any node: the smallest takes {least} cores, the largest node has {most}; give wider "
        "--nodes or smaller --flavors"
    )


def _fits(demand: Resources, node: Resources) -> bool:
    """Return True if the demand fits on the empty node. A node does not count a resource of which it has 0."""
    return all(has == 0 or takes <= has for takes, has in zip(demand, node, strict=True))


def _renamed(name: str, number: int) -> str:
    suffix = f".r{number}"
    return name[: _LONGEST_NAME - len(suffix)] + suffix
