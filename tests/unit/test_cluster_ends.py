"""The ends of jobs that left the queue, and a manager whose Slurm dies in the middle of a round."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.clusters.rules.deciding import Action, Deed, NodeState
from app.clusters.rules.wanted import ClusterWanted, PoolWanted
from app.managing import slurm
from app.managing.ending import Ends
from app.managing.events import Events
from app.managing.manager import Manager
from app.managing.programs import ProgramFailed, ProgramSilent, run
from app.managing.recording import recorded_ends
from app.managing.slurm import QueuedJob, Slurm, SlurmSilent
from app.managing.telling import Telling

RECORD = "end {job} {state} {at}\n"
EARLY, AT, LATER = "2026-11-23T06:00:00", "2026-11-23T06:22:58", "2026-11-23T06:24:07"
WANTED = ClusterWanted(name="lab", shared="/srv/lab", pools=(PoolWanted(name="spot", cloud="c", flavor="f"),))


class _Queue:
    """Slurm, as far as it is asked for ends: its record, and what its controller says, if it does."""

    def __init__(self, path: Path, states: dict[str, str] | None) -> None:
        self.ended_file, self._states, self.asked = path, states, 0

    def states(self) -> dict[str, str]:
        self.asked += 1
        if self._states is None:
            raise SlurmSilent("squeue: Slurm's controller does not run")
        return self._states


def job(name: str, number: str = "", at: str = AT, state: str = "RUNNING") -> QueuedJob:
    return QueuedJob(name, state, ("spot",), 1, "None", "", 0.0, None, "", "x", number or name, at)


def states_of(events: Events) -> dict[str, str]:
    return {one["job"]: one["state"] for one in events.newest() if one["kind"] == "job_ended"}


def test_ends_come_from_the_record_and_from_one_question_for_all_others(tmp_path: Path) -> None:
    lines = [(7, "COMPLETED", AT), (10, "FAILED", AT), (8, "NODE_FAIL", AT), (9, "COMPLETED", EARLY)]
    record = tmp_path / "ends.txt"
    record.write_text("".join(RECORD.format(job=number, state=state, at=at) for number, state, at in lines))
    queue = _Queue(record, {"8": "NODE_FAIL", "9": "TIMEOUT", "12": "RUNNING"})
    events = Events(tmp_path / "events.jsonl")
    telling = Telling(Ends(queue).of, events)  # type: ignore[arg-type]
    telling.look({}, [job("7"), job("9_1", "10"), job("8"), job("9"), job("11"), job("12")])
    telling.look({}, [])
    ended = {"7": "completed", "9_1": "failed", "8": "node_fail", "9": "timeout", "11": "unknown"}
    assert (states_of(events), queue.asked) == (ended, 1)
    assert list(telling.jobs) == ["12"], "Slurm says that it runs, so it is not over"
    telling.close({}, "cancelled")
    assert states_of(events)["12"] == "cancelled"


def test_a_line_that_a_full_disk_cut_off_is_left_out(tmp_path: Path) -> None:
    record = tmp_path / "ends.txt"
    record.write_text(
        "end 1" + RECORD.format(job=7, state="COMPLETED", at=AT) + RECORD.format(job=8, state="FAILED", at=AT)
    )
    assert recorded_ends(record) == {("8", AT): "FAILED"}


def test_ends_wait_while_slurm_is_silent_and_a_completed_job_is_never_unknown(tmp_path: Path) -> None:
    record, events = tmp_path / "ends.txt", Events(tmp_path / "events.jsonl")
    queue = _Queue(record, None)
    telling = Telling(Ends(queue).of, events)  # type: ignore[arg-type]
    telling.look({}, [job("7"), job("8")])
    for _ in range(2):
        with pytest.raises(ProgramFailed):
            telling.look({}, [])
    assert states_of(events) == {}
    assert queue.asked == 2, "once in a look, and not for each job"
    record.write_text(RECORD.format(job=7, state="COMPLETED", at=LATER) + RECORD.format(job=8, state="FAILED", at=AT))
    telling.look({}, [])
    assert states_of(events) == {"7": "completed", "8": "failed"}
    assert queue.asked == 2


def test_a_command_is_given_up_when_nobody_can_answer_it() -> None:
    wait = [sys.executable, "-c", "import time; time.sleep(60)"]
    began_s = time.monotonic()
    with pytest.raises(ProgramSilent, match="it is gone"):
        run(wait, is_vain=lambda: "it is gone" if time.monotonic() - began_s > 0.5 else "")
    with pytest.raises(ProgramSilent, match=r"does not answer within 0\.2 s"):
        run(wait, timeout_s=0.2, is_vain=lambda: "")
    assert time.monotonic() - began_s < 10
    assert run([sys.executable, "-c", "print('x' * 99999)"], is_vain=lambda: "").strip() == "x" * 99999


def test_a_command_of_a_slurm_that_does_not_run_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ClusterWanted(name="lab", shared=str(tmp_path), pools=WANTED.pools)
    slurm = Slurm(wanted, "127.0.0.1")
    (tmp_path / "squeue").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setattr("app.managing.programs.SYSTEM_PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    began_s = time.monotonic()
    with pytest.raises(SlurmSilent, match="controller does not run"):
        slurm.states()
    assert time.monotonic() - began_s < 5


class _Cluster:
    """A cluster whose Slurm runs or not, and munged, and what was done to it."""

    def __init__(self, folder: Path, *, runs: bool, has_munge: bool) -> None:
        self.wanted, self.events, self.did = WANTED, Events(folder / "events.jsonl"), list[str]()
        self.slurm, self.machines, self.buyer, self.market = self, self, self, self
        self.folder, self._runs, self._has_munge = folder, runs, has_munge

    def runs(self) -> bool:
        return self._runs

    def has_munge(self) -> bool:
        return self._has_munge

    def end_hung(self) -> str:
        return ""

    def mend(self) -> None:
        self.did.append("mend")
        self._runs = self._has_munge = True

    def start_munge(self) -> None:
        self.did.append("munge")
        self._has_munge = True

    def there(self) -> dict[str, bool]:
        return {}

    def drain(self, name: str, _why: str) -> None:
        self.did.append(f"drain {name}")
        raise SlurmSilent("scontrol: Slurm's controller does not run")

    def nodes(self) -> dict[str, tuple[NodeState, bool]]:
        return {}

    def start(self, *_: Any) -> None:
        self.did.append("bought")

    new_node = start


def manager_of(cluster: _Cluster) -> Manager:
    return Manager(cluster, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("runs", "has_munge", "did", "told"),
    [
        (True, True, [], []),
        (False, True, ["mend"], ["slurm_started"]),
        (False, False, ["mend"], ["slurm_started"]),
        (True, False, ["munge"], ["munge_started"]),
    ],
)
def test_each_daemon_of_slurms_that_died_is_started(
    tmp_path: Path, runs: bool, has_munge: bool, did: list[str], told: list[str]
) -> None:
    cluster = _Cluster(tmp_path, runs=runs, has_munge=has_munge)
    manager = manager_of(cluster)
    for _ in range(2):
        manager._mend_slurm()
    assert (cluster.did, [one["kind"] for one in cluster.events.newest()]) == (did, told)


def test_nothing_is_bought_from_a_look_before_slurm_fell_silent(tmp_path: Path) -> None:
    cluster = _Cluster(tmp_path, runs=True, has_munge=True)
    retire, buy = Action(Deed.RETIRE, "lab-spot-1", "idle"), Action(Deed.BUY, "7", "job 7 waits", ("spot",))
    assert not manager_of(cluster)._act([retire, retire._replace(name="lab-spot-2"), buy])
    assert cluster.did == ["drain lab-spot-1"], "the others would only wait for the same answer"


def test_a_daemon_of_slurms_that_lives_and_does_not_answer_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = replace(WANTED, shared=str(tmp_path))
    silent, killed, at_s = {"squeue", "munge"}, list[str](), [1000.0]

    def answer(arguments: list[str], *_: object, **__: object) -> str:
        if arguments[0] in silent:
            raise ProgramSilent(f"{arguments[0]} does not answer within 12 s")
        return ""

    monkeypatch.setattr(slurm, "run", answer)
    monkeypatch.setattr(slurm, "kill_daemon", lambda _file, name: killed.append(name) or name)
    monkeypatch.setattr(slurm.time, "monotonic", lambda: at_s[0])
    found = Slurm(wanted, "10.77.0.1")
    assert found.end_hung() == ""
    with pytest.raises(SlurmSilent):
        found.jobs()
    assert found.end_hung() == "munged", "at once, as it keeps nothing"
    silent.remove("munge")
    assert found.end_hung() == ""
    at_s[0] += slurm.HANGS_S
    assert found.end_hung() == "slurmctld"
    assert found.end_hung() == "", "the new one has as long"
    with pytest.raises(SlurmSilent):
        found.jobs()
    silent.clear()
    found.jobs()
    at_s[0] += slurm.HANGS_S
    assert found.end_hung() == "", "it has answered meanwhile"
    assert killed == ["munged", "slurmctld"]
