"""Reads the history of utilisation as a bounded number of points, however long the time and the log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.domain.errors import NodeNotFound, TimeRangeInvalid
from app.domain.times import DAY_US, SECOND_US
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from app.utilisation.rules import KEPT, NODE_KEPT, NODE_WIDTHS_S, WIDTHS_S
from app.utilisation.store import WHOLE, BucketKey, RollupProgress, Row, UtilisationRows

MOST_POINTS = 1_000


@dataclass(frozen=True, slots=True)
class UtilisationPoint:
    """A bucket of time that begins at `at_us`: means and peaks in cores, and counts of decisions."""

    at_us: int
    on_demand_mean: float
    spot_mean: float
    total_mean: float
    on_demand_peak: int
    spot_peak: int
    used_peak: int
    on_demand_admitted: int
    on_demand_rejected: int
    spot_admitted: int
    spot_rejected: int
    evicted: int


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Points of `width_us` each, as known at event `seq`. The last one may be cut short at `as_of_us`."""

    begin_us: int
    as_of_us: int
    width_us: int
    seq: int
    log_seq: int
    points: Sequence[UtilisationPoint]


class UtilisationHistory:
    """Reads the history by cloud name. `now_us` is the server's clock."""

    def __init__(self, clouds: Clouds, log: EventLog, rows: UtilisationRows, now_us: Callable[[], int]) -> None:
        self._clouds = clouds
        self._log = log
        self._rows = rows
        self._now_us = now_us

    async def read(
        self,
        cloud: str,
        *,
        system_clock: bool,
        begin_us: int | None = None,
        end_us: int | None = None,
        points: int = 300,
        node: str | None = None,
    ) -> Utilisation:
        """Return the time from `begin_us` (default: a day before its end) to `end_us` (default: now).

        There are at most `points` buckets, and up to two more from rounding to whole ones. Raises CloudNotFound,
        NodeNotFound and TimeRangeInvalid.
        """
        found = await self._read(cloud, system_clock, begin_us, end_us, points, [node or WHOLE])
        if node is not None and not found[1]:
            raise NodeNotFound(f"nothing is known of a node {node!r}")
        shape, rows = found
        return shape.over(rows.get(node or WHOLE, []))

    async def read_nodes(
        self, cloud: str, nodes: Sequence[str], *, system_clock: bool, begin_us: int, end_us: int | None, points: int
    ) -> dict[str, Utilisation]:
        """Return several nodes' utilisation at once, as `read` does for one."""
        shape, rows = await self._read(cloud, system_clock, begin_us, end_us, points, nodes)
        return {node: shape.over(rows.get(node, [])) for node in nodes}

    async def _read(
        self,
        cloud: str,
        system_clock: bool,  # noqa: FBT001 - passed on from the keyword
        begin_us: int | None,
        end_us: int | None,
        points: int,
        names: Sequence[str],
    ) -> tuple[_Shape, dict[str, list[tuple[BucketKey, Row]]]]:
        cloud_id = await self._clouds.id_of(cloud)
        progress = await self._rows.progress(cloud_id) or RollupProgress(0, 0, 0)
        log_seq = await self._log.last_seq(cloud_id)
        # While events wait to be folded, the level after the last folded one is unknown.
        live = system_clock and progress.seq == log_seq
        as_of_us = max(progress.at_us, self._now_us()) if live else progress.at_us
        end = min(as_of_us, end_us) if end_us is not None else as_of_us
        begin = max(progress.begin_us, end - DAY_US if begin_us is None else begin_us)
        if begin_us is not None and end_us is not None and end_us <= begin_us:
            raise TimeRangeInvalid("the end of the time asked for is not after its begin")
        shape = _shape(names, begin, max(begin, end), as_of_us, points, progress, log_seq)
        rows: defaultdict[str, list[tuple[BucketKey, Row]]] = defaultdict(list)
        for key, row in await self._rows.rows(cloud_id, names, shape.width_us // SECOND_US, shape.first, shape.last):
            rows[key.node].append((key, row))
        return shape, rows


@dataclass(frozen=True, slots=True)
class _Shape:
    """The buckets that are asked for, and the times between which they count."""

    width_us: int
    first: int
    last: int
    as_of_us: int
    progress: RollupProgress
    log_seq: int

    def over(self, rows: Sequence[tuple[BucketKey, Row]]) -> Utilisation:
        """Return the points of a series. `rows` may begin with the last row before the first bucket."""
        if not self.progress.seq:
            return Utilisation(0, 0, self.width_us, 0, self.log_seq, ())
        points = tuple(self._points(rows))
        return Utilisation(
            self.first * self.width_us, self.as_of_us, self.width_us, self.progress.seq, self.log_seq, points
        )

    def _points(self, rows: Sequence[tuple[BucketKey, Row]]) -> Iterator[UtilisationPoint]:
        by_bucket = {key.bucket: row for key, row in rows}
        level = rows[0][1] if rows and rows[0][0].bucket < self.first else Row(0)
        for bucket in range(self.first, self.last + 1):
            row = by_bucket.get(bucket)
            begin_us = max(bucket * self.width_us, self.progress.begin_us)
            end_us = min((bucket + 1) * self.width_us, self.as_of_us)
            yield _point(bucket * self.width_us, begin_us, end_us, row, level)
            level = row or level


def _shape(
    names: Sequence[str], begin_us: int, end_us: int, as_of_us: int, points: int, progress: RollupProgress, log_seq: int
) -> _Shape:
    """Return the finest width that needs no more points than wanted and still has buckets that old."""
    whole = WHOLE in names
    widths, kept = (WIDTHS_S, KEPT) if whole else (NODE_WIDTHS_S, NODE_KEPT)
    for width_s in widths:
        width_us = width_s * SECOND_US
        first, last = begin_us // width_us, max(begin_us, end_us - 1) // width_us
        is_there = first > progress.at_us // width_us - kept
        if (end_us - begin_us <= points * width_us and is_there) or width_s == widths[-1]:
            break
    return _Shape(width_us, first, last, as_of_us, progress, log_seq)


def _point(at_us: int, begin_us: int, end_us: int, row: Row | None, before: Row) -> UtilisationPoint:
    """Return a bucket's means and peaks. After its last event the level stands; without a row, the earlier level."""
    if row is None:
        on_demand, spot = before.on_demand_end, before.spot_end
        row = Row(begin_us, 0, 0, 0, on_demand, spot, on_demand + spot, on_demand, spot, before.total_end)
    rest_us, length_us = max(0, end_us - row.last_us), max(1, end_us - begin_us)
    return UtilisationPoint(
        at_us,
        (row.on_demand_area + rest_us * row.on_demand_end) / length_us,
        (row.spot_area + rest_us * row.spot_end) / length_us,
        (row.total_area + rest_us * row.total_end) / length_us,
        row.on_demand_peak,
        row.spot_peak,
        row.used_peak,
        row.on_demand_admitted,
        row.on_demand_rejected,
        row.spot_admitted,
        row.spot_rejected,
        row.evicted,
    )
