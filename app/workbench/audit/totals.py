"""The sums of a log that breaks no rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from app.domain.values import EvictionReason, Market
from app.workbench.audit.findings import Totals
from app.workbench.audit.world import World
from app.workbench.logcsv import LogRow


def totals_of(world: World, lines: Sequence[LogRow]) -> Totals:
    """Return the sums of a log that breaks no rule.

    What happened is counted from its lines; what is present at the end is read from the state that they lead to.
    """
    started = Counter(row.market or "" for row in lines if row.kind == "instance_started")
    refused = Counter((row.market or "", row.reason or "") for row in lines if row.kind == "instance_rejected")
    evicted = Counter(row.reason == EvictionReason.DRILL for row in lines if row.kind == "instance_evicted")
    aborted = Counter(row.market or "" for row in lines if row.aborted is not None)
    running = [instance.row for instance in world.running.values()]
    rejected = {of: {why: count for (market, why), count in refused.items() if market == of} for of in Market}
    return Totals(
        requested={of.value: started[of] + sum(rejected[of].values()) for of in Market},
        admitted={of.value: started[of] - aborted[of] for of in Market},
        rejected={of.value: rejected[of] for of in Market},
        evicted=evicted[False],
        drilled=evicted[True],
        stopped=sum(row.kind == "instance_stopped" and row.aborted is None for row in lines),
        running={of.value: sum(row.market == of for row in running) for of in Market},
        used_cores={
            of.value: sum(row.machine_count * row.demand.cores for row in running if row.market == of) for of in Market
        },
        capacity_cores=sum(node.capacity.cores for node in world.nodes.values()),
        classes={promised: (admitted, lost) for promised, (admitted, lost) in sorted(world.classes.items())},
    )
