"""The report of an import: lines read and taken, rules applied, and the contents of the log."""

from __future__ import annotations

from typing import Any

from app.domain.times import SECOND_US, to_datetime
from app.domain.values import Guarantee
from app.forecasts.rules import Run
from app.importing.decide_past import PastDecider
from app.importing.rules.pastrules import Effect
from app.importing.service import Import, Imported


def report(wanted: Import, imported: Imported, table: Run | None, *, dry_run: bool) -> dict[str, Any]:
    """Return the report of an import or of a rehearsal, as JSON values. `table` is the request for the first table."""
    past, decider = wanted.past, imported.decider
    rules = past.findings.report()
    written = imported.written_count
    return {
        "cloud": wanted.cloud,
        "dry_run": dry_run,
        "files": [
            {"file": file, "format": name, "market": market}
            for file, name, market in zip(past.files, past.formats, past.markets, strict=True)
        ],
        "lines": past.line_count,
        "rules": rules,
        "record": past.record,
        "lines_left_out": sum(rule["count"] for rule in rules if rule["effect"] == Effect.LEFT_OUT),
        **_log(wanted, decider),
        "events": {"written": written, "there_before": imported.there_count},
        "events_per_s": round(written / imported.wall_s) if written and not dry_run else None,
        "table": None if table is None else {"run": table.id, "status": str(table.status), "epoch": table.epoch},
        "wall_s": round(imported.wall_s, 3),
    }


def _log(wanted: Import, decider: PastDecider) -> dict[str, Any]:
    """Summarise the log that the past gives."""
    cloud, policy = decider.cloud, wanted.policy
    quoted_us = decider.begin_us + policy.warm_up_us
    return {
        "begins_at": to_datetime(decider.begin_us).isoformat(),
        "ends_at": to_datetime(decider.end_us).isoformat(),
        "length_s": wanted.span.length_us / SECOND_US,
        "nodes": len(cloud.nodes),
        "cores": sum(node.capacity.cores for node in cloud.nodes.values()),
        "flavors": list(cloud.flavors),
        "on_demand": {"requested": cloud.counts.on_demand_requested, "admitted": cloud.counts.on_demand_admitted},
        "spot": {
            "requested": cloud.counts.spot_requested,
            "admitted": cloud.counts.spot_admitted,
            "evicted": cloud.counts.spot_evicted,
        },
        "running": len(cloud.running),
        "quotes_from": None if policy.guarantee is Guarantee.NONE else to_datetime(quoted_us).isoformat(),
        "warmed_up": quoted_us <= decider.end_us,
    }
