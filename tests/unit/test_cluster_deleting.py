"""The end of a cluster and what is told of it; and what is said where there is no cluster, or none can be made."""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli import main
from app.clusters.rules.deciding import SeenInstance
from app.clusters.rules.wanted import ClusterWanted, PoolWanted, SlurmWanted
from app.commands import costing, managing
from app.managing.batch import BatchCluster
from app.managing.checkpointing.keeper import CheckpointKeeper
from app.managing.events import Events
from app.managing.lines import QueuedJob
from app.managing.programs import ProgramFailed
from app.managing.slurm import Slurm, SlurmSilent
from tenure_client.forms.clusters import ClusterCostAnswer, PoolCostAnswer

FILE = """\
name = "lab"
shared = "{folder}"
[[pools]]
name = "spot"
cloud = "north"
flavor = "small"
"""


def wanted_in(folder: Path, port: int = 6817) -> ClusterWanted:
    pools = (PoolWanted(name="spot", cloud="north", flavor="small"),)
    return ClusterWanted(name="lab", shared=str(folder), pools=pools, slurm=SlurmWanted(port=port))


class _Parts:
    """The Slurm, the clouds and the machines of a cluster, and what is done to them."""

    def __init__(self, folder: Path, *, is_silent: bool = False) -> None:
        self.folder, self._is_silent, self.did = folder, is_silent, list[str]()
        self.conf, self.ended_file = folder / "slurm.conf", folder / "ends.txt"
        self.market = self

    def runs(self) -> bool:
        return not self._is_silent

    has_munge = runs

    def prepare(self) -> None:
        raise ProgramFailed("it cannot be made")

    def clear(self, _why: str) -> None:
        self.did.append("clear")

    def stop(self, node: str = "slurm") -> None:
        self.did.append(f"stop {node}")

    def destroy(self, node: str) -> None:
        self.did.append(f"destroy {node}")

    def forget_nodes(self) -> None:
        self.did.append("forget nodes")

    def instances(self) -> dict[str, SeenInstance]:
        return {"lab-spot-1": SeenInstance(1.0)}

    def there(self) -> dict[str, bool]:
        return {"lab-spot-1": True, "lab-spot-2": True}

    def refused(self) -> list[str]:
        return []

    def settle(self, _events: Events) -> None:
        return

    def remove(self) -> None:
        self.did.append("remove")


def cluster_of(parts: _Parts) -> BatchCluster:
    cluster = BatchCluster.__new__(BatchCluster)
    for name in ("slurm", "buyer", "machines"):
        setattr(cluster, name, parts)
    cluster.wanted, cluster.events = wanted_in(parts.folder), Events(parts.folder / "events.jsonl")
    return cluster


@pytest.mark.parametrize("is_silent", [False, True])
def test_slurm_forgets_the_nodes_of_a_deleted_cluster_and_all_ends_are_told(tmp_path: Path, is_silent: bool) -> None:
    parts = _Parts(tmp_path, is_silent=is_silent)
    parts.conf.write_text("")
    cluster = cluster_of(parts)
    for job in ("1", "2"):
        cluster.events.write("job_started", job=job, node="lab-spot-1")
    cluster.events.write("job_ended", job="1", state="completed")
    cluster.delete()
    ends = ["destroy lab-spot-1", "stop lab-spot-1", "destroy lab-spot-2", "stop slurm", "forget nodes", "remove"]
    assert parts.did == ([] if is_silent else ["clear"]) + ends
    told = [(one["kind"], one.get("node") or one.get("job")) for one in cluster.events.newest()][3:]
    assert told == [
        ("node_released", "lab-spot-1"),
        ("node_released", "lab-spot-2"),
        ("job_ended", "2"),
        ("cluster_deleted", None),
    ]
    assert not parts.conf.exists(), "so there is no cluster any more"


def test_jobs_of_a_deleted_cluster_whose_slurm_hangs_do_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = _Parts(tmp_path)
    parts.conf.write_text("")

    def clear(_why: str) -> None:
        if "stop slurm" not in parts.did:
            raise SlurmSilent("squeue does not answer within 12 s")
        parts.did.append("clear")

    monkeypatch.setattr(parts, "clear", clear)
    cluster_of(parts).delete()
    assert parts.did[:2] == ["stop slurm", "clear"]


def test_nodes_that_a_dead_controller_has_saved_are_forgotten(tmp_path: Path) -> None:
    slurm = Slurm(wanted_in(tmp_path), "127.0.0.1")
    state = slurm.folder / "state"
    state.mkdir(parents=True)
    for name in ("node_state", "node_state.old", "job_state"):
        (state / name).write_text("")
    slurm.forget_nodes()
    assert [path.name for path in state.iterdir()] == ["job_state"], "so the numbers of jobs go on"


@pytest.mark.parametrize("command", ["run", "nodes", "jobs", "checkpoint"])
def test_where_there_is_no_cluster_it_is_said_at_once(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(FILE.format(folder="/nowhere/lab"))
    more = ["1"] if command == "checkpoint" else []
    monkeypatch.setattr(sys, "argv", ["tenure", "cluster", command, str(file), *more])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "tenure: there is no cluster yet: make one with tenure cluster create FILE\n"


def test_check_tells_what_would_be_sold_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = PoolWanted(name="spot", cloud="north", flavor="small")
    file = tmp_path / "lab.toml"
    file.write_text(FILE.format(folder="/nowhere/lab"))
    offers = [(pool, "4 slots", True), (replace(pool, name="own"), "no room at present", False)]
    monkeypatch.setattr("app.managing.buying.Buyer.offers", lambda _self: offers)
    monkeypatch.setattr("app.managing.slurm.Slurm.lacks", lambda _self: "slurm.port 6817 is taken on this host")
    monkeypatch.setattr(sys, "argv", ["tenure", "cluster", "check", str(file)])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().out
    assert ended.value.code == 1
    assert "missing: slurm.port 6817 is taken on this host" in told
    assert [line.split()[2] for line in told.splitlines() if "north" in line] == ["yes", "no"]


@pytest.mark.parametrize(
    ("price", "said"),
    [
        (0.0, ["no price", "no price is set for spot"]),
        (1.0, ["in all 2.00, on demand 4.00: 50.0% saved"]),
    ],
)
def test_a_cost_without_a_price_is_not_called_nothing(
    price: float, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    row = PoolCostAnswer(pool="spot", instance_count=1, used_s=7200.0, cost=2 * price, on_demand_cost=4.0)
    found = ClusterCostAnswer(cluster="lab", pools=[row], used_s=7200.0, cost=2 * price, on_demand_cost=4.0)
    costing._print(found, {"spot"} if price else set())
    told = capsys.readouterr().out
    for words in said:
        assert words in told
    assert ("saved" in told) == bool(price)


def test_a_taken_port_is_named_before_anything_is_made(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        slurm = Slurm(wanted_in(tmp_path / "new", port), "127.0.0.1")
        assert slurm.lacks().startswith(f"slurm.port {port} is taken on this host")
        assert not (tmp_path / "new").exists()
    assert slurm.lacks() == ""


def test_a_controller_that_ends_at_once_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = Slurm(wanted_in(tmp_path), "127.0.0.1")
    (slurm.folder / "log").mkdir(parents=True)
    (slurm.folder / "log/slurmctld.log").write_text("[...] info: hello\n[...] fatal: no such luck\n")
    (tmp_path / "unshare").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("app.managing.programs.SYSTEM_PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(slurm, "start_munge", lambda: None)
    with pytest.raises(ProgramFailed, match=r"slurmctld ended at once: \[...\] fatal: no such luck"):
        slurm.start()


def test_a_job_that_is_not_there_has_ended_or_waits_is_told_apart(tmp_path: Path) -> None:
    events = Events(tmp_path / "events.jsonl")
    events.write("job_ended", job="1", state="completed")
    keeper = CheckpointKeeper(wanted_in(tmp_path), None, None, events)  # type: ignore[arg-type]
    waits = QueuedJob("2", "PENDING", ("spot",), 1, "Resources", "", 0.0, None, "", "x")
    runs = waits._replace(job_id="3", state="RUNNING", nodes="lab-spot-1")
    for job, why in (
        ("1", "job 1 has ended"),
        ("2", "job 2 waits for a node"),
        ("3", "job 3 does not run under tenure-job"),
        ("999", "there is no job 999"),
    ):
        with pytest.raises(ProgramFailed, match=why):
            keeper.save_now(job, [waits, runs])


def test_a_machine_without_a_process_is_not_up_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = _Parts(tmp_path)
    monkeypatch.setattr(parts, "there", lambda: {"lab-spot-1": False})
    monkeypatch.setattr(parts, "nodes", dict, raising=False)
    assert [(row["node"], row["machine"]) for row in managing._node_rows(cluster_of(parts))] == [
        ("lab-spot-1", "not up")
    ]
