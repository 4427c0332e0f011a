"""Groups of spot instances: whom a start evicts, what the audit finds, and what takes no groups."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from app.admission.decide import decide_drill, decide_node_removal, decide_start
from app.domain.events import CloudCreated, Event, FlavorAdded, InstanceEvicted, InstanceStarted, NodeAdded, Recorded
from app.domain.inputs import InputError
from app.domain.requests import StartRequest
from app.domain.values import EvictionPolicy, Guarantee, Market, Policy, Resources
from app.engine.cloud import Cloud
from app.importing.decide_past import PastDecider
from app.importing.past import Past, Wishes
from app.importing.store.scratch import Scratch
from app.workbench.audit import audit
from app.workbench.audit.findings import Rule
from app.workbench.import_formats.files import read_past
from app.workbench.logcsv import LogRow, LogWriter, read_rows


class Told:
    """A cloud of two nodes of three cores, and its log."""

    def __init__(self, policy: EvictionPolicy = EvictionPolicy.YJF) -> None:
        self.cloud, self.log = Cloud(), list[Recorded]()
        self.take([CloudCreated(at_us=0, policy=Policy(guarantee=Guarantee.NONE, eviction_policy=policy))])
        self.take([NodeAdded(at_us=0, node=name, capacity=Resources(3)) for name in ("n0", "n1")])
        self.take([FlavorAdded(at_us=0, flavor=f"c{size}", demand=Resources(size)) for size in (1, 2, 3)])

    def take(self, events: list[Event]) -> list[Event]:
        self.log += [self.cloud.apply(event) for event in events]
        return events

    def start(self, name: str, flavor: str, count: int = 1, market: Market = Market.SPOT) -> InstanceStarted:
        request = StartRequest(name, market, flavor, 100, count=count)
        decision = self.take([*decide_start(self.cloud, request, 1, None)])[-1]
        assert isinstance(decision, InstanceStarted)
        return decision

    def rows(self) -> list[LogRow]:
        file = io.StringIO()
        writer = LogWriter(file)
        for item in self.log:
            writer.write(item)
        return [row for _, row in read_rows(io.StringIO(file.getvalue()), "log")]


def crowded(policy: EvictionPolicy = EvictionPolicy.YJF) -> Told:
    """A group has a member on either node, and a younger instance stands beside the first."""
    told = Told(policy)
    assert told.start("group", "c2", 2).nodes == ("n0", "n1")
    assert told.start("young", "c1").node == "n0"
    return told


def test_of_the_nodes_that_a_group_leaves_the_one_is_taken_that_costs_the_fewest_machines() -> None:
    decision = crowded().start("peak", "c3", market=Market.ON_DEMAND)
    assert (decision.node, decision.victims) == ("n1", ("group",)), "n0 would cost the younger one too"


def test_the_global_rule_evicts_all_that_are_younger() -> None:
    decision = crowded(EvictionPolicy.YJF_GLOBAL).start("peak", "c3", market=Market.ON_DEMAND)
    assert (decision.node, decision.victims) == ("n0", ("young", "group"))


def test_a_group_is_evicted_for_any_of_its_nodes_and_in_a_drill() -> None:
    told = crowded()
    removal = decide_node_removal(told.cloud, "n1", 2)
    assert [one.instance_id for one in removal if isinstance(one, InstanceEvicted)] == ["group"]
    told.take([*decide_drill(told.cloud, "group", 2)])
    assert (told.cloud.free("n0").cores, told.cloud.free("n1").cores) == (2, 3)


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"nodes": ("n0", "n0")}, Rule.CAPACITY),
        ({"nodes": ("n1", "n0")}, Rule.FOLD),
        ({"members": 3}, Rule.CAPACITY),
        ({"slots": 2}, Rule.SLA),
        ({"market": "on_demand"}, Rule.FOLD),
    ],
)
def test_the_audit_finds_a_group_that_was_not_decided_so(changed: dict[str, object], rule: Rule) -> None:
    rows = crowded().rows()
    assert audit(rows, []).finding is None
    at = next(at for at, row in enumerate(rows) if row.instance_id == "group")
    assert rows[at].slots == 1
    rows[at] = rows[at]._replace(**changed)  # type: ignore[arg-type]
    finding = audit(rows, []).finding
    assert finding is not None
    assert (finding.rule, finding.seq) == (rule, rows[at].seq)


@pytest.mark.parametrize("evicted", [False, True])
def test_a_past_with_groups_is_decided_as_it_was(tmp_path: Path, *, evicted: bool) -> None:
    told = crowded()
    if evicted:
        assert told.start("peak", "c3", market=Market.ON_DEMAND).victims
    file = tmp_path / "log.csv"
    with file.open("w", newline="") as lines:
        writer = LogWriter(lines)
        for item in told.log:
            writer.write(item)
    with Scratch() as scratch:
        past = Past(scratch, [str(file)], Wishes())
        read_past(past, [file], [])
        log = [*PastDecider(past, past.finish(), told.cloud.policy, 0).events()]
    decisions = [item.event for item in told.log if isinstance(item.event, InstanceStarted | InstanceEvicted)]
    assert [item.event for item in log if isinstance(item.event, InstanceStarted | InstanceEvicted)] == decisions
    assert next(event for event in decisions if isinstance(event, InstanceStarted)).count == 2


@pytest.mark.parametrize(
    ("market", "members", "why"),
    [("on_demand", "2", "a group is of spot instances"), ("spot", "257", "a group has from 1 to 256 members")],
)
def test_a_past_with_a_group_that_cannot_be_is_refused(tmp_path: Path, market: str, members: str, why: str) -> None:
    file = tmp_path / "log.csv"
    with file.open("w", newline="") as lines:
        writer = LogWriter(lines)
        for item in crowded().log:
            writer.write(item)
    rows = [*csv.DictReader(file.read_text().splitlines())]
    changed = next(row for row in rows if row["instance_id"] == "group")
    changed |= {"market": market, "members": members, "nodes": " ".join(["n0"] * int(members))}
    with file.open("w", newline="") as lines:
        out = csv.DictWriter(lines, rows[0].keys())
        out.writeheader()
        out.writerows(rows)
    with Scratch() as scratch, pytest.raises(InputError, match=f"line 8: {why}"):
        read_past(Past(scratch, [str(file)], Wishes()), [file], [])
