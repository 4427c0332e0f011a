"""The actions of a manager: one row of the table at a time, and whole worlds whose machines lie and whose nodes die."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.clusters.rules.deciding import (
    Action,
    Deed,
    NodeState,
    SeenInstance,
    SeenJob,
    SeenNode,
    View,
    pool_of,
)
from app.clusters.rules.reconciling import decide
from app.clusters.rules.wanted import ClusterWanted, PoolWanted, ScaleWanted

WANTED = ClusterWanted(
    name="lab",
    shared="/srv/lab",
    pools=(
        PoolWanted(name="own", cloud="c", flavor="f", market="on_demand", max_nodes=2),
        PoolWanted(name="spot", cloud="d", flavor="f", max_nodes=3),
    ),
    scale=ScaleWanted(idle_s=60, boot_timeout_s=100),
)
NODE = "lab-spot-1"
IDLE, BUSY = SeenNode(NodeState.IDLE), SeenNode(NodeState.BUSY)
YOUNG, OLD = SeenInstance(10.0, 3600.0), SeenInstance(101.0, 3600.0)
JOB = SeenJob("7", ("own", "spot"))


def seen(
    instance: SeenInstance | None = None,
    node: SeenNode | None = None,
    *jobs: SeenJob,
    machine: bool = False,
    refusing: str = "",
) -> View:
    instances = {} if instance is None else {NODE: instance}
    nodes = {} if node is None else {NODE: node}
    return View(instances, frozenset([NODE] if machine else []), nodes, jobs, frozenset(refusing.split()))


def deeds(view: View) -> list[tuple[Deed, str]]:
    return [(action.deed, action.name) for action in decide(WANTED, view)]


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (seen(YOUNG, BUSY, machine=True), []),
        (seen(YOUNG, None, machine=True), []),
        (seen(OLD, None, machine=True), [Deed.DESTROY, Deed.STOP]),
        (replace(seen(YOUNG, None, machine=True), forgotten=frozenset([NODE])), [Deed.DESTROY]),
        (replace(seen(OLD, None, machine=True), forgotten=frozenset([NODE])), [Deed.DESTROY, Deed.STOP]),
        (seen(YOUNG, None, JOB), [Deed.MAKE]),
        (seen(YOUNG), [Deed.STOP]),
        (seen(OLD, None, JOB), [Deed.STOP]),
        (seen(YOUNG, BUSY), [Deed.DROP]),
        (seen(None, BUSY, machine=True), [Deed.DROP, Deed.DESTROY]),
        (seen(None, None, machine=True), [Deed.DESTROY]),
        (seen(None, BUSY), [Deed.DROP]),
        (seen(YOUNG, SeenNode(NodeState.BAD), machine=True), [Deed.DROP, Deed.DESTROY, Deed.STOP]),
        (seen(YOUNG, IDLE._replace(idle_s=59.0), machine=True), []),
        (seen(YOUNG, IDLE._replace(idle_s=60.0), machine=True), [Deed.RETIRE]),
        (seen(YOUNG, IDLE._replace(idle_s=60.0), JOB, machine=True), []),
        (seen(YOUNG._replace(notice_s=30.0), BUSY, machine=True), [Deed.DRAIN]),
        (seen(YOUNG._replace(notice_s=30.0), BUSY._replace(is_draining=True), machine=True), []),
        (seen(YOUNG._replace(notice_s=2.0), BUSY, machine=True), [Deed.DROP, Deed.DESTROY, Deed.CONFIRM]),
        (seen(YOUNG._replace(notice_s=30.0), IDLE, machine=True), [Deed.DROP, Deed.DESTROY, Deed.CONFIRM]),
        (seen(SeenInstance(3500.0, 100.0), BUSY, machine=True), [Deed.EXTEND]),
        (seen(SeenInstance(3500.0, 100.0), IDLE, machine=True), [Deed.RETIRE]),
        (seen(None, None, SeenJob("8", ("own",), is_held=True)), [Deed.RELEASE, Deed.BUY]),
    ],
)
def test_each_row_of_the_table(view: View, expected: list[Deed]) -> None:
    assert [deed for deed, _ in deeds(view)] == expected


LEASED = replace(WANTED, pools=(WANTED.pools[0], replace(WANTED.pools[1], min_lease_s=600)))


@pytest.mark.parametrize(
    ("left_s", "node", "saving_s", "expected"),
    [
        (41.0, BUSY, 30.0, [Deed.EXTEND]),
        (39.0, BUSY, 30.0, [Deed.DRAIN]),
        (39.0, BUSY._replace(is_draining=True), 30.0, []),
        (3.0, BUSY._replace(is_draining=True), 30.0, [Deed.MOVE]),
        (3.0, BUSY, None, [Deed.EXTEND]),
        (150.0, BUSY, 300.0, [Deed.DRAIN]),
        (39.0, IDLE, None, [Deed.RETIRE]),
    ],
)
def test_jobs_that_save_themselves_go_from_lease_to_lease(
    left_s: float, node: SeenNode, saving_s: float | None, expected: list[Deed]
) -> None:
    view = seen(SeenInstance(3000.0, left_s), node, machine=True)
    view = replace(view, saving_s={} if saving_s is None else {NODE: saving_s})
    assert [action.deed for action in decide(LEASED, view)] == expected
    if expected in ([Deed.DRAIN], [Deed.MOVE]):
        assert [action.deed for action in decide(WANTED, view)] in ([Deed.EXTEND], [])


def test_a_purchase_says_how_long_its_job_may_run() -> None:
    (action,) = decide(WANTED, seen(None, None, JOB._replace(limit_s=7200.0)))
    assert action.lifetime_s == 7320.0
    (action,) = decide(WANTED, seen(None, None, JOB))
    assert action.lifetime_s is None


def bought(view: View) -> list[tuple[str, ...]]:
    return [action.pools for action in decide(WANTED, view) if action.deed is Deed.BUY]


def test_pools_are_asked_in_order_and_those_that_refuse_are_passed_over() -> None:
    assert bought(seen(None, None, JOB)) == [("own", "spot")]
    assert bought(seen(None, None, JOB, refusing="own")) == [("spot",)]
    assert bought(seen(None, None, JOB, refusing="own spot")) == []
    assert bought(seen(None, None, *[JOB] * 9)) == [("own", "spot")] * 2 + [("spot",)] * 3
    limited = replace(WANTED, scale=ScaleWanted(max_nodes=1))
    assert len(decide(limited, seen(None, None, JOB, JOB))) == 1


def test_all_nodes_of_a_job_are_of_one_pool_that_has_room_for_them() -> None:
    pair = JOB._replace(node_count=2)
    assert bought(seen(None, None, pair)) == [("own",)] * 2
    assert bought(seen(None, None, pair, pair)) == [("own",)] * 2 + [("spot",)] * 2
    assert bought(seen(None, None, JOB._replace(node_count=4))) == []


def test_what_is_idle_or_on_its_way_is_not_bought_again() -> None:
    assert bought(seen(YOUNG, IDLE, JOB, machine=True)) == []
    assert bought(seen(YOUNG, None, JOB, machine=True)) == []
    assert bought(seen(YOUNG, IDLE, JOB, JOB, machine=True)) == [("own", "spot")]
    assert bought(seen(YOUNG, BUSY, JOB, machine=True)) == [("own", "spot")]
    assert bought(seen(YOUNG._replace(notice_s=9.0), BUSY._replace(is_draining=True), JOB, machine=True)) != []


@dataclass
class World:
    """A cloud, a driver and a Slurm that do what they are told, and lie as often as they may."""

    lies: list[bool]
    queue: list[str]
    lifetime_s: float = 3600.0
    jobs_end: bool = True
    clock_s: float = 0.0
    began_s: dict[str, float] = field(default_factory=dict)
    notices_s: dict[str, float] = field(default_factory=dict)
    machines: set[str] = field(default_factory=set)
    nodes: dict[str, str | None] = field(default_factory=dict)
    idle_s: dict[str, float] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def lie(self) -> bool:
        return bool(self.lies) and self.lies.pop()

    def view(self) -> View:
        instances = {
            name: SeenInstance(
                self.clock_s - began,
                began + self.lifetime_s - self.clock_s if pool_of(name) == "spot" else None,
                self.notices_s[name] - self.clock_s if name in self.notices_s else None,
            )
            for name, began in self.began_s.items()
        }
        machines = {name for name in self.machines if not self.lie()}
        nodes = {
            name: SeenNode(
                NodeState.BUSY if job else NodeState.IDLE, self.clock_s - self.idle_s.get(name, self.clock_s)
            )
            for name, job in self.nodes.items()
        }
        return View(instances, frozenset(machines), nodes, [SeenJob(job, ("own", "spot")) for job in self.queue])

    def act(self, action: Action) -> None:
        """Do it; a lie is a call that fails, and half of those have been done all the same."""
        name = action.name
        if action.deed is Deed.BUY:
            name = f"lab-{action.pools[0]}-{len(self.names)}"
            self.names.append(name)
            self.began_s[name] = self.clock_s
        fails = self.lie()
        if fails and self.lie():
            raise TimeoutError
        if action.deed in {Deed.BUY, Deed.MAKE}:
            self.machines.add(name)
        if action.deed in {Deed.DROP, Deed.RETIRE} and (job := self.nodes.pop(name, None)):
            assert action.deed is Deed.DROP
            self.queue.append(job)
        if action.deed in {Deed.DESTROY, Deed.RETIRE}:
            self.machines.discard(name)
        if action.deed in {Deed.STOP, Deed.CONFIRM, Deed.RETIRE}:
            self.began_s.pop(name, None)
            self.notices_s.pop(name, None)
        if fails:
            raise TimeoutError

    def pass_time(self, step_s: float) -> None:
        """Machines join, jobs begin on idle nodes, and end after a minute; deadlines of notices pass."""
        self.clock_s += step_s
        for name in [name for name, deadline in self.notices_s.items() if deadline <= self.clock_s]:
            del self.notices_s[name]
            self.began_s.pop(name, None)
        for name in self.machines & self.began_s.keys() - self.nodes.keys():
            self.nodes[name] = None
            self.idle_s[name] = self.clock_s
        for name, job in self.nodes.items():
            if name not in self.machines:
                continue
            if job and not self.jobs_end:
                continue
            if job:
                self.done.append(job)
                self.nodes[name], self.idle_s[name] = None, self.clock_s
            if self.queue and name not in self.notices_s:
                self.nodes[name] = self.queue.pop(0)

    def round(self) -> list[Action]:
        actions = decide(WANTED, self.view())
        for action in actions:
            try:
                self.act(action)
            except TimeoutError:
                break
        self.pass_time(61.0)
        return actions


@settings(max_examples=500, deadline=None)
@given(
    lies=st.lists(st.booleans(), max_size=60),
    jobs=st.integers(0, 8),
    blows=st.lists(st.tuples(st.integers(0, 7), st.sampled_from(["kill", "evict"])), max_size=6),
)
def test_whatever_lies_and_dies_everything_ends_and_nothing_stays(
    lies: list[bool], jobs: int, blows: list[tuple[int, str]]
) -> None:
    world = World(lies, [str(number) for number in range(jobs)])
    for at, blow in blows:
        world.round()
        names = sorted(world.machines & world.began_s.keys())
        if names and blow == "kill":
            world.machines.discard(names[at % len(names)])
        elif names:
            world.notices_s[names[at % len(names)]] = world.clock_s + 30.0
    for _ in range(len(lies)):
        world.round()
    world.lies.clear()
    for _ in range(4 * jobs + 10):
        if not world.round() and not world.queue and not world.began_s:
            break
    assert sorted(world.done, key=int) == [str(number) for number in range(jobs)]
    assert (world.began_s, world.machines, world.nodes) == ({}, set(), {})
    assert decide(WANTED, world.view()) == []
    assert len(set(world.names)) == len(world.names)


@settings(max_examples=500, deadline=None)
@given(lies=st.lists(st.booleans(), max_size=80), jobs=st.integers(0, 8))
def test_once_a_driver_tells_the_truth_ten_rounds_put_all_right(lies: list[bool], jobs: int) -> None:
    """Calls fail that were done, or not, and lists miss machines; there is no orphan and no double in the end."""
    world = World(lies, [str(number) for number in range(jobs)], lifetime_s=1e9, jobs_end=False)
    for _ in range(len(lies)):
        world.round()
    world.lies.clear()
    rounds = 0
    while decide(WANTED, world.view()):
        world.round()
        rounds += 1
        assert rounds <= 10
    assert world.began_s.keys() == world.machines == world.nodes.keys()
    assert len(world.machines) == min(jobs, 5)
    assert len({*world.nodes.values()} | {*world.queue}) == jobs
    world.pass_time(3600.0)
    assert decide(WANTED, world.view()) == []
