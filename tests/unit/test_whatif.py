"""A log decided again: the same where nothing is changed, and small worlds worked out by hand."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from oracles.histories import RandomCloud
from repeats import seeds
from typer.testing import CliRunner

from app.admission.decide import decide_node_removal, decide_start, decide_stop
from app.admission.extend import decide_extension
from app.cli import command_line
from app.domain.events import (
    CloudCreated,
    Event,
    ExtensionRejected,
    FlavorAdded,
    InstanceStarted,
    NodeAdded,
    NodeDrained,
    NodeRemoved,
    PolicyChanged,
    QuotaRemoved,
    QuotaSet,
    Recorded,
)
from app.domain.inputs import InputError, parse_nodes
from app.domain.requests import ExtendRequest, StartRequest
from app.domain.strata import STRATA
from app.domain.times import HOUR_US, SECOND_US
from app.domain.values import (
    Basis,
    Clock,
    EvictionPolicy,
    Forecast,
    Guarantee,
    Market,
    Placement,
    Policy,
    Rejection,
    Resources,
)
from app.engine.cloud import Cloud
from app.workbench.evaluate import evaluate
from app.workbench.logcsv import LogWriter, read_log
from app.workbench.logevents import events_of
from app.workbench.synthesis import synthesize
from app.workbench.tally import Scenario
from app.workbench.whatif import Account, Changes, Question, ask, count_log
from app.workbench.workload import combine

NO_SLA = Policy(guarantee=Guarantee.NONE, clock=Clock.EXTERNAL)


class Kept(list[Recorded]):
    def write(self, recorded: Recorded) -> None:
        self.append(recorded)


def evaluated(**changes: Any) -> Kept:
    """The log of two crowded days."""
    on_demand, spot = (synthesize(days=2, mean_utilisation=8, cores=1, seed=seed) for seed in (1, 2))
    policy = replace(Policy(eviction_probability=0.1, clock=Clock.EXTERNAL, sample_count=200), **changes)
    kept = Kept()
    with ThreadPoolExecutor(2) as threads:
        evaluate(Scenario(parse_nodes("3x4"), combine(on_demand, spot, 0), policy), threads, logs=[kept])
    return kept


def asked(recorded: list[Recorded], **changes: Any) -> Account:
    (account,) = ask([Question(recorded, Changes(**changes))])
    return account


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"guarantee": Guarantee.NONE},
        {"eviction_policy": EvictionPolicy.YJF_GLOBAL},
        {"placement": Placement.BEST_FIT},
        {"forecast": Forecast.CALIBRATED},
    ],
    ids=["per instance", "no SLA", "yjf_global", "best_fit", "calibrated"],
)
def test_without_a_change_it_is_as_it_was(changes: dict[str, Any]) -> None:
    recorded = evaluated(**changes)
    assert asked(recorded) == count_log(recorded)


def test_a_changed_log_is_as_if_it_had_been_so() -> None:
    """Every lifetime of these logs is known, so deciding one again under the other's policy gives the other."""
    recorded, baseline = evaluated(), evaluated(guarantee=Guarantee.NONE)
    assert asked(recorded, guarantee=Guarantee.NONE) == count_log(baseline)
    assert asked(baseline, sla=0.1) == count_log(recorded)
    assert count_log(recorded) != count_log(baseline)
    best = evaluated(placement=Placement.BEST_FIT)
    assert asked(recorded, settings={"placement": Placement.BEST_FIT}) == count_log(best)
    calibrated = evaluated(forecast=Forecast.CALIBRATED)
    assert asked(recorded, settings={"forecast": Forecast.CALIBRATED}) == count_log(calibrated) != count_log(recorded)
    assert asked(calibrated, settings={"forecast": Forecast.REPLAY}) == count_log(recorded)


def extended(hours: int, *, is_refused: bool) -> list[Recorded]:
    """Return the log of an instance of an hour, without an SLA, that asks for more hours at once."""
    cloud = Cloud()
    opening = [
        CloudCreated(at_us=0, policy=NO_SLA),
        NodeAdded(at_us=0, node="n", capacity=Resources(4)),
        FlavorAdded(at_us=0, flavor="c2", demand=Resources(2)),
    ]
    recorded = [cloud.apply(event) for event in opening]
    request = StartRequest("s", Market.SPOT, "c2", HOUR_US, None, HOUR_US)
    recorded += [cloud.apply(event) for event in decide_start(cloud, request, HOUR_US, None)]
    answer = decide_extension(cloud, ExtendRequest("s", hours * HOUR_US, HOUR_US), HOUR_US, None)
    if is_refused:
        reason = Rejection.SLA_UNATTAINABLE
        kept = {"former_lifetime_us": HOUR_US, "deadline_us": 2 * HOUR_US, "reason": reason, "basis": Basis(1)}
        answer = [ExtensionRejected(at_us=HOUR_US, instance_id="s", lifetime_us=hours * HOUR_US, **kept)]
    return recorded + [cloud.apply(event) for event in answer]


def test_a_longer_lifetime_that_is_granted_is_requested() -> None:
    """It is granted on record, or only by the other policy: no more completes than was requested."""
    recorded = extended(10, is_refused=False)
    was, again = count_log(recorded).tally, asked(recorded).tally
    assert was.requested_core_us == again.requested_core_us == again.completed_core_us == 20 * HOUR_US
    refused = extended(10, is_refused=True)
    again = asked(refused).tally
    assert again.requested_core_us == again.completed_core_us == 20 * HOUR_US


def test_a_longer_lifetime_that_is_refused_is_not_requested() -> None:
    """Ten years that were refused make no work of ten years, neither as it was nor where they are refused again."""
    recorded = extended(87_600, is_refused=True)
    was = count_log(recorded).tally
    assert was.requested_core_us == was.completed_core_us == 2 * HOUR_US
    again = count_log(recorded, recorded).tally
    assert again.requested_core_us == 2 * HOUR_US


def test_both_forecasts_are_asked_in_one_command(tmp_path: Path) -> None:
    log = written(evaluated(), tmp_path / "log.csv")
    arguments = ["whatif", "--log", str(log), "--forecast", "replay,calibrated", "--samples", "200", "--json"]
    found = CliRunner().invoke(command_line(), arguments)
    assert found.exit_code == 0, found.output
    answers = json.loads(found.stdout)["whatif"]
    assert [one["changes"]["forecast"] for one in answers] == ["replay", "calibrated"]
    assert all(set(one["strata"]) == set(STRATA) and one["flavors"] for one in answers)
    assert answers[0]["spot"] != answers[1]["spot"]


def test_an_evidence_floor_that_nothing_reaches_admits_nothing(tmp_path: Path) -> None:
    recorded = evaluated()
    log = written(recorded, tmp_path / "log.csv")
    arguments = ["whatif", "--log", str(log), "--min-windows", "1000000", "--samples", "200", "--json"]
    found = CliRunner().invoke(command_line(), arguments)
    assert found.exit_code == 0, found.output
    assert count_log(recorded).report()["spot"]["admitted"] > 0
    (answer,) = json.loads(found.stdout)["whatif"]
    assert (answer["changes"]["min_windows"], answer["spot"]["admitted"]) == (1_000_000, 0)


@pytest.mark.parametrize(("every", "guarantee", "is_told"), [("60d", "pooled", True), ("6h", "pooled", False)])
def test_a_log_within_which_no_table_comes_is_told(tmp_path: Path, every: str, guarantee: str, is_told: bool) -> None:
    log = written(evaluated(), tmp_path / "log.csv")
    arguments = ["whatif", "--log", str(log), "--every", every, "--guarantee", guarantee, "--samples", "200", "--json"]
    found = CliRunner().invoke(command_line(), arguments)
    assert found.exit_code == 0, found.output
    note = "a table is computed every 60 d: all was decided by the first table"
    assert (note in found.stderr) is is_told
    assert json.loads(found.stdout)["whatif"], "the note does not disturb what is read by machines"


def test_nothing_is_told_of_tables_that_decide_nothing() -> None:
    recorded = evaluated()
    every = {"recompute_every_us": 60 * 86_400 * SECOND_US}
    assert Question(recorded, Changes(settings=every)).every_us == every["recompute_every_us"]
    assert Question(recorded, Changes(settings=every, guarantee=Guarantee.NONE)).every_us is None


def test_several_questions_are_answered_as_each_by_itself() -> None:
    recorded = evaluated()
    questions = [Question(recorded, Changes(nodes=parse_nodes(nodes))) for nodes in ("2x4", "3x4", "4x4")]
    accounts = ask(questions)
    assert accounts == [ask([question])[0] for question in questions]
    assert accounts[1] == count_log(recorded)
    admitted = [account.tally.on_demand_admitted for account in accounts]
    assert admitted == sorted(admitted)


class Story:
    """A cloud decided event by event, with the functions of the live scheduler."""

    def __init__(self, policy: Policy = NO_SLA) -> None:
        self.cloud, self.recorded = Cloud(), Kept()
        self.so(CloudCreated(at_us=0, policy=policy))

    def so(self, *events: Event) -> None:
        self.recorded += [self.cloud.apply(event) for event in events]

    def furnish(self, *cores: int) -> None:
        self.so(*(NodeAdded(at_us=0, node=f"n{number}", capacity=Resources(size)) for number, size in enumerate(cores)))
        self.so(*(FlavorAdded(at_us=0, flavor=f"c{size}", demand=Resources(size)) for size in (1, 2, 4)))

    def start(self, at_s: int, name: str, market: Market, flavor: str, lifetime_s: int | None = None) -> Event:
        lifetime_us = None if lifetime_s is None else lifetime_s * SECOND_US
        request = StartRequest(name, market, flavor, lifetime_us)
        events = decide_start(self.cloud, request, at_s * SECOND_US, None)
        self.so(*events)
        return events[-1]

    def spot(self, at_s: int, name: str, flavor: str, lifetime_s: int) -> Event:
        return self.start(at_s, name, Market.SPOT, flavor, lifetime_s)

    def on_demand(self, at_s: int, name: str, flavor: str, lifetime_s: int | None = None) -> Event:
        return self.start(at_s, name, Market.ON_DEMAND, flavor, lifetime_s)

    def stop(self, at_s: int, name: str) -> None:
        self.so(*decide_stop(self.cloud, name, at_s * SECOND_US))


def shares(account: Account) -> tuple[int, int, int, int]:
    tally = account.tally
    return tally.on_demand_admitted, tally.spot_admitted, tally.spot_evicted, account.evicted_in_time


def test_more_nodes_take_what_was_rejected_and_evict_none() -> None:
    story = Story()
    story.furnish(4)
    story.spot(0, "s1", "c2", 100)
    story.spot(0, "s2", "c4", 100)
    story.on_demand(10, "d1", "c4")
    story.on_demand(20, "d2", "c4", 30)
    story.stop(60, "d1")
    story.on_demand(70, "d3", "c4")
    story.stop(200, "d3")
    assert shares(count_log(story.recorded)) == (2, 1, 1, 1)
    # Two nodes: s1 and s2 have one each; d1 evicts the younger s2; d2 (up to 50 s) evicts s1; d3 finds a node free.
    assert shares(asked(story.recorded, nodes=parse_nodes("2x4"))) == (3, 2, 2, 2)
    assert shares(asked(story.recorded, nodes=parse_nodes("4x4"))) == (3, 2, 0, 0)
    # Smaller flavors: s1, s2 and d1 fill the node; d2 evicts s2, the younger one, and has ended when d3 comes.
    assert shares(asked(story.recorded, flavors={"c4": "c1"})) == (3, 2, 1, 1)
    # Three cores, a flavor that the log does not have, are no better than four here.
    assert shares(asked(story.recorded, flavors={"c4": "3"})) == (2, 1, 1, 1)


def test_an_evicted_instance_would_have_run_for_its_declared_lifetime() -> None:
    """Without the eviction s1 runs until 100 s, and so the start at 90 s finds no room for d2 but by evicting it."""
    story = Story()
    story.furnish(2)
    story.spot(0, "s1", "c2", 100)
    story.on_demand(10, "d1", "c2")
    story.stop(20, "d1")
    story.spot(90, "s2", "c2", 5)
    story.stop(95, "s2")
    story.spot(99, "s3", "c2", 5)
    story.on_demand(120, "d2", "c1")
    assert shares(count_log(story.recorded)) == (2, 3, 2, 1)
    changed = asked(story.recorded, flavors={"c1": "c2"}, nodes=parse_nodes("2x2"))
    assert shares(changed) == (2, 3, 0, 0)
    assert changed.running == 0


def test_an_overrunning_instance_keeps_its_recorded_end() -> None:
    story = Story()
    story.furnish(2)
    story.spot(0, "s1", "c2", 10)
    story.on_demand(50, "d1", "c2")
    story.stop(60, "d1")
    assert shares(count_log(story.recorded)) == (1, 1, 1, 0)
    assert shares(asked(story.recorded)) == (1, 1, 1, 0)


def test_nodes_and_policies_change_when_they_did() -> None:
    story = Story()
    story.furnish(2, 2)
    story.spot(0, "s1", "c2", 100)
    story.spot(1, "s2", "c2", 100)
    story.so(NodeDrained(at_us=2 * SECOND_US, node="n1"))
    story.so(*decide_node_removal(story.cloud, "n1", 3 * SECOND_US))
    story.so(PolicyChanged(at_us=4 * SECOND_US, policy=replace(NO_SLA, guarantee=Guarantee.PER_INSTANCE)))
    story.stop(5, "s1")
    story.spot(6, "s3", "c2", 10)
    assert shares(count_log(story.recorded)) == (0, 2, 1, 1)
    assert asked(story.recorded) == count_log(story.recorded)
    assert shares(asked(story.recorded, guarantee=Guarantee.NONE)) == (0, 3, 1, 1)
    assert shares(asked(story.recorded, nodes=parse_nodes("2x2"))) == (0, 2, 0, 0)
    # As c1 both run on n0, and its removal evicts none; the SLA of the later policy has no history.
    assert shares(asked(story.recorded, flavors={"c2": "c1"})) == (0, 2, 0, 0)


def test_a_node_that_cannot_go_takes_no_more() -> None:
    """The on-demand instance runs on n1, in c2, when that is removed; nothing is placed there from then on."""
    story = Story()
    story.furnish(1, 2)
    story.on_demand(0, "d1", "c1")
    story.so(*decide_node_removal(story.cloud, "n1", 3 * SECOND_US))
    story.stop(4, "d1")
    story.on_demand(5, "d2", "c1")
    assert isinstance(story.recorded[-3].event, NodeRemoved)
    assert shares(asked(story.recorded, flavors={"c1": "c2"})) == (1, 0, 0, 0)


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"flavors": {"c9": "c1"}}, "no flavor 'c9'"), ({"flavors": {"c1": "large"}}, "'large' is neither")],
)
def test_questions_that_make_no_sense(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        asked(evaluated(guarantee=Guarantee.NONE), **changes)


def written(recorded: list[Recorded], path: Path, *, instances_only: bool = False) -> Path:
    file = io.StringIO()
    writer = LogWriter(file, instances_only=instances_only)
    for item in recorded:
        writer.write(item)
    path.write_text(file.getvalue(), encoding="utf-8")
    return path


def bare(event: Event) -> Event:
    return replace(event, victims=()) if isinstance(event, InstanceStarted) else event


def test_a_log_written_as_csv_is_read_back(tmp_path: Path) -> None:
    recorded = evaluated()
    policy = replace(recorded[0].event.policy, eviction_probability=0.3)  # type: ignore[union-attr]
    at_us = recorded[-1].event.at_us
    recorded.append(Recorded(len(recorded) + 1, PolicyChanged(at_us=at_us, policy=policy)))
    rows = list(read_log(written(recorded, tmp_path / "log.csv")))
    found = events_of(rows, recorded[0].event.policy)  # type: ignore[union-attr]
    assert [item.seq for item in found] == [item.seq for item in recorded]
    assert [item.event for item in found] == [bare(item.event) for item in recorded]


@pytest.mark.parametrize(
    ("guarantee", "forecast"),
    [
        (Guarantee.PER_INSTANCE, Forecast.REPLAY),
        (Guarantee.POOLED, Forecast.CALIBRATED),
        (Guarantee.STRATIFIED, Forecast.CALIBRATED),
    ],
)
def test_an_evaluations_log_needs_its_platform_and_gives_the_same(
    guarantee: Guarantee, forecast: Forecast, tmp_path: Path
) -> None:
    recorded = evaluated(guarantee=guarantee, forecast=forecast)
    rows = list(read_log(written(recorded, tmp_path / "log.csv", instances_only=True)))
    found = events_of(rows, Policy(sample_count=200))
    with pytest.raises(InputError, match="--nodes"):
        asked(found)
    assert asked(found, nodes=parse_nodes("3x4")) == count_log(recorded)


def test_a_csv_that_is_no_log_is_told(tmp_path: Path) -> None:
    recorded = evaluated(guarantee=Guarantee.NONE)
    text = written(recorded, tmp_path / "log.csv").read_text(encoding="utf-8")
    (tmp_path / "log.csv").write_text(text.replace("instance_stopped", "instance_vanished"), encoding="utf-8")
    with pytest.raises(InputError, match="instance_vanished"):
        events_of(list(read_log(tmp_path / "log.csv")), Policy())


def test_random_stories_are_the_same_when_decided_again() -> None:
    for seed in range(20):
        random, story, names, at_s = Random(seed), Story(), [], 0
        story.furnish(*random.choices((2, 4), k=3))
        for number in range(120):
            at_s += random.randrange(3)
            market = random.choice([Market.SPOT, Market.SPOT, Market.ON_DEMAND])
            story.start(at_s, f"i{number}", market, random.choice(["c1", "c2", "c4"]), random.randrange(30))
            names.append(f"i{number}")
            if random.random() < 0.5:
                story.stop(at_s, random.choice(names))
        assert asked(story.recorded) == count_log(story.recorded)


def owned(story: Story, at_s: int, name: str, owner: str, nodes: tuple[str, ...] = ()) -> Event:
    """Decide a spot start of an owner, of one core and one hour, on these nodes alone if there are any."""
    request = StartRequest(name, Market.SPOT, "c1", HOUR_US, None, owner=owner, nodes=nodes)
    story.so(*decide_start(story.cloud, request, at_s * SECOND_US, None))
    return story.recorded[-1].event


@pytest.mark.parametrize(
    "limits",
    [{"owner_cores": 1}, {"overrunning_cores": 0}, {"overrun_share": 0.1}],
    ids=["cores", "overrunning cores", "overrun share"],
)
def test_limits_of_owners_refuse_again_what_they_refused(limits: dict[str, Any]) -> None:
    policy = replace(NO_SLA, **{"overrun_share": None, **limits})
    story = Story(policy)
    story.furnish(9)
    for at_h, name in ((1, "i1"), (1, "i2"), (6, "i3"), (6, "i4")):
        owned(story, at_h * 3600, name, "alice")
    story.stop(7 * 3600, "i1")
    owned(story, 8 * 3600, "i5", "alice")
    owned(story, 8 * 3600, "b", "bob")
    was = count_log(story.recorded)
    assert 0 < was.tally.spot_admitted < 6
    assert asked(story.recorded) == was
    assert asked(story.recorded, settings=dict.fromkeys(limits)).tally.spot_admitted == 6


def test_quotas_of_an_owner_hold_again_as_long_as_they_held() -> None:
    story = Story()
    story.furnish(9)
    story.so(QuotaSet(at_us=0, owner="alice", cores=1))
    admitted = [owned(story, 1, "i1", "alice"), owned(story, 2, "i2", "alice"), owned(story, 3, "i3", "bob")]
    story.so(QuotaRemoved(at_us=4 * SECOND_US, owner="alice"))
    admitted += [owned(story, 5, "i4", "alice")]
    assert [isinstance(event, InstanceStarted) for event in admitted] == [True, False, True, True]
    assert asked(story.recorded) == count_log(story.recorded)
    assert shares(asked(story.recorded, nodes=parse_nodes("1x9"))) == (0, 3, 0, 0)


def test_nodes_that_a_start_could_use_bind_it_on_its_own_platform_alone() -> None:
    story = Story()
    story.furnish(1, 1)
    assert isinstance(owned(story, 1, "i1", "alice", ("n1",)), InstanceStarted)
    assert not isinstance(owned(story, 2, "i2", "alice", ("n1",)), InstanceStarted)
    assert asked(story.recorded) == count_log(story.recorded)
    assert shares(asked(story.recorded, nodes=parse_nodes("2x1"))) == (0, 2, 0, 0)


class AskedFor(RandomCloud):
    """A random cloud of owners in which all is asked for: nothing is observed, aborted or evicted in a drill."""

    def drill(self) -> None:
        """Stop an instance instead."""
        self.stop()

    def observe(self) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("seed", seeds(25))
def test_whatever_was_asked_for_is_decided_again_as_it_was(seed: int) -> None:
    limits = {"owner_cores": (None, 6)[seed % 2], "overrunning_cores": (2, None, 0)[seed % 3]}
    policy = replace(NO_SLA, grace_us=7 * (seed % 2), displaces_overrunning=seed % 3 == 1, **limits)
    cloud = AskedFor(Random(seed), policy, told=True)
    cloud.open()
    for _ in range(120):
        cloud.step()
    assert asked(cloud.log) == count_log(cloud.log)
