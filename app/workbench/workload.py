"""Workloads: traces of on-demand and spot instances, and the operations that follow from them.

Two formats are read. Eucalyptus: `START time instance-id node-name cores` and `STOP time instance-id`, a line each,
sorted by time. CSV: the header `start_s,lifetime_s,cores`, then a line for each instance. Times are seconds.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TextIO

from app.domain.inputs import InputError, parse_whole
from app.domain.names import flavor_name
from app.domain.requests import StartRequest, StopRequest
from app.domain.times import MAX_TIME_US, SECOND_US, parse_seconds, seconds_text
from app.domain.values import MOST_CORES, Market, Resources
from app.workbench.packed import unpacked

CSV_HEADER = ["start_s", "lifetime_s", "cores"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")

WorkloadStep = StartRequest | StopRequest


class TraceInstance(NamedTuple):
    """One instance of a trace; `name` tells it from the others of its trace."""

    name: str
    start_us: int
    lifetime_us: int
    cores: int

    @property
    def stop_us(self) -> int:
        """Time at which it stops by itself."""
        return self.start_us + self.lifetime_us


@dataclass(frozen=True, slots=True)
class Workload:
    """Two traces in the order of their START lines, the spot trace already delayed and cut.

    `left_out` spot starts were cut off.
    """

    on_demand: tuple[TraceInstance, ...]
    spot: tuple[TraceInstance, ...]
    left_out: int = 0

    @property
    def size(self) -> int:
        """Number of its operations: a start and a stop for each instance."""
        return 2 * (len(self.on_demand) + len(self.spot))


# --- reading ---------------------------------------------------------------------------------------------------------


def load_workload(on_demand: Path, spot: Path, spot_delay_us: int) -> Workload:
    """Read the workload of two trace files. Raises InputError for an unreadable one."""
    return combine(read_trace(on_demand), read_trace(spot), spot_delay_us)


def combine(on_demand: Sequence[TraceInstance], spot: Sequence[TraceInstance], spot_delay_us: int) -> Workload:
    """Start the spot trace late, and ignore its starts at or after the last on-demand stop."""
    if not on_demand:
        raise InputError("the on-demand trace holds no instance")
    end_us = max(instance.stop_us for instance in on_demand)
    delayed = (instance._replace(start_us=instance.start_us + spot_delay_us) for instance in spot)
    taken = tuple(instance for instance in delayed if instance.start_us < end_us)
    return Workload(tuple(on_demand), taken, len(spot) - len(taken))


def read_trace(path: Path) -> list[TraceInstance]:
    """Read the instances of a trace file, compressed by gzip or not, in the order of its starts.

    Raises InputError with file and line.
    """
    try:
        with path.open("rb") as raw, TextIOWrapper(unpacked(raw), encoding="utf-8-sig", newline="") as file:
            lines = enumerate(file, start=1)
            number, first = next(lines, (1, ""))
            if first.startswith("START"):
                return _read_eucalyptus(chain([(number, first)], lines), path)
            if first.strip().split(",") == CSV_HEADER:
                return _read_csv(lines, path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: the compressed file is broken: {error}") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not a text file") from error
    if not first:
        raise InputError(f"{path}: the file is empty")
    raise InputError(f"{path}, line 1: expected a START line or the header {','.join(CSV_HEADER)}")


def _read_eucalyptus(lines: Iterable[tuple[int, str]], path: Path) -> list[TraceInstance]:
    found: dict[str, TraceInstance] = {}
    running: set[str] = set()
    last_us = 0
    for number, line in lines:
        place = f"{path}, line {number}"
        match line.split():
            case ["START", time, name, _, cores]:
                at_us = _time(time, place)
                _add_start(found, running, TraceInstance(name, at_us, 0, _cores(cores, place)), place)
            case ["STOP", time, name]:
                at_us = _time(time, place)
                _add_stop(found, running, name, at_us, place)
            case []:
                continue
            case _:
                raise InputError(f"{place}: expected START time id node cores, or STOP time id")
        if at_us < last_us:
            raise InputError(f"{place}: time runs backwards, {time} s comes after {seconds_text(last_us)} s")
        last_us = at_us
    if running:
        raise InputError(f"{path}: instance {min(running)!r} has no STOP line")
    return list(found.values())


def _add_start(found: dict[str, TraceInstance], running: set[str], instance: TraceInstance, place: str) -> None:
    if not _NAME.fullmatch(instance.name):
        raise InputError(f"{place}: {instance.name!r} is not an instance id")
    if instance.name in found:
        raise InputError(f"{place}: instance {instance.name!r} starts for the second time")
    found[instance.name] = instance
    running.add(instance.name)


def _add_stop(found: dict[str, TraceInstance], running: set[str], name: str, at_us: int, place: str) -> None:
    if name not in running:
        raise InputError(f"{place}: instance {name!r} stops but does not run")
    running.remove(name)
    found[name] = found[name]._replace(lifetime_us=at_us - found[name].start_us)


def _read_csv(lines: Iterable[tuple[int, str]], path: Path) -> list[TraceInstance]:
    instances = []
    for number, line in lines:
        place = f"{path}, line {number}"
        fields = line.strip().split(",")
        if fields == [""]:
            continue
        if len(fields) != len(CSV_HEADER):
            raise InputError(f"{place}: expected {','.join(CSV_HEADER)}")
        start_us, lifetime_us = _time(fields[0], place), _time(fields[1], place)
        instances.append(TraceInstance(str(number - 1), start_us, lifetime_us, _cores(fields[2], place)))
    return sorted(instances, key=lambda instance: instance.start_us)


def _time(text: str, place: str) -> int:
    told = f"{place}: {text!r} is not a number of seconds from 0 to {MAX_TIME_US // SECOND_US}"
    return _number(parse_seconds, text, (0, MAX_TIME_US), told)


def _cores(text: str, place: str) -> int:
    return _number(
        parse_whole, text, (1, MOST_CORES), f"{place}: {text!r} is not a number of cores from 1 to {MOST_CORES}"
    )


def _number(parse: Callable[[str], int], text: str, bounds: tuple[int, int], message: str) -> int:
    try:
        value = parse(text)
    except ValueError as error:
        raise InputError(message) from error
    if not bounds[0] <= value <= bounds[1]:
        raise InputError(message)
    return value


def write_trace(instances: Iterable[TraceInstance], file: TextIO, *, end_us: int | None = None) -> None:
    """Write a trace as CSV, without the lifetimes of those that run on after `end_us`."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for instance in instances:
        runs_on = end_us is not None and instance.stop_us > end_us
        lifetime = "" if runs_on else seconds_text(instance.lifetime_us)
        writer.writerow([seconds_text(instance.start_us), lifetime, instance.cores])


# --- operations ------------------------------------------------------------------------------------------------------


def flavors(workload: Workload) -> dict[str, Resources]:
    """Return the flavors that the workload asks for, one for each core count, smallest first."""
    counts = sorted({instance.cores for instance in (*workload.on_demand, *workload.spot)})
    return {flavor_name(cores): Resources(cores) for cores in counts}


def operations(workload: Workload) -> list[WorkloadStep]:
    """Return all starts and stops in the order in which they are decided.

    At equal times stops come first, then on-demand starts, then spot starts, each in the order of the START lines. An
    instance with a lifetime of zero stops right after its start, before the next one.
    """
    starts = [(Market.ON_DEMAND, instance) for instance in workload.on_demand]
    starts += [(Market.SPOT, instance) for instance in workload.spot]
    starts.sort(key=lambda start: start[1].start_us)
    keyed: list[tuple[tuple[int, int, int, int], WorkloadStep]] = []
    for order, (market, instance) in enumerate(starts):
        request = _start(market, instance)
        stop = StopRequest(request.instance_id, instance.stop_us)
        keyed.append(((instance.start_us, 1, order, 0), request))
        keyed.append(((instance.stop_us, 0 if instance.lifetime_us else 1, order, 1), stop))
    keyed.sort(key=lambda item: item[0])
    return [operation for _, operation in keyed]


def _start(market: Market, instance: TraceInstance) -> StartRequest:
    prefix = "spot" if market is Market.SPOT else "od"
    return StartRequest(
        f"{prefix}-{instance.name}",
        market,
        flavor_name(instance.cores),
        instance.lifetime_us,
        at_us=instance.start_us,
    )
