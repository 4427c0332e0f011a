"""Checkpoints and locks that no other user of a cluster may see or hold."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.managing.batch import BatchCluster
from app.managing.checkpointing import job
from app.managing.checkpointing.folders import JobFolder


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_nobody_else_looks_into_the_folder_of_a_job(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "checkpoints" / "7")
    folder.prepare()
    assert mode_of(folder.path) == 0o700
    folder.path.chmod(0o755)
    folder.prepare()
    assert mode_of(folder.path) == 0o700, "of an older version"
    folder.set_aside()
    assert mode_of(folder.path) == mode_of(tmp_path / "checkpoints" / "7.old-1") == 0o700


def test_nobody_else_holds_the_managers_lock(tmp_path: Path) -> None:
    slurm = SimpleNamespace(folder=tmp_path, conf=tmp_path / "slurm.conf")
    slurm.conf.touch()
    lock = tmp_path / "manager.lock"
    lock.touch(mode=0o644)
    cluster = BatchCluster.__new__(BatchCluster)
    cluster.slurm = slurm  # type: ignore[assignment]
    with cluster.managed():
        assert mode_of(lock) == 0o600


def test_a_job_of_another_user_runs_without_checkpoints_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    began = list[list[str]]()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "access", lambda path, mode: (path, mode) != (tmp_path, os.W_OK))
    monkeypatch.setattr(job, "give_way", began.append)
    monkeypatch.setattr(job, "JobRun", lambda *_: SimpleNamespace(run=lambda: 0))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    job.main(["--folder", str(tmp_path), "--driver", "signal", "train", "-x"])
    assert began == [["train", "-x"]]
    assert "without checkpoints: only root" in capsys.readouterr().err
