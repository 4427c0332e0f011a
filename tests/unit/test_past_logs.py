"""A past is decided as the live scheduler would have; its log passes the audit and, written as CSV, is a past again."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from app.domain.events import (
    Event,
    EvictionScheduled,
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    NodeDrained,
    NodeRemoved,
    PolicyChanged,
    Recorded,
)
from app.domain.events.registry import KINDS
from app.domain.inputs import InputError
from app.domain.policies import PROTECTION, protected, unprotected
from app.domain.times import HOUR_US
from app.domain.values import Clock, EvictionPolicy, Guarantee, Market, Policy, Resources
from app.importing.decide_past import PastDecider
from app.importing.past import Past, Wishes
from app.importing.store.scratch import Scratch
from app.workbench.audit import audit
from app.workbench.evaluate import evaluate
from app.workbench.import_formats.files import read_past
from app.workbench.logcsv import LogWriter, read_log
from app.workbench.synthesis import synthesize
from app.workbench.tally import Scenario
from app.workbench.workload import load_workload, write_trace

NODES = (Resources(4),) * 3
NO_SLA = Policy(guarantee=Guarantee.NONE, clock=Clock.EXTERNAL)


class Log:
    """Takes every event."""

    def __init__(self) -> None:
        self.recorded: list[Recorded] = []

    def write(self, recorded: Recorded) -> None:
        self.recorded.append(recorded)


def decided(
    files: list[Path], spot: list[Path], wishes: Wishes, policy: Policy = NO_SLA
) -> tuple[Past, list[Recorded]]:
    with Scratch() as scratch:
        past = Past(scratch, [str(path) for path in (*files, *spot)], wishes)
        read_past(past, files, spot)
        return past, list(PastDecider(past, past.finish(), policy, 0).events())


def written(path: Path, recorded: Iterable[Recorded]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = LogWriter(file)
        for item in recorded:
            writer.write(item)
    return path


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two crowded days of both markets."""
    directory = tmp_path_factory.mktemp("traces")
    for seed, name in enumerate(("od.csv", "spot.csv")):
        with (directory / name).open("w") as file:
            write_trace(synthesize(days=2, mean_utilisation=8, cores=1 + seed, seed=seed), file)
    return directory / "od.csv", directory / "spot.csv"


def shape(events: Iterable[Event]) -> list[tuple[object, ...]]:
    """Return what happened to instances, without their names."""
    kinds = InstanceStarted | InstanceRejected | InstanceStopped | InstanceEvicted
    parts = ("at_us", "market", "flavor", "node", "lifetime_us", "reason")
    return [
        (type(event), *(getattr(event, part, None) for part in parts)) for event in events if isinstance(event, kinds)
    ]


def test_a_past_is_decided_as_an_evaluation_does(traces: tuple[Path, Path]) -> None:
    log = Log()
    with ThreadPoolExecutor() as executor:
        evaluate(Scenario(NODES, load_workload(*traces, 0), NO_SLA), executor, logs=[log])
    _, recorded = decided([traces[0]], [traces[1]], Wishes(NODES))
    last_us = max(item.event.at_us for item in log.recorded)
    assert shape(i.event for i in recorded if i.event.at_us <= last_us)[: len(log.recorded)] == shape(
        item.event for item in log.recorded
    )
    assert sum(isinstance(item.event, InstanceEvicted) for item in recorded) > 20


def test_the_log_of_a_past_passes_the_audit(traces: tuple[Path, Path], tmp_path: Path) -> None:
    _, recorded = decided([traces[0]], [traces[1]], Wishes(NODES), Policy())
    found = audit(read_log(written(tmp_path / "log.csv", recorded)), [])
    assert (found.event_count, found.finding) == (len(recorded), None)


def test_a_log_is_a_past_with_the_same_events(traces: tuple[Path, Path], tmp_path: Path) -> None:
    _, recorded = decided([traces[0]], [traces[1]], Wishes(NODES))
    past, again = decided([written(tmp_path / "log.csv", recorded)], [], Wishes())
    assert (past.formats, past.markets) == (["log"], ["both"])
    rejected = [event for event in events_of_instances(recorded) if is_rejected_spot(event)]
    assert events_of_instances(again) == [event for event in events_of_instances(recorded) if event not in rejected]
    assert [(rule["rule"], rule["count"]) for rule in past.findings.report() if rule["effect"] == "left_out"] == [
        ("rejected_spot", len(rejected))
    ]
    assert not [rule for rule in past.findings.report() if rule["effect"] == "changed"]


def events_of_instances(recorded: Iterable[Recorded]) -> list[Event]:
    """Without the causes' seqs, which depend on what stands before."""
    kinds = InstanceStarted | InstanceRejected | InstanceStopped | InstanceEvicted
    return [
        replace(item.event, cause_seq=0) if isinstance(item.event, InstanceEvicted) else item.event
        for item in recorded
        if isinstance(item.event, kinds)
    ]


def is_rejected_spot(event: Event) -> bool:
    return isinstance(event, InstanceRejected) and event.market is Market.SPOT


HEAD = (
    "seq,at_s,kind,instance_id,market,cores,lifetime_s,node,reason,cause_seq,epoch,slots,probability,"
    "quoted_lifetime_s,flavor,eviction_policy\n"
)


def log_of(*rows: str) -> str:
    """A log of rows kind,instance,market,cores,lifetime,node,reason,cause,flavor at seconds 1, 2, 3, ..."""
    lines = []
    for seq, row in enumerate(rows, 1):
        kind, instance, market, cores, lifetime, node, reason, cause, flavor, policy = (row + "," * 9).split(",")[:10]
        lines.append(
            f"{seq},{seq},{kind},{instance},{market},{cores},{lifetime},{node},{reason},{cause},,,,,{flavor},{policy}"
        )
    return HEAD + "\n".join(lines) + "\n"


def test_only_the_end_of_a_past_protects_from_callers(tmp_path: Path) -> None:
    """Of two spot instances on a full node the first overruns; the past refused the second, and does so again."""
    rows = "node_added,,,2,,n-1", "instance_started,s-1,spot,2,1,n-1", "instance_started,s-2,spot,2,9,n-1"
    (tmp_path / "log.csv").write_text(log_of("cloud_created,,,,,,,,,yjf", *rows))
    policy = protected(replace(NO_SLA, eviction_probability=0.3))
    _, recorded = decided([tmp_path / "log.csv"], [], Wishes(), policy)
    _, before = decided([tmp_path / "log.csv"], [], Wishes(), unprotected(policy))
    assert recorded[:-1] == before
    assert [item.event.instance_id for item in before if isinstance(item.event, InstanceRejected)] == ["s-2"]
    closing = recorded[-1].event
    assert isinstance(closing, PolicyChanged)
    assert closing.policy == policy
    assert (closing.policy.highest_probability, closing.policy.overrun_share) == (0.3, PROTECTION["overrun_share"])
    found = audit(read_log(written(tmp_path / "again.csv", recorded)), [])
    assert (found.event_count, found.finding) == (len(recorded), None)


CLOUD = ("cloud_created,,,,,,,,,yjf", "node_added,,,4,,n-1", "flavor_added,,,2,,,,,two")


def of(tmp_path: Path, text: str, **wishes: object) -> tuple[Past, list[Event]]:
    (tmp_path / "log.csv").write_text(text)
    past, recorded = decided([tmp_path / "log.csv"], [], Wishes(**wishes))  # type: ignore[arg-type]
    return past, [item.event for item in recorded]


def rules(past: Past) -> dict[str, int]:
    edges = {"running_at_start", "ends_with_record"}
    return {rule["rule"]: rule["count"] for rule in past.findings.report() if rule["rule"] not in edges}


def test_what_a_log_has_that_a_past_has_not(tmp_path: Path) -> None:
    text = log_of(
        *CLOUD,
        "instance_started,s,spot,2,3,n-1,,,two",
        "instance_rejected,t,spot,2,100,,sla_unattainable,,two",
        "instance_evicted,s,spot,2,3,n-1,on_demand_start,7,two",
        "instance_started,a,on_demand,1,,n-1,,,one",
        "policy_changed,,,,,,,,,yjf_global",
        "node_removed,,,,,n-1",
        "instance_stopped,a,on_demand,1,,n-1,,,one",
    )
    past, events = of(tmp_path, text)
    assert rules(past) == {"rejected_spot": 1, "unknown_flavor": 1, "drawn_up_end": 1, "node_kept": 1}
    assert [type(event) for event in events if isinstance(event, NodeAdded | NodeDrained | NodeRemoved)] == [
        NodeAdded,
        NodeDrained,
    ]
    stops = [(event.instance_id, event.at_us // 1_000_000) for event in events if isinstance(event, InstanceStopped)]
    assert stops == [("s", 7), ("a", 10)]
    assert next(e for e in events if isinstance(e, InstanceStarted) and e.instance_id == "a").lifetime_us is None
    replaced, _ = of(tmp_path, text, nodes=NODES)
    assert rules(replaced)["nodes_replaced"] == 2


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (["instance_stopped,x,on_demand,2,,n-1,,,two"], "line 5: instance 'x' ends but does not run"),
        (["instance_started,a,on_demand,2,,n-1,,,two"] * 2, "line 6: instance 'a' was decided before"),
        (
            [
                "instance_started,a,on_demand,2,,n-1,,,two",
                "instance_stopped,a,on_demand,2,,n-1,,,two",
                "instance_rejected,a,on_demand,2,,,no_capacity,,two",
            ],
            "line 7: instance 'a' was decided before",
        ),
        (["instance_started,a,spot,2,,n-1,,,two"], "line 5: a start names its market, and a spot start its lifetime"),
        (["instance_started,a,nowhere,2,,n-1,,,two"], "line 5: a start names its market"),
        (["instance_started,a,on_demand,3,,n-1,,,two"], "line 5: it asks for another size than its flavor"),
        (["instance_started,a,on_demand,0,,n-1,,,none"], "line 5: it asks for nothing"),
        (
            ["instance_started,a,on_demand,2,,n-1,,,two", "instance_evicted,a,on_demand,2,,n-1,node_removed,1,two"],
            "line 6: instance 'a' is on-demand and evicted",
        ),
        (["node_added,,,4,,n-1"], "line 5: node 'n-1' is there already"),
        (["node_drained,,,,,n-2"], "line 5: there is no node 'n-2'"),
        (["flavor_added,,,3,,,,,two"], "line 5: flavor 'two' is there already, with another size"),
        (["policy_changed,,,,,,,,,eldest"], "line 5: the eviction policy 'eldest' is unknown"),
        (["instance_vanished,a"], "line 5: the kind 'instance_vanished' is unknown"),
        (["instance_started,a,on_demand,two,,n-1,,,two"], "line 5: 'two' is not a whole number"),
        (['instance_started,"a,on_demand'], "line 5"),
        (["instance_started,a,spot,2,1e40,n-1,,,two"], "line 5: '1e40' is not a number of seconds"),
        (
            ["instance_started,a,spot,2,1000000000000,n-1,,,two"],
            "line 5: it asks for nothing, or for less, or for too much",
        ),
        (["instance_started,a,on_demand,99999999999999,,n-1,,,huge"], "line 5: it asks for nothing, or for less"),
        (["instance_started,../a,on_demand,2,,n-1,,,two"], "line 5: '../a' is not an id or a name"),
        (["node_added,,,-4,,n-2"], "line 5: node 'n-2' is there already, or has nothing"),
    ],
)
def test_a_log_that_breaks_its_own_rules_names_the_line(tmp_path: Path, rows: list[str], says: str) -> None:
    with pytest.raises(InputError) as caught:
        of(tmp_path, log_of(*CLOUD, *rows))
    assert says in str(caught.value)


def test_seqs_without_gaps_and_times_that_rise(tmp_path: Path) -> None:
    text = log_of(*CLOUD, "instance_started,a,on_demand,2,,n-1,,,two", "instance_stopped,a,on_demand,2,,n-1,,,two")
    for old, new, says in (
        ("\n5,5,", "\n6,5,", "line 6: seq 6 follows 4"),
        ("\n5,5,", "\n5,3,", "line 6: time runs backwards"),
    ):
        with pytest.raises(InputError, match=says):
            of(tmp_path, text.replace(old, new))
    with pytest.raises(InputError, match="give it with --nodes"):
        of(tmp_path, log_of(CLOUD[0], "instance_rejected,a,on_demand,2,,,no_capacity,,two"))
    (tmp_path / "od.csv").write_text("start_s,lifetime_s,cores\n0,1,1\n")
    with pytest.raises(InputError, match="import it alone"):
        decided([tmp_path / "od.csv", tmp_path / "log.csv"], [], Wishes(NODES))


def test_the_policy_of_a_log_rules_its_own_past(tmp_path: Path) -> None:
    text = log_of(CLOUD[0].replace("yjf", "yjf_global"), *CLOUD[1:], "instance_started,a,on_demand,2,,n-1,,,two")
    _, events = of(tmp_path, text)
    policies = [event.policy for event in events if hasattr(event, "policy")]
    assert [policy.eviction_policy for policy in policies] == [EvictionPolicy.YJF_GLOBAL, EvictionPolicy.YJF]


def test_the_log_of_a_cloud_that_gives_notice_is_a_past(traces: tuple[Path, Path], tmp_path: Path) -> None:
    _, plain = decided([traces[0]], [traces[1]], Wishes(NODES))
    _, recorded = decided([traces[0]], [traces[1]], Wishes(NODES), replace(NO_SLA, grace_us=HOUR_US))
    past, again = decided([written(tmp_path / "log.csv", recorded)], [], Wishes())
    scheduled = sum(isinstance(item.event, EvictionScheduled) for item in recorded)
    assert rules(past)["notice"] == scheduled > 20
    assert shape(item.event for item in again if not is_rejected_spot(item.event)) == shape(
        item.event for item in plain if not is_rejected_spot(item.event)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_event_is_known(tmp_path: Path, kind: str) -> None:
    try:
        of(tmp_path, log_of(*CLOUD, "instance_started,a,spot,2,1,n-1,,,two", f"{kind},a"))
    except InputError as error:
        assert "is unknown" not in str(error)  # noqa: PT017


def test_gaps_of_a_log_can_be_cut(tmp_path: Path) -> None:
    text = log_of(*CLOUD, "instance_started,a,on_demand,2,,n-1,,,two").replace("\n4,4,", "\n4,90000,")
    _, events = of(tmp_path, text, longest_gap_us=HOUR_US)
    assert events[-1].at_us == 3600_000_000 + 2_000_000  # the past begins with the node, at second 2


def test_an_end_that_is_drawn_up_never_lies_after_the_past(tmp_path: Path) -> None:
    rows = ("instance_started,s,spot,2,9000,n-1,,,two", "instance_evicted,s,spot,2,9000,n-1,on_demand_start,6,two")
    text = log_of(*CLOUD, *rows, "instance_started,a,on_demand,4,,n-1,,,four")
    past, events = of(tmp_path, text)
    assert events[-1].at_us == 6_000_000
    assert sum(isinstance(event, InstanceEvicted) for event in events) == 1
    assert rules(past)["running_at_end"] == 1
