"""The CSV log: what is written is read again, and what cannot be read is named."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    NodeDrained,
    NodeOpened,
    NodeRemoved,
    PolicyChanged,
    Recorded,
)
from app.domain.inputs import InputError, parse_number
from app.domain.values import Basis, EvictionPolicy, EvictionReason, Market, Policy, Rejection, Resources
from app.workbench.logcolumns import COLUMNS
from app.workbench.logcsv import LogWriter, read_log

BASIS = Basis(7, 3, 0.05, 1_500_000, 0.0125)
EVENTS: list[Event] = [
    CloudCreated(at_us=0, policy=Policy()),
    NodeAdded(at_us=0, node="n1", capacity=Resources(4, 1024)),
    FlavorAdded(at_us=0, flavor="small", demand=Resources(1, 128)),
    InstanceStarted(
        at_us=1_000_001,
        instance_id="s1",
        market=Market.SPOT,
        flavor="small",
        node="n1",
        lifetime_us=1_000_000,
        probability=None,
        basis=BASIS,
    ),
    InstanceRejected(
        at_us=2_000_000,
        instance_id="s2",
        market=Market.SPOT,
        flavor="small",
        reason=Rejection.SLA_UNATTAINABLE,
        lifetime_us=2_000_000,
        probability=0.05,
        basis=BASIS,
    ),
    PolicyChanged(at_us=2_000_000, policy=Policy(eviction_policy=EvictionPolicy.YJF_GLOBAL)),
    InstanceEvicted(at_us=3_000_000, instance_id="s1", reason=EvictionReason.ON_DEMAND_START, cause_seq=8),
    InstanceStarted(
        at_us=3_000_000,
        instance_id="o1",
        market=Market.ON_DEMAND,
        flavor="small",
        node="n1",
        lifetime_us=None,
        probability=None,
        basis=None,
        victims=("s1",),
    ),
    InstanceStopped(at_us=3_500_000, instance_id="o1"),
    NodeDrained(at_us=4_000_000, node="n1"),
    NodeOpened(at_us=4_000_000, node="n1"),
    NodeRemoved(at_us=4_000_000, node="n1"),
]


def as_text(events: list[Event], *, instances_only: bool = False) -> str:
    file = io.StringIO()
    writer = LogWriter(file, instances_only=instances_only)
    for seq, event in enumerate(events, start=1):
        writer.write(Recorded(seq, event))
    return file.getvalue()


def cells(text: str) -> list[dict[str, str]]:
    return [{name: value for name, value in row.items() if value} for row in csv.DictReader(io.StringIO(text))]


def test_the_promised_columns_come_first() -> None:
    header = as_text([]).strip()
    assert header.startswith(
        "seq,at_s,kind,instance_id,market,cores,lifetime_s,node,reason,cause_seq,epoch,slots,probability,quoted_lifetime_s,"
    )
    assert header == ",".join(COLUMNS)


SMALL = {"cores": "1", "memory_mib": "128", "disk_gib": "0"}


def test_every_kind_has_its_line() -> None:
    rows = cells(as_text(EVENTS))
    assert [row["kind"] for row in rows] == [
        "cloud_created",
        "node_added",
        "flavor_added",
        "instance_started",
        "instance_rejected",
        "policy_changed",
        "instance_evicted",
        "instance_started",
        "instance_stopped",
        "node_drained",
        "node_opened",
        "node_removed",
    ]
    assert rows[0] == {
        "seq": "1",
        "at_s": "0",
        "kind": "cloud_created",
        "eviction_policy": "yjf",
        "placement": "first_fit",
        "guarantee": "per_instance",
        "probability": "0.01",
        "strata_s": "3600 28800 172800 604800",
        "forecast": "replay",
    }
    start = {"instance_id": "s1", "market": "spot", "flavor": "small", "lifetime_s": "1", "node": "n1"} | SMALL
    rest = {
        "epoch": "3",
        "slots": "7",
        "probability": "0.05",
        "quoted_lifetime_s": "1.5",
        "estimated_probability": "0.0125",
        "placement": "first_fit",
        "forecast": "replay",
    }
    assert rows[3] == {"seq": "4", "at_s": "1.000001", "kind": "instance_started", **start, **rest}
    why = {"reason": "on_demand_start", "cause_seq": "8", "eviction_policy": "yjf_global"}
    assert rows[6] == {"seq": "7", "at_s": "3", "kind": "instance_evicted", **start, **why}


def test_instances_only_is_numbered_without_gaps() -> None:
    events = [
        event for event in EVENTS if not isinstance(event, PolicyChanged | NodeDrained | NodeOpened | NodeRemoved)
    ]
    events[5] = InstanceEvicted(at_us=3_000_000, instance_id="s1", reason=EvictionReason.ON_DEMAND_START, cause_seq=7)
    rows = cells(as_text(events, instances_only=True))
    assert [(row["seq"], row["kind"], row.get("cause_seq")) for row in rows] == [
        ("1", "instance_started", None),
        ("2", "instance_rejected", None),
        ("3", "instance_evicted", "4"),
        ("4", "instance_started", None),
        ("5", "instance_stopped", None),
    ]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(as_text(EVENTS), encoding="utf-8")
    rows = list(read_log(path))
    assert [row.seq for row in rows] == list(range(1, 13))
    started = rows[3]
    assert (started.at_us, started.lifetime_us, started.quoted_lifetime_us) == (1_000_001, 1_000_000, 1_500_000)
    assert (started.demand, started.slots, started.epoch, started.probability) == (Resources(1, 128), 7, 3, 0.05)
    assert rows[7].lifetime_us is None
    assert rows[0].guarantee == "per_instance"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: the columns seq, at_s"),
        ("seq,at_s,kind\n", "line 1: the columns instance_id, market"),
        (",".join(COLUMNS) + "\n1,0\n", "line 2: the line has not as many cells"),
        (
            ",".join(COLUMNS) + "\nx,0,cloud_created" + "," * (len(COLUMNS) - 3) + "\n",
            "line 2: 'x' is not a whole number",
        ),
        (",".join(COLUMNS) + "\n1_0,0,cloud_created" + "," * (len(COLUMNS) - 3) + "\n", "'1_0' is not a whole number"),
        (
            ",".join(COLUMNS) + "\n1,soon,cloud_created" + "," * (len(COLUMNS) - 3) + "\n",
            "line 2: 'soon' is not a number of seconds",
        ),
        *(
            (
                ",".join(COLUMNS) + f"\n1,{huge},cloud_created" + "," * (len(COLUMNS) - 3) + "\n",
                f"line 2: '{huge}' is not a number of seconds",
            )
            for huge in ("1e999999999", "-1e99999999", "inf", "1_0", "\u0661\u0662", "1e3")
        ),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        list(read_log(path))
    assert says in str(caught.value)


@pytest.mark.parametrize("text", ["1_0", "\u0661", "+5", " 1", "nan", "inf", "0x1", "01", ".5", ""])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        parse_number(text)


def test_numbers_are_read_as_they_are_written() -> None:
    for number in (0.1, -2.5, 1e-9, 5e-324, 1e22, 3.0, -0.0):
        assert parse_number(str(number)) == number


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        list(read_log(tmp_path / "none.csv"))
