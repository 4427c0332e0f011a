"""The nodes that are bought and the idle ones that go, by each word of the `scale` of the file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.clusters.rules.deciding import Action, Deed, NodeState, SeenInstance, SeenJob, SeenNode, View, pool_of
from app.clusters.rules.fitting import misfit
from app.clusters.rules.reconciling import decide
from app.clusters.rules.wanted import ClusterWanted, PoolWanted, ScaleWanted

WANTED = ClusterWanted(
    name="lab",
    shared="/srv/lab",
    pools=(
        PoolWanted(name="own", cloud="c", flavor="f", market="on_demand", max_nodes=2),
        PoolWanted(name="spot", cloud="d", flavor="f", max_nodes=6),
    ),
)
IDLE, BUSY = SeenNode(NodeState.IDLE, 999.0), SeenNode(NodeState.BUSY)
JOB = SeenJob("7", ("own", "spot"))


def scaled(**values: object) -> ClusterWanted:
    scale = ScaleWanted(**values)  # type: ignore[arg-type]
    scale.check()
    return replace(WANTED, scale=scale)


def seen(
    nodes: dict[str, SeenNode], *jobs: SeenJob, age_s: float = 10.0, free_in_s: dict[str, float] | None = None
) -> View:
    instances = {name: SeenInstance(age_s, 3600.0) for name in nodes}
    return View(instances, frozenset(nodes), nodes, jobs, free_in_s=free_in_s or {})


def chosen(deed: Deed, wanted: ClusterWanted, view: View) -> list[Action]:
    return [action for action in decide(wanted, view) if action.deed is deed]


def bought(wanted: ClusterWanted, view: View) -> list[tuple[str, ...]]:
    return [action.pools for action in chosen(Deed.BUY, wanted, view)]


def retired(wanted: ClusterWanted, view: View) -> list[str]:
    return [action.name for action in chosen(Deed.RETIRE, wanted, view)]


def test_a_group_is_bought_at_once_and_its_surplus_serves_the_next_jobs() -> None:
    by_three = scaled(out="group:3")
    spot = JOB._replace(pools=("spot",))
    assert bought(by_three, seen({}, spot)) == [("spot",)] * 3
    assert bought(by_three, seen({}, spot, spot, spot)) == [("spot",)] * 3
    assert bought(by_three, seen({}, *[spot] * 4)) == [("spot",)] * 6
    assert len(bought(by_three, seen({}, JOB))) == 2
    assert len(bought(scaled(out="group:3", max_nodes=1), seen({}, spot))) == 1


def test_free_nodes_are_kept_beyond_those_that_jobs_wait_for() -> None:
    free = scaled(out="keep_free:2", idle_s=60)
    assert bought(free, seen({})) == [("own", "spot")] * 2
    assert len(bought(free, seen({}, JOB))) == 3
    two = {"lab-own-1": IDLE, "lab-spot-2": IDLE}
    assert decide(free, seen(two)) == []
    assert retired(free, seen({**two, "lab-spot-3": IDLE})) == ["lab-spot-2"]
    assert len(bought(free, seen({**two, "lab-own-1": BUSY}))) == 1
    assert bought(replace(free, scale=replace(free.scale, max_nodes=1)), seen({})) == [("own", "spot")]


def test_the_surplus_of_the_last_pools_goes_first() -> None:
    nodes = {"lab-own-1": IDLE, "lab-spot-2": IDLE, "lab-own-3": IDLE}
    assert retired(scaled(out="keep_free:1"), seen(nodes)) == ["lab-spot-2", "lab-own-1"]


@pytest.mark.parametrize(("age_s", "goes"), [(10.0, False), (3539.0, False), (3541.0, True), (3601.0, False)])
def test_a_node_that_is_paid_by_the_hour_goes_near_the_end_of_one(age_s: float, goes: bool) -> None:
    wanted = scaled(idle_s="block:3600")
    assert retired(wanted, seen({"lab-own-1": IDLE}, age_s=age_s)) == (["lab-own-1"] if goes else [])
    assert retired(wanted, seen({"lab-own-1": BUSY}, age_s=age_s)) == []
    assert retired(wanted, seen({"lab-own-1": IDLE}, JOB, age_s=age_s)) == []


def test_patience_waits_for_a_node_whose_job_must_end_soon() -> None:
    patient = scaled(patience_s=300)
    busy = {"lab-own-1": BUSY}
    assert bought(patient, seen(busy, JOB, free_in_s={"lab-own-1": 299.0})) == []
    assert len(bought(patient, seen(busy, JOB, JOB, free_in_s={"lab-own-1": 299.0}))) == 1
    assert len(bought(patient, seen(busy, JOB, free_in_s={"lab-own-1": 301.0}))) == 1
    assert len(bought(patient, seen(busy, JOB))) == 1
    assert len(bought(scaled(), seen(busy, JOB, free_in_s={"lab-own-1": 0.0}))) == 1
    draining = {"lab-own-1": BUSY._replace(is_draining=True)}
    assert len(bought(patient, seen(draining, JOB, free_in_s={"lab-own-1": 1.0}))) == 1


def test_a_drained_cluster_buys_nothing_and_gives_all_back_but_what_is_busy() -> None:
    drained = scaled(drain=True)
    nodes = {"lab-own-1": IDLE._replace(idle_s=0.0), "lab-spot-2": BUSY, "lab-spot-3": BUSY._replace(is_draining=True)}
    actions = [(action.deed, action.name) for action in decide(drained, seen(nodes, JOB))]
    assert actions == [(Deed.RETIRE, "lab-own-1"), (Deed.CLOSE, "lab-spot-2")]
    bare = View({"lab-own-9": SeenInstance(1.0)}, frozenset(), {}, [JOB])
    assert [action.deed for action in decide(drained, bare)] == [Deed.STOP]


def test_a_cluster_of_no_nodes_buys_none_and_keeps_what_is_busy() -> None:
    assert decide(scaled(max_nodes=0), seen({"lab-own-1": BUSY}, JOB)) == []


SIZES = {"own": (1, 1024), "spot": (2, 2048)}


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (JOB, ""),
        (JOB._replace(cores=2, cores_in_all=2, memory_mib=2048), ""),
        (JOB._replace(pools=("spot",), node_count=6, cores_in_all=12), ""),
        (
            JOB._replace(pools=("spot",), node_count=9, cores_in_all=9),
            "it wants 9 nodes, and no pool holds that: spot has up to 6 nodes of 2 cores and 2048 MiB",
        ),
        (
            JOB._replace(cores=4, cores_in_all=4),
            "it wants 1 node of 4 cores, and no pool holds that: own has up to 2 nodes of 1 core and 1024 MiB; "
            "spot has up to 6 nodes of 2 cores and 2048 MiB",
        ),
        (
            JOB._replace(pools=("own",), node_count=2, cores_in_all=2, memory_mib=4096),
            "it wants 2 nodes of 4096 MiB each, and no pool holds that: own has up to 2 nodes of 1 core and 1024 MiB",
        ),
        (
            JOB._replace(pools=("own",), cores_in_all=8),
            "it wants 1 node and 8 cores in all, and no pool holds that: own has up to 2 nodes of 1 core and 1024 MiB",
        ),
        (
            JOB._replace(pools=("spot",), cores_in_all=8),
            "it wants 1 node and 8 cores in all, and no pool holds that: spot has up to 6 nodes of 2 cores and "
            "2048 MiB: say how many nodes it wants (sbatch -p spot -N 4)",
        ),
        (JOB._replace(pools=("spot",), node_count=4, cores_in_all=8), ""),
        (
            JOB._replace(node_count=2, cores_in_all=2, is_anywhere=True),
            "it wants 2 nodes and a job of several nodes must name its pool",
        ),
        (JOB._replace(pools=("gone",)), "its pool gone is not in the cluster file: submit it with -p own or spot"),
    ],
)
def test_a_job_that_no_pool_can_ever_hold_buys_and_keeps_nothing(job: SeenJob, why: str) -> None:
    told = misfit(WANTED, {}, SIZES, job)
    if job.is_anywhere:
        assert told.startswith(
            "it wants 2 nodes, and a job of several nodes must name its pool (sbatch -p): own has up"
        )
    else:
        assert told == why
    idle = {"lab-own-1": IDLE, "lab-spot-1": IDLE}
    view = replace(seen(idle, job), sizes=SIZES)
    assert (retired(scaled(), view) == ["lab-spot-1", "lab-own-1"]) == bool(why)
    assert (bought(scaled(), replace(seen({}, job), sizes=SIZES)) == []) == bool(why)
    held = [job._replace(is_held=True)]
    assert len(chosen(Deed.RELEASE, scaled(), replace(view, jobs=held))) == 1


def test_nodes_that_are_there_count_where_the_file_allows_fewer_now() -> None:
    three = JOB._replace(pools=("spot",), node_count=3)
    nodes = {f"lab-spot-{number}": IDLE for number in range(3)}
    assert retired(scaled(max_nodes=1), seen(nodes, three)) == []
    assert (
        misfit(scaled(max_nodes=1), {}, {}, three) == "it wants 3 nodes, and no pool holds that: spot has up to 1 node"
    )


def test_each_pool_is_counted_by_itself_however_many_jobs_wait() -> None:
    jobs = [JOB._replace(job_id=str(number)) for number in range(1000)]
    found = bought(scaled(max_nodes=7), seen({"lab-own-1": BUSY, "lab-spot-1": IDLE}, *jobs))
    assert found == [("own", "spot")] + [("spot",)] * 4
    assert {pool_of("lab-own-1"), pool_of("odd")} == {"own", ""}
